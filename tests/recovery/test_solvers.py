from __future__ import annotations

import time
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tensormend as tm
from cases import ACCELERATED, METHODS, PAPER_METHODS, SOLVERS, STEPPED, STEPS, TIED, sampled
from tensormend import theory
from tensormend.core import subspaces, tucker
from tensormend.core.kernels import reference
from tensormend.core.manifold import ModeTangent, TuckerTangent
from tensormend.operators import spectral
from tensormend.recovery import registry
from tensormend.recovery.contract import IterationCost, cost_of
from tensormend.recovery.init import spectral_init
from tensormend.recovery.loop import solve
from tensormend.recovery.solvers import RCG, RGD, RGN, SMQRGD, Auto
from tensormend.recovery.solvers.smqrgd import choose_tangent_mode
from tensormend.recovery.steps import ConstantStep, NormalizedStep
from tensormend.recovery.stopping import StoppingCriteria
from tensormend.testing import ConformanceError, check_solver

pytestmark = pytest.mark.numerical


def sensed(dtype: str = "float64") -> tuple[tm.Tucker, tm.Problem]:
    truth = tm.simulate.random_tucker((8, 9, 10), (2, 3, 2), rng=0, dtype=dtype)
    operator = tm.MatrixOperator.gaussian(truth.shape, 500, rng=1, dtype=dtype)
    return truth, tm.Problem(operator, operator.forward(truth), truth.rank)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("kind", ["sampling", "complex sampling", "matrix"])
def test_conformance(kind: str, name: str, step: str) -> None:
    dtype = "complex128" if kind.startswith("complex") else "float64"
    problem = (
        sensed()[1] if kind == "matrix" else sampled((14, 15, 16), (2, 3, 2), 0.5, dtype=dtype)[1]
    )
    # step 1 with 500 Gaussian measurements of 720 unknowns is too long for hard thresholding
    rule = STEPS[step]
    if step == "constant" and name == "scaledgd":
        rule = ConstantStep(0.4)  # core and factors move at once
    elif step == "constant" and kind == "matrix":
        rule = ConstantStep(0.6)
    check_solver(lambda: SOLVERS[name](rule), problem)


@pytest.mark.parametrize("name", ACCELERATED)
@pytest.mark.parametrize("kind", ["sampling", "complex sampling", "matrix"])
def test_conformance_of_accelerated_solvers(kind: str, name: str) -> None:
    dtype = "complex128" if kind.startswith("complex") else "float64"
    problem = (
        sensed()[1] if kind == "matrix" else sampled((14, 15, 16), (2, 3, 2), 0.5, dtype=dtype)[1]
    )
    check_solver(ACCELERATED[name], problem)


class Forgetful(SMQRGD):
    """An SM-QRGD whose checkpoint loses the row space of X-hat."""

    def load(self, problem: tm.Problem, arrays: Any) -> Any:
        return self.init(problem, tm.Tucker.from_arrays(arrays))


def test_conformance_finds_a_broken_solver() -> None:
    with pytest.raises((ConformanceError, tm.errors.CheckpointError)):
        check_solver(lambda: Forgetful(NormalizedStep()), sampled((14, 15, 16), (2, 3, 2), 0.5)[1])


@pytest.mark.parametrize("method", PAPER_METHODS)
@pytest.mark.parametrize("step", STEPS)
def test_the_paper_setting(method: str, step: str) -> None:
    """n=100, r=5, rho=0.3: about 75 iterations to 1e-10 with the constant step for every method,
    and with the normalized step about 18 for SM-QRGD and 13 for the others."""
    truth = tm.simulate.gaussian_tucker((100, 100, 100), 5, rng=0)
    operator = tm.Sampling(truth.shape, tm.simulate.sample_indices(truth.shape, 0.3, rng=1))
    result = tm.recover(
        operator,
        operator.forward(truth),
        5,
        method=method,
        step=step,
        truth=truth,
        tol=0,
        truth_tol=1e-10,
        max_iter=150,
    )
    assert result.success
    assert result.history.error[-1] <= 1e-10
    expected = 75 if step == "constant" else 18 if method == "sm-qrgd" else 13
    assert abs(result.n_iter - expected) <= 3


@pytest.mark.parametrize(
    ("method", "step"),
    [(m, s) for m in PAPER_METHODS for s in (0.7, "normalized")]
    + [(m, None) for m in METHODS if m not in PAPER_METHODS],
)
@pytest.mark.parametrize(
    ("shape", "rank", "ratio"),
    [
        ((12, 13, 14, 15), (2, 3, 2, 3), 0.4),
        ((20, 60, 100), (2, 4, 6), 0.3),
        ((40, 50), (3, 3), 0.6),
        ((6, 7, 6, 5, 6), (2, 2, 1, 2, 2), 0.6),
        ((5, 40, 30), (5, 6, 2), 0.6),
    ],
    ids=["order 4", "anisotropic", "matrix", "order 5", "full rank in a mode"],
)
def test_recovers_any_order_and_shape(
    method: str, step: Any, shape: tuple[int, ...], rank: tuple[int, ...], ratio: float
) -> None:
    truth, problem = sampled(shape, rank, ratio)
    result = tm.recover(
        problem.operator, problem.y, rank, method=method, step=step, truth=truth,
        tol=0, truth_tol=1e-10, max_iter=1000,
    )  # fmt: skip
    assert result.success, result.message


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
def test_recovers_in_every_data_type(method: str, dtype: str) -> None:
    truth, problem = sampled((15, 16, 17), (2, 3, 2), 0.5, dtype=dtype)
    tol = 1e2 * float(np.finfo(dtype).eps)
    result = tm.recover(problem.operator, problem.y, (2, 3, 2), method=method, tol=tol)
    assert result.success
    assert result.x.dtype == dtype
    assert result.x.distance(truth) < 1e2 * tol * truth.norm()


@pytest.mark.parametrize("method", METHODS)
def test_recovers_from_gaussian_measurements(method: str) -> None:
    truth, problem = sensed()
    result = tm.recover(problem.operator, problem.y, problem.rank, method=method, tol=1e-9)
    assert result.success
    assert result.x.distance(truth) < 1e-7 * truth.norm()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("start", ["spectral", "corrected", "random"])
def test_every_start_leads_home(method: str, start: str) -> None:
    truth, problem = sampled((20, 21, 22), (2, 2, 2), 0.5)
    result = tm.recover(
        problem.operator, problem.y, 2, method=method, init=start, rng=0, tol=1e-9, max_iter=2000
    )
    assert result.success
    assert result.x.distance(truth) < 1e-7 * truth.norm()


def test_the_corrected_start_is_nearer_when_samples_are_few() -> None:
    """The correction removes the excess of the Gram diagonal, which dominates at 2%."""
    truth, problem = sampled((100, 100, 100), 5, 0.02)
    plain = RGD().init(problem, None).x
    corrected = tm.init.corrected_init(problem)

    def angle(x: tm.Tucker) -> float:
        gaps = [
            np.linalg.norm(u - w @ (w.T @ u)) for u, w in zip(truth.factors, x.factors, strict=True)
        ]
        return float(np.linalg.norm(gaps))

    assert angle(corrected) < 0.85 * angle(plain)


@pytest.mark.parametrize("rank", [3, 5])
@pytest.mark.parametrize("snr", [60, 80, 100])
def test_noise_floor(snr: float, rank: int) -> None:
    """All methods end at one relative error, to three digits, and it is the one to expect.

    Least squares on the manifold of dimension ``D`` leaves a fraction ``D / m`` of the noise: for
    n=100, rho=0.3 at 60 dB that is 5.5e-5 for rank 3 and 7.2e-5 for rank 5.
    """
    truth = tm.simulate.gaussian_tucker((100, 100, 100), rank, rng=0)
    operator = tm.Sampling(truth.shape, tm.simulate.sample_indices(truth.shape, 0.3, rng=1))
    sigma = tm.simulate.noise_level(truth, snr)
    y = tm.simulate.add_noise(operator.forward(truth), sigma, rng=2)
    errors = [
        tm.recover(
            operator,
            y,
            rank,
            method=method,
            truth=truth,
            tol=0,
            xtol=1e-5 * 10 ** (-snr / 20),
        ).history.error[-1]
        for method in METHODS
    ]
    assert max(errors) / min(errors) - 1 < 1e-3
    expected = np.sqrt(truth.n_parameters / operator.n_measurements) * 10 ** (-snr / 20)
    assert errors[0] == pytest.approx(expected, rel=0.1)


def test_lemma_3_1_on_real_iterates() -> None:
    """P(X^k) = X^k: the iterate lies in the tangent space of X-hat, which it is not equal to."""
    _, problem = sampled((12, 13, 14), (2, 3, 4), 0.3)
    for tangent_mode in range(3):
        solver = SMQRGD(NormalizedStep(), tangent_mode=tangent_mode)
        state = solver.init(problem, None)
        for _ in range(5):
            x = state.x.todense()
            tangent = ModeTangent.project(tangent_mode, state.tangent.left, state.tangent.rows, x)
            assert np.linalg.norm(tangent.todense(x.shape) - x) < 1e-13 * np.linalg.norm(x)
            # not trivial: X-hat, whose rows span the tangent space, differs from X
            matrix = np.moveaxis(x, tangent_mode, 0).reshape(x.shape[tangent_mode], -1)
            outside = matrix - (matrix @ state.tangent.rows.conj()) @ state.tangent.rows.T
            assert np.linalg.norm(outside) > 1e-6 * np.linalg.norm(x)
            state = solver.step(problem, state)


@dataclass(frozen=True, eq=False)
class Move:
    """A step from ``left base^T`` along a tangent vector, and the matrix that it leads to."""

    base: np.ndarray[Any, Any]
    tangent: ModeTangent
    whole: np.ndarray[Any, Any]

    @classmethod
    def draw(
        cls,
        values: list[float],
        size: float,
        dtype: str,
        n_rows: int = 300,
        n: int | None = None,
    ) -> Move:
        """Singular values of the point, and the size of the tangent vector beside them."""
        rng, r = np.random.default_rng(7), len(values)
        is_complex = np.dtype(dtype).kind == "c"

        def draw(*shape: int) -> np.ndarray[Any, Any]:
            x = rng.standard_normal(shape)
            return x + 1j * rng.standard_normal(shape) if is_complex else x

        n = 10 + 2 * r if n is None else n
        left, rows = (np.linalg.qr(draw(k, r))[0] for k in (n, n_rows))
        base = (rows * values) @ np.linalg.qr(draw(r, r))[0]
        along = size * draw(n, r)
        along -= left @ (left.conj().T @ along)
        across = size * draw(n_rows, r) / np.sqrt(n_rows)
        left, rows, base, across, along = (
            part.astype(dtype) for part in (left, rows, base, across, along)
        )
        whole = left @ (base + 0.5 * across).T + 0.5 * along @ rows.T
        return cls(base, ModeTangent(0, left, rows, across, along), whole)

    def check(self, found: tuple[np.ndarray[Any, Any], ...]) -> None:
        """The truncated SVD to 1e-13 of the largest singular value, orthonormal to 1e-14."""
        left, values, rows = found
        assert left.dtype == rows.dtype == self.whole.dtype
        assert values.dtype == self.whole.real.dtype
        r = len(values)
        u, s, vh = np.linalg.svd(self.whole, full_matrices=False)
        unit = float(np.finfo(values.dtype).eps / np.finfo(float).eps)
        assert np.linalg.norm(values - s[:r]) < 1e-13 * unit * s[0]
        for panel in (left, rows):
            assert np.abs(panel.conj().T @ panel - np.eye(r)).max() < 1e-14 * unit
        expected = (u[:, :r] * s[:r]) @ vh[:r]
        assert np.linalg.norm((left * values) @ rows.T - expected) < 1e-13 * unit * s[0]


# largest over smallest singular value of the point: Gram matrices are used up to about 90
EVENNESS = (1.0, 10.0, 80.0, 100.0, 1e4, 1e8)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("ratio", EVENNESS)
@pytest.mark.parametrize("size", [0.1, 1e-3, 1e-6, 1e-9, 1e-12, 0.0])
def test_single_mode_retraction_is_the_truncated_svd(size: float, ratio: float, dtype: str) -> None:
    """Where the panels of point and tangent space nearly cancel, too."""
    move = Move.draw([1.0, ratio**-0.5, 1 / ratio], size / ratio, dtype)
    move.check(move.tangent.retract(0.5, move.base))


def test_both_ways_of_the_single_mode_retraction_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow, n_slow = ModeTangent._retract_by_qr, 0

    def count(*given: Any) -> Any:
        nonlocal n_slow
        n_slow += 1
        return slow(*given)

    monkeypatch.setattr(ModeTangent, "_retract_by_qr", count)
    for ratio in EVENNESS:
        move = Move.draw([1.0, ratio**-0.5, 1 / ratio], 1e-3 / ratio, "float64")
        move.check(move.tangent.retract(0.5, move.base))
    assert n_slow == sum(ratio > 90 for ratio in EVENNESS)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("ratio", [1.0, 5.0, 10.0, 1e3])
@pytest.mark.parametrize("size", [0.1, 1e-3, 1e-5])
def test_single_mode_retraction_in_single_precision(size: float, ratio: float, dtype: str) -> None:
    move = Move.draw([1.0, ratio**-0.5, 1 / ratio], size / ratio, dtype)
    move.check(move.tangent.retract(0.5, move.base))


@pytest.mark.parametrize("ratio", [10.0, 1e4])
@pytest.mark.parametrize(("n", "n_rows"), [(3, 300), (4, 300), (16, 5), (16, 70_001)])
def test_single_mode_retraction_of_other_shapes(n: int, n_rows: int, ratio: float) -> None:
    """Of few rows or columns, and of panels that are cut into blocks and chunks."""
    move = Move.draw([1.0, ratio**-0.5, 1 / ratio], 1e-3 / ratio, "float64", n_rows, n)
    one = move.tangent.retract(0.5, move.base, 1)
    move.check(one)
    for part, again in zip(one, move.tangent.retract(0.5, move.base, 3), strict=True):
        np.testing.assert_array_equal(part, again)


def test_a_step_that_is_not_finite_ends_the_run() -> None:
    truth, problem = sampled((12, 13, 14), 2, 0.4)
    result = tm.recover(
        problem.operator, problem.y, truth.rank, method=SMQRGD(ConstantStep(1e300)), max_iter=20
    )
    assert result.status is tm.Status.DIVERGED
    assert np.isfinite(result.x.core).all()


@pytest.mark.parametrize("r", [1, 2, 5, 8, 33])
def test_single_mode_retraction_at_other_ranks(r: int) -> None:
    """With a number of rows that is no multiple of a block, and on both sides of the rank limit."""
    move = Move.draw(list(np.linspace(3, 1, r)), 1e-3, "float64", n_rows=5003)
    move.check(move.tangent.retract(0.5, move.base))


def test_normalized_steps_are_the_exact_minimizers() -> None:
    """The step of the paper minimizes the loss along the direction: compare a parabola."""
    _, problem = sampled((12, 13, 14), 2, 0.4)
    state = RGD().init(problem, None)
    alpha = RGD().step(problem, state).step_size

    def loss(a: float) -> float:
        x = state.tangent.shifted(a)
        return float(np.linalg.norm(problem.operator.forward(x) - problem.y) ** 2)

    a, b, c = np.polyfit([0, alpha / 2, alpha], [loss(0), loss(alpha / 2), loss(alpha)], 2)
    assert -b / (2 * a) == pytest.approx(alpha, rel=1e-8)
    assert c == pytest.approx(2 * state.loss)


def test_tucker_tangent_against_its_definition() -> None:
    """The projection is orthogonal, idempotent, and its parts are orthogonal to each other."""
    rng = np.random.default_rng(0)
    x = tm.simulate.random_tucker((5, 6, 7), (2, 3, 2), rng=0, dtype="complex128")
    z = rng.standard_normal(x.shape) + 1j * rng.standard_normal(x.shape)
    tangent = TuckerTangent.project(x, z)
    dense = tangent.as_tucker().todense()
    assert tangent.squared_norm() == pytest.approx(np.linalg.norm(dense) ** 2)
    again = TuckerTangent.project(x, dense).as_tucker().todense()
    assert np.allclose(again, dense)
    other = TuckerTangent.project(x, rng.standard_normal(x.shape) + 0j).as_tucker().todense()
    assert abs(np.vdot(other, z - dense)) < 1e-10
    # the slow way: least squares over all tangent directions
    columns = []
    for index in np.ndindex(*x.rank):
        core = np.zeros(x.rank)
        core[index] = 1
        columns.append(tm.Tucker(core, x.factors).todense().ravel())
    for k in range(3):
        for i, a in np.ndindex(x.shape[k], x.rank[k]):
            factors = list(x.factors)
            factors[k] = np.zeros_like(factors[k])
            factors[k][i, a] = 1
            columns.append(tm.Tucker(x.core, tuple(factors)).todense().ravel())
    basis = np.array(columns).T
    best = basis @ np.linalg.lstsq(basis, z.ravel(), rcond=1e-10)[0]
    assert np.allclose(best, dense.ravel())


@pytest.mark.parametrize(
    ("method", "step"),
    [(m, s) for m in STEPPED for s in STEPS] + [(m, None) for m in ACCELERATED],
)
def test_survives_rank_deficiency(method: str, step: str | None) -> None:
    """A rank above the truth's makes cores and panels singular; nothing may blow up.

    All entries are observed: with missing entries the surplus rank may hide a spike in one of them.
    """
    truth, problem = sampled((15, 16, 17), (2, 2, 2), 1.0)
    result = tm.recover(problem.operator, problem.y, (4, 3, 3), method=method, step=step, tol=1e-12)
    assert result.success
    assert result.x.distance(truth) < 1e-11 * truth.norm()


@pytest.mark.parametrize("method", ["tiht", "sempiht"])
def test_thresholding_leaves_a_start_that_does_not_lead(method: str) -> None:
    """All entries observed, step 1: one step is the truncation of the data, for any init."""
    bases = [np.linalg.qr(np.random.default_rng(k).standard_normal((30, 30)))[0] for k in range(3)]

    def diagonal(values: list[float], columns: list[int]) -> tm.Tucker:
        core = np.zeros((len(values),) * 3)
        np.einsum("iii->i", core)[:] = values
        return tm.Tucker(core, tuple(q[:, columns] for q in bases))

    data = diagonal([10.0, 9.0, 8.0, 7.0], [0, 1, 2, 3])
    start = diagonal([10.0, 9.0, 7.0], [0, 1, 3])
    operator = tm.Sampling.from_observed(np.ones(data.shape, bool))
    result = tm.recover(
        operator, operator.forward(data), 3, method=method, step="constant", init=start
    )
    assert result.loss == pytest.approx(7.0**2 / 2)


def test_core_cutoff_keeps_weak_directions() -> None:
    """A direction at 1e-4 of the largest is weak, not absent."""
    truth = tm.simulate.conditioned_tucker((20, 20, 20), 3, 1e4, rng=0)
    operator = tm.Sampling(truth.shape, tm.simulate.sample_indices(truth.shape, 0.6, rng=1))
    result = tm.recover(
        operator, operator.forward(truth), 3, truth=truth, tol=1e-11, max_iter=5000, patience=5000
    )
    assert result.history.error[-1] < 1e-9


def test_accelerated_iterations() -> None:
    """RCG needs fewer iterations than RGD, the more so with few samples; RGN a handful."""
    _, problem = sampled((100, 100, 100), 5, 0.05)
    counts = {
        method: tm.recover(
            problem.operator, problem.y, 5, method=method, init="corrected", tol=1e-10
        ).n_iter
        for method in ("rgd", "rcg", "rgn")
    }
    assert counts["rgn"] <= 8
    assert counts["rcg"] < 0.75 * counts["rgd"]


def test_transport_is_the_projection() -> None:
    x = tm.simulate.random_tucker((5, 6, 7), (2, 3, 2), rng=0, dtype="complex128")
    y = tm.simulate.random_tucker((5, 6, 7), (2, 3, 2), rng=1, dtype="complex128")
    z = np.random.default_rng(2).standard_normal(x.shape) + 0j
    tangent = TuckerTangent.project(x, z)
    moved = tangent.transport(y)
    expected = TuckerTangent.project(y, tangent.as_tucker().todense())
    assert np.allclose(moved.as_tucker().todense(), expected.as_tucker().todense())
    other = TuckerTangent.project(y, z)
    dense = np.vdot(moved.as_tucker().todense(), other.as_tucker().todense()).real
    assert moved.inner(other) == pytest.approx(dense)
    combined = moved.plus(other, -2.0).times(3.0).as_tucker().todense()
    parts = moved.as_tucker().todense() - 2 * other.as_tucker().todense()
    assert np.allclose(combined, 3 * parts)


def test_gauss_newton_solves_the_tangent_problem() -> None:
    """With a tight inner tolerance the direction is the least-squares solution on the tangent."""
    _, problem = sampled((6, 7, 8), (2, 2, 2), 0.8)
    solver = RGN(forcing=1e-10, max_inner=500, max_far=500)
    state = solver.init(problem, None)
    direction = solver._solve(problem, state)
    seen = problem.operator.forward_tucker(direction.as_tucker())
    residual = problem.y - problem.operator.forward_tucker(state.x) - seen
    left = TuckerTangent.project(state.x, problem.operator.adjoint(residual)).squared_norm()
    assert left < 1e-18 * state.tangent.squared_norm()


def test_lead_mode_by_cost() -> None:
    assert choose_tangent_mode((100, 100, 100), (10, 20, 30), 300_000) == 0
    assert choose_tangent_mode((100, 100, 100), (30, 20, 10), 300_000) == 2
    assert choose_tangent_mode((10, 1000, 10), (3, 3, 3), 50_000) == 1


def test_isotropic_scale_with_step_one_is_the_bare_projection_with_step_one_over_ratio() -> None:
    truth, problem = sampled((15, 16, 17), (2, 2, 2), 0.6)
    bare = problem.operator
    assert isinstance(bare, tm.Sampling)
    isotropic = tm.Sampling(truth.shape, bare.indices, norm="isotropic")
    # the spectral starts differ by the factor 1/ratio, so begin both at one point
    start = RGD().init(problem, None).x
    options: dict[str, Any] = {"method": "rgd", "init": start, "max_iter": 10, "tol": 0}
    one = tm.recover(isotropic, isotropic.forward(truth), 2, step="constant", **options)
    two = tm.recover(bare, problem.y, 2, step=1 / bare.ratio, **options)
    assert one.x.distance(two.x) < 1e-10 * truth.norm()


def test_condition_numbers_enter_the_theory() -> None:
    x = tm.simulate.conditioned_tucker((20, 20, 20), 4, 10.0, rng=0)
    assert theory.condition_number(x, 1) == pytest.approx(10)


def test_rcg_reports_the_step_it_took() -> None:
    """In single precision at the floor the search runs out of halvings; x must fit step_size."""
    truth = tm.simulate.random_tucker((20, 20, 20), 2, rng=3)
    indices = tm.simulate.sample_indices(truth.shape, 0.3, rng=4)
    operator = tm.Sampling(truth.shape, indices, dtype=np.float32)
    y = truth.entries(indices).astype(np.float32)
    problem = tm.Problem(operator, y, (4, 4, 4)).in_units()
    solver = RCG()
    state = solver.init(problem, tm.init.corrected_init(problem))
    for _ in range(300):
        new = solver.step(problem, state)
        paths = (state.direction, state.tangent)
        ends = [path.retract(new.step_size).core for path in paths]
        assert any(np.array_equal(end, new.x.core) for end in ends)
        state = new


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tangent_norms_of_ill_conditioned_points(dtype: str) -> None:
    """The square of the condition number must not enter: 1e4 in single, 1e8 in double precision."""
    condition = 1e4 if dtype == "float32" else 1e8
    core = np.zeros((3, 3, 3))
    np.einsum("iii->i", core)[:] = 1, condition**-0.5, 1 / condition
    turn = [np.linalg.qr(np.random.default_rng(k).standard_normal((3, 3)))[0] for k in range(3)]
    bases = [np.linalg.qr(np.random.default_rng(k).standard_normal((30, 3)))[0] for k in range(3)]
    point = tm.Tucker(tm.algebra.multi_mode_product(core, turn), tuple(bases)).astype(dtype)
    tangent = TuckerTangent.project(point, np.random.default_rng(9).standard_normal((30, 30, 30)))
    dense = np.linalg.norm(tangent.as_tucker().astype(np.float64).todense()) ** 2
    assert tangent.squared_norm() == pytest.approx(dense, rel=1e-2)


def test_the_corrected_start_makes_no_panel_larger_than_the_data() -> None:
    """Many samples per degree of freedom, yet 3 million columns for 100000 entries."""
    shape = (40, 1700, 1700)
    truth = tm.simulate.random_tucker(shape, 1, rng=0)
    operator = tm.Sampling(shape, tm.simulate.sample_indices(shape, 100_000, rng=1), leaf_mode=0)
    problem = tm.Problem(operator, operator.forward(truth), (1, 1, 1))
    tracemalloc.start()
    tm.init.corrected_init(problem)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 1700 * 1700


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("power", [0.0, 0.4])
def test_single_mode_retraction_in_blocks(
    monkeypatch: pytest.MonkeyPatch, dtype: str, power: float
) -> None:
    """Equal to the whole, the same bits for every number of threads, and rows orthonormal.

    The rows of the start are uneven by as much as the step is small, down to where much of the
    panel cancels, and the type of the step is wider than that of the data.
    """
    rng = np.random.default_rng(8)
    eps = float(np.finfo(dtype).eps)
    size = eps**power

    def draw(*shape: int) -> np.ndarray[Any, Any]:
        x = rng.standard_normal(shape)
        return x + 1j * rng.standard_normal(shape) if dtype == "complex128" else x

    left, rows = (np.linalg.qr(draw(n, 3))[0].astype(dtype) for n in (12, 101))
    base = ((rows * [1.0, size, size / 3]) @ np.linalg.qr(draw(3, 3))[0]).astype(dtype)
    along = (size * draw(12, 3)).astype(dtype)
    along -= left @ (left.conj().T @ along)
    tangent = ModeTangent(0, left, rows, (size * draw(101, 3)).astype(dtype), along)
    whole = tangent.retract(np.float64(0.5), base)
    monkeypatch.setattr("tensormend.core.threads.BLOCK_ROWS", 10)
    one, *more = (tangent.retract(np.float64(0.5), base, threads) for threads in (1, 2, 5))
    assert all(part.dtype == dtype for part in (one[0], one[2]))
    assert np.linalg.norm(one[2].conj().T @ one[2] - np.eye(3)) < 20 * eps
    found, expected = ((u * s) @ v.T for u, s, v in (one, whole))
    # of a panel that cancels, rounding leaves so many digits
    assert np.linalg.norm(found - expected) < 100 * eps / size * whole[1][0]
    for other in more:
        for a, b in zip(other, one, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_the_corrected_initialization_in_blocks(
    monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    """Equal to the whole product, and the same bits for every number of threads."""
    shape = (50, 60, 40)
    truth = tm.simulate.random_tucker(shape, 3, rng=0, dtype=dtype)
    indices = tm.simulate.sample_indices(shape, 0.3, rng=1)
    starts = []
    for size, threads in ((2**40, 1), (200, 1), (200, 2), (200, 16)):
        monkeypatch.setattr(reference, "BLOCK_SIZE", size)
        monkeypatch.setattr(subspaces, "panel_kernels", lambda _: reference)
        operator = tm.Sampling(shape, indices, dtype=dtype, threads=threads)
        problem = tm.Problem(operator, truth.entries(indices), (3, 3, 3))
        starts.append(tm.init.corrected_init(problem))
    whole, one, *more = starts
    assert one.distance(whole) < 1e-5 * whole.norm()
    for other in more:
        for a, b in zip(other.as_arrays().values(), one.as_arrays().values(), strict=True):
            np.testing.assert_array_equal(a, b)


def test_the_corrected_start_with_plenty_of_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few products with a block do as well as the block iteration."""
    truth, problem = sampled((60, 60, 60), 3, 0.4)
    assert problem.operator.n_measurements > 100 * tucker.degrees_of_freedom(
        (60, 60, 60), (3, 3, 3)
    )
    errors = []
    for plenty in (spectral.PLENTY, np.inf):
        monkeypatch.setattr(spectral, "PLENTY", plenty)
        errors.append(tm.init.corrected_init(problem).distance(truth) / truth.norm())
    assert errors[0] != errors[1]  # two ways
    assert errors[0] < 1.2 * errors[1] < 0.2


# what auto does on the way


def scarce(seed: int, ratio: float = 0.015) -> tuple[tm.Tucker, tm.Sampling, Any]:
    shape = (100, 100, 100)
    truth = tm.simulate.random_tucker(shape, 2, rng=seed)
    operator = tm.Sampling(shape, tm.simulate.sample_indices(shape, ratio, rng=100 + seed))
    return truth, operator, operator.forward(truth)


def test_auto_restarts_where_its_start_led_astray() -> None:
    truth, operator, y = scarce(seed=5)
    plain = tm.recover(operator, y, 2, method="rgn", init="corrected", tol=1e-8, max_iter=60)
    assert plain.x.distance(truth) > 0.1 * truth.norm()  # or the test shows nothing
    result = tm.recover(operator, y, 2, tol=1e-8)
    assert result.x.distance(truth) < 1e-6 * truth.norm()
    assert len(result.notes) == 2
    assert "restarted with rgn from a fit with ranks larger by 2 in" in result.notes[1]


def test_auto_gives_restarts_up_where_they_do_not_help() -> None:
    _, operator, _ = scarce(seed=0)
    noise = np.random.default_rng(0).standard_normal(operator.n_measurements)
    result = tm.recover(operator, noise, 2, tol=1e-8, max_iter=200)
    assert sum("restarted" in note for note in result.notes) <= 2
    assert sum("continued with" in note for note in result.notes) == 1
    assert result.loss == pytest.approx(result.history.loss.min(), rel=TIED, abs=0)


def test_auto_ends_a_search_that_makes_no_progress() -> None:
    shape = (40, 45, 50)
    truth = tm.simulate.random_tucker(shape, 3, rng=0)
    operator = tm.Sampling(shape, tm.simulate.sample_indices(shape, 0.2, rng=1))
    exact = operator.forward(truth)
    noise = np.random.default_rng(2).standard_normal(exact.shape)
    y = exact + 0.4 * np.linalg.norm(exact) / np.linalg.norm(noise) * noise
    result = tm.recover(operator, y, 3)
    assert "restarted" in result.notes[1]
    assert 3 <= result.history.exploring.sum() < 15  # of 30 at most
    alone = tm.recover(operator, y, 3, method="rgn", init="corrected")
    assert result.loss <= (1 + 1e-6) * alone.loss


def test_a_restart_of_auto_counts_as_the_best_iterate_where_it_is() -> None:
    _, operator, y = scarce(seed=5)
    problem = tm.Problem(operator, y, (2, 2, 2))
    solver = Auto(RGN(), RCG())
    state = solver.init(problem, None)
    while state.n_restarts == 0:
        before, state = state, solver.step(problem, state)
    assert before.is_exploring
    assert state.inner.loss < before.best_loss  # or the test shows nothing
    assert state.best is state.inner.x
    assert state.best_loss == state.inner.loss


def test_auto_begins_with_conjugate_gradients_where_samples_abound() -> None:
    truth = tm.simulate.random_tucker((60, 60, 60), 1, rng=0)
    operator = tm.Sampling.from_observed(np.ones(truth.shape, dtype=bool))
    result = tm.recover(operator, operator.forward(truth), 1, tol=1e-10)
    assert result.success
    assert result.notes[0].startswith("rcg from the corrected initial estimate")


def test_auto_takes_the_start_it_is_given() -> None:
    _, problem = sampled((12, 13, 14), (2, 2, 2), 0.5)
    x0 = spectral_init(problem)
    named = tm.recover(problem.operator, problem.y, 2, init="spectral", max_iter=1)
    given = tm.recover(problem.operator, problem.y, 2, init=x0, max_iter=1)
    own = tm.recover(problem.operator, problem.y, 2, max_iter=1)
    assert named.history.loss[0] == pytest.approx(given.history.loss[0])
    assert named.history.loss[0] != pytest.approx(own.history.loss[0])
    assert given.notes[0].startswith("rgn from another initial estimate, ")


def test_auto_resumes_in_the_middle_of_a_restart(tmp_path: Path) -> None:
    _, operator, y = scarce(seed=5)
    whole = tm.recover(operator, y, 2, tol=1e-8)
    cut = len(whole.history) - 3
    path = tmp_path / "run.npz"
    tm.recover(operator, y, 2, tol=1e-8, max_iter=cut, checkpoint=path)
    resumed = tm.recover(operator, y, 2, tol=1e-8, checkpoint=path, resume=True)
    assert resumed.notes == whole.notes
    assert np.array_equal(resumed.x.core, whole.x.core)


def test_auto_saves_that_it_has_switched() -> None:
    shape = (10, 11, 12)
    operator = tm.Sampling.from_observed(np.ones(shape, dtype=bool))
    noise = np.random.default_rng(0).standard_normal(operator.n_measurements)
    problem = tm.Problem(operator, noise, (2, 2, 2))
    solver = Auto(RGN(), RCG())
    state = solver.init(problem, None)
    for _ in range(300):
        if state.has_switched:
            break
        state = solver.step(problem, state)
    assert state.has_switched
    assert sum("continued with rcg" in note for note in state.notes) == 1
    again = solver.load(problem, solver.save(state))
    for name in ("stage", "n_restarts", "has_switched", "best_loss", "loss_before_restart"):
        assert getattr(again, name) == getattr(state, name)
    assert again.notes == state.notes
    for _ in range(40):  # stuck, and not switched again
        again = solver.step(problem, again)
    assert again.notes == state.notes


def test_the_search_in_a_larger_space_is_a_part_of_the_run() -> None:
    _, operator, y = scarce(seed=5)
    seen: list[tm.Iteration] = []
    result = tm.recover(operator, y, 2, tol=1e-8, callback=seen.append)
    exploring = result.history.exploring
    assert 1 <= exploring.sum() <= 31
    assert [now.n_iter for now in seen] == list(range(1, result.n_iter + 1))
    assert [now.record.exploring for now in seen] == exploring[1:].tolist()
    assert all(now.x.rank == (2, 2, 2) for now in seen)
    assert (np.diff(result.history.seconds) > 0).all()
    # the best point so far is shown, and nothing is read into its standing still
    first = int(np.argmax(exploring))
    best = result.history.loss[: first + 1].min()
    assert result.history.loss[exploring] == pytest.approx(best, rel=TIED, abs=0)
    assert np.isnan(result.history.change[exploring]).all()
    short = tm.recover(operator, y, 2, tol=1e-8, patience=3, min_delta=1e-12)
    assert np.array_equal(short.x.core, result.x.core)


def test_a_callback_and_limits_end_the_search_in_a_larger_space() -> None:
    _, operator, y = scarce(seed=5)
    stopped = tm.recover(operator, y, 2, tol=1e-8, callback=lambda now: now.record.exploring)
    assert stopped.status is tm.Status.STOPPED
    assert stopped.history[-1].exploring
    assert stopped.x.rank == (2, 2, 2)
    assert stopped.loss == pytest.approx(stopped.history.loss.min(), rel=TIED, abs=0)
    cut = tm.recover(operator, y, 2, tol=1e-8, max_iter=stopped.n_iter + 5)
    assert cut.status is tm.Status.ITERATION_LIMIT
    assert cut.history[-1].exploring
    assert np.array_equal(cut.x.core, stopped.x.core)

    def wait(now: tm.Iteration) -> None:
        if now.record.exploring:
            time.sleep(0.3)

    plain = float(np.sum(np.diff(stopped.history.seconds))) + stopped.history.seconds[0]
    late = tm.recover(operator, y, 2, tol=1e-8, callback=wait, time_limit=plain + 1.0)
    assert late.status is tm.Status.TIME_LIMIT
    assert late.n_iter <= stopped.n_iter + 10


@pytest.mark.parametrize("after", [0, 1, 7])
def test_auto_resumes_within_the_search_in_a_larger_space(after: int, tmp_path: Path) -> None:
    _, operator, y = scarce(seed=5)
    whole = tm.recover(operator, y, 2, tol=1e-8)
    cut = int(np.argmax(whole.history.exploring)) + after
    path = tmp_path / "run.npz"
    first = tm.recover(operator, y, 2, tol=1e-8, max_iter=cut, checkpoint=path)
    assert first.history[-1].exploring
    resumed = tm.recover(operator, y, 2, tol=1e-8, checkpoint=path, resume=True)
    assert resumed.notes == whole.notes
    assert resumed.history.exploring.tolist() == whole.history.exploring.tolist()
    assert np.array_equal(resumed.x.core, whole.x.core)


def test_every_method_is_in_the_cases() -> None:
    assert set(registry.METHODS) == {*METHODS, "shrink"}  # which has tests of its own


def test_the_table_of_methods() -> None:
    assert isinstance(registry.make_solver("sm-qrgd", tangent_mode=1), SMQRGD)
    auto = registry.make_solver("auto")
    assert isinstance(auto, Auto)
    assert auto == Auto(RGN(), RCG())
    assert auto.with_target(1e-3) == Auto(RGN(target=1e-3), RCG())

    class Other(Auto):
        name = "other"

    assert type(Other(RGN(), RCG()).with_target(1e-3)) is Other
    with pytest.raises(tm.errors.InputError, match=r"one of auto, rgn, rcg, .*got 'newton'"):
        registry.make_solver("newton")
    with pytest.raises(AttributeError, match="no attribute 'Newton'"):
        tm.solvers.Newton  # type: ignore[attr-defined]  # noqa: B018


def test_costs_that_are_declared() -> None:
    _, problem = sampled((12, 13, 14), (2, 2, 2), 0.5)
    costs = {name: cost_of(registry.make_solver(name), problem) for name in registry.METHODS}
    assert costs["rgd"] == IterationCost((2, 2, 2))
    assert costs["sm-qrgd"].n_panels > 0
    assert costs["tiht"].needs_every_mode
    assert costs["auto"].rank == (5, 5, 5)  # where restarts may look
    plenty = SimpleNamespace(shape=(12, 13, 14), rank=(1, 1, 1), n_measurements=12 * 13 * 14 * 100)
    assert cost_of(registry.make_solver("auto"), plenty).rank == (1, 1, 1)


def test_gauss_newton_goes_no_further_than_its_target() -> None:
    truth, problem = sampled((30, 31, 32), (3, 3, 3), 0.4)
    runs = {
        target: solve(
            problem, RGN(target=target), None, stop=StoppingCriteria(tol=1e-8), truth=truth
        )
        for target in (0.0, 1e-8)
    }
    assert all(run.success for run in runs.values())
    assert runs[1e-8].history.residual[-1] > 10 * runs[0.0].history.residual[-1]


@pytest.mark.parametrize("target", [1e-4, 1e-6, 1e-8, 1e-10])
def test_gauss_newton_hits_its_target_at_once(target: float) -> None:
    # the linear solve knows what misfit it leaves, so no further one is needed
    _, problem = sampled((30, 31, 32), (3, 3, 3), 0.4)
    aimed, plain = (
        solve(problem, RGN(target=aim), None, stop=StoppingCriteria(tol=target))
        for aim in (target, 0.0)
    )
    assert aimed.success
    assert aimed.n_iter <= plain.n_iter
    assert 0.05 * target < aimed.history.residual[-1]


def test_gauss_newton_goes_on_well_beyond_its_target() -> None:
    _, problem = sampled((30, 31, 32), (3, 3, 3), 0.4)
    aimed, plain = (
        solve(problem, RGN(target=aim), None, stop=StoppingCriteria(tol=1e-10))
        for aim in (1e-2, 0.0)
    )
    assert aimed.success
    assert aimed.n_iter <= plain.n_iter + 1


def test_a_start_that_fits_is_taken_as_it_is() -> None:
    truth, problem = sampled((10, 11, 12), (2, 2, 2), 0.5)
    start = truth.orthonormal()
    assert problem.initial_point(start) is start
    tilted = tm.Tucker(truth.core, tuple(2 * u for u in truth.factors))
    wide = truth + tm.simulate.random_tucker(truth.shape, 1, rng=3) * 1e-3
    for other in (tilted, wide):
        assert not other.is_orthonormal()
        cut = problem.initial_point(other)
        assert cut.is_orthonormal()
        assert cut.rank == problem.rank
        assert cut.distance(other) < 2e-3 * other.norm()


HALF = {"float64": np.float32, "complex128": np.complex64}


@pytest.mark.parametrize("method", ["auto", "rcg", "rgd", "sm-qrgd", "tiht"])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_measurements_in_half_the_bits(method: str, dtype: str) -> None:
    truth = tm.simulate.random_tucker((20, 21, 22), 2, rng=0, dtype=dtype)
    operator = tm.Sampling(
        truth.shape, tm.simulate.sample_indices(truth.shape, 0.4, rng=1), dtype=dtype
    )
    y = operator.forward(truth)
    result = tm.recover(operator, y, 2, method=method, measurement_dtype=HALF[dtype], tol=1e-6)
    assert result.success
    assert result.x.dtype == np.dtype(dtype)
    rounded = y.astype(HALF[dtype]).astype(dtype)
    plain = tm.recover(operator, rounded, 2, method=method, tol=1e-6)
    assert result.x.distance(plain.x) < 1e-9 * truth.norm()


@pytest.mark.parametrize(
    ("dtype", "wrong", "message"),
    [
        ("float64", "complex64", "one of float32 or float64 for a problem of float64, got complex"),
        ("float32", "float64", "one of float32 for a problem of float32, got float64"),
        ("complex128", "float32", "one of complex64 or complex128 for a problem of complex128"),
        ("float64", "int8", "got int8"),
        ("float64", "half a float", "must be a data type such as numpy.float32, got 'half a"),
    ],
)
def test_measurement_types_that_are_refused(dtype: str, wrong: str, message: str) -> None:
    _, problem = sampled((6, 7, 8), (2, 2, 2), 0.8, dtype=dtype)
    with pytest.raises(tm.errors.InputError, match=message):
        tm.recover(problem.operator, problem.y, 2, measurement_dtype=wrong)


def test_single_precision_refuses_what_it_cannot_hold() -> None:
    _, problem = sampled((6, 7, 8), (2, 2, 2), 0.8)
    for unit in (1e-60, 1e60):
        with pytest.raises(tm.errors.InputError, match="single precision can hold"):
            tm.recover(problem.operator, unit * problem.y, 2, measurement_dtype=np.float32)
