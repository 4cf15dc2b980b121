"""Sampled entries stored fibre by fibre: a tree over the other modes, leaf mode at the leaves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tensormend.core import kernels
from tensormend.core.algebra import Array, as_shape, normalize_mode
from tensormend.core.kernels.tree import Tree
from tensormend.errors import InputError

__all__ = ["Fibres", "as_index_array", "check_indices", "choose_modes"]

MAX_SIZE = int(np.iinfo(np.uint32).max)
SHORT_SIZE = int(np.iinfo(np.uint16).max) + 1  # up to here leaf-mode coordinates take 16 bits


def as_index_array(indices: Array, shape: Sequence[int]) -> Array:
    """Check that indices are an ``m x d`` array of integers, but not that they are in range."""
    shape = as_shape(shape)
    indices = np.asarray(indices)
    if indices.ndim != 2 or indices.shape[1] != len(shape):
        raise InputError(
            f"indices must be an m x {len(shape)} array, one column per mode of shape {shape}, as "
            f"np.argwhere gives, got an array of shape {indices.shape}"
        )
    if len(indices) == 0:
        raise InputError("indices must name at least one entry, got none; pass one row per entry")
    if not np.issubdtype(indices.dtype, np.integer):
        raise InputError(
            f"indices must be integers, got {indices.dtype}; convert with indices.astype(int)"
        )
    return indices


def check_indices(indices: Array, shape: Sequence[int]) -> Array:
    """Check that indices are an ``m x d`` array of integers within the shape."""
    indices = as_index_array(indices, shape)
    for k, n in enumerate(shape):
        low, high = int(indices[:, k].min()), int(indices[:, k].max())
        if low < 0 or high >= n:
            row = int(np.argmax((indices[:, k] < 0) | (indices[:, k] >= n)))
            raise InputError(
                f"indices of mode {k} must lie between 0 and {n - 1}, got "
                f"{int(indices[row, k])} in row {row}; indices count from 0"
            )
    return indices


# Approximate nanoseconds, of which only the ratios matter: an entry, each of its leaf-mode
# products, a node, each product of its contraction, and an entry in one digit of a sort.
ENTRY, ENTRY_PRODUCT, NODE, NODE_PRODUCT, SORT = 2.0, 0.4, 10.0, 0.5, 15.0
PASSES = 30  # passes over the entries among which the cost of a sort is divided


def choose_modes(
    shape: Sequence[int],
    rank: Sequence[int],
    size: int,
    stored: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """Choose the order of the modes in the tree for which a pass over the entries is cheapest.

    Parameters
    ----------
    shape : sequence of int
        Sizes of the modes.
    rank : sequence of int
        Multilinear rank of the tensor that is evaluated.
    size : int
        Number of entries.
    stored : sequence of int, optional
        Order in which the entries are stored already; every other order is charged for a sort.

    Returns
    -------
    tuple of int
        The modes, that of the root first, the leaf mode last.

    Notes
    -----
    The cost of an entry grows with the rank of the leaf mode, that of a node with the product of
    the ranks of its own level and those below. A level over ``N`` index tuples has about
    ``N (1 - exp(-size / N))`` nodes if the entries are random.

    Examples
    --------
    >>> choose_modes((1000, 50, 3), (5, 5, 3), 20_000)
    (2, 1, 0)
    """
    shape, d = as_shape(shape), len(shape)
    stored = None if stored is None else tuple(stored)

    def cost(modes: tuple[int, ...]) -> float:
        total = size * (ENTRY + ENTRY_PRODUCT * rank[modes[-1]])
        if modes != stored:
            total += size * d * SORT / PASSES
        n_indices, rest = 1.0, math.prod(rank)
        for k in modes[:-1]:
            n_indices *= shape[k]
            total -= n_indices * math.expm1(-size / n_indices) * (NODE + NODE_PRODUCT * rest)
            rest //= rank[k]
        return total

    # among equal costs prefer the order nearest to that of C arrays
    orders = itertools.permutations(range(d))
    return min(orders, key=lambda modes: (cost(modes), [-k for k in reversed(modes)]))


@dataclass(frozen=True, eq=False)
class Fibres:
    """Indices of a set of entries of a tensor, as a tree with one level per mode.

    Attributes
    ----------
    shape : tuple of int
        Sizes of the modes.
    modes : tuple of int
        Modes in the order of the levels, root first, the leaf mode last.
    nodes : tuple of ndarray
        Per level of the tree, the coordinates of its nodes.
    starts : tuple of ndarray
        Per level, the position of the first child of each node, then the number of all children.
    leaves : ndarray
        Leaf-mode coordinate of every entry, as uint32, or uint16 after `with_short_leaves`.

    Notes
    -----
    Entries are sorted lexicographically by their coordinates in tree order ("storage order"). A
    node of the last level and its entries are a fibre; fibres without entries are not stored.
    """

    shape: tuple[int, ...]
    modes: tuple[int, ...]
    nodes: tuple[Array, ...]
    starts: tuple[Array, ...]
    leaves: Array

    @classmethod
    def build(
        cls,
        shape: Sequence[int],
        indices: Array,
        leaf_mode: int = -1,
        threads: int = 1,
    ) -> tuple[Fibres, Array | None]:
        """Sort entries into fibres along a leaf mode, the other modes in ascending order.

        Parameters
        ----------
        shape : sequence of int
            Sizes of the modes.
        indices : ndarray of int, shape (m, d)
            Indices of the entries, each once, in any order.
        leaf_mode : int, default=-1
            Mode along which the fibres run.
        threads : int, default=1
            Number of threads.

        Returns
        -------
        fibres : Fibres
            The entries in storage order.
        permutation : ndarray of int or None
            ``values[permutation]`` brings values from the order of ``indices`` into storage order;
            None if they are in that order already.

        Raises
        ------
        InputError
            If an index is out of range or an entry occurs twice.
        """
        shape = as_shape(shape)
        indices = as_index_array(indices, shape)
        if max(shape) > MAX_SIZE:
            raise InputError(f"mode sizes above {MAX_SIZE} are not supported, got shape {shape}")
        modes = _leaf_last(len(shape), normalize_mode(leaf_mode, len(shape)))
        numbers = indices if indices.dtype == np.int32 else indices.astype(np.int64, copy=False)
        is_safe = indices.dtype != np.uint64  # large ones turn negative in 64 bits
        tree = kernels.read_tree(numbers, shape, modes, threads) if is_safe else None
        if tree is not None:
            leaves, opens, nodes = tree
            return cls._from_nodes(shape, modes, nodes, opens, leaves), None
        columns, bad_row = kernels.split_indices(numbers, shape, threads)
        if bad_row >= 0 or not is_safe:
            check_indices(indices, shape)  # raises the error with row and mode
        return cls._from_columns(shape, modes, columns, threads)

    @classmethod
    def _from_columns(
        cls,
        shape: tuple[int, ...],
        modes: tuple[int, ...],
        coordinates: Sequence[Array],
        threads: int = 1,
    ) -> tuple[Fibres, Array | None]:
        columns = [np.asarray(coordinates[k], dtype=np.uint32) for k in modes]
        sizes = [shape[k] for k in modes]
        permutation = kernels.sort_entries(columns, sizes, threads)
        if permutation is not None:
            columns = [column[permutation] for column in columns]
        opens, n_repeated, row = kernels.find_nodes(columns, sizes, threads)
        if n_repeated:
            where = tuple(int(columns[modes.index(k)][row]) for k in range(len(shape)))
            raise InputError(
                f"indices must name every entry once, got {n_repeated} repeated "
                f"(first: {where}); average or drop the repeats"
            )
        nodes = [column[rows] for column, rows in zip(columns, opens, strict=False)]
        return cls._from_nodes(shape, modes, nodes, opens, columns[-1]), permutation

    @classmethod
    def _from_nodes(
        cls,
        shape: tuple[int, ...],
        modes: tuple[int, ...],
        nodes: list[Array],
        opens: list[Array],
        leaves: Array,
    ) -> Fibres:
        """Assemble a tree from its nodes and the row of the first entry of each of them."""
        starts = [np.searchsorted(opens[i + 1], opens[i]) for i in range(len(opens) - 1)]
        starts.append(opens[-1])
        ends = [len(node) for node in nodes[1:]] + [len(leaves)]
        closed = tuple(
            np.append(start, end).astype(np.int64) for start, end in zip(starts, ends, strict=True)
        )
        return cls(shape, modes, tuple(nodes), closed, leaves)

    def with_short_leaves(self) -> Fibres:
        """Return the same entries with leaf-mode coordinates in 16 bits where the size allows."""
        if self.shape[self.leaf_mode] > SHORT_SIZE:
            return self
        return replace(self, leaves=self.leaves.astype(np.uint16))

    @property
    def tree(self) -> Tree:
        """The tree as the kernels take it."""
        return Tree(self.nodes, self.starts, self.leaves)

    @property
    def leaf_mode(self) -> int:
        """Mode along which the fibres run."""
        return self.modes[-1]

    @property
    def size(self) -> int:
        """Number of entries."""
        return len(self.leaves)

    @property
    def n_fibres(self) -> int:
        """Number of fibres with at least one entry."""
        return len(self.nodes[-1])

    @property
    def n_columns(self) -> int:
        """Number of columns of the unfolding along the leaf mode, the product of other sizes."""
        return math.prod(self.shape) // self.shape[self.leaf_mode]

    @cached_property
    def columns(self) -> Array:
        """Column of every fibre in the unfolding, which has the other modes in C order."""
        others = [k for k in range(len(self.shape)) if k != self.leaf_mode]
        columns = np.zeros(self.n_fibres, dtype=np.int64)
        stride = 1
        for k in reversed(others):
            columns += stride * self._at_fibres(self.modes.index(k)).astype(np.int64)
            stride *= self.shape[k]
        return columns

    def _at_fibres(self, level: int) -> Array:
        """Return the coordinate of every fibre in the mode of one level."""
        coordinates = self.nodes[level]
        for start in self.starts[level:-1]:
            coordinates = np.repeat(coordinates, np.diff(start))
        return coordinates

    def along(self, mode: int) -> tuple[Fibres, Array | None]:
        """Return the same entries with another leaf mode, and the permutation into their order."""
        mode = normalize_mode(mode, len(self.shape))
        modes = self.modes if mode == self.leaf_mode else _leaf_last(len(self.shape), mode)
        return self.arranged(modes)

    def arranged(self, modes: Sequence[int]) -> tuple[Fibres, Array | None]:
        """Return the same entries in another tree order, and the permutation into it.

        Every order is sorted once and cached.
        """
        modes = tuple(modes)
        if sorted(modes) != list(range(len(self.shape))):
            raise InputError(
                f"modes must name each of the {len(self.shape)} modes once, got {modes}; for "
                f"example {self.modes}"
            )
        if modes == self.modes:
            return self, None
        if modes not in self._others:
            coordinates = [self.coordinates(k) for k in range(len(self.shape))]
            self._others[modes] = self._from_columns(self.shape, modes, coordinates)
        return self._others[modes]

    @cached_property
    def _others(self) -> dict[tuple[int, ...], tuple[Fibres, Array | None]]:
        return {}

    def unobserved(self, mode: int) -> Array:
        """Return the indices of a mode whose slices have no entry, in ascending order."""
        mode = normalize_mode(mode, len(self.shape))
        is_observed = np.zeros(self.shape[mode], dtype=bool)
        indices = self.leaves if mode == self.leaf_mode else self.nodes[self.modes.index(mode)]
        first, size = 0, 8 * len(is_observed)
        while first < len(indices) and not is_observed.all():
            is_observed[indices[first : first + size]] = True
            first, size = first + size, 2 * size
        return np.flatnonzero(~is_observed)

    def coordinates(self, mode: int) -> Array:
        """Return the coordinate of every entry in one mode, in storage order."""
        mode = normalize_mode(mode, len(self.shape))
        if mode == self.leaf_mode:
            return self.leaves
        at_fibres = self._at_fibres(self.modes.index(mode))
        return np.repeat(at_fibres, np.diff(self.starts[-1]))

    def indices(self) -> Array:
        """Return the ``m x d`` indices of the entries, in storage order."""
        out = np.empty((self.size, len(self.shape)), dtype=np.int64)
        for k in range(len(self.shape)):
            out[:, k] = self.coordinates(k)
        return out


def _leaf_last(d: int, leaf_mode: int) -> tuple[int, ...]:
    return (*(k for k in range(d) if k != leaf_mode), leaf_mode)
