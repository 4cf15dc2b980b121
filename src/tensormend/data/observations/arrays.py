"""NumPy arrays with missing entries (NaN, ``numpy.ma``, ``observed``), and values with indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tensormend.core.algebra import Array, as_shape
from tensormend.core.fibres import as_index_array
from tensormend.data.observations.base import Container, Keys, Observations, as_numbers
from tensormend.errors import InputError

__all__ = ["find_observed", "read_array", "read_entries"]


@dataclass(frozen=True)
class MaskedArrayContainer(Container):
    """A masked array; it is returned with its fill value and nothing masked."""

    words: ClassVar[str] = "a masked array"
    fill_value: Any

    def wrap(self, block: Array, keys: Keys) -> Any:
        """Return a block of values as a masked array."""
        return np.ma.MaskedArray(super().wrap(block, keys), fill_value=self.fill_value)


def read_array(
    data: Any, *, observed: Any = None, shape: Sequence[int] | None = None
) -> Observations:
    """Read an array; missing entries are NaN, masked, or false in ``observed``."""
    array = as_numbers(data)
    if shape is not None and as_shape(shape) != array.shape:
        raise InputError(
            f"shape must be that of the data, {array.shape}, got {tuple(shape)}; omit it"
        )
    as_shape(array.shape)
    where = find_observed(array, observed, data)
    is_masked = isinstance(data, np.ma.MaskedArray)
    container = MaskedArrayContainer(data.fill_value) if is_masked else Container()
    return Observations(np.argwhere(where), array[where], array.shape, container)


def find_observed(array: Array, observed: Any, data: Any) -> Array:
    """Return which entries are observed, by ``observed``, the mask of a masked array, or NaN."""
    masked = np.ma.getmaskarray(data) if isinstance(data, np.ma.MaskedArray) else None
    if observed is not None:
        where = np.asarray(observed)
        if where.dtype != np.bool_ or where.shape != array.shape:
            raise InputError(
                f"observed must be a boolean array of shape {array.shape}, true where data is "
                f"observed, got {where.dtype} of shape {where.shape}; convert it with astype(bool)"
            )
        return where if masked is None else where & ~masked
    return ~np.isnan(array) if masked is None else ~masked


def read_entries(data: Any, *, indices: Any, shape: Sequence[int] | None = None) -> Observations:
    """Read values with their indices; no dense array is formed."""
    if shape is None:
        raise InputError("values with indices need the shape of the tensor, got none; give shape=")
    sizes = as_shape(shape)
    positions, values = as_index_array(np.asarray(indices), sizes), as_numbers(data)
    if values.shape != (len(positions),):
        raise InputError(
            f"data must hold one value per row of indices ({len(positions)}), got an array of "
            f"shape {values.shape}; flatten it, or give the indices of these values"
        )
    if isinstance(data, np.ma.MaskedArray):
        where = ~np.ma.getmaskarray(data)
        positions, values = positions[where], values[where]
    return Observations(positions, values, sizes)
