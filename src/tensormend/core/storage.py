"""Atomic writes (temporary file, then rename), and named arrays in one ``.npz`` file."""

from __future__ import annotations

import os
import secrets
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np

from tensormend.core.algebra import Array
from tensormend.errors import InputError

__all__ = [
    "FORMAT_VERSION",
    "UNREADABLE",
    "atomic_write",
    "check_folder",
    "hold",
    "load_arrays",
    "save_arrays",
]

FORMAT_VERSION = 1
"""Version of the files that `save_arrays` writes; raise it when an array changes its meaning."""

UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    LookupError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
)
"""What the readers of archives and array headers raise on damaged bytes."""


def check_folder(path: str | os.PathLike[str]) -> Path:
    """Check that a file can be written where a path points, before any work is done for it."""
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(f"the folder of {target} does not exist; create {target.parent} first")
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"the folder of {target} cannot be written to; choose another")
    return target


def hold(path: Path) -> BinaryIO:
    """Open a file that nobody else can hold as long as it is open, or raise `BlockingIOError`.

    However a process ends, the system lets go of what it held.
    """
    file = path.open("ab")
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError) as error:
        file.close()
        raise BlockingIOError(f"{path} is held by another process") from error
    except OSError:  # a file system that has no locks
        pass
    return file


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a temporary file in the folder of ``path``, and rename it if the block succeeds."""
    target = check_folder(path)
    temporary = target.parent / f".{target.name}.{secrets.token_hex(6)}.part"
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
    handle = os.open(temporary, flags, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def save_arrays(path: str | os.PathLike[str], kind: str, arrays: Mapping[str, Array]) -> None:
    """Write named arrays to one uncompressed ``.npz`` file, with its kind and format version."""
    head = {"kind": np.array(kind), "format_version": np.array(FORMAT_VERSION)}
    with atomic_write(path) as file:
        np.savez(file, **head, **dict(arrays))  # type: ignore[arg-type]


def load_arrays(path: str | os.PathLike[str], kind: str) -> dict[str, Array]:
    """Read the arrays of a file made by `save_arrays`; refuse another kind or a newer format."""
    try:
        with Path(path).open("rb") as file:  # np.load leaves its own file open if it fails
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("it holds a single array")
            arrays = {name: archive[name] for name in archive.files}
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise ValueError("it holds other things than arrays")
    except FileNotFoundError:
        raise
    except UNREADABLE as error:
        raise InputError(
            f"{os.fspath(path)} should be an .npz file written by tensormend, but is damaged or "
            "something else; check the file name"
        ) from error
    found = str(arrays.pop("kind", ""))
    if found != kind:
        raise InputError(
            f"{os.fspath(path)} should hold a {kind}, found {found or 'something else'}; "
            "check the file name"
        )
    version = int(arrays.pop("format_version", 0))
    if version > FORMAT_VERSION:
        raise InputError(
            f"{os.fspath(path)} has format version {version}, written by a newer tensormend; this "
            f"version reads up to {FORMAT_VERSION}; upgrade with pip install -U tensormend"
        )
    return arrays
