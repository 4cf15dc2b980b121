"""How much to shrink: down the path of strengths, then mode by mode."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tensormend.algebra import Array
from tensormend.choose.problem import make_problem, observe
from tensormend.choose.search import (
    Found,
    Search,
    SetUp,
    Trial,
    clustered,
    prepare,
    squared_errors,
    summarize,
    zero_model,
)
from tensormend.holdout import Fold
from tensormend.operators import Masked
from tensormend.solve import Progress, solve
from tensormend.solvers import Shrink
from tensormend.stopping import Stop
from tensormend.tucker import Tucker

__all__ = ["LAST", "PLAIN", "best_strength", "tune_balance"]

FIRST, LAST = 0.3, 3e-4  # strengths of the path, of centred data
WORSE, MAX_WORSE = 1.01, 2  # of the least error on the way: stages beyond that end the path
BALANCE_GAIN, MAX_BALANCE = 0.995, 8.0  # what a change of a mode's strength must gain, and may be
BALANCE_ROUNDS = 4
TIED = 1.01  # of the least error: what is above it is worse, whatever the standard error

PLAIN = Shrink(rounds=3, inner=0, momentum=0.8)
"""Shrinkage by momentum alone, which is the fastest way down a path."""


def best_strength(
    search: Search, center: tuple[int, ...] | None, rival: Found | None
) -> Found | None:
    """Follow the path in every fold, and take the strength that is best over all of them.

    Where the first fold is no better than the rival's was, the others are spared.
    """
    solver = replace(PLAIN, strength=LAST, first=FIRST)
    runs = []
    for fold in search.folds:
        runs.append(_follow(search, fold, center, solver))
        if search.is_late:
            break
        if rival is not None and len(runs) == 1:
            errors = [squared_errors(search, predicted, 1) for predicted in runs[0].predicted]
            to_beat = fold.weights @ rival.squares[: len(fold.held)]
            if min(fold.weights @ error for error in errors) > to_beat:
                break
    if search.is_late and len(runs) > 1:
        runs.pop()  # it was cut short; those before it were not
    n_stages = min(len(run.predicted) for run in runs)
    trials, squares, predictions = [], [], []
    for stage in range(n_stages):
        predicted = np.concatenate([run.predicted[stage] for run in runs])
        strength, rank = runs[0].strengths[stage], runs[0].ranks[stage]
        error = squared_errors(search, predicted, len(runs))
        rmse, standard_error = summarize(search, error, len(runs))
        trials.append(Trial("shrink", center, strength, rank, rmse, standard_error))
        squares.append(error)
        predictions.append(predicted)
        search.record(trials[-1])
    if rival is not None and len(runs) < rival.n_folds:
        return None
    least = int(np.argmin([trial.error for trial in trials]))
    tied = (_is_within_error(search, squares[k], squares[least], len(runs)) for k in range(least))
    chosen = next((k for k, is_tied in enumerate(tied) if is_tied), least)
    xs = tuple(run.x for run in runs)
    return Found(trials[chosen], predictions[chosen], squares[chosen], xs)


def tune_balance(search: Search, found: Found) -> Found:
    """Shrink one mode more or less than the others, as long as the held-out error falls.

    From the fits at the chosen strength a few iterations tell which way to go.
    """
    start = found.trial
    best = _fit_balance(search, found, (1.0,) * len(search.entries.shape))
    for k in range(len(search.entries.shape)):
        for factor in (0.5, 2.0):
            is_better = True
            while is_better and not search.is_late:
                balance = list(best.trial.balance or ())
                balance[k] *= factor
                if not 1 / MAX_BALANCE <= balance[k] <= MAX_BALANCE:
                    break
                new = _fit_balance(search, best, tuple(balance))
                is_better = new.trial.error < BALANCE_GAIN * best.trial.error
                best = new if is_better else best
            if best.trial.balance and best.trial.balance[k] != 1:
                break  # what is worth halving is not worth doubling
    return best if best.trial.error < start.error else found


def _fit_balance(search: Search, near: Found, balance: tuple[float, ...]) -> Found:
    """Go on from fits with other factors on the strength."""
    strength, center = near.trial.strength, near.trial.center
    solver = replace(
        PLAIN, strength=strength, first=strength, rounds=BALANCE_ROUNDS, balance=balance
    )
    predicted, xs = [], []
    for fold, x in zip(search.folds, near.xs, strict=False):
        limit = search.seconds_left
        stop = Stop(tol=0, tol_change=0, patience=BALANCE_ROUNDS + 1, max_seconds=limit)
        setup = _set_up(search, fold, center)
        xs.append(x if setup.problem is None else solve(setup.problem, solver, x, stop=stop).x)
        predicted.append(setup.predict(xs[-1]))
    everything = np.concatenate(predicted)
    squares = squared_errors(search, everything, len(xs))
    rmse, standard_error = summarize(search, squares, len(xs))
    trial = Trial("shrink", center, strength, xs[0].rank, rmse, standard_error, balance)
    search.record(trial)
    return Found(trial, everything, squares, tuple(xs))


@dataclass(eq=False)
class _Run:
    """A path in one fold: what was predicted at each strength, and the best fit."""

    x: Tucker
    predicted: list[Array] = field(default_factory=list)
    strengths: list[float] = field(default_factory=list)
    ranks: list[tuple[int, ...]] = field(default_factory=list)


def _set_up(search: Search, fold: Fold, center: tuple[int, ...] | None) -> SetUp:
    key = (id(fold), center)
    if key not in search.set_ups:
        fitted, kept, held = prepare(search, fold, center)
        problem = make_problem(kept, search.threads) if kept.values.any() else None
        is_dense = problem is not None and isinstance(problem.operator, Masked)
        where = observe(held, search.threads, is_dense=is_dense)
        search.set_ups[key] = SetUp(problem, fitted, held, where)
    return search.set_ups[key]


def _follow(search: Search, fold: Fold, center: tuple[int, ...] | None, solver: Shrink) -> _Run:
    """Come down the path of strengths in one fold, and look at the held-out entries on the way."""
    setup = _set_up(search, fold, center)
    held = setup.held
    run = _Run(zero_model(search.entries))
    if setup.problem is None:
        return _Run(run.x, [setup.predict(run.x)], [FIRST], [run.x.rank])
    errors: list[float] = []

    def look(now: Progress) -> bool:
        if now.n_iter % solver.rounds and not search.is_late:
            return False
        predicted = setup.predict(now.x)
        errors.append(float(fold.weights @ np.abs(predicted - held.values).astype(float) ** 2))
        if errors[-1] <= min(errors):
            run.x = now.x
        run.predicted.append(predicted)
        run.strengths.append(solver.strength_at(now.n_iter - 1))
        run.ranks.append(now.x.rank)
        recent = errors[-MAX_WORSE:]
        is_worse = len(errors) > MAX_WORSE and min(recent) > WORSE**2 * min(errors)
        return is_worse or search.is_late

    stop = Stop(tol=0, tol_change=0, patience=solver.n_path + 1, max_iter=solver.n_path)
    solve(setup.problem, solver, stop=stop, callback=look)
    return run


def _is_within_error(search: Search, squares: Array, least: Array, n_folds: int) -> bool:
    excess, spread = clustered(search, n_folds, squares - least)
    return excess <= min(spread, (TIED**2 - 1) * clustered(search, n_folds, least)[0])
