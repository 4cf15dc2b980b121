"""The package without its compiled kernels: one warning, the same answers."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tensormend.core import kernels

pytestmark = pytest.mark.numerical

LOAD = "from tensormend.core import kernels"
RUN = """
import sys, warnings
sys.modules["tensormend.core.kernels._native"] = None  # as if it had not been built
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import tensormend as tm
    tm.Sampling  # loads the kernels
from tensormend.core import kernels
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


def run_with(choice: str, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TENSORMEND_KERNELS": choice},
    )


def test_everything_works_without_compiled_kernels() -> None:
    run = run_with("", RUN)
    assert run.returncode == 0, run.stderr
    rows = [line.split() for line in run.stdout.splitlines()]
    assert len(rows) == 4
    assert all(float(error) < 1e-7 for _, _, error in rows)


def test_every_native_kernel_has_a_twin() -> None:
    others = {"Tree", "is_native", "panel_kernels", "reference", "thread_count"}
    names, twins = set(kernels.__all__) - others, set(kernels.reference.__all__)
    assert names == {name for name in twins if not name.startswith("panel_")}
    assert all(callable(getattr(kernels.active, name)) for name in twins)


def test_kernels_are_chosen_by_a_variable() -> None:
    twins = run_with("numpy", f"{LOAD}; raise SystemExit(kernels.is_native)")
    assert (twins.returncode, twins.stderr) == (0, "")  # asked for, so there is no warning
    wrong = run_with("sse9", LOAD)
    assert wrong.returncode == 1
    assert "TENSORMEND_KERNELS must be one of numpy, " in wrong.stderr or not kernels.is_native
    without = "import sys; sys.modules['tensormend.core.kernels._native'] = None"
    missing = run_with("baseline", f"{without}; {LOAD}")
    assert missing.returncode == 1
    assert "the compiled kernels are not available" in missing.stderr
