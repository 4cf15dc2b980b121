"""Completion without a given rank: select a model on held-out entries, then fit it to all."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from tensormend.completion.cost import Cost, check_cost, search_cost
from tensormend.completion.journal import Journal, Part
from tensormend.completion.result import Assessment, Completion
from tensormend.completion.run import ObservedSampling, Run
from tensormend.completion.selection import (
    PLAIN,
    Choice,
    choose_model,
    make_problem,
)
from tensormend.completion.validation import MAX_FOLDS
from tensormend.core.fibres import check_indices
from tensormend.core.tucker import Tucker
from tensormend.data.observations import Container, Observations
from tensormend.errors import InputError
from tensormend.recovery.checks import warn_about_unobserved
from tensormend.recovery.entry import recover
from tensormend.recovery.loop import solve
from tensormend.recovery.result import MESSAGES, History, IterationRecord, Result, Status
from tensormend.recovery.stopping import StoppingCriteria

__all__ = ["automatic_cost", "complete_automatically"]

SEARCH_FRACTION, FIT_FRACTION = 0.7, 0.9  # of the time limit, by when search and final fit end
FIT_ITERATIONS = 5  # of shrinkage on all entries, from the fit without the held-out ones
FIT_TOL = 1e-9  # relative residual at which the final fit of a Tucker model stops
DEFAULT_FRACTION, MAX_FRACTION = 0.1, 0.5  # of the observed entries, to hold out


def automatic_cost(given: Observations, threads: int | None) -> Cost:
    """Estimate the cost of a completion without a given rank."""
    size, dtype = len(given.values), given.values.dtype
    return search_cost(given.shape, size, dtype, n_folds=MAX_FOLDS, threads=threads)


def complete_automatically(
    run: Run, model: Literal["auto", "shrinkage", "tucker"], validation_fraction: Any
) -> Completion:
    """Select a model on held-out entries, and fit it to all observed ones."""
    given = run.observations
    fraction = _check_fraction(validation_fraction)
    if not run.limit > 0:
        raise InputError(
            f"time_limit must be positive to select a model, got {run.time_limit!r}; give more "
            "time, or a rank",
            parameter="time_limit",
        )
    check_cost(automatic_cost(given, run.threads), run.memory_limit)
    journal, rng = run.open_journal({"model": model, "validation_fraction": fraction})
    indices = check_indices(given.indices, given.shape).astype(np.int64, copy=False)
    with journal:
        choice = choose_model(
            replace(given, indices=indices),
            preprocessing=run.preprocessing,
            model=model,
            validation_fraction=fraction,
            time_limit=SEARCH_FRACTION * run.limit,
            rng=rng,
            threads=run.threads,
            watch=run.watch,
            journal=journal,
            mode_names=tuple(given.container.describe(k, ())[0] for k in range(len(given.shape))),
        )
        # after a search that was cut short, a resumed run may select another model
        saved = Journal() if choice.is_cut_short else journal
        return _fit(run, choice, saved.part(f"fit of {choice.model}"), rng)


def _check_fraction(fraction: Any) -> float:
    if fraction is None:
        return DEFAULT_FRACTION
    if not isinstance(fraction, float | np.floating) or not 0 < fraction <= MAX_FRACTION:
        raise InputError(
            "with rank='auto' validation_fraction must be a fraction of the observed entries, "
            f"above 0 and at most {MAX_FRACTION}, got {fraction!r}; the default is "
            f"{DEFAULT_FRACTION}",
            parameter="validation_fraction",
        )
    return float(fraction)


def _fit(run: Run, choice: Choice, part: Part, rng: np.random.Generator) -> Completion:
    """Fit the selected model to all entries, with an assessed fit as initial estimate."""
    given, trial = run.observations, choice.trial
    preprocessing = run.preprocessing.with_center(trial.center)
    fitted = preprocessing.fit(given.indices, given.values, given.shape)
    values = fitted.transform(given.indices, given.values)
    if not values.any():
        result, freedom = _nothing_to_fit(choice.x), 0.0
    elif trial.model == "shrinkage":
        entries = replace(given, values=values)
        result, freedom = _fit_shrinkage(run, choice, entries, part, rng)
    else:
        sampling = ObservedSampling(given, given.indices, dtype=values.dtype, threads=run.threads)
        result = recover(
            sampling,
            values,
            trial.rank,
            init=choice.x,
            tol=FIT_TOL,
            time_limit=_time_for_fit(run, part),
            callback=run.fit_callback(part, f"rank {trial.rank}"),
            checkpoint=part.checkpoint(),
            resume=part.can_resume,
        )
        freedom = float(result.x.n_parameters)
    assessment = Assessment(
        choice.held,
        choice.predicted,
        freedom,
        choice.groups,
        choice.folds,
        regularized=trial.model == "shrinkage",
    )
    notes = dict.fromkeys((_describe(choice, given.container), *choice.notes, *result.notes))
    return Completion(
        fit=result,
        observations=given,
        preprocessing=fitted,
        assessment=assessment,
        trials=choice.trials,
        best_trial=trial,
        n_iter=run.watch.n_iter,
        seconds=run.watch.seconds,
        notes=tuple(notes),
    )


def _fit_shrinkage(
    run: Run, choice: Choice, entries: Observations, part: Part, rng: np.random.Generator
) -> tuple[Result, float]:
    """Fit all entries by shrinkage; return the fit and its degrees of freedom."""
    trial = choice.trial
    counts = [np.bincount(entries.indices[:, k], minlength=n) for k, n in enumerate(entries.shape)]
    unobserved = [np.flatnonzero(count == 0) for count in counts]
    effect = "little more than a mean"
    warn_about_unobserved(entries.shape, unobserved, entries.container.describe, effect)
    problem = make_problem(entries, run.threads)
    solver = replace(
        PLAIN,
        strength=trial.strength,
        initial_strength=trial.strength,
        iterations_per_strength=FIT_ITERATIONS,
        mode_weights=trial.mode_weights,
    )
    left = _time_for_fit(run, part)
    run.watch.expect(solver.n_path)
    result = solve(
        problem,
        solver,
        choice.x,
        stop=StoppingCriteria(tol=0, xtol=0, patience=solver.n_path + 1, time_limit=left),
        callback=run.fit_callback(part, f"strength {trial.strength:.2g}"),
        checkpoint=part.checkpoint(),
        resume=part.can_resume,
    )
    left = _time_left(run)
    if left is None or left > 0:
        return result, solver.degrees_of_freedom(problem, result.x, rng)
    # no time for an estimate: the size of the core, but at most half the number of entries
    return result, min(float(math.prod(result.x.rank)), len(entries) / 2)


def _time_for_fit(run: Run, part: Part) -> float | None:
    """Return the time limit of the final fit, with the time of its resumed part added."""
    left = _time_left(run)
    return None if left is None else left + part.spent


def _time_left(run: Run) -> float | None:
    """Return the seconds until the final fit must end; ``None`` without a limit."""
    if math.isinf(run.limit):
        return None
    return max(FIT_FRACTION * run.limit - run.watch.seconds, 0.0)


def _nothing_to_fit(x: Tucker) -> Result:
    """Return a zero tensor, for values that are all zero after preprocessing."""
    record = IterationRecord(0.0, 0.0, 0.0)
    message = f"{MESSAGES[Status.CONVERGED]} (All values are zero after preprocessing.)"
    return Result(x * 0.0, Status.CONVERGED, message, 0, 0.0, 0.0, History((record,)), "shrink")


def _describe(choice: Choice, container: Container) -> str:
    """Describe the comparison in a sentence."""
    way, mode = "one by one", choice.pattern.mode
    if mode is not None:
        way = f"by fibres along {container.describe(mode, ())[0]}"
    return f"{len(choice.trials)} models were compared on {len(choice.held)} entries held out {way}"
