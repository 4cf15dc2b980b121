"""Print how fast large .tns and .csv files are read beside a plain read of their bytes.

Run with ``python benchmarks/read_files.py``. Files are read in turns with the cache warm, and
medians are compared; ``numpy.loadtxt`` and pandas read the first part of the same files.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tensormend as tm
from tensormend.data.formats import load, save
from tensormend.data.observations import TensorData

SHAPE = (4000, 3000, 2000)
BLOCK = 2**18  # rows that are written at a time
LINE_BYTES = 33  # of an entry of this shape, with 17 digits of its value


def make_entries(n_bytes: float) -> TensorData:
    indices = tm.simulate.sample_indices(SHAPE, n_bytes / LINE_BYTES / np.prod(SHAPE), rng=0)
    values = np.random.default_rng(1).normal(size=len(indices))
    return TensorData(values, indices=np.asarray(indices), shape=SHAPE)


def write_csv(path: Path, data: TensorData) -> None:
    """Write only the observed entries; `save` writes a row for every entry."""
    indices, values = data.entries()
    for row in range(0, len(values), BLOCK):
        part = pd.DataFrame(indices[row : row + BLOCK], columns=["sensor", "day", "minute"])
        part["speed"] = values[row : row + BLOCK]
        part.to_csv(path, mode="a", header=row == 0, index=False)


def cut(path: Path, n_bytes: float) -> Path:
    """Copy the first lines."""
    part = path.with_name(f"part{path.suffix}")
    with path.open("rb") as file:
        text = file.read(int(n_bytes))
    part.write_bytes(text[: text.rfind(b"\n") + 1])
    return part


def read_plainly(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        while file.read(2**24):
            pass


def measure(readers: dict[str, tuple[Path, Callable[[Path], Any]]], repeats: int) -> None:
    """Time the readers in turns, and print medians in megabytes a second."""
    seconds: dict[str, list[float]] = {name: [] for name in readers}
    for _ in range(repeats):
        for name, (path, read) in readers.items():
            clock = time.perf_counter()
            read(path)
            seconds[name].append(time.perf_counter() - clock)
    base = 0.0
    print("| reader | MB | seconds | MB/s | times a plain read of as many bytes |")
    print("|---|---|---|---|---|")
    for name, (path, _) in readers.items():
        size, median = path.stat().st_size / 1e6, statistics.median(seconds[name])
        base = base or median / size
        ratio = median / size / base
        print(f"| {name} | {size:.0f} | {median:.3g} | {size / median:.0f} | {ratio:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=200, help="size of each file")
    parser.add_argument("--repeats", type=int, default=5, help="turns")
    arguments = parser.parse_args()
    n_bytes = 1e6 * arguments.megabytes
    with tempfile.TemporaryDirectory() as folder:
        entries, table = Path(folder) / "data.tns", Path(folder) / "data.csv"
        data = make_entries(n_bytes)
        clock = time.perf_counter()
        save(entries, data)
        elapsed = time.perf_counter() - clock
        print(f"writing {entries.name}: {entries.stat().st_size / 1e6 / elapsed:.0f} MB/s\n")
        write_csv(table, data)
        parts = cut(entries, n_bytes / 20), cut(table, n_bytes / 20)
        print("Median of several turns, cache warm\n")
        measure(
            {
                "plain read": (entries, read_plainly),
                "load .tns": (entries, load),
                "numpy.loadtxt .tns, a part": (parts[0], np.loadtxt),
                "load .csv": (table, load),
                "pandas.read_csv .csv": (table, pd.read_csv),
                "numpy.loadtxt .csv, a part": (
                    parts[1],
                    lambda path: np.loadtxt(path, delimiter=",", skiprows=1),
                ),
            },
            arguments.repeats,
        )


if __name__ == "__main__":
    main()
