"""`TensorData`: numbers with missing entries, and what a file states about them."""

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
    """A tensor with missing entries, and names and labels of its modes: what a file holds.

    Parameters
    ----------
    values : ndarray
        The whole array, or with ``indices`` one number per row of these.
    indices : ndarray of shape (m, d), default=None
        Integer indices of the values.
    shape : tuple of int, default=()
        Shape of the tensor; required with ``indices``, else that of ``values``.
    observed : ndarray of bool, default=None
        Array of the shape of ``values``, true where they are observed. NaN counts as missing in
        any case.
    dims : tuple of str, default=()
        One name per mode; by default ``"mode 0"``, ``"mode 1"``, ...
    coords : tuple of ndarray or None, default=()
        Per mode, one label per index (numbers, strings or ``datetime64``), or ``None``.
    name : str, default=""
        Name of the quantity.
    attrs : mapping, default={}
        Other attributes that a file states, such as units.
    encoding : mapping, default={}
        What the format that was read needs to write the same file again.

    Raises
    ------
    InputError
        If the parts do not match in shape, or the values are not numbers.

    Examples
    --------
    >>> data = TensorData(np.array([[1.0, np.nan], [3.0, 4.0]]), dims=("city", "year"))
    >>> data
    TensorData(city 2 x year 2, float64, 75% observed)
    >>> data.shape, data.n_observed
    ((2, 2), 3)
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
                f"{self.values.shape}, got {self.observed.dtype} of shape {self.observed.shape}"
            )
        order = len(self.shape)
        object.__setattr__(self, "dims", self.dims or tuple(f"mode {k}" for k in range(order)))
        object.__setattr__(self, "coords", self.coords or (None,) * order)
        if len(self.dims) != order or len(self.coords) != order:
            raise InputError(
                f"dims and coords must be one for each of the {order} modes, got "
                f"{len(self.dims)} and {len(self.coords)}"
            )
        for name, labels, n in zip(self.dims, self.coords, self.shape, strict=True):
            if labels is not None and labels.shape != (n,):
                raise InputError(
                    f"mode {name!r} needs one label for each of its {n} indices, got an array of "
                    f"shape {labels.shape}"
                )
        object.__setattr__(self, "coords", tuple(map(_as_labels, self.coords)))

    def _check_indices(self) -> None:
        """Check that indices and shape belong to the values."""
        if self.indices is None:
            if self.shape not in ((), self.values.shape):
                raise InputError(
                    f"shape must be that of the values, {self.values.shape}, or come with indices, "
                    f"got {self.shape}; leave it out, or give indices"
                )
            object.__setattr__(self, "shape", self.values.shape)
            return
        if not self.shape:
            raise InputError("indices need the shape of the tensor, got none; give shape=")
        wanted = (self.values.size, len(self.shape))
        if self.values.ndim != 1 or self.indices.shape != wanted:
            raise InputError(
                f"indices must have a row for each of the {self.values.size} values and a "
                f"column for each of the {wanted[1]} modes, got shape {self.indices.shape}"
            )
        check_indices(self.indices, as_shape(self.shape))

    def __repr__(self) -> str:
        dims = [f"{name} " * (name != f"mode {k}") for k, name in enumerate(self.dims)]
        modes = " x ".join(f"{name}{n}" for name, n in zip(dims, self.shape, strict=True))
        title = f"{self.name}: {modes}" if self.name else modes
        return f"TensorData({title}, {self.values.dtype}, {self._describe_fraction()} observed)"

    def _describe_fraction(self) -> str:
        """Write the observed fraction in two digits, 100% only where no entry is missing."""
        n_observed, n = self.n_observed, math.prod(self.shape)
        percent = 100 * n_observed / max(n, 1)
        if n_observed == n:
            return "100%"
        return "over 99%" if percent > 99 else f"{percent:.2g}%"

    @property
    def is_sparse(self) -> bool:
        """Whether values come with their indices, all other entries being missing."""
        return self.indices is not None

    @property
    def n_observed(self) -> int:
        """Number of observed entries."""
        observed = self._find_observed()
        return self.values.size if observed is None else int(observed.sum())

    def _find_observed(self) -> Array | None:
        """Return which values are observed, ``None`` if all are; NaN never is."""
        if self.values.dtype.kind not in "fc":
            return self.observed
        numbers = ~np.isnan(self.values)
        return numbers if self.observed is None else numbers & self.observed

    def todense(self, memory_limit: float | None = DEFAULT_MEMORY_LIMIT) -> Array:
        """Form the whole array, NaN at missing entries; integers stay so if none is missing.

        Parameters
        ----------
        memory_limit : float or None, default=DEFAULT_MEMORY_LIMIT
            Largest size of the dense array in bytes, ``None`` for no limit; a larger one is
            refused.

        Returns
        -------
        ndarray
            Array with NaN where entries are missing.
        """
        if self.indices is None and self.observed is None:
            return self.values
        dtype = self.values.dtype
        if dtype.kind in "biu" and self.n_observed < math.prod(self.shape):
            dtype = np.dtype(np.float64)
        check_memory(self.shape, dtype, memory_limit, "the whole array")
        gap = np.array(np.nan if dtype.kind in "fc" else 0, dtype=dtype)
        if self.indices is None:
            return np.where(self.observed, self.values, gap)  # type: ignore[arg-type]
        whole = np.full(self.shape, gap)
        indices, values = self.entries()
        whole[tuple(indices.T)] = values
        return whole

    def entries(self) -> tuple[Array, Array]:
        """Return the indices and values of the observed entries.

        Returns
        -------
        indices : ndarray
            Integer array of shape ``(m, d)``.
        values : ndarray
            The observed values.
        """
        observed = self._find_observed()
        if observed is None:
            observed = np.ones(self.values.shape, dtype=bool)
        indices = np.argwhere(observed) if self.indices is None else self.indices[observed]
        return indices, self.values[observed]

    def hide(self, missing: Array) -> TensorData:
        """Return the same with more entries missing, those where a boolean array is true.

        The array has the shape of the values: with indices, one truth value for each.

        Parameters
        ----------
        missing : ndarray
            Boolean array of the shape of the values, true where an entry is to be missing.

        Returns
        -------
        TensorData
            The same with more entries missing, those where a boolean array is true.

        Raises
        ------
        InputError
            If the mask is not a boolean array of the shape of the values.
        """
        if missing.shape != self.values.shape:
            raise InputError(
                f"what to hide must be a boolean array of shape {self.values.shape}, got shape "
                f"{missing.shape}"
            )
        observed = self._find_observed()
        return replace(self, observed=~missing if observed is None else observed & ~missing)


def _as_labels(labels: Array | None) -> Array | None:
    """Return labels as numbers, dates or strings; other objects become what they are called."""
    if labels is None or labels.dtype.kind in "biufcmMU":
        return labels
    return np.array([decode_text(one) for one in labels], dtype=str)


@dataclass(frozen=True, eq=False)
class TensorDataContainer(Labelled):
    """What a `TensorData` has beside its numbers."""

    words: ClassVar[str] = "a TensorData"
    dims: tuple[str, ...]
    coords: tuple[Array | None, ...] = field(repr=False)
    name: str
    attrs: Mapping[str, Any] = field(repr=False)
    encoding: Mapping[str, Any] = field(repr=False)

    def wrap(self, block: Array, keys: Keys) -> Any:
        """Put the values of a block back, with the labels that belong to it."""
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
        """Return the label of an index, or the index where the mode has none."""
        labels = self.coords[mode]
        return index if labels is None else labels[index]

    def locate(self, mode: int, label: Any) -> Array:
        """Find one label, a list, or a slice that includes its end."""
        labels = self.coords[mode]
        if labels is None:
            raise KeyError(label)
        if isinstance(label, slice):
            first = 0 if label.start is None else int(self.locate(mode, label.start))
            last = len(labels) - 1 if label.stop is None else int(self.locate(mode, label.stop))
            return np.arange(first, last + 1, label.step)
        if isinstance(label, list | tuple | np.ndarray):
            return np.array([int(self.locate(mode, one)) for one in label], dtype=np.int64)
        # converted for dates alone: to numbers or text of a fixed length would cut the label short
        wanted = np.asarray(label, dtype=labels.dtype if labels.dtype.kind == "M" else None)
        found = np.flatnonzero(labels == wanted)
        if len(found) == 0:
            raise KeyError(label)
        return np.asarray(found[0])


def read_data(data: Any, *, observed: Any = None) -> Observations:
    """Read what was loaded from a file."""
    if not isinstance(data, TensorData):  # a Tucker, as the array that it is
        return read_array(data, observed=observed)
    container = TensorDataContainer(data.dims, data.coords, data.name, data.attrs, data.encoding)
    if data.indices is not None:
        if observed is not None:
            raise InputError(
                "observed goes with a whole array, got values with indices; leave it out"
            )
        indices, values = data.entries()
        entries = read_entries(values, indices=indices, shape=data.shape)
        return Observations(entries.indices, entries.values, entries.shape, container)
    array = as_numbers(data.values)
    as_shape(array.shape)
    where = find_observed(array, observed, data.values)
    if data.observed is not None:
        where = where & data.observed
    return Observations(np.argwhere(where), array[where], array.shape, container)
