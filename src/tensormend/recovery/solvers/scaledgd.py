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
    """Scaled gradient descent: preconditioned gradient descent on core and factors.

    Parameters
    ----------
    step_rule : StepRule, str or float, default=NormalizedStep()
        Rule for the step size, or what `tensormend.steps.as_step` makes one of.

    Notes
    -----
    With the negative gradient ``G = A*(y - A(x))``, core ``C`` and orthonormal factors ``U_k`` of
    ``x``, the step size ``a`` and the unfolding ``M_k`` along mode ``k``, an iteration is::

        U_k <- U_k + a M_k(G ×_{j≠k} U_j^H) M_k(C)^H (M_k(C) M_k(C)^H)^{-1}
        C   <- C + a G ×_j U_j^H

    after which QR decompositions make the factors orthonormal again. The iterates do not depend on
    how the tensor is factored. The normalized step minimizes the linearized loss. The literature
    divides sampled entries by the sampling ratio ``p``; its constant step ``a p`` is the step ``a``
    here.

    References
    ----------
    T. Tong, C. Ma, A. Prater-Bennette, E. Tripp, Y. Chi (2022), "Scaling and Scalability: Provable
    Nonconvex Low-Rank Tensor Estimation from Incomplete Measurements", Journal of Machine Learning
    Research 23(163).

    Examples
    --------
    >>> import tensormend as tm
    >>> truth = tm.simulate.random_tucker((20, 30, 40), rank=2, rng=0)
    >>> operator = tm.Sampling(truth.shape, tm.simulate.sample_indices(truth.shape, 0.3, rng=1))
    >>> solver = tm.solvers.ScaledGD()
    >>> result = tm.recover(operator, operator.forward(truth), rank=2, method=solver, max_iter=2000)
    >>> result.success
    True
    """

    name: ClassVar[str] = "scaledgd"
    step_rule: StepRule = NormalizedStep()

    def __post_init__(self) -> None:
        object.__setattr__(self, "step_rule", as_step(self.step_rule))

    def init(self, problem: Problem, x0: Tucker | None) -> ScaledGDState:
        """Evaluate ``x0``, by default ``H_r(A* y)``."""
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
        """Return iterate and step size, which determine a state."""
        return save_point(state)

    def load(self, problem: Problem, arrays: Mapping[str, Array]) -> ScaledGDState:
        """Return the state that these arrays determine."""
        return self._evaluate(problem, *load_point(arrays))
