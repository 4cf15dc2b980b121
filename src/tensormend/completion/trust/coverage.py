"""Observed fractions of slices, and slices and fibres without any observed entry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensormend.core import kernels
from tensormend.core.algebra import Array

__all__ = ["Coverage", "ModeCoverage", "find_fibres", "measure_coverage"]

N_NAMED = 5  # fibres that are named one by one


@dataclass(frozen=True, eq=False)
class ModeCoverage:
    """What was observed along one mode.

    Attributes
    ----------
    counts : ndarray
        Observed entries of every slice.
    fraction : ndarray
        The same as a fraction of the slice.
    empty_slices : ndarray
        Slices without any.
    fibre_of : ndarray
        For every entry, the number of its fibre among those observed, in C order.
    n_empty_fibres : int
        Fibres along the mode without any entry.
    empty_fibres : ndarray
        The first of them, a row each, -1 in place of the mode itself.
    """

    counts: Array
    fraction: Array
    empty_slices: Array
    fibre_of: Array
    n_empty_fibres: int
    empty_fibres: Array


Coverage = tuple[ModeCoverage, ...]
"""One `ModeCoverage` per mode."""


def measure_coverage(indices: Array, shape: tuple[int, ...]) -> Coverage:
    """Measure what entries at ``m x d`` indices cover, in time and memory of the entries.

    Examples
    --------
    >>> rows, columns = measure_coverage(np.array([[0, 0], [0, 2], [3, 2]]), (4, 3))
    >>> rows.empty_slices, columns.fraction
    (array([1, 2]), array([0.25, 0.  , 0.5 ]))
    """
    out = []
    for k, n in enumerate(shape):
        others = [j for j in range(len(shape)) if j != k]
        sizes = [shape[j] for j in others]
        counts = np.bincount(indices[:, k], minlength=n)
        fibre_of, found = find_fibres([indices[:, j] for j in others], sizes)
        n_empty_fibres = math.prod(sizes) - len(found[0])
        first = np.insert(_first_missing(found, sizes, min(n_empty_fibres, N_NAMED)), k, -1, axis=1)
        fraction = counts / float(math.prod(sizes))
        empty_slices = np.flatnonzero(counts == 0)
        out.append(ModeCoverage(counts, fraction, empty_slices, fibre_of, n_empty_fibres, first))
    return tuple(out)


def find_fibres(columns: Sequence[Array], sizes: Sequence[int]) -> tuple[Array, list[Array]]:
    """Find the distinct rows of coordinates and number them in C order.

    Returns the number of every row, and the coordinates of the distinct ones, column by column.
    """
    columns = [np.ascontiguousarray(column, dtype=np.uint32) for column in columns]
    order = kernels.sort_entries(columns, sizes)
    if order is not None:
        columns = [column[order] for column in columns]
    opens = np.ones(len(columns[0]), dtype=bool)
    opens[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    numbers = np.cumsum(opens) - 1
    if order is not None:
        stored, numbers = numbers, np.empty_like(numbers)
        numbers[order] = stored
    return numbers, [column[opens] for column in columns]


def _first_missing(columns: Sequence[Array], sizes: Sequence[int], count: int) -> Array:
    """Return the first coordinates in C order that are not among sorted distinct ones.

    However large the shape, these are found among the first ``len(column) + count``, so
    that greater numbers need not be exact, and none grows beyond 64 bits.
    """
    limit = len(columns[0]) + count
    numbers, stride = np.zeros(len(columns[0]), dtype=np.int64), 1
    for column, n in zip(reversed(columns), reversed(sizes), strict=True):
        numbers += np.minimum(column, limit).astype(np.int64) * stride
        stride = min(stride * n, limit + 1)
    numbers = numbers[numbers < limit]
    n_before = numbers - np.arange(len(numbers))  # missing ones before each
    wanted = np.arange(count)
    missing = wanted + np.searchsorted(n_before, wanted, side="right")
    out = np.empty((count, len(sizes)), dtype=np.int64)
    for j, n in reversed(list(enumerate(sizes))):
        missing, out[:, j] = np.divmod(missing, n)
    return out
