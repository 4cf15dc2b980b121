"""Recovery by spectral shrinkage, for data whose singular values decay slowly."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tensormend.core.algebra import Array, check_count, check_number, inner, norm
from tensormend.core.implicit import ImplicitTensor, extrapolate
from tensormend.core.shrinkage import Shrunk, shrink
from tensormend.core.tucker import Tucker
from tensormend.recovery.arrays import add_prefix, take_prefix
from tensormend.recovery.contract import Traits
from tensormend.recovery.problem import Problem

__all__ = ["Shrink", "ShrinkState"]

SOLVED = 1e-8  # relative residual of the inner system at which conjugate gradients end


@dataclass(frozen=True, eq=False)
class ShrinkState:
    """An iterate, the previous one, and ``x + A*(y - A(x))`` of both.

    ``strength`` and ``degrees_of_freedom`` are those of the last shrinkage.
    """

    x: Tucker
    loss: float
    step_size: float
    previous: Tucker
    moved: ImplicitTensor
    last_moved: ImplicitTensor
    n_steps: int
    strength: float
    degrees_of_freedom: float
    is_finished: bool


@dataclass(frozen=True)
class Shrink:
    """Spectral shrinkage along a path of decreasing strengths.

    The rank of the problem only limits the number of singular directions; these are weighted by
    their singular values instead of being truncated.

    Parameters
    ----------
    strength : float, default=3e-3
        Last value of ``tau / ||x||`` on the path. Small values suit data with little noise and
        many observed entries.
    initial_strength : float, default=0.1
        First value of ``tau / ||x||`` on the path.
    decay : float, default=0.75
        Ratio of successive strengths, between 0 and 1.
    iterations_per_strength : int, default=2
        Number of iterations at each strength.
    cg_steps : int, default=1
        Number of conjugate gradient steps in an iteration; 0 for the plain fixed-point iteration.
    momentum : float, default=0.7
        Extrapolation of the tensor whose singular directions are used, 0 or more and below 1.
    mode_weights : tuple of float, optional
        Factors on ``tau``, one per mode; all 1 by default.

    Raises
    ------
    InputError
        If a setting is out of its range.

    Notes
    -----
    A fixed point of ``x = S(x + A*(y - A(x)))`` is sought. ``S`` multiplies the directions of
    singular value ``s`` in the unfolding along every mode by ``s^2 / (s^2 + tau^2)``, the Wiener
    filter, mode after mode. For fixed directions and weights ``S`` is a linear map ``F``, and the
    fixed point minimizes::

        ||A(x) - y||^2 / 2 + <x, (F^-1 - 1) x> / 2

    An iteration computes ``F`` from ``v + momentum (v - previous v)`` with ``v = x + A*(y - A(x))``
    and takes ``cg_steps`` steps of conjugate gradients towards this minimizer, in the coordinates
    of the core.

    The strength decreases geometrically from ``initial_strength`` to ``strength``; each stage
    continues from the result of the one before. A validation set can so choose the strength in a
    single run. The run ends with status ``FINISHED`` after the iterations at the last strength.

    Examples
    --------
    >>> import tensormend as tm
    >>> truth = tm.simulate.random_tucker((20, 30, 40), rank=2, rng=0)
    >>> operator = tm.Sampling(truth.shape, tm.simulate.sample_indices(truth.shape, 0.3, rng=1))
    >>> solver = tm.solvers.Shrink(strength=0.01)
    >>> result = tm.recover(operator, operator.forward(truth), rank=8, method=solver)
    >>> result.status.name, result.n_iter == solver.n_path
    ('FINISHED', True)
    """

    name: ClassVar[str] = "shrink"
    traits: ClassVar[Traits] = Traits(allows_underdetermined=True)
    strength: float = 3e-3
    initial_strength: float = 0.1
    decay: float = 0.75
    iterations_per_strength: int = 2
    cg_steps: int = 1
    momentum: float = 0.7
    mode_weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("strength", "initial_strength"):
            check_number(
                name,
                getattr(self, name),
                "a finite number, 0 or more",
                lambda number: 0 <= number < np.inf,
            )
        check_number("decay", self.decay, "a number between 0 and 1", lambda value: 0 < value < 1)
        check_number(
            "momentum", self.momentum, "a number, 0 or more and below 1", lambda b: 0 <= b < 1
        )
        check_count("iterations_per_strength", self.iterations_per_strength, 1)
        check_count("cg_steps", self.cg_steps, 0)
        for weight in self.mode_weights or ():
            check_number(
                "each of mode_weights",
                weight,
                "a finite number, 0 or more",
                lambda number: 0 <= number < np.inf,
            )

    def strength_at(self, n_steps: int) -> float:
        """Return the strength of an iteration.

        Parameters
        ----------
        n_steps : int
            Iteration, counted from 0.

        Returns
        -------
        float
            Strength ``tau / ||x||`` of that iteration.
        """
        return max(
            self.strength,
            self.initial_strength * self.decay ** (n_steps // self.iterations_per_strength),
        )

    @property
    def n_path(self) -> int:
        """Number of iterations of the whole path."""
        if self.strength >= self.initial_strength:
            return self.iterations_per_strength
        floor = max(self.strength, np.finfo(float).tiny)
        return self.iterations_per_strength * (
            1 + math.ceil(math.log(floor / self.initial_strength) / math.log(self.decay))
        )

    def init(self, problem: Problem, x0: Tucker | None) -> ShrinkState:
        """Evaluate ``x0``, by default ``A* y`` shrunk at the first strength."""
        strength, freedom = np.nan, np.nan
        if x0 is None:
            z = problem.operator.adjoint_tensor(problem.y)
            strength = self.strength_at(0)
            first = shrink(z, strength, mode_weights=self.mode_weights, rank=problem.rank)
            x0, freedom = first.x, first.degrees_of_freedom
        x0 = x0.orthonormal()
        loss, moved = problem.operator.gradient_step(x0, problem.y)
        return ShrinkState(x0, loss, np.nan, x0, moved, moved, 0, strength, freedom, False)

    def step(self, problem: Problem, state: ShrinkState) -> ShrinkState:
        """Compute directions and weights from the iterate, and improve the core."""
        strength = self.strength_at(state.n_steps)
        shrunk = shrink(
            self._extrapolate(state),
            strength,
            mode_weights=self.mode_weights,
            rank=problem.rank,
            init=state.x.factors,
        )
        x = _improve(problem, shrunk, self.cg_steps)
        loss, moved = problem.operator.gradient_step(x, problem.y)
        n_steps = state.n_steps + 1
        return ShrinkState(
            x,
            loss,
            1.0,
            state.x,
            moved,
            state.moved,
            n_steps,
            strength,
            shrunk.degrees_of_freedom,
            n_steps >= self.n_path,
        )

    def _extrapolate(self, state: ShrinkState) -> ImplicitTensor:
        if state.n_steps == 0 or self.momentum == 0:
            return state.moved
        return extrapolate(state.moved, state.last_moved, self.momentum)

    def save(self, state: ShrinkState) -> dict[str, Array]:
        """Return the last two iterates and the numbers that determine a state."""
        numbers = (state.step_size, state.strength, state.degrees_of_freedom)
        return {
            "n_steps": np.array(state.n_steps),
            "numbers": np.array(numbers),
            **state.x.as_arrays(),
            **add_prefix("previous.", state.previous.as_arrays()),
        }

    def load(self, problem: Problem, arrays: Mapping[str, Array]) -> ShrinkState:
        """Return the state that these arrays determine."""
        step_size, strength, freedom = (float(number) for number in arrays["numbers"])
        x = Tucker.from_arrays(arrays)
        previous = Tucker.from_arrays(take_prefix("previous.", arrays))
        loss, moved = problem.operator.gradient_step(x, problem.y)
        _, last = problem.operator.gradient_step(previous, problem.y)
        n_steps = int(arrays["n_steps"])
        is_finished = n_steps >= self.n_path
        return ShrinkState(
            x, loss, step_size, previous, moved, last, n_steps, strength, freedom, is_finished
        )

    def degrees_of_freedom(
        self, problem: Problem, x: Tucker, rng: np.random.Generator, n_steps: int = 6
    ) -> float:
        """Estimate the effective degrees of freedom of a fit.

        Parameters
        ----------
        problem : Problem
            The problem that was solved.
        x : Tucker
            The fit, in the units of the data.
        rng : numpy.random.Generator
            Generator of the random signs.
        n_steps : int, default=6
            Number of conjugate gradient steps.

        Returns
        -------
        float
            Estimated trace of the map from ``y`` to ``A(x)``.

        Notes
        -----
        For fixed directions and weights the map from ``y`` to ``A(x)`` is linear. Its trace is
        estimated by Hutchinson's method, from its value at one vector of random signs, which is
        computed by conjugate gradients. That the directions depend on the data is neglected, so
        the expected value is a lower bound.
        """
        x = x * (1 / problem.unit)
        problem = problem.in_units()
        _, moved = problem.operator.gradient_step(x, problem.y)
        shrunk = shrink(moved, self.strength, mode_weights=self.mode_weights, rank=problem.rank)
        signs = rng.choice(np.array([-1, 1], dtype=problem.dtype), problem.operator.n_measurements)
        nothing = replace(shrunk, x=Tucker(np.zeros_like(shrunk.x.core), shrunk.x.factors))
        answer = _improve(Problem(problem.operator, signs, problem.rank), nothing, n_steps)
        return float(inner(signs, problem.operator.forward_tucker(answer)).real)


def _improve(problem: Problem, shrunk: Shrunk, n_steps: int) -> Tucker:
    """Take conjugate gradient steps for the penalized least-squares problem of given weights.

    With ``H = U diag(w)^(1/2)`` in every mode and ``x = H v`` the system for ``v`` is
    ``(H^H A*A H + 1 - H^H H) v = H^H A* y``, whose eigenvalues lie between 0 and 1 where ``A*A``
    is a projection.
    """
    roots = [np.sqrt(w) for w in shrunk.weights]
    factors = tuple(u * root for u, root in zip(shrunk.x.factors, roots, strict=True))
    root = _outer(roots)
    slack = 1 - root**2

    def difference(v: Array, y: Array | None) -> Array:
        gradient = problem.operator.gradient(Tucker(v, factors), y, factors=False)
        out: Array = gradient.core - slack * v
        return out

    v = shrunk.x.core / root
    if n_steps:
        residual = difference(v, problem.y)
        direction, square = residual, norm(residual) ** 2
        least = (SOLVED * max(norm(v), norm(residual))) ** 2
        for _ in range(n_steps):
            if square <= least:
                break
            image = -difference(direction, None)
            step = square / float(inner(direction, image).real)
            v = v + step * direction
            residual = residual - step * image
            previous, square = square, norm(residual) ** 2
            direction = residual + square / previous * direction
    return Tucker(v * root, shrunk.x.factors)


def _outer(vectors: list[Array]) -> Array:
    out = vectors[0]
    for vector in vectors[1:]:
        out = out[..., None] * vector
    return out
