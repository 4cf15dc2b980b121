"""Fitting a model that was chosen on held-out entries."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np

from tensormend.completion.cost import Cost, dense_cost, fit_cost
from tensormend.completion.result import Completion, Judged
from tensormend.completion.run import KnownSampling, Run
from tensormend.completion.selection import (
    DENSE_COPIES,
    PLAIN,
    Choice,
    generous_rank,
    iteration_seconds,
    make_problem,
    works_densely,
)
from tensormend.completion.validation import MAX_FOLDS
from tensormend.core.tucker import Tucker
from tensormend.data.observations import Container, Observations
from tensormend.errors import InputError
from tensormend.recovery.entry import recover, warn_about_unseen
from tensormend.recovery.loop import solve
from tensormend.recovery.result import History, IterationRecord, Result, Status
from tensormend.recovery.solvers.shrink import effective_freedom
from tensormend.recovery.stopping import StoppingCriteria

__all__ = ["SEARCH_SHARE", "check_rank_model", "check_search", "fit_choice", "search_cost"]

SEARCH_SHARE, FIT_SHARE = 0.7, 0.9  # of the time limit, by when the search and the fit end
FIT_ROUNDS = 5  # from the fit that was judged to that to all entries; many more would overfit
N_ITERATIONS = 150  # of shrinkage: about 40 in a fold and as many to balance it, and the fit
FOLD_BYTES = 40  # of an entry, in the set-up of a fold
MODELS = ("auto", "shrinkage", "tucker")


def search_cost(known: Observations, threads: int | None) -> Cost:
    """Cost of the path of shrinkage, which takes more than ranks do."""
    size, dtype = len(known.values), known.values.dtype
    is_dense = works_densely(known.shape, size, dtype)
    seconds = iteration_seconds(known.shape, size)[0 if is_dense else 1]
    rank = (1,) * len(known.shape) if is_dense else generous_rank(known.shape, size)
    cost = fit_cost(known.shape, rank, size, dtype, threads=threads)
    whole = dense_cost(known.shape, dtype, copies=DENSE_COPIES if is_dense else 0)
    folds = MAX_FOLDS * size * FOLD_BYTES
    return replace(
        cost,
        bytes=cost.bytes + whole.bytes + folds,
        work=1e9 * N_ITERATIONS * seconds,
        advice="take a part of the data, give them in single precision, or give a rank",
    )


def check_search(
    rank: str, model: Any, method: Any, holdout: Any, time_limit: Any, options: dict[str, Any]
) -> float:
    """Refuse what does not go with a search, and return the share to hold out."""
    if rank != "auto":
        raise InputError(f"rank must be 'auto', one int or one per mode, got {rank!r}")
    _check_model(model)
    if method != "auto":
        raise InputError(
            f"method={method!r} needs a rank; give one, or choose by model= what is compared",
            parameter="method",
        )
    if options:
        raise InputError(
            f"{', '.join(sorted(options))} needs a rank; give one, or leave the option out"
        )
    is_number = isinstance(time_limit, int | float | np.number)
    if time_limit is not None and not (is_number and time_limit > 0):
        raise InputError(f"time_limit must be a positive number, got {time_limit!r}")
    share = 0.1 if holdout is None else holdout
    if not isinstance(share, float | np.floating) or not 0 < share <= 0.5:
        raise InputError(
            "with rank='auto' holdout must be a share of the known entries, above 0 and at most "
            f"0.5, got {holdout!r}"
        )
    return float(share)


def check_rank_model(model: Any) -> None:
    """Refuse a kind of model that does not go with a given rank."""
    _check_model(model)
    if model == "shrinkage":
        raise InputError(
            "model='shrinkage' finds its own rank; leave rank= out, or take method='shrink' for "
            "shrinkage within a given rank"
        )


def _check_model(model: Any) -> None:
    if model not in MODELS:
        raise InputError(
            f"model must be one of {', '.join(MODELS)}, got {model!r}; the algorithm for a given "
            "rank is method="
        )


def fit_choice(run: Run, choice: Choice, limit: float) -> Completion:
    """Fit the chosen model to all entries, from the fit that was judged."""
    known, trial = run.known, choice.trial
    modes = False if trial.center is None else trial.center
    preprocessing = replace(run.preprocessing, center=modes)
    fitted = preprocessing.fit(known.indices, known.values, known.shape)
    values = fitted.transform(known.indices, known.values)
    if not values.any():
        result, freedom = _nothing_to_fit(choice.x), 0.0
    elif trial.model == "shrinkage":
        result, freedom = _fit_shrunken(
            run, choice, Observations(known.indices, values, known.shape), limit
        )
    else:
        sampling = KnownSampling(known, known.indices, dtype=values.dtype, threads=run.threads)
        result = recover(
            sampling,
            values,
            trial.rank,
            init=choice.x,
            tol=1e-9,
            time_limit=_time_for_fit(run, limit),
            callback=run.looks_on(f"rank {trial.rank}"),
            checkpoint=run.part.checkpoint(),
            resume=run.part.can_resume,
        )
        freedom = float(result.x.n_parameters)
    judged = Judged(
        choice.held,
        choice.predicted,
        freedom,
        choice.groups,
        choice.folds,
        regularized=trial.model == "shrinkage",
    )
    return Completion.from_result(
        replace(
            result,
            seconds=time.perf_counter() - run.watch.started,
            notes=tuple(
                dict.fromkeys((_describe(choice, known.container), *choice.notes, *result.notes))
            ),
        ),
        known=known,
        preprocessing=fitted,
        trials=choice.trials,
        best_trial=trial,
        judged=judged,
    )


def _fit_shrunken(
    run: Run, choice: Choice, entries: Observations, limit: float
) -> tuple[Result, float]:
    """Shrink once more with all entries; return the fit and its degrees of freedom."""
    trial = choice.trial
    counts = [np.bincount(entries.indices[:, k], minlength=n) for k, n in enumerate(entries.shape)]
    unseen = [np.flatnonzero(count == 0) for count in counts]
    warn_about_unseen(
        entries.shape, unseen, run.known.container.describe, "little more than a mean"
    )
    problem = make_problem(entries, run.threads)
    solver = replace(
        PLAIN,
        strength=trial.strength,
        initial_strength=trial.strength,
        iterations_per_strength=FIT_ROUNDS,
        mode_weights=trial.mode_weights,
    )
    left = _time_for_fit(run, limit)
    run.watch.expect(solver.n_path)
    result = solve(
        problem,
        solver,
        choice.x,
        stop=StoppingCriteria(tol=0, xtol=0, patience=solver.n_path + 1, time_limit=left),
        callback=run.looks_on(f"strength {trial.strength:.2g}"),
        checkpoint=run.part.checkpoint(),
        resume=run.part.can_resume,
    )
    left = _time_left(run, limit)
    if left is None or left > 0:
        return result, effective_freedom(problem, result.x, solver, run.rng)
    # no time to estimate them: what the directions and the data allow
    return result, min(float(math.prod(result.x.rank)), len(entries) / 2)


def _time_for_fit(run: Run, limit: float) -> float | None:
    """Seconds that the last fit may take, with those it took before it was cut short."""
    left = _time_left(run, limit)
    return None if left is None else left + run.part.spent


def _time_left(run: Run, limit: float) -> float | None:
    """Seconds until the last fit must end, ``None`` without a limit."""
    if math.isinf(limit):
        return None
    return max(FIT_SHARE * limit - (time.perf_counter() - run.watch.started), 0.0)


def _nothing_to_fit(x: Tucker) -> Result:
    """Return zero, where the means have taken everything out of the data."""
    row = IterationRecord(0.0, 0.0, 0.0)
    message = f"{Status.CONVERGED.value} (The data are their means.)"
    return Result(x * 0.0, Status.CONVERGED, message, 0, 0.0, 0.0, History((row,)), "shrink")


def _describe(choice: Choice, kind: Container) -> str:
    """Say what the model was chosen from, in a sentence."""
    way, mode = "one by one", choice.pattern.mode
    if mode is not None:
        way = f"by fibres along {kind.describe(mode, ())[0]}"
    return f"{len(choice.trials)} models were compared on {len(choice.held)} entries held out {way}"
