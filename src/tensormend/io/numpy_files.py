"""``.npy`` and ``.npz``: arrays of NumPy. Nothing is unpickled."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.algebra import Array, check_memory
from tensormend.errors import FileError
from tensormend.io.base import Options, reading
from tensormend.known import TensorData

__all__ = ["read_npy", "read_npz", "write_npy", "write_npz"]


def read_npy(path: Path, options: Options) -> TensorData:
    """Read the array of a ``.npy`` file."""
    with reading(path, "a .npy file"):
        # mapped first: a header that promises more than the file holds is refused unread
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        check_memory(mapped.shape, mapped.dtype, options.memory_limit, f"the array in {path}")
        return TensorData(np.array(mapped))


def write_npy(path: Path, data: TensorData) -> None:
    """Write the array to a ``.npy`` file."""
    np.save(path, data.dense(), allow_pickle=False)


def read_npz(path: Path, options: Options) -> TensorData:
    """Read an array of a ``.npz`` file, with the mask, names and labels that stand beside it.

    Other arrays of the file mean what `write_npz` makes them mean: ``mask`` is true where the
    data are known, ``names`` names the modes, ``labels_0`` labels the places of mode 0. With
    ``indices`` and ``shape``, the array is a vector of values at these places.
    """
    with reading(path, "a .npz file"), zipfile.ZipFile(path) as archive:
        sizes = {info.filename.removesuffix(".npy"): info.file_size for info in archive.infolist()}
        name = _choose(path, [key for key in sizes if not _is_reserved(key)], options.variable)
        wanted = [name, *(key for key in sizes if _is_reserved(key))]
        check_memory(
            (sum(sizes[key] for key in wanted),), np.uint8, options.memory_limit, f"{path}"
        )
        arrays = {key: _read_member(archive, key) for key in wanted}
    return _assemble(path, name, arrays)


def _is_reserved(name: str) -> bool:
    return name in ("mask", "names", "indices", "shape") or name.startswith("labels_")


def _choose(path: Path, names: list[str], wanted: str | None) -> str:
    if wanted is not None and wanted not in names:
        raise FileError(f"{path} must hold the array {wanted!r}, found {', '.join(names)}")
    if wanted is None and len(names) != 1:
        raise FileError(
            f"{path} must hold one array beside its mask, names and labels, found "
            f"{', '.join(names) or 'none'}; name one with variable"
        )
    return names[0] if wanted is None else wanted


def _read_member(archive: zipfile.ZipFile, name: str) -> Array:
    """Read one array; its header must promise what the archive holds."""
    with archive.open(f"{name}.npy") as member:
        array: Any = np.lib.format.read_array(member, allow_pickle=False)
    return np.asarray(array)


def _assemble(path: Path, name: str, arrays: dict[str, Array]) -> TensorData:
    with reading(path, "a .npz file of a tensor"):
        indices = arrays.get("indices")
        sizes = tuple(arrays["shape"].tolist()) if indices is not None else None
        order = arrays[name].ndim if sizes is None else len(sizes)
        names = tuple(map(str, arrays["names"])) if "names" in arrays else ()
        return TensorData(
            arrays[name],
            indices=indices,
            known=arrays["mask"].astype(bool) if "mask" in arrays else None,
            sizes=sizes,
            names=names,
            labels=tuple(arrays.get(f"labels_{k}") for k in range(order)),
            name="" if name == "data" else name,
        )


def write_npz(path: Path, data: TensorData) -> None:
    """Write values, names and labels to a ``.npz`` file, as `read_npz` takes them."""
    arrays = {data.name or "data": data.values, "names": np.array(data.names)}
    arrays |= {f"labels_{k}": part for k, part in enumerate(data.labels) if part is not None}
    if data.known is not None:
        arrays["mask"] = data.known
    if data.indices is not None:
        arrays |= {"indices": data.indices, "shape": np.array(data.shape)}
    np.savez(path, **arrays)  # type: ignore[arg-type]
