"""Version 7.3 of ``.mat``: HDF5 with MATLAB's words, the modes of its arrays turned around."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.core.algebra import Array
from tensormend.data.formats.base import Options, choose
from tensormend.data.formats.hdf5 import (
    create_file,
    list_datasets,
    open_file,
    read_attribute,
    read_numbers,
)
from tensormend.data.formats.named import assemble, is_reserved, list_candidates
from tensormend.data.observations import TensorData
from tensormend.data.observations.base import decode_text
from tensormend.errors import FileError

__all__ = ["SIZES", "clean", "is_beside", "is_hdf5", "pick", "read_variables", "write_variables"]

SIZES = {"double": 8, "single": 4, "logical": 1, "sparse": 8} | {
    f"{sign}int{8 * size}": size for sign in ("", "u") for size in (1, 2, 4, 8)
}
"""Classes of MATLAB that hold numbers, with the bytes of one."""

CLASSES = {"float64": "double", "float32": "single", "complex128": "double", "complex64": "single"}
"""MATLAB's names of classes, where they are not those of NumPy."""

MAGIC = b"\x89HDF\r\n\x1a\n"
BLOCK = 512  # bytes of MATLAB's own header
TITLE = b"MATLAB 7.3 MAT-file, HDF5 schema 1.00 ."


def is_hdf5(path: Path) -> bool:
    """Return whether a file is HDF5, with MATLAB's header before it or without."""
    with path.open("rb") as file:
        start = file.read(BLOCK + len(MAGIC))
    return MAGIC in (start[: len(MAGIC)], start[BLOCK:])


def pick(
    path: Path,
    shapes: Mapping[str, tuple[int, ...]],
    kinds: Mapping[str, str],
    wanted: str | None,
) -> str:
    """Choose the variable of numbers to take; vectors count only where there is nothing else."""
    if wanted is not None and kinds.get(wanted, "double") not in SIZES:
        raise FileError(
            f"the variable {wanted!r} of {path} must be an array of numbers, got a "
            f"{kinds[wanted]}; save its contents as a variable of their own"
        )
    numbers = {key: shapes[key] for key in shapes if kinds[key] in SIZES}
    arrays = {key: numbers[key] for key in list_candidates(numbers)}
    large = {key: shape for key, shape in arrays.items() if sum(n > 1 for n in shape) > 1}
    if wanted is None and not arrays:
        held = ", ".join(f"{key} ({kind})" for key, kind in kinds.items()) or "none"
        raise FileError(f"{path} must hold a variable of numbers, found {held}")
    return choose(path, (large or arrays) if wanted is None else numbers, wanted, "variable")


def is_beside(key: str, name: str, kind: str) -> bool:
    """Return whether a variable describes another one."""
    if key in (name, "indices", "shape") or kind not in (*SIZES, "char"):
        return False
    return is_reserved(key) or key == f"{name}_observed"


def clean(array: Any) -> Array:
    """Take away the blanks that make the rows of a matrix of text equally long."""
    array = np.asarray(array)
    return np.char.rstrip(array) if array.dtype.kind == "U" else array


def read_variables(path: Path, options: Options) -> TensorData:
    """Read a variable, its modes in MATLAB's order."""
    with open_file(path, "a .mat file of version 7.3") as file:
        found = list_datasets(path, file)
        kinds = {}
        for key, dataset in found.items():
            top, _, inside = key.partition("/")
            if not top.startswith("#"):
                kinds[top] = "struct, cell or sparse matrix" if inside else _find_class(dataset)
        shapes = {key: found[key].shape[::-1] for key, kind in kinds.items() if kind in SIZES}
        name = pick(path, shapes, kinds, options.variable)
        beside = [key for key in kinds if is_beside(key, name, kinds[key])]
        arrays = {
            key: _decode(read_numbers(path, key, found[key], options.memory_limit), kinds[key])
            for key in (name, *beside)
        }
        data = assemble(path, name, {key: clean(part) for key, part in arrays.items()})
    return replace(data, encoding={"matlab73": True})


def _find_class(dataset: Any) -> str:
    """Return what MATLAB calls a dataset."""
    given = read_attribute(dataset, "MATLAB_class")
    kind = decode_text(given or "")
    if dataset.shape is None or read_attribute(dataset, "MATLAB_empty"):
        return "empty array"
    is_pair = dataset.dtype.names == ("real", "imag")
    if dataset.dtype.kind not in "biufc" and not is_pair:
        return kind if kind and kind not in SIZES else "cell"
    return kind or CLASSES.get(dataset.dtype.name, dataset.dtype.name)


def _decode(array: Array, kind: str) -> Array:
    if array.dtype.names == ("real", "imag"):
        array = array["real"] + 1j * array["imag"]
    if kind == "logical":
        array = array.astype(bool)
    if kind == "char":
        rows = np.atleast_2d(array.T).astype("<u2")
        return np.array([row.tobytes().decode("utf-16-le", "replace") for row in rows])
    return array.T


def write_variables(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays and texts, each with the class that MATLAB gives it."""
    with create_file(path, userblock_size=BLOCK) as file:
        for name, array in arrays.items():
            kind = CLASSES.get(array.dtype.name, array.dtype.name)
            if array.dtype.kind == "U":
                kind, array = "char", _encode(array)
            elif array.dtype == np.bool_:
                kind, array = "logical", array.astype(np.uint8)
            elif array.dtype.kind == "c":
                half = array.real.dtype
                pairs = np.empty(array.shape, dtype=[("real", half), ("imag", half)])
                pairs["real"], pairs["imag"] = array.real, array.imag
                array = pairs
            turned = np.atleast_2d(array if array.ndim > 1 else array[:, None]).T
            dataset = file.create_dataset(name, data=turned)
            dataset.attrs["MATLAB_class"] = np.bytes_(kind)
            if kind in ("char", "logical"):
                dataset.attrs["MATLAB_int_decode"] = np.int32(array.dtype.itemsize)
    with path.open("r+b") as raw:
        raw.write(TITLE.ljust(116) + bytes(8) + b"\x00\x02IM")


def _encode(text: Array) -> Array:
    """Return a row of numbers for each text, in UTF-16 as MATLAB has it."""
    rows = [str(one).encode("utf-16-le") for one in np.ravel(text)]
    width = max(2, *map(len, rows))
    padded = b"".join(row + b" \0" * ((width - len(row)) // 2) for row in rows)
    return np.frombuffer(padded, dtype="<u2").reshape(len(rows), -1)
