"""Beyond the grid of the paper: tensors of order 4, ranks up to half the size, Gaussian operators.

``tensormend reproduce beyond``. Where is SM-QRGD the method to choose? The paper's three methods,
with dense arrays and with the kernels, and the other methods of `tensormend.recover`, run to a true
error of 1e-5: over the sampling ratio at order 4, over the rank, and over the number of
measurements of two operators on the same tensors, samples of entries and a Gaussian matrix.
Truncations take the modes in the order that each method chooses.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tensormend.core.algebra import Array
from tensormend.core.tucker import Tucker
from tensormend.operators import MatrixOperator
from tensormend.research.custom import label_method
from tensormend.research.experiments.traces import (
    IMPLEMENTATIONS,
    STEPS,
    draw_again,
    find_fastest,
    format_seconds,
    have_arrived,
    median_init_seconds,
    median_seconds,
    run_completion,
)
from tensormend.research.pages import make_table
from tensormend.research.records import Record
from tensormend.research.runner import Experiment, Settings
from tensormend.research.summary import group
from tensormend.simulate import gaussian_tucker

__all__ = ["EXPERIMENT", "PANELS", "draw_gaussian"]

PANELS: Final = {"order": "ratio", "rank": "rank", "sampling": "ratio", "gaussian": "ratio"}
METHODS: Final = ("sm-qrgd", "sempiht", "rgd")  # of the paper
OTHERS: Final = ("rcg", "rbb", "rgn", "auto")  # without a choice of step
TOL: Final = 1e-5
MAX_ITER: Final = 200


def grid(preset: str) -> Iterator[Settings]:
    """Every point once, then again with another problem: methods alternate."""
    paper = preset == "paper"
    for problem in range(5 if paper else 1):
        for point in _points(paper):
            fixed = {**point, "problem": problem, "tol": TOL, "max_iter": MAX_ITER}
            fixed["mode_order"] = None
            for implementation in IMPLEMENTATIONS:
                if implementation == "dense" and point["panel"] == "gaussian":
                    continue  # dense methods are for samples
                for method in METHODS:
                    for step in STEPS:
                        who = {"implementation": implementation, "method": method, "step": step}
                        yield {**fixed, **who}
                for method in OTHERS if implementation == "kernels" else ():
                    who = {"implementation": implementation, "method": method}
                    yield {**fixed, **who, "step": None}


def _points(paper: bool) -> Iterator[Settings]:
    n, size = (40, 4) if paper else (10, 4)
    for ratio in (0.05, 0.1, 0.3, 0.6) if paper else (0.4,):
        yield {"panel": "order", "n": n, "order": size, "rank": 5 if paper else 2, "ratio": ratio}
    for rank in (2, 5, 10, 20, 30, 40, 50) if paper else (2, 4):
        n = 100 if paper else 16
        yield {"panel": "rank", "n": n, "order": 3, "rank": rank, "ratio": 0.3 if paper else 0.6}
    for ratio in (0.15, 0.3, 0.6, 0.9) if paper else (0.6,):
        for panel in ("sampling", "gaussian"):
            n = 16 if paper else 8
            yield {"panel": panel, "n": n, "order": 3, "rank": 2, "ratio": ratio}


def run(settings: Settings) -> dict[str, Any]:
    """Recover a tensor with one method, step and operator."""
    n, rank, ratio, seed = (settings[name] for name in ("n", "rank", "ratio", "seed"))
    if settings["panel"] == "gaussian":
        truth, operator, y = draw_gaussian((n,) * settings["order"], rank, ratio, seed)
        return run_completion(truth, operator, y, settings)
    return run_completion(*draw_again(n, rank, ratio, seed, order=settings["order"]), settings)


@functools.lru_cache(maxsize=1)
def draw_gaussian(
    shape: tuple[int, ...], rank: int, ratio: float, seed: int
) -> tuple[Tucker, MatrixOperator, Array]:
    """Draw a tensor and independent Gaussian measurements of variance 1/m."""
    rng = np.random.default_rng(seed)
    truth = gaussian_tucker(shape, rank, rng=rng)
    n_entries = int(np.prod(shape))
    m = round(ratio * n_entries)
    operator = MatrixOperator(rng.standard_normal((m, n_entries)) / np.sqrt(m), shape)
    return truth, operator, operator.forward(truth)


# what the records say


def describe(records: Sequence[Record]) -> dict[str, str]:
    """Tabulate times, and say where SM-QRGD is the fastest."""
    panels = {panel: own for (panel,), own in group(records, "panel").items()}
    facts = {"tol": f"{TOL:.0e}".replace("e-0", "e-"), "max_iter": str(MAX_ITER)}
    for panel, varied in PANELS.items():
        own = panels.get(panel, [])
        facts[f"table_{panel}"] = _tabulate(own, varied) if own else "Not run."
        facts[f"verdict_{panel}"] = _compare(own, varied) if own else ""
        for name in ("n", "rank", "ratio"):
            facts[f"{panel}_{name}"] = f"{own[0]['settings'][name]}" if own else "?"
    return facts


def _tabulate(records: Sequence[Record], varied: str) -> str:
    """Tabulate iterations, seconds and those of the initial estimate: a column is a point."""
    points = [point for (point,) in group(records, varied)]
    best = {
        key: find_fastest(_by_method(own))
        for key, own in group(records, "implementation", varied).items()
    }
    rows = []
    for (implementation, method, step), own in group(
        records, "implementation", "method", "step"
    ).items():
        cells = []
        for point in points:
            runs = [record for record in own if record["settings"][varied] == point]
            cells.append(_cell(runs, best[implementation, point] == (method, step)))
        rows.append((implementation, label_method(method), step or "own", *cells))
    head = ["implementation", "method", "step", *(f"{varied} {point}" for point in points)]
    return make_table(head, rows)


def _cell(records: Sequence[Record], is_best: bool) -> str:
    if not records:
        return ""
    if not have_arrived(records):
        missed = sum(not record["results"]["reached"] for record in records)
        return f"{missed} of {len(records)} did not arrive"
    counts = sorted(record["results"]["n_iter"] for record in records)
    seconds = format_seconds(records)
    init = f"{median_init_seconds(records):.2g}"
    return f"{counts[len(counts) // 2]}; {f'**{seconds}**' if is_best else seconds}; {init}"


def _by_method(records: Sequence[Record]) -> Mapping[tuple[Any, ...], Sequence[Record]]:
    return group(records, "method", "step")


def _compare(records: Sequence[Record], varied: str) -> str:
    """Say where SM-QRGD is the fastest of the paper's methods, and of all."""
    lines = []
    for (implementation,), own in group(records, "implementation").items():
        of_three = [r for r in own if r["settings"]["method"] in METHODS]
        lines.append(f"* {implementation}, methods of the paper: {_place(of_three, varied)}")
        if len(of_three) < len(own):
            lines.append(f"* {implementation}, all methods: {_place(own, varied)}")
    return "\n".join(lines)


def _place(records: Sequence[Record], varied: str) -> str:
    """Compare the best time of SM-QRGD with the best of the other methods, point by point."""
    won, lost = [], []
    for (point,), own in group(records, varied).items():
        ours, others = (
            _best(_by_method([r for r in own if (r["settings"]["method"] == "sm-qrgd") == is_ours]))
            for is_ours in (True, False)
        )
        if ours is None:
            lost.append(f"{varied} {point}: did not arrive")
        elif others is None or ours[0] < others[0]:
            won.append(f"{point}")
        else:
            factor = f"{ours[0] / others[0]:.3g} times the time of {label_method(others[1])}"
            lost.append(f"{varied} {point}: {factor}")
    first = f"SM-QRGD fastest at {varied} {', '.join(won)}" if won else "SM-QRGD nowhere fastest"
    return f"{'; '.join([first, *lost])}."


def _best(by_method: Mapping[tuple[Any, ...], Sequence[Record]]) -> tuple[float, str] | None:
    """Least median time among methods that arrived, and the method."""
    name = find_fastest(by_method)
    return None if name is None else (median_seconds(by_method[name]), name[0])


EXPERIMENT = Experiment(
    "beyond",
    "Beyond the grid of the paper",
    grid,
    run,
    describe,
    timed=True,
    paired=("panel", "implementation", "method", "step"),  # one tensor for both operators
    takes_solvers=True,
)
