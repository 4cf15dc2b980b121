"""Riemannian gradient descent with Barzilai-Borwein steps."""

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

MAX_TRIALS = 7  # step sizes of a line search
CUT = 4.0  # what a step that is too long is divided by
MEMORY = 10  # number of recent losses whose maximum the new loss must not exceed


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
    """Riemannian gradient descent with Barzilai-Borwein steps.

    Notes
    -----
    An iteration is that of `RGD`, ``x <- H_r(x + a P(G))`` with ``G = A*(y - A(x))``. Let ``s`` be
    the step ``a P(G)`` just taken and ``z`` the decrease of ``P(G)`` along it, both projected onto
    the tangent space at the new iterate. The next step size is::

        a <- <s, s> / <s, z>

    It needs no ``A(P(G))``, so an iteration takes one pass over the measurements. The loss may
    rise: where it would exceed the largest of the last ten losses, the step is divided by 4, at
    most six times. The first step minimizes the loss along ``P(G)``.

    References
    ----------
    J. Barzilai, J. M. Borwein (1988), "Two-Point Step Size Gradient Methods", IMA Journal of
    Numerical Analysis 8.

    B. Iannazzo, M. Porcelli (2018), "The Riemannian Barzilai-Borwein Method with Nonmonotone Line
    Search and the Matrix Geometric Mean Computation", IMA Journal of Numerical Analysis 38.

    Examples
    --------
    >>> import tensormend as tm
    >>> truth = tm.simulate.random_tucker((20, 30, 40), rank=2, rng=0)
    >>> operator = tm.Sampling(truth.shape, tm.simulate.sample_indices(truth.shape, 0.3, rng=1))
    >>> solver = tm.solvers.RBB()
    >>> result = tm.recover(operator, operator.forward(truth), rank=2, method=solver)
    >>> result.success
    True
    """

    name: ClassVar[str] = "rbb"

    def init(self, problem: Problem, x0: Tucker | None) -> RBBState:
        """Evaluate ``x0``, by default ``H_r(A* y)``."""
        x = problem.initial_point(x0)
        loss, gradient_norm, tangent = problem.gradient(x)
        squared_norm = problem.operator.squared_norm(tangent)
        rounding = rounding_level(gradient_norm, problem.dtype)
        step = exact_step(tangent.squared_norm(), squared_norm, rounding)
        return RBBState(x, loss, np.nan, tangent, step, (loss,))

    def step(self, problem: Problem, state: RBBState) -> RBBState:
        """Move along the gradient, retract, and compute the next step size."""

        def evaluate(alpha: float) -> RBBState:
            x = state.tangent.retract(alpha)
            loss, _, tangent = problem.gradient(x)
            return RBBState(x, loss, alpha, tangent, alpha, (*state.losses, loss)[-MEMORY:])

        new = backtrack(
            evaluate, state.next_step, max(state.losses), max_trials=MAX_TRIALS, factor=CUT
        )
        moved = state.tangent.transport(new.x)
        decrease = moved.plus(new.tangent, -1.0)
        curvature = moved.inner(decrease)
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
        """Return the state that these arrays determine."""
        x, step_size = load_point(arrays)
        loss, _, tangent = problem.gradient(x)
        next_step = float(arrays["next_step"])
        losses = tuple(float(past) for past in arrays["losses"])
        return RBBState(x, loss, step_size, tangent, next_step, losses)
