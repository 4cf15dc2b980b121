"""What a search for a model knows and finds: trials, errors on held-out entries, their spread."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tensormend.completion.journal import Journal
from tensormend.completion.means import error_of_sum
from tensormend.completion.preprocessing import FittedPreprocessing, Preprocessing
from tensormend.completion.selection.watch import Trial, Watch
from tensormend.completion.validation import Fold, Pattern
from tensormend.core.algebra import Array
from tensormend.core.tucker import Tucker
from tensormend.data.observations import Observations
from tensormend.operators import Operator
from tensormend.recovery.loop import Callback
from tensormend.recovery.problem import Problem

__all__ = [
    "Found",
    "Search",
    "SetUp",
    "clustered",
    "over_folds",
    "prepare",
    "squared_errors",
    "summarize",
    "zero_model",
]


@dataclass(frozen=True, eq=False)
class SetUp:
    """A fold ready to be fitted with shrinkage, and where its held-out entries are.

    There is no problem where the means have taken everything out.
    """

    problem: Problem | None
    fitted: FittedPreprocessing
    held: Observations
    where: Operator

    def predict(self, x: Tucker) -> Array:
        """Return what a fit says about the held-out entries, in the units of the data."""
        return self.fitted.inverse_transform(self.held.indices, self.where.forward(x))


@dataclass
class Search:
    """What a search needs to know and what it has found."""

    entries: Observations
    folds: tuple[Fold, ...]
    pattern: Pattern
    preprocessing: Preprocessing
    deadline: float
    threads: int | None
    watch: Watch
    journal: Journal
    unit: float = 1.0
    mode_names: tuple[str, ...] = ()
    trials: list[Trial] = field(default_factory=list)
    set_ups: dict[Any, SetUp] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def is_late(self) -> bool:
        """Whether the time is up, or somebody has asked to stop."""
        return self.watch.is_stopped or time.perf_counter() > self.deadline

    @property
    def seconds_left(self) -> float | None:
        """Time until the deadline, for the rules of a run; ``None`` where there is none."""
        left = self.deadline - time.perf_counter()
        return None if math.isinf(left) else max(left, 0.0)

    def record(self, trial: Trial, stage: str, note: str) -> None:
        """Add a trial to the path, and tell of it."""
        self.trials.append(trial)
        self.watch.judge(self.in_data_units(trial), stage, note)

    def looks_on(self, stage: str, note: str) -> Callback:
        """Return a callback for a fit, which tells of it and ends it when it is late."""
        return lambda now: self.watch.tell(stage, now.record, note) or self.is_late

    def in_data_units(self, trial: Trial) -> Trial:
        """Return a trial with its errors in the units of the data, and the names of the modes."""
        error, spread = self.unit * trial.error, self.unit * trial.standard_error
        names = self.mode_names
        return replace(trial, error=error, standard_error=spread, mode_names=names)


@dataclass(frozen=True, eq=False)
class Found:
    """A model, its predictions over all folds, their squared errors, and a fit."""

    trial: Trial
    predicted: Array
    squares: Array
    xs: tuple[Tucker, ...]

    @property
    def n_folds(self) -> int:
        """Number of folds that the model was assessed in."""
        return len(self.xs)


def prepare(
    search: Search, fold: Fold, center: tuple[int, ...] | None
) -> tuple[FittedPreprocessing, Observations, Observations]:
    """Fit means to the entries that are kept; return them prepared, and those held out."""
    kept = search.entries.subset(fold.kept(len(search.entries)))
    preprocessing = search.preprocessing.with_center(center)
    fitted = preprocessing.fit(kept.indices, kept.values, kept.shape)
    prepared = replace(kept, values=fitted.transform(kept.indices, kept.values))
    return fitted, prepared, search.entries.subset(fold.held)


def over_folds(folds: Sequence[Fold]) -> tuple[Array, Array, Array]:
    """Positions, groups and fold numbers of the held-out entries of several folds."""
    groups, first = [], 0
    for fold in folds:
        _, numbers = np.unique(fold.clusters, return_inverse=True)
        groups.append(first + numbers)
        first += int(numbers.max()) + 1
    sizes = [len(fold.held) for fold in folds]
    held = np.concatenate([fold.held for fold in folds])
    return held, np.concatenate(groups), np.repeat(np.arange(len(folds)), sizes)


def squared_errors(search: Search, predicted: Array, n_folds: int) -> Array:
    """Square the errors of predictions for the held-out entries of the first folds."""
    held = np.concatenate([fold.held for fold in search.folds[:n_folds]])
    return np.asarray(np.abs(predicted - search.entries.values[held]).astype(np.float64) ** 2)


def clustered(search: Search, n_folds: int, values: Array) -> tuple[float, float]:
    """Weighted mean of values at the held-out entries, and its standard error by cluster."""
    folds = search.folds[:n_folds]
    weights = np.concatenate([fold.weights for fold in folds]) / n_folds
    mean = float(weights @ values)
    _, groups, _ = over_folds(folds)
    error = error_of_sum(weights * (values - mean), groups)
    return mean, math.inf if math.isnan(error) else error


def summarize(search: Search, squares: Array, n_folds: int) -> tuple[float, float]:
    """Return the root of the mean of squared errors, and its standard error."""
    mean, spread = clustered(search, n_folds, squares)
    rmse = math.sqrt(mean)
    return rmse, spread / (2 * rmse) if rmse > 0 else 0.0


def zero_model(entries: Observations) -> Tucker:
    """Return the tensor that is zero."""
    shape, dtype = entries.shape, entries.values.dtype
    core = np.zeros((1,) * len(shape), dtype=dtype)
    return Tucker(core, tuple(np.ones((n, 1), dtype=dtype) / math.sqrt(n) for n in shape))
