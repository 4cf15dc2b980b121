"""Completion with a given rank."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tensormend.completion.cost import Cost, check_cost, fit_cost
from tensormend.completion.journal import Part
from tensormend.completion.preprocessing import FittedPreprocessing
from tensormend.completion.result import Assessment, Completion
from tensormend.completion.run import ObservedSampling, Run
from tensormend.completion.validation import Fold, draw_folds
from tensormend.core.algebra import Array
from tensormend.core.fibres import Fibres, check_indices
from tensormend.core.tucker import Tucker
from tensormend.data.observations import Observations
from tensormend.errors import DataWarning, InputError, warn_user
from tensormend.operators import Sampling
from tensormend.recovery.contract import Solver
from tensormend.recovery.entry import recover
from tensormend.recovery.steps import StepRule

__all__ = ["FitOptions", "complete_at_rank", "rank_cost"]

N_ASSESSED = 20_000  # fitted entries on which the in-sample error is measured


@dataclass(frozen=True, eq=False)
class FitOptions:
    """Options of a fit of given rank, as `recover` takes them."""

    method: str | Solver[Any] = "auto"
    step: str | float | StepRule | None = None
    init: str | Tucker | None = None
    tol: float = 1e-6
    xtol: float | None = None
    min_delta: float = 1e-6
    patience: int = 50
    max_iter: int = 500
    measurement_dtype: Any = None

    def as_dict(self) -> dict[str, Any]:
        """Return the options by name."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def changed(self) -> list[str]:
        """Return the names of the options that are not at their defaults."""
        return [
            part.name
            for part in fields(self)
            if (value := getattr(self, part.name)) is not part.default
            and not (isinstance(value, type(part.default)) and value == part.default)
        ]


def rank_cost(given: Observations, rank: tuple[int, ...], method: Any, threads: int | None) -> Cost:
    """Estimate the cost of a fit of given rank."""
    size, dtype = len(given.values), given.values.dtype
    return fit_cost(given.shape, rank, size, dtype, method=method, threads=threads)


def complete_at_rank(
    run: Run,
    rank: tuple[int, ...],
    options: FitOptions,
    validation_fraction: Any,
    validation_data: Any,
) -> Completion:
    """Fit a Tucker tensor of given rank to the entries that are not held out."""
    cost = rank_cost(run.observations, rank, options.method, run.threads)
    check_cost(cost, run.memory_limit)
    settings = {
        "rank": rank,
        "validation_fraction": validation_fraction,
        "validation_data": validation_data,
        **options.as_dict(),
    }
    journal, rng = run.open_journal(settings)
    with journal:
        given = run.observations
        validation = _Validation.make(given, rng, validation_fraction, validation_data)
        return _fit(run, rank, options, validation, journal.part(f"fit of rank {rank}"), rng)


@dataclass(frozen=True, eq=False)
class _Validation:
    """Validation entries of a fit: held-out ones, or others that were given.

    Attributes
    ----------
    fold : Fold or None
        The observed entries that are held out; ``None`` for other entries.
    indices, values : ndarray
        Indices and values of the validation entries.
    """

    fold: Fold | None
    indices: Array
    values: Array

    @classmethod
    def make(
        cls, given: Observations, rng: np.random.Generator, fraction: Any, data: Any
    ) -> _Validation | None:
        """Hold out a fraction, or check a pair of indices and values; ``None`` without either."""
        if fraction is not None:
            fold = _draw_fold(given, fraction, rng)
            return cls(fold, given.indices[fold.held], given.values[fold.held])
        if data is None:
            return None
        if not isinstance(data, tuple | list) or len(data) != 2:
            raise InputError(
                "validation_data must be a pair of indices and values, got "
                f"{type(data).__name__}; use validation_fraction= to hold out observed entries"
            )
        indices = check_indices(np.asarray(data[0]), given.shape).astype(np.int64)
        return cls(None, indices, np.asarray(data[1]))

    def assessment(self, degrees_of_freedom: float) -> Assessment:
        """Return the entries on which the fit is assessed."""
        if self.fold is not None:
            return Assessment(self.fold.held, None, degrees_of_freedom, self.fold.clusters)
        nothing = np.zeros(0, dtype=np.int64)
        return Assessment(
            nothing,
            None,
            degrees_of_freedom,
            other_indices=self.indices,
            other_values=self.values,
        )


def _fit(
    run: Run,
    rank: tuple[int, ...],
    options: FitOptions,
    validation: _Validation | None,
    part: Part,
    rng: np.random.Generator,
) -> Completion:
    given = run.observations
    indices, values = given.indices, given.values
    if validation is not None and validation.fold is not None:
        kept = validation.fold.kept(len(values))
        indices, values = indices[kept], values[kept]
    kind = {"dtype": values.dtype, "threads": run.threads}
    operator = ObservedSampling(given, indices, **kind)  # refuses indices outside of the shape
    fitted = _fit_preprocessing(run, indices, values)
    _check_init(options.init, fitted)
    if validation is not None and validation.fold is None:
        _warn_about_overlap(given, validation.indices)
    time_limit = run.time_limit
    if time_limit is not None:
        time_limit += part.spent  # the limit does not include a resumed part
    result = recover(
        operator,
        values if fitted.keeps_values else fitted.transform(indices, values),
        rank,
        **{**options.as_dict(), "init": "corrected" if options.init is None else options.init},
        time_limit=time_limit,
        validation_data=_as_measurements(validation, fitted, given.shape, kind),
        rng=rng,
        threads=run.threads,
        callback=run.fit_callback(part, f"rank {rank}"),
        checkpoint=part.checkpoint(),
        resume=part.can_resume,
    )
    freedom = float(result.x.n_parameters)
    if validation is None:
        assessment = Assessment(_sample(len(given.values), rng), None, freedom, in_sample=True)
    else:
        assessment = validation.assessment(freedom)
    return Completion(
        fit=result,
        observations=given,
        preprocessing=fitted,
        assessment=assessment,
        n_iter=result.n_iter,
        seconds=run.watch.seconds,
        notes=result.notes,
    )


def _check_init(init: Any, fitted: FittedPreprocessing) -> None:
    """Refuse a Tucker tensor as initial estimate unless the fit is in the units of the data."""
    if isinstance(init, Tucker) and not fitted.keeps_values:
        raise InputError(
            "init must be 'corrected', 'spectral' or 'random' if values are transformed, centred "
            "or standardized, because the fit is in other units, got a Tucker; leave out init= or "
            "the preprocessing"
        )


def _fit_preprocessing(run: Run, indices: Array, values: Array) -> FittedPreprocessing:
    """Fit the preprocessing; if there is none, without a pass over the values."""
    if run.preprocessing.is_identity:
        return FittedPreprocessing.identity(run.observations.shape)
    return run.preprocessing.fit(indices, values, run.observations.shape)


def _as_measurements(
    validation: _Validation | None,
    fitted: FittedPreprocessing,
    shape: tuple[int, ...],
    kind: dict[str, Any],
) -> tuple[Sampling, Array] | None:
    """Return the validation entries as an operator and values in the units of the fit."""
    if validation is None:
        return None
    operator, values = Sampling(shape, validation.indices, **kind), validation.values
    return operator, values if fitted.keeps_values else fitted.transform(validation.indices, values)


def _sample(size: int, rng: np.random.Generator) -> Array:
    """Draw one entry from each of many parts of equal length, in ascending order."""
    n_parts = min(size, N_ASSESSED)
    edges = np.arange(n_parts + 1) * size // n_parts
    return edges[:-1] + (rng.random(n_parts) * np.diff(edges)).astype(np.int64)


def _warn_about_overlap(given: Observations, indices: Array) -> None:
    repeated = int(np.sum(given.find(indices) >= 0))
    if repeated:
        warn_user(
            f"{repeated} entries of validation_data are also observed, so that the error on them "
            "is too small; remove them from one of the two",
            DataWarning,
        )


def _draw_fold(given: Observations, fraction: Any, rng: np.random.Generator) -> Fold:
    """Hold out a fraction of the entries, in the pattern of the missing ones."""
    size = len(given.values)
    is_fraction = isinstance(fraction, float | np.floating) and 0 < fraction < 1
    count = round(size * float(fraction)) if is_fraction else 0
    if not 0 < count < size:
        raise InputError(
            f"validation_fraction must be a fraction of the {size} observed entries, between 0 "
            f"and 1, that leaves some on both sides, got {fraction!r}; validation_data= takes "
            "indices and values",
            parameter="validation_fraction",
        )
    indices = check_indices(given.indices, given.shape).astype(np.int64, copy=False)
    Fibres.build(given.shape, indices)  # refuses repeats, which could lie on both sides
    folds = draw_folds(indices, given.shape, rng, fraction=float(fraction), n_folds=1)
    if not folds:
        raise InputError(
            f"no entry can be held out of {size}, because every slice must keep one; leave "
            "validation_fraction out"
        )
    return folds[0]
