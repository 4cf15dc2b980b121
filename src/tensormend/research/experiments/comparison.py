"""Comparison (figure 5): SM-QRGD, SeMPIHT and RGD with both steps, dense and with the kernels.

``tensormend reproduce comparison``. RGD with dense arrays is timed twice, with the contractions
that its parts have in common computed once, and anew for each part, as the paper counts them. Panel
a: error against time at n = 300, r = 5, ratio 0.3, to 1e-10. Panels b, c, d: time to 1e-5 over the
rank (n = 200), over n (r = 5, ratio 0.5) and over the ratio (n = 200). At most 100 iterations, as
in the paper. It leaves open the ratio of panel b, the rank of panel d and the grids; here 0.3 and
5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from tensormend.research.custom import is_custom, label_method
from tensormend.research.experiments.traces import (
    IMPLEMENTATIONS,
    STEPS,
    draw_again,
    find_fastest,
    format_seconds,
    have_arrived,
    median_init_seconds,
    median_iteration_seconds,
    median_seconds,
    run_completion,
)
from tensormend.research.pages import make_table
from tensormend.research.records import Record
from tensormend.research.runner import Experiment, Settings
from tensormend.research.summary import Claim, group

__all__ = ["EXPERIMENT", "METHODS", "VARIED", "count_repeats"]

METHODS: Final = ("sm-qrgd", "sempiht", "rgd")
UNSHARED: Final = "rgd-unshared"  # with dense arrays only
VARIED: Final = {"b": "rank", "c": "n", "d": "ratio"}
MAX_ITER: Final = 100  # of the paper


def grid(preset: str) -> Iterator[Settings]:
    """Every panel once, then again: methods alternate, so that a slow minute affects all of them.

    Panel a repeats the timing of one problem; the others draw a new problem each time.
    """
    paper = preset == "paper"
    for repeat in range(5 if paper else 1):
        for panel, point in _points(paper):
            again = {"repeat": repeat} if panel == "a" else {"problem": repeat}
            for step in STEPS:
                for implementation in IMPLEMENTATIONS:
                    more = (UNSHARED,) if implementation == "dense" else ()
                    for method in (*METHODS, *more):
                        who = {"implementation": implementation, "method": method, "step": step}
                        yield {"panel": panel, **point, **who, **again, "max_iter": MAX_ITER}


def _points(paper: bool) -> Iterator[tuple[str, Settings]]:
    n, large = (200, 300) if paper else (30, 40)
    base = {"n": n, "rank": 5 if paper else 3, "ratio": 0.3, "tol": 1e-5}
    yield "a", {**base, "n": large, "tol": 1e-10}
    for rank in (5, 10, 15, 20, 25) if paper else (2, 3):
        yield "b", {**base, "rank": rank}
    for size in (100, 150, 200, 250, 300) if paper else (20, 30):
        yield "c", {**base, "n": size, "ratio": 0.5}
    for ratio in (0.1, 0.2, 0.3, 0.5, 0.7, 0.9) if paper else (0.3, 0.5):
        yield "d", {**base, "ratio": ratio}


def run(settings: Settings) -> dict[str, Any]:
    """Complete samples with one method and step."""
    problem = draw_again(settings["n"], settings["rank"], settings["ratio"], settings["seed"])
    return run_completion(*problem, settings)


# what the records say


def describe(records: Sequence[Record]) -> dict[str, str]:
    """Tabulate panel a and count where each method is fastest in the others."""
    panels = group(records, "panel")
    facts = {"max_iter": str(MAX_ITER), "repeats": count_repeats(records)}
    for panel in "abcd":
        own = panels.get((panel,), [])
        facts[f"table_{panel}"] = _tabulate(own, VARIED.get(panel, "rank")) if own else "Not run."
        facts[f"verdict_{panel}"] = _compare(own, VARIED.get(panel, "rank")) if own else ""
    return facts


def count_repeats(records: Sequence[Record]) -> str:
    """Say how many runs of each kind there are."""
    kinds = group(records, "panel", "n", "rank", "ratio", "implementation", "method", "step")
    counts = sorted({len(own) for own in kinds.values()})
    if not counts or counts[-1] == 1:
        return "one run each"
    number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"medians of {number} runs"


def _tabulate(records: Sequence[Record], varied: str) -> str:
    """Median iterations and seconds by method; in bold the least time of each row."""
    rows = []
    names = [*METHODS, UNSHARED, *custom_methods(records)]
    for key, own in group(records, "implementation", "step", varied).items():
        by_method = {method: runs for (method,), runs in group(own, "method").items()}
        best = find_fastest(by_method)
        cells = [_cell(by_method.get(method, []), method == best) for method in names]
        rows.append((*key, *cells))
    return make_table(["implementation", "step", varied, *map(label_method, names)], rows)


def custom_methods(records: Sequence[Record]) -> list[str]:
    """Name the solvers of users among the methods of records."""
    methods = dict.fromkeys(record["settings"]["method"] for record in records)
    return [method for method in methods if is_custom(method)]


def _cell(records: Sequence[Record], is_best: bool) -> str:
    if not records:
        return ""
    counts = sorted(record["results"]["n_iter"] for record in records)
    seconds = format_seconds(records)
    missed = sum(not record["results"]["reached"] for record in records)
    note = f" ({missed} of {len(records)} did not arrive)" if missed else ""
    init = f"{median_init_seconds(records):.2g}"
    return f"{counts[len(counts) // 2]}; {f'**{seconds}**' if is_best else seconds}; {init}{note}"


def _compare(records: Sequence[Record], varied: str) -> str:
    """Say, for each implementation and step, how often SM-QRGD was fastest and by how much.

    Methods that did not arrive are left out. With dense arrays it meets RGD once with shared
    contractions, once without.
    """
    lines = []
    for (implementation, step), own in group(records, "implementation", "step").items():
        more = ""
        if any(record["settings"]["method"] == UNSHARED for record in own):
            unshared = [r for r in own if r["settings"]["method"] in (*METHODS[:2], UNSHARED)]
            line = _compare_one(unshared, varied)
            lines.append(f"* {implementation}, {step} step, RGD sharing nothing: {line}")
            more = ", RGD sharing contractions"
        rivals = (*METHODS, *custom_methods(own))
        shared = [r for r in own if r["settings"]["method"] in rivals]
        lines.append(f"* {implementation}, {step} step{more}: {_compare_one(shared, varied)}")
    return "\n".join(lines)


def _compare_one(records: Sequence[Record], varied: str) -> str:
    """Compare SM-QRGD with the other methods of these records."""
    points = group(records, varied)
    factors: dict[str, list[tuple[float, float]]] = {}
    firsts = 0
    for runs in points.values():
        arrived = {m: r for (m,), r in group(runs, "method").items() if have_arrived(r)}
        if "sm-qrgd" not in arrived:
            continue
        rivals = {method: own for method, own in arrived.items() if not is_custom(method)}
        firsts += find_fastest(rivals) == "sm-qrgd"
        count, seconds = _median_effort(arrived.pop("sm-qrgd"))
        for method, effort in ((m, _median_effort(r)) for m, r in arrived.items()):
            factors.setdefault(method, []).append((effort[0] / count, effort[1] / seconds))
    spans = ", ".join(
        f"{label_method(method)} takes {_span([f[0] for f in values])} times its iterations and "
        f"{_span([f[1] for f in values])} times its time"
        for method, values in factors.items()
    )
    agrees = (
        "as the paper says"
        if firsts == len(points)
        else "not what the paper says"
        if firsts == 0
        else "the paper says everywhere"
    )
    where = f"SM-QRGD fastest at {firsts} of {len(points)} ({agrees})"
    ending = f"{spans}.{_growth(records, varied)}" if spans else "no other method arrived with it."
    return f"{where}; {ending}"


def claims(records: Sequence[Record]) -> list[Claim]:
    """Say where SM-QRGD is the fastest, and whether SeMPIHT is the most sensitive."""
    fastest: dict[str, tuple[int, int]] = {}
    iterating: dict[str, tuple[int, int]] = {}
    steady: dict[str, tuple[int, int]] = {}
    for (implementation, step), own in group(records, "implementation", "step").items():
        by_method = {method: runs for (method,), runs in group(own, "method").items()}
        for rival in ("rgd", UNSHARED):
            if rival not in by_method:
                continue
            note = ", RGD sharing nothing" if rival == UNSHARED else ""
            chosen = [r for r in own if r["settings"]["method"] in ("sm-qrgd", "sempiht", rival)]
            points = group(chosen, "panel", "n", "rank", "ratio").values()
            for counts, seconds in (
                (fastest, median_seconds),
                (iterating, median_iteration_seconds),
            ):
                won = sum(_is_fastest(runs, seconds) for runs in points)
                counts[f"{implementation}, {step} step{note}"] = (won, len(points))
        growths = []
        for panel, varied in VARIED.items():
            runs = [r for r in own if r["settings"]["panel"] == panel]
            growths += [_growths(runs, varied)] if runs else []
        held = [max(g["sm-qrgd"], g["rgd"]) < g["sempiht"] for g in growths]
        if held:
            steady[f"{implementation}, {step} step"] = (sum(held), len(held))
    what = "SM-QRGD is the fastest of the three methods (figure 5)"
    out = [Claim(what, fastest), Claim(f"{what}, initial estimates left out", iterating)]
    if steady:
        what = (
            "times of SM-QRGD and RGD vary less over rank, size and ratio than those of SeMPIHT "
            "(figure 5 b, c, d)"
        )
        out.append(Claim(what, steady))
    return out


def _is_fastest(records: Sequence[Record], seconds: Callable[[Sequence[Record]], float]) -> bool:
    runs = {method: own for (method,), own in group(records, "method").items()}
    return find_fastest(runs, seconds) == "sm-qrgd"


def _growths(records: Sequence[Record], varied: str) -> dict[str, float]:
    """Longest over shortest time of each method over a panel."""
    growth = {}
    for (method,), own in group(records, "method").items():
        times = [median_seconds(runs) for runs in group(own, varied).values()]
        growth[method] = max(times) / min(times)
    return growth


def _median_effort(records: Sequence[Record]) -> tuple[float, float]:
    """Median number of iterations and of seconds."""
    counts = [record["results"]["n_iter"] for record in records]
    return float(np.median(counts)), median_seconds(records)


def _growth(records: Sequence[Record], varied: str) -> str:
    """Say by which factor the time of each method varies over a panel: its sensitivity."""
    growth = _growths(records, varied)
    if max(growth.values()) == 1:
        return ""
    listed = ", ".join(f"{label_method(name)} {factor:.2g}" for name, factor in growth.items())
    return f" Longest over shortest time in the panel: {listed}."


def _span(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"


EXPERIMENT = Experiment(
    "comparison",
    "Comparison of methods",
    grid,
    run,
    describe,
    timed=True,
    claims=claims,
    paired=("implementation", "method", "step", "repeat"),
    takes_solvers=True,
)
