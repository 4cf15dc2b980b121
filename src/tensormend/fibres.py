"""Sampled entries stored fibre by fibre: a tree over the other modes, lead mode at the leaves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tensormend import kernels
from tensormend.algebra import Array, as_shape, normalize_mode
from tensormend.errors import InputError

__all__ = ["Fibres", "check_indices"]

MAX_SIZE = int(np.iinfo(np.uint32).max)


def check_indices(indices: Array, shape: Sequence[int]) -> Array:
    """Check an ``m x d`` array of integer indices against a shape."""
    shape = as_shape(shape)
    indices = np.asarray(indices)
    if indices.ndim != 2 or indices.shape[1] != len(shape):
        raise InputError(
            f"indices must be an m x {len(shape)} array, one column per mode of shape {shape}, as "
            f"np.argwhere gives, got an array of shape {indices.shape}"
        )
    if len(indices) == 0:
        raise InputError("indices must name at least one entry, got none")
    if not np.issubdtype(indices.dtype, np.integer):
        raise InputError(
            f"indices must be integers, got {indices.dtype}; convert with indices.astype(int)"
        )
    for k, n in enumerate(shape):
        low, high = int(indices[:, k].min()), int(indices[:, k].max())
        if low < 0 or high >= n:
            row = int(np.argmax((indices[:, k] < 0) | (indices[:, k] >= n)))
            raise InputError(
                f"indices of mode {k} must lie between 0 and {n - 1}, got "
                f"{int(indices[row, k])} in row {row}; indices count from 0"
            )
    return indices


@dataclass(frozen=True, eq=False)
class Fibres:
    """A set of entries of a tensor in compressed fibre order.

    Attributes
    ----------
    shape : sizes of the modes
    modes : tree order of the modes, root first, the lead mode last
    nodes : per level of the tree, the coordinates of its nodes
    starts : per level, where the children of each node begin; one longer than ``nodes``
    leaves : lead-mode coordinate of every entry

    Notes
    -----
    Entries sort by their coordinates in tree order. A fibre is a node of the last level together
    with its entries; fibres without entries are not stored and cost nothing.
    """

    shape: tuple[int, ...]
    modes: tuple[int, ...]
    nodes: tuple[Array, ...]
    starts: tuple[Array, ...]
    leaves: Array

    @classmethod
    def build(
        cls, shape: Sequence[int], indices: Array, lead: int = -1
    ) -> tuple[Fibres, Array | None]:
        """Sort entries into fibres along a lead mode.

        Returns the fibres and the permutation that brings values given in the order of
        ``indices`` into storage order, or ``None`` if they are in that order already.
        """
        shape = as_shape(shape)
        indices = check_indices(indices, shape)
        if max(shape) > MAX_SIZE:
            raise InputError(f"mode sizes above {MAX_SIZE} are not supported, got shape {shape}")
        lead = normalize_mode(lead, len(shape))
        return cls._from_columns(shape, lead, [_compact(column) for column in indices.T])

    @classmethod
    def _from_columns(
        cls, shape: tuple[int, ...], lead: int, coordinates: Sequence[Array]
    ) -> tuple[Fibres, Array | None]:
        modes = (*(k for k in range(len(shape)) if k != lead), lead)
        columns = [coordinates[k] for k in modes]
        permutation = kernels.sort_entries(columns, [shape[k] for k in modes])
        if permutation is not None:
            columns = [column[permutation] for column in columns]
        return cls._from_sorted(shape, modes, columns), permutation

    @classmethod
    def _from_sorted(
        cls, shape: tuple[int, ...], modes: tuple[int, ...], columns: list[Array]
    ) -> Fibres:
        size = len(columns[0])
        is_new = np.zeros(size, dtype=bool)
        is_new[0] = True
        opens, nodes = [], []
        for column in columns[:-1]:
            is_new[1:] |= column[1:] != column[:-1]
            opens.append(np.flatnonzero(is_new))
            nodes.append(_compact(column[opens[-1]]))
        duplicate = ~is_new[1:] & (columns[-1][1:] == columns[-1][:-1])
        if duplicate.any():
            row = int(np.argmax(duplicate))
            where = tuple(int(columns[modes.index(k)][row]) for k in range(len(shape)))
            raise InputError(
                f"indices must name every entry once, got {int(duplicate.sum())} repeated "
                f"(first: {where}); average or drop the repeats"
            )
        starts = [np.searchsorted(opens[i + 1], opens[i]) for i in range(len(opens) - 1)]
        starts.append(opens[-1])
        ends = [len(node) for node in nodes[1:]] + [size]
        closed = tuple(
            np.append(start, end).astype(np.int64) for start, end in zip(starts, ends, strict=True)
        )
        return cls(shape, modes, tuple(nodes), closed, _compact(columns[-1]))

    @property
    def lead(self) -> int:
        """The mode along which the fibres run."""
        return self.modes[-1]

    @property
    def size(self) -> int:
        """Number of entries."""
        return len(self.leaves)

    @property
    def n_fibres(self) -> int:
        """Number of fibres that hold at least one entry."""
        return len(self.nodes[-1])

    @property
    def n_columns(self) -> int:
        """Number of all fibres along the lead mode: the product of the other sizes."""
        return math.prod(self.shape) // self.shape[self.lead]

    @cached_property
    def columns(self) -> Array:
        """Number of every stored fibre among all, counted in C order over the other modes."""
        others = [k for k in range(len(self.shape)) if k != self.lead]
        columns = np.zeros(self.n_fibres, dtype=np.int64)
        stride = 1
        for k in reversed(others):
            columns += stride * self._at_fibres(self.modes.index(k)).astype(np.int64)
            stride *= self.shape[k]
        return columns

    def _at_fibres(self, level: int) -> Array:
        """Coordinate of one tree level at every fibre."""
        coordinates = self.nodes[level]
        for start in self.starts[level:-1]:
            coordinates = np.repeat(coordinates, np.diff(start))
        return coordinates

    def along(self, mode: int) -> tuple[Fibres, Array | None]:
        """Return the same entries along another lead mode, and the permutation into its order.

        Each is sorted once and kept.
        """
        mode = normalize_mode(mode, len(self.shape))
        if mode == self.lead:
            return self, None
        if mode not in self._others:
            coordinates = [self.coordinates(k) for k in range(len(self.shape))]
            self._others[mode] = self._from_columns(self.shape, mode, coordinates)
        return self._others[mode]

    @cached_property
    def _others(self) -> dict[int, tuple[Fibres, Array | None]]:
        return {}

    def coordinates(self, mode: int) -> Array:
        """Coordinate of one mode at every entry, in storage order."""
        mode = normalize_mode(mode, len(self.shape))
        if mode == self.lead:
            return self.leaves
        at_fibres = self._at_fibres(self.modes.index(mode))
        return np.repeat(at_fibres, np.diff(self.starts[-1]))

    def indices(self) -> Array:
        """Return the ``m x d`` indices of the entries, in storage order."""
        out = np.empty((self.size, len(self.shape)), dtype=np.int64)
        for k in range(len(self.shape)):
            out[:, k] = self.coordinates(k)
        return out


def _compact(coordinates: Array) -> Array:
    return np.ascontiguousarray(coordinates, dtype=np.uint32)
