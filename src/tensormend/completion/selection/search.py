"""State of a search for a model, and errors on held-out entries with their standard errors."""

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
    """A fold that is prepared for shrinkage.

    Attributes
    ----------
    problem : Problem or None
        The problem to solve; ``None`` if all values are zero after preprocessing.
    fitted : FittedPreprocessing
        Preprocessing, fitted to the entries that are not held out.
    held : Observations
        The held-out entries.
    where : Operator
        Sampling operator of the held-out entries.
    """

    problem: Problem | None
    fitted: FittedPreprocessing
    held: Observations
    where: Operator

    def predict(self, x: Tucker) -> Array:
        """Return the predictions of a fit for the held-out entries, in the units of the data."""
        return self.fitted.inverse_transform(self.held.indices, self.where.forward(x))


@dataclass
class Search:
    """Data, settings and findings of a search.

    Attributes
    ----------
    entries : Observations
        The observed entries, divided by ``unit``.
    folds : tuple of Fold
        Entries to hold out.
    pattern : Pattern
        Pattern of the missing entries.
    preprocessing : Preprocessing
        Settings of the preprocessing.
    deadline : float
        Time of `time.perf_counter` at which the search ends.
    threads : int or None
        Number of threads of the compiled kernels.
    watch : Watch
        Counts iterations and calls callbacks.
    journal : Journal
        Saves the outcomes of the steps.
    unit : float
        Power of two by which values were divided.
    mode_names : tuple of str
        Names of the modes in descriptions.
    trials : list of Trial
        The models compared so far, with errors in units of ``unit``.
    set_ups : dict
        Prepared folds, by fold and centring.
    notes : list of str
        Remarks for the result.
    """

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
        """Whether the deadline has passed, or a callback has asked to stop."""
        return self.watch.is_stopped or time.perf_counter() > self.deadline

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the deadline; ``None`` if there is none."""
        left = self.deadline - time.perf_counter()
        return None if math.isinf(left) else max(left, 0.0)

    def record(self, trial: Trial, stage: str, note: str) -> None:
        """Add a trial and report it."""
        self.trials.append(trial)
        self.watch.report_trial(self.in_data_units(trial), stage, note)

    def callback(self, stage: str, note: str) -> Callback:
        """Return a callback that reports the iterations of a fit and ends it at the deadline."""
        return lambda now: self.watch.report_iteration(stage, now.record, note) or self.is_late

    def in_data_units(self, trial: Trial) -> Trial:
        """Return a trial with its errors in the units of the data, and the names of the modes."""
        return replace(
            trial,
            error=self.unit * trial.error,
            standard_error=self.unit * trial.standard_error,
            mode_names=self.mode_names,
        )


@dataclass(frozen=True, eq=False)
class Found:
    """A model that was assessed.

    Attributes
    ----------
    trial : Trial
        The model and its held-out error.
    predicted : ndarray
        Predictions for the held-out entries of all folds in which it was assessed.
    squares : ndarray
        Their squared errors.
    xs : tuple of Tucker
        One fit per fold.
    """

    trial: Trial
    predicted: Array
    squares: Array
    xs: tuple[Tucker, ...]

    @property
    def n_folds(self) -> int:
        """Number of folds in which the model was assessed."""
        return len(self.xs)


def prepare(
    search: Search, fold: Fold, center: tuple[int, ...] | None
) -> tuple[FittedPreprocessing, Observations, Observations]:
    """Return preprocessing fitted outside of a fold, these entries transformed, and the fold."""
    kept = search.entries.subset(fold.kept(len(search.entries)))
    preprocessing = search.preprocessing.with_center(center)
    fitted = preprocessing.fit(kept.indices, kept.values, kept.shape)
    prepared = replace(kept, values=fitted.transform(kept.indices, kept.values))
    return fitted, prepared, search.entries.subset(fold.held)


def over_folds(folds: Sequence[Fold]) -> tuple[Array, Array, Array]:
    """Return positions, groups and fold numbers of the held-out entries of several folds."""
    groups, first = [], 0
    for fold in folds:
        _, numbers = np.unique(fold.clusters, return_inverse=True)
        groups.append(first + numbers)
        first += int(numbers.max()) + 1
    sizes = [len(fold.held) for fold in folds]
    held = np.concatenate([fold.held for fold in folds])
    return held, np.concatenate(groups), np.repeat(np.arange(len(folds)), sizes)


def squared_errors(search: Search, predicted: Array, n_folds: int) -> Array:
    """Return the squared errors of predictions for the held-out entries of the first folds."""
    held = np.concatenate([fold.held for fold in search.folds[:n_folds]])
    return np.asarray(np.abs(predicted - search.entries.values[held]).astype(np.float64) ** 2)


def clustered(search: Search, n_folds: int, values: Array) -> tuple[float, float]:
    """Return the weighted mean of values at held-out entries, and its clustered standard error."""
    folds = search.folds[:n_folds]
    weights = np.concatenate([fold.weights for fold in folds]) / n_folds
    mean = float(weights @ values)
    _, groups, _ = over_folds(folds)
    error = error_of_sum(weights * (values - mean), groups)
    return mean, math.inf if math.isnan(error) else error


def summarize(search: Search, squares: Array, n_folds: int) -> tuple[float, float]:
    """Return the root mean squared error and its standard error."""
    mean, error = clustered(search, n_folds, squares)
    rmse = math.sqrt(mean)
    return rmse, error / (2 * rmse) if rmse > 0 else 0.0


def zero_model(entries: Observations) -> Tucker:
    """Return a zero tensor of rank 1."""
    shape, dtype = entries.shape, entries.values.dtype
    core = np.zeros((1,) * len(shape), dtype=dtype)
    return Tucker(core, tuple(np.ones((n, 1), dtype=dtype) / math.sqrt(n) for n in shape))
