"""The comparison of methods: a row an implementation, the paper's four panels beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tensormend.plotting.style import (
    STEP_LINES,
    format_power,
    mark,
    new_figure,
    plain_log,
    set_caption,
    set_legend,
    style_methods,
    tidy,
)
from tensormend.research.custom import label_methods
from tensormend.research.experiments.comparison import VARIED, count_repeats
from tensormend.research.experiments.traces import median_seconds, median_trace
from tensormend.research.figures.curves import TERMS
from tensormend.research.records import Record
from tensormend.research.summary import group

__all__ = ["AXES", "Styles", "draw_comparison", "draw_times"]

Styles = dict[str, dict[str, str]]
AXES: Final = {"rank": "rank r", "n": "size n", "ratio": "sampling ratio ρ"}


def draw_comparison(records: Sequence[Record]) -> Any:
    """Error against time, and time against rank, size and ratio."""
    parts = group(records, "implementation")
    styles = style_methods(label_methods(records))
    figure = new_figure((15.0, 3.7 * len(parts) + 0.8))
    rows = figure.subplots(len(parts), 4, squeeze=False)
    for row, ((implementation,), own) in zip(rows, parts.items(), strict=True):
        panels = group(own, "panel")
        for panel, letter in zip(row, "abcd", strict=True):
            runs = panels.get((letter,), [])
            if not runs:
                panel.set_visible(False)
                continue
            draw = _draw_errors if letter == "a" else draw_times
            draw(panel, runs, styles, VARIED.get(letter, ""))
            where = _describe_place(runs[0], letter)
            title = f"{where}\n{TERMS[implementation]}"
            x = "time [s]" if letter == "a" else AXES[VARIED[letter]]
            y = (
                "relative error"
                if letter == "a"
                else f"time to {format_power(runs[0]['settings']['tol'])} [s]"
            )
            tidy(panel, title=title, x=x, y=y, letter=letter)
    fullest = max(rows[:, 0], key=lambda panel: len(panel.get_legend_handles_labels()[1]))
    set_legend(figure, fullest, "Comparison of methods")
    set_caption(figure, "", _caption(records))
    return figure


def _draw_errors(panel: Any, records: Sequence[Record], styles: Styles, varied: str) -> None:
    del varied
    for line, ((method, step), runs) in enumerate(group(records, "method", "step").items()):
        _, seconds, errors = median_trace(runs)
        label = f"{styles[method]['label']}, {step} step"
        style = {**styles[method], "label": label, "ls": STEP_LINES[step], **_face(step)}
        panel.plot(seconds, errors, markevery=mark(len(errors), line, 5).tolist(), **style)
    panel.set_yscale("log")


def draw_times(panel: Any, records: Sequence[Record], styles: Styles, varied: str) -> None:
    """Draw median times over what is varied, a line a method and step; crosses did not arrive."""
    for (method, step), runs in group(records, "method", "step").items():
        points = sorted(group(runs, varied).items())
        x = np.asarray([value for (value,), _ in points])
        reached = [all(r["results"]["reached"] for r in own) for _, own in points]
        arrived = np.asarray(reached, dtype=bool)
        seconds = np.asarray([median_seconds(own) for _, own in points])
        label = f"{styles[method]['label']}{f', {step} step' if step else ''}"
        line = STEP_LINES[step or "normalized"]
        style = {**styles[method], "label": label, "ls": line, **_face(step)}
        panel.plot(x, np.where(arrived, seconds, np.nan), **style)
        if not arrived.all():
            panel.plot(x[~arrived], seconds[~arrived], "x", color=style["color"], ms=9, mew=2)
    plain_log(panel)
    if np.issubdtype(x.dtype, np.integer):
        panel.set_xticks(x)


def _face(step: str | None) -> dict[str, str]:
    """Open markers for the constant step, which stay apart in black and white."""
    return {"mfc": "white"} if step == "constant" else {}


def _describe_place(record: Record, letter: str) -> str:
    settings = record["settings"]
    fixed = {"n": f"n = {settings['n']}", "rank": f"r = {settings['rank']}"}
    fixed["ratio"] = f"ρ = {settings['ratio']}"
    fixed.pop(VARIED.get(letter, ""), None)
    return ", ".join(fixed.values())


def _caption(records: Sequence[Record]) -> str:
    machine = records[0]["machine"]
    threads = f"threads: {machine['blas_threads']} of BLAS (dense), {machine['threads']} (kernels)"
    limit = records[0]["settings"]["max_iter"]
    return f"{count_repeats(records)}; {threads}; crosses: not within {limit} iterations."
