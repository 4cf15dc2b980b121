"""The bars of the benchmark, and whether the records meet them."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from tensormend.research.bench.contestants import AUTO, DENSE_NAMES
from tensormend.research.bench.findings import Findings
from tensormend.research.custom import is_custom
from tensormend.research.summary import Bar, divide

__all__ = ["FEWEST", "check_bars", "fewest"]

FEWEST = {2: 0.015, 5: 0.007, 10: 0.015, 15: 0.02, 20: 0.03}  # fraction of entries by rank
RIEMANNIAN = {
    "pymanopt": "pymanopt CG",
    "conjugate gradients written on tucker-riemopt": "tucker-riemopt RCG",
    "the same, rows gathered": "tucker-riemopt RCG, gathered",
}
EXPANDED = ("tucker-riemopt RCG, expanded",)  # with every entry of the small tensor formed
TENSORLY = ("TensorLy tucker",)
GIGABYTE = 1e9


def check_bars(findings: Findings) -> list[Bar]:
    """Compare the records with every bar."""
    return [
        *_check_passes(findings),
        *_check_races(findings),
        *_check_large(findings),
        *_check_few(findings),
        *_check_grid(findings),
        *_check_import(findings),
    ]


def _check_passes(findings: Findings) -> Iterator[Bar]:
    def reads(case: str, what: str) -> float | None:
        return divide(findings.pass_seconds(case, what), findings.pass_seconds(case, "read"))

    what = "a gradient pass, n = 300, 30% observed (8.1 million entries), beside a plain read"
    yield Bar.at_most(what, 3, reads("n300", "gradient pass"), " reads")
    for method in ("rgd", "rcg"):
        what = f"an iteration of {method}, n = 1000, 1% observed, beside a plain read"
        yield Bar.at_most(what, 12, reads("n1000", f"{method} iteration"), " reads")

    def times(case: str, what: str, unit: str) -> float | None:
        return divide(findings.pass_seconds(case, what), findings.pass_seconds(case, unit))

    name = "sm-qrgd, constant iteration"
    what = "an iteration of SM-QRGD, constant step, n = 300, 30% observed, beside its own pass"
    yield Bar.at_most(what, 1.4, times("n300", name, "sm-qrgd, constant passes"), " passes")
    what = "the same beside an iteration of RGD with the constant step"
    yield Bar.at_most(what, 1.5, times("n300", name, "rgd, constant iteration"), " iterations")
    what = "an iteration of SM-QRGD, n = 1000, 1% observed, beside its own passes"
    measured = times("n1000", "sm-qrgd iteration", "sm-qrgd passes")
    yield Bar.at_most(what, 2, measured, " times their time")


def _check_races(findings: Findings) -> Iterator[Bar]:
    def gain(case: str, slow: tuple[str, ...] | None, fast: str = AUTO) -> float | None:
        return findings.ratio(case, DENSE_NAMES if slow is None else slow, fast)

    constant = gain("n300-constant", None, "sm-qrgd, constant")
    what = "SM-QRGD, constant step, n = 300, 30% observed, against dense NumPy SM-QRGD"
    yield Bar.at_least(what, 9, constant)
    yield Bar.at_least(
        "`auto`, n = 100, 30% observed, against the best dense NumPy method", 5, gain("n100", None)
    )
    yield Bar.at_least(
        "`auto`, n = 100, 30% observed, against TensorLy", 90, gain("n100", TENSORLY)
    )
    for words, name in RIEMANNIAN.items():
        what = f"`auto`, n = 100, 30% observed, against {words} (PyTorch)"
        yield Bar.at_least(what, 30, gain("n100", (name,)))
    what = (
        "`auto`, n = 100, 30% observed, against the same, every entry of the small tensor formed "
        "(PyTorch)"
    )
    yield Bar.at_least(what, 12, gain("n100", EXPANDED))
    yield Bar.at_least(
        "`auto`, n = 300, 30% observed, against the best dense NumPy method", 7, gain("n300", None)
    )
    yield Bar.at_least(
        "`auto`, n = 400, 2% observed, against the best dense NumPy method", 80, gain("n400", None)
    )


def _check_large(findings: Findings) -> Iterator[Bar]:
    case = "`auto`, n = 1000, 1% observed (10 million entries)"
    entry = next((e for e in findings.entries("races", "n1000") if e.contestant == AUTO), None)
    peak = None if entry is None or entry.seconds is None else entry.peak_bytes
    yield Bar.at_most(
        f"{case}: peak memory of the process", 1, None if peak is None else peak / GIGABYTE, " GB"
    )
    reads = divide(findings.seconds("n1000", [AUTO]), findings.pass_seconds("n1000", "read"))
    yield Bar.at_most(f"{case}: total time beside a plain read", 250, reads, " reads")
    yield Bar.at_least(
        f"{case}: two threads against one, whole solve",
        1.7,
        findings.ratio("n1000", ["auto, 1 thread"], AUTO),
    )
    name = "gradient pass"
    both = findings.pass_seconds("n1000", name, 1), findings.pass_seconds("n1000", name, 2)
    yield Bar.at_least("two threads against one, a gradient pass there", 1.7, divide(*both))


def fewest(findings: Findings, rank: int, contestant: str = AUTO) -> float | None:
    """Return the smallest fraction of entries from which on, going down, a method recovered."""
    rungs = {
        record["ratio"]: record["n_recovered"] >= record["n_needed"]
        for record in findings.of("few")
        if record["contestant"] == contestant and record["rank"] == rank
    }
    smallest = None
    for ratio in sorted(rungs, reverse=True):
        if rungs[ratio]:
            smallest = ratio
    return smallest


def _check_few(findings: Findings) -> Iterator[Bar]:
    for rank, limit in FEWEST.items():
        what = f"smallest fraction of entries that `auto` needs at n = 100, rank {rank}"
        yield Bar.at_most(what, limit, fewest(findings, rank))


def _check_grid(findings: Findings) -> Iterator[Bar]:
    worst: float | None = None
    lost: list[str] = []
    for case in findings.case_names("grid"):
        entries = findings.entries("grid", case)
        times = {
            e.contestant: e.seconds
            for e in entries
            if e.seconds is not None and not is_custom(e.contestant)
        }
        if AUTO not in times:
            lost += [case] if times else []
        else:
            worst = max(worst or 0.0, times[AUTO] / min(times.values()))
    what = "`auto` on the grid, beside the best of our methods in each cell"
    yield Bar.at_most(what, 1.5, worst, " times its time")
    n_cells = len(findings.case_names("grid"))
    yield Bar.check(
        "cells of the grid that one of our methods recovers and `auto` does not",
        "none",
        lost if n_cells else None,
        lambda cells: ", ".join(cells) or f"none of {n_cells}",
        lambda cells: not cells,
    )


def _check_import(findings: Findings) -> Iterator[Bar]:
    times = [statistics.median(record["seconds"]) for record in findings.of("import")]
    what = "`import tensormend`, NumPy included"
    yield Bar.at_most(what, 0.3, times[-1] if times else None, " s")
