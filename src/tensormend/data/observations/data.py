"""`TensorData`: numbers with holes, and what a file says about them beside the numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from tensormend.core.algebra import DEFAULT_MEMORY_LIMIT, Array, as_shape, check_memory
from tensormend.core.fibres import check_indices
from tensormend.data.observations.arrays import find_known, read_entries
from tensormend.data.observations.base import Keys, Labelled, Observations, as_numbers, is_kept
from tensormend.errors import InputError

__all__ = ["TensorData", "read_data"]


@dataclass(frozen=True, eq=False, repr=False)
class TensorData:
    """A tensor with holes, and the names and labels of its modes: what a file holds.

    Attributes
    ----------
    values : the whole array, or with ``indices`` one number per row of these
    indices : ``m x d`` integers, the places of the values
    known : boolean array of the shape of ``values``, true where they are known; ``None`` if those
        are known that are not NaN
    sizes : shape of the tensor, with ``indices``
    names : one name per mode; ``"mode 0"`` and so on by default
    labels : per mode, one label per place (numbers, strings or ``datetime64``), or ``None``
    name : of the quantity, ``""`` if it has none
    attributes : what else a file says about it, such as its units
    details : what the format that was read needs to write the same again

    Examples
    --------
    >>> data = TensorData(np.array([[1.0, np.nan], [3.0, 4.0]]), names=("city", "year"))
    >>> data
    TensorData(city 2 x year 2, float64, 75% known)
    >>> data.shape, data.n_known
    ((2, 2), 3)
    """

    values: Array
    indices: Array | None = None
    known: Array | None = None
    sizes: tuple[int, ...] | None = None
    names: tuple[str, ...] = ()
    labels: tuple[Array | None, ...] = ()
    name: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.values.dtype.kind not in "biufc":
            raise InputError(
                f"the values of a tensor must be numbers, got {self.values.dtype}; convert them"
            )
        self._check_places()
        order = len(self.shape)
        object.__setattr__(self, "names", self.names or tuple(f"mode {k}" for k in range(order)))
        object.__setattr__(self, "labels", self.labels or (None,) * order)
        if len(self.names) != order or len(self.labels) != order:
            raise InputError(
                f"names and labels must be one for each of the {order} modes, got "
                f"{len(self.names)} and {len(self.labels)}"
            )
        for name, labels, n in zip(self.names, self.labels, self.shape, strict=True):
            if labels is not None and labels.shape != (n,):
                raise InputError(
                    f"mode {name!r} needs one label for each of its {n} places, got an array of "
                    f"shape {labels.shape}"
                )
        object.__setattr__(self, "labels", tuple(map(_as_labels, self.labels)))

    def __repr__(self) -> str:
        names = [f"{name} " * (name != f"mode {k}") for k, name in enumerate(self.names)]
        modes = " x ".join(f"{name}{n}" for name, n in zip(names, self.shape, strict=True))
        title = f"{self.name}: {modes}" if self.name else modes
        return f"TensorData({title}, {self.values.dtype}, {self._describe_share()} known)"

    def _describe_share(self) -> str:
        """Write the share of known entries in two digits, 100% only where all of them are known."""
        n_known, n = self.n_known, math.prod(self.shape)
        percent = 100 * n_known / max(n, 1)
        if n_known == n:
            return "100%"
        return "over 99%" if percent > 99 else f"{percent:.2g}%"

    def _check_places(self) -> None:
        """Check that indices and ``observed`` belong to the values."""
        if (self.indices is None) != (self.sizes is None):
            raise InputError("indices and sizes go together, got one without the other; give both")
        if self.indices is not None and self.sizes is not None:
            wanted = (self.values.size, len(self.sizes))
            if self.values.ndim != 1 or self.indices.shape != wanted:
                raise InputError(
                    f"indices must have a row for each of the {self.values.size} values and a "
                    f"column for each of the {wanted[1]} modes, got shape {self.indices.shape}"
                )
            check_indices(self.indices, as_shape(self.sizes))
        if self.known is not None and (
            self.known.dtype != np.bool_ or self.known.shape != self.values.shape
        ):
            raise InputError(
                f"known must be a boolean array of the shape of the values, {self.values.shape}, "
                f"got {self.known.dtype} of shape {self.known.shape}"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes."""
        return self.values.shape if self.sizes is None else self.sizes

    @property
    def is_sparse(self) -> bool:
        """Whether values come with their indices, the others being unknown."""
        return self.indices is not None

    @property
    def n_known(self) -> int:
        """Number of known entries."""
        known = self._find_known()
        return self.values.size if known is None else int(known.sum())

    def _find_known(self) -> Array | None:
        """Tell which values are known, ``None`` if all are; NaN never is."""
        if self.values.dtype.kind not in "fc":
            return self.known
        numbers = ~np.isnan(self.values)
        return numbers if self.known is None else numbers & self.known

    def dense(self, memory_limit: float | None = DEFAULT_MEMORY_LIMIT) -> Array:
        """Form the whole array, NaN where unknown; integers stay as they are if all are known."""
        if self.indices is None and self.known is None:
            return self.values
        dtype = self.values.dtype
        if dtype.kind in "biu" and self.n_known < math.prod(self.shape):
            dtype = np.dtype(np.float64)
        check_memory(self.shape, dtype, memory_limit, "the whole array")
        gap = np.array(np.nan if dtype.kind in "fc" else 0, dtype=dtype)
        if self.indices is None:
            return np.where(self.known, self.values, gap)  # type: ignore[arg-type]
        whole = np.full(self.shape, gap)
        indices, values = self.entries()
        whole[tuple(indices.T)] = values
        return whole

    def entries(self) -> tuple[Array, Array]:
        """Return the places and values of the known entries."""
        known = self._find_known()
        if known is None:
            known = np.ones(self.values.shape, dtype=bool)
        places = np.argwhere(known) if self.indices is None else self.indices[known]
        return places, self.values[known]

    def hide(self, unknown: Array) -> TensorData:
        """Return the same with more entries unknown, those where a boolean array is true.

        The array has the shape of the values: with indices, one truth value for each.
        """
        if unknown.shape != self.values.shape:
            raise InputError(
                f"what to hide must be a boolean array of shape {self.values.shape}, got shape "
                f"{unknown.shape}"
            )
        known = self._find_known()
        return replace(self, known=~unknown if known is None else known & ~unknown)


def _as_labels(labels: Array | None) -> Array | None:
    """Return labels as numbers, dates or strings; other objects become what they are called."""
    if labels is None or labels.dtype.kind in "biufcmMU":
        return labels
    words = (
        one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one) for one in labels
    )
    return np.array(list(words), dtype=str)


@dataclass(frozen=True, eq=False)
class TensorDataContainer(Labelled):
    """What a `TensorData` has beside its numbers."""

    words: ClassVar[str] = "a TensorData"
    names: tuple[str, ...]
    labels: tuple[Array | None, ...] = field(repr=False)
    name: str
    attributes: Mapping[str, Any] = field(repr=False)
    details: Mapping[str, Any] = field(repr=False)

    def wrap(self, block: Array, keys: Keys) -> Any:
        """Put the values of a block back, with the labels that belong to it."""
        kept = [k for k, key in enumerate(keys) if is_kept(key)]
        parts = [self.labels[k] for k in kept]
        return TensorData(
            super().wrap(block, keys),
            names=tuple(self.names[k] for k in kept),
            labels=tuple(
                None if part is None else part[keys[k]] for k, part in zip(kept, parts, strict=True)
            ),
            name=self.name,
            attributes=self.attributes,
            details=self.details,
        )

    def label(self, mode: int, place: int) -> Any:
        """Return the label of a place, or its number where the mode has none."""
        labels = self.labels[mode]
        return place if labels is None else labels[place]

    def locate(self, mode: int, label: Any) -> Array:
        """Find one label, a list, or a slice that includes its end."""
        labels = self.labels[mode]
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
        places = np.flatnonzero(labels == wanted)
        if len(places) == 0:
            raise KeyError(label)
        return np.asarray(places[0])


def read_data(data: TensorData, observed: Any) -> Observations:
    """Read what was loaded from a file."""
    container = TensorDataContainer(
        data.names, data.labels, data.name, data.attributes, data.details
    )
    if data.indices is not None:
        if observed is not None:
            raise InputError(
                "observed goes with a whole array, got values with indices; leave it out"
            )
        indices, values = data.entries()
        entries = read_entries(values, indices, data.shape)
        return Observations(entries.indices, entries.values, entries.shape, container)
    array = as_numbers(data.values)
    as_shape(array.shape)
    where = find_known(array, observed, data.values)
    if data.known is not None:
        where = where & data.known
    return Observations(np.argwhere(where), array[where], array.shape, container)
