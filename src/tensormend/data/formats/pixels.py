"""Helpers for images: names of the modes, and values rounded to pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tensormend.core.algebra import Array
from tensormend.data.observations import TensorData
from tensormend.errors import InputError

__all__ = ["COLOURS", "Pixels", "as_pixels", "drop_grey", "is_colour", "name_modes"]

COLOURS = np.array(["red", "green", "blue"])


def is_colour(data: TensorData) -> bool:
    """Return whether the last mode holds the colours of a pixel."""
    labels = data.coords[-1]
    return labels is not None and np.array_equal(labels, COLOURS)


def name_modes(order: int, *, frames: bool) -> tuple[tuple[str, ...], tuple[Array | None, ...]]:
    """Names and labels of the modes of a picture, with a mode of frames or without.

    Examples
    --------
    >>> name_modes(3, frames=True)[0]
    ('frame', 'row', 'column')
    """
    names = (*(("frame",) if frames else ()), "row", "column", "channel")[:order]
    labels = tuple(COLOURS if name == "channel" else None for name in names)
    return names, labels


def drop_grey(array: Array) -> Array:
    """Leave out the colours of a picture in which all three are the same."""
    is_grey = np.array_equal(array[..., 0], array[..., 1]) and np.array_equal(
        array[..., 0], array[..., 2]
    )
    return np.ascontiguousarray(array[..., 0]) if is_grey else array


@dataclass(frozen=True, eq=False)
class Pixels:
    """Whole numbers to be written.

    Attributes
    ----------
    values : ndarray
        Frame x row x column, and perhaps three colours.
    observed : ndarray or None
        Frame x row x column, ``None`` if every pixel is observed.
    """

    values: Array
    observed: Array | None

    @property
    def has_colour(self) -> bool:
        """Whether there are three colours."""
        return self.values.ndim == 4


def as_pixels(
    data: TensorData, what: str, *, deep: bool = False, allow_missing: bool = False
) -> Pixels:
    """Turn values into pixels of 8 bits, or of 16 where that is what was read and ``deep``.

    Values that were read as whole numbers are rounded and cut off at the ends of their range.
    ``what`` names the kind of file; ``allow_missing`` tells whether it can leave pixels out.
    """
    values = _as_frames(data, what)
    observed = _find_observed(values, what, allow_missing)
    dtype = _pixel_type(data, what, deep)
    if dtype == np.uint16 and values.ndim == 4:
        raise InputError(
            f"{what} holds colours of 8 bits, got 16 bits; write .tif, or divide the values by 257"
        )
    if values.dtype != dtype:
        top = np.iinfo(dtype).max
        if values.dtype == bool:
            values = values * np.uint8(top)
        else:
            values = np.clip(np.rint(np.nan_to_num(values)), 0, top)
    return Pixels(values.astype(dtype, copy=False), observed)


def _as_frames(data: TensorData, what: str) -> Array:
    """Return frame x row x column, and the colours if there are three."""
    values = data.todense()
    has_frames = "frame" in data.dims or values.ndim == 4
    if not has_frames and values.ndim == 3:
        has_frames = values.shape[2] != 3
    values = values if has_frames else values[None]
    if values.ndim not in (3, 4) or (values.ndim == 4 and values.shape[3] != 3):
        raise InputError(
            f"{what} holds rows and columns, perhaps of several frames or of three channels, got "
            f"the shape {data.shape}; take a slice, or write .npz"
        )
    return values


def _find_observed(values: Array, what: str, allow_missing: bool) -> Array | None:
    """Return which pixels are observed, ``None`` if all are."""
    if values.dtype.kind != "f" or not np.isnan(values).any():
        return None
    if not allow_missing:
        raise InputError(
            f"{what} cannot leave pixels out, got missing ones; complete the data first, or write "
            ".png, .gif or .npz"
        )
    shown: Array = ~np.isnan(values)
    if values.ndim == 3:
        return shown
    whole = np.asarray(shown.all(axis=-1))
    if (shown.any(axis=-1) != whole).any():
        raise InputError(
            f"{what} leaves out whole pixels, got pixels with some channels missing; write .npz "
            "or .tif"
        )
    return whole


def _pixel_type(data: TensorData, what: str, deep: bool) -> np.dtype[Any]:
    """Choose 8 or 16 bits: those that were read, or those that whole numbers need."""
    dtype = data.values.dtype
    stated = data.encoding.get("dtype")
    read = dtype if stated is None else np.dtype(stated)
    if read in (np.dtype(bool), np.dtype(np.uint8)):
        return np.dtype(np.uint8)
    if read.kind in "iu" and data.values.size:
        low, high = np.nanmin(data.values), np.nanmax(data.values)
        fits = read == np.uint16 or low >= 0
        if fits and high <= 255 and read != np.uint16:
            return np.dtype(np.uint8)
        if fits and (high <= 65535 or read == np.uint16) and deep:
            return np.dtype(np.uint16)
    raise InputError(
        f"{what} holds whole numbers from 0 to {65535 if deep else 255}, got {read} values; write "
        ".tif or .npy, or scale and round them"
    )
