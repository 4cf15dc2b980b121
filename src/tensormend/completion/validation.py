"""Known entries to keep from a fit, whose error on them tells its error on the holes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensormend.core.algebra import Array

__all__ = ["MAX_FOLDS", "Fold", "Pattern", "draw_folds", "find_pattern"]

MANY_FIBRES = 10**8  # fibres up to which a flag for each is faster than sorting
SURELY = 5.0  # standard deviations beyond chance: whole fibres went missing
LEAST_SHARE = 0.1  # of the holes that must be due to empty fibres for these to matter
LARGEST = 100_000  # held-out entries that tell the error well enough
ENOUGH, ENOUGH_FIBRES = 2_000, 100  # held-out entries and fibres that one fold should have
PLENTY = 10_000  # held-out entries with which one fold does, whatever they are
LARGE = 300_000  # entries of a tensor of which a fit takes so long that one fold must do
MAX_FOLDS = 5


@dataclass(frozen=True)
class Pattern:
    """How entries are missing: a ``fraction`` of them in fibres along ``mode`` without any data.

    ``mode`` is ``None`` where entries are missing one by one, as far as one can see.
    """

    mode: int | None
    fraction: float


@dataclass(frozen=True, eq=False)
class Fold:
    """Known entries to hold out together.

    Attributes
    ----------
    held : ndarray
        Positions among the known entries.
    weights : ndarray
        What each counts in the error; they sum to 1, and those of whole fibres count as much as
        holes in whole fibres make of all holes.
    clusters : ndarray
        Entries of one fibre share a number, single ones have their own.
    """

    held: Array
    weights: Array
    clusters: Array

    def kept(self, size: int) -> Array:
        """Positions of the other entries."""
        out = np.ones(size, dtype=bool)
        out[self.held] = False
        return np.flatnonzero(out)


def find_pattern(indices: Array, shape: Sequence[int]) -> Pattern:
    """Tell whether entries are missing one by one or by whole fibres.

    Slices without any entry are left aside. Missing by chance, a hole lies in an empty fibre along
    mode ``k`` with probability ``c = (1 - p)^(n_k - 1)``, ``p`` being the share of known entries.
    If a share ``q`` of the holes does, ``(q - c) / (1 - c)`` of them are there because whole fibres
    are missing. The mode where this is largest counts, if it is more than a tenth and the number
    of empty fibres exceeds what chance leaves by five standard deviations.

    Examples
    --------
    >>> known = np.ones((6, 7, 8), dtype=bool)
    >>> known[2, :, 3] = known[4, :, 1] = False
    >>> find_pattern(np.argwhere(known), known.shape)
    Pattern(mode=1, fraction=1.0)
    """
    seen = [int(np.count_nonzero(np.bincount(indices[:, k]))) for k in range(len(shape))]
    total = math.prod(seen)
    n_holes = total - len(indices)
    best, most = Pattern(None, 0.0), LEAST_SHARE
    if n_holes == 0:
        return best
    p = len(indices) / total
    for k, n in enumerate(seen):
        if n == 1:
            continue
        n_empty = total // n - len(_seen_fibres(indices, shape, k))
        expected = total // n * (1 - p) ** n
        share, by_chance = n_empty * n / n_holes, (1 - p) ** (n - 1)
        excess = (share - by_chance) / (1 - by_chance)
        if excess > most and n_empty > expected + SURELY * math.sqrt(expected):
            best, most = Pattern(k, share), excess
    return best


def _fibre_numbers(indices: Array, shape: Sequence[int], mode: int) -> Array:
    """Return for each entry the number of its fibre along a mode, in C order of the others."""
    out = np.zeros(len(indices), dtype=np.int64)
    for k, n in enumerate(shape):
        if k != mode:
            out *= n
            out += indices[:, k]
    return out


def _seen_fibres(indices: Array, shape: Sequence[int], mode: int) -> Array:
    """Numbers of the fibres along a mode that hold an entry, in order."""
    numbers = _fibre_numbers(indices, shape, mode)
    n_fibres = math.prod(shape) // shape[mode]
    if n_fibres > MANY_FIBRES:
        return np.unique(numbers)
    seen = np.zeros(n_fibres, dtype=bool)
    seen[numbers] = True
    return np.flatnonzero(seen)


def draw_folds(
    indices: Array,
    shape: Sequence[int],
    rng: np.random.Generator,
    *,
    share: float = 0.1,
    pattern: Pattern | None = None,
    n_folds: int | None = None,
) -> tuple[Fold, ...]:
    """Choose entries to hold out as the holes are: single ones, whole fibres, or both.

    A fold holds out ``share`` of the known entries, at most 100 000 of them, and never the last
    ones of a slice. One fold does if it has 2000 single entries and 100 fibres, or 10 000 entries
    of whatever kind, or the tensor more than 300 000; else there are up to five, which share no
    entry.

    Parameters
    ----------
    indices : ndarray
        ``m x d``, the known entries.
    pattern : Pattern, optional
        As from `find_pattern`, by default found.
    n_folds : int, optional
        Number of folds, by default by the rule above.
    """
    pattern = find_pattern(indices, shape) if pattern is None else pattern
    size = len(indices)
    count = max(1, min(round(share * size), LARGEST))
    in_fibres = 0 if pattern.mode is None else round(count * pattern.fraction)
    singles, groups = rng.permutation(size), None
    if pattern.mode is not None:
        numbers = _fibre_numbers(indices, shape, pattern.mode)
        fibres = _seen_fibres(indices, shape, pattern.mode)
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
    if not folds and pattern.mode is not None:  # every fibre has a slice's last entries
        single = Pattern(None, 0.0)
        return draw_folds(indices, shape, rng, share=share, pattern=single, n_folds=n_folds)
    return tuple(folds)


@dataclass(frozen=True, eq=False)
class _Groups:
    """The fibre of every entry, and the order in which fibres are held out."""

    of: Array
    order: Array

    def fold_of_entries(self, share: float, n_folds: int) -> Array:
        """Give each entry the fold that holds its fibre out, -1 for none; a share goes to each."""
        n = len(self.order)
        count = min(max(1, round(share * n)), max(1, n // n_folds))
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
    """Give entries back to slices that would lose all of theirs."""
    for k, n in enumerate(shape):
        left = np.bincount(indices[~chosen, k], minlength=n)
        chosen &= left[indices[:, k]] > 0


def _make_fold(chosen: Array, whole: Array, groups: _Groups | None, share: float) -> Fold:
    held = np.flatnonzero(chosen)
    in_fibre = whole[held]
    clusters = np.arange(len(held))
    if groups is not None:
        clusters = np.where(in_fibre, len(held) + groups.of[held], clusters)
    n_whole = int(in_fibre.sum())
    n_single = len(held) - n_whole
    if n_whole == 0 or n_single == 0:
        return Fold(held, np.full(len(held), 1 / len(held)), clusters)
    weights = np.where(in_fibre, share / n_whole, (1 - share) / n_single)
    return Fold(held, weights, clusters)
