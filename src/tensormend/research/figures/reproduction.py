"""The figures of ``tensormend reproduce``, each drawn from its records alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tensormend.plotting.style import save_figure, use_style
from tensormend.research.figures.beyond import draw_beyond
from tensormend.research.figures.comparison import draw_comparison
from tensormend.research.figures.curves import draw_condition, draw_noise, draw_tangent_mode
from tensormend.research.figures.illustration import draw_illustration
from tensormend.research.figures.phase import draw_phase
from tensormend.research.figures.theory import draw_table1, draw_theorems
from tensormend.research.records import Record

__all__ = ["FIGURES", "save_reproduction"]

FIGURES: dict[str, Callable[[Sequence[Record]], Any]] = {
    "illustration": draw_illustration,
    "phase": draw_phase,
    "noise": draw_noise,
    "tangent_mode": draw_tangent_mode,
    "condition": draw_condition,
    "comparison": draw_comparison,
    "beyond": draw_beyond,
    "table1": draw_table1,
    "theorems": draw_theorems,
}
"""What draws the records of an experiment, by its name."""


def save_reproduction(name: str, records: Sequence[Record], folder: Path) -> list[Path]:
    """Draw the figure of an experiment as PNG and SVG; return what was written."""
    with use_style():
        return save_figure(FIGURES[name](records), folder / name)
