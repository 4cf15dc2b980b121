"""Choice of the method by rule, with restarts where a run gets stuck."""

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
MANY_SAMPLES = 1000  # per degree of freedom: from here on RCG is faster than RGN
FEW_SAMPLES = 100  # per degree of freedom: up to here a poor initial estimate is restarted
POOR_RESIDUAL = 0.1  # above this relative residual a stuck run is taken for a poor local minimum
SLOW = 0.98  # an iteration that leaves this fraction of the loss or more is slow
MAX_SLOW = 3  # slow iterations in a row after which a run is stuck
MAX_POOR_ITERATIONS = 30  # after which a run with a residual above POOR_RESIDUAL is stuck
EXTRA_RANKS = (2, 3)  # added to the rank in the first and in the second restart
# iterations, and relative residual, at which a search with larger ranks ends
WIDE_ITERATIONS, WIDE_RESIDUAL = 30, 1e-3
BETTER = 0.9  # another restart needs a loss below this fraction of the one before the last


@dataclass(frozen=True, eq=False)
class AutoState:
    """The state of the current method, the best iterate so far, and counts.

    ``stage`` is 0 for Gauss-Newton, 1 for conjugate gradients, and 2 for conjugate gradients with
    larger ranks, of which ``n_wide`` iterations are done. In stage 2 ``inner`` is a state of the
    problem with these ranks, and ``x`` is the best iterate of the rank asked for.
    ``loss_before_restart`` is the smallest loss when the last restart began, infinite before the
    first one. Once the run ``has_switched`` the method, it is not restarted any more.
    """

    inner: Any
    stage: int
    n_slow: int
    n_steps: int
    n_restarts: int
    n_wide: int
    has_switched: bool
    best: Tucker
    best_loss: float
    loss_before_restart: float
    notes: tuple[str, ...]

    @property
    def is_exploring(self) -> bool:
        """Whether a search with larger ranks is under way."""
        return self.stage == WIDE

    @property
    def x(self) -> Tucker:
        """The iterate, or the best one so far during a search with larger ranks."""
        x: Tucker = self.best if self.is_exploring else self.inner.x
        return x

    @property
    def loss(self) -> float:
        """Loss of ``x``."""
        return self.best_loss if self.is_exploring else float(self.inner.loss)

    @property
    def step_size(self) -> float:
        """Step size of the iteration."""
        return float(self.inner.step_size)


@dataclass(frozen=True)
class Auto:
    """Gauss-Newton or conjugate gradients by rule, with restarts where a run gets stuck.

    Parameters
    ----------
    newton : Solver
        The method for few measurements and for restarts, `RGN` with ``method="auto"``.
    gradients : Solver
        The method for many measurements and for searches with larger ranks, `RCG` with
        ``method="auto"``.

    Notes
    -----
    Let ``q`` be the number of measurements per degree of freedom of the rank.

    1. The run begins at the corrected initial estimate, or the one given, with ``newton``, or with
       ``gradients`` if ``q`` is at least 1000, where it needs fewer passes over the measurements.
    2. An iteration is slow if it leaves at least 98% of the loss. The run is stuck after three slow
       iterations in a row, or 30 iterations with a relative residual above 0.1.
    3. If a stuck run has a relative residual above 0.1 and ``q`` is between 1 and 100, it is
       restarted: ``gradients`` makes at most 30 iterations with ranks larger by two in every mode,
       where poor local minima are rarer. Three slow iterations in a row end this search, too. The
       result, truncated to the rank, is the new initial estimate. If that reduces the loss by a
       tenth but is stuck too, this is repeated with ranks larger by three. These iterations are
       counted, recorded and limited like all others, with the best iterate so far as ``x`` and
       ``exploring`` set in their records.
    4. Any other stuck run continues from its best iterate with the other method, once.

    Data with more than 10% noise are restarted too, because nothing tells their residual from that
    of a poor local minimum.

    The notes of the result say what was done.

    Examples
    --------
    >>> import tensormend as tm
    >>> truth = tm.simulate.random_tucker((20, 30, 40), rank=2, rng=0)
    >>> operator = tm.Sampling(truth.shape, tm.simulate.sample_indices(truth.shape, 0.3, rng=1))
    >>> solver = tm.solvers.Auto(tm.solvers.RGN(), tm.solvers.RCG())
    >>> result = tm.recover(operator, operator.forward(truth), rank=2, method=solver)
    >>> result.success
    True
    >>> result.notes
    ('rgn from the corrected initial estimate, 40.9 samples per degree of freedom',)
    """

    name: ClassVar[str] = "auto"
    traits: ClassVar[Traits] = Traits(default_init="corrected")
    newton: Solver[Any]
    gradients: Solver[Any]

    def with_target(self, target: float) -> Auto:
        """Return the solver for a target.

        Parameters
        ----------
        target : float
            Relative residual that the run is to reach.

        Returns
        -------
        Auto
            A copy whose methods have this target, where they take one.
        """
        parts = (self.newton, self.gradients)
        newton, gradients = (p.with_target(target) if isinstance(p, Targeted) else p for p in parts)
        return replace(self, newton=newton, gradients=gradients)

    def cost(self, sizes: Sizes) -> IterationCost:
        """Return what an iteration keeps in memory.

        Parameters
        ----------
        sizes : Sizes
            Shape, rank and number of measurements; a `Problem` has these.

        Returns
        -------
        IterationCost
            The larger of the costs of both methods, for the largest rank that is used.
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
        """Evaluate ``x0``, by default the corrected initial estimate."""
        stage = GRADIENTS if _samples(problem) >= MANY_SAMPLES else NEWTON
        where = "the corrected initial estimate" if x0 is None else "another initial estimate"
        solver = self._solver(stage)
        inner = solver.init(problem, corrected_init(problem) if x0 is None else x0)
        note = f"{solver.name} from {where}, {_samples(problem):.3g} samples per degree of freedom"
        return AutoState(
            inner=inner,
            stage=stage,
            n_slow=0,
            n_steps=0,
            n_restarts=0,
            n_wide=0,
            has_switched=False,
            best=inner.x,
            best_loss=float(inner.loss),
            loss_before_restart=np.inf,
            notes=(note,),
        )

    def step(self, problem: Problem, state: AutoState) -> AutoState:
        """Take one step of the current method, then restart or switch if it is stuck."""
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
        is_poor = _residual(problem, new.best_loss) > POOR_RESIDUAL
        if new.n_slow < MAX_SLOW and not (is_poor and new.n_steps >= MAX_POOR_ITERATIONS):
            return new
        if new.has_switched:
            return new
        can_restart = 1 <= _samples(problem) <= FEW_SAMPLES and new.n_restarts < len(EXTRA_RANKS)
        if is_poor and can_restart and new.best_loss < BETTER * new.loss_before_restart:
            return self._widen(problem, new)
        return self._switch(problem, new)

    def _solver(self, stage: int) -> Solver[Any]:
        return self.newton if stage == NEWTON else self.gradients

    def _widen(self, problem: Problem, state: AutoState) -> AutoState:
        """Begin a search from the corrected initial estimate of larger ranks."""
        wide = _widened(problem, state.n_restarts)
        inner = self.gradients.init(wide, corrected_init(wide))
        return replace(state, inner=inner, stage=WIDE, n_slow=0, n_wide=0)

    def _explore(self, problem: Problem, state: AutoState) -> AutoState:
        """Take one step with larger ranks; after the last one, restart from its truncation."""
        wide = _widened(problem, state.n_restarts)
        inner = self.gradients.step(wide, state.inner)
        is_slow = not float(inner.loss) < SLOW * float(state.inner.loss)
        new = replace(
            state,
            inner=inner,
            n_slow=state.n_slow + 1 if is_slow else 0,
            n_wide=state.n_wide + 1,
        )
        has_ended = new.n_wide >= WIDE_ITERATIONS or new.n_slow >= MAX_SLOW
        if not has_ended and _residual(wide, inner.loss) > WIDE_RESIDUAL:
            return new
        note = (
            f"stuck at relative residual {_residual(problem, state.best_loss):.2g} after "
            f"{state.n_steps} iterations: restarted with {self.newton.name} from a fit with "
            f"ranks larger by {EXTRA_RANKS[state.n_restarts]} in every mode"
        )
        inner = self.newton.init(problem, thosvd(inner.x, problem.rank))
        if float(inner.loss) < state.best_loss:
            new = replace(new, best=inner.x, best_loss=float(inner.loss))
        return replace(
            new,
            inner=inner,
            stage=NEWTON,
            n_slow=0,
            n_steps=0,
            n_restarts=state.n_restarts + 1,
            loss_before_restart=state.best_loss,
            notes=(*state.notes, note),
        )

    def _switch(self, problem: Problem, state: AutoState) -> AutoState:
        """Continue from the best iterate with the other method."""
        stage = GRADIENTS if state.stage == NEWTON else NEWTON
        solver = self._solver(stage)
        note = (
            f"slow at relative residual {_residual(problem, state.best_loss):.2g}: continued with "
            f"{solver.name} from the best iterate"
        )
        return replace(
            state,
            inner=solver.init(problem, state.best),
            stage=stage,
            n_slow=0,
            n_steps=0,
            has_switched=True,
            notes=(*state.notes, note),
        )

    def save(self, state: AutoState) -> dict[str, Array]:
        """Return the arrays of the current method, the best iterate, and counts."""
        inner = self._solver(state.stage).save(state.inner)
        counts = (state.stage, state.n_slow, state.n_steps, state.n_restarts, state.n_wide)
        return {
            "counts": np.array(counts),
            "has_switched": np.array(state.has_switched),
            "losses": np.array((state.best_loss, state.loss_before_restart)),
            "notes": np.frombuffer("\n".join(state.notes).encode(), dtype=np.uint8),
            **add_prefix("best.", state.best.as_arrays()),
            **add_prefix("inner.", inner),
        }

    def load(self, problem: Problem, arrays: Mapping[str, Array]) -> AutoState:
        """Return the state that these arrays determine."""
        stage, n_slow, n_steps, n_restarts, n_wide = (int(count) for count in arrays["counts"])
        own = _widened(problem, n_restarts) if stage == WIDE else problem
        best_loss, loss_before_restart = (float(loss) for loss in arrays["losses"])
        return AutoState(
            inner=self._solver(stage).load(own, take_prefix("inner.", arrays)),
            stage=stage,
            n_slow=n_slow,
            n_steps=n_steps,
            n_restarts=n_restarts,
            n_wide=n_wide,
            has_switched=bool(arrays["has_switched"]),
            best=Tucker.from_arrays(take_prefix("best.", arrays)),
            best_loss=best_loss,
            loss_before_restart=loss_before_restart,
            notes=tuple(arrays["notes"].tobytes().decode().split("\n")),
        )


def _samples(sizes: Sizes) -> float:
    """Return the number of measurements per degree of freedom."""
    return sizes.n_measurements / degrees_of_freedom(sizes.shape, sizes.rank)


def _wider(sizes: Sizes, extra: int) -> tuple[int, ...]:
    """Return the larger ranks of a search."""
    return cap_rank([r + extra for r in sizes.rank], sizes.shape)


def _widened(problem: Problem, n_restarts: int) -> Problem:
    """Return the problem of the search in a restart, with larger ranks."""
    return problem.with_rank(_wider(problem, EXTRA_RANKS[n_restarts]))


def _residual(problem: Problem, loss: float) -> float:
    return float(np.sqrt(2 * loss)) / problem.y_norm
