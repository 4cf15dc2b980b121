"""`xarray.DataArray`; dimensions, coordinates and attributes are kept."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np

from tensormend.core.algebra import Array, as_shape
from tensormend.data.observations.arrays import find_observed
from tensormend.data.observations.base import Keys, Labelled, Observations, as_numbers, is_kept
from tensormend.data.observations.sparse import read_coo
from tensormend.errors import InputError, require

__all__ = ["read_dataarray", "register_accessor", "require_xarray"]

Accessor = TypeVar("Accessor", bound=type)


@dataclass(frozen=True, eq=False)
class DataArrayContainer(Labelled):
    """Names, coordinates (an xarray.Dataset) and attributes of a DataArray.

    The encoding, which describes how values are packed in a file, is dropped, since estimated
    values may not be representable in it.
    """

    words: ClassVar[str] = "a DataArray"
    dims: tuple[Hashable, ...]
    shape: tuple[int, ...]
    coords: Any = field(repr=False)
    name: Hashable
    attrs: dict[Any, Any] = field(repr=False)

    def wrap(self, block: Array, keys: Keys) -> Any:
        """Return a block of values as a DataArray, with the coordinates of its indices."""
        import xarray as xr

        chosen = dict(zip(self.dims, keys, strict=True))
        part = self.coords.isel(chosen, missing_dims="ignore")
        return xr.DataArray(
            super().wrap(block, keys),
            coords=part.coords,
            dims=[name for name, key in chosen.items() if is_kept(key)],
            name=self.name,
            attrs=self.attrs,
        )

    def wrap_factor(self, mode: int, factor: Array) -> Any:
        """Return a DataArray over the mode and ``"component"``."""
        import xarray as xr

        name = self.dims[mode]
        component = "component" if name != "component" else "component_of"
        return xr.DataArray(factor, coords=self._coords_of(mode), dims=[name, component])

    def label(self, mode: int, index: int) -> Any:
        """Return the coordinate of an index, or the index itself if the mode has none."""
        labels = self.coords.indexes.get(self.dims[mode])
        return index if labels is None else labels[index]

    def locate(self, mode: int, label: Any) -> Array:
        """Return the indices that ``DataArray.sel`` selects."""
        import xarray as xr

        name = self.dims[mode]
        indices = np.arange(self.shape[mode])
        numbered = xr.DataArray(indices, coords=self._coords_of(mode), dims=[name])
        return np.asarray(numbered.sel({name: label}))

    def _coords_of(self, mode: int) -> Any:
        others = [name for name in self.coords.dims if name != self.dims[mode]]
        return self.coords.drop_dims(others).coords


def read_dataarray(data: Any, *, observed: Any = None) -> Observations:
    """Read a DataArray, dense or of a sparse.COO; NaN or ``observed`` marks missing entries."""
    import xarray as xr

    if not isinstance(data, xr.DataArray):
        raise InputError(
            f"data of xarray must be a DataArray, got {type(data).__name__}; select one of its "
            "variables, as in data['name']"
        )
    container = DataArrayContainer(
        data.dims, data.shape, data.coords.to_dataset(), data.name, dict(data.attrs)
    )
    if type(data.data).__module__.partition(".")[0] == "sparse":
        if observed is not None:
            raise InputError("observed goes with a dense DataArray, got a sparse one; omit it")
        inside = read_coo(data.data)
        return Observations(inside.indices, inside.values, inside.shape, container)
    array = as_numbers(data.values)
    as_shape(array.shape)
    if isinstance(observed, xr.DataArray):
        observed = _align(observed, data)
    where = find_observed(array, observed, data)
    return Observations(np.argwhere(where), array[where], array.shape, container)


def _align(observed: Any, data: Any) -> Any:
    """Transpose ``observed``, a DataArray, to the dimensions of the data, and check its labels."""
    import xarray as xr

    try:
        return xr.align(data, observed.transpose(*data.dims), join="exact")[1]
    except ValueError as error:
        raise InputError(
            f"observed= as a DataArray must have the dimensions {data.dims} and the coordinates "
            f"of the data, got {observed.dims} or other coordinates; reindex it like the data"
        ) from error


def register_accessor(name: str) -> Callable[[Accessor], Accessor]:
    """Return a decorator that registers a class as accessor ``name`` of every DataArray."""
    xr = require_xarray(f"the accessor {name} of a DataArray", "labelled")
    register: Callable[[Accessor], Accessor] = xr.register_dataarray_accessor(name)
    return register


def require_xarray(what: str, extra: str) -> Any:
    """Import xarray, or raise an error that says what needs it and how to install it."""
    return require("xarray", extra, what)
