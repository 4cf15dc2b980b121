from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensormend as tm
from cases import decaying
from tensormend.core.algebra import norm
from tensormend.core.shrinkage import shrink
from tensormend.errors import InputError
from tensormend.recovery.loop import solve
from tensormend.recovery.result import Status
from tensormend.recovery.solvers import Shrink
from tensormend.recovery.stopping import StoppingCriteria
from tensormend.testing import check_solver

pytestmark = pytest.mark.numerical

ROUNDING = 1e-10  # of sums over a few thousand numbers
NO_STOP: dict[str, Any] = {"tol": 0, "xtol": 0, "patience": 1000}


def sampled(x: Any, ratio: float, seed: int = 1) -> tuple[Any, Any]:
    known = np.random.default_rng(seed).random(x.shape) < ratio
    return np.argwhere(known), x[known]


def dense_twin(z: Any, strength: float) -> Any:
    """Filter the singular directions one unfolding after the other, by full SVDs."""
    tau2 = float(strength * np.linalg.norm(z)) ** 2
    for k in sorted(range(z.ndim), key=lambda k: -z.shape[k]):
        wide = np.moveaxis(z, k, 0).reshape(z.shape[k], -1)
        u, s, vt = np.linalg.svd(wide, full_matrices=False)
        others = [n for j, n in enumerate(z.shape) if j != k]
        wide = (u * (s * s**2 / (s**2 + tau2))) @ vt
        z = np.moveaxis(wide.reshape(-1, *others), 0, k)
    return z


@pytest.mark.parametrize("shape", [(7, 9), (6, 8, 5), (4, 5, 3, 6)])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_shrinkage_is_the_filter_of_the_singular_values(shape: tuple[int, ...], dtype: str) -> None:
    z = decaying(shape).astype(dtype)
    if dtype == "complex128":
        z = z * np.exp(1j * np.random.default_rng(3).random(shape))
    got, expected = shrink(z, 0.05).x.todense(), dense_twin(z, 0.05)
    # directions that keep less than a hundredth are left out
    assert norm(got - expected) < 0.02 * norm(z - expected)


def test_strong_shrinkage_leaves_little_and_none_leaves_all() -> None:
    z = decaying((8, 9, 10))
    assert norm(shrink(z, 0.0).x.todense() - z) < ROUNDING * norm(z)
    norms = [shrink(z, strength).x.norm() for strength in (0.001, 0.01, 0.1, 1.0)]
    assert norms == sorted(norms, reverse=True)
    assert norms[-1] < 0.5 * norm(z)


def test_a_rank_limits_the_directions() -> None:
    assert shrink(decaying((8, 9, 10)), 1e-6, rank=(2, 3, 4)).x.rank == (2, 3, 4)


def test_a_tucker_is_shrunk_like_its_array() -> None:
    x = tm.simulate.random_tucker((8, 9, 10), 4, rng=0)
    whole = shrink(x.todense(), 0.1).x.todense()
    assert norm(shrink(x, 0.1).x.todense() - whole) < 1e-10 * norm(whole)


def test_sparse_plus_tucker_is_shrunk_like_the_dense_sum() -> None:
    x = tm.simulate.random_tucker((12, 13, 14), 3, rng=0)
    indices, y = sampled(decaying((12, 13, 14)), 0.3)
    operator = tm.Sampling((12, 13, 14), indices)
    z = operator.adjoint_tensor(y, base=x, step=0.5)
    dense = shrink(z.todense(), 0.05).x.todense()
    assert norm(shrink(z, 0.05).x.todense() - dense) < 1e-8 * norm(dense)


@pytest.mark.parametrize("kind", ["masked", "sampling", "matrix"])
def test_conformance(kind: str) -> None:
    x = decaying((9, 10, 11))
    indices, y = sampled(x, 0.4)
    operator: tm.Operator = tm.DenseSampling(x.shape, indices)
    if kind == "sampling":
        operator = tm.Sampling(x.shape, indices)
    elif kind == "matrix":
        operator = tm.MatrixOperator.gaussian(x.shape, 600, rng=0)
        y = operator.forward(x)
    problem = tm.Problem(operator, y, x.shape)
    check_solver(lambda: Shrink(strength=1e-2), problem, is_exact=False)


def test_both_operators_give_the_same_fit() -> None:
    x = decaying((15, 16, 17))
    indices, y = sampled(x, 0.3)
    fits = [
        solve(
            tm.Problem(kind(x.shape, indices), y, x.shape),
            Shrink(),
            stop=StoppingCriteria(**NO_STOP),
        ).x
        for kind in (tm.DenseSampling, tm.Sampling)
    ]
    assert fits[0].distance(fits[1]) < 1e-6 * fits[0].norm()


def test_the_end_is_a_fixed_point_of_the_plain_iteration() -> None:
    """x = S(x + P(y - x)): what conjugate gradients and momentum converge to is where the plain
    iteration stays."""
    x = decaying((14, 15, 16))
    indices, y = sampled(x, 0.6)
    operator = tm.DenseSampling(x.shape, indices)
    solver = Shrink(strength=0.02, iterations_per_strength=60)
    fit = solve(
        tm.Problem(operator, y, x.shape), solver, stop=StoppingCriteria(**NO_STOP, max_iter=2000)
    ).x
    once = shrink(operator.gradient_step(fit, y)[1], 0.02).x
    assert once.distance(fit) < 1e-3 * fit.norm()


def test_it_takes_far_fewer_iterations_than_the_plain_one() -> None:
    x = decaying((20, 21, 22))
    indices, y = sampled(x, 0.2)
    problem = tm.Problem(tm.DenseSampling(x.shape, indices), y, x.shape)
    goal = solve(
        problem,
        Shrink(0.01, iterations_per_strength=100),
        stop=StoppingCriteria(**NO_STOP, max_iter=3000),
    ).x

    def error(**settings: Any) -> float:
        solver = Shrink(0.01, **settings)
        return (
            solve(problem, solver, stop=StoppingCriteria(**NO_STOP)).x.distance(goal) / goal.norm()
        )

    assert error() < 0.3 * error(cg_steps=0, momentum=0.0)


def test_shrinkage_beats_every_rank_on_decaying_spectra() -> None:
    x = decaying((25, 26, 27)) + 0.1 * np.random.default_rng(5).standard_normal((25, 26, 27))
    indices, y = sampled(x, 0.3)
    hidden = np.ones(x.shape, dtype=bool)
    hidden[tuple(indices.T)] = False

    def rmse(result: tm.Result) -> float:
        return float(np.sqrt(np.mean((result.x.todense() - x)[hidden] ** 2)))

    operator = tm.Sampling(x.shape, indices)
    ranks = [rmse(tm.recover(operator, y, r, init="corrected", max_iter=50)) for r in range(1, 7)]
    shrunk = [rmse(tm.recover(operator, y, 20, method=Shrink(s))) for s in (0.02, 0.01, 0.005)]
    assert min(shrunk) < min(ranks)


def test_a_run_ends_with_its_path_and_says_so() -> None:
    x = decaying((10, 11, 12))
    indices, y = sampled(x, 0.5)
    result = tm.recover(tm.Sampling(x.shape, indices), y, 10, method="shrink")
    assert result.status is Status.FINISHED
    assert result.success
    assert result.n_iter == Shrink().n_path
    assert "end of its path" in result.message


def test_the_path_comes_down_to_the_final_strength() -> None:
    solver = Shrink(strength=0.01, initial_strength=0.1, decay=0.5, iterations_per_strength=3)
    strengths = [solver.strength_at(k) for k in range(solver.n_path)]
    assert strengths[:3] == [0.1] * 3
    assert strengths[3:6] == [0.05] * 3
    assert strengths[-3:] == [0.01] * 3
    assert len(strengths) == 15
    assert Shrink(strength=0.2, initial_strength=0.1).n_path == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strength": -1.0}, "strength must be a finite number, 0 or more, got -1.0"),
        ({"initial_strength": np.nan}, "initial_strength must be a finite number, 0 or more"),
        ({"decay": 1.0}, "decay must be a number between 0 and 1, got 1.0"),
        ({"momentum": 1.0}, "momentum must be a number, 0 or more and below 1, got 1.0"),
        ({"iterations_per_strength": 0}, "iterations_per_strength must be an integer, 1 or more"),
        ({"cg_steps": -1}, "cg_steps must be an integer, 0 or more, got -1"),
        ({"strength": "weak"}, "strength must be a finite number, 0 or more, got 'weak'"),
        ({"cg_steps": True}, "cg_steps must be an integer, 0 or more, got True"),
        ({"mode_weights": (1.0, -1.0)}, "each of mode_weights must be a finite number"),
    ],
)
def test_refusals(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Shrink(**settings)


def test_degrees_of_freedom_are_the_trace_of_the_smoother() -> None:
    """All entries observed: x = F y, F a product of filters whose trace is a product of sums."""
    x = decaying((12, 13, 14))
    everything = np.argwhere(np.ones(x.shape, dtype=bool))
    problem = tm.Problem(tm.DenseSampling(x.shape, everything), x.ravel(), x.shape)
    solver = Shrink(strength=0.02)
    fit = solve(problem, solver, stop=StoppingCriteria(**NO_STOP)).x
    rng = np.random.default_rng(0)
    estimates = [solver.degrees_of_freedom(problem, fit, rng) for _ in range(20)]
    exact = shrink(problem.operator.gradient_step(fit, problem.y)[1], 0.02).degrees_of_freedom
    spread = np.std(estimates) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - exact) < 4 * spread + 0.01 * exact


def test_masked_refuses_a_repeat() -> None:
    with pytest.raises(InputError, match=r"each entry may be observed once, got 3 indices of 2"):
        tm.DenseSampling((2, 3), [[0, 1], [1, 2], [0, 1]])
