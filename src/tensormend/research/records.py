"""Records of experiments: JSON lines that say what was run, on what, and what came out."""

from __future__ import annotations

import gzip
import importlib.metadata
import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from threadpoolctl import threadpool_info

from tensormend.core import kernels
from tensormend.core.storage import atomic_write
from tensormend.errors import InputError

__all__ = [
    "Record",
    "append_record",
    "describe_machine",
    "filter_records",
    "find_versions",
    "read_records",
    "store_records",
    "to_plain",
]

Record = dict[str, Any]

LARGE = 200_000  # bytes above which records are stored compressed


def describe_machine(packages: Sequence[str] = ()) -> dict[str, Any]:
    """Return the versions and the machine that a measurement depends on.

    Parameters
    ----------
    packages : sequence of str, default=()
        Further packages whose versions are recorded, ``None`` where one is not installed.

    Returns
    -------
    dict
        Versions by package, and ``machine``, ``threads``, ``blas_threads`` and ``native``.
    """
    pools = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    return {
        "tensormend": importlib.metadata.version("tensormend"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "machine": platform.machine(),
        "threads": kernels.thread_count(None),
        "native": kernels.is_native,
        "blas_threads": max(pools, default=1),
        **dict.fromkeys(packages),
        **find_versions(packages),
    }


def find_versions(packages: Sequence[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def append_record(path: str | os.PathLike[str], record: Mapping[str, Any]) -> None:
    """Append one line to a file of records; a line that was cut off is ignored on reading.

    Arrays, NumPy numbers and tuples become lists and numbers; NaN and infinities become null,
    because JSON cannot represent them.
    """
    line = (json.dumps(to_plain(record), allow_nan=False) + "\n").encode()
    target = Path(path)
    if target.exists():
        _drop_cut_off_line(target)
    with target.open("ab") as file:
        file.write(line)


def _drop_cut_off_line(path: Path) -> None:
    """Remove what an interrupted run left after the last complete line."""
    with path.open("rb+") as file:
        end = file.seek(0, os.SEEK_END)
        if end == 0:
            return
        file.seek(end - 1)
        if file.read(1) != b"\n":
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)


def read_records(path: str | os.PathLike[str]) -> Iterator[Record]:
    """Yield the records of a file, plain or gzipped; the last line may be cut off."""
    source = Path(path)
    lines = _read_bytes(source).decode().split("\n")
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


def filter_records(path: Path, keep: Callable[[Record], bool]) -> None:
    """Remove the records for which ``keep`` is false from a file, which may not exist yet."""
    if path.exists():
        kept = [json.dumps(record) + "\n" for record in read_records(path) if keep(record)]
        with atomic_write(path) as file:
            file.write("".join(kept).encode())


def store_records(sources: Sequence[Path], target: Path) -> Path:
    """Write the records of some files into one, compressed where they are large.

    Parameters
    ----------
    sources : sequence of Path
        Files to read, plain or gzipped, in this order; those that do not exist are skipped.
    target : Path
        Plain file to write, with the suffix ``.jsonl``.

    Returns
    -------
    Path
        The file written: ``target``, or the same name with ``.gz`` appended.
    """
    raw = b"".join(_read_bytes(source) for source in sources if source.exists())
    is_large = len(raw) > LARGE
    written = target.with_suffix(".jsonl.gz") if is_large else target
    with atomic_write(written) as file:
        file.write(gzip.compress(raw, mtime=0) if is_large else raw)
    return written


def _read_bytes(path: Path) -> bytes:
    raw = path.read_bytes()
    return gzip.decompress(raw) if path.suffix == ".gz" else raw


def to_plain(value: Any) -> Any:
    """Convert a value to what JSON can represent."""
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
