"""Time tensormend beside dense NumPy versions of the paper's methods, and its passes beside a read.

Run with ``python benchmarks/speed.py``; it takes some minutes and prints Markdown. Contestants
take turns and medians are shown; one that misses the accuracy is not timed but called out. Times
of tensormend begin with indices and values: sorting and initialization are included. What carries
over to another machine is the ratios.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import tensormend as tm
from tensormend import kernels
from tensormend.experiments import dense
from tensormend.storage import atomic_write

ACCURACY = 1e-10
MAX_ITER = 400


def problem(n: int, rank: int, ratio: float) -> tuple[tm.Tucker, Any, Any]:
    shape = (n, n, n)
    truth = tm.simulate.random_tucker(shape, rank, rng=0)
    indices = tm.simulate.sample_indices(shape, ratio, rng=1)
    return truth, indices, tm.Sampling(shape, indices).forward(truth)


def run_dense(name: str, step: str, truth: tm.Tucker, indices: Any, values: Any) -> float:
    """Return the seconds to the accuracy; the checks of the true error are kept off the clock."""
    data, mask = np.zeros(truth.shape), np.zeros(truth.shape, dtype=bool)
    data[tuple(indices.T)], mask[tuple(indices.T)] = values, True
    full, seconds = truth.dense(), 0.0
    iterates = getattr(dense, name)(data, mask, truth.rank, step=step)
    for _ in range(MAX_ITER):
        clock = time.perf_counter()
        x = next(iterates).x
        seconds += time.perf_counter() - clock
        if np.linalg.norm(x - full) <= ACCURACY * np.linalg.norm(full):
            return seconds
    return np.nan


def run_ours(name: str, step: str | None, truth: tm.Tucker, indices: Any, values: Any) -> float:
    clock = time.perf_counter()
    result = tm.complete(
        values,
        truth.rank,
        indices=indices,
        shape=truth.shape,
        method=name,
        step=step,
        start="corrected" if step is None else "spectral",
        tol=ACCURACY / 2,
        max_iter=MAX_ITER,
    )
    seconds = time.perf_counter() - clock
    return seconds if result.x.distance(truth) <= ACCURACY * truth.norm() else np.nan


def take_turns(contestants: dict[str, Callable[[], float]], repeats: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, run in contestants.items():
            times[name].append(run())
    return {
        name: np.nan if np.isnan(seconds).any() else statistics.median(seconds)
        for name, seconds in times.items()
    }


def race(
    n: int, ratio: float, theirs: Sequence[str], ours: Sequence[str], step: str, repeats: int
) -> list[str]:
    truth, indices, values = problem(n, 5, ratio)
    contestants: dict[str, Callable[[], float]] = {}
    for name in theirs:
        contestants[f"dense {name}"] = partial(run_dense, name, step, truth, indices, values)
    for name in ours:
        own = step if name in ("sm-qrgd", "rgd") else None
        contestants[name] = partial(run_ours, name, own, truth, indices, values)
    with threadpool_limits(limits=kernels.thread_count(None), user_api="blas"):
        times = take_turns(contestants, repeats)
    yardstick = np.nanmin([times[f"dense {name}"] for name in theirs])
    rows = []
    for name, seconds in times.items():
        shown = "missed the accuracy" if np.isnan(seconds) else f"{seconds:.3g}"
        against = "" if np.isnan(seconds) else f"{yardstick / seconds:.1f}"
        rows.append(f"| {n} | {ratio} | {step} | {name} | {shown} | {against} |")
    return rows


def read_seconds(arrays: Sequence[Any], threads: int) -> float:
    """Seconds of a plain read: every thread sums its share of the bytes."""

    def read(k: int) -> None:
        for split in parts:
            np.add.reduce(split[k])

    words = [array[: array.size // 2 * 2].view(np.int64) for array in arrays]
    parts = [np.array_split(word, threads) for word in words]
    clock = time.perf_counter()
    workers = [threading.Thread(target=read, args=(k,)) for k in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return time.perf_counter() - clock


def time_passes(n: int, ratio: float, repeats: int) -> list[str]:
    truth, indices, values = problem(n, 5, ratio)
    threads = kernels.thread_count(None)
    operator = tm.Sampling(truth.shape, indices, threads=threads)
    tangent_problem = tm.Problem(operator, values, truth.rank)
    start = tm.initial.corrected_start(tangent_problem)
    states: dict[str, Any] = {
        name: (solver, solver.init(tangent_problem, start))
        for name, solver in (("rgd", tm.solvers.RGD()), ("rcg", tm.solvers.RCG()))
    }

    def timed(run: Callable[[], object]) -> Callable[[], float]:
        def go() -> float:
            clock = time.perf_counter()
            run()
            return time.perf_counter() - clock

        return go

    contestants = {
        "read": lambda: read_seconds([values, operator.fibres.leaves], threads),
        "pull-back pass": timed(lambda: operator.pullback(start, values)),
        "rgd iteration": timed(lambda: states["rgd"][0].step(tangent_problem, states["rgd"][1])),
        "rcg iteration": timed(lambda: states["rcg"][0].step(tangent_problem, states["rcg"][1])),
    }
    with threadpool_limits(limits=1, user_api="blas"):
        times = take_turns(contestants, repeats)
    return [
        f"| {n} | {ratio} | {len(values):,} | {name} | {seconds / times['read']:.1f} |"
        for name, seconds in times.items()
        if name != "read"
    ]


def report(quick: bool) -> str:
    repeats = 1 if quick else 3
    lines = [
        "# Performance",
        "",
        "Written by `python benchmarks/speed.py --write docs/performance.md`: rank 5, noiseless,",
        f"{kernels.thread_count(None)} threads, {platform.machine()}, Python "
        f"{platform.python_version()}, NumPy {np.__version__}.",
        "",
        "## Against dense NumPy versions of the paper's methods",
        "",
        "Seconds to a true relative error of 1e-10. The last column is how many times faster than",
        "the fastest dense method with that step. Dense methods have all BLAS threads. The methods",
        "of the paper (rgd, sm-qrgd) begin with its spectral start here as there; rcg and rgn with",
        "the corrected start. Medians of three, but single runs where the dense methods take half",
        "a minute.",
        "",
        "| n | ratio | step | method | seconds | times faster |",
        "|---|---|---|---|---|---|",
    ]
    paper = ("rgd", "smqrgd", "sempiht")
    ours = ("sm-qrgd", "rgd", "rcg", "rgn")
    lines += race(100, 0.3, paper, ours, "normalized", repeats)
    if not quick:
        lines += race(300, 0.3, ("rgd", "smqrgd"), ours, "normalized", 3)
        lines += race(300, 0.3, ("smqrgd",), ("sm-qrgd",), "constant", 1)
        lines += race(400, 0.02, ("rgd",), ("rgd", "rcg", "rgn"), "normalized", 1)
    lines += [
        "",
        "## Against a plain read",
        "",
        "Time of a pass, and of a whole iteration, as a multiple of a threaded read of the values",
        "and lead-mode indices.",
        "",
        "| n | ratio | entries | what | times a read |",
        "|---|---|---|---|---|",
    ]
    lines += time_passes(100 if quick else 300, 0.3, 20)
    if not quick:
        lines += time_passes(1000, 0.01, 20)
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small cases only")
    parser.add_argument("--write", type=Path, help="file to write to instead of the screen")
    arguments = parser.parse_args()
    text = report(arguments.quick)
    if arguments.write is None:
        sys.stdout.write(text)
        return
    with atomic_write(arguments.write) as file:
        file.write(text.encode())


if __name__ == "__main__":
    main()
