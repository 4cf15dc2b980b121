"""Iterative hard thresholding: TIHT (CIHT and NIHT) with T-HOSVD, SeMPIHT with ST-HOSVD."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tensormend.core.algebra import Array, squared_norm
from tensormend.core.implicit import ImplicitTensor
from tensormend.core.truncate import as_order, sthosvd, thosvd
from tensormend.core.tucker import Tucker
from tensormend.recovery.arrays import load_point, save_point
from tensormend.recovery.contract import IterationCost, Sizes
from tensormend.recovery.problem import Problem
from tensormend.recovery.steps import NormalizedStep, StepRule, as_step, rounding_level

__all__ = ["TIHT", "SeMPIHT", "ThresholdingState"]


@dataclass(frozen=True, eq=False)
class ThresholdingState:
    """An iterate, its residual ``y - A(x)``, and the core of ``F(A* residual)``."""

    x: Tucker
    loss: float
    step_size: float
    residual: Array
    direction: Array
    gradient_norm: float


def _evaluate(problem: Problem, x: Tucker, step_size: float) -> ThresholdingState:
    found = problem.operator.gradient(x, problem.y, residual=True)
    return ThresholdingState(
        x, found.loss, step_size, found.residual, found.core, found.gradient_norm
    )


def _shift(
    problem: Problem, state: ThresholdingState, rule: StepRule
) -> tuple[float, ImplicitTensor]:
    """Take the gradient step of equation 2.1, with the step size of equation 2.3."""
    direction = Tucker(state.direction, state.x.factors)
    alpha = rule(
        lambda: squared_norm(state.direction),
        lambda: squared_norm(problem.operator.forward_tucker(direction)),
        rounding_level(state.gradient_norm, problem.dtype),
    )
    return alpha, problem.operator.adjoint_tensor(state.residual, base=state.x, step=alpha)


@dataclass(frozen=True)
class TIHT:
    """Tensor iterative hard thresholding: ``x <- H_r(x + a A*(y - A(x)))``.

    ``H_r`` is the T-HOSVD. The constant step gives CIHT, the normalized step gives NIHT. For
    sampled entries the sum is kept as sparse plus low-rank and never formed.

    Parameters
    ----------
    step_rule : StepRule, default=NormalizedStep()
        Rule for the step size.
    """

    name: ClassVar[str] = "tiht"
    step_rule: StepRule = NormalizedStep()

    def __post_init__(self) -> None:
        object.__setattr__(self, "step_rule", as_step(self.step_rule))

    def cost(self, sizes: Sizes) -> IterationCost:
        """Return what an iteration holds: residual and step, and the entries along every mode.

        Parameters
        ----------
        sizes : Sizes

        Returns
        -------
        IterationCost
            What an iteration holds.
        """
        return IterationCost(sizes.rank, n_residuals=2, needs_every_mode=True)

    def init(self, problem: Problem, x0: Tucker | None) -> ThresholdingState:
        """Start at ``x0`` or at ``H_r(A* y)``."""
        return _evaluate(problem, problem.initial_point(x0), np.nan)

    def step(self, problem: Problem, state: ThresholdingState) -> ThresholdingState:
        """Take one gradient step and truncate."""
        alpha, z = _shift(problem, state, self.step_rule)
        return _evaluate(problem, thosvd(z, problem.rank, init=state.x.factors), alpha)

    def save(self, state: ThresholdingState) -> dict[str, Array]:
        """Return the arrays that determine a state."""
        return save_point(state)

    def load(self, problem: Problem, arrays: Mapping[str, Array]) -> ThresholdingState:
        """Return the state that `save` was given."""
        return _evaluate(problem, *load_point(arrays))


@dataclass(frozen=True)
class SeMPIHT:
    """Hard thresholding with sequentially optimal modal projections: ST-HOSVD for ``H_r``.

    ``mode_order`` is the processing order of the modes, by ascending rank by default.

    Parameters
    ----------
    step_rule : StepRule, default=NormalizedStep()
        Rule for the step size.
    mode_order : tuple of int, optional
        Processing order of the modes in ST-HOSVD; by default ascending rank.
    """

    name: ClassVar[str] = "sempiht"
    step_rule: StepRule = NormalizedStep()
    mode_order: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "step_rule", as_step(self.step_rule))

    def modes(self, sizes: Sizes) -> tuple[int, ...]:
        """Return the processing order of the modes.

        Parameters
        ----------
        sizes : Sizes

        Returns
        -------
        tuple of int
            Processing order of the modes.
        """
        return as_order(self.mode_order, sizes.rank)

    def cost(self, sizes: Sizes) -> IterationCost:
        """Return what an iteration holds: residual and step, and the panels of ST-HOSVD.

        Parameters
        ----------
        sizes : Sizes

        Returns
        -------
        IterationCost
            What an iteration holds.
        """
        return IterationCost(sizes.rank, n_residuals=2, n_panels=4)

    def init(self, problem: Problem, x0: Tucker | None) -> ThresholdingState:
        """Start at ``x0`` or at the ST-HOSVD of ``A* y``."""
        z = problem.operator.adjoint_tensor(problem.y) if x0 is None else x0
        return _evaluate(problem, sthosvd(z, problem.rank, mode_order=self.mode_order), np.nan)

    def step(self, problem: Problem, state: ThresholdingState) -> ThresholdingState:
        """Take one gradient step and truncate."""
        alpha, z = _shift(problem, state, self.step_rule)
        x = sthosvd(z, problem.rank, mode_order=self.mode_order, init=state.x.factors)
        return _evaluate(problem, x, alpha)

    def save(self, state: ThresholdingState) -> dict[str, Array]:
        """Return the arrays that determine a state."""
        return save_point(state)

    def load(self, problem: Problem, arrays: Mapping[str, Array]) -> ThresholdingState:
        """Return the state that `save` was given."""
        return _evaluate(problem, *load_point(arrays))
