"""How cost grows: entries, size, rank, order and threads, one at a time around a base."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from tensormend.core import kernels
from tensormend.research.bench.cases import Case
from tensormend.research.bench.contestants import AUTO
from tensormend.research.bench.turns import Benchmark, race

__all__ = ["fit_exponent", "list_cases", "measure_growth"]

BASE = Case("base", 200, 5, 0.05)
SOLVERS = ("rcg", "sm-qrgd")
REPEATS = 5
HUGE = Case("n2000", 2000, 5, 0.01)

RATIOS = (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4)
SIZES = (100, 150, 200, 300, 400, 600)
RANKS = (2, 3, 5, 8, 12, 16, 20)
ORDERS = (2, 3, 4, 5, 6)
ORDER_RANK = 3  # a core of order 6 has 729 entries then
QUICK_POINTS = 2


def _series() -> Iterator[tuple[str, float, Case, int | None]]:
    """Yield the name of a series, the value on its axis, the case and the threads."""
    threads = kernels.thread_count(None)
    for ratio in RATIOS:
        case = replace(BASE, name=f"entries-{ratio:g}", ratio=ratio)
        yield "entries", case.size, case, threads
    for n in SIZES:
        case = replace(BASE, name=f"size-{n}", n=n)
        ratio = case.ratio * BASE.samples_per_degree / case.samples_per_degree
        yield "size", n, replace(case, ratio=ratio), threads
    for rank in RANKS:
        yield "rank", rank, replace(BASE, name=f"rank-{rank}", rank=rank), threads
    total = math.prod(BASE.shape)
    for order in ORDERS:
        n = round(total ** (1 / order))
        shape = {"n": n, "order": order, "rank": ORDER_RANK, "ratio": BASE.size / n**order}
        yield "order", order, replace(BASE, name=f"order-{order}", **shape), threads
    for count in range(1, threads + 1):
        yield "threads", count, replace(BASE, name=f"threads-{count}", n=400), count


def list_cases() -> list[str]:
    """Return the names of the cases."""
    return [*(case.name for _, _, case, _ in _series()), HUGE.name]


def measure_growth(bench: Benchmark, *, is_quick: bool = False, only: Sequence[str] = ()) -> None:
    """Time iterations and whole solves along each series, then recover the huge tensor."""
    n_points: dict[str, int] = {}
    for series, x, case, threads in _series():
        if (only and case.name not in only) or (
            is_quick and n_points.get(series, 0) == QUICK_POINTS
        ):
            continue
        n_points[series] = n_points.get(series, 0) + 1
        if is_quick:
            case = replace(case, n=max(case.n // 4, 4), ratio=min(0.5, 8 * case.ratio))
        _measure_point(bench, series, x, case, threads)
    if not is_quick and (not only or HUGE.name in only):
        race(replace(bench, repeats=1, budget=600.0), "scaling", [HUGE], [AUTO])


def _measure_point(
    bench: Benchmark, series: str, x: float, case: Case, threads: int | None
) -> None:
    name = AUTO if threads != 1 else f"{AUTO}, 1 thread"
    with bench.problem(case) as problem, bench.start() as worker:
        facts = {"problem": str(problem), "threads": threads, "repeats": REPEATS}
        passes = bench.ask(worker, "passes", solvers=SOLVERS, **facts)
        run = {"name": name, "problem": str(problem), "accuracy": case.accuracy}
        solves = [bench.ask(worker, "run", budget=bench.budget, **run) for _ in range(3)]
    times = passes.get("times", {})
    medians = {what: float(np.median(t)) for what, t in times.items() if what != "read"}
    if all(answer["outcome"] == "reached" for answer in solves):
        medians["auto, whole solve"] = float(np.median([answer["seconds"] for answer in solves]))
    bench.write(
        "growth",
        "scaling",
        series=series,
        x=x,
        case=case.as_record(),
        threads=threads,
        seconds=medians,
        outcomes=[passes.get("outcome", "reached"), *(answer["outcome"] for answer in solves)],
        peak_bytes=solves[-1].get("peak_bytes"),
    )
    bench.note(f"scaling: {case.name}: " + ", ".join(f"{k} {v:.3g}" for k, v in medians.items()))


def fit_exponent(xs: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    """Return the least-squares slope of log seconds over log x, and its standard error.

    Examples
    --------
    >>> slope, error = fit_exponent([1, 2, 4], [3, 12, 48])
    >>> round(slope, 6), round(error, 6)
    (2.0, 0.0)
    """
    x, y = np.log(np.asarray(xs, dtype=float)), np.log(np.asarray(seconds, dtype=float))
    x, y = x - x.mean(), y - y.mean()
    slope = float(x @ y / (x @ x))
    freedom = max(len(x) - 2, 1)
    return slope, float(np.sqrt(np.sum((y - slope * x) ** 2) / freedom / (x @ x)))
