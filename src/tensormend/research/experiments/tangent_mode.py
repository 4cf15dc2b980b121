"""Tangent mode (figure 3): the tangent space of mode 0, 1 or 2 where the ranks differ.

``tensormend reproduce tangent_mode``. Sizes and orders of modes as in the paper: n = 100,
r = (10, 20, 30), ratio 0.3; it does not say which step it took, so both are run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tensormend.research.experiments.traces import (
    IMPLEMENTATIONS,
    STEPS,
    draw_again,
    format_seconds,
    median_seconds,
    run_completion,
)
from tensormend.research.pages import make_table
from tensormend.research.records import Record
from tensormend.research.runner import Experiment, Settings
from tensormend.research.summary import Claim, group

__all__ = ["EXPERIMENT"]

ORDERS = ((0, 1, 2), (1, 0, 2), (2, 0, 1))  # the paper's [1,2,3], [2,1,3] and [3,1,2]


def grid(preset: str) -> Iterator[Settings]:
    """Three orders, two steps, and repeats of the timing."""
    paper = preset == "paper"
    size = {"n": 100, "rank": [10, 20, 30]} if paper else {"n": 30, "rank": [2, 4, 6]}
    for repeat in range(5 if paper else 1):
        for step in STEPS:
            for implementation in IMPLEMENTATIONS:
                for modes in ORDERS:
                    who = {"implementation": implementation, "mode_order": list(modes)}
                    stop = {"tol": 1e-10, "max_iter": 200, "ratio": 0.3, "repeat": repeat}
                    yield {"method": "sm-qrgd", **who, "step": step, **stop, **size}


def run(settings: Settings) -> dict[str, Any]:
    """Complete samples with one of the modes as the tangent mode."""
    problem = draw_again(settings["n"], settings["rank"], settings["ratio"], settings["seed"])
    return run_completion(*problem, settings)


def describe(records: Sequence[Record]) -> dict[str, str]:
    """Tabulate iterations and times, and tell whether a smaller rank is faster."""
    rows = []
    counts: dict[str, list[float]] = {}
    times: dict[tuple[str, str], list[float]] = {}
    keys = ("step", "implementation", "mode_order")
    for (step, implementation, modes), own in group(records, *keys).items():
        results, rank = own[0]["results"], own[0]["settings"]["rank"][modes[0]]
        seconds = median_seconds(own)
        if implementation == "kernels":
            counts.setdefault(step, []).append(results["n_iter"])
        times.setdefault((step, implementation), []).append(seconds)
        count = (
            str(results["n_iter"]) if results["reached"] else f"{results['n_iter']}, not reached"
        )
        rows.append((step, implementation, f"{modes[0]} ({rank})", count, format_seconds(own)))
    sentences = [_compare(f"{step} step, iterations", values) for step, values in counts.items()]
    sentences += [
        _compare(f"{step} step, time, {implementation}", values)
        for (step, implementation), values in times.items()
    ]
    settings = records[0]["settings"]
    head = ["step", "implementation", "tangent mode (rank)", "iterations", "seconds"]
    return {
        "table": make_table(head, rows),
        "verdict": "\n".join(f"* {sentence}" for sentence in sentences),
        "n": str(settings["n"]),
        "rank": str(tuple(settings["rank"])),
    }


def claims(records: Sequence[Record]) -> list[Claim]:
    """Say whether the mode of the smallest rank, the first, is the fastest."""
    counts = {}
    for (step, implementation), own in group(records, "step", "implementation").items():
        seconds = [median_seconds(runs) for runs in group(own, "mode_order").values()]
        counts[f"{implementation}, {step} step"] = (int(min(seconds) == seconds[0]), 1)
    what = "the tangent space of the mode with the smallest rank is the fastest (figure 3)"
    return [Claim(what, counts)]


def _compare(what: str, values: Sequence[float]) -> str:
    """Say whether values grow with the rank of the tangent mode."""
    listed = ", ".join(f"{value:.3g}" for value in values)
    if list(values) == sorted(values) and values[0] < values[-1]:
        return f"{what}: {listed} for modes 0, 1, 2: the smaller the rank the better, as claimed."
    best = min(range(len(values)), key=values.__getitem__)
    ending = "mode 0 is still best" if best == 0 else f"mode {best} is best, not mode 0"
    return f"{what}: {listed} for modes 0, 1, 2: not in the order of the ranks; {ending}."


EXPERIMENT = Experiment(
    "tangent_mode",
    "Tangent space of different modes",
    grid,
    run,
    describe,
    timed=True,
    claims=claims,
    paired=("implementation", "mode_order", "step", "repeat"),
    seed_name="lead",  # its first name: the seeds of the records stay what they are
)
