"""Figure of an image cube before and after completion."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from tensormend.core.algebra import Array
from tensormend.errors import InputError
from tensormend.plotting.style import new_figure, save_png

__all__ = ["save_completion"]

HIDDEN = "#274060"  # of missing pixels; differs from all grey values
RECOVERED = "#c8553d"
GAP = 3  # largest difference of band numbers over which the spectrum is drawn as a line


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
    """Write a PNG of an image cube before and after completion.

    The upper row shows one band: original, observed entries, recovered image and absolute error.
    Below is the spectrum of one pixel. The file is written atomically.

    Parameters
    ----------
    path : str or path-like
        The file to write.
    original : ndarray of shape (rows, columns, bands)
        The true cube.
    observed : ndarray of bool, of the same shape
        True at observed entries.
    recovered : ndarray of the same shape
        The completed cube.
    band : int
        Index of the band to show.
    pixel : tuple of (int, int)
        Row and column of the pixel whose spectrum is shown.
    bands : ndarray of shape (bands,), default=None
        Number of each band, for the axis; by default 0, 1, 2, ...

    Raises
    ------
    InputError
        If the cubes do not have three modes and one common shape.
    MissingDependencyError
        If Matplotlib is not installed.
    """
    if original.ndim != 3 or not original.shape == observed.shape == recovered.shape:
        raise InputError(
            "original, observed and recovered must be three arrays of one shape, rows x columns x "
            f"bands, got {original.shape}, {observed.shape} and {recovered.shape}; select or stack "
            "them alike"
        )
    numbers = np.arange(original.shape[2]) if bands is None else bands
    figure = new_figure((11.0, 6.0))
    grid = figure.add_gridspec(2, 1, height_ratios=(1.45, 1.0))
    images = grid[0].subgridspec(1, 4)
    axes = [figure.add_subplot(images[0, k]) for k in range(4)]
    _draw_band(figure, axes, original, observed, recovered, band, int(numbers[band]))
    axes[0].plot(pixel[1], pixel[0], "o", mfc="none", mec=RECOVERED, mew=1.8, ms=9)
    _draw_spectrum(figure.add_subplot(grid[1]), original, observed, recovered, pixel, numbers)
    save_png(figure, path)


def _draw_band(
    figure: Any,
    axes: list[Any],
    original: Array,
    observed: Array,
    recovered: Array,
    band: int,
    number: int,
) -> None:
    before, after, given = original[:, :, band], recovered[:, :, band], observed[:, :, band]
    error = np.abs(after - before)
    low, high = np.percentile(before, (1, 99))
    titles = (
        f"Original, band {number}",
        f"Observed, {given.mean():.0%} of this band",
        "Recovered",
        "Absolute error",
    )
    for axis, image, title in zip(
        axes, (before, np.ma.masked_where(~given, before), after, error), titles, strict=True
    ):
        # the error has its own scale, since it is small compared with the values
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
    given = observed[pixel]
    gaps = np.flatnonzero(np.diff(numbers) > GAP) + 1  # no line across omitted bands
    positions = np.insert(numbers.astype(float), gaps, np.nan)
    before, after = (np.insert(cube[pixel], gaps, np.nan) for cube in (original, recovered))
    axis.plot(positions, before, color="0.65", lw=3.5, label="original")
    axis.plot(numbers[given], original[pixel][given], "o", color=HIDDEN, ms=6, label="observed")
    axis.plot(positions, after, color=RECOVERED, lw=1.4, label="recovered")
    left_out = "; gaps are bands that the data set omits" if len(gaps) else ""
    axis.set_title(
        f"Spectrum of the circled pixel, {given.sum()} of {given.size} bands observed{left_out}"
    )
    axis.title.set_fontsize(11)
    axis.set_xlabel("band")
    axis.set_ylabel("sensor value")
    axis.set_xlim(numbers[0] - 2, numbers[-1] + 2)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
