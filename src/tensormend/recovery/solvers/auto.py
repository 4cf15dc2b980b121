"""A method that needs no choosing: Gauss-Newton first, and a way out of trouble."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from tensormend.core.algebra import Array, cap_rank
from tensormend.core.truncate import thosvd
from tensormend.core.tucker import Tucker, degrees_of_freedom
from tensormend.recovery.arrays import add_prefix, take_prefix
from tensormend.recovery.contract import (
    IterationCost,
    Sizes,
    Solver,
    Targeted,
    Traits,
    cost_of,
)
from tensormend.recovery.init import corrected_init
from tensormend.recovery.problem import Problem

__all__ = ["Auto", "AutoState"]

NEWTON, GRADIENTS, WIDE = range(3)  # stages
MANY_SAMPLES = 1000  # per degree of freedom: beyond, every iteration gains so much that RCG is best
FEW_SAMPLES = 100  # per degree of freedom: below, an initial point may lead astray
ASTRAY = 0.1  # relative residual above which a run that got stuck is not believed
SLOW, MAX_SLOW = (
    0.98,
    3,
)  # iterations that keep this fraction of the loss; how many are too many
LONG = 30  # iterations after which a run that is still astray is given up
EXTRA_RANKS = (2, 3)  # ranks beyond the one asked for that restarts search in
WIDE_ITERATIONS, WIDE_RESIDUAL = 30, 1e-3
SWITCHED = len(EXTRA_RANKS) + 1  # number of restarts that stands for the end of the line
BETTER = 0.9  # fraction of the best loss that a restart must get below to be worth another one


@dataclass(frozen=True, eq=False)
class AutoState:
    """The state of the method at work, the best point so far, and what has happened.

    ``stage`` tells the method at work: 0 Gauss-Newton, 1 conjugate gradients, 2 conjugate
    gradients in the space of larger ranks, of which ``n_wide`` iterations are done. In that stage
    ``inner`` is a state of the problem with these ranks, and the iterate shown is the best point
    of the rank asked for.
    """

    inner: Any
    stage: int
    n_slow: int
    n_steps: int
    n_restarts: int
    n_wide: int
    best: Tucker
    best_loss: float
    goal: float
    notes: tuple[str, ...]

    @property
    def is_exploring(self) -> bool:
        """Whether the search in the space of larger ranks is at work."""
        return self.stage == WIDE

    @property
    def x(self) -> Tucker:
        """The iterate, or the best point while a larger space is searched."""
        x: Tucker = self.best if self.is_exploring else self.inner.x
        return x

    @property
    def loss(self) -> float:
        """Its loss."""
        return self.best_loss if self.is_exploring else float(self.inner.loss)

    @property
    def step_size(self) -> float:
        """The step that led here."""
        return float(self.inner.step_size)


@dataclass(frozen=True)
class Auto:
    """Choose the method by rule, watch it, and restart or switch where it gets stuck.

    The rule, with ``q`` the number of measurements per degree of freedom:

    1. From the corrected initial point (or the one given), Riemannian Gauss-Newton; from
       ``q = 1000`` on conjugate gradients, which then need fewer passes. Both halve a step that
       raises the loss.
    2. An iteration is slow if it leaves more than 98% of the loss. After three slow ones in a row,
       or 30 iterations with the relative residual still above 0.1, the run is stuck.
    3. A stuck run with a residual above 0.1 and ``q`` between 1 and 100 has been led astray by its
       initial point. Conjugate gradients then search a larger space, two ranks more in every mode,
       whose landscape has fewer traps; the result, truncated to the rank, is the new initial
       point. If that was better but is stuck too, the search is repeated with three ranks more.
       These iterations, at most 30 each time, count like all others (``max_iter``, time limit,
       callback); meanwhile the iterate shown is the best point so far.
    4. Any other stuck run continues from its best point with the other method, once.

    What happened is told in the notes of the result.

    Parameters
    ----------
    newton, gradients : Solver
        The two methods, `RGN` and `RCG`.
    """

    name: ClassVar[str] = "auto"
    traits: ClassVar[Traits] = Traits(default_init="corrected")
    newton: Solver[Any]
    gradients: Solver[Any]

    def with_target(self, target: float) -> Auto:
        """Return the solver whose methods know the relative residual to reach.

        Parameters
        ----------
        target : float

        Returns
        -------
        Auto
            The solver whose methods know the relative residual to reach.
        """
        parts = (self.newton, self.gradients)
        newton, gradients = (p.with_target(target) if isinstance(p, Targeted) else p for p in parts)
        return Auto(newton, gradients)

    def cost(self, sizes: Sizes) -> IterationCost:
        """Return the larger of the costs of both methods, in the widest space.

        Parameters
        ----------
        sizes : Sizes

        Returns
        -------
        IterationCost
            The larger of the costs of both methods, in the widest space.
        """
        wide = sizes.rank
        if 1 <= _samples(sizes) <= FEW_SAMPLES:
            wide = _wider(sizes, max(EXTRA_RANKS))
        costs = [cost_of(part, sizes) for part in (self.newton, self.gradients)]
        return IterationCost(
            wide,
            n_factor_sets=max(cost.n_factor_sets for cost in costs),
            n_panels=max(cost.n_panels for cost in costs),
            n_residuals=max(cost.n_residuals for cost in costs),
            needs_every_mode=any(cost.needs_every_mode for cost in costs),
        )

    def init(self, problem: Problem, x0: Tucker | None) -> AutoState:
        """Start at ``x0`` or at the corrected initial point."""
        stage = int(_samples(problem) >= MANY_SAMPLES)
        where = "the corrected initial point" if x0 is None else "the given one"
        solver = self._solver(stage)
        inner = solver.init(problem, corrected_init(problem) if x0 is None else x0)
        note = f"{solver.name} from {where}, {_samples(problem):.3g} samples per degree of freedom"
        return AutoState(inner, stage, 0, 0, 0, 0, inner.x, float(inner.loss), np.inf, (note,))

    def step(self, problem: Problem, state: AutoState) -> AutoState:
        """Take one step of the method at work, or leave it where it is stuck."""
        if state.is_exploring:
            return self._explore(problem, state)
        inner = self._solver(state.stage).step(problem, state.inner)
        loss = float(inner.loss)
        is_slow = not loss < SLOW * state.loss
        new = replace(
            state,
            inner=inner,
            n_slow=state.n_slow + 1 if is_slow else 0,
            n_steps=state.n_steps + 1,
        )
        if loss < state.best_loss:
            new = replace(new, best=inner.x, best_loss=loss)
        residual = _residual(problem, new.best_loss)
        is_astray = residual > ASTRAY
        if new.n_slow < MAX_SLOW and not (is_astray and new.n_steps >= LONG):
            return new
        can_restart = 1 <= _samples(problem) <= FEW_SAMPLES
        may_restart = can_restart and new.n_restarts < len(EXTRA_RANKS)
        if is_astray and may_restart and new.best_loss < BETTER * new.goal:
            return self._widen(problem, new)
        return new if new.n_restarts == SWITCHED else self._switch(problem, new)

    def _solver(self, stage: int) -> Solver[Any]:
        return self.newton if stage == NEWTON else self.gradients

    def _widen(self, problem: Problem, state: AutoState) -> AutoState:
        """Leave a run that was led astray, for the corrected initial point of larger ranks."""
        wide = self._problem(problem, WIDE, state.n_restarts)
        inner = self.gradients.init(wide, corrected_init(wide))
        return replace(state, inner=inner, stage=WIDE, n_wide=0)

    def _explore(self, problem: Problem, state: AutoState) -> AutoState:
        """Take one step in the larger space; after the last one, restart from its truncation."""
        wide = self._problem(problem, WIDE, state.n_restarts)
        inner = self.gradients.step(wide, state.inner)
        new = replace(state, inner=inner, n_wide=state.n_wide + 1)
        if new.n_wide < WIDE_ITERATIONS and _residual(wide, inner.loss) > WIDE_RESIDUAL:
            return new
        note = (
            f"stuck at relative residual {_residual(problem, state.best_loss):.2g} after "
            f"{state.n_steps} iterations: restarted with {self.newton.name} from a fit with "
            f"{EXTRA_RANKS[state.n_restarts]} more ranks in every mode"
        )
        return replace(
            new,
            inner=self.newton.init(problem, thosvd(inner.x, problem.rank)),
            stage=NEWTON,
            n_slow=0,
            n_steps=0,
            n_restarts=state.n_restarts + 1,
            goal=state.best_loss,
            notes=(*state.notes, note),
        )

    def _problem(self, problem: Problem, stage: int, n_restarts: int) -> Problem:
        """Return the problem of a stage."""
        if stage != WIDE:
            return problem
        return problem.with_rank(_wider(problem, EXTRA_RANKS[n_restarts]))

    def _switch(self, problem: Problem, state: AutoState) -> AutoState:
        """Go on from the best point with the other method; a second time does nothing."""
        solver = self._solver(1 - state.stage)
        note = (
            f"slow at relative residual {_residual(problem, state.best_loss):.2g}: continued with "
            f"{solver.name} from the best point"
        )
        return replace(
            state,
            inner=solver.init(problem, state.best),
            stage=1 - state.stage,
            n_slow=0,
            n_steps=0,
            n_restarts=SWITCHED,
            notes=(*state.notes, note),
        )

    def save(self, state: AutoState) -> dict[str, Array]:
        """Return the arrays that determine a state."""
        inner = self._solver(state.stage).save(state.inner)
        counts = (state.stage, state.n_slow, state.n_steps, state.n_restarts, state.n_wide)
        return {
            "counts": np.array(counts),
            "losses": np.array((state.best_loss, state.goal)),
            "notes": np.frombuffer("\n".join(state.notes).encode(), dtype=np.uint8),
            **add_prefix("best.", state.best.as_arrays()),
            **add_prefix("inner.", inner),
        }

    def load(self, problem: Problem, arrays: Mapping[str, Array]) -> AutoState:
        """Return the state that `save` was given."""
        stage, n_slow, n_steps, n_restarts, n_wide = (int(count) for count in arrays["counts"])
        own = self._problem(problem, stage, n_restarts)
        best_loss, goal = (float(loss) for loss in arrays["losses"])
        return AutoState(
            self._solver(stage).load(own, take_prefix("inner.", arrays)),
            stage,
            n_slow,
            n_steps,
            n_restarts,
            n_wide,
            Tucker.from_arrays(take_prefix("best.", arrays)),
            best_loss,
            goal,
            tuple(arrays["notes"].tobytes().decode().split("\n")),
        )


def _samples(sizes: Sizes) -> float:
    """Measurements per degree of freedom."""
    return sizes.n_measurements / degrees_of_freedom(sizes.shape, sizes.rank)


def _wider(sizes: Sizes, extra: int) -> tuple[int, ...]:
    """Ranks of the larger space."""
    return cap_rank([r + extra for r in sizes.rank], sizes.shape)


def _residual(problem: Problem, loss: float) -> float:
    return float(np.sqrt(2 * loss)) / problem.y_norm
