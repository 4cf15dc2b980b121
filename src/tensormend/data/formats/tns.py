"""FROSTT ``.tns``: one entry a line, its indices counted from 1 and its value.

A file may begin with its order and sizes. That is told from the number of columns: entries of a
tensor of ``d`` modes have ``d + 1``; a first line of one column is the order and then needs ``d``
sizes in the second; a first line of ``d`` columns before lines of ``d + 1`` holds sizes alone. A
first line ``# sizes 4 5 6`` says the same and is a comment to other programs; it is what is
written, so that slices without an observed entry are not lost.
"""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from tensormend.core import kernels
from tensormend.core.algebra import Array, check_memory
from tensormend.data.formats.base import Options
from tensormend.data.formats.entries import find_repeat, open_bytes
from tensormend.data.observations import TensorData
from tensormend.errors import FileError, InputError

__all__ = ["read_tns", "write_tns"]

CHUNK = 16 * 2**20
"""Bytes of text that are parsed at a time; no line may be longer."""

MAX_SIZE = int(np.iinfo(np.uint32).max)
BLOCK = 2**18  # entries that are written at a time
SIZES = re.compile(rb"#\s*sizes((\s+[0-9]{1,10})+)\s*", re.IGNORECASE)
COUNT = re.compile(rb"\+?[0-9]{1,10}")


@dataclass(frozen=True)
class Header:
    """What stands before the entries.

    Attributes
    ----------
    order : int
        Number of modes.
    sizes : tuple of int or None
        Sizes of the modes, where the file tells them.
    n_lines : int
        Lines that are no entries, with the blanks and comments between them.
    style : str
        ``"order"``, ``"sizes"``, ``"comment"`` or ``"none"``.
    """

    order: int
    sizes: tuple[int, ...] | None
    n_lines: int
    style: str


def read_tns(path: Path, options: Options) -> TensorData:
    """Read the entries of a ``.tns`` or ``.tns.gz`` file; entries not listed are missing."""
    with open_bytes(path) as file:
        header = _read_header(path, file)
    with open_bytes(path) as file:
        parts = list(_parse(path, file, header, options.memory_limit))
    indices, values = _join(parts, header.order)
    sizes = header.sizes or tuple(int(indices[:, k].max()) + 1 for k in range(header.order))
    repeat = find_repeat(indices, sizes)
    if repeat is not None:
        index = tuple((indices[repeat[0]] + 1).tolist())
        first, second = (_line_of(path, header, row) for row in repeat)
        raise FileError(
            f"{path} must hold every entry once, got {index} in lines "
            f"{first} and {second}; average or drop the repeats"
        )
    return TensorData(values, indices=indices, shape=sizes, encoding={"header": header.style})


# what stands before the entries


def _read_header(path: Path, file: BinaryIO) -> Header:
    """Infer order and shape from the first lines that are not blank."""
    rows: list[tuple[int, list[bytes]]] = []  # each with the number of its line
    sizes = None
    for number, line in enumerate(_first_lines(path, file), start=1):
        if number == 1 and (stated := SIZES.fullmatch(line)):
            sizes = _as_sizes(path, stated[1].split(), 1)
        columns = line.partition(b"#")[0].split()
        if columns:
            rows.append((number, columns))
        if len(rows) == 3:
            break
    counts = [len(columns) for _, columns in rows]
    if not counts:
        raise FileError(f"{path} must hold at least one observed entry, found none")
    style = "none" if sizes is None else "comment"
    n_lines, order = 0, counts[0] - 1
    if sizes is not None:
        order = len(sizes)
    elif counts[0] == 1 and len(counts) > 1 and rows[0][1] == [str(counts[1]).encode()]:
        style, order, n_lines = "order", counts[1], rows[1][0]
        sizes = _as_sizes(path, rows[1][1], n_lines)
    elif counts[0] >= 2 and counts[1:] and counts[1] == counts[0] + 1:
        style, order, n_lines = "sizes", counts[0], rows[0][0]
        sizes = _as_sizes(path, rows[0][1], n_lines)
    if order < 2:
        raise FileError(
            f"line {rows[0][0]} of {path} must hold two or more indices and a value, or the order "
            f"above a line of sizes, got {counts[0]} columns; check that it is a .tns file"
        )
    return Header(order, sizes, n_lines, style)


def _first_lines(path: Path, file: BinaryIO) -> Iterator[bytes]:
    number = 0
    while line := file.readline(CHUNK):
        number += 1
        if len(line) == CHUNK and not line.endswith(b"\n"):
            raise _too_long(path, number)
        yield line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


def _as_sizes(path: Path, columns: list[bytes], line: int) -> tuple[int, ...]:
    sizes = tuple(int(column) if COUNT.fullmatch(column) else 0 for column in columns)
    if min(sizes) < 1 or max(sizes) > MAX_SIZE:
        raise FileError(
            f"line {line} of {path} must hold the sizes of the modes, integers from 1 to "
            f"{MAX_SIZE}, got {_show(b' '.join(columns))}; entries have one column more than "
            "there are modes"
        )
    return sizes


# the entries


def _parse(
    path: Path, file: BinaryIO, header: Header, memory_limit: float | None
) -> Iterator[tuple[Array, Array]]:
    """Yield indices and values of the entries, chunk by chunk."""
    sizes = header.sizes or (MAX_SIZE,) * header.order
    for _ in islice(_first_lines(path, file), header.n_lines):
        pass
    if header.n_lines == 0 and file.read(3) != b"\xef\xbb\xbf":
        file.seek(0)
    threads = kernels.thread_count(None)
    entry_bytes = 8 * (header.order + 1)
    n_entries = 0
    for text, start in _chunks(path, file):
        indices, values, fault = kernels.parse_entries(
            np.frombuffer(text, dtype=np.uint8), sizes, threads
        )
        if fault is not None:
            raise _explain(path, text, start, sizes, fault)
        n_entries += len(values)
        check_memory((n_entries, entry_bytes), np.uint8, memory_limit, f"the entries of {path}")
        if len(values) == 0 and len(text) > CHUNK // 2:
            raise FileError(
                f"{path} must hold entries, got {len(text)} bytes without any after byte {start}; "
                "check that it is a .tns file"
            )
        yield indices, values


def _chunks(path: Path, file: BinaryIO) -> Iterator[tuple[memoryview, int]]:
    """Yield text that ends where a line does, and where it begins; the next overwrites it."""
    start = file.tell()
    buffer = bytearray(CHUNK)
    view = memoryview(buffer)
    filled = 0
    while True:
        n = cast(io.BufferedIOBase, file).readinto(view[filled:])
        filled += n
        if n == 0:
            if filled:
                yield view[:filled], start
            return
        end = buffer.rfind(b"\n", 0, filled) + 1
        if end == 0 and filled == CHUNK:
            raise _too_long(path, _count_lines(path, start) + 1)
        if end:
            yield view[:end], start
            start += end
            rest = filled - end
            buffer[:rest] = buffer[end:filled]
            filled = rest


def _join(parts: list[tuple[Array, Array]], order: int) -> tuple[Array, Array]:
    """Put chunks together, letting go of each once it is copied."""
    n_entries = sum(len(values) for _, values in parts)
    indices = np.empty((n_entries, order), dtype=np.int64)
    values = np.empty(n_entries)
    row = 0
    for k, (part, numbers) in enumerate(parts):
        end = row + len(numbers)
        indices[row:end], values[row:end] = part, numbers
        parts[k] = (part[:0].copy(), numbers[:0].copy())
        row = end
    return indices, values


# what is wrong


def _too_long(path: Path, line: int) -> FileError:
    return FileError(
        f"line {line} of {path} must be shorter than {CHUNK} bytes, got a longer one; check that "
        "it is a .tns file"
    )


def _show(text: bytes) -> str:
    shown = text[:40].decode("utf-8", "backslashreplace")
    return repr(shown) + ("..." if len(text) > 40 else "")


def _explain(
    path: Path, text: memoryview, start: int, sizes: tuple[int, ...], fault: tuple[int, int, int]
) -> FileError:
    """Return an error for a line of a chunk that begins at the byte ``start``."""
    row, wrong, column = fault
    content = bytes(text).split(b"\n", row + 1)[row].partition(b"#")[0]
    where = f"line {_count_lines(path, start) + row + 1} of {path}"
    if wrong == 1:
        return FileError(
            f"{where} must have {len(sizes) + 1} columns, an index for each of the {len(sizes)} "
            f"modes and a value, got {column} in {_show(content.strip())}; correct the line"
        )
    token = _show(content.split()[column])
    if wrong in (2, 3):
        return FileError(
            f"{where} must have integers from 1 to {sizes[column]} in column {column + 1}, got "
            f"{token}; indices count from 1"
        )
    if wrong == 4:
        return FileError(f"{where} must end with a number, got {token}; correct the line")
    return FileError(
        f"{where} must end with a finite number, got {token}; leave a missing entry out, or "
        "write nan"
    )


def _count_lines(path: Path, end: int) -> int:
    """Count the lines before a byte, by reading once more."""
    n_lines = 0
    with open_bytes(path) as file:
        while end > 0 and (text := file.read(min(end, CHUNK))):
            n_lines += text.count(b"\n")
            end -= len(text)
    return n_lines


def _line_of(path: Path, header: Header, entry: int) -> int:
    """Find the line of an entry by reading once more."""
    with open_bytes(path) as file:
        for number, line in enumerate(_first_lines(path, file), start=1):
            if number > header.n_lines and line.partition(b"#")[0].split():
                if entry == 0:
                    return number
                entry -= 1
    raise FileError(f"{path} has changed while it was read; read it again")


# writing


def write_tns(path: Path, data: TensorData) -> None:
    """Write the observed entries, and the shape as in the file that was read or in a comment."""
    if data.values.dtype.kind not in "biuf":
        raise InputError(
            f"a .tns file holds real numbers, got {data.values.dtype}; write .npz instead"
        )
    indices, values = data.entries()
    sizes = " ".join(map(str, data.shape))
    style = data.encoding.get("header", "comment")
    head = {"order": f"{len(data.shape)}\n{sizes}\n", "sizes": f"{sizes}\n"}
    kind = np.float32 if values.dtype == np.float32 else np.float64
    number = np.int64 if values.dtype.kind in "biu" else kind
    threads = kernels.thread_count(None)
    with gzip.open(path, "wb", 6) if path.name.lower().endswith(".gz") else path.open("wb") as file:
        file.write(head.get(style, f"# sizes {sizes}\n").encode())
        for row in range(0, len(values), BLOCK):
            block = slice(row, row + BLOCK)
            rows = np.ascontiguousarray(indices[block], dtype=np.int64)
            file.write(kernels.format_entries(rows, values[block].astype(number), threads))
