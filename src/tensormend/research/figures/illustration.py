"""One iteration of SM-QRGD in three dimensions, to scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tensormend.core.algebra import Array
from tensormend.core.text import format_shape
from tensormend.plotting.style import PALETTE, new_figure, set_caption
from tensormend.research.experiments.illustration import LABELS, POINTS
from tensormend.research.records import Record

__all__ = ["draw_illustration"]

ARROWS: Final = (  # from, to, colour, line, what it is
    ("x", "moved", "#777777", (0, (4, 2)), "gradient step αG"),
    ("moved", "w", "#777777", (0, (1, 1.5)), "projection onto the tangent space"),
    ("x", "w", PALETTE[1], "solid", "step αP(G)"),
    ("w", "next_hat", PALETTE[0], "solid", "truncation of the mode"),
    ("w", "next_x", PALETTE[2], "solid", "ST-HOSVD"),
)
OFFSETS: Final = {  # of the labels, in fractions of the step
    "hat": (-0.09, 0, 0.03),
    "x": (-0.06, 0.02, 0.04),
    "moved": (0.03, 0, 0.03),
    "w": (0.02, 0, 0.05),
    "next_hat": (0.03, -0.03, -0.07),
    "next_x": (0.05, 0.02, -0.02),
}


def draw_illustration(records: Sequence[Record]) -> Any:
    """Draw the sheet of matrices of one rank, the tangent space at X-hat, and one iteration."""
    results, settings = records[0]["results"], records[0]["settings"]
    points = {name: np.asarray(where) for name, where in results["points"].items()}
    step = float(np.linalg.norm(points["w"] - points["x"]))
    upwards = np.array([1.0, 1.0, -1.0 if points["moved"][2] < 0 else 1.0])
    points = {name: where * upwards for name, where in points.items()}
    figure = new_figure((9.0, 5.6))
    figure.set_layout_engine("none")  # the only panel fills the figure
    panel = figure.add_axes((0, 0, 1, 1), projection="3d", computed_zorder=False)
    sheet = np.asarray(results["sheet"]) * upwards
    panel.plot_surface(
        *np.moveaxis(sheet, -1, 0), color=PALETTE[5], alpha=0.45, lw=0, rstride=1, cstride=1
    )
    _draw_lines(panel, sheet)
    corners = np.asarray(results["plane"]).reshape(2, 2, 3)
    panel.plot_surface(*np.moveaxis(corners, -1, 0), color=PALETTE[4], alpha=0.35, lw=0)
    for start, end, color, line, label in ARROWS:
        ends = np.stack([points[start], points[end]])
        panel.plot(*ends.T, color=color, ls=line, lw=2, label=label)
    for name, label in zip(POINTS, LABELS, strict=True):
        panel.plot(*points[name][:, None], "o", color="black", ms=5)
        panel.text(*(points[name] + step * np.asarray(OFFSETS[name])), label, fontsize=11)
    _name_surfaces(panel, sheet, corners)
    _zoom(panel)
    panel.view_init(elev=14, azim=-68)
    panel.set_axis_off()
    figure.legend(loc="upper left", fontsize=9)
    what = f"{format_shape(settings['shape'])} tensor of rank {settings['rank']}"
    caption = (
        f"The first iteration for a {what}, {settings['ratio']:.0%} observed, to scale.\n"
        "X + αG and the next X are projected onto the three dimensions of the others."
    )
    set_caption(figure, "An iteration of SM-QRGD", caption)
    return figure


def _zoom(panel: Any) -> None:
    """Give all directions one unit, and fill the figure."""
    limits = np.array([panel.get_xlim(), panel.get_ylim(), panel.get_zlim()])
    panel.set_box_aspect(limits[:, 1] - limits[:, 0], zoom=1.2)


def _draw_lines(panel: Any, sheet: Array) -> None:
    """Draw some lines on the sheet, which show how it bends."""
    every = max(1, (len(sheet) - 1) // 8)
    for line in (*sheet[::every], *np.swapaxes(sheet, 0, 1)[::every]):
        panel.plot(*line.T, color=PALETTE[0], lw=0.4, alpha=0.6)


def _name_surfaces(panel: Any, sheet: Array, corners: Array) -> None:
    style = {"fontsize": 9.5, "ha": "left"}
    panel.text(*sheet[-1, -1], "  matrices of one rank", color=PALETTE[0], **style)
    panel.text(*corners[-1, -1], "  tangent space at X̂", color="#8a5a00", **style)
