"""Selection of the strength of shrinkage: along a path, then mode by mode."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tensormend.completion.journal import Part
from tensormend.completion.selection.problem import make_problem, observe
from tensormend.completion.selection.search import (
    Found,
    Search,
    SetUp,
    clustered,
    prepare,
    squared_errors,
    summarize,
    zero_model,
)
from tensormend.completion.selection.watch import Trial
from tensormend.completion.validation import Fold
from tensormend.core.algebra import Array
from tensormend.core.tucker import Tucker
from tensormend.operators import DenseSampling
from tensormend.recovery.loop import InternalCallback, Iteration, solve
from tensormend.recovery.registry import make_solver
from tensormend.recovery.stopping import StoppingCriteria

__all__ = ["LAST", "PLAIN", "best_strength", "tune_mode_weights"]

FIRST, LAST = 0.3, 3e-4  # strengths of the path, of centred data
WORSE, MAX_WORSE = 1.01, 2  # times the smallest error, at so many strengths: the path ends
# factor on the error below which a change of a mode's weight is kept, and the largest weight
WEIGHT_GAIN, MAX_WEIGHT = 0.995, 8.0
WEIGHT_ITERATIONS = 4  # to compare two weights
TIED = 1.01  # times the smallest error: a larger one is worse, whatever the standard error

PLAIN = make_solver("shrink", iterations_per_strength=3, cg_steps=0, momentum=0.8)
"""Shrinkage by momentum alone, which follows a path fastest."""


def best_strength(
    search: Search, center: tuple[int, ...] | None, rival: Found | None
) -> Found | None:
    """Follow the path in every fold, and select the strength that is best over all of them.

    Other folds are skipped if the error in the first exceeds that of the rival; then the result
    is ``None``.
    """
    solver = replace(PLAIN, strength=LAST, initial_strength=FIRST)
    after = _weight_iterations(search)
    search.watch.expect(len(search.folds) * solver.n_path + after)
    runs: list[_Run] = []
    for number, fold in enumerate(search.folds):
        runs.append(_follow(search, number, center, solver))
        if search.is_late:
            break
        length = solver.iterations_per_strength * len(runs[-1].predicted)
        search.watch.expect((len(search.folds) - len(runs)) * length + after)
        if rival is not None and len(runs) == 1:
            errors = [squared_errors(search, predicted, 1) for predicted in runs[0].predicted]
            to_beat = fold.weights @ rival.squares[: len(fold.held)]
            if min(fold.weights @ error for error in errors) > to_beat:
                break
    if search.is_late and len(runs) > 1:
        runs.pop()  # only the last one was cut short
    n_stages = min(len(run.predicted) for run in runs)
    trials, squares, predictions = [], [], []
    for stage in range(n_stages):
        predicted = np.concatenate([run.predicted[stage] for run in runs])
        strength, rank = runs[0].strengths[stage], runs[0].ranks[stage]
        error = squared_errors(search, predicted, len(runs))
        rmse, standard_error = summarize(search, error, len(runs))
        trials.append(Trial("shrinkage", center, strength, rank, rmse, standard_error))
        squares.append(error)
        predictions.append(predicted)
        search.record(trials[-1], "search", f"strength {strength:.2g}")
    if rival is not None and len(runs) < rival.n_folds:
        return None
    least = int(np.argmin([trial.error for trial in trials]))
    tied = (_is_within_error(search, squares[k], squares[least], len(runs)) for k in range(least))
    chosen = next((k for k, is_tied in enumerate(tied) if is_tied), least)
    xs = tuple(run.x for run in runs)
    return Found(trials[chosen], predictions[chosen], squares[chosen], xs)


def _weight_iterations(search: Search) -> int:
    """Return the number of iterations of `tune_mode_weights` if no change is kept."""
    return len(search.folds) * WEIGHT_ITERATIONS * (1 + 2 * len(search.entries.shape))


def tune_mode_weights(search: Search, found: Found) -> Found:
    """Halve or double the strengths of single modes, as long as the held-out error decreases.

    Weights are compared after a few iterations from the fits at the selected strength.
    """
    best = _fit_weights(search, found, (1.0,) * len(search.entries.shape))
    for k in range(len(search.entries.shape)):
        for factor in (0.5, 2.0):
            is_better = True
            while is_better and not search.is_late:
                weights = list(best.trial.mode_weights or ())
                weights[k] *= factor
                if not 1 / MAX_WEIGHT <= weights[k] <= MAX_WEIGHT:
                    break
                new = _fit_weights(search, best, tuple(weights))
                is_better = new.trial.error < WEIGHT_GAIN * best.trial.error
                best = new if is_better else best
            if best.trial.mode_weights and best.trial.mode_weights[k] != 1:
                break  # a mode whose weight was halved need not be doubled
    return best if best.trial.error < found.trial.error else found


def _fit_weights(search: Search, near: Found, weights: tuple[float, ...]) -> Found:
    """Continue fits with other weights of the modes."""
    strength, center = near.trial.strength, near.trial.center
    solver = replace(
        PLAIN,
        strength=strength,
        initial_strength=strength,
        iterations_per_strength=WEIGHT_ITERATIONS,
        mode_weights=weights,
    )
    note = f"strength {strength:.2g} times {', '.join(f'{factor:g}' for factor in weights)}"
    predicted, xs = [], []
    for number, x in enumerate(near.xs):
        setup = _set_up(search, search.folds[number], center)
        part = search.journal.part(f"{note}, centred {center}, fold {number + 1}")
        xs.append(_refit(search, part, setup, solver, x, note))
        predicted.append(setup.predict(xs[-1]))
    everything = np.concatenate(predicted)
    squares = squared_errors(search, everything, len(xs))
    rmse, standard_error = summarize(search, squares, len(xs))
    trial = Trial("shrinkage", center, strength, xs[0].rank, rmse, standard_error, weights)
    search.record(trial, "weights", note)
    return Found(trial, everything, squares, tuple(xs))


def _refit(search: Search, part: Part, setup: SetUp, solver: Any, x: Tucker, note: str) -> Tucker:
    """Continue a fit for a few iterations."""
    if setup.problem is None:
        return x
    saved = part.outcome()
    if saved is not None:
        search.watch.skip(saved[1])
        return Tucker.from_arrays(saved[0])
    if search.is_late:  # in an earlier fold
        return x
    limit = search.seconds_left
    stop = StoppingCriteria(
        tol=0, xtol=0, patience=solver.iterations_per_strength + 1, time_limit=limit
    )
    callback = search.callback("weights", note)
    result = solve(setup.problem, solver, x, stop=stop, callback=callback)
    if not search.is_late:
        part.finish(result.x.as_arrays(), result.n_iter)
    return result.x


@dataclass(eq=False)
class _Run:
    """A path in one fold: predictions and errors at each strength, and the best fit."""

    x: Tucker
    predicted: list[Array] = field(default_factory=list)
    strengths: list[float] = field(default_factory=list)
    ranks: list[tuple[int, ...]] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether the error has exceeded its minimum often enough to end the path."""
        recent = self.errors[-MAX_WORSE:]
        return len(self.errors) > MAX_WORSE and min(recent) > WORSE**2 * min(self.errors)

    def add(self, x: Tucker, strength: float, predicted: Array, error: float) -> None:
        """Add a strength of the path."""
        self.errors.append(error)
        if error <= min(self.errors):
            self.x = x
        self.predicted.append(predicted)
        self.strengths.append(strength)
        self.ranks.append(x.rank)

    def copy(self) -> _Run:
        """Return a copy whose lists are its own."""
        lists = (self.predicted, self.strengths, self.ranks, self.errors)
        return _Run(self.x, *(list(column) for column in lists))  # type: ignore[arg-type]

    def as_arrays(self) -> dict[str, Array]:
        """Return the attributes as arrays, by name."""
        columns = {"predicted": self.predicted, "strengths": self.strengths, "ranks": self.ranks}
        arrays = {name: np.array(column) for name, column in columns.items()}
        return {**arrays, "errors": np.array(self.errors), **self.x.as_arrays()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> _Run:
        """Return the path that `as_arrays` has written."""
        return cls(
            Tucker.from_arrays(arrays),
            list(arrays["predicted"]),
            arrays["strengths"].tolist(),
            [tuple(rank) for rank in arrays["ranks"].tolist()],
            arrays["errors"].tolist(),
        )


def _set_up(search: Search, fold: Fold, center: tuple[int, ...] | None) -> SetUp:
    key = (id(fold), center)
    if key not in search.set_ups:
        fitted, kept, held = prepare(search, fold, center)
        problem = make_problem(kept, search.threads) if kept.values.any() else None
        is_dense = problem is not None and isinstance(problem.operator, DenseSampling)
        where = observe(held, search.threads, is_dense=is_dense)
        search.set_ups[key] = SetUp(problem, fitted, held, where)
    return search.set_ups[key]


def _follow(search: Search, number: int, center: tuple[int, ...] | None, solver: Any) -> _Run:
    """Follow the path of strengths in one fold, with the held-out error at each."""
    fold, label = search.folds[number], f"fold {number + 1} of {len(search.folds)}"
    setup = _set_up(search, fold, center)
    held = setup.held.values
    run = _Run(zero_model(search.entries))
    if setup.problem is None:
        return _Run(run.x, [setup.predict(run.x)], [FIRST], [run.x.rank])
    part = search.journal.part(f"path, centred {center}, {label}")
    saved = part.outcome()
    if saved is not None:
        search.watch.skip(saved[1])
        return _Run.from_arrays(saved[0])
    n_iter = part.n_iter
    search.watch.skip(n_iter)
    extra = part.extra()
    if extra:
        run = _Run.from_arrays(extra)
    size = float(np.sqrt(fold.weights @ np.abs(held).astype(float) ** 2))
    cut_short: list[_Run] = []

    def report(now: Iteration) -> bool:
        strength = solver.strength_at(now.n_iter - 1)
        error = None
        if now.n_iter % solver.iterations_per_strength == 0:
            error = assess(run, now.x, strength)
        note = f"{label}, strength {strength:.2g}"
        search.watch.report_iteration("search", now.record, note, validation_error=error)
        is_late = search.is_late  # once, because it may change with time
        if is_late and error is None:
            cut_short.append(run.copy())  # `run` itself can be resumed
            assess(cut_short[0], now.x, strength)
        return run.is_over or is_late

    def assess(run: _Run, x: Tucker, strength: float) -> float:
        predicted = setup.predict(x)
        square = float(fold.weights @ np.abs(predicted - held).astype(float) ** 2)
        run.add(x, strength, predicted, square)
        return math.sqrt(square) / size if size else math.nan

    if not run.is_over:
        stop = StoppingCriteria(tol=0, xtol=0, patience=solver.n_path + 1, max_iter=solver.n_path)
        checkpoint = part.checkpoint(run.as_arrays)
        result = solve(
            setup.problem,
            solver,
            stop=stop,
            callback=InternalCallback(report),
            checkpoint=checkpoint,
            resume=part.can_resume,
        )
        search.notes.extend(result.notes)
        n_iter = result.n_iter
    if not search.is_late:
        part.finish(run.as_arrays(), n_iter)
    return cut_short[0] if cut_short else run


def _is_within_error(search: Search, squares: Array, least: Array, n_folds: int) -> bool:
    """Return whether an error exceeds the smallest by less than the standard error and 1%."""
    excess, error = clustered(search, n_folds, squares - least)
    return excess <= min(error, (TIED**2 - 1) * clustered(search, n_folds, least)[0])
