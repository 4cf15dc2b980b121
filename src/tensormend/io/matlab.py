"""``.mat``: variables of MATLAB, of versions 4 to 7 through SciPy and of 7.3 as HDF5."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tensormend.algebra import Array, check_memory
from tensormend.errors import FileError
from tensormend.io import matlab73
from tensormend.io.base import Options, portable, reading
from tensormend.io.matlab73 import SIZES, clean, is_beside, pick
from tensormend.io.named import assemble, take_apart
from tensormend.known import TensorData

__all__ = ["read_mat", "write_mat"]

MATRIX, COMPRESSED = 14, 15
HEADER = 128  # bytes before the first variable in version 5
OLD_BYTES = (8, 4, 4, 2, 2, 1)  # of a number in version 4
MAX_VARIABLE = 2**31 - 1  # bytes of a variable in version 5


def read_mat(path: Path, options: Options) -> TensorData:
    """Read a variable, with ``mask``, ``names`` and ``labels_0`` that stand beside it.

    The stored entries of a sparse matrix are the known ones.
    """
    with reading(path, "a .mat file"):
        if matlab73.is_hdf5(path):
            return matlab73.read_variables(path, options)
        _check_layout(path, options.memory_limit)
        return _read_variables(path, options)


def _read_variables(path: Path, options: Options) -> TensorData:
    from scipy import io

    found = list(io.whosmat(path, appendmat=False))
    kinds = {name: kind for name, _, kind in found}
    shapes = {name: tuple(shape) for name, shape, _ in found}
    if len(kinds) < len(found):
        raise FileError(f"{path} must hold each variable once, found some twice; save it again")
    name = pick(path, shapes, kinds, options.variable)
    beside = [key for key in shapes if key != name and is_beside(key, name)]
    for key in (name, *beside):
        size = SIZES.get(kinds[key], 1)
        what = f"the variable {key!r} of {path}"
        if kinds[key] != "sparse":
            check_memory(shapes[key], f"V{size}", options.memory_limit, what)
    given = io.loadmat(path, appendmat=False, mat_dtype=True, variable_names=[name, *beside])
    arrays = {key: given[key] for key in (name, *beside)}
    if kinds[name] == "sparse":
        return _read_sparse(arrays.pop(name), name)
    if kinds[name] == "logical":
        arrays[name] = arrays[name].astype(bool)
    return assemble(path, name, {key: clean(part) for key, part in arrays.items()})


def _read_sparse(matrix: Any, name: str) -> TensorData:
    matrix.check_format(full_check=True)  # indices of a damaged file may lie outside
    matrix = matrix.tocoo()
    places = np.stack([matrix.row, matrix.col], axis=1).astype(np.int64)
    return TensorData(matrix.data, indices=places, sizes=tuple(matrix.shape), name=name)


# what SciPy takes on trust


def _check_layout(path: Path, limit: float | None) -> None:
    """Check that the variables follow each other and lie within the file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(HEADER)
        if len(start) < 20:
            raise FileError(f"{path} must be a .mat file, but has only {size} bytes")
        if 0 in start[:4]:
            ends = _walk_old(path, file, size)
        elif len(start) == HEADER and start[126:] in (b"IM", b"MI"):
            ends = _walk(path, file, "<" if start[126:] == b"IM" else ">", limit)
        else:
            raise FileError(f"{path} must be a .mat file, but does not begin as one")
        for end in ends:
            if end > size:
                raise FileError(
                    f"{path} is cut short: a variable ends at byte {end}, the file at {size}; get "
                    "the whole file"
                )


def _walk(path: Path, file: BinaryIO, order: str, limit: float | None) -> Iterator[int]:
    """Go through the variables of version 5, and return where each ends."""
    place = HEADER
    while tag := _read_at(file, place, 8):
        if len(tag) < 8:
            raise FileError(f"{path} is cut short: it ends inside a variable; get the whole file")
        kind, size = struct.unpack(f"{order}2I", tag)
        if kind not in (MATRIX, COMPRESSED) or size == 0:
            raise FileError(f"{path} is damaged: no variable begins at byte {place}")
        yield place + 8 + size
        if kind == COMPRESSED:
            packed = _read_at(file, place + 8, min(size, 4096))
            inner = zlib.decompressobj().decompress(packed, 8)
            size_inside = struct.unpack(f"{order}2I", inner.ljust(8, b"\0"))[1]
            check_memory((size_inside,), np.uint8, limit, f"a variable of {path}, in bytes,")
        place += 8 + size


def _walk_old(path: Path, file: BinaryIO, size: int) -> Iterator[int]:
    """Go through the variables of version 4, whose lengths SciPy would follow backwards too."""
    place = 0
    while place < size:
        header = _read_at(file, place, 20).ljust(20, b"\xff")
        order = "<" if 0 <= struct.unpack("<i", header[:4])[0] <= 5000 else ">"
        kind, rows, columns, is_complex, length = struct.unpack(f"{order}5i", header)
        precision = kind // 10 % 10
        numbers = (kind, rows, columns, is_complex, length - 1)
        if min(numbers) < 0 or kind >= 5000 or precision >= len(OLD_BYTES) or is_complex > 1:
            raise FileError(f"{path} is damaged: no variable begins at byte {place}")
        count = rows * columns * (1 + is_complex)
        place += 20 + length + count * OLD_BYTES[precision]
        yield place


def _read_at(file: BinaryIO, place: int, size: int) -> bytes:
    file.seek(place)
    return file.read(size)


# writing


def write_mat(path: Path, data: TensorData) -> None:
    """Write version 5, or 7.3 if that was read or a variable has 2 GB and more."""
    from scipy import io

    values = portable(data, "a .mat file")
    word = re.sub(r"\W", "_", data.name, flags=re.ASCII)[:63]
    name = word if re.match("[A-Za-z]", word) else "data"
    whole = TensorData(values, names=data.names, labels=data.labels, attributes=data.attributes)
    arrays = {key: _as_text(part) for key, part in take_apart(whole, name).items()}
    if "matlab73" in data.details or values.nbytes > MAX_VARIABLE:
        matlab73.write_variables(path, arrays)
    else:
        io.savemat(path, arrays, appendmat=False, oned_as="column")


def _as_text(array: Array) -> Array:
    """Write dates as text, which MATLAB has instead."""
    return array.astype(str) if array.dtype.kind in "mM" else array
