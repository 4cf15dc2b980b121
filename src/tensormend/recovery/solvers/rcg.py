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

MAX_TRIALS = 7  # step sizes of a line search
ENOUGH_DESCENT = 0.1  # cosine of direction and gradient up to which the gradient is taken


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

    Notes
    -----
    With the negative gradient ``G = A*(y - A(x))``, its projection ``P(G)`` onto the tangent space
    at ``x``, the direction ``d`` and the truncation ``H_r`` (T-HOSVD), an iteration is::

        a = <P(G), d> / ||A(d)||^2
        x <- H_r(x + a d)
        d <- P(G) + b T(d)

    where ``a`` minimizes the loss along ``d`` in the tangent space, ``T`` projects onto the tangent
    space at the new iterate, and with ``z = P(G) - T(P_old(G_old))`` the formula of Hestenes and
    Stiefel gives ``b = max(0, -<z, P(G)> / <z, T(d)>)``.

    Where the cosine of the angle between ``d`` and ``P(G)`` is at most 0.1, ``d`` is set to
    ``P(G)``. A step that increases the loss is halved, at most six times; if the loss still
    increases, ``P(G)`` is tried as direction, and the better point is taken.

    References
    ----------
    D. Kressner, M. Steinlechner, B. Vandereycken (2014), "Low-Rank Tensor Completion by Riemannian
    Optimization", BIT Numerical Mathematics 54.

    M. R. Hestenes, E. Stiefel (1952), "Methods of Conjugate Gradients for Solving Linear Systems",
    Journal of Research of the National Bureau of Standards 49.

    Examples
    --------
    >>> import tensormend as tm
    >>> truth = tm.simulate.random_tucker((20, 30, 40), rank=2, rng=0)
    >>> operator = tm.Sampling(truth.shape, tm.simulate.sample_indices(truth.shape, 0.3, rng=1))
    >>> solver = tm.solvers.RCG()
    >>> result = tm.recover(operator, operator.forward(truth), rank=2, method=solver)
    >>> result.success
    True
    """

    name: ClassVar[str] = "rcg"

    def init(self, problem: Problem, x0: Tucker | None) -> RCGState:
        """Evaluate ``x0``, by default ``H_r(A* y)``; the first direction is the gradient."""
        x = problem.initial_point(x0)
        loss, gradient_norm, tangent = problem.gradient(x)
        return RCGState(x, loss, np.nan, tangent, tangent, gradient_norm)

    def step(self, problem: Problem, state: RCGState) -> RCGState:
        """Move to the minimum along the direction, retract, and update the direction."""
        new, is_conjugate = _search(problem, state, state.direction), True
        if new.loss > state.loss and state.direction is not state.tangent:
            plain = _search(problem, state, state.tangent)
            if not plain.loss >= new.loss:
                new, is_conjugate = plain, False
        direction = _conjugate(state, new.x, new.tangent) if is_conjugate else new.tangent
        return replace(new, direction=direction)

    def save(self, state: RCGState) -> dict[str, Array]:
        """Return the arrays that determine a state."""
        direction = {f"direction_{k}": v for k, v in enumerate(state.direction.factors)}
        return {"direction_core": state.direction.core, **direction, **save_point(state)}

    def load(self, problem: Problem, arrays: Mapping[str, Array]) -> RCGState:
        """Return the state that these arrays determine."""
        x, step_size = load_point(arrays)
        loss, gradient_norm, tangent = problem.gradient(x)
        factors = tuple(arrays[f"direction_{k}"] for k in range(x.ndim))
        direction = TuckerTangent(x, arrays["direction_core"], factors)
        return RCGState(x, loss, step_size, tangent, direction, gradient_norm)


def _search(problem: Problem, state: RCGState, direction: TuckerTangent) -> RCGState:
    """Take the exact step on the tangent space, halved while it increases the loss."""
    squared_norm = problem.operator.squared_norm(direction)
    rounding = rounding_level(state.gradient_norm, problem.dtype)
    alpha = exact_step(state.tangent.inner(direction), squared_norm, rounding)

    def evaluate(alpha: float) -> RCGState:
        x = direction.retract(alpha)
        loss, gradient_norm, tangent = problem.gradient(x)
        return RCGState(x, loss, alpha, tangent, tangent, gradient_norm)

    return backtrack(evaluate, alpha, state.loss, max_trials=MAX_TRIALS, factor=2.0)


def _conjugate(state: RCGState, x: Tucker, tangent: TuckerTangent) -> TuckerTangent:
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
