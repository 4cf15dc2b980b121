"""The modes of a tensor as a page shows them: names, labels, ticks, and what they stand for."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import numpy as np

from tensormend.core.algebra import Array
from tensormend.data.observations import Observations

__all__ = ["Mode", "Tick", "nice_ticks", "read_modes", "sentence", "shorten"]

Tick = tuple[float, str]
"""A position on an axis, and its text."""

N_TICKS = 6
MAX_LABELS = 100_000  # beyond which indices stand in for labels
MAX_LETTERS = 40  # of a name or label
MAX_TICK_LETTERS = 12

ROWS = {"row", "y", "lat", "latitude", "height", "line", "northing"}
COLUMNS = {"column", "col", "x", "lon", "lng", "longitude", "width", "sample", "easting"}
TIMES = {"time", "datetime", "timestamp", "hour", "minute", "second", "slot", "frame", "t"}
TIMES |= {"date", "day", "week", "month", "quarter", "year"}
SPECTRA = {"band", "wavelength", "frequency", "freq", "energy", "spectrum"}
CHANNELS = {"channel", "color", "colour", "rgb"}
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

CALENDAR = tuple(
    (unit, step)
    for unit, steps in {
        "s": (1, 5, 15, 30),
        "m": (1, 5, 15, 30),
        "h": (1, 3, 6, 12),
        "D": (1, 2, 7, 14),
        "M": (1, 3, 6),
        "Y": (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
    }.items()
    for step in steps
)
"""Distances of ticks on an axis of dates, in NumPy's units."""


@dataclass(frozen=True, eq=False)
class Mode:
    """One mode.

    Attributes
    ----------
    name : str
        What it is called.
    size : int
        Number of indices.
    labels : ndarray, optional
        One per index: strings, numbers or ``datetime64``; ``None`` where they have none.

    Examples
    --------
    >>> mode = Mode("day", 60, np.datetime64("2020-01-15") + np.arange(60))
    >>> mode.label(1), mode.is_time, mode.ticks(3)
    ('2020-01-16', True, [(17.0, 'Feb 2020'), (46.0, 'Mar 2020')])
    """

    name: str
    size: int
    labels: Array | None = None

    @property
    def is_row(self) -> bool:
        """Whether it goes from top to bottom in an image."""
        return bool(self._words & ROWS)

    @property
    def is_column(self) -> bool:
        """Whether it goes from left to right in an image."""
        return bool(self._words & COLUMNS)

    @property
    def is_time(self) -> bool:
        """Whether it is a mode of time."""
        return self._has_dates or bool(self._words & TIMES)

    @property
    def is_spectrum(self) -> bool:
        """Whether it is a mode of bands, wavelengths or frequencies."""
        return bool(self._words & SPECTRA)

    @property
    def is_colour(self) -> bool:
        """Whether its three indices are red, green and blue."""
        if self.size != 3:
            return False
        if self.labels is None:
            return bool(self._words & CHANNELS)
        return [self.label(k).lower()[:1] for k in range(3)] == list("rgb")

    @property
    def points_up(self) -> bool:
        """Whether the labels of rows grow upwards on paper, as latitudes do."""
        if self.labels is None or not (self.is_row and self._is_monotone):
            return False
        return bool(self.labels[0] < self.labels[-1])

    def label(self, index: int) -> str:
        """Return the label of an index as text."""
        if self.labels is None:
            return str(index)
        label = self.labels[index]
        if isinstance(label, np.datetime64):
            whole = np.all(self.labels == self.labels.astype("datetime64[D]"))
            return str(label.astype("datetime64[D]" if whole else "datetime64[s]")).replace(
                "T", " "
            )
        if isinstance(label, float | np.floating):
            return f"{label:.6g}"
        return shorten(str(label), MAX_LETTERS)

    def ticks(self, count: int = N_TICKS) -> list[Tick]:
        """Choose positions along the mode and their texts."""
        if self.labels is None:
            return [
                (tick, text) for tick, text in nice_ticks(0, self.size - 1, count) if tick % 1 == 0
            ]
        if self._is_monotone and self._has_dates:
            return _date_ticks(self.labels, count)
        if self._is_monotone and self.size > count:
            labels = self.labels.astype(float)
            ticks = nice_ticks(float(labels.min()), float(labels.max()), count)
            ordered = np.argsort(labels)
            positions = np.interp([tick for tick, _ in ticks], labels[ordered], ordered)
            return [
                (float(position), text)
                for position, (_, text) in zip(positions, ticks, strict=True)
            ]
        step = math.ceil(self.size / count)
        every = range(0, self.size, step)
        return [(float(k), _squeeze(self.label(k))) for k in every]

    @property
    def _words(self) -> set[str]:
        words = re.split(r"[^a-z]+", self.name.lower())
        return {*words, *(word.removesuffix("s") for word in words)}

    @property
    def _has_dates(self) -> bool:
        return self.labels is not None and self.labels.dtype.kind == "M"

    @property
    def _is_monotone(self) -> bool:
        """Whether labels are numbers or dates that only grow, or only fall."""
        if self.labels is None or self.labels.dtype.kind not in "iufM" or self.size < 2:
            return False
        steps = np.diff(self.labels).astype(float)
        return bool((steps > 0).all() or ((steps < 0).all() and not self._has_dates))


def read_modes(observations: Observations) -> tuple[Mode, ...]:
    """Read names and labels from the kind of the data."""
    kind, order = observations.container, len(observations.shape)
    names: Sequence[Hashable] = getattr(kind, "dims", [f"mode {k}" for k in range(order)])
    label = getattr(kind, "label", None)
    modes = []
    for k, (name, size) in enumerate(zip(names, observations.shape, strict=True)):
        labels = None
        if label is not None and size <= MAX_LABELS:
            labels = _as_labels([label(k, index) for index in range(size)])
        modes.append(Mode(shorten(str(name), MAX_LETTERS), size, labels))
    return tuple(modes)


def nice_ticks(low: float, high: float, count: int = N_TICKS) -> list[Tick]:
    """Choose round numbers between two, about as many as asked for.

    Examples
    --------
    >>> nice_ticks(0, 0.9, 4)
    [(0.0, '0'), (0.5, '0.5')]
    """
    span = high - low
    if not (math.isfinite(span) and span > 0):
        return [(low, f"{low:.4g}")]
    unit = 10.0 ** math.floor(math.log10(span / count))
    step = next((m * unit for m in (1, 2, 5) if span / (m * unit) <= count), 10 * unit)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [(k * step, f"{k * step:.6g}") for k in range(first, last + 1)]


def shorten(text: str, letters: int) -> str:
    """Cut a text that is too long, on one line."""
    text = " ".join(text.split())
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def _squeeze(text: str) -> str:
    """Cut a text in the middle, so that what its end counts is left.

    Examples
    --------
    >>> _squeeze("detector number 12")
    'detec…ber 12'
    """
    half = MAX_TICK_LETTERS // 2
    return text if len(text) <= MAX_TICK_LETTERS else f"{text[: half - 1]}…{text[-half:]}"


def sentence(text: str) -> str:
    """Begin a text with a capital letter."""
    return text[:1].upper() + text[1:]


def _as_labels(found: list[Any]) -> Array | None:
    """Bring labels to dates, numbers or texts; ``None`` where they only count the indices."""
    if all(isinstance(label, date | np.datetime64) for label in found):
        dates = np.array([_as_date(label) for label in found])
        if not np.isnat(dates).any():
            return dates
    elif all(_is_number(label) for label in found):
        numbers = np.array(found)
        return None if np.array_equal(numbers, np.arange(len(found))) else numbers
    return np.array([str(label) for label in found], dtype=object)


def _as_date(label: Any) -> np.datetime64:
    if isinstance(label, datetime):
        label = np.datetime64("NaT") if label != label else label.replace(tzinfo=None)
    return np.datetime64(label, "us")


def _is_number(label: Any) -> bool:
    is_number = isinstance(label, int | float | np.integer | np.floating)
    return is_number and not isinstance(label, bool) and math.isfinite(label)


def _date_ticks(labels: Array, count: int) -> list[Tick]:
    """Put ticks where years, months, days or hours begin."""
    seconds = labels.astype("datetime64[us]").astype(np.int64)
    for unit, step in CALENDAR:
        whole = labels[[0, -1]].astype(f"datetime64[{unit}]").astype(np.int64)
        if (whole[1] - whole[0]) // step <= count:
            break
    numbers = np.arange(-(-whole[0] // step) * step, whole[1] + 1, step)
    dates = numbers.astype(f"datetime64[{unit}]")
    at = dates.astype("datetime64[us]").astype(np.int64)
    inside = (at >= seconds[0]) & (at <= seconds[-1])
    if not inside.any():
        return [(0.0, str(labels[0].astype("datetime64[s]")).replace("T", " "))]
    positions = np.interp(at[inside], seconds, np.arange(len(seconds)))
    several_days = labels[0].astype("datetime64[D]") != labels[-1].astype("datetime64[D]")
    return [
        (float(position), _show_date(day, unit, several_days=bool(several_days)))
        for position, day in zip(positions, dates[inside], strict=True)
    ]


def _show_date(day: Any, unit: str, *, several_days: bool) -> str:
    """Write a date as precisely as its unit.

    Examples
    --------
    >>> _show_date(np.datetime64("2020-01-15T06"), "h", several_days=True)
    '15 Jan 06:00'
    """
    iso = str(day.astype("datetime64[s]"))
    clock = iso[-8:] if unit == "s" else iso[-8:-3]
    year, month, number = iso[:-9].rsplit("-", 2)
    name = MONTHS[int(month) - 1]
    if unit == "Y":
        return year
    if unit == "M":
        return f"{name} {year}"
    if unit == "D":
        return f"{int(number)} {name}"
    return f"{int(number)} {name} {clock}" if several_days else clock
