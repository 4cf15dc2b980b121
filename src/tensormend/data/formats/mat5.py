"""Versions 4 to 7 of ``.mat``, read here: other readers take lengths on trust, and may crash."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np

from tensormend.core.algebra import Array, check_memory
from tensormend.errors import FileError

__all__ = ["Variable", "list_variables"]

OTHERS = {1: "cell", 2: "struct", 3: "object", 4: "char", 5: "sparse", 16: "function", 17: "opaque"}
CLASSES = OTHERS | {6: "double", 7: "single", 8: "int8", 9: "uint8", 10: "int16", 11: "uint16"}
CLASSES |= {12: "int32", 13: "uint32", 14: "int64", 15: "uint64"}
NUMBERS = {"double": "f8", "single": "f4"}  # of classes; the others are called as NumPy's types
STORED = {
    1: "i1",
    2: "u1",
    3: "i2",
    4: "u2",
    5: "i4",
    6: "u4",
    7: "f4",
    9: "f8",
    12: "i8",
    13: "u8",
}
TEXT = {1: "ascii", 2: "ascii", 16: "utf-8", 17: "utf-16", 18: "utf-32", 4: "utf-16"}
OLD = ("f8", "f4", "i4", "i2", "u2", "u1")  # types of version 4
MATRIX, COMPRESSED = 14, 15
HEADER = 128  # bytes before the first variable in version 5
PREFIX = 4096  # bytes that must contain the dimensions and the name of a variable
COMPLEX, LOGICAL = 8, 2  # flags


@dataclass(frozen=True)
class Variable:
    """A variable of a file.

    Attributes
    ----------
    name : str
        What MATLAB calls it.
    kind : str
        Its class; ``"logical"`` is one here.
    shape : tuple of int
        Sizes of its modes.
    read : callable
        Returns its values, as an array or, of a sparse matrix, as ``(row, column, value)``.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    read: Callable[[], Array]


def list_variables(path: Path, limit: float | None) -> list[Variable]:
    """Return what a file holds, without reading the values."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(HEADER)
        if 0 in start[:4] and size >= 20:
            return list(_walk_old(path, file, size, limit))
        if len(start) == HEADER and start[126:] in (b"IM", b"MI"):
            order = "<" if start[126:] == b"IM" else ">"
            return list(_walk(path, file, order, size, limit))
    raise FileError(f"{path} must be a .mat file, but does not begin as one; check the file")


def _read_at(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)


def _check_end(path: Path, end: int, size: int) -> None:
    if end > size:
        raise FileError(
            f"{path} is cut short: a variable ends at byte {end}, the file at {size}; get the "
            "whole file"
        )


# version 5


@dataclass
class _Elements:
    """The elements inside a variable, one after the other."""

    data: bytes
    order: str
    offset: int = 0

    def take(self) -> tuple[int, bytes]:
        """Return the type and the bytes of the next element."""
        kind, size = struct.unpack_from(f"{self.order}2I", self.data, self.offset)
        start = self.offset + 8
        if kind >> 16:  # up to four bytes, stored in offset of the length
            kind, size, start = kind & 0xFFFF, kind >> 16, self.offset + 4
        body = self.data[start : start + size]
        if len(body) < size or (start == self.offset + 4 and size > 4):
            raise ValueError(f"an element at byte {self.offset} of a variable is cut short")
        self.offset = max(self.offset + 8, start + size + -size % 8 * (start > self.offset + 4))
        return kind, body

    def take_numbers(self, count: int | None = None) -> Array:
        """Return the numbers of the next element, ``count`` of them if given."""
        kind, body = self.take()
        if kind not in STORED:
            raise ValueError(f"numbers of the unknown type {kind}")
        numbers = np.frombuffer(body, dtype=f"{self.order}{STORED[kind]}")
        if count is not None and len(numbers) != count:
            raise ValueError(f"{len(numbers)} numbers where {count} should be")
        return numbers


def _walk(
    path: Path, file: BinaryIO, order: str, size: int, limit: float | None
) -> Iterator[Variable]:
    offset = HEADER
    while offset < size:
        _check_end(path, offset + 8, size)
        kind, length = struct.unpack(f"{order}2I", _read_at(file, offset, 8))
        start, offset = offset + 8, offset + 8 + length
        _check_end(path, offset, size)
        if kind not in (MATRIX, COMPRESSED) or length == 0:
            raise FileError(f"{path} is damaged: no variable begins at byte {start - 8}")
        is_packed = kind == COMPRESSED
        prefix = _read_at(file, start, min(length, PREFIX))
        if is_packed:
            prefix = zlib.decompressobj().decompress(prefix, PREFIX)
            length_inside = struct.unpack(f"{order}2I", prefix[:8])[1]
            check_memory((length_inside,), np.uint8, limit, f"a variable of {path}, in bytes,")
        load = partial(_load, path, order, start, length, is_packed)
        yield _describe(path, _Elements(prefix, order, 8 if is_packed else 0), load, limit)


def _load(path: Path, order: str, start: int, length: int, is_packed: bool) -> bytes:
    """Return the bytes of a variable, no more than it declares."""
    with path.open("rb") as file:
        data = _read_at(file, start, length)
    if not is_packed:
        return data
    unpacker = zlib.decompressobj()
    size = struct.unpack(f"{order}2I", unpacker.decompress(data, 8))[1]
    out = unpacker.decompress(unpacker.unconsumed_tail, size)
    unpacker.decompress(unpacker.unconsumed_tail, 1)  # to its end, where the checksum stands
    if len(out) < size or not unpacker.eof:
        raise ValueError("a compressed variable is truncated, or longer than stated")
    return out


def _describe(
    path: Path, elements: _Elements, load: Callable[[], bytes], limit: float | None
) -> Variable:
    """Read what stands before the values of a variable."""
    flags = int(elements.take_numbers(2)[0])
    kind = CLASSES.get(flags & 0xFF, "object of an unknown class")
    if kind == "opaque":
        return Variable(_as_name(elements), kind, (), lambda: np.zeros(0))
    shape = tuple(int(n) for n in elements.take_numbers())
    name = _as_name(elements)
    if len(shape) < 2 or min(shape) < 0:
        raise FileError(f"the variable {name!r} of {path} must have two or more modes, got {shape}")
    is_complex, is_logical = bool(flags >> 8 & COMPLEX), bool(flags >> 8 & LOGICAL)
    dtype = np.dtype(NUMBERS.get(kind, kind if "int" in kind else "u1"))
    if kind != "sparse":
        entry = f"V{dtype.itemsize * (1 + is_complex)}"
        check_memory(shape, entry, limit, f"the variable {name!r} of {path}")
    order = elements.order

    def read() -> Array:
        parts = _Elements(load(), order)
        for _ in range(3):
            parts.take()
        if kind == "char":
            return _read_text(parts, shape)
        if kind == "sparse":
            return _read_sparse(parts, shape, is_complex)
        values = _read_values(parts, math.prod(shape), dtype, is_complex)
        values = values.astype(bool) if is_logical else values
        return values.reshape(shape, order="F")

    return Variable(name, "logical" if is_logical and kind != "sparse" else kind, shape, read)


def _as_name(elements: _Elements) -> str:
    return elements.take()[1].decode("ascii", "replace").rstrip("\0")


def _read_values(
    parts: _Elements, count: int, dtype: np.dtype[np.generic], is_complex: bool
) -> Array:
    values = parts.take_numbers(count).astype(dtype)
    if not is_complex:
        return values
    wide = np.result_type(dtype, np.complex64)
    return np.asarray(values + 1j * parts.take_numbers(count).astype(dtype), dtype=wide)


def _read_text(parts: _Elements, shape: tuple[int, ...]) -> Array:
    """Return a string for each row of a matrix of characters, which is stored by columns."""
    kind, body = parts.take()
    if kind not in TEXT:
        raise ValueError(f"text of the unknown type {kind}")
    ending = {"<": "-le", ">": "-be"}[parts.order] if kind in (4, 17, 18) else ""
    text = body.decode(f"{TEXT[kind]}{ending}", "replace")
    if len(text) != math.prod(shape):
        raise ValueError(f"{len(text)} characters where {math.prod(shape)} should be")
    rows = min(shape[0], len(text))  # any number of rows may be empty
    return np.array([text[i::rows] for i in range(rows)], dtype=str)


def _read_sparse(parts: _Elements, shape: tuple[int, ...], is_complex: bool) -> Array:
    rows = parts.take_numbers().astype(np.int64)
    starts = parts.take_numbers(shape[1] + 1).astype(np.int64)
    count = int(starts[-1])
    lengths = np.diff(starts)
    if starts[0] != 0 or lengths.min(initial=0) < 0 or count > len(rows):
        raise ValueError("the columns of a sparse matrix do not follow each other")
    values = parts.take_numbers()[:count]
    if is_complex:
        values = values + 1j * parts.take_numbers()[:count]
    columns = np.repeat(np.arange(shape[1]), lengths)
    return np.stack([rows[:count], columns, values], axis=1)


# version 4


def _walk_old(path: Path, file: BinaryIO, size: int, limit: float | None) -> Iterator[Variable]:
    offset = 0
    while offset < size:
        _check_end(path, offset + 20, size)
        header = _read_at(file, offset, 20)
        order = "<" if 0 <= struct.unpack("<i", header[:4])[0] < 5000 else ">"
        kind, rows, columns, is_complex, length = struct.unpack(f"{order}5i", header)
        precision, matter = kind // 10 % 10, kind % 10
        if (
            min(rows, columns, length - 1) < 0
            or not 0 <= kind < 5000
            or precision >= len(OLD)
            or is_complex not in (0, 1)
        ):
            raise FileError(f"{path} is damaged: no variable begins at byte {offset}")
        dtype, count = np.dtype(OLD[precision]), rows * columns
        start = offset + 20 + length
        offset = start + count * dtype.itemsize * (1 + is_complex)
        _check_end(path, offset, size)
        name = _read_at(file, start - length, length).decode("ascii", "replace").rstrip("\0")
        check_memory(
            (rows, columns), f"V{8 << is_complex}", limit, f"the variable {name!r} of {path}"
        )
        what = ("double", "text of version 4", "sparse matrix of version 4")
        yield Variable(
            name,
            what[min(matter, 2)],
            (rows, columns),
            partial(_read_old, path, start, f"{order}{dtype.str[1:]}", (rows, columns), is_complex),
        )


def _read_old(path: Path, start: int, dtype: str, shape: tuple[int, ...], is_complex: int) -> Array:
    count = math.prod(shape)
    numbers = np.fromfile(path, dtype=dtype, count=count * (1 + is_complex), offset=start)
    values = numbers[:count].astype(np.float64)
    if is_complex:
        values = values + 1j * numbers[count:].astype(np.float64)
    return values.reshape(shape, order="F")
