"""Riemannian Gauss-Newton on the manifold of tensors of fixed multilinear rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from tensormend.core.algebra import Array
from tensormend.core.manifold import TuckerTangent
from tensormend.core.tucker import Tucker
from tensormend.errors import InputError
from tensormend.operators import Gradient
from tensormend.recovery.arrays import load_point, save_point
from tensormend.recovery.problem import Problem
from tensormend.recovery.steps import backtrack, rounding_level

__all__ = ["RGN", "RGNState"]

MAX_TRIALS = 6
FAR = 0.1  # relative residual
NEAR = 0.8  # fraction of the target that a linear solve aims at, to hit it after retraction
RESOLVED = 2.0**12  # roundings of a squared norm down to which subtractions from it can be trusted


@dataclass(frozen=True, eq=False)
class RGNState:
    """An iterate and the gradient of the loss there."""

    x: Tucker
    loss: float
    step_size: float
    gradient: Gradient

    @cached_property
    def tangent(self) -> TuckerTangent:
        """The projected gradient, which the last iterate of a run needs not."""
        return TuckerTangent.from_products(self.x, self.gradient.core, self.gradient.factors)


@dataclass(frozen=True)
class RGN:
    """Riemannian Gauss-Newton: minimize the loss over the whole tangent space, then retract.

    The least-squares problem ``min ||A(d) - residual||`` over tangent vectors ``d`` is solved by
    conjugate gradients that only apply ``A*A``, until the gradient has fallen to
    the fraction ``forcing`` (or the relative residual of the iterate where that is smaller, so that
    convergence is superlinear where the data fit exactly) or ``max_inner`` iterations are done,
    ``max_far`` of them while the relative residual is above 0.1: far away the tangent space says
    little about the tensor. Where the iterate is to reach the relative residual ``target``, the
    last solve goes no further than that.

    Parameters
    ----------
    forcing : float, default=0.1
        Fraction of its initial norm to which the inner iterations reduce the gradient.
    max_inner : int, default=40
        Largest number of inner iterations.
    max_far : int, default=10
        Largest number of inner iterations while the relative residual is above 0.1.
    target : float, default=0.0
        Relative residual beyond which the last inner solve does not go.

    Raises
    ------
    InputError
        If a setting is out of its range.
    """

    name: ClassVar[str] = "rgn"
    forcing: float = 0.1
    max_inner: int = 40
    max_far: int = 10
    target: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.forcing < 1 or min(self.max_inner, self.max_far) < 1:
            raise InputError(
                "forcing must lie between 0 and 1, max_inner and max_far be 1 or more, got "
                f"{self.forcing}, {self.max_inner} and {self.max_far}"
            )
        if not self.target >= 0:
            raise InputError(f"target must be 0 or more, got {self.target}")

    def with_target(self, target: float) -> RGN:
        """Return the solver for another target.

        Parameters
        ----------
        target : float
            Relative residual beyond which the last inner solve does not go.

        Returns
        -------
        RGN
            The solver for another target.
        """
        return replace(self, target=target)

    def init(self, problem: Problem, x0: Tucker | None) -> RGNState:
        """Start at ``x0`` or at ``H_r(A* y)``."""
        return self._evaluate(problem, problem.initial_point(x0), np.nan)

    def step(self, problem: Problem, state: RGNState) -> RGNState:
        """Solve on the tangent space, retract, and halve the step where the loss rose."""
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
        misfit = 2 * state.loss  # of the linear model, which every iteration lowers
        goal = (NEAR * self.target * problem.y_norm) ** 2
        resolved = RESOLVED * float(np.finfo(x.dtype).eps) * misfit
        goal = goal if resolved < goal < misfit else -np.inf
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
            misfit -= alpha * previous
            if square <= target or misfit <= goal:
                break
            direction = residual.plus(direction, square / previous)
        return state.tangent if total is None else total

    def _evaluate(self, problem: Problem, x: Tucker, step_size: float) -> RGNState:
        gradient = problem.operator.gradient(x, problem.y)
        return RGNState(x, gradient.loss, step_size, gradient)

    def save(self, state: RGNState) -> dict[str, Array]:
        """Return the arrays that determine a state."""
        return save_point(state)

    def load(self, problem: Problem, arrays: Mapping[str, Array]) -> RGNState:
        """Return the state that `save` was given."""
        return self._evaluate(problem, *load_point(arrays))
