"""`TensorData`: a tensor with missing entries, names and labels of its modes, and attributes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from tensormend.core.algebra import DEFAULT_MEMORY_LIMIT, Array, as_shape, check_memory
from tensormend.core.fibres import check_indices
from tensormend.data.observations.arrays import find_observed, read_array, read_entries
from tensormend.data.observations.base import (
    Keys,
    Labelled,
    Observations,
    as_numbers,
    decode_text,
    is_kept,
)
from tensormend.errors import InputError

__all__ = ["TensorData", "read_data"]


@dataclass(frozen=True, eq=False, repr=False)
class TensorData:
    """Tensor with missing entries, names and labels of its modes, and attributes.

    `load` returns it, `complete` takes and returns it, and `save` writes it. The names of the
    attributes are those of ``xarray.DataArray``.

    Parameters
    ----------
    values : ndarray
        Dense array or, with ``indices``, a vector with one value per row of ``indices``.
    indices : ndarray of int, shape (m, d), default=None
        Indices of the values; all other entries are missing.
    shape : tuple of int, default=()
        Shape of the tensor. Required with ``indices``, otherwise that of ``values``.
    observed : ndarray of bool, default=None
        True where an entry is observed, in the shape of ``values``; by default everywhere. NaN is
        missing in any case.
    dims : tuple of str, default=()
        Names of the modes; by default ``"mode 0"``, ``"mode 1"``, ...
    coords : tuple of (ndarray or None), default=()
        Labels of the indices of each mode (numbers, strings or ``datetime64``), or None.
    name : str, default=""
        Name of the quantity.
    attrs : mapping of str to object, default={}
        Other attributes, such as units.
    encoding : mapping of str to object, default={}
        Details of the file it was read from, for a file of the same format to be written alike.

    Raises
    ------
    InputError
        If the values are not numbers, or the shapes of the parts do not match.

    See Also
    --------
    load : Read one from a file.
    save : Write one to a file.

    Examples
    --------
    >>> data = TensorData(np.array([[1.0, np.nan], [3.0, 4.0]]), dims=("city", "year"))
    >>> data
    TensorData(city 2 x year 2, float64, 75% observed)
    >>> data.shape, data.n_observed
    ((2, 2), 3)

    Values with indices need no dense array:

    >>> TensorData(np.array([5.0, 7.0]), indices=np.array([[0, 1], [1, 2]]), shape=(2, 3))
    TensorData(2 x 3, float64, 33% observed)
    """

    values: Array
    indices: Array | None = None
    shape: tuple[int, ...] = ()
    observed: Array | None = None
    dims: tuple[str, ...] = ()
    coords: tuple[Array | None, ...] = ()
    name: str = ""
    attrs: Mapping[str, Any] = field(default_factory=dict)
    encoding: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.values.dtype.kind not in "biufc":
            raise InputError(
                f"the values of a tensor must be numbers, got {self.values.dtype}; convert them"
            )
        self._check_indices()
        if self.observed is not None and (
            self.observed.dtype != np.bool_ or self.observed.shape != self.values.shape
        ):
            raise InputError(
                f"observed must be a boolean array of the shape of the values, "
                f"{self.values.shape}, got {self.observed.dtype} of shape {self.observed.shape}; "
                "convert it with astype(bool)"
            )
        order = len(self.shape)
        object.__setattr__(self, "dims", self.dims or tuple(f"mode {k}" for k in range(order)))
        object.__setattr__(self, "coords", self.coords or (None,) * order)
        if len(self.dims) != order or len(self.coords) != order:
            raise InputError(
                f"dims and coords must have one item for each of the {order} modes, got "
                f"{len(self.dims)} and {len(self.coords)}; use None for a mode without labels"
            )
        for name, labels, n in zip(self.dims, self.coords, self.shape, strict=True):
            if labels is not None and labels.shape != (n,):
                raise InputError(
                    f"coords of mode {name!r} must be one label for each of its {n} indices, got "
                    f"an array of shape {labels.shape}; use None for a mode without labels"
                )
        object.__setattr__(self, "coords", tuple(map(_as_labels, self.coords)))

    def _check_indices(self) -> None:
        """Check that indices and shape belong to the values."""
        if self.indices is None:
            if self.shape not in ((), self.values.shape):
                raise InputError(
                    f"shape must be that of the values, {self.values.shape}, unless there are "
                    f"indices, got {self.shape}; omit it, or give indices"
                )
            object.__setattr__(self, "shape", self.values.shape)
            return
        if not self.shape:
            raise InputError("indices need the shape of the tensor, got none; give shape=")
        wanted = (self.values.size, len(self.shape))
        if self.values.ndim != 1 or self.indices.shape != wanted:
            raise InputError(
                f"indices must have a row for each of the {self.values.size} values and a "
                f"column for each of the {wanted[1]} modes, got shape {self.indices.shape}; "
                "give an array of shape (m, d)"
            )
        check_indices(self.indices, as_shape(self.shape))

    def __repr__(self) -> str:
        dims = [f"{name} " * (name != f"mode {k}") for k, name in enumerate(self.dims)]
        modes = " x ".join(f"{name}{n}" for name, n in zip(dims, self.shape, strict=True))
        title = f"{self.name}: {modes}" if self.name else modes
        return f"TensorData({title}, {self.values.dtype}, {self._describe_fraction()} observed)"

    def _describe_fraction(self) -> str:
        """Format the observed fraction in two digits, as 100% only if no entry is missing."""
        n_observed, n = self.n_observed, math.prod(self.shape)
        percent = 100 * n_observed / max(n, 1)
        if n_observed == n:
            return "100%"
        return "over 99%" if percent > 99 else f"{percent:.2g}%"

    @property
    def is_sparse(self) -> bool:
        """Whether the values have indices, and all other entries are missing."""
        return self.indices is not None

    @property
    def n_observed(self) -> int:
        """Number of observed entries."""
        observed = self._find_observed()
        return self.values.size if observed is None else int(observed.sum())

    def _find_observed(self) -> Array | None:
        """Return which values are observed, ``None`` if all are; NaN is missing."""
        if self.values.dtype.kind not in "fc":
            return self.observed
        numbers = ~np.isnan(self.values)
        return numbers if self.observed is None else numbers & self.observed

    def todense(self, memory_limit: float | None = DEFAULT_MEMORY_LIMIT) -> Array:
        """Return the dense array, with NaN at missing entries.

        Parameters
        ----------
        memory_limit : float or None, default=DEFAULT_MEMORY_LIMIT
            Maximum size of the array in bytes, None for no limit.

        Returns
        -------
        ndarray
            The array. Integers become float64 if entries are missing. It is ``values`` itself,
            not a copy, if there are neither ``indices`` nor ``observed``.

        Raises
        ------
        MemoryLimitError
            If the array would be larger than ``memory_limit``.

        Examples
        --------
        >>> data = TensorData(np.array([5, 7]), indices=np.array([[0, 1], [1, 0]]), shape=(2, 2))
        >>> data.todense()
        array([[nan,  5.],
               [ 7., nan]])
        """
        if self.indices is None and self.observed is None:
            return self.values
        dtype = self.values.dtype
        if dtype.kind in "biu" and self.n_observed < math.prod(self.shape):
            dtype = np.dtype(np.float64)
        check_memory(self.shape, dtype, memory_limit, "the dense array")
        fill = np.array(np.nan if dtype.kind in "fc" else 0, dtype=dtype)
        if self.indices is None:
            return np.where(self.observed, self.values, fill)  # type: ignore[arg-type]
        array = np.full(self.shape, fill)
        indices, values = self.entries()
        array[tuple(indices.T)] = values
        return array

    def entries(self) -> tuple[Array, Array]:
        """Return the indices and values of the observed entries.

        Returns
        -------
        indices : ndarray of int, shape (m, d)
            Indices of the observed entries.
        values : ndarray of shape (m,)
            Values of these entries.

        Examples
        --------
        >>> indices, values = TensorData(np.array([[1.0, np.nan], [3.0, 4.0]])).entries()
        >>> indices.tolist(), values.tolist()
        ([[0, 0], [1, 0], [1, 1]], [1.0, 3.0, 4.0])
        """
        observed = self._find_observed()
        if observed is None:
            observed = np.ones(self.values.shape, dtype=bool)
        indices = np.argwhere(observed) if self.indices is None else self.indices[observed]
        return indices, self.values[observed]

    def hide(self, where: Array) -> TensorData:
        """Mark further entries as missing.

        Parameters
        ----------
        where : ndarray of bool
            True where an entry is to be missing, in the shape of ``values``.

        Returns
        -------
        TensorData
            The same data with these entries missing; ``values`` are not copied.

        Raises
        ------
        InputError
            If ``where`` is not a boolean array of the shape of ``values``.

        Examples
        --------
        >>> data = TensorData(np.array([[1.0, 2.0], [3.0, 4.0]]))
        >>> data.hide(data.values > 3).n_observed
        3
        """
        if where.dtype != np.bool_ or where.shape != self.values.shape:
            raise InputError(
                f"where must be a boolean array of shape {self.values.shape}, got {where.dtype} "
                f"of shape {where.shape}; compare the values, as in data.hide(data.values == 0)"
            )
        observed = self._find_observed()
        return replace(self, observed=~where if observed is None else observed & ~where)


def _as_labels(labels: Array | None) -> Array | None:
    """Return labels as numbers, dates or strings; other objects are converted to strings."""
    if labels is None or labels.dtype.kind in "biufcmMU":
        return labels
    return np.array([decode_text(one) for one in labels], dtype=str)


@dataclass(frozen=True, eq=False)
class TensorDataContainer(Labelled):
    """The parts of a `TensorData` other than its values and which of them are observed."""

    words: ClassVar[str] = "a TensorData"
    dims: tuple[str, ...]
    coords: tuple[Array | None, ...] = field(repr=False)
    name: str
    attrs: Mapping[str, Any] = field(repr=False)
    encoding: Mapping[str, Any] = field(repr=False)

    def wrap(self, block: Array, keys: Keys) -> Any:
        """Return a block of values as a `TensorData`, with the labels of its indices."""
        kept = [k for k, key in enumerate(keys) if is_kept(key)]
        parts = [self.coords[k] for k in kept]
        return TensorData(
            super().wrap(block, keys),
            dims=tuple(self.dims[k] for k in kept),
            coords=tuple(
                None if part is None else part[keys[k]] for k, part in zip(kept, parts, strict=True)
            ),
            name=self.name,
            attrs=self.attrs,
            encoding=self.encoding,
        )

    def label(self, mode: int, index: int) -> Any:
        """Return the label of an index, or the index itself if the mode has no labels."""
        labels = self.coords[mode]
        return index if labels is None else labels[index]

    def locate(self, mode: int, label: Any) -> Array:
        """Return the indices of one label, a list, or a slice of labels with its end included."""
        labels = self.coords[mode]
        if labels is None:
            raise KeyError(label)
        if isinstance(label, slice):
            first = 0 if label.start is None else int(self.locate(mode, label.start))
            last = len(labels) - 1 if label.stop is None else int(self.locate(mode, label.stop))
            return np.arange(first, last + 1, label.step)
        if isinstance(label, list | tuple | np.ndarray):
            return np.array([int(self.locate(mode, one)) for one in label], dtype=np.int64)
        # only dates are converted: a conversion to the type of the labels could truncate others
        wanted = np.asarray(label, dtype=labels.dtype if labels.dtype.kind == "M" else None)
        found = np.flatnonzero(labels == wanted)
        if len(found) == 0:
            raise KeyError(label)
        return np.asarray(found[0])


def read_data(data: Any, *, observed: Any = None) -> Observations:
    """Read a `TensorData`, or another class of this package that converts to an array."""
    if not isinstance(data, TensorData):
        return read_array(data, observed=observed)
    container = TensorDataContainer(data.dims, data.coords, data.name, data.attrs, data.encoding)
    if data.indices is not None:
        if observed is not None:
            raise InputError("observed goes with a dense array, got values with indices; omit it")
        indices, values = data.entries()
        entries = read_entries(values, indices=indices, shape=data.shape)
        return Observations(entries.indices, entries.values, entries.shape, container)
    array = as_numbers(data.values)
    as_shape(array.shape)
    where = find_observed(array, observed, data.values)
    if data.observed is not None:
        where = where & data.observed
    return Observations(np.argwhere(where), array[where], array.shape, container)
