"""Predictions of held-out entries, and the errors of means as a baseline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tensormend.completion.means import error_of_sum, slice_sums
from tensormend.completion.trust.coverage import Coverage
from tensormend.core.algebra import Array, as_shape, power_of_two
from tensormend.core.fibres import MAX_SIZE, check_indices
from tensormend.errors import InputError

__all__ = ["HeldOut", "mean_of", "mean_with_error"]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Entries, some of them held out and predicted; what `judge` is given, checked.

    Attributes
    ----------
    shape : tuple of int
        Where all entries are.
    indices : ndarray
        Where all entries are.
    unit : float
        A power of two, by which values, predictions and residuals have been divided, so that their
        squares neither overflow nor vanish.
    values : ndarray
        Values of all entries.
    residuals : ndarray
        Residuals of all entries.
    held, predicted : ndarray
        Positions of the held-out entries, and what was predicted for them.
    groups : ndarray or None
        Number of the group of every held-out entry; ``None`` if all are independent.
    folds : ndarray or None
        Number of its fold: the fit that predicted it used all entries but those of the fold;
        ``None`` if it used these too.
    """

    shape: tuple[int, ...]
    indices: Array
    unit: float
    values: Array
    residuals: Array
    held: Array
    predicted: Array
    groups: Array | None
    folds: Array | None

    @classmethod
    def check(
        cls,
        indices: Any,
        values: Any,
        shape: Sequence[int],
        *,
        held: Any,
        predicted: Any,
        residuals: Any,
        groups: Any,
        folds: Any,
        in_sample: bool,
    ) -> HeldOut:
        """Check the arguments of `judge`."""
        shape = as_shape(shape)
        if max(shape) > MAX_SIZE:
            raise InputError(f"mode sizes above {MAX_SIZE} are not supported, got shape {shape}")
        indices = check_indices(np.asarray(indices), shape).astype(np.int64, copy=False)
        held = _as_positions(held, len(indices))
        numbers = [
            _as_numbers(values, len(indices), "values"),
            _as_numbers(residuals, len(indices), "residuals"),
            _as_numbers(predicted, len(held), "predicted"),
        ]
        largest = max(float(np.abs(part).max(initial=0)) for part in numbers)
        unit = power_of_two(largest)
        values, residuals, predicted = (part / unit for part in numbers)
        groups, folds = (
            _as_labels(labels, len(held), what)
            for labels, what in ((groups, "groups"), (folds, "folds"))
        )
        if folds is None:
            folds = np.zeros(len(held), dtype=np.int64)
        if (np.diff(np.sort(held * (folds.max(initial=0) + 1) + folds)) == 0).any():
            raise InputError(
                "held must name every entry once, or once per fold, got repeats; drop them"
            )
        folds = None if in_sample else folds
        return cls(shape, indices, unit, values, residuals, held, predicted, groups, folds)

    @cached_property
    def truth(self) -> Array:
        """The held-out values."""
        return self.values[self.held]

    @cached_property
    def squares(self) -> Array:
        """Squared errors of the predictions."""
        squares: Array = np.abs(self.truth - self.predicted) ** 2
        return squares

    @cached_property
    def columns(self) -> tuple[Array, ...]:
        """Per mode, the coordinates of the held-out entries."""
        return tuple(self.indices[self.held].T)

    def rmse_per_slice(self) -> tuple[Array, ...]:
        """Per mode, root mean square error of every slice, NaN where no entry was held out."""
        out = []
        for column, n in zip(self.columns, self.shape, strict=True):
            counts = np.bincount(column, minlength=n)
            sums = slice_sums(column, self.squares, n)
            means = np.divide(sums, counts, out=np.full(n, np.nan), where=counts > 0)
            out.append(self.unit * np.sqrt(means))
        return tuple(out)

    def best_mean(self, coverage: Coverage, names: Sequence[str]) -> tuple[str, Array]:
        """Return the mean that predicts the held-out entries best, and its squared errors.

        A slice or fibre without an entry that was fitted takes the mean of all.
        """
        overall, counts = self._means(np.zeros(len(self.values), dtype=np.int64))
        if (counts == 0).any():
            raise InputError(
                "held-out entries must leave some for the assessed fit, got all of them held "
                "out at once; give folds= if they were held out by several fits"
            )
        guesses = {"the mean of all entries": overall}
        for k, name in enumerate(names):
            labels = {
                f"the mean of the slice of {name}": self.indices[:, k],
                f"the mean of the fibre along {name}": coverage[k].fibre_of,
            }
            for label, ids in labels.items():
                means, counts = self._means(ids)
                guesses[label] = np.where(counts > 0, means, overall)
        errors = {label: np.abs(self.truth - guess) ** 2 for label, guess in guesses.items()}
        best = min(errors, key=lambda label: float(errors[label].sum()))
        return best, errors[best]

    def _means(self, ids: Array) -> tuple[Array, Array]:
        """Per held-out entry, mean and number of the entries with its id that its fit used."""
        n, mine = int(ids.max()) + 1, ids[self.held]
        sums = slice_sums(ids, self.values, n)[mine]
        counts = np.bincount(ids, minlength=n)[mine]
        if self.folds is not None:
            n_folds = int(self.folds.max(initial=0)) + 1
            own = mine * n_folds + self.folds
            if n * n_folds > len(ids):  # more bins than entries
                own = np.unique(own, return_inverse=True)[1]
            sums = sums - slice_sums(own, self.truth, 0)[own]
            counts = counts - np.bincount(own)[own]
        return sums / np.maximum(counts, 1), counts


def mean_of(numbers: Array) -> float:
    """Return the mean, NaN of nothing."""
    return float(numbers.mean()) if len(numbers) else math.nan


def mean_with_error(numbers: Array, groups: Array | None) -> tuple[float, float]:
    """Return a mean and its standard error, where numbers of a group may depend on each other.

    The error is that of the sums over groups, so it is right however the numbers within a group
    are correlated, and NaN where there is one group only.

    Examples
    --------
    >>> mean_with_error(np.array([1.0, 1.0, 3.0, 3.0]), np.array([0, 0, 1, 1]))
    (2.0, 1.0)
    """
    mean = mean_of(numbers)
    return mean, error_of_sum(numbers - mean, groups) / max(len(numbers), 1)


# checks


def _as_positions(given: Any, size: int) -> Array:
    held: Array = np.asarray(given)
    if held.dtype == np.bool_ and held.shape == (size,):
        return np.flatnonzero(held)
    if held.size == 0:
        return np.empty(0, dtype=np.int64)
    is_list = held.ndim == 1 and np.issubdtype(held.dtype, np.integer)
    if not is_list or held.min() < 0 or held.max() >= size:
        raise InputError(
            f"held must be positions between 0 and {size - 1} or a boolean array of length {size}, "
            f"got {held.dtype} of shape {held.shape}; convert it with np.flatnonzero"
        )
    return held.astype(np.int64)


def _as_numbers(given: Any, size: int, what: str) -> Array:
    numbers: Array = np.asarray(given)
    if numbers.dtype.kind not in "biufc" or numbers.shape != (size,):
        raise InputError(
            f"{what} must be {size} numbers, one per entry, got {numbers.dtype} of shape "
            f"{numbers.shape}"
        )
    if not np.isfinite(numbers).all():
        raise InputError(f"{what} must be finite, got NaN or infinite ones; drop these entries")
    return numbers.astype(np.complex128 if numbers.dtype.kind == "c" else np.float64)


def _as_labels(given: Any, size: int, what: str) -> Array | None:
    if given is None:
        return None
    labels: Array = np.asarray(given)
    if labels.shape != (size,):
        raise InputError(
            f"{what} must be {size} labels, one per held-out entry, got shape {labels.shape}"
        )
    numbers: Array = np.unique(labels, return_inverse=True)[1]
    return numbers
