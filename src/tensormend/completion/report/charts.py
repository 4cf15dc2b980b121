"""Charts as SVG in text: axes, lines, points, bars and an image, in the colours of the page."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Literal

import numpy as np

from tensormend.completion.report.modes import Mode, Tick, nice_ticks, shorten
from tensormend.core.algebra import Array

__all__ = [
    "Axis",
    "Marks",
    "Series",
    "draw_chart",
    "draw_image",
    "fraction_axis",
    "linear_axis",
    "log_axis",
    "mode_axis",
    "number",
    "percent",
]

WIDTH, HEIGHT = 340, 226
LEFT, RIGHT, TOP, BOTTOM = 66, 12, 12, 44
LEGEND = 20
MAX_POINTS = 400  # of a series
SMALL_FRACTION = 0.5  # up to which an axis of fractions does not go up to 1
MAX_BARS = 70  # with gaps between them
LETTER = 6.8  # width of one, on average
MARKERS = ("circle", "square", "triangle", "diamond")
BLUE = (44, 118, 184)  # of images, whose opacity is the value: good on light and on dark paper


Marks = Literal["line", "points", "both", "bars", "ring"]
"""How a series is drawn."""


@dataclass(frozen=True)
class Axis:
    """An axis: what is written on it, from where to where, and whether by powers of ten."""

    name: str
    low: float
    high: float
    ticks: Sequence[Tick]
    is_log: bool = False

    def map(self, values: Array, start: float, end: float) -> Array:
        """Map values to positions on the chart."""
        low, high = self.low, self.high
        if self.is_log:
            values = np.log10(np.where(values > 0, values, np.nan))
            low, high = math.log10(low), math.log10(high)
        fractions: Array = (values - low) / (high - low)
        return start + fractions * (end - start)


@dataclass(frozen=True, eq=False)
class Series:
    """Numbers to draw, and what they are called; NaN leaves a gap.

    ``spread`` is the half length of error bars. ``style`` chooses colour, marker and dashes.
    """

    x: Array
    y: Array
    name: str = ""
    kind: Marks = "line"
    style: int = 0
    spread: Array | None = None


def number(value: float) -> str:
    """Format a number.

    Examples
    --------
    >>> number(12345.6), number(0.012345), number(float("nan"))
    ('12,346', '0.0123', 'not known')
    """
    if not math.isfinite(value):
        return "not known" if math.isnan(value) else "infinite"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"


def percent(fraction: float) -> str:
    """Format a fraction as a percentage.

    Examples
    --------
    >>> percent(0.2), percent(1.23456e-5)
    ('20%', '0.00123%')
    """
    return f"{100 * fraction:.3g}%"


# axes


def linear_axis(name: str, *values: Array, zero: bool = False) -> Axis:
    """Return an axis with round numbers around some values, beginning at zero if wanted."""
    low, high = _range_of(values)
    low = min(low, 0.0) if zero else low
    if not high > low:
        low, high = low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
    margin = 0.04 * (high - low)
    low = low if zero and low == 0 else low - margin
    return Axis(name, low, high + margin, nice_ticks(low, high + margin, 5))


def log_axis(name: str, *values: Array) -> Axis:
    """Return an axis of powers of ten, or of 1, 2 and 5 times these if there are few."""
    positive = tuple(part[part > 0] for part in values)
    low, high = _range_of(positive) if any(map(len, positive)) else (0.1, 1.0)
    low, high = low / 1.15, high * 1.15
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    step = math.ceil((last - first) / 6)
    factors = (1,) if last - first > 2 else (1, 2, 5)
    candidates = [(m, e) for e in range(first, last + 1, step) for m in factors]
    ticks = [(m * 10.0**e, _power(m, e)) for m, e in candidates if low <= m * 10.0**e <= high]
    if len(ticks) < 2:
        ticks = nice_ticks(low, high, 4)
    return Axis(name, low, high, ticks, is_log=True)


def mode_axis(mode: Mode) -> Axis:
    """Return an axis along the indices of a mode."""
    return Axis(mode.name, -0.5, mode.size - 0.5, mode.ticks())


def fraction_axis(name: str, fractions: Array) -> Axis:
    """Return an axis from 0 to 100%, or to round percents above small fractions."""
    most = float(fractions.max())
    top = 1.0 if most > SMALL_FRACTION else 1.2 * most or 1.0
    return Axis(name, 0.0, top, [(t, percent(t)) for t, _ in nice_ticks(0.0, top, 5)])


def _range_of(values: Sequence[Array]) -> tuple[float, float]:
    numbers = np.concatenate([np.ravel(part) for part in values]) if values else np.zeros(0)
    numbers = numbers[np.isfinite(numbers)]
    return (float(numbers.min()), float(numbers.max())) if len(numbers) else (0.0, 1.0)


def _power(factor: int, exponent: int) -> str:
    if -3 <= exponent <= 3:
        return f"{factor * 10.0**exponent:g}"
    return f"{factor}e{exponent}"


# whole charts


def draw_chart(title: str, x: Axis, y: Axis, series: Sequence[Series]) -> str:
    """Draw series over two axes; the title is read to those who cannot see the picture."""
    named = [one for one in series if one.name]
    top = TOP + (LEGEND if len(named) > 1 else 0)
    marks = [_draw_series(one, x, y, top) for one in series]
    legend = _draw_legend(named) if len(named) > 1 else ""
    return _frame(title, f"{_draw_axes(x, y, top)}{''.join(marks)}{legend}")


def draw_image(title: str, x: Axis, y: Axis, fractions: Array) -> str:
    """Draw an image of fractions, the largest darkest, rows from top to bottom."""
    rgba = np.empty((*fractions.shape, 4), dtype=np.uint8)
    rgba[..., :3] = BLUE
    rgba[..., 3] = np.rint(255 * fractions / (fractions.max() or 1.0))
    source = base64.b64encode(_encode_png(rgba)).decode("ascii")
    picture = (
        f'<image x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" '
        f'height="{HEIGHT - TOP - BOTTOM}" preserveAspectRatio="none" class="pixels" '
        f'href="data:image/png;base64,{source}"/>'
    )
    downwards = Axis(y.name, y.high, y.low, y.ticks)
    return _frame(title, f"{_draw_axes(x, downwards, TOP)}{picture}")


def _frame(title: str, inside: str) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title>{inside}</svg>'
    )


def _draw_axes(x: Axis, y: Axis, top: int) -> str:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    at = y.map(np.array([tick for tick, _ in y.ticks]), bottom, top)
    for position, (_, text) in zip(at, y.ticks, strict=True):
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{position:.1f}" y2="{position:.1f}"/>'
        )
        label = escape(shorten(text, 7))
        parts.append(f'<text x="{LEFT - 6}" y="{position + 4:.1f}" class="end">{label}</text>')
    at = x.map(np.array([tick for tick, _ in x.ticks]), LEFT, right)
    last = -math.inf
    for position, (_, text) in zip(at, x.ticks, strict=True):
        half = LETTER * len(text) / 2
        middle = min(max(position, half), WIDTH - half)
        parts.append(f'<path class="tick" d="M{position:.1f} {bottom}v4"/>')
        if middle - half > last + 4:  # a label that would run into the one before is left out
            parts.append(
                f'<text x="{middle:.1f}" y="{bottom + 17}" class="middle">{escape(text)}</text>'
            )
            last = middle + half
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
    name = escape(x.name)
    parts.append(
        f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 7}" class="middle name">{name}</text>'
    )
    if y.name:
        height = (top + bottom) / 2
        parts.append(
            f'<text x="9" y="{height}" class="middle name" '
            f'transform="rotate(-90 9 {height})">{escape(y.name)}</text>'
        )
    return "".join(parts)


def _draw_legend(series: Sequence[Series]) -> str:
    parts, left = [], 10.0
    for one in series:
        parts.append(f'<g class="s{one.style}">')
        if one.kind in ("line", "both"):
            parts.append(f'<line class="line" x1="{left}" x2="{left + 14}" y1="12" y2="12"/>')
        if one.kind != "line":
            parts.append(_mark(left + 7, 12, one.style, one.kind == "ring"))
        parts.append(f'</g><text x="{left + 18}" y="15.5">{escape(one.name)}</text>')
        left += 27 + LETTER * len(one.name)
    return "".join(parts)


# series


def _draw_series(series: Series, x: Axis, y: Axis, top: int) -> str:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    if len(series.x) > MAX_POINTS:
        series = _thin(series)
    across, up = x.map(series.x, LEFT, right), y.map(series.y, bottom, top)
    parts = [f'<g class="s{series.style}">']
    if series.spread is not None:
        for sign in (-1, 1):
            ends = y.map(series.y + sign * series.spread, bottom, top)
            ends = np.clip(np.where(np.isnan(ends), bottom, ends), top, bottom)
            bars = zip(across, up, ends, strict=True)
            path = "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in bars if math.isfinite(b))
            parts.append(f'<path class="spread" d="{path}"/>')
    if series.kind == "bars":
        path = "".join(
            f"M{a:.1f} {bottom}V{b:.1f}" for a, b in zip(across, up, strict=True) if b < bottom
        )
        part = 0.8 if len(across) <= MAX_BARS else 1.0  # of the distance: gaps between few only
        width = max(1.0, part * (right - LEFT) / len(across))
        parts.append(f'<path class="bars" stroke-width="{min(width, 26):.2f}" d="{path}"/>')
    if series.kind in ("line", "both"):
        parts.append(f'<path class="line" d="{_path(across, up)}"/>')
    if series.kind in ("points", "both", "ring"):
        is_ring = series.kind == "ring"
        points = zip(across, up, strict=True)
        parts.extend(_mark(a, b, series.style, is_ring) for a, b in points if math.isfinite(b))
    return "".join([*parts, "</g>"])


def _path(across: Array, up: Array) -> str:
    """Join points by lines, and leave gaps where there are none."""
    parts, is_down = [], False
    for a, b in zip(across, up, strict=True):
        if not (math.isfinite(a) and math.isfinite(b)):
            is_down = False
            continue
        parts.append(f"{'L' if is_down else 'M'}{a:.1f} {b:.1f}")
        is_down = True
    return "".join(parts)


def _mark(x: float, y: float, style: int, is_ring: bool = False) -> str:
    if is_ring:
        return f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="7"/>'
    shape = MARKERS[style % len(MARKERS)]
    if shape == "circle":
        return f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
    if shape == "square":
        return f'<rect class="dot" x="{x - 2.7:.1f}" y="{y - 2.7:.1f}" width="5.4" height="5.4"/>'
    corners = {
        "triangle": f"M{x:.1f} {y - 3.6:.1f}l3.6 6.4h-7.2z",
        "diamond": f"M{x:.1f} {y - 3.9:.1f}l3.9 3.9l-3.9 3.9l-3.9 -3.9z",
    }
    return f'<path class="dot" d="{corners[shape]}"/>'


def _thin(series: Series) -> Series:
    """Keep the least and the greatest of neighbouring points, so that no peak is lost."""
    n_bins = MAX_POINTS // 2
    edges = np.linspace(0, len(series.x), n_bins + 1).astype(int)
    kept = []
    for first, last in pairwise(edges):
        part = series.y[first:last]
        if np.isfinite(part).any():
            kept.extend(sorted({first + int(np.nanargmin(part)), first + int(np.nanargmax(part))}))
        else:
            kept.append(first)
    return Series(series.x[kept], series.y[kept], series.name, series.kind, series.style)


def _encode_png(rgba: Array) -> bytes:
    """Write ``rows x columns x 4`` bytes as PNG."""
    rows, columns = rgba.shape[:2]
    lines = np.concatenate([np.zeros((rows, 1), np.uint8), rgba.reshape(rows, -1)], axis=1)
    header = struct.pack(">IIBBBBB", columns, rows, 8, 6, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
    )
