"""TIFF images and stacks, through tifffile.

The modes are what the axes of the file say: row, column, channel, frame, depth, else page.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.core.algebra import Array, check_memory
from tensormend.data.formats.base import Options, choose
from tensormend.data.formats.images import read_pages
from tensormend.data.formats.pixels import COLOURS
from tensormend.data.observations import TensorData
from tensormend.errors import FileError, InputError, require

__all__ = ["read_tiff", "write_tiff"]

AXES = {"Y": "row", "X": "column", "S": "channel", "C": "channel", "T": "frame", "Z": "depth"}
COLOURED = (2, 3, 6)  # photometric interpretations: RGB, palette, YCbCr
PLAIN = (1, 8, 32946)  # compressions that tifffile knows of itself: none, and deflate by two names


def read_tiff(path: Path, options: Options) -> TensorData:
    """Read an image or a stack of pages from a ``.tif`` file."""
    tifffile = require("tifffile", "images", "a .tif file")
    with _heeding_log(), tifffile.TiffFile(path) as file:
        stacks = {str(k): one for k, one in enumerate(file.series)}
        shapes = {key: one.shape for key, one in stacks.items()}
        series = stacks[choose(path, shapes, options.variable, "stack")]
        page = series.keyframe
        if series.dtype is None or series.dtype.kind not in "biufc":
            raise FileError(f"{path} must hold numbers, got {series.dtype}; convert it")
        check_memory(series.shape, series.dtype, options.memory_limit, f"the stack in {path}")
        if page.compression in PLAIN:
            values, axes, alpha = _read_samples(np.asarray(series.asarray()), series.axes, page)
        elif options.variable is None:
            values, axes, alpha = _read_compressed(path, options.memory_limit)
        else:
            raise FileError(
                f"{path} must hold one stack to be read with its compression, got several; save "
                "the stack without compression"
            )
    names = _name_axes(axes)
    is_colour = names[-1] == "channel" and page.photometric in COLOURED and values.shape[-1] == 3
    labels = (None,) * (values.ndim - 1) + ((COLOURS if is_colour else None),)
    observed = None
    if alpha is not None and not alpha.all():
        observed = np.repeat((alpha != 0)[..., None], values.shape[-1], axis=-1)
        observed = observed if observed.ndim == values.ndim else observed[..., 0]
    return TensorData(
        values,
        observed=observed,
        dims=names,
        coords=labels,
        encoding={"dtype": values.dtype.str, "axes": axes},
    )


class _Complaints(logging.Handler):
    """Keep what is logged."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one message."""
        self.messages.append(record.getMessage())


@contextmanager
def _heeding_log() -> Iterator[None]:
    """Take errors seriously that tifffile logs only, such as pages that are cut off."""
    complaints, log = _Complaints(), logging.getLogger("tifffile")
    log.addHandler(complaints)
    try:
        yield
    finally:
        log.removeHandler(complaints)
    if complaints.messages:
        raise ValueError(complaints.messages[0])


def _read_compressed(path: Path, limit: float | None) -> tuple[Array, str, Array | None]:
    """Read with Pillow what tifffile cannot decode alone, such as LZW: pages of one size."""
    values, alpha = read_pages(path, limit)
    axes = "QYXS"[: values.ndim]
    if len(values) == 1:
        values, axes, alpha = values[0], axes[1:], None if alpha is None else alpha[0]
    return values, axes, alpha


def _read_samples(values: Array, axes: str, page: Any) -> tuple[Array, str, Array | None]:
    """Turn palettes, bits and white-is-zero into colours or grey values, and part from alpha."""
    alpha = None
    if page.photometric == 3 and page.colormap is not None:
        values = (page.colormap[:, values] >> 8).astype(np.uint8)
        values, axes = np.moveaxis(values, 0, -1), f"{axes}S"
    if values.dtype == bool:
        values = values.astype(np.uint8) * np.uint8(255)
    if page.photometric == 0 and values.dtype.kind == "u":
        values = np.iinfo(values.dtype).max - values
    if "S" in axes and axes[-1] != "S":  # planes of colours: last, as in other images
        values = np.moveaxis(values, axes.index("S"), -1)
        axes = axes.replace("S", "") + "S"
    extra = tuple(page.extrasamples or ())
    if axes[-1] == "S" and extra and extra[-1] in (1, 2) and values.shape[-1] in (2, 4):
        values, alpha = values[..., :-1], values[..., -1]
        if values.shape[-1] == 1:
            values, axes = values[..., 0], axes[:-1]
    return np.ascontiguousarray(values), axes, alpha


def _name_axes(axes: str) -> tuple[str, ...]:
    """Name the modes by the axes that the file states; others are pages."""
    names: list[str] = []
    for axis in axes:
        name = AXES.get(axis, "page")
        n = sum(other.split(" ")[0] == name for other in names)
        names.append(f"{name} {n + 1}" if n else name)
    return tuple(names)


def write_tiff(path: Path, data: TensorData) -> None:
    """Write an image or a stack in the type that was read, or as floats if entries are missing."""
    tifffile = require("tifffile", "images", "a .tif file")
    values = data.todense()
    stated = np.dtype(data.encoding.get("dtype", values.dtype))
    has_missing = values.dtype.kind == "f" and bool(np.isnan(values).any())
    if stated.kind in "iu" and values.dtype != stated and not has_missing:
        ends = np.iinfo(stated)
        values = np.clip(np.rint(values), ends.min, ends.max).astype(stated)
    elif stated.kind == "f":
        values = values.astype(stated)
    if values.dtype == bool:
        values = values.astype(np.uint8) * np.uint8(255)
    if values.dtype.kind not in "iuf" or values.ndim < 2:
        raise InputError(
            "a .tif file holds images of real numbers, got "
            f"{values.dtype} of shape {values.shape}; write .npz"
        )
    axes = data.encoding.get("axes", "")
    if len(axes) != values.ndim:
        axes = _find_axes(data)
    is_colour = axes[-1] == "S" and values.shape[-1] in (3, 4)
    tifffile.imwrite(
        path,
        np.ascontiguousarray(values),
        photometric="rgb" if is_colour else "minisblack",
        metadata={"axes": axes},
        bigtiff=values.nbytes > 2**31,
    )


def _find_axes(data: TensorData) -> str:
    """Infer the axes from the names of the modes: the last are rows, columns, perhaps channels."""
    order = len(data.shape)
    has_names = "row" in data.dims and "column" in data.dims
    is_colour = data.dims[-1] == "channel" if has_names else order > 2 and data.shape[-1] == 3
    if not has_names:
        last = "YXS" if is_colour else "YX"
        return "Q" * (order - len(last)) + last
    observed = {name: axis for axis, name in AXES.items() if axis != "S"}
    axes = "".join(observed.get(name, "Q") for name in data.dims)
    return axes[:-1] + "S" if is_colour else axes
