"""Heaps of HDF5 files, which hold text: the library loops forever on a damaged one."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from tensormend.errors import FileError

__all__ = ["check_heaps"]

MARK = b"GCOL\x01\0\0\0"
HEADER = 16  # bytes before the first object of a heap, and before each object


def check_heaps(path: Path) -> None:
    """Refuse a file with a heap whose objects do not follow each other to its end."""
    if path.stat().st_size == 0:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        offset = data.find(MARK)
        while offset >= 0:
            if not _is_whole(data, offset):
                raise FileError(
                    f"{path} is damaged: the heap at byte {offset} is inconsistent; get it again"
                )
            offset = data.find(MARK, offset + len(MARK))


def _is_whole(data: mmap.mmap, offset: int) -> bool:
    end = offset + int.from_bytes(data[offset + 8 : offset + HEADER], "little")
    if end > len(data):
        return False
    offset += HEADER
    while offset + HEADER <= end:
        number, _, _, size = struct.unpack("<HHIQ", data[offset : offset + HEADER])
        # the object of number 0 is what is free, and counts its own header
        offset += size if number == 0 else HEADER + size + -size % 8
        if offset > end or (number == 0 and size < HEADER):
            return False
    return True
