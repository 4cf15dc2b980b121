"""Style of all figures: colours and markers that are distinct also in black and white."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from tensormend.core.algebra import Array
from tensormend.core.storage import atomic_write
from tensormend.errors import require

__all__ = [
    "LINES",
    "METHODS",
    "PALETTE",
    "STEP_LINES",
    "format_power",
    "mark",
    "new_figure",
    "plain_log",
    "require_matplotlib",
    "save_figure",
    "save_png",
    "set_caption",
    "set_legend",
    "style_methods",
    "tidy",
    "use_style",
]

# colours of Okabe and Ito, which colour-blind readers can distinguish
PALETTE: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
LINES: Final = (
    {"color": PALETTE[0], "marker": "o"},
    {"color": PALETTE[1], "marker": "s"},
    {"color": PALETTE[2], "marker": "^"},
    {"color": PALETTE[3], "marker": "D"},
    {"color": PALETTE[6], "marker": "v"},
    {"color": PALETTE[5], "marker": "P"},
)
METHODS: Final = {
    "sm-qrgd": {"label": "SM-QRGD", **LINES[0]},
    "rgd": {"label": "RGD", **LINES[1]},
    "sempiht": {"label": "SeMPIHT", **LINES[2]},
    "rcg": {"label": "RCG", **LINES[3]},
    "auto": {"label": "auto", **LINES[4]},
    "rgd-unshared": {"label": "RGD, nothing shared", **LINES[5]},
}
OTHER_LINES: Final = (  # of methods that are not in the list above
    {"color": "#994f00", "marker": "X"},
    {"color": "#5d3a9b", "marker": "*"},
    {"color": "#40b0a6", "marker": "p"},
)
LEGEND_COLUMNS: Final = 6  # entries beside each other that fit over the widest figure
STEP_LINES: Final = {"constant": (0, (4, 2)), "normalized": "solid"}

SETTINGS: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "lines.markersize": 5,
    "legend.frameon": False,
    "svg.hashsalt": "tensormend",  # for reproducible files
    "svg.fonttype": "path",
}


def style_methods(labels: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return label, colour and marker of methods by name, also of those without a style here.

    Parameters
    ----------
    labels : mapping of str to str
        What to call each method that has no style here, by name.

    Examples
    --------
    >>> style_methods({"rgd": "", "mine:Fast": "Fast"})["mine:Fast"]["label"]
    'Fast'
    """
    others = iter([name for name in labels if name not in METHODS])
    lines = zip(others, itertools.cycle(OTHER_LINES), strict=False)
    return {**METHODS, **{name: {"label": labels[name], **line} for name, line in lines}}


def require_matplotlib() -> None:
    """Raise `MissingDependencyError` if Matplotlib is not installed."""
    new_figure((1.0, 1.0))


def new_figure(size: tuple[float, float]) -> Any:
    """Return an empty figure of a size in inches, without a display or global state of pyplot."""
    figure = require("matplotlib.figure", "plot", "a figure")
    return figure.Figure(figsize=size, layout="constrained")


@contextmanager
def use_style() -> Iterator[None]:
    """Use the style of the package for figures that are drawn and saved inside the block."""
    require_matplotlib()
    from matplotlib import rc_context

    with rc_context(SETTINGS):
        yield


def save_png(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure as PNG, atomically."""
    with atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=130, metadata={"Software": None})


def save_figure(figure: Any, path: str | os.PathLike[str]) -> list[Path]:
    """Write a figure as PNG and SVG, atomically; return the files. ``path`` has no suffix."""
    written = []
    for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
        target = Path(f"{os.fspath(path)}.{kind}")
        with atomic_write(target) as file:
            figure.savefig(file, format=kind, dpi=130, metadata=metadata)
        written.append(target)
    return written


def set_caption(figure: Any, title: str, caption: str) -> None:
    """Put a title above a figure and a caption below it."""
    figure.suptitle(title, fontsize=12, fontweight="bold")
    figure.supxlabel(caption, fontsize=8.5, color="0.25")


def set_legend(figure: Any, panel: Any, title: str) -> None:
    """Put a title above a figure, and below it the legend of a panel, which applies to all."""
    handles, labels = panel.get_legend_handles_labels()
    n_rows = -(-len(labels) // LEGEND_COLUMNS)
    columns = -(-len(labels) // n_rows)
    legend = figure.legend(
        handles, labels, loc="outside upper center", ncols=columns, fontsize=9, title=title
    )
    legend.get_title().set(fontsize=12, fontweight="bold")


def mark(length: int, line: int = 0, n_marks: int = 6) -> Array:
    """Return the indices of the points of a curve with a marker, shifted from line to line."""
    gap = max(1, length // n_marks)
    return np.arange((line * gap // 3) % gap, length, gap)


def tidy(axis: Any, *, title: str = "", x: str = "", y: str = "", letter: str = "") -> None:
    """Set the title, the letter and the axis labels of a panel."""
    axis.set_title(f"({letter}) {title}" if letter else title, loc="left")
    axis.set_xlabel(x)
    axis.set_ylabel(y)


def plain_log(panel: Any) -> None:
    """Make the vertical axis logarithmic, with plain numbers as labels of ticks at 1, 2 and 5."""

    def name(value: float, _: object) -> str:
        return f"{value:g}" if f"{value:e}"[0] in "125" else ""

    panel.set_yscale("log")
    panel.yaxis.set_major_formatter(name)
    panel.yaxis.set_minor_formatter(name)


def format_power(value: float) -> str:
    """Format a power of ten without a leading zero in the exponent.

    Examples
    --------
    >>> format_power(1e-5)
    '1e-5'
    """
    return f"{value:.0e}".replace("e-0", "e-")
