"""The package without its compiled kernels: one warning, the same answers."""

from __future__ import annotations

import subprocess
import sys

from tensormend import kernels

RUN = """
import sys, warnings
sys.modules["tensormend.kernels._native"] = None  # as if it had not been built
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import tensormend as tm
from tensormend import kernels
assert not kernels.is_native
assert [w.category.__name__ for w in caught] == ["NativeKernelWarning"], caught
assert caught[0].filename == "<string>", caught[0].filename
truth = tm.simulate.random_tucker((12, 13, 14), 2, rng=0)
operator = tm.Sampling(truth.shape, tm.simulate.sample_indices(truth.shape, 0.5, rng=1))
for method in ("sm-qrgd", "rgd", "sempiht", "tiht"):
    result = tm.recover(operator, operator.forward(truth), 2, method=method, tol=1e-9)
    assert result.success
    sys.stdout.write(f"{method} {result.n_iter} {result.x.distance(truth) / truth.norm()}\\n")
"""


def test_everything_works_without_compiled_kernels() -> None:
    run = subprocess.run(  # noqa: S603
        [sys.executable, "-c", RUN], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    rows = [line.split() for line in run.stdout.splitlines()]
    assert len(rows) == 4
    assert all(float(error) < 1e-7 for _, _, error in rows)


def test_every_native_kernel_has_a_twin() -> None:
    names = set(kernels.__all__) - {"is_native", "reference", "thread_count"}
    assert names == set(kernels.reference.__all__)
