"""Means and standard deviations of the slices of a tensor, from its observed entries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tensormend.core.algebra import Array

__all__ = ["SHRINK", "ModeMeans", "error_of_sum", "fit_mode_means", "fit_stds", "slice_sums"]

SHRINK = 5.0  # observations with which a slice keeps half of its own effect
TOL, MAX_ITER = 1e-8, 100  # of the conjugate gradients
CONSTANT = 1e-10  # standard deviation relative to the root mean square that counts as rounding


def slice_sums(column: Array, values: Array, n: int) -> Array:
    """Sum values, real or complex, by their coordinate in one mode of size ``n``.

    Examples
    --------
    >>> slice_sums(np.array([2, 0, 2]), np.array([1.0, 2.0, 3.0]), 4)
    array([2., 0., 4., 0.])
    """
    if values.dtype.kind == "c":
        real, imaginary = (slice_sums(column, part, n) for part in (values.real, values.imag))
        return real + 1j * imaginary
    return np.bincount(column, weights=values, minlength=n)


def error_of_sum(numbers: Array, groups: Array | None = None) -> float:
    """Return the standard error of the sum of numbers that may be correlated within groups.

    Parameters
    ----------
    numbers : ndarray of shape (m,)
        Values minus their mean.
    groups : ndarray of shape (m,), default=None
        Number of the group of each; ``None`` if all are independent.

    Returns
    -------
    float
        Root of the sum of the squared sums over groups, corrected for their number; NaN if there
        are fewer than two groups.

    Examples
    --------
    >>> error_of_sum(np.array([-1.0, -1.0, 1.0, 1.0]), np.array([0, 0, 1, 1]))
    4.0
    """
    sums = numbers if groups is None else np.bincount(groups, numbers)
    n = len(sums)
    return math.sqrt(float(np.sum(sums**2)) * n / (n - 1)) if n > 1 else math.nan


@dataclass(frozen=True, eq=False)
class ModeMeans:
    """A grand mean and effects of slices, as `fit_mode_means` returns them.

    Attributes
    ----------
    mean : complex
        The grand mean.
    effects : tuple of ndarray
        For each fitted mode, one effect per slice.
    residuals : ndarray
        The values minus the mean and their effects.
    degrees_of_freedom : float
        Effective degrees of freedom of mean and effects.
    """

    mean: complex
    effects: tuple[Array, ...]
    residuals: Array
    degrees_of_freedom: float

    @cached_property
    def error(self) -> float:
        """Mean squared error of other entries, estimated by generalized cross-validation."""
        kept = 1 - self.degrees_of_freedom / len(self.residuals)
        return float(np.mean(np.abs(self.residuals) ** 2)) / kept**2 if kept > 0 else np.inf


def fit_mode_means(columns: Sequence[Array], sizes: Sequence[int], values: Array) -> ModeMeans:
    """Fit a grand mean and an effect for every slice of some modes by penalized least squares.

    Parameters
    ----------
    columns : sequence of ndarray of shape (m,)
        For each mode to fit, the indices of the entries along it.
    sizes : sequence of int
        Sizes of these modes.
    values : ndarray of shape (m,)
        The observed values.

    Returns
    -------
    ModeMeans
        Mean, effects, residuals and degrees of freedom.

    Notes
    -----
    Minimizes ``sum |value - mean - sum_k effect_k[i_k]|^2 + 5 sum_k ||effect_k||^2`` over the
    observed entries by conjugate gradients. A slice with ``n`` of them keeps about
    ``n / (n + 5)`` of its least-squares effect, and one without any has effect 0.
    """
    counts = [np.bincount(column, minlength=n) for column, n in zip(columns, sizes, strict=True)]
    cuts = np.cumsum([1, *sizes])[:-1]

    def predict(x: Array) -> Array:
        mean, *effects = np.split(x, cuts)
        out = np.full(values.shape, mean[0])
        for column, effect in zip(columns, effects, strict=True):
            out += effect[column]
        return out

    def gather(numbers: Array) -> Array:
        pairs = zip(columns, sizes, strict=True)
        return np.concatenate([[numbers.sum()], *(slice_sums(c, numbers, n) for c, n in pairs)])

    # conjugate gradients on the normal equations, preconditioned by their diagonal
    ridge = np.concatenate([[0.0], np.full(sum(sizes), SHRINK)])
    diagonal = np.concatenate([[len(values)], *counts]) + ridge
    x = np.zeros(len(diagonal), dtype=values.dtype)
    residual = gather(values)  # of the normal equations
    direction = residual / diagonal
    square = first = np.vdot(residual, direction).real
    for _ in range(MAX_ITER):
        if not square > TOL**2 * first:
            break
        image = gather(predict(direction)) + ridge * direction
        alpha = square / np.vdot(direction, image).real
        x, residual = x + alpha * direction, residual - alpha * image
        last, square = square, np.vdot(residual, residual / diagonal).real
        direction = residual / diagonal + (square / last) * direction
    mean, *effects = np.split(x, cuts)
    freedom = 1.0 + sum(_freedom(count) for count in counts)
    return ModeMeans(mean[0], tuple(effects), values - predict(x), freedom)


def _freedom(counts: Array) -> float:
    """Degrees of freedom of the effects of a mode beside the mean, exact for balanced data."""
    n_observed = int(np.count_nonzero(counts))
    return float(np.sum(counts / (counts + SHRINK))) * (1 - 1 / n_observed)


def fit_stds(column: Array, n: int, values: Array, unit: float = 1.0) -> Array:
    """Estimate the standard deviation of every slice of a mode about its own mean.

    Parameters
    ----------
    column : ndarray of int of shape (m,)
        Indices of the entries along the mode.
    n : int
        Size of the mode.
    values : ndarray of shape (m,)
        The observed values, divided by ``unit``.
    unit : float, default=1
        What the standard deviations are multiplied by.

    Returns
    -------
    ndarray of shape (n,)
        One positive standard deviation per slice.

    Notes
    -----
    Slices may have different units, therefore logarithms are shrunk: that of a slice with
    ``f + 1`` entries becomes ``(f own + 5 common) / (f + 5)``, where ``common`` is the mean of all
    logarithms with weights ``f``. Slices that are constant or have fewer than two entries take
    the common value. If there is no other slice, all standard deviations are 1, in any unit.
    """
    counts = np.bincount(column, minlength=n)
    sums, squares = slice_sums(column, values, n), slice_sums(column, np.abs(values) ** 2, n)
    means = sums / np.maximum(counts, 1)
    spread = slice_sums(column, np.abs(values - means[column]) ** 2, n)
    varies = spread > CONSTANT**2 * squares
    if not varies.any():
        return np.ones(n)
    freedom = np.where(varies, counts - 1, 0)
    logs = np.zeros(n)
    logs[varies] = 0.5 * np.log(spread[varies] / freedom[varies])
    common = np.average(logs, weights=freedom)
    shrunk: Array = unit * np.exp((freedom * logs + SHRINK * common) / (freedom + SHRINK))
    return shrunk
