"""What the page carries of the tensor: slices as images and fibres as curves, in 16 bits."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensormend.completion.report.modes import Mode
from tensormend.completion.result import Completion
from tensormend.core.algebra import Array

__all__ = ["View", "curve_view", "image_view", "is_spatial"]

IMAGE_BUDGET, CURVE_BUDGET = 800_000, 400_000  # entries: 2.3 and 1.1 MB of text
MAX_SIDE = 192  # pixels of an image
MAX_LENGTH = 600  # indices of a curve
MIN_LENGTH = 8  # indices that make a curve
MAX_STOPS = 500  # indices of a slider
SHOWN_WEIGHT = 8  # how much rather indices of a slider are left out than those that are shown
LEVELS = 65535
N_LOOKS = 50  # slices from which their differences are estimated
CONTRAST = (1.0, 99.0)  # percentiles between which the colours of an image lie


@dataclass(frozen=True, eq=False)
class View:
    """Part of a tensor: every n-th index of each mode.

    Attributes
    ----------
    shown : tuple of int
        Modes that are shown at once: row, column and perhaps colour, or the mode of a curve.
    others : tuple of int
        Modes that have a slider.
    steps : tuple of int
        Per mode of the tensor, the step between indices that are kept.
    values : ndarray
        Over ``others`` and then ``shown``, magnitudes of complex numbers.
    observed : ndarray
        Whether each is observed.
    """

    shown: tuple[int, ...]
    others: tuple[int, ...]
    steps: tuple[int, ...]
    values: Array
    observed: Array

    @property
    def differ(self) -> bool:
        """Whether slices differ so much that each needs its own colour scale."""
        slices = self.values.reshape(-1, math.prod(self.values.shape[len(self.others) :]))
        spans = np.ptp(slices[:: math.ceil(len(slices) / N_LOOKS)], axis=1)
        return bool(np.median(spans) < np.ptp(self.values) / 2)

    def encode(self, modes: Sequence[Mode]) -> dict[str, Any]:
        """Return what goes into the page."""
        low, high = float(self.values.min()), float(self.values.max())
        half = high / 2 - low / 2  # the difference itself may overflow
        fractions = (self.values / 2 - low / 2) / half if half > 0 else np.zeros(self.values.shape)
        numbers = np.rint(LEVELS * fractions).astype("<u2")
        bits = np.packbits(self.observed, axis=None, bitorder="little")
        dark, bright = np.percentile(numbers, CONTRAST)
        return {
            "sizes": list(self.values.shape),
            "sliders": len(self.others),
            "modes": [self._describe(k, modes[k]) for k in (*self.others, *self.shown)],
            "low": low,
            "high": high,
            "range": [float(dark), float(bright)] if bright > dark else [0.0, float(LEVELS)],
            "values": _to_text(numbers.tobytes()),
            "observed": _to_text(bits.tobytes()),
        }

    def _describe(self, k: int, mode: Mode) -> dict[str, Any]:
        indices = range(0, mode.size, self.steps[k])
        return {
            "mode": k,
            "name": mode.name,
            "size": mode.size,
            "step": self.steps[k],
            "labels": [mode.label(index) for index in indices],
            "ticks": [[at, text] for at, text in mode.ticks()],
        }


def image_view(result: Completion, modes: Sequence[Mode]) -> View:
    """Take slices over the two modes that make an image, and a mode of colours if there is one."""
    row, column = _choose_image(modes)
    rest = [k for k in range(len(modes)) if k not in (row, column)]
    colour = next((k for k in rest if modes[k].is_colour), None)
    shown = (row, column) if colour is None else (row, column, colour)
    limits = [MAX_SIDE if k in (row, column) else MAX_STOPS for k in range(len(modes))]
    return _take(result, shown, limits, IMAGE_BUDGET)


def curve_view(result: Completion, modes: Sequence[Mode]) -> View:
    """Take fibres along the mode that makes a curve."""
    curve = _choose_curve(modes)
    limits = [MAX_LENGTH if k == curve else MAX_STOPS for k in range(len(modes))]
    return _take(result, (curve,), limits, CURVE_BUDGET)


def is_spatial(view: View, modes: Sequence[Mode]) -> bool:
    """Return whether an image is spatial, with square pixels."""
    return modes[view.shown[0]].is_row and modes[view.shown[1]].is_column


def _choose_image(modes: Sequence[Mode]) -> tuple[int, int]:
    """Choose the modes of rows and columns: by name, else the two largest."""
    rows = [k for k, mode in enumerate(modes) if mode.is_row]
    columns = [k for k, mode in enumerate(modes) if mode.is_column and k not in rows]
    if rows and columns:
        return rows[0], columns[0]
    grey = [k for k, mode in enumerate(modes) if not mode.is_colour]
    pool = grey if len(grey) > 1 else range(len(modes))
    first, second = sorted(sorted(pool, key=lambda k: -modes[k].size)[:2])
    if modes[first].is_time and not modes[second].is_time:
        return second, first  # time goes from left to right
    return first, second


def _choose_curve(modes: Sequence[Mode]) -> int:
    """Choose the mode of a curve: the longest of time, else of a spectrum, else the last one."""
    largest = sorted(range(len(modes)), key=lambda k: -modes[k].size)
    for fits in ("is_time", "is_spectrum"):
        found = [k for k in largest if getattr(modes[k], fits) and modes[k].size > 2]
        if found:
            return found[0]
    image = _choose_image(modes)
    rest = [k for k in largest if k not in image and modes[k].size >= MIN_LENGTH]
    return rest[0] if rest else largest[0]


def _take(result: Completion, shown: tuple[int, ...], limits: Sequence[int], budget: int) -> View:
    """Take every n-th index of each mode, within a budget of entries."""
    shape = result.fit.x.shape
    others = tuple(k for k in range(len(shape)) if k not in shown)
    steps = _choose_steps(shape, shown, limits, budget)
    key = tuple(slice(None, None, step) for step in steps)
    block = np.asarray(result[key])
    before = np.full(block.shape, np.nan, dtype=block.dtype)
    result.observations.put(before, key)
    observed = ~np.isnan(before)
    values = np.abs(block) if block.dtype.kind == "c" else block
    order = (*others, *shown)
    values = np.nan_to_num(values.astype(np.float64))
    return View(shown, others, steps, values.transpose(order), observed.transpose(order))


def _choose_steps(
    shape: Sequence[int], shown: tuple[int, ...], limits: Sequence[int], budget: int
) -> tuple[int, ...]:
    """Choose steps between indices so that few enough are left.

    Examples
    --------
    >>> _choose_steps((300, 300, 300), (0, 1), (192, 192, 500), 800_000)
    (2, 2, 9)
    """
    steps = [math.ceil(n / limit) for n, limit in zip(shape, limits, strict=True)]
    counts = [math.ceil(n / step) for n, step in zip(shape, steps, strict=True)]
    weights = [SHOWN_WEIGHT if k in shown else 1 for k in range(len(shape))]
    while math.prod(counts) > budget:
        k = max(range(len(shape)), key=lambda j: counts[j] / weights[j])
        while math.ceil(shape[k] / steps[k]) == counts[k]:
            steps[k] += 1
        counts[k] = math.ceil(shape[k] / steps[k])
    return tuple(steps)


def _to_text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
