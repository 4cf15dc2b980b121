"""Pictures, with matplotlib from the ``plot`` extra; no other file names it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensormend.algebra import Array
from tensormend.errors import InputError, MissingDependencyError
from tensormend.storage import atomic_write

__all__ = ["require_matplotlib", "save_completion", "save_curves", "save_growth"]

HIDDEN = "#274060"  # a colour that no grey value can be taken for
RECOVERED = "#c8553d"
GAP = 3  # bands further apart than this are not joined

# colours that colour-blind readers can tell apart (Okabe and Ito); markers and dashes do without
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
DASHES = {"ours": "-", "dense": "--", "peer": ":"}


def require_matplotlib() -> None:
    """Raise `MissingDependencyError` unless pictures can be made."""
    _new_figure((1.0, 1.0))


def save_completion(
    path: str | os.PathLike[str],
    original: Array,
    observed: Array,
    recovered: Array,
    *,
    band: int,
    pixel: tuple[int, int],
    bands: Array | None = None,
) -> None:
    """Write a PNG that shows a completed image cube before and after.

    Above, one band: the original, its observed entries, the recovered image, the absolute error.
    Below, the spectrum of one pixel. The file is whole or not there.

    Parameters
    ----------
    original, recovered : ``rows x columns x bands``
    observed : boolean array of that shape, true where the solver saw the entry
    band, pixel : position of the band and the pixel (row, column) to show
    bands : number of each band for the axis, by default counted from 0
    """
    if original.ndim != 3 or not original.shape == observed.shape == recovered.shape:
        raise InputError(
            "original, observed and recovered must be three arrays of one shape, rows x columns x "
            f"bands, got {original.shape}, {observed.shape} and {recovered.shape}"
        )
    numbers = np.arange(original.shape[2]) if bands is None else bands
    figure = _new_figure((11.0, 6.0))
    grid = figure.add_gridspec(2, 1, height_ratios=(1.45, 1.0))
    images = grid[0].subgridspec(1, 4)
    axes = [figure.add_subplot(images[0, k]) for k in range(4)]
    _draw_band(figure, axes, original, observed, recovered, band, int(numbers[band]))
    axes[0].plot(pixel[1], pixel[0], "o", mfc="none", mec=RECOVERED, mew=1.8, ms=9)
    _draw_spectrum(figure.add_subplot(grid[1]), original, observed, recovered, pixel, numbers)
    _save(figure, path)


def _draw_band(
    figure: Any,
    axes: list[Any],
    original: Array,
    observed: Array,
    recovered: Array,
    band: int,
    number: int,
) -> None:
    before, after, seen = original[:, :, band], recovered[:, :, band], observed[:, :, band]
    error = np.abs(after - before)
    low, high = np.percentile(before, (1, 99))
    titles = (
        f"Original, band {number}",
        f"Observed, {seen.mean():.0%} of this band",
        "Recovered",
        "Absolute error",
    )
    for axis, image, title in zip(
        axes, (before, np.ma.masked_where(~seen, before), after, error), titles, strict=True
    ):
        # the error on a scale of its own, from zero: on the shared one it would be black
        limits = (0, np.percentile(error, 99)) if image is error else (low, high)
        colours = "magma" if image is error else "gray"
        drawn = axis.imshow(image, cmap=colours, vmin=limits[0], vmax=limits[1])
        axis.set_facecolor(HIDDEN)
        axis.set_title(title, fontsize=11)
        axis.set_xticks([])
        axis.set_yticks([])
        if image is after:
            figure.colorbar(drawn, ax=axes[:3], shrink=0.85, pad=0.015)
        elif image is error:
            figure.colorbar(drawn, ax=axis, shrink=0.85, pad=0.03)


def _draw_spectrum(
    axis: Any,
    original: Array,
    observed: Array,
    recovered: Array,
    pixel: tuple[int, int],
    numbers: Array,
) -> None:
    seen = observed[pixel]
    gaps = np.flatnonzero(np.diff(numbers) > GAP) + 1  # no line over bands that are not there
    places = np.insert(numbers.astype(float), gaps, np.nan)
    before, after = (np.insert(cube[pixel], gaps, np.nan) for cube in (original, recovered))
    axis.plot(places, before, color="0.65", lw=3.5, label="original")
    axis.plot(numbers[seen], original[pixel][seen], "o", color=HIDDEN, ms=6, label="observed")
    axis.plot(places, after, color=RECOVERED, lw=1.4, label="recovered")
    left_out = "; gaps are bands that the data set leaves out" if len(gaps) else ""
    axis.set_title(
        f"Spectrum of the circled pixel, {seen.sum()} of {seen.size} bands observed{left_out}"
    )
    axis.title.set_fontsize(11)
    axis.set_xlabel("band")
    axis.set_ylabel("sensor value")
    axis.set_xlim(numbers[0] - 2, numbers[-1] + 2)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)


def save_curves(
    path: str | os.PathLike[str],
    curves: Sequence[tuple[str, str, Array]],
    *,
    title: str,
    accuracy: float,
) -> None:
    """Write a PNG of the true error against seconds.

    Parameters
    ----------
    curves : label, family (``"ours"`` solid, ``"dense"`` dashed, ``"peer"`` dotted) and a
        two-column array of seconds and errors
    accuracy : the error to reach, drawn as a line
    """
    figure = _new_figure((9.0, 5.2))
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
    _save(figure, path)


def save_growth(
    path: str | os.PathLike[str],
    series: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float], float | None]]],
) -> None:
    """Write a PNG with a panel per series: seconds against what grows, both logarithmic.

    A line has places, seconds and, where it could be fitted, the exponent for the legend.
    """
    n_columns = min(3, len(series))
    n_rows = -(-len(series) // n_columns)
    figure = _new_figure((4.4 * n_columns, 4.4 * n_rows))
    for panel, (name, lines) in enumerate(series.items(), start=1):
        axis = figure.add_subplot(n_rows, n_columns, panel)
        for k, (what, (places, seconds, exponent)) in enumerate(lines.items()):
            label = what if exponent is None else f"{what}, exponent {exponent:.2f}"
            style = ("-", "--", ":", "-.")[k % 4]
            colour, marker = PALETTE[k % len(PALETTE)], MARKERS[k % len(MARKERS)]
            axis.plot(places, seconds, style, color=colour, marker=marker, ms=5, label=label)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel(name)
        axis.set_ylabel("seconds")
        ticks = sorted({float(x) for places, _, _ in lines.values() for x in places})
        axis.set_xticks(ticks, [_shorten(x) for x in ticks], fontsize=8)
        axis.set_xticks([], minor=True)
        _finish_axis(axis, f"Seconds by {name}")
        axis.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    _save(figure, path)


def _shorten(number: float) -> str:
    """Write 400000 as 400k.

    >>> _shorten(400000), _shorten(3.2e6), _shorten(12)
    ('400k', '3.2M', '12')
    """
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if number >= 10 * unit or (name == "M" and number >= unit):
            return f"{number / unit:.3g}{name}"
    return f"{number:g}"


def _finish_axis(axis: Any, title: str) -> None:
    axis.set_title(title, fontsize=11)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(color="0.92", lw=0.7)


def _save(figure: Any, path: str | os.PathLike[str]) -> None:
    with atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=130, metadata={"Software": None})


def _new_figure(size: tuple[float, float]) -> Any:
    """Return an empty figure that needs no display and leaves no global state behind."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError(
            "pictures need matplotlib, which is not installed; pip install tensormend[plot]"
        ) from error
    return Figure(figsize=size, layout="constrained")
