"""Damaged files, and a process that tries to load them: a library in C may end it, not the tests.

``python damage.py FOLDER`` loads every file of a folder and writes a line before and after each:
"refused", or "loaded" and a number that tells values apart.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import tensormend as tm
from tensormend.data.observations import TensorData
from tensormend.errors import TensormendError

MEMORY_LIMIT = 2**28  # bytes that an array may take, and
ADDRESS_SPACE = 2**32  # all that the process may
SECONDS = 20  # for one file


def truncated(whole: bytes, count: int) -> Iterator[bytes]:
    """Cut a file short at many lengths."""
    for length in np.unique(np.linspace(0, len(whole) - 1, count).astype(int)):
        yield whole[:length]


def flipped(whole: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Change a few bytes, to any value or to one that a length or a count would feel."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        out = bytearray(whole)
        reach = len(out) if rng.random() < 0.5 else min(len(out), 512)  # headers come first
        for position in rng.integers(reach, size=rng.integers(1, 9)):
            out[position] = rng.choice([0, 1, 127, 128, 255, int(rng.integers(256))])
        yield bytes(out)


def write_damaged(path: Path, folder: Path, *, cuts: int, flips: int, seed: int = 0) -> int:
    """Write damaged copies of a file, or of a folder with one file damaged; return how many.

    Names of files that are cut short begin with "cut", those of others with "flip".
    """
    ending = path.name[path.name.index(".") :]
    parts = [part for part in sorted(path.rglob("*")) if part.is_file()] or [path]
    count = 0
    for part in parts:
        whole = part.read_bytes()
        shorter = [("cut", bad) for bad in truncated(whole, -(-cuts // len(parts)))]
        changed = [("flip", bad) for bad in flipped(whole, -(-flips // len(parts)), seed)]
        for kind, bad in shorter + changed:
            copy = folder / f"{kind}{count:05}{ending}"
            if path.is_dir():
                shutil.copytree(path, copy)
                (copy / part.relative_to(path)).write_bytes(bad)
            else:
                copy.write_bytes(bad)
            count += 1
    return count


def try_all(folder: Path) -> dict[str, str]:
    """Load every file of a folder in a process of its own; return what came of each."""
    run = subprocess.run(  # noqa: S603
        [sys.executable, __file__, str(folder)], check=False, capture_output=True, text=True
    )
    lines = [line.split(" ", 1) for line in run.stdout.splitlines()]
    outcomes = {line[0]: line[1] if len(line) > 1 else "the process ended" for line in lines}
    if run.returncode != 0:
        outcomes["the process"] = f"ended with {run.returncode}: {run.stderr}"
    return outcomes


def digest(data: TensorData) -> int:
    """Return a number that tells the shape, the indices and the values of a tensor from others."""
    indices, values = data.entries()
    return zlib.crc32(repr(data.shape).encode() + indices.tobytes() + values.tobytes())


def _main(folder: Path) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    for path in sorted(folder.iterdir()):
        sys.stdout.write(f"{path.name}\n")
        sys.stdout.flush()
        signal.alarm(SECONDS)
        try:
            outcome = f"loaded {digest(tm.load(path, memory_limit=MEMORY_LIMIT))}"
        except TensormendError as error:
            named = path.name in str(error)
            outcome = "refused" if named else f"did not name the file: {error}"
        except Exception as error:
            outcome = f"raised {type(error).__name__}: {error}"
        signal.alarm(0)
        sys.stdout.write(f"{path.name} {' '.join(outcome.split())}\n")


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
