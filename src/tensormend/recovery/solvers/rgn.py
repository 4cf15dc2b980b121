"""Riemannian Gauss-Newton on the manifold of tensors of fixed multilinear rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from tensormend.core.algebra import Array, check_count, check_number
from tensormend.core.manifold import TuckerTangent
from tensormend.core.tucker import Tucker
from tensormend.operators import Gradient
from tensormend.recovery.arrays import load_point, save_point
from tensormend.recovery.problem import Problem
from tensormend.recovery.steps import backtrack, rounding_level

__all__ = ["RGN", "RGNState"]

MAX_TRIALS = 6  # step sizes of a line search
FAR = 0.1  # relative residual above which `max_far` applies
NEAR = 0.8  # fraction of the target for the linear solve, since the retraction adds to the residual
RESOLVED = 2.0**12  # below so many eps of its first value the updated residual is rounding error


@dataclass(frozen=True, eq=False)
class RGNState:
    """An iterate and the gradient of the loss there."""

    x: Tucker
    loss: float
    step_size: float
    gradient: Gradient

    @cached_property
    def tangent(self) -> TuckerTangent:
        """The projected gradient; not computed for the last iterate of a run."""
        return TuckerTangent.from_products(self.x, self.gradient.core, self.gradient.factors)


@dataclass(frozen=True)
class RGN:
    """Riemannian Gauss-Newton method with inner conjugate gradients.

    Parameters
    ----------
    forcing : float, default=0.1
        The inner iterations end when the norm of the gradient of the linear problem has fallen by
        this factor, or by the relative residual of the iterate where that is smaller.
    max_inner : int, default=40
        Maximum number of inner iterations.
    max_far : int, default=10
        Maximum number of inner iterations while the relative residual is above 0.1, where the
        linear model is a poor approximation.
    target : float, default=0.0
        Relative residual that the run is to reach. The inner iterations end once the linear model
        predicts it; 0 means as small as possible. `recover` sets it to ``tol`` for methods that are
        given by name.

    Raises
    ------
    InputError
        If ``forcing`` is not between 0 and 1, a number of iterations is below 1, or ``target`` is
        negative.

    Notes
    -----
    With the tangent space ``T`` at ``x`` and the truncation ``H_r`` (T-HOSVD), an iteration is::

        d = argmin over d in T of ||A(d) - (y - A(x))||
        x <- H_r(x + a d)

    The linear least-squares problem is solved by conjugate gradients, which apply ``A*A`` once per
    inner iteration. ``a`` is 1, halved while the loss increases, at most five times. Since the
    accuracy of the inner solution follows the residual, convergence is superlinear where the data
    can be fitted exactly.

    References
    ----------
    Y. Luo, A. R. Zhang (2023), "Low-Rank Tensor Estimation via Riemannian Gauss-Newton: Statistical
    Optimality and Second-Order Convergence", Journal of Machine Learning Research 24(381).

    Examples
    --------
    >>> import tensormend as tm
    >>> truth = tm.simulate.random_tucker((20, 30, 40), rank=2, rng=0)
    >>> operator = tm.Sampling(truth.shape, tm.simulate.sample_indices(truth.shape, 0.3, rng=1))
    >>> solver = tm.solvers.RGN(forcing=0.05)
    >>> result = tm.recover(operator, operator.forward(truth), rank=2, method=solver)
    >>> result.success
    True
    """

    name: ClassVar[str] = "rgn"
    forcing: float = 0.1
    max_inner: int = 40
    max_far: int = 10
    target: float = 0.0

    def __post_init__(self) -> None:
        check_number(
            "forcing", self.forcing, "a number between 0 and 1", lambda number: 0 < number < 1
        )
        check_count("max_inner", self.max_inner, 1)
        check_count("max_far", self.max_far, 1)
        check_number("target", self.target, "a number, 0 or more", lambda number: number >= 0)

    def with_target(self, target: float) -> RGN:
        """Return the solver for another target.

        Parameters
        ----------
        target : float
            Relative residual that the run is to reach.

        Returns
        -------
        RGN
            A copy of the solver with this target.
        """
        return replace(self, target=target)

    def init(self, problem: Problem, x0: Tucker | None) -> RGNState:
        """Evaluate ``x0``, by default ``H_r(A* y)``."""
        return self._evaluate(problem, problem.initial_point(x0), np.nan)

    def step(self, problem: Problem, state: RGNState) -> RGNState:
        """Solve on the tangent space, retract, and halve the step while the loss increases."""
        direction = self._solve(problem, state)
        return backtrack(
            lambda alpha: self._evaluate(problem, direction.retract(alpha), alpha),
            1.0,
            state.loss,
            max_trials=MAX_TRIALS,
            factor=2.0,
        )

    def _solve(self, problem: Problem, state: RGNState) -> TuckerTangent:
        """Conjugate gradients for ``P A* A d = P(G)`` on the tangent space."""
        x, operator = state.x, problem.operator
        relative = float(np.sqrt(2 * state.loss)) / problem.y_norm
        residual = direction = state.tangent
        square = first = residual.squared_norm()
        target = min(self.forcing, relative) ** 2 * first
        model_residual = 2 * state.loss  # squared norm
        goal = (NEAR * self.target * problem.y_norm) ** 2
        resolved = RESOLVED * float(np.finfo(x.dtype).eps) * model_residual
        goal = goal if resolved < goal < model_residual else -np.inf
        total: TuckerTangent | None = None
        if first <= rounding_level(state.gradient.gradient_norm, x.dtype) ** 2:
            return state.tangent
        for _ in range(self.max_far if relative > FAR else self.max_inner):
            product = operator.gauss_newton_product(direction)
            curvature = product.squared_norm
            if not curvature > 0:
                break
            alpha = square / curvature
            total = direction.times(alpha) if total is None else total.plus(direction, alpha)
            image = TuckerTangent.from_products(x, product.core, product.factors)
            residual = residual.plus(image, -alpha)
            previous, square = square, residual.squared_norm()
            model_residual -= alpha * previous
            if square <= target or model_residual <= goal:
                break
            direction = residual.plus(direction, square / previous)
        return state.tangent if total is None else total

    def _evaluate(self, problem: Problem, x: Tucker, step_size: float) -> RGNState:
        gradient = problem.operator.gradient(x, problem.y)
        return RGNState(x, gradient.loss, step_size, gradient)

    def save(self, state: RGNState) -> dict[str, Array]:
        """Return iterate and step size, which determine a state."""
        return save_point(state)

    def load(self, problem: Problem, arrays: Mapping[str, Array]) -> RGNState:
        """Return the state that these arrays determine."""
        return self._evaluate(problem, *load_point(arrays))
