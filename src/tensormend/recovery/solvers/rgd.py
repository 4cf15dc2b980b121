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
    """Riemannian gradient descent on the tensors of fixed multilinear rank.

    Parameters
    ----------
    step_rule : StepRule, str or float, default=NormalizedStep()
        Rule for the step size, or what `tensormend.steps.as_step` makes one of.

    Notes
    -----
    With the negative gradient ``G = A*(y - A(x))``, the projection ``P`` onto the tangent space of
    the Tucker manifold at ``x``, the step size ``a`` and the truncation ``H_r`` (T-HOSVD) to
    multilinear rank ``r``, an iteration is::

        x <- H_r(x + a P(G))

    The normalized step is ``a = ||P(G)||^2 / ||A(P(G))||^2``. ``x + a P(G)`` has multilinear rank
    at most ``2r``, so ``H_r`` is computed from a core of that size. Loss and ``P(G)`` take one pass
    over the measurements.

    References
    ----------
    J.-F. Cai, L. Miao, Y. Wang, Y. Xian (2020), "Provable Near-Optimal Low-Multilinear-Rank Tensor
    Recovery", arXiv:2007.08904.

    Examples
    --------
    >>> import tensormend as tm
    >>> truth = tm.simulate.random_tucker((20, 30, 40), rank=2, rng=0)
    >>> operator = tm.Sampling(truth.shape, tm.simulate.sample_indices(truth.shape, 0.3, rng=1))
    >>> solver = tm.solvers.RGD()
    >>> result = tm.recover(operator, operator.forward(truth), rank=2, method=solver)
    >>> result.success
    True
    """

    name: ClassVar[str] = "rgd"
    step_rule: StepRule = NormalizedStep()

    def __post_init__(self) -> None:
        object.__setattr__(self, "step_rule", as_step(self.step_rule))

    def _evaluate(self, problem: Problem, x: Tucker, step_size: float) -> RGDState:
        loss, gradient_norm, tangent = problem.gradient(x)
        return RGDState(x, loss, step_size, tangent, gradient_norm)

    def init(self, problem: Problem, x0: Tucker | None) -> RGDState:
        """Evaluate ``x0``, by default ``H_r(A* y)``."""
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
        """Return iterate and step size, which determine a state."""
        return save_point(state)

    def load(self, problem: Problem, arrays: Mapping[str, Array]) -> RGDState:
        """Return the state that these arrays determine."""
        return self._evaluate(problem, *load_point(arrays))
