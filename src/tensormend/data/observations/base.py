"""`Observations`: observed entries of a tensor; `Container`: the kind of data they are from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from tensormend.core import kernels
from tensormend.core.algebra import Array, is_inexact
from tensormend.errors import InputError

__all__ = ["Container", "Keys", "Labelled", "Observations", "Reader", "as_numbers", "decode_text"]

Keys = Sequence[int | slice | Array]
"""A selection per mode: a slice or a vector of indices keeps the mode, an int drops it."""

BAD_LABEL = (KeyError, IndexError, TypeError, ValueError)  # how libraries refuse a label


@dataclass(frozen=True)
class Container:
    """A kind of data, in which results are returned; this one is a NumPy array without labels.

    Attributes
    ----------
    words : str
        Name of this kind of data in messages.
    """

    words: ClassVar[str] = "a NumPy array"

    def wrap(self, block: Array, keys: Keys) -> Any:
        """Return a block of values as this kind of data.

        Parameters
        ----------
        block : ndarray
            Values, with all modes of the tensor.
        keys : sequence of int, slice or ndarray
            Selection per mode that gave the block; modes selected by an integer are dropped.

        Returns
        -------
        array_like
            The values in this kind of data, with the labels of the selected indices.
        """
        return block.reshape([n for n, key in zip(block.shape, keys, strict=True) if is_kept(key)])

    def wrap_factor(self, mode: int, factor: Array) -> Any:  # noqa: ARG002
        """Return a factor matrix, with the labels of its mode on the rows where there are any.

        Parameters
        ----------
        mode : int
            The mode.
        factor : ndarray of shape (n, r)
            Its factor matrix.

        Returns
        -------
        array_like of shape (n, r)
            An array, a DataArray or a DataFrame.
        """
        return factor

    def entry_bytes(self, dtype: np.dtype[Any], order: int) -> int:  # noqa: ARG002
        """Return the memory of one entry in this kind of data.

        Parameters
        ----------
        dtype : dtype
            Data type of the values.
        order : int
            Number of modes, each of which has an index or label per entry in sparse data and
            tables.

        Returns
        -------
        int
            Number of bytes.
        """
        return dtype.itemsize

    def find(self, labels: Mapping[Hashable, Any]) -> Keys:  # noqa: ARG002
        """Convert labels, by the names of the modes, to a selection per mode."""
        raise InputError(
            f"sel takes labels, which {self.words} does not have; select by integers, as in "
            "completion[3, :, 5]"
        )

    def describe(self, mode: int, indices: Sequence[int]) -> tuple[str, str]:
        """Return the name of a mode and the labels of some of its indices, for a message."""
        return f"mode {mode}", f"index {', '.join(map(str, indices))}"

    def describe_entry(self, index: Sequence[int]) -> str:
        """Return the labels of one entry, for a message."""
        return f"index {tuple(int(i) for i in index)}"


class Labelled(Container, ABC):
    """A kind of data whose modes have names and whose indices have labels.

    Attributes
    ----------
    dims : tuple of hashable
        Names of the modes.
    """

    dims: tuple[Hashable, ...]

    @abstractmethod
    def label(self, mode: int, index: int) -> Any:
        """Return the label of an index of a mode."""

    @abstractmethod
    def locate(self, mode: int, label: Any) -> Array:
        """Return the index of a label, or the indices of a list or slice of labels."""

    def find(self, labels: Mapping[Hashable, Any]) -> Keys:
        """Convert labels, by the names of the modes, to a selection per mode."""
        keys: list[int | slice | Array] = [slice(None)] * len(self.dims)
        for name, label in labels.items():
            if name not in self.dims:
                raise InputError(
                    f"sel takes labels by the names of the modes, got {name!r}; use one of "
                    f"{', '.join(map(repr, self.dims))}"
                )
            mode = self.dims.index(name)
            try:
                indices = self.locate(mode, label)
            except BAD_LABEL as error:
                raise InputError(
                    f"sel takes labels of mode {name!r}, the first of which is "
                    f"{self.label(mode, 0)}, got {label!r}; list them with completion."
                    f"factors[{mode}]"
                ) from error
            if indices.ndim > 1:
                raise InputError(
                    f"sel takes one label, a list or a slice, got an array of {indices.ndim} "
                    f"dimensions for mode {name!r}; flatten it"
                )
            keys[mode] = indices if indices.ndim else int(indices)
        return keys

    def describe(self, mode: int, indices: Sequence[int]) -> tuple[str, str]:
        """Return the name of a mode and the labels of some of its indices, for a message."""
        labels = ", ".join(str(self.label(mode, int(index))) for index in indices)
        name = self.dims[mode]
        return (str(name) if name == f"mode {mode}" else f"mode {name!r}"), labels

    def describe_entry(self, index: Sequence[int]) -> str:
        """Return the labels of one entry, for a message."""
        return ", ".join(f"{n}={self.label(k, int(index[k]))}" for k, n in enumerate(self.dims))


@dataclass(frozen=True, eq=False)
class Observations:
    """Observed entries of a tensor, and the kind of data they are from.

    Parameters
    ----------
    indices : ndarray of int, shape (m, d)
        Indices of the observed entries, each entry once.
    values : ndarray of shape (m,)
        Values of these entries, float32, float64, complex64 or complex128.
    shape : tuple of int
        Shape of the tensor.
    container : Container, default=Container()
        Kind of data the entries are from, with names and labels of the modes where it has any.

    Raises
    ------
    InputError
        If there is no entry, or a value is not finite.

    Examples
    --------
    >>> observations = Observations(np.array([[0, 1], [1, 2]]), np.array([5.0, 7.0]), (2, 3))
    >>> observations.find(np.array([[1, 2], [0, 0]]))
    array([ 1, -1])
    """

    indices: Array
    values: Array
    shape: tuple[int, ...]
    container: Container = field(default_factory=Container)

    def __post_init__(self) -> None:
        if len(self.values) == 0:
            raise InputError("data must have at least one observed entry, got none")
        if np.isfinite(self.values.sum()):  # needs no temporary array
            return
        bad = ~np.isfinite(self.values)
        if bad.any():
            first = self.container.describe_entry(self.indices[int(np.argmax(bad))])
            raise InputError(
                f"observed entries must be finite, got {int(bad.sum())} NaN or infinite (first at "
                f"{first}); mark them as missing"
            )

    def __len__(self) -> int:
        return len(self.values)

    def subset(self, positions: Array) -> Observations:
        """Return the entries at some positions.

        Parameters
        ----------
        positions : ndarray
            Positions among the entries, or a boolean array with one element per entry.

        Returns
        -------
        Observations
            Those entries, in the order of ``positions``.
        """
        return replace(self, indices=self.indices[positions], values=self.values[positions])

    def find(self, indices: Array) -> Array:
        """Find entries among the observed ones.

        Parameters
        ----------
        indices : ndarray of shape (q, d)
            Indices of the entries.

        Returns
        -------
        ndarray of shape (q,)
            Position of each entry among the observed ones, -1 if it is missing.
        """
        near = np.ones(len(self.values), dtype=bool)
        for k, n in enumerate(self.shape):
            wanted = np.zeros(n, dtype=bool)
            wanted[indices[:, k]] = True
            near &= wanted[self.indices[:, k]]
        rows = np.flatnonzero(near)
        columns = [
            np.concatenate([self.indices[rows, k], indices[:, k]]).astype(np.uint32)
            for k in range(len(self.shape))
        ]
        order = kernels.sort_entries(columns, self.shape)
        if order is None:
            order = np.arange(len(columns[0]))
        is_first = np.ones(len(order), dtype=bool)  # of equal indices
        is_first[1:] = np.logical_or.reduce([np.diff(column[order]) != 0 for column in columns])
        # the sort is stable, so that an observed entry precedes equal indices that are looked up
        first = np.empty_like(order)
        first[order] = order[is_first][np.cumsum(is_first) - 1]
        found = first[len(rows) :]
        out = np.full(len(found), -1)
        out[found < len(rows)] = rows[found[found < len(rows)]]
        return out

    def put(self, block: Array, keys: Sequence[slice | Array]) -> None:
        """Write the observed values into a block, in place.

        Parameters
        ----------
        block : ndarray
            Block of the tensor, modified in place.
        keys : sequence of slice or ndarray
            Per mode, the indices that the block has; they may be repeated.
        """
        tables = [_positions(part, n) for part, n in zip(keys, self.shape, strict=True)]
        rows: slice | Array = slice(None)
        for k, table in enumerate(tables):
            if table is not None:
                inside = table[self.indices[rows, k]] >= 0
                rows = np.flatnonzero(inside) if isinstance(rows, slice) else rows[inside]
        columns = zip(self.indices[rows].T, tables, strict=True)
        where = tuple(column if table is None else table[column] for column, table in columns)
        block[where] = self.values[rows]
        for k, table in enumerate(tables):
            if table is not None and not isinstance(keys[k], slice):
                source = table[keys[k]]  # a repeated index was written at one position only
                if not np.array_equal(source, np.arange(len(source))):
                    block[...] = block.take(source, axis=k)


@dataclass(frozen=True)
class Reader:
    """How a kind of data is read.

    Attributes
    ----------
    name : str
        Name of this kind of data in messages.
    read : callable
        Takes the data and, as keywords, the options that were given; returns `Observations`.
    takes : tuple of str
        Options of `as_observations` that ``read`` takes.
    library : str
        Top-level package that defines the classes of this kind, compared by name so that it need
        not be imported; ``""`` for data of any class.
    """

    name: str
    read: Callable[..., Observations]
    takes: tuple[str, ...] = ()
    library: str = ""


def is_kept(key: int | slice | Array) -> bool:
    """Return whether a selection keeps its mode."""
    return not isinstance(key, int)


def as_numbers(values: Any) -> Array:
    """Return an array of float32, float64, complex64 or complex128 numbers."""
    array = np.ma.getdata(values) if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
    if array.dtype.kind not in "biufc":
        raise InputError(
            f"data must be numbers, got {type(values).__name__} of {array.dtype}; mark missing "
            "entries by NaN or with observed=, and convert other types to numbers"
        )
    native = array.dtype.newbyteorder("=")
    wide = np.dtype(np.complex128 if native.kind == "c" else np.float64)
    return array.astype(native if is_inexact(native) else wide, copy=False)


def decode_text(given: Any) -> str:
    """Return text; bytes are decoded as UTF-8."""
    return given.decode("utf-8", "replace") if isinstance(given, bytes) else str(given)


def _positions(part: slice | Array, n: int) -> Array | None:
    """Position of each index of a mode in a selection, -1 if outside; ``None`` if all are in it."""
    if isinstance(part, slice) and part.indices(n) == (0, n, 1):
        return None
    chosen = np.arange(n)[part]
    table = np.full(n, -1)
    table[chosen] = np.arange(len(chosen))
    return table
