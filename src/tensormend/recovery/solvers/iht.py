"""Iterative hard thresholding: TIHT with T-HOSVD, SeMPIHT with ST-HOSVD."""

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
    """An iterate, its residual ``y - A(x)``, and the core of ``F(A*(y - A(x)))``."""

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
    """Take the gradient step of equation 2.1 of the paper, with the step size of equation 2.3."""
    direction = Tucker(state.direction, state.x.factors)
    alpha = rule(
        lambda: squared_norm(state.direction),
        lambda: squared_norm(problem.operator.forward_tucker(direction)),
        rounding_level(state.gradient_norm, problem.dtype),
    )
    return alpha, problem.operator.adjoint_tensor(state.residual, base=state.x, step=alpha)


@dataclass(frozen=True)
class TIHT:
    """Tensor iterative hard thresholding with T-HOSVD.

    Parameters
    ----------
    step_rule : StepRule, str or float, default=NormalizedStep()
        Rule for the step size, or what `tensormend.steps.as_step` makes one of. The constant step
        gives CIHT, the normalized step NIHT.

    Notes
    -----
    With the negative gradient ``G = A*(y - A(x))``, the step size ``a`` and the truncation ``H_r``
    (T-HOSVD) to multilinear rank ``r``, an iteration is::

        x <- H_r(x + a G)

    The normalized step is ``a = ||F(G)||^2 / ||A(F(G))||^2``, where ``F`` projects every mode onto
    the column space of the factor of ``x``. For sampled entries ``x + a G`` is kept as the sum of a
    sparse and a low-rank tensor.

    References
    ----------
    H. Rauhut, R. Schneider, Z. Stojanac (2017), "Low Rank Tensor Recovery via Iterative Hard
    Thresholding", Linear Algebra and its Applications 523.

    Examples
    --------
    >>> import tensormend as tm
    >>> truth = tm.simulate.random_tucker((20, 30, 40), rank=2, rng=0)
    >>> operator = tm.Sampling(truth.shape, tm.simulate.sample_indices(truth.shape, 0.3, rng=1))
    >>> solver = tm.solvers.TIHT()
    >>> result = tm.recover(operator, operator.forward(truth), rank=2, method=solver)
    >>> result.success
    True
    """

    name: ClassVar[str] = "tiht"
    step_rule: StepRule = NormalizedStep()

    def __post_init__(self) -> None:
        object.__setattr__(self, "step_rule", as_step(self.step_rule))

    def cost(self, sizes: Sizes) -> IterationCost:
        """Return what an iteration keeps in memory.

        Parameters
        ----------
        sizes : Sizes
            Shape, rank and number of measurements; a `Problem` has these.

        Returns
        -------
        IterationCost
            Residual and step, with the entries stored along every mode.
        """
        return IterationCost(sizes.rank, n_residuals=2, needs_every_mode=True)

    def init(self, problem: Problem, x0: Tucker | None) -> ThresholdingState:
        """Evaluate ``x0``, by default ``H_r(A* y)``."""
        return _evaluate(problem, problem.initial_point(x0), np.nan)

    def step(self, problem: Problem, state: ThresholdingState) -> ThresholdingState:
        """Take one gradient step and truncate."""
        alpha, z = _shift(problem, state, self.step_rule)
        return _evaluate(problem, thosvd(z, problem.rank, init=state.x.factors), alpha)

    def save(self, state: ThresholdingState) -> dict[str, Array]:
        """Return iterate and step size, which determine a state."""
        return save_point(state)

    def load(self, problem: Problem, arrays: Mapping[str, Array]) -> ThresholdingState:
        """Return the state that these arrays determine."""
        return _evaluate(problem, *load_point(arrays))


@dataclass(frozen=True)
class SeMPIHT:
    """Iterative hard thresholding with sequentially optimal modal projections.

    Parameters
    ----------
    step_rule : StepRule, str or float, default=NormalizedStep()
        Rule for the step size, or what `tensormend.steps.as_step` makes one of.
    mode_order : tuple of int, optional
        Processing order of the modes in ST-HOSVD; by default ascending rank.

    Notes
    -----
    An iteration is that of `TIHT`, ``x <- H_r(x + a A*(y - A(x)))``, where ``H_r`` is the ST-HOSVD:
    each mode is truncated after the modes before it.

    References
    ----------
    J. H. de M. Goulart, G. Favier (2017), "Low-Rank Tensor Recovery Using Sequentially Optimal
    Modal Projections in Iterative Hard Thresholding (SeMPIHT)", SIAM Journal on Scientific
    Computing 39.

    Examples
    --------
    >>> import tensormend as tm
    >>> truth = tm.simulate.random_tucker((20, 30, 40), rank=2, rng=0)
    >>> operator = tm.Sampling(truth.shape, tm.simulate.sample_indices(truth.shape, 0.3, rng=1))
    >>> solver = tm.solvers.SeMPIHT(mode_order=(2, 0, 1))
    >>> result = tm.recover(operator, operator.forward(truth), rank=2, method=solver)
    >>> result.success
    True
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
            Shape, rank and number of measurements; a `Problem` has these.

        Returns
        -------
        tuple of int
            Processing order of the modes.
        """
        return as_order(self.mode_order, sizes.rank)

    def cost(self, sizes: Sizes) -> IterationCost:
        """Return what an iteration keeps in memory.

        Parameters
        ----------
        sizes : Sizes
            Shape, rank and number of measurements; a `Problem` has these.

        Returns
        -------
        IterationCost
            Residual and step, and the panels of ST-HOSVD.
        """
        return IterationCost(sizes.rank, n_residuals=2, n_panels=4)

    def init(self, problem: Problem, x0: Tucker | None) -> ThresholdingState:
        """Evaluate the ST-HOSVD of ``x0``, by default of ``A* y``."""
        z = problem.operator.adjoint_tensor(problem.y) if x0 is None else x0
        return _evaluate(problem, sthosvd(z, problem.rank, mode_order=self.mode_order), np.nan)

    def step(self, problem: Problem, state: ThresholdingState) -> ThresholdingState:
        """Take one gradient step and truncate."""
        alpha, z = _shift(problem, state, self.step_rule)
        x = sthosvd(z, problem.rank, mode_order=self.mode_order, init=state.x.factors)
        return _evaluate(problem, x, alpha)

    def save(self, state: ThresholdingState) -> dict[str, Array]:
        """Return iterate and step size, which determine a state."""
        return save_point(state)

    def load(self, problem: Problem, arrays: Mapping[str, Array]) -> ThresholdingState:
        """Return the state that these arrays determine."""
        return _evaluate(problem, *load_point(arrays))
