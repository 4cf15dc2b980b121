"""Beyond the grid of the paper: a row an implementation, a panel what is varied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tensormend.plotting.style import (
    format_power,
    new_figure,
    set_caption,
    set_legend,
    style_methods,
    tidy,
)
from tensormend.research.custom import label_methods
from tensormend.research.experiments.beyond import PANELS
from tensormend.research.figures.comparison import AXES, draw_times
from tensormend.research.figures.curves import TERMS
from tensormend.research.records import Record
from tensormend.research.summary import group

__all__ = ["draw_beyond"]

TITLES: Final = {
    "order": "order 4, n = {n}, r = {rank}",
    "rank": "n = {n}, ρ = {ratio}",
    "sampling": "entries, n = {n}, r = {rank}",
    "gaussian": "Gaussian, n = {n}, r = {rank}",
}


def draw_beyond(records: Sequence[Record]) -> Any:
    """Draw times over ratio at order 4, over rank, and over the measurements of two operators."""
    parts = group(records, "implementation")
    names = {**label_methods(records), "rbb": "RBB", "rgn": "RGN"}
    styles = style_methods(names)
    figure = new_figure((15.0, 3.7 * len(parts) + 0.8))
    rows = figure.subplots(len(parts), len(PANELS), squeeze=False)
    for row, ((implementation,), own) in zip(rows, parts.items(), strict=True):
        panels = group(own, "panel")
        for panel, (name, varied), letter in zip(row, PANELS.items(), "abcd", strict=True):
            runs = panels.get((name,), [])
            if not runs:
                panel.set_visible(False)
                continue
            draw_times(panel, runs, styles, varied)
            settings = runs[0]["settings"]
            tidy(
                panel,
                title=f"{TITLES[name].format(**settings)}\n{TERMS[implementation]}",
                x=AXES[varied],
                y=f"time to {format_power(settings['tol'])} [s]",
                letter=letter,
            )
    fullest = max(rows[:, 0], key=lambda panel: len(panel.get_legend_handles_labels()[1]))
    set_legend(figure, fullest, "Beyond the grid of the paper")
    limit = records[0]["settings"]["max_iter"]
    set_caption(figure, "", f"Initial estimates included; crosses: not within {limit} iterations.")
    return figure
