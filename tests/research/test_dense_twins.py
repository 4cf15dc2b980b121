"""The solvers against the paper's methods written down with dense arrays, iterate by iterate."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest

import tensormend as tm
from tensormend.core.algebra import Array
from tensormend.recovery.steps import ConstantStep, NormalizedStep, StepRule
from tensormend.research.experiments import dense, fast_dense

pytestmark = pytest.mark.numerical

# The iterative eigen-solver behind the truncation of sampled data stops at a relative residual of
# 1e-12, which a small gap in the singular values of A* y magnifies.
SAMPLED_TOL = 1e-10
# The dense path is exact as the twins are, so only rounding sets them apart.
MATRIX_TOL = 1e-12
# Few steps: near its limit the normalized step of hard thresholding is a ratio of vanishing
# numbers, ||F(G)|| << ||G||, and the method itself then magnifies rounding.
N_STEPS = 8

STEPS: dict[str, StepRule] = {"constant": ConstantStep(), "normalized": NormalizedStep()}
CASES = {
    "cubic": ((14, 14, 14), (2, 2, 2), 0.4),
    "anisotropic": ((18, 9, 13), (2, 3, 4), 0.5),
    "narrow": ((5, 12, 11), (3, 2, 3), 0.6),  # fewer than 2r directions in mode 0
    "order 4": ((7, 8, 9, 6), (2, 2, 3, 2), 0.4),
}
SAMPLED_CASES = CASES | {
    "large": ((60, 25, 30), (2, 3, 2), 0.3),  # large enough for the eigen-solver to restart
}


def make_data(case: str, seed: int = 0) -> tuple[Array, Array, tuple[int, ...]]:
    shape, rank, ratio = SAMPLED_CASES[case]
    rng = np.random.default_rng(seed)
    truth = tm.simulate.gaussian_tucker(shape, rank, rng=rng).todense()
    noise = 1e-2 * np.linalg.norm(truth) / np.sqrt(truth.size) * rng.standard_normal(shape)
    return truth + noise, rng.random(shape) < ratio, rank


def make_methods(d: int) -> dict[str, tuple[Any, Any, dict[str, Any]]]:
    """Solver class, dense generator, and the options both of them take."""
    last = d - 1
    order = (1, 0, *range(2, d))
    return {
        "TIHT": (tm.solvers.TIHT, dense.tiht, {}),
        "SeMPIHT": (tm.solvers.SeMPIHT, dense.sempiht, {}),
        "SeMPIHT order": (tm.solvers.SeMPIHT, dense.sempiht, {"mode_order": order}),
        "RGD": (tm.solvers.RGD, dense.rgd, {}),
        "SMQRGD tangent mode 0": (tm.solvers.SMQRGD, dense.smqrgd, {"tangent_mode": 0}),
        "SMQRGD tangent mode 1": (tm.solvers.SMQRGD, dense.smqrgd, {"tangent_mode": 1}),
        "SMQRGD last tangent mode": (tm.solvers.SMQRGD, dense.smqrgd, {"tangent_mode": last}),
        "SMQRGD order": (tm.solvers.SMQRGD, dense.smqrgd, {"mode_order": order}),
    }


METHOD_NAMES = tuple(make_methods(3))


def run_solver(solver: Any, problem: tm.Problem) -> Iterator[tuple[Array, float]]:
    state = solver.init(problem, None)
    while True:
        yield state.x.todense(), state.step_size
        state = solver.step(problem, state)


def assert_twins(
    problem: tm.Problem, data: Array, mask: Array, method: str, step: str, tol: float
) -> None:
    solver, twin, options = make_methods(data.ndim)[method]
    ours = run_solver(solver(step_rule=STEPS[step], **options), problem)
    theirs = twin(data, mask, problem.rank, step=step, **options)
    previous = np.zeros_like(data)
    for k, ((x, alpha), other) in enumerate(islice(zip(ours, theirs, strict=True), N_STEPS + 1)):
        size = np.linalg.norm(other.x)
        assert np.linalg.norm(x - other.x) <= tol * size, f"iterate {k}"
        move = np.linalg.norm(x - previous)
        assert move > 1e3 * tol * size, f"iterate {k} has not moved"
        if k > 0:
            # a ratio of norms of a direction, which is about as long as the move and has the
            # rounding errors of the iterate
            assert alpha == pytest.approx(other.step_size, rel=float(tol * size / move))
        previous = x


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("method", METHOD_NAMES)
@pytest.mark.parametrize("case", SAMPLED_CASES)
def test_sampled_solvers_equal_their_dense_twins(case: str, method: str, step: str) -> None:
    data, mask, rank = make_data(case)
    problem = tm.Problem(tm.Sampling.from_observed(mask), data[mask], rank)
    assert_twins(problem, data, mask, method, step, SAMPLED_TOL)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("method", METHOD_NAMES)
@pytest.mark.parametrize("case", CASES)
def test_matrix_solvers_equal_their_dense_twins(case: str, method: str, step: str) -> None:
    data, mask, rank = make_data(case)
    selection = np.zeros((mask.sum(), data.size))
    selection[np.arange(len(selection)), np.flatnonzero(mask)] = 1
    problem = tm.Problem(tm.MatrixOperator(selection, data.shape), data[mask], rank)
    assert_twins(problem, data, mask, method, step, MATRIX_TOL)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("modes", [(2, 1, 0), (0, 2, 1), (1, 0, 2)])
def test_arranged_problem_has_the_same_iterates(modes: tuple[int, ...], step: str) -> None:
    data, mask, rank = make_data("anisotropic")
    problem = tm.Problem(tm.Sampling.from_observed(mask), data[mask], rank).arranged(modes)
    for method in ("RGD", "SMQRGD tangent mode 1"):
        assert_twins(problem, data, mask, method, step, SAMPLED_TOL)


@pytest.mark.parametrize("twin", [dense.tiht, dense.sempiht, dense.rgd, dense.smqrgd])
def test_dense_methods_complete_a_tensor(twin: Any) -> None:
    truth = tm.simulate.gaussian_tucker((16, 16, 16), 2, rng=1).todense()
    mask = np.random.default_rng(2).random(truth.shape) < 0.5
    hidden = np.where(mask, truth, np.nan)  # what the mask hides must not matter
    *_, last = islice(twin(hidden, mask, 2), 60)
    assert np.linalg.norm(last.x - truth) <= 1e-6 * np.linalg.norm(truth)


def test_dense_smqrgd_stays_in_its_tangent_space() -> None:
    """Lemma 3.1: the projection at X-hat leaves X as it is."""
    data, mask, rank = make_data("anisotropic")
    order = (1, 0, 2)
    state = dense.smqrgd_init(np.where(mask, data, 0.0), rank, order)
    for _ in range(3):
        g = np.where(mask, data - state.x, 0.0)
        state = dense.smqrgd_threshold(state.x + g, state, order)
    kept = dense.smqrgd_threshold(state.x, state, order)
    np.testing.assert_allclose(kept.x, state.x, atol=1e-12)


def test_shared_contractions_change_nothing() -> None:
    data, mask, rank = make_data("order 4")
    state = dense.thosvd(np.where(mask, data, 0.0), rank)
    g = np.where(mask, data - state.x, 0.0)
    one = dense.rgd_threshold(state.x + g, state)
    two = dense.rgd_threshold(state.x + g, state, dense.contract_shared)
    np.testing.assert_allclose(one.x, two.x, atol=1e-12)


# The fast versions are exact in other ways, so that only rounding sets them apart from the twins.
FAST_TOL = 1e-11


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("method", METHOD_NAMES)
@pytest.mark.parametrize("case", CASES)
def test_fast_dense_methods_equal_their_twins(case: str, method: str, step: str) -> None:
    data, mask, rank = make_data(case)
    _, twin, options = make_methods(data.ndim)[method]
    variants: list[dict[str, Any]] = [{}]
    if method == "RGD":
        variants.append({"shared": False})
    for extra in variants:
        fast = getattr(fast_dense, twin.__name__)
        hidden = np.where(mask, data, np.nan)
        ours = fast(hidden, mask, rank, step=step, **options, **extra)
        theirs = twin(data, mask, rank, step=step, **options)
        for found, expected in islice(zip(ours, theirs, strict=True), N_STEPS + 1):
            size = np.linalg.norm(expected.x)
            assert np.linalg.norm(found.x - expected.x) <= FAST_TOL * size
            np.testing.assert_allclose(found.step_size, expected.step_size, rtol=1e-9)


@pytest.mark.parametrize("method", ["tiht", "sempiht", "rgd", "smqrgd"])
def test_fast_dense_methods_on_uneven_singular_values(method: str) -> None:
    """Where Gram matrices would lose digits, the exact decompositions are taken."""
    rng = np.random.default_rng(0)
    factors = [np.linalg.qr(rng.standard_normal((n, 3)))[0] for n in (14, 15, 16)]
    core = np.zeros((3, 3, 3))
    core[range(3), range(3), range(3)] = 1.0, 1e-3, 1e-5
    data = tm.Tucker(core, tuple(factors)).todense()
    mask = rng.random(data.shape) < 0.98
    ours = getattr(fast_dense, method)(data, mask, 3, step="constant")
    theirs = getattr(dense, method)(data, mask, 3, step="constant")
    for found, expected in islice(zip(ours, theirs, strict=True), N_STEPS + 1):
        assert np.linalg.norm(found.x - expected.x) <= 1e-10 * np.linalg.norm(expected.x)
