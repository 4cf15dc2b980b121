"""NumPy arrays with holes: NaN, masked arrays, masks; values with indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tensormend.core.algebra import Array, as_shape
from tensormend.core.fibres import as_index_array
from tensormend.data.observations.base import Container, Keys, Observations, as_numbers
from tensormend.errors import InputError

__all__ = ["find_known", "read_array", "read_entries"]


@dataclass(frozen=True)
class MaskedArrayContainer(Container):
    """A masked array: comes back with nothing masked and its fill value."""

    words: ClassVar[str] = "a masked array"
    fill_value: Any

    def wrap(self, block: Array, keys: Keys) -> Any:
        """Put the values of a block back into a masked array."""
        return np.ma.MaskedArray(super().wrap(block, keys), fill_value=self.fill_value)


def read_array(
    data: Any, *, observed: Any = None, shape: Sequence[int] | None = None
) -> Observations:
    """Read an array that has NaN, a observed of its own, or ``observed`` given."""
    array = as_numbers(data)
    if shape is not None and as_shape(shape) != array.shape:
        raise InputError(
            f"shape must be that of the data, {array.shape}, got {tuple(shape)}; leave it out"
        )
    as_shape(array.shape)
    known = find_known(array, observed, data)
    is_masked = isinstance(data, np.ma.MaskedArray)
    container = MaskedArrayContainer(data.fill_value) if is_masked else Container()
    return Observations(np.argwhere(known), array[known], array.shape, container)


def find_known(array: Array, observed: Any, data: Any) -> Array:
    """Tell which entries are known, in the words of each kind of array."""
    masked = np.ma.getmaskarray(data) if isinstance(data, np.ma.MaskedArray) else None
    if observed is not None:
        known = np.asarray(observed)
        if known.dtype != np.bool_ or known.shape != array.shape:
            raise InputError(
                f"observed must be a boolean array of shape {array.shape}, true where data is "
                f"observed, got {known.dtype} of shape {known.shape}"
            )
        return known if masked is None else known & ~masked
    return ~np.isnan(array) if masked is None else ~masked


def read_entries(data: Any, *, indices: Any, shape: Sequence[int] | None = None) -> Observations:
    """Read values and their indices; the full array is not formed."""
    if shape is None:
        raise InputError("values with indices need the shape of the tensor; give shape=")
    sizes = as_shape(shape)
    places, values = as_index_array(np.asarray(indices), sizes), as_numbers(data)
    if values.shape != (len(places),):
        raise InputError(
            f"data must hold one value per row of indices ({len(places)}), got an array of "
            f"shape {values.shape}"
        )
    if isinstance(data, np.ma.MaskedArray):
        known = ~np.ma.getmaskarray(data)
        places, values = places[known], values[known]
    return Observations(places, values, sizes)
