"""``.mat``: variables of MATLAB, of versions 4 to 7 (`mat5`) and of 7.3, which is HDF5."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from tensormend.core.algebra import Array
from tensormend.data.formats import matlab73
from tensormend.data.formats.base import Options, portable
from tensormend.data.formats.mat5 import list_variables
from tensormend.data.formats.matlab73 import clean, is_beside, pick
from tensormend.data.formats.named import assemble, take_apart
from tensormend.data.observations import TensorData
from tensormend.errors import FileError

__all__ = ["read_mat", "write_mat"]

MAX_VARIABLE = 2**31 - 1  # bytes of a variable in version 5


def read_mat(path: Path, options: Options) -> TensorData:
    """Read a variable, with ``observed``, ``dims`` and ``coords_0`` that stand beside it.

    The stored entries of a sparse matrix are the observed ones.
    """
    if matlab73.is_hdf5(path):
        return matlab73.read_variables(path, options)
    listed = list_variables(path, options.memory_limit)
    found = {variable.name: variable for variable in listed}
    if len(found) < len(listed):
        raise FileError(f"{path} must hold each variable once, found some twice; save it again")
    shapes = {key: part.shape for key, part in found.items()}
    kinds = {key: part.kind for key, part in found.items()}
    name = pick(path, shapes, kinds, options.variable)
    if kinds[name] == "sparse":
        return _read_sparse(name, found[name].read(), shapes[name])
    beside = [key for key in found if is_beside(key, name, kinds[key])]
    arrays = {key: clean(found[key].read()) for key in (name, *beside)}
    return assemble(path, name, arrays)


def _read_sparse(name: str, stored: Array, shape: tuple[int, ...]) -> TensorData:
    values = stored[:, 2] if stored.dtype.kind == "c" else stored[:, 2].astype(np.float64)
    indices = stored[:, :2].real.astype(np.int64)
    return TensorData(values, indices=indices, shape=shape, name=name)


def write_mat(path: Path, data: TensorData) -> None:
    """Write version 5, or 7.3 if that was read or a variable has 2 GB and more."""
    from scipy import io

    values = portable(data, "a .mat file")
    word = re.sub(r"\W", "_", data.name, flags=re.ASCII)[:63]
    name = word if re.match("[A-Za-z]", word) else "data"
    whole = TensorData(values, dims=data.dims, coords=data.coords, attrs=data.attrs)
    arrays = {key: _as_text(part) for key, part in take_apart(whole, name).items()}
    if "matlab73" in data.encoding or values.nbytes > MAX_VARIABLE:
        matlab73.write_variables(path, arrays)
    else:
        io.savemat(path, arrays, appendmat=False, oned_as="column")


def _as_text(array: Array) -> Array:
    """Write dates as text, which MATLAB has instead."""
    return array.astype(str) if array.dtype.kind in "mM" else array
