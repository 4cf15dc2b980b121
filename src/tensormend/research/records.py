"""Records of experiments: JSON lines that say what was run, on what, and what came out."""

from __future__ import annotations

import gzip
import json
import os
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from tensormend.core import kernels
from tensormend.errors import InputError

__all__ = ["append_record", "describe_machine", "read_records"]


def describe_machine(version: str) -> dict[str, Any]:
    """Return the versions and the machine that a figure depends on."""
    return {
        "tensormend": version,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "machine": platform.machine(),
        "threads": kernels.thread_count(None),
        "native": kernels.is_native,
    }


def append_record(path: str | os.PathLike[str], record: Mapping[str, Any]) -> None:
    """Append one line to a file of records; the line is written whole, or is ignored on reading.

    Arrays, NumPy numbers and tuples become lists and numbers; NaN and infinities become null,
    because JSON has no word for them.
    """
    line = (json.dumps(to_plain(record), allow_nan=False) + "\n").encode()
    target = Path(path)
    if target.exists():
        _drop_cut_off_line(target)
    with target.open("ab") as file:
        file.write(line)


def _drop_cut_off_line(path: Path) -> None:
    """Take away what an interrupted run left after the last whole line."""
    with path.open("rb+") as file:
        end = file.seek(0, os.SEEK_END)
        if end == 0:
            return
        file.seek(end - 1)
        if file.read(1) != b"\n":
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)


def read_records(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """Yield the records of a file, plain or gzipped; the last line may be cut off."""
    source = Path(path)
    raw = gzip.decompress(source.read_bytes()) if source.suffix == ".gz" else source.read_bytes()
    lines = raw.decode().split("\n")
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            yield json.loads(line)
        except json.JSONDecodeError as error:
            if number == len(lines):  # an interrupted run ends without a newline
                return
            raise InputError(
                f"line {number} of {source} is not JSON ({error.msg}); remove it and run again"
            ) from error


def to_plain(value: Any) -> Any:
    """Turn a value into what JSON can hold."""
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
