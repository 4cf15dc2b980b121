"""Table 1 as bars beside the formulas, and true errors under the bounds of the theorems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensormend.core.text import format_shape
from tensormend.plotting.style import LINES, new_figure, set_caption, set_legend, tidy
from tensormend.research.records import Record
from tensormend.research.summary import group

__all__ = ["draw_table1", "draw_theorems"]


def draw_table1(records: Sequence[Record]) -> Any:
    """Draw counted coefficients of ``n^d r`` as bars, the paper's as diamonds."""
    orders = group(records, "order")
    figure = new_figure((10.0, 2.4 * len(orders) + 1.2))
    rows = figure.subplots(len(orders), 2, squeeze=False, sharex=True)
    letters = iter("abcdefgh")
    for row, ((order,), own) in zip(rows, orders.items(), strict=True):
        names = [record["settings"]["algorithm"] for record in own]
        for panel, what in zip(row, ("threshold", "step_size"), strict=True):
            _draw_bars(panel, own, names, what)
            word = "thresholding" if what == "threshold" else "step size"
            tidy(panel, title=f"{word}, d = {order}", letter=next(letters))
        row[1].set_yticklabels([])
    for panel in rows[-1]:
        panel.set_xlabel("coefficient of $n^d r$ in matrix products")
    rows[0, 1].legend(loc="lower right", fontsize=8)
    caption = (
        "One multiply-add is one flop; notes: exact factorizations beside the products. "
        "No diamond: the paper gives no coefficient."
    )
    set_caption(figure, "Table 1: flops counted while the methods run", caption)
    return figure


def _draw_bars(panel: Any, records: Sequence[Record], names: list[str], what: str) -> None:
    levels = np.arange(len(names))
    counted = [record["results"][what] for record in records]
    panel.barh(levels, counted, color=LINES[5]["color"], edgecolor="0.2", lw=0.8, label="counted")
    claimed = [record["results"][f"paper_{what}"] for record in records]
    given = [(c, level) for c, level in zip(claimed, levels, strict=True) if c is not None]
    panel.plot(*zip(*given, strict=True), "D", color="black", ms=7, label="paper")
    panel.set_yticks(levels, names)
    panel.invert_yaxis()
    panel.set_xlim(0, 8)
    panel.grid(visible=False, axis="y")
    panel.set_axisbelow(True)
    for level, record in zip(levels, records, strict=True):
        size, order = record["results"][what], record["settings"]["order"]
        note = f"{size:.3g} $n^{order} r$"
        if what == "threshold":
            note += _factorizations(record["results"], order)
        right = max(size, record["results"][f"paper_{what}"] or 0)
        panel.text(right + 0.2, level, note, va="center", fontsize=8)


def _factorizations(found: dict[str, float], order: int) -> str:
    if abs(found["factorizations"]) > 0.005:
        return f" + {found['factorizations']:.2g} $n^{order + 1}$"
    if abs(found["lower_factorizations"]) > 0.005:
        return f" + {found['lower_factorizations']:.3g} $n^{order} r$"
    return ""


def draw_theorems(records: Sequence[Record]) -> Any:
    """Draw a row a step and a column a number of measurements: all errors under their bound."""
    steps, sizes = group(records, "step"), group(records, "size")
    figure = new_figure((3.6 * len(sizes) + 0.4, 3.5 * len(steps) + 0.8))
    rows = figure.subplots(len(steps), len(sizes), squeeze=False, sharey=True)
    letters = iter("abcdefghijkl")
    for row, (step,) in zip(rows, steps, strict=True):
        for panel, (size,) in zip(row, sizes, strict=True):
            own = [
                r
                for r in records
                if r["settings"]["step"] == step and r["settings"]["size"] == size
            ]
            _draw_bounds(panel, own)
            title = f"{step} step, m = {_format_size(size)}"
            y = "relative error" if panel is row[0] else ""
            tidy(panel, title=title, x="iteration", y=y, letter=next(letters))
    rows[0, 0].set_ylim(1e-17, 1e6)
    set_legend(figure, rows[0, 0], "True errors and the bounds of the theorems")
    shape = format_shape(records[0]["settings"]["shape"])
    n_trials = 1 + max(record["settings"]["trial"] for record in records)
    caption = (
        f"SM-QRGD, {shape}, m Gaussian measurements, {n_trials} trials: every true error (thin), "
        "the largest bound of the theorem (dashed).\nR lies between the estimate from below and "
        "the extreme eigenvalues of A*A; the bound takes the latter."
    )
    set_caption(figure, "", caption)
    return figure


def _draw_bounds(panel: Any, records: Sequence[Record]) -> None:
    notes = []
    for line, ((rank,), own) in enumerate(group(records, "rank").items()):
        style, results = LINES[line], [record["results"] for record in own]
        for k, found in enumerate(results):
            label = f"error, r = {rank}" if k == 0 else None
            errors = np.maximum(found["error"], 1e-17)
            every = max(1, len(errors) // 6)
            panel.plot(errors, lw=0.8, ms=3, alpha=0.7, markevery=every, label=label, **style)
        inside = [found for found in results if found["certain"] < found["needed"]]
        if inside:
            worst = max(inside, key=lambda found: found["gamma"])
            bound = np.asarray(worst["bound"][1:], dtype=float)
            x = np.arange(1, len(bound) + 1)
            panel.plot(x, bound, color=style["color"], ls="--", lw=2, label=f"bound, r = {rank}")
        low, high = (max(found[key] for found in results) for key in ("estimate", "certain"))
        needed = min(found["needed"] for found in results)
        word = "inside" if len(inside) == len(results) else f"inside: {len(inside)}/{len(results)}"
        word = word if inside else "outside"
        notes.append(f"r = {rank}: {low:.2g} ≤ R ≤ {high:.2g}, needs {needed:.2g}: {word}")
    panel.set_yscale("log")
    panel.xaxis.get_major_locator().set_params(integer=True)
    panel.text(
        0.98, 0.98, "\n".join(notes), transform=panel.transAxes, ha="right", va="top", fontsize=7
    )


def _format_size(size: int) -> str:
    exponent = round(np.log10(size))
    return f"$10^{exponent}$" if size == 10**exponent and size > 10**4 else str(size)
