"""Riemannian gradient descent with the steps of Barzilai and Borwein."""

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

__all__ = ["RBB", "RBBState"]

MAX_TRIALS = 7
CUT = 4.0
MEMORY = 10  # losses of which the largest is the limit: such steps need room to rise


@dataclass(frozen=True, eq=False)
class RBBState:
    """An iterate, its projected gradient, the step to take next, and the last losses."""

    x: Tucker
    loss: float
    step_size: float
    tangent: TuckerTangent
    next_step: float
    losses: tuple[float, ...]


@dataclass(frozen=True)
class RBB:
    """Gradient descent on the Tucker manifold whose step is read off the last change.

    With ``s`` the last step and ``z`` the fall of the gradient along it, both carried to the new
    tangent space, the next step is ``<s, s> / <s, z>``. It needs no measurement of the direction,
    so an iteration is one pass; the loss may rise, but not above the largest of the last ten,
    else the step is cut. The first step is exact.
    """

    name: ClassVar[str] = "rbb"

    def init(self, problem: Problem, x0: Tucker | None) -> RBBState:
        """Start at ``x0`` or at ``H_r(A* y)``."""
        x = problem.initial_point(x0)
        loss, gradient_norm, tangent = problem.gradient(x)
        energy = problem.operator.squared_norm(tangent)
        noise = rounding_level(gradient_norm, problem.dtype)
        step = exact_step(tangent.squared_norm(), energy, noise)
        return RBBState(x, loss, np.nan, tangent, step, (loss,))

    def step(self, problem: Problem, state: RBBState) -> RBBState:
        """Move along the gradient, retract, and read the next step off the change."""

        def evaluate(alpha: float) -> RBBState:
            x = state.tangent.retract(alpha)
            loss, _, tangent = problem.gradient(x)
            return RBBState(x, loss, alpha, tangent, alpha, (*state.losses, loss)[-MEMORY:])

        new = backtrack(
            evaluate, state.next_step, max(state.losses), max_trials=MAX_TRIALS, factor=CUT
        )
        moved = state.tangent.transport(new.x)
        fall = moved.plus(new.tangent, -1.0)
        curvature = moved.inner(fall)
        if not curvature > 0:
            return new
        return replace(new, next_step=new.step_size * moved.squared_norm() / curvature)

    def save(self, state: RBBState) -> dict[str, Array]:
        """Return the arrays that determine a state."""
        return {
            "next_step": np.array(state.next_step),
            "losses": np.array(state.losses),
            **save_point(state),
        }

    def load(self, problem: Problem, arrays: Mapping[str, Array]) -> RBBState:
        """Return the state that `save` was given."""
        x, step_size = load_point(arrays)
        loss, _, tangent = problem.gradient(x)
        next_step = float(arrays["next_step"])
        losses = tuple(float(past) for past in arrays["losses"])
        return RBBState(x, loss, step_size, tangent, next_step, losses)
