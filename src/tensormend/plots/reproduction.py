"""The figures of ``tensormend reproduce``, each drawn from its records alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tensormend.experiments.runner import Record
from tensormend.plots.comparison import draw_comparison
from tensormend.plots.curves import draw_condition, draw_lead, draw_noise
from tensormend.plots.phase import draw_phase
from tensormend.plots.style import house_style, save_figure
from tensormend.plots.theory import draw_table1, draw_theorems

__all__ = ["FIGURES", "save_reproduction"]

FIGURES: dict[str, Callable[[Sequence[Record]], Any]] = {
    "phase": draw_phase,
    "noise": draw_noise,
    "lead": draw_lead,
    "condition": draw_condition,
    "comparison": draw_comparison,
    "table1": draw_table1,
    "theorems": draw_theorems,
}
"""What draws the records of an experiment, by its name."""


def save_reproduction(name: str, records: Sequence[Record], folder: Path) -> list[Path]:
    """Draw the figure of an experiment as PNG and SVG; return what was written."""
    with house_style():
        return save_figure(FIGURES[name](records), folder / name)
