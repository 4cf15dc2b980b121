"""The theory against values derived by hand, and against runs that it must bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensormend as tm
from cases import STEPS
from tensormend import theory
from tensormend.errors import InputError
from tensormend.recovery.solvers import SMQRGD

pytestmark = pytest.mark.numerical


def test_contraction_by_hand() -> None:
    # d=5: sqrt(d-1)=2; r=4: sqrt(r)=2; kappa=3; R=1/4
    # gamma_1 = 1/4 (8*2*3 (3*9/4 + 1/4) + sqrt5 + 3) = 1/4 (48*7 + sqrt5 + 3) = (339 + sqrt5)/4
    assert theory.contraction("constant", 0.25, 4, 3.0, 5) == pytest.approx((339 + 5**0.5) / 4)
    # gamma_2 = (1/2)/(3/4) (4*2*3 (6 + 1/4) + sqrt5 + 2) = 2/3 (152 + sqrt5)
    assert theory.contraction("normalized", 0.25, 4, 3.0, 5) == pytest.approx(
        2 / 3 * (152 + 5**0.5)
    )


def test_sufficient_isometry_by_hand() -> None:
    # (20*2 + 24)*2*3 + sqrt5 + 3 = 387 + sqrt5 and (32*2 + 40)*6 + 4 sqrt5 + 8 = 632 + 4 sqrt5
    assert theory.sufficient_isometry("constant", 4, 3.0, 5) == pytest.approx(1 / (387 + 5**0.5))
    assert theory.sufficient_isometry("normalized", 4, 3.0, 5) == pytest.approx(
        1 / (632 + 4 * 5**0.5)
    )


def test_error_bound_by_hand() -> None:
    gamma = theory.contraction("constant", 0.001, 1, 1.0, 2)
    # (sqrt2 + 1)(5/2 + 3) gamma^2
    assert theory.error_bound("constant", 3, 0.001, 1, 1.0, 2) == pytest.approx(
        (2**0.5 + 1) * 5.5 * gamma**2
    )
    gamma = theory.contraction("normalized", 0.001, 1, 1.0, 2)
    assert theory.error_bound("normalized", 3, 0.001, 1, 1.0, 2) == pytest.approx(
        (2**0.5 + 1) * 18 * gamma**2
    )
    # the initial estimate: 2 (1 + 1) R
    assert theory.error_bound("constant", 0, 0.001, 1, 1.0, 2) == pytest.approx(0.004)


@pytest.mark.parametrize("step", ["constant", "normalized"])
@pytest.mark.parametrize("order", [2, 3, 4, 7])
@pytest.mark.parametrize("rank", [1, 5])
@pytest.mark.parametrize("condition", [1.0, 20.0])
def test_the_sufficient_bound_makes_a_contraction(
    step: Any, order: int, rank: int, condition: float
) -> None:
    bound = theory.sufficient_isometry(step, rank, condition, order)
    assert theory.contraction(step, 0.999 * bound, rank, condition, order) < 1
    # and it is not idle: twenty times as much is too much
    assert theory.contraction(step, min(20 * bound, 0.99), rank, condition, order) > 1


def test_condition_numbers() -> None:
    x = tm.simulate.random_tucker((6, 7, 8), (2, 3, 4), rng=0)
    for mode in range(3):
        s = np.linalg.svd(tm.algebra.matricize(x.todense(), mode), compute_uv=False)
        expected = s[0] / s[x.rank[mode] - 1]
        assert theory.condition_number(x, mode) == pytest.approx(expected)
        assert theory.condition_number(x.todense(), mode) == pytest.approx(expected)
        assert theory.condition_number(x.todense(), mode, rank=1) == 1
    assert theory.condition_number(x * 0.0, 0) == np.inf
    with pytest.raises(InputError, match="rank must lie between"):
        theory.condition_number(x, 0, rank=3)


def test_isometry_of_a_full_mode_is_the_spectrum() -> None:
    operator = tm.MatrixOperator.gaussian((4, 3, 3), 300, rng=0)
    values = np.linalg.eigvalsh(operator.matrix.T @ operator.matrix)
    estimate = theory.estimate_isometry(operator, 4, n_iter=400, rng=0)
    assert estimate.upper == pytest.approx(values[-1], rel=1e-3)
    assert estimate.lower == pytest.approx(values[0], rel=1e-3)
    assert estimate.value == max(1 - estimate.lower, estimate.upper - 1)


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_isometry_estimates_are_lower_bounds_that_grow_with_rank(mode: int) -> None:
    operator = tm.MatrixOperator.gaussian((6, 5, 4), 400, rng=0)
    values = np.linalg.eigvalsh(operator.matrix.T @ operator.matrix)
    full = max(1 - values[0], values[-1] - 1)
    estimates = [theory.estimate_isometry(operator, r, mode=mode, rng=0).value for r in (1, 2, 4)]
    assert estimates[0] < estimates[1] < estimates[2] <= full * (1 + 1e-12)
    random_only = theory.estimate_isometry(operator, 2, mode=mode, n_inits=0, rng=0).value
    assert random_only < 0.7 * estimates[1]  # optimizing the test tensors matters


def test_isometry_of_isotropic_sampling_is_poor() -> None:
    """A tensor of mode rank one can hide in the missing entries: sampling has no small constant."""
    operator = tm.Sampling(
        (6, 7, 8), tm.simulate.sample_indices((6, 7, 8), 0.5, rng=0), norm="isotropic"
    )
    assert theory.estimate_isometry(operator, 1, rng=0).value > 0.9


def test_isometry_refusals() -> None:
    operator = tm.MatrixOperator.gaussian((4, 3, 3), 30, rng=0)
    with pytest.raises(InputError, match="between 1 and 4"):
        theory.estimate_isometry(operator, 5)
    with pytest.raises(InputError, match="lies in"):
        theory.contraction("constant", 1.0, 1, 1.0, 3)
    with pytest.raises(InputError, match="n_iter must be 0 or more"):
        theory.error_bound("constant", -1, 0.1, 1, 1.0, 3)
    with pytest.raises(InputError, match="order 2 or more"):
        theory.contraction("constant", 0.1, 1, 1.0, 1)
    with pytest.raises(InputError, match="condition 1 or more"):
        theory.sufficient_isometry("constant", 1, 0.5, 3)
    with pytest.raises(InputError, match="'constant'"):
        theory.sufficient_isometry("newton", 1, 1.0, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("shape", "rank", "size"), [((3, 2, 2), (1, 1, 1), 900_000), ((3, 3), (1, 1), 500_000)]
)
def test_the_theorem_holds_at_every_iteration(
    step: Any, shape: tuple[int, ...], rank: tuple[int, ...], size: int
) -> None:
    """A Gaussian problem that meets the condition, with a restricted isometry constant known
    exactly: three times the rank is the full size of mode 0, so R is the distance of the
    spectrum of A*A from 1."""
    operator = tm.MatrixOperator.gaussian(shape, size, rng=0)
    values = np.linalg.eigvalsh(operator.matrix.T @ operator.matrix)
    ric = float(max(1 - values[0], values[-1] - 1))
    truth = tm.simulate.random_tucker(shape, rank, rng=1)
    kappa = theory.condition_number(truth, 0)
    assert ric < theory.sufficient_isometry(step, rank[0], kappa, len(shape))
    problem = tm.Problem(operator, operator.forward(truth), rank)
    solver = SMQRGD(STEPS[step], tangent_mode=0)
    state = solver.init(problem, None)
    errors = []
    for k in range(6):
        errors.append(state.x.distance(truth) / truth.norm())
        bound = theory.error_bound(step, k, ric, rank[0], kappa, len(shape))
        assert errors[-1] <= max(bound, 1e-13)  # rounding is not in the theorem
        state = solver.step(problem, state)
    assert errors[0] > 1e-4  # the initial estimate does not already solve it


def test_a_bound_outside_the_condition_may_be_infinite() -> None:
    assert theory.error_bound("constant", 10_000, 0.9, 5, 10.0, 3) == np.inf
