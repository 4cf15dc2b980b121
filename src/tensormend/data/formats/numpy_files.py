"""``.npy`` and ``.npz``: arrays of NumPy. Nothing is unpickled."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path

import numpy as np

from tensormend.core.algebra import Array, check_memory
from tensormend.data.formats.base import Options, choose
from tensormend.data.formats.named import assemble, is_reserved, list_candidates, take_apart
from tensormend.data.observations import TensorData
from tensormend.errors import FileError

__all__ = ["read_npy", "read_npz", "write_npy", "write_npz"]


def read_npy(path: Path, options: Options) -> TensorData:
    """Read the array of a ``.npy`` file."""
    # mapped first: a header that promises more than the file holds is refused unread
    mapped = np.lib.format.open_memmap(path, mode="r")
    check_memory(mapped.shape, mapped.dtype, options.memory_limit, f"the array in {path}")
    return TensorData(np.array(mapped))


def write_npy(path: Path, data: TensorData) -> None:
    """Write the array to a ``.npy`` file."""
    np.save(path, data.todense(), allow_pickle=False)


def read_npz(path: Path, options: Options) -> TensorData:
    """Read an array of a ``.npz`` file, with what is observed, dims and coords beside it."""
    with zipfile.ZipFile(path) as archive:
        sizes = _list_members(path, archive)
        candidates = {name: _read_shape(path, archive, name) for name in list_candidates(sizes)}
        name = choose(path, candidates, options.variable)
        beside = [key for key in sizes if key != name and _is_beside(key, name)]
        total = sizes[name] + sum(sizes[key] for key in beside)
        check_memory((total,), np.uint8, options.memory_limit, f"{path}, in bytes,")
        arrays = {key: _read_member(path, archive, key) for key in (name, *beside)}
        return assemble(path, name, arrays)


def _is_beside(key: str, name: str) -> bool:
    return is_reserved(key) or key == f"{name}_observed"


def _list_members(path: Path, archive: zipfile.ZipFile) -> dict[str, int]:
    """Return the arrays of an archive, with their bytes."""
    arrays = [info for info in archive.infolist() if info.filename.endswith(".npy")]
    sizes = {info.filename.removesuffix(".npy"): info.file_size for info in arrays}
    if len(sizes) < len(arrays):
        raise FileError(f"{path} must hold each array once, found some twice; write it again")
    return sizes


def _read_shape(path: Path, archive: zipfile.ZipFile, name: str) -> tuple[int, ...]:
    """Read the header of an array, which must promise what the archive holds."""
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as member:
        version = np.lib.format.read_magic(member)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version)
        if read is None:
            raise FileError(
                f"the array {name!r} of {path} must be in version 1 or 2 of the .npy format, got "
                f"version {version}; write it again with a plain data type"
            )
        shape, _, dtype = read(member)
        held = info.file_size - member.tell()
    promised = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or min(shape, default=0) < 0 or promised != held:
        raise FileError(
            f"the array {name!r} of {path} must be numbers or text, with the {held} bytes that the "
            f"archive holds of it, got {dtype} of shape {shape}; write it again"
        )
    return shape


def _read_member(path: Path, archive: zipfile.ZipFile, name: str) -> Array:
    _read_shape(path, archive, name)
    with archive.open(f"{name}.npy") as member:
        return np.asarray(np.lib.format.read_array(member, allow_pickle=False))


def write_npz(path: Path, data: TensorData) -> None:
    """Write values, names and labels to a ``.npz`` file, as `read_npz` takes them."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in take_apart(data).items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
