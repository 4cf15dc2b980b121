"""Riemannian conjugate gradients on the manifold of tensors of fixed multilinear rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tensormend.core.algebra import Array
from tensormend.core.manifold import TuckerTangent
from tensormend.core.tucker import Tucker
from tensormend.recovery.arrays import load_point, save_point
from tensormend.recovery.problem import Problem
from tensormend.recovery.steps import backtrack, exact_step, rounding_level

__all__ = ["RCG", "RCGState"]

MAX_TRIALS = 7
ENOUGH_DESCENT = 0.1  # cosine between direction and gradient below which the direction restarts


@dataclass(frozen=True, eq=False)
class RCGState:
    """An iterate, its projected gradient, and the direction to move along."""

    x: Tucker
    loss: float
    step_size: float
    tangent: TuckerTangent
    direction: TuckerTangent
    gradient_norm: float


@dataclass(frozen=True)
class RCG:
    """Riemannian conjugate gradients with exact line search on the tangent space.

    Along the direction ``d`` the step ``<P(G), d> / ||A(d)||^2`` minimizes the loss on the tangent
    space. The new direction is ``P(G) + b T(d)``, ``T`` the projection onto the new tangent space
    and ``b`` the rule of Hestenes and Stiefel, not below 0. Where the direction is nearly
    orthogonal to the gradient it restarts; where the retraction raised the loss the step is
    halved, and at last the gradient itself is tried.
    """

    name: ClassVar[str] = "rcg"

    def init(self, problem: Problem, x0: Tucker | None) -> RCGState:
        """Start at ``x0`` or at ``H_r(A* y)``, along the gradient."""
        x = problem.initial_point(x0)
        loss, gradient_norm, tangent = problem.gradient(x)
        return RCGState(x, loss, np.nan, tangent, tangent, gradient_norm)

    def step(self, problem: Problem, state: RCGState) -> RCGState:
        """Move to the minimum along the direction, retract, and turn the direction."""
        new, turned = _search(problem, state, state.direction), True
        if new.loss > state.loss and state.direction is not state.tangent:
            plain = _search(problem, state, state.tangent)
            if not plain.loss >= new.loss:
                new, turned = plain, False
        direction = _turn(state, new.x, new.tangent) if turned else new.tangent
        return replace(new, direction=direction)

    def save(self, state: RCGState) -> dict[str, Array]:
        """Return the arrays that determine a state."""
        direction = {f"direction_{k}": v for k, v in enumerate(state.direction.factors)}
        return {"direction_core": state.direction.core, **direction, **save_point(state)}

    def load(self, problem: Problem, arrays: Mapping[str, Array]) -> RCGState:
        """Return the state that `save` was given."""
        x, step_size = load_point(arrays)
        loss, gradient_norm, tangent = problem.gradient(x)
        factors = tuple(arrays[f"direction_{k}"] for k in range(x.ndim))
        direction = TuckerTangent(x, arrays["direction_core"], factors)
        return RCGState(x, loss, step_size, tangent, direction, gradient_norm)


def _search(problem: Problem, state: RCGState, direction: TuckerTangent) -> RCGState:
    """Take the exact step on the tangent space, halved while the retraction raises the loss."""
    energy = problem.operator.squared_norm(direction)
    noise = rounding_level(state.gradient_norm, problem.dtype)
    alpha = exact_step(state.tangent.inner(direction), energy, noise)

    def evaluate(alpha: float) -> RCGState:
        x = direction.retract(alpha)
        loss, gradient_norm, tangent = problem.gradient(x)
        return RCGState(x, loss, alpha, tangent, tangent, gradient_norm)

    return backtrack(evaluate, alpha, state.loss, max_trials=MAX_TRIALS, factor=2.0)


def _turn(state: RCGState, x: Tucker, tangent: TuckerTangent) -> TuckerTangent:
    """Conjugate the new gradient to the old direction."""
    old, moved = state.tangent.transport(x), state.direction.transport(x)
    change = tangent.plus(old, -1.0)
    curvature = change.inner(moved)
    if not curvature < 0:
        return tangent
    beta = max(0.0, -change.inner(tangent) / curvature)
    direction = tangent.plus(moved, beta)
    slope = direction.inner(tangent)
    sizes = np.sqrt(direction.squared_norm() * tangent.squared_norm())
    return direction if slope > ENOUGH_DESCENT * sizes else tangent
