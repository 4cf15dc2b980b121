"""Count the instructions of the passes by rank, with callgrind, for two builds of the kernels.

    python benchmarks/count_instructions.py OLD/_native.so --dtype float64

Counts are the same in every run, whatever else the machine does; they do not see how fast memory
is. Needs valgrind with its headers and a C compiler.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tensormend.core import kernels
from tensormend.research.bench.ranks import DTYPES, FIBRES, PASSES, RankCase, load_kernels

FRACTION = 0.2  # of the fibres that are timed: counting is slow
REQUESTS = """
#include <valgrind/callgrind.h>
void begin(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
void end(const char *name) { CALLGRIND_DUMP_STATS_AT(name); CALLGRIND_STOP_INSTRUMENTATION; }
"""


def count(folder: Path, against: str, dtype: str, ranks: list[int]) -> None:
    """Run every pass once, between requests to valgrind; this runs under it."""
    requests = ctypes.CDLL(str(folder / "requests.so"))
    modules = {"ours": kernels.active, "theirs": load_kernels(against)}
    for fibres in FIBRES:
        for rank in ranks:
            case = RankCase.draw(rank, dtype, fibres, FRACTION)
            for who, module in modules.items():
                for name, run in case.passes(module).items():
                    run()
                    requests.begin()
                    run()
                    requests.end(f"{who}|{fibres}|{rank}|{name}|".encode())


def read_counts(folder: Path) -> dict[tuple[str, ...], int]:
    """Return the counts that callgrind has written, by what was run."""
    counts = {}
    for path in folder.glob("out.*"):
        text = path.read_text()
        label = re.search(r"Client Request: (.*)\|", text)
        total = re.search(r"^(?:summary|totals): (\d+)", text, re.MULTILINE)
        if label is not None and total is not None:
            counts[tuple(label[1].split("|"))] = int(total[1])
    return counts


def main() -> None:
    """Count, and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("against", help="another build of the kernels, _native*.so")
    parser.add_argument("--dtype", choices=DTYPES, default="float64")
    parser.add_argument("--ranks", type=int, nargs="+", default=list(range(1, 65)))
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.folder is not None:
        count(given.folder, given.against, given.dtype, given.ranks)
        return
    with tempfile.TemporaryDirectory(prefix="tensormend-count-") as name:
        folder = Path(name)
        (folder / "requests.c").write_text(REQUESTS)
        compile_it = ["cc", "-shared", "-fPIC", "-o", "requests.so", "requests.c"]
        subprocess.run(compile_it, check=True, cwd=folder)  # noqa: S603
        valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--quiet"]
        again = [sys.executable, *sys.argv, "--folder", name]
        subprocess.run(  # noqa: S603
            [*valgrind, f"--callgrind-out-file={folder / 'out'}", *again], check=True
        )
        counts = read_counts(folder)
    print(f"{given.dtype}: our instructions over those of {given.against}")
    for fibres in FIBRES:
        for what in PASSES:
            ratios = {
                rank: counts["ours", fibres, str(rank), what]
                / counts["theirs", fibres, str(rank), what]
                for rank in given.ranks
            }
            mean = statistics.geometric_mean(ratios.values())
            worst = max(ratios, key=ratios.__getitem__)
            print(f"{fibres}, {what}: {mean:.3f}, largest {ratios[worst]:.3f} at rank {worst}")


if __name__ == "__main__":
    main()
