"""Riemannian gradient descent on the manifold of tensors of fixed multilinear rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tensormend.core.algebra import Array
from tensormend.core.manifold import TuckerTangent
from tensormend.core.tucker import Tucker
from tensormend.recovery.arrays import load_point, save_point
from tensormend.recovery.problem import Problem
from tensormend.recovery.steps import NormalizedStep, StepRule, as_step, rounding_level

__all__ = ["RGD", "RGDState"]


@dataclass(frozen=True, eq=False)
class RGDState:
    """An iterate and the projection of ``G = A*(y - A(x))`` onto its tangent space."""

    x: Tucker
    loss: float
    step_size: float
    tangent: TuckerTangent
    gradient_norm: float


@dataclass(frozen=True)
class RGD:
    """Riemannian gradient descent: ``x <- H_r(x + a P(A*(y - A(x))))``.

    ``P`` projects onto the tangent space of the Tucker manifold, ``d + 1`` orthogonal parts of
    multilinear rank at most ``2 r`` together, so ``H_r`` (T-HOSVD) works on a core of size ``2r``.
    One pass over the measurements yields the loss and all parts.

    Parameters
    ----------
    step_rule : StepRule, default=NormalizedStep()
        Rule for the step size.
    """

    name: ClassVar[str] = "rgd"
    step_rule: StepRule = NormalizedStep()

    def __post_init__(self) -> None:
        object.__setattr__(self, "step_rule", as_step(self.step_rule))

    def _evaluate(self, problem: Problem, x: Tucker, step_size: float) -> RGDState:
        loss, gradient_norm, tangent = problem.gradient(x)
        return RGDState(x, loss, step_size, tangent, gradient_norm)

    def init(self, problem: Problem, x0: Tucker | None) -> RGDState:
        """Start at ``x0`` or at ``H_r(A* y)``."""
        return self._evaluate(problem, problem.initial_point(x0), np.nan)

    def step(self, problem: Problem, state: RGDState) -> RGDState:
        """Move along the projected gradient and retract."""
        alpha = self.step_rule(
            state.tangent.squared_norm,
            lambda: problem.operator.squared_norm(state.tangent),
            rounding_level(state.gradient_norm, problem.dtype),
        )
        return self._evaluate(problem, state.tangent.retract(alpha), alpha)

    def save(self, state: RGDState) -> dict[str, Array]:
        """Return the arrays that determine a state."""
        return save_point(state)

    def load(self, problem: Problem, arrays: Mapping[str, Array]) -> RGDState:
        """Return the state that `save` was given."""
        return self._evaluate(problem, *load_point(arrays))
