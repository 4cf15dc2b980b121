"""Fitting a model of given rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensormend.completion.cost import Cost, fit_cost
from tensormend.completion.preprocessing import FittedPreprocessing
from tensormend.completion.result import Completion, Judged
from tensormend.completion.run import KnownSampling, Run
from tensormend.completion.validation import Fold, draw_folds
from tensormend.core.algebra import Array
from tensormend.core.fibres import Fibres, check_indices
from tensormend.data.observations import Observations
from tensormend.errors import DataWarning, InputError, warn_user
from tensormend.operators import Sampling
from tensormend.recovery.entry import recover

__all__ = ["fit_rank", "rank_cost"]

N_JUDGED = 20_000  # entries that tell the error of a fit well enough


def rank_cost(known: Observations, rank: tuple[int, ...], method: Any, threads: int | None) -> Cost:
    """Estimate the cost of a fit of given rank."""
    name = method if isinstance(method, str) else getattr(method, "name", "auto")
    size, dtype = len(known.values), known.values.dtype
    return fit_cost(known.shape, rank, size, dtype, method=name, threads=threads)


def fit_rank(run: Run, rank: tuple[int, ...], holdout: Any, settings: dict[str, Any]) -> Completion:
    """Fit a tensor of that rank to the entries, but for those to hold out."""
    known, rng = run.known, run.rng
    places, values = known.indices, known.values
    fold: Fold | None = None
    others: tuple[Array, Array] | None = None
    if isinstance(holdout, tuple) and len(holdout) == 2:
        held = check_indices(np.asarray(holdout[0]), known.shape).astype(np.int64)
        others = held, np.asarray(holdout[1])
    elif holdout is not None:
        fold = _choose_holdout(known, holdout, rng)
        kept = fold.kept(len(values))
        places, values = places[kept], values[kept]
    kind = {"dtype": values.dtype, "threads": run.threads}
    operator = KnownSampling(known, places, **kind)  # refuses places that are not there
    fitted = _fit_preprocessing(run, places, values)
    if others is not None:
        _warn_about_overlap(known, others[0])
    elif fold is not None:
        others = known.indices[fold.held], known.values[fold.held]
    settings = {"init": "corrected", **settings}
    if settings["time_limit"] is not None and run.part.spent:
        settings["time_limit"] += run.part.spent  # the limit counts anew
    callback = run.looks_on(f"rank {rank}", settings.pop("callback", None))
    result = recover(
        operator,
        values if fitted.is_identity else fitted.transform(places, values),
        rank,
        validation_data=_held_out(known, others, fitted, kind),
        rng=rng,
        threads=run.threads,
        callback=callback,
        checkpoint=run.part.checkpoint(),
        resume=run.part.can_resume,
        **settings,
    )
    freedom = float(result.x.n_parameters)
    if fold is not None:
        judged = Judged(fold.held, None, freedom, fold.clusters)
    elif others is not None:
        judged = Judged(np.zeros(0, dtype=np.int64), None, freedom, others=others)
    else:
        judged = Judged(_sample(len(known.values), rng), None, freedom, in_sample=True)
    return Completion.from_result(result, known=known, preprocessing=fitted, judged=judged)


def _fit_preprocessing(run: Run, places: Array, values: Array) -> FittedPreprocessing:
    """Fit what is done to the values, without looking at them where nothing is."""
    if run.preprocessing.is_nothing:
        return FittedPreprocessing.identity(run.known.shape)
    return run.preprocessing.fit(places, values, run.known.shape)


def _held_out(
    known: Observations,
    others: tuple[Array, Array] | None,
    fitted: FittedPreprocessing,
    kind: dict[str, Any],
) -> tuple[Sampling, Array] | None:
    """Return the held-out entries as an operator and values, where there are any."""
    if others is None:
        return None
    places, values = others
    operator = Sampling(known.shape, places, **kind)
    return operator, values if fitted.is_identity else fitted.transform(places, values)


def _sample(size: int, rng: np.random.Generator) -> Array:
    """Draw one entry from each of many parts of equal length, in ascending order."""
    n_parts = min(size, N_JUDGED)
    edges = np.arange(n_parts + 1) * size // n_parts
    return edges[:-1] + (rng.random(n_parts) * np.diff(edges)).astype(np.int64)


def _warn_about_overlap(known: Observations, held: Array) -> None:
    repeated = int(np.sum(known.find(held) >= 0))
    if repeated:
        warn_user(
            f"{repeated} held-out entries are also known to the solver, so the "
            "held-out error is too small; leave them out of one of the two",
            DataWarning,
        )


def _choose_holdout(known: Observations, share: Any, rng: np.random.Generator) -> Fold:
    """Hold out a share of the entries, as the holes are."""
    size = len(known.values)
    is_share = isinstance(share, float | np.floating) and 0 < share < 1
    count = round(size * float(share)) if is_share else 0
    if not 0 < count < size:
        raise InputError(
            f"holdout must be a share of the {size} known entries, between 0 and 1 and leaving "
            f"some on both sides, or a pair of indices and values, got {share!r}"
        )
    places = check_indices(known.indices, known.shape).astype(np.int64, copy=False)
    Fibres.build(known.shape, places)  # refuses a repeat, which could lie on both sides
    folds = draw_folds(places, known.shape, rng, share=float(share), n_folds=1)
    if not folds:
        raise InputError(
            f"no entry can be held out of {size}: every slice needs one that is left; leave "
            "holdout out"
        )
    return folds[0]
