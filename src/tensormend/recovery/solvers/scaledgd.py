"""Scaled gradient descent on core and factors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tensormend.core.algebra import Array, mode_product
from tensormend.core.manifold import TuckerTangent
from tensormend.core.tucker import Tucker
from tensormend.recovery.arrays import load_point, save_point
from tensormend.recovery.problem import Problem
from tensormend.recovery.steps import NormalizedStep, StepRule, as_step, rounding_level

__all__ = ["ScaledGD", "ScaledGDState"]


@dataclass(frozen=True, eq=False)
class ScaledGDState:
    """An iterate with orthonormal factors, and the scaled directions of core and factors."""

    x: Tucker
    loss: float
    step_size: float
    core: Array
    factors: tuple[Array, ...]
    tangent: TuckerTangent
    gradient_norm: float


@dataclass(frozen=True)
class ScaledGD:
    """Scaled gradient descent (Tong et al.): preconditioned descent on core and factors.

    ``U_k <- U_k + a M_k(G ×_{j≠k} U_j^H) M_k(C)^H (M_k(C) M_k(C)^H)^{-1}`` and
    ``C <- C + a G ×_j U_j^H`` for orthonormal factors, which are restored by QR: the iterates do
    not depend on how the tensor is factored. The normalized step is the exact minimizer of the
    linearized loss; a constant step ``a`` on bare samples of ratio ``p`` is the step ``a p`` of
    the literature, which scales measurements by ``1/p``.

    Parameters
    ----------
    step_rule : StepRule, default=NormalizedStep()
        Rule for the step size.
    """

    name: ClassVar[str] = "scaledgd"
    step_rule: StepRule = NormalizedStep()

    def __post_init__(self) -> None:
        object.__setattr__(self, "step_rule", as_step(self.step_rule))

    def init(self, problem: Problem, x0: Tucker | None) -> ScaledGDState:
        """Start at ``x0`` or at ``H_r(A* y)``."""
        return self._evaluate(problem, problem.initial_point(x0), np.nan)

    def step(self, problem: Problem, state: ScaledGDState) -> ScaledGDState:
        """Move core and factors, and restore orthonormal factors."""
        x = state.x
        inside = [u.conj().T @ v for u, v in zip(x.factors, state.factors, strict=True)]
        core = state.core
        for k, part in enumerate(inside):
            core = core + mode_product(x.core, part, k)
        linear = TuckerTangent(x, core, state.tangent.factors)
        alpha = self.step_rule(
            lambda: state.tangent.inner(linear),
            lambda: problem.operator.squared_norm(linear),
            rounding_level(state.gradient_norm, problem.dtype),
        )
        factors = tuple(u + alpha * v for u, v in zip(x.factors, state.factors, strict=True))
        moved = Tucker(x.core + alpha * state.core, factors).orthonormal()
        return self._evaluate(problem, moved, alpha)

    def _evaluate(self, problem: Problem, x: Tucker, step_size: float) -> ScaledGDState:
        found = problem.operator.gradient(x, problem.y)
        factors = tuple(g @ w for g, w in zip(found.factors, x.core_inverses, strict=True))
        tangent = TuckerTangent.from_products(x, found.core, found.factors)
        return ScaledGDState(
            x, found.loss, step_size, found.core, factors, tangent, found.gradient_norm
        )

    def save(self, state: ScaledGDState) -> dict[str, Array]:
        """Return the arrays that determine a state."""
        return save_point(state)

    def load(self, problem: Problem, arrays: Mapping[str, Array]) -> ScaledGDState:
        """Return the state that `save` was given."""
        return self._evaluate(problem, *load_point(arrays))
