"""What anybody would try first: the mean of a fibre, and straight lines between neighbours.

Both look along one mode at a time. Which mode serves best is decided on the observed entries, each
predicted from the others of its fibre; where the fibre of a lost entry is empty, the next best mode
takes over, and in the end the mean of all that is observed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensormend.core.algebra import Array

__all__ = ["fibre_mean", "linear_interpolation"]

Predict = Callable[[Array, int], tuple[Array, Array]]


def fibre_mean(data: Array) -> Array:
    """Fill missing entries with the mean of the observed entries of the fibre.

    Examples
    --------
    >>> fibre_mean(np.array([[1.0, np.nan, 3.0], [4.0, 4.0, 4.0]]))
    array([[1., 2., 3.],
           [4., 4., 4.]])
    """
    return _fill(data, _mean_of_others)


def linear_interpolation(data: Array) -> Array:
    """Interpolate linearly between the nearest observed entries, constant beyond the ends.

    Examples
    --------
    >>> linear_interpolation(np.array([[1.0, np.nan, 3.0, np.nan], [7.0, 7.5, 8.0, 8.5]]))
    array([[1. , 2. , 3. , 3. ],
           [7. , 7.5, 8. , 8.5]])
    """
    return _fill(data, _line_through_neighbours)


def _fill(data: Array, predict: Predict) -> Array:
    observed = ~np.isnan(data)
    guesses = []
    for mode in range(data.ndim):
        guess, is_there = predict(data, mode)
        tested = observed & is_there
        error = np.mean((guess[tested] - data[tested]) ** 2) if tested.any() else np.inf
        guesses.append((float(error), guess, is_there))
    filled = np.where(observed, data, np.nan)
    for _, guess, is_there in sorted(guesses, key=lambda found: found[0]):
        filled = np.where(np.isnan(filled) & is_there, guess, filled)
    return np.where(np.isnan(filled), np.mean(data[observed]), filled)


def _mean_of_others(data: Array, mode: int) -> tuple[Array, Array]:
    """Predict each entry by the mean of the other observed entries of its fibre along a mode."""
    observed = ~np.isnan(data)
    values = np.where(observed, data, 0.0)
    count = observed.sum(axis=mode, keepdims=True) - observed
    total = values.sum(axis=mode, keepdims=True) - values
    return total / np.maximum(count, 1), count > 0


def _line_through_neighbours(data: Array, mode: int) -> tuple[Array, Array]:
    """Predict each entry by the line through the nearest observed entries along a mode."""
    x = np.moveaxis(data, mode, -1)
    n = x.shape[-1]
    positions = np.arange(n)
    observed = ~np.isnan(x)
    before = np.maximum.accumulate(np.where(observed, positions, -1), axis=-1)
    before = np.concatenate([np.full_like(before[..., :1], -1), before[..., :-1]], axis=-1)
    after = np.minimum.accumulate(np.where(observed, positions, n)[..., ::-1], axis=-1)[..., ::-1]
    after = np.concatenate([after[..., 1:], np.full_like(after[..., :1], n)], axis=-1)
    has_before, has_after = before >= 0, after < n
    left = np.take_along_axis(x, np.where(has_before, before, 0), axis=-1)
    right = np.take_along_axis(x, np.where(has_after, after, 0), axis=-1)
    left, right = np.where(has_before, left, right), np.where(has_after, right, left)
    weight = (positions - before) / (after - before)  # beyond the ends both sides are the same
    guess = left + weight * (right - left)
    is_there = has_before | has_after
    return np.moveaxis(guess, -1, mode), np.moveaxis(is_there, -1, mode)
