"""Figures of benchmarks: error against time, growth of the cost, and ratios of errors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tensormend.core.algebra import Array
from tensormend.plotting.style import LINES, PALETTE, new_figure, save_png, use_style

__all__ = ["save_curves", "save_growth", "save_ratios"]

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
DASHES = {"ours": "-", "dense": "--", "peer": ":"}


def save_curves(
    path: str | os.PathLike[str],
    curves: Sequence[tuple[str, str, Array]],
    *,
    title: str,
    accuracy: float,
) -> None:
    """Write a PNG of the true error against time, one curve per method.

    Parameters
    ----------
    path : str or path-like
        The file to write.
    curves : sequence of tuple of (str, str, ndarray of shape (n, 2))
        Label; family, which sets the line style (``"ours"`` solid, ``"dense"`` dashed, ``"peer"``
        dotted); seconds and errors in columns.
    title : str
        Title of the figure.
    accuracy : float
        Target error, drawn as a horizontal line.
    """
    figure = new_figure((9.0, 5.2))
    axis = figure.add_subplot()
    axis.axhline(accuracy, color="0.7", lw=1)
    for k, (label, family, points) in enumerate(curves):
        axis.plot(
            points[:, 0],
            points[:, 1],
            DASHES.get(family, "-."),
            color=PALETTE[k % len(PALETTE)],
            marker=MARKERS[k % len(MARKERS)],
            markevery=max(1, len(points) // 6),
            ms=5,
            lw=2.2 if family == "ours" else 1.4,
            label=label,
        )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("seconds, initialization included")
    axis.set_ylabel("true relative error")
    _finish_axis(axis, title)
    axis.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
    save_png(figure, path)


def save_growth(
    path: str | os.PathLike[str],
    series: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float], float | None]]],
) -> None:
    """Write a PNG of run times against a growing quantity, one panel per quantity.

    Parameters
    ----------
    path : str or path-like
        The file to write.
    series : mapping of str to mapping
        For each panel, by the name of the quantity, its lines by label: values of the quantity,
        seconds, and the fitted exponent for the legend or ``None``. Both axes are logarithmic.
    """
    n_columns = min(3, len(series))
    n_rows = -(-len(series) // n_columns)
    figure = new_figure((4.4 * n_columns, 4.4 * n_rows))
    for panel, (name, lines) in enumerate(series.items(), start=1):
        axis = figure.add_subplot(n_rows, n_columns, panel)
        for k, (what, (positions, seconds, exponent)) in enumerate(lines.items()):
            label = what if exponent is None else f"{what}, exponent {exponent:.2f}"
            style = ("-", "--", ":", "-.")[k % 4]
            colour, marker = PALETTE[k % len(PALETTE)], MARKERS[k % len(MARKERS)]
            axis.plot(positions, seconds, style, color=colour, marker=marker, ms=5, label=label)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel(name)
        axis.set_ylabel("seconds")
        ticks = sorted({float(x) for positions, _, _ in lines.values() for x in positions})
        axis.set_xticks(ticks, [_shorten(x) for x in ticks], fontsize=8)
        axis.set_xticks([], minor=True)
        _finish_axis(axis, f"Seconds by {name}")
        axis.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    save_png(figure, path)


def save_ratios(
    path: str | os.PathLike[str],
    series: Mapping[str, Mapping[str, float]],
    rows: Sequence[str],
) -> bool:
    """Write a PNG of the errors of tensormend relative to other packages, one row per data set.

    Parameters
    ----------
    path : str or path-like
        The file to write.
    series : mapping of str to mapping of str to float
        Ratios of errors, by the name of the other package and by row.
    rows : sequence of str
        Names of the data sets, from the top row.

    Returns
    -------
    bool
        Whether the file was written; false if there are no rows.
    """
    if not rows:
        return False
    levels = {row: k for k, row in enumerate(reversed(rows))}
    with use_style():
        figure = new_figure((8.0, 0.2 * len(rows) + 1.4))
        panel = figure.add_subplot()
        panel.axvline(1.0, color="0.4", lw=1)
        for (peer, ratios), line in zip(series.items(), LINES, strict=False):
            x, y = list(ratios.values()), [levels[row] for row in ratios]
            panel.plot(x, y, linestyle="none", label=peer, alpha=0.85, **line)
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        panel.xaxis.set_minor_formatter(
            lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else ""
        )
        panel.set_yticks(range(len(rows)), list(levels), fontsize=7.5)
        panel.set_ylim(-0.7, len(rows) - 0.3)
        panel.set_xlabel("RMSE of tensormend over RMSE of the peer: left of 1 is better")
        handles, labels = panel.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
        save_png(figure, path)
    return True


def _shorten(number: float) -> str:
    """Write 400000 as 400k.

    Examples
    --------
    >>> _shorten(400000), _shorten(3.2e6), _shorten(12)
    ('400k', '3.2M', '12')
    """
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if number >= 10 * unit or (name == "M" and number >= unit):
            return f"{number / unit:.3g}{name}"
    return f"{number:g}"


def _finish_axis(axis: Any, title: str) -> None:
    """Set the title, hide the upper and right spines, and show a grid."""
    axis.set_title(title, fontsize=11)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(color="0.92", lw=0.7)
