"""Peak memory of a large completion, measured in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tensormend.core import kernels

LIMIT = 2 * 2**30

RUN = """
import resource, sys
import tensormend as tm
shape = (1000, 1000, 1000)
truth = tm.simulate.random_tucker(shape, 5, rng=0)
indices = tm.simulate.sample_indices(shape, 0.01, rng=1)
operator = tm.Sampling(shape, indices)
del indices
values = operator.forward(truth)
result = tm.recover(operator, values, 5, method=sys.argv[1], truth=truth, tol=0, max_iter=2)
errors = result.history.error
sys.stdout.write(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024} {errors[-1]}")
"""


@pytest.mark.skipif(not kernels.is_native, reason="the bound holds for the compiled kernels")
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak in Linux units")
@pytest.mark.parametrize("method", ["rgd", "sm-qrgd"])
def test_a_billion_entries_under_two_gigabytes(method: str) -> None:
    """Ten million of a billion entries: peak memory is reached within the first iterations."""
    out = subprocess.run(  # noqa: S603
        [sys.executable, "-c", RUN, method], check=True, capture_output=True, text=True
    ).stdout
    peak, error = map(float, out.split())
    assert peak < LIMIT
    assert error < 1
