"""``.nc``: data sets of NetCDF, decoded by the conventions of CF."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.core.algebra import Array, check_memory
from tensormend.data.formats.attributes import plain, unique_names
from tensormend.data.formats.base import (
    Options,
    check_chunks,
    choose_tensor,
    is_numeric,
    match_observed,
    portable,
)
from tensormend.data.formats.hdf5 import check_stored, list_datasets, open_file
from tensormend.data.observations import TensorData
from tensormend.data.observations.labelled import require_xarray
from tensormend.errors import DataWarning, FileError, require, warn_user

__all__ = ["read_netcdf", "write_netcdf"]

MAGIC = {b"CDF\x01": "scipy", b"CDF\x02": "scipy", b"\x89HDF": "h5netcdf"}
"""First bytes of the versions of NetCDF, and the engine that reads each."""


def read_netcdf(path: Path, options: Options) -> TensorData:
    """Read a variable; the rest of the data set is kept, to be written with it."""
    xr = require_xarray("reading a NetCDF file", "netcdf")
    group, _, wanted = (options.variable or "").strip("/").rpartition("/")
    engine = _find_engine(path)
    if engine == "h5netcdf":
        require("h5netcdf", "netcdf", "reading a NetCDF-4 file")
        _check_datasets(path, options.memory_limit)
    with _opened(xr, path, engine, group) as dataset:
        name = _choose(path, dataset, wanted or None)
        variable = dataset[name]
        check_memory(
            variable.shape,
            variable.dtype,
            options.memory_limit,
            f"the variable {name!r} of {path}",
        )
        observed = _read_observed(path, dataset, name)
        values = np.asarray(variable.values)
        rest, left = _load_rest(dataset, name, options.memory_limit)
    if left:
        warn_user(
            f"the other variables of {path} ({left}) do not fit into the memory limit; what is "
            "saved will not hold them",
            DataWarning,
        )
    dims = tuple(str(one) for one in variable.dims)
    labels = tuple(_find_labels(rest, dim) for dim in dims)
    return TensorData(
        values,
        observed=observed,
        dims=dims,
        coords=labels,
        name=name,
        attrs=plain(variable.attrs, leave_out=["observed"]),
        encoding={"netcdf": rest, "labels": labels},
    )


def _find_engine(path: Path) -> str:
    with path.open("rb") as file:
        magic = file.read(4)
    if magic not in MAGIC:
        raise FileError(
            f"{path} must be a NetCDF file of version 3 or 4, but begins with {magic!r}; convert "
            "it, and check that the name ends as it should"
        )
    return MAGIC[magic]


def _check_datasets(path: Path, limit: float | None) -> None:
    """Refuse, before xarray opens it, a file that points to others or that hides a huge vector."""
    with open_file(path, "a NetCDF-4 file") as file:
        for name, dataset in list_datasets(path, file, refuse_links=True).items():
            if dataset.is_virtual or dataset.external:
                raise FileError(
                    f"the variable {name!r} of {path} must be stored in the file itself, but takes "
                    "its values from other files; copy it to a file of its own"
                )
            shape, what = dataset.shape or (), f"the variable {name!r} of {path}"
            if len(shape) == 1:  # coordinates, which are read when the file is opened
                check_memory(shape, dataset.dtype, limit, what)
            size = math.prod(shape) * dataset.dtype.itemsize
            if limit is None or size <= limit:  # what is larger will not be read
                check_chunks(shape, dataset.chunks, dataset.dtype, limit, what)
                check_stored(path, what, dataset)


@contextmanager
def _opened(xr: Any, path: Path, engine: str, group: str) -> Iterator[Any]:
    """Open a data set; times of calendars that cannot be decoded stay numbers."""
    options: dict[str, Any] = {"engine": engine, "decode_timedelta": False, "cache": False}
    if group:
        options["group"] = group
    if engine == "h5netcdf":
        options["phony_dims"] = "access"  # modes without a name get one; xarray once refused them
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on attributes that are not quite as CF has them
        try:
            dataset = xr.open_dataset(path, **options)
        except ValueError:
            dataset = xr.open_dataset(path, decode_times=False, **options)
        with dataset:
            yield dataset


def _choose(path: Path, dataset: Any, wanted: str | None) -> str:
    found = {str(name): dataset[name] for name in dataset.variables}
    companions = {str(part.attrs.get("observed", "")) for part in found.values()}
    return choose_tensor(
        path,
        found,
        wanted,
        "variable",
        is_tensor=lambda part: part.name in dataset.data_vars and is_numeric(part),
        companions=companions,
    )


def _read_observed(path: Path, dataset: Any, name: str) -> Array | None:
    """Read the variable that the attribute ``observed`` names."""
    given = dataset[name].attrs.get("observed")
    if given is None:
        return None
    if given not in dataset.variables:
        raise FileError(
            f"the attribute 'observed' of the variable {name!r} of {path} must name another "
            f"variable of the file, got {given!r}; correct the attribute, or add the variable"
        )
    observed = np.asarray(dataset[given].values)
    return match_observed(observed, dataset[name].shape, f"the variable {given!r} of {path}")


def _load_rest(dataset: Any, name: str, limit: float | None) -> tuple[Any, str]:
    """Return the rest of the data set in memory, and the names of what does not fit."""
    rest = dataset.drop_vars(name)
    if limit is None or rest.nbytes + dataset[name].nbytes <= limit:
        return rest.load(), ""
    left = ", ".join(map(str, rest.data_vars))
    return rest[[]].assign_coords(dataset[name].coords).load(), left


def _find_labels(dataset: Any, dim: str) -> Array | None:
    if dim not in dataset.coords or dataset[dim].ndim != 1:
        return None
    return np.asarray(dataset[dim].values)


def write_netcdf(path: Path, data: TensorData) -> None:
    """Write a NetCDF-4 file: the data set that was read with its variable replaced, or a new one.

    How the variable was packed is forgotten, because what is filled in need not fit. All others,
    and times, are packed as before.
    """
    xr = require_xarray("writing a NetCDF file", "netcdf")
    require("h5netcdf", "netcdf", "writing a NetCDF file")
    values = portable(data, "a NetCDF file", takes_complex=False)
    attributes = {key: _as_attribute(part) for key, part in plain(data.attrs).items()}
    if _belongs(data):
        dataset = data.encoding["netcdf"]
        dataset = dataset.assign({data.name: (data.dims, values, attributes)})
    else:
        names = unique_names(data.dims)
        name = data.name.rpartition("/")[2] or "data"
        name = f"{name}_values" if name in names else name
        pairs = zip(names, data.coords, strict=True)
        coords = {key: part for key, part in pairs if part is not None}
        dataset = xr.Dataset({name: (names, values, attributes)}, coords=coords)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on times that are saved as finer numbers than before
        dataset.to_netcdf(path, engine="h5netcdf", format="NETCDF4")


def _as_attribute(part: Any) -> Any:
    """Return an attribute of a kind that NetCDF has."""
    array = np.asarray(part)
    if array.dtype.kind == "b":
        return array.astype(np.int8)
    if array.dtype.kind == "c":
        return str(part)
    return part.tolist() if isinstance(part, np.ndarray) and array.dtype.kind == "U" else part


def _belongs(data: TensorData) -> bool:
    """Return whether a tensor still has the modes and labels of the data set it was read from."""
    details: Mapping[str, Any] = data.encoding
    if "netcdf" not in details or not data.name:
        return False
    sizes, labels = details["netcdf"].sizes, details["labels"]
    pairs = zip(data.dims, data.shape, strict=True)
    return len(labels) == len(data.coords) and all(
        (sizes.get(name, n) == n) and _same(ours, its)
        for (name, n), ours, its in zip(pairs, data.coords, labels, strict=True)
    )


def _same(ours: Array | None, its: Array | None) -> bool:
    if ours is None or its is None:
        return ours is its
    return ours.shape == its.shape and bool(np.all(ours.astype(str) == its.astype(str)))
