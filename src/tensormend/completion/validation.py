"""Validation sets: observed entries held out in the pattern of the missing ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensormend.core.algebra import Array

__all__ = ["MAX_FOLDS", "Fold", "Pattern", "draw_folds", "find_pattern"]

MANY_FIBRES = 10**8  # fibres up to which a flag for each is faster than sorting
SURELY = 5.0  # standard deviations beyond chance: whole fibres are missing
MIN_FRACTION = 0.1  # of the missing entries, due to empty fibres, for these to matter
LARGEST = 100_000  # held-out entries that are enough to estimate the error
ENOUGH, ENOUGH_FIBRES = 2_000, 100  # held-out entries and fibres that one fold should have
PLENTY = 10_000  # held-out entries, of either kind, for which one fold is enough
LARGE = 300_000  # entries of a tensor above which one fold is used, to save time
MAX_FOLDS = 5


@dataclass(frozen=True)
class Pattern:
    """Pattern of the missing entries, as `find_pattern` returns it.

    Attributes
    ----------
    mode : int or None
        Mode along which whole fibres are missing; ``None`` if no such mode was found.
    fraction : float
        Fraction of the missing entries that lie in fibres along ``mode`` without any observed
        entry; 0 if ``mode`` is ``None``.
    """

    mode: int | None
    fraction: float


@dataclass(frozen=True, eq=False)
class Fold:
    """Observed entries that are held out together.

    Attributes
    ----------
    held : ndarray of int
        Positions of the held-out entries among the observed ones.
    weights : ndarray of float
        Weights of the held-out entries in the mean squared error. They sum to 1; the sum over
        whole fibres is the fraction of the missing entries that lie in empty fibres.
    clusters : ndarray of int
        Cluster of each held-out entry: the entries of a fibre form one, other entries are
        clusters of their own.
    """

    held: Array
    weights: Array
    clusters: Array

    def kept(self, size: int) -> Array:
        """Return the positions of the other ones of ``size`` observed entries."""
        out = np.ones(size, dtype=bool)
        out[self.held] = False
        return np.flatnonzero(out)


def find_pattern(indices: Array, shape: Sequence[int]) -> Pattern:
    """Find out whether entries are missing one by one or by whole fibres.

    Parameters
    ----------
    indices : ndarray of int of shape (m, d)
        Indices of the observed entries.
    shape : sequence of int
        Shape of the tensor.

    Returns
    -------
    Pattern
        The mode along which whole fibres are missing, if any.

    Notes
    -----
    Slices without any observed entry are ignored. If a fraction ``p`` of the entries is observed
    at random, a missing entry lies in an empty fibre along mode ``k`` with probability
    ``c = (1 - p)^(n_k - 1)``. If a fraction ``q`` of the missing entries does, an estimated
    ``(q - c) / (1 - c)`` of them are due to missing fibres. The mode with the largest estimate is
    returned if it exceeds 0.1 and the number of empty fibres exceeds its expectation by five
    standard deviations.

    Examples
    --------
    >>> observed = np.ones((6, 7, 8), dtype=bool)
    >>> observed[2, :, 3] = observed[4, :, 1] = False
    >>> find_pattern(np.argwhere(observed), observed.shape)
    Pattern(mode=1, fraction=1.0)
    """
    sizes = [int(np.count_nonzero(np.bincount(indices[:, k]))) for k in range(len(shape))]
    total = math.prod(sizes)
    n_missing = total - len(indices)
    best, most = Pattern(None, 0.0), MIN_FRACTION
    if n_missing == 0:
        return best
    p = len(indices) / total
    for k, n in enumerate(sizes):
        if n == 1:
            continue
        n_empty = total // n - len(_observed_fibres(indices, shape, k))
        expected = total // n * (1 - p) ** n
        fraction, by_chance = n_empty * n / n_missing, (1 - p) ** (n - 1)
        excess = (fraction - by_chance) / (1 - by_chance)
        if excess > most and n_empty > expected + SURELY * math.sqrt(expected):
            best, most = Pattern(k, fraction), excess
    return best


def _fibre_numbers(indices: Array, shape: Sequence[int], mode: int) -> Array:
    """Return for each entry the number of its fibre along a mode, in C order of the others."""
    out = np.zeros(len(indices), dtype=np.int64)
    for k, n in enumerate(shape):
        if k != mode:
            out *= n
            out += indices[:, k]
    return out


def _observed_fibres(indices: Array, shape: Sequence[int], mode: int) -> Array:
    """Return the sorted numbers of the fibres along a mode with an observed entry."""
    numbers = _fibre_numbers(indices, shape, mode)
    n_fibres = math.prod(shape) // shape[mode]
    if n_fibres > MANY_FIBRES:
        return np.unique(numbers)
    is_observed = np.zeros(n_fibres, dtype=bool)
    is_observed[numbers] = True
    return np.flatnonzero(is_observed)


def draw_folds(
    indices: Array,
    shape: Sequence[int],
    rng: np.random.Generator,
    *,
    fraction: float = 0.1,
    pattern: Pattern | None = None,
    n_folds: int | None = None,
) -> tuple[Fold, ...]:
    """Draw entries to hold out in the pattern of the missing ones.

    Parameters
    ----------
    indices : ndarray of int of shape (m, d)
        Indices of the observed entries.
    shape : sequence of int
        Shape of the tensor.
    rng : numpy.random.Generator
        Random number generator.
    fraction : float, default=0.1
        Fraction of the observed entries that a fold holds out, at most 100 000 of them.
    pattern : Pattern, default=None
        Pattern of the missing entries; ``None`` is that of `find_pattern`.
    n_folds : int, default=None
        Number of folds; ``None`` chooses it by the rule below.

    Returns
    -------
    tuple of Fold
        Disjoint folds of single entries, whole fibres, or both. Every slice keeps an entry
        outside of each fold. The tuple is empty if no entry can be held out.

    Notes
    -----
    One fold is used if it has 2000 single entries and 100 fibres, or 10 000 entries of either
    kind, or if the tensor has more than 300 000 entries; otherwise up to five.
    """
    pattern = find_pattern(indices, shape) if pattern is None else pattern
    size = len(indices)
    count = max(1, min(round(fraction * size), LARGEST))
    in_fibres = 0 if pattern.mode is None else round(count * pattern.fraction)
    singles, groups = rng.permutation(size), None
    if pattern.mode is not None:
        numbers = _fibre_numbers(indices, shape, pattern.mode)
        fibres = _observed_fibres(indices, shape, pattern.mode)
        groups = _Groups(np.searchsorted(fibres, numbers), rng.permutation(len(fibres)))
    if n_folds is None:
        n_folds = _enough_folds(math.prod(shape), count, in_fibres, size, groups)
    fibre_folds = np.full(size, -1)
    if groups is not None:
        fibre_folds = groups.fold_of_entries(in_fibres / size, n_folds)
        singles = singles[fibre_folds[singles] < 0]
    folds = []
    for number in range(n_folds):
        whole = fibre_folds == number
        chosen = whole.copy()
        chosen[singles[number * (count - in_fibres) :][: count - in_fibres]] = True
        _spare_slices(indices, shape, chosen)
        if chosen.any():
            folds.append(_make_fold(chosen, whole, groups, pattern.fraction))
    if not folds and pattern.mode is not None:  # every fibre holds the only entries of a slice
        single = Pattern(None, 0.0)
        return draw_folds(indices, shape, rng, fraction=fraction, pattern=single, n_folds=n_folds)
    return tuple(folds)


@dataclass(frozen=True, eq=False)
class _Groups:
    """The fibre of every entry, and the order in which fibres are held out."""

    of: Array
    order: Array

    def fold_of_entries(self, fraction: float, n_folds: int) -> Array:
        """Return the fold of every entry, -1 for none; each holds out a fraction of the fibres."""
        n = len(self.order)
        count = min(max(1, round(fraction * n)), max(1, n // n_folds))
        fold = np.full(n, -1)
        chosen = self.order[: n_folds * count]
        fold[chosen] = np.arange(len(chosen)) // count
        return np.asarray(fold[self.of])


def _enough_folds(total: int, count: int, in_fibres: int, size: int, groups: _Groups | None) -> int:
    needed = 1
    if count >= PLENTY or total > LARGE:
        return needed
    if count > in_fibres:
        needed = math.ceil(min(ENOUGH, size / 2) / count)
    if groups is not None and in_fibres:
        n_fibres = max(1, round(in_fibres / size * len(groups.order)))
        needed = max(needed, math.ceil(ENOUGH_FIBRES / n_fibres))
    return min(max(1, needed), MAX_FOLDS)


def _spare_slices(indices: Array, shape: Sequence[int], chosen: Array) -> None:
    """Exclude entries from ``chosen`` whose slice would lose all of its entries."""
    for k, n in enumerate(shape):
        left = np.bincount(indices[~chosen, k], minlength=n)
        chosen &= left[indices[:, k]] > 0


def _make_fold(chosen: Array, whole: Array, groups: _Groups | None, fraction: float) -> Fold:
    held = np.flatnonzero(chosen)
    in_fibre = whole[held]
    clusters = np.arange(len(held))
    if groups is not None:
        clusters = np.where(in_fibre, len(held) + groups.of[held], clusters)
    n_whole = int(in_fibre.sum())
    n_single = len(held) - n_whole
    if n_whole == 0 or n_single == 0:
        return Fold(held, np.full(len(held), 1 / len(held)), clusters)
    weights = np.where(in_fibre, fraction / n_whole, (1 - fraction) / n_single)
    return Fold(held, weights, clusters)
