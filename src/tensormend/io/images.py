"""Images and animated GIFs, through Pillow, and TIFF stacks, through tifffile.

Row x column, x channel where there are colours, and frames or pages first where there are several.
A pixel whose alpha is 0 is unknown; alpha is not part of the tensor. The orientation that a camera
notes is left alone. The file that names both libraries.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.algebra import Array, check_memory
from tensormend.errors import DataWarning, FileError, InputError, warn_user
from tensormend.io.base import Options, require
from tensormend.io.entries import decoding
from tensormend.io.pixels import COLOURS, Pixels, as_pixels, drop_grey, name_modes
from tensormend.known import TensorData

__all__ = ["read_gif", "read_image", "read_tiff", "write_gif", "write_image", "write_tiff"]

QUALITY = 95  # of JPEG, of 100
FRAME_SECONDS = 0.1  # where an animation does not tell
AXES = {"Y": "row", "X": "column", "S": "channel", "C": "channel", "T": "frame", "Z": "depth"}
DEEP_MODES = {"I;16", "I;16B", "I;16L", "I;16N"}


# PNG and JPEG


@contextmanager
def _opened(path: Path, what: str) -> Iterator[Any]:
    pillow = require("PIL.Image", "images", "an image")
    with decoding(path, what), warnings.catch_warnings():
        # memory_limit decides what is too large
        warnings.simplefilter("ignore", pillow.DecompressionBombWarning)
        with pillow.open(path) as image:
            yield image


def read_image(path: Path, options: Options) -> TensorData:
    """Read a ``.png`` or ``.jpg`` file."""
    with _opened(path, "an image") as image:
        if getattr(image, "n_frames", 1) > 1 and image.format != "MPO":
            raise FileError(
                f"{path} must hold one image, got {image.n_frames} frames; save it as .gif"
            )
        rows, columns = image.height, image.width
        depth = 2 if image.mode in DEEP_MODES else 4
        check_memory((rows, columns, depth), np.uint8, options.memory_limit, f"the image {path}")
        if "16B" in str(image.tile) and image.mode not in DEEP_MODES:
            warn_user(
                f"the 16 bits of a colour in {path} are read as 8; use .tif for all of them",
                DataWarning,
            )
        values, alpha = _read_pixels(image)
    names, labels = name_modes(values.ndim, frames=False)
    return TensorData(
        values,
        known=_spread(alpha, values),
        names=names,
        labels=labels,
        details={"dtype": values.dtype.str, "alpha": alpha},
    )


def _read_pixels(image: Any) -> tuple[Array, Array | None]:
    """Return grey values or three colours, and alpha if there is one."""
    mode, clear = image.mode, image.info.get("transparency")
    if mode in DEEP_MODES or mode in ("I", "F"):
        dtype = {"I": np.int32, "F": np.float32}.get(mode, np.uint16)
        values = np.array(image).astype(dtype, copy=False)
        alpha = None if clear is None else np.where(values == clear, 0, 255).astype(np.uint8)
        return values, alpha
    is_grey = mode in ("1", "L", "LA", "La")
    if clear is None and "A" not in mode.upper().replace("LAB", ""):
        values = np.array(image.convert("L" if is_grey else "RGB"))
        return (drop_grey(values) if mode == "P" else values), None
    both = np.array(image.convert("LA" if is_grey else "RGBA"))
    values, alpha = both[..., 0] if is_grey else both[..., :3], both[..., -1]
    values = drop_grey(values) if mode in ("P", "PA") else values
    return np.ascontiguousarray(values), np.ascontiguousarray(alpha)


def _spread(alpha: Array | None, values: Array) -> Array | None:
    """Turn alpha into what is known of the values, ``None`` if all are."""
    if alpha is None or alpha.all():
        return None
    known = alpha != 0
    return known if known.ndim == values.ndim else np.repeat(known[..., None], 3, axis=-1)


def write_image(path: Path, data: TensorData) -> None:
    """Write a ``.png`` file, or a ``.jpg`` file, which is not exact even at this quality."""
    pillow = require("PIL.Image", "images", "an image")
    is_png = path.name.lower().endswith(".png")
    what = "a .png file" if is_png else "a .jpg file"
    pixels = as_pixels(data, what, deep=is_png, holes=is_png)
    if len(pixels.values) != 1:
        raise InputError(
            f"{what} holds one image, got {len(pixels.values)} frames; write .gif, .tif or a slice"
        )
    values = pixels.values[0]
    alpha = _join_alpha(pixels, data.details.get("alpha")) if is_png else None
    if alpha is not None and values.dtype == np.uint16:
        raise InputError(
            "a .png file of 16 bits cannot leave pixels out, got unknown ones; write .tif or .npz"
        )
    if alpha is not None:
        colours = values if values.ndim == 3 else values[..., None]
        values = np.concatenate([colours, alpha[..., None]], axis=-1)
    with decoding(path, what):
        image = pillow.fromarray(np.ascontiguousarray(values))
        image.save(path, **({} if is_png else {"quality": QUALITY, "subsampling": 0}))


def _join_alpha(pixels: Pixels, alpha: Array | None) -> Array | None:
    """Clear what is unknown; what was clear before and is known now is opaque."""
    shape = pixels.values.shape[1:3]
    if alpha is not None and (alpha.shape != shape or pixels.values.dtype == np.uint16):
        alpha = None
    if alpha is None and pixels.known is None:
        return None
    full = np.full(shape, 255, np.uint8)
    shown = full if alpha is None else np.where(alpha == 0, full, alpha)
    return shown if pixels.known is None else np.where(pixels.known[0], shown, 0).astype(np.uint8)


# GIF


def read_gif(path: Path, options: Options) -> TensorData:
    """Read the frames of a ``.gif`` file as they are shown one after another."""
    with _opened(path, "a .gif file") as image:
        n_frames = getattr(image, "n_frames", 1)
        size = (n_frames, image.height, image.width)
        check_memory((*size, 4), np.uint8, options.memory_limit, f"the frames of {path}")
        both = np.empty((*size, 4), dtype=np.uint8)
        durations = []
        for k in range(n_frames):
            image.seek(k)
            both[k] = np.asarray(image.convert("RGBA"))
            durations.append(float(image.info.get("duration", 0)))
        loop = image.info.get("loop")
    alpha = both[..., 3]
    both[alpha == 0] = 0  # what stands behind a clear pixel has no meaning
    values = drop_grey(both[..., :3])
    names, labels = name_modes(values.ndim, frames=True)
    starts = np.concatenate([[0.0], np.cumsum(durations)[:-1]]) / 1000
    if n_frames > 1 and np.all(np.diff(starts) > 0):
        labels = (starts, *labels[1:])
    return TensorData(
        np.ascontiguousarray(values),
        known=_spread(alpha, values),
        names=names,
        labels=labels,
        details={"dtype": "uint8", "durations": tuple(durations), "loop": loop},
    )


def write_gif(path: Path, data: TensorData) -> None:
    """Write an animation with a palette of its own for each frame, of at most 256 colours.

    Grey values are kept; colours are not exact. Frames equal to the one before lengthen it.
    """
    pillow = require("PIL.Image", "images", "an animation")
    pixels = as_pixels(data, "a .gif file", holes=True)

    def frames(first: int) -> Iterator[Any]:
        for k in range(first, len(pixels.values)):
            values = pixels.values[k]
            if pixels.known is not None:
                colours = values if pixels.has_colour else np.repeat(values[..., None], 3, axis=-1)
                alpha = np.where(pixels.known[k], 255, 0).astype(np.uint8)
                values = np.concatenate([colours, alpha[..., None]], axis=-1)
            yield pillow.fromarray(np.ascontiguousarray(values))

    durations = data.details.get("durations", ())
    if len(durations) != len(pixels.values):
        durations = _durations(data, len(pixels.values))
    loop = data.details.get("loop", 0)
    settings: dict[str, Any] = {} if loop is None else {"loop": loop}
    if pixels.known is not None:
        settings["disposal"] = 2  # else a clear pixel would show the frame before
    with decoding(path, "a .gif file"):
        next(frames(0)).save(
            path,
            format="GIF",
            save_all=True,
            append_images=frames(1),
            duration=list(durations),
            **settings,
        )


def _durations(data: TensorData, n_frames: int) -> list[float]:
    """Milliseconds of each frame: from times in seconds, else a tenth of a second."""
    labels = data.labels[0] if data.names[0] == "frame" else None
    if labels is None or labels.dtype.kind not in "iuf" or n_frames < 2:
        return [1000 * FRAME_SECONDS] * n_frames
    steps = np.diff(labels.astype(float))
    return [float(step) for step in 1000 * np.append(steps, steps[-1])]


# TIFF


def read_tiff(path: Path, options: Options) -> TensorData:
    """Read an image or a stack of pages from a ``.tif`` file."""
    tifffile = require("tifffile", "images", "a .tif file")
    with decoding(path, "a .tif file"), tifffile.TiffFile(path) as file:
        series = _choose_series(path, file.series, options.variable)
        page = series.keyframe
        check_memory(series.shape, series.dtype, options.memory_limit, f"the stack in {path}")
        if series.dtype is None or series.dtype.kind not in "biufc":
            raise FileError(f"{path} must hold numbers, got {series.dtype}; convert it")
        values, axes = np.asarray(series.asarray()), series.axes
        values, axes, alpha = _read_samples(values, axes, page)
    names = _name_axes(axes)
    is_colour = names[-1] == "channel" and page.photometric in (2, 3, 6) and values.shape[-1] == 3
    labels = (None,) * (values.ndim - 1) + ((COLOURS if is_colour else None),)
    known = None
    if alpha is not None and not alpha.all():
        known = np.repeat((alpha != 0)[..., None], values.shape[-1], axis=-1)
        known = known if known.ndim == values.ndim else known[..., 0]
    return TensorData(
        values,
        known=known,
        names=names,
        labels=labels,
        details={"dtype": values.dtype.str, "axes": axes},
    )


def _choose_series(path: Path, series: Any, variable: str | None) -> Any:
    found = {str(k): one for k, one in enumerate(series)}
    if not found:
        raise FileError(f"{path} must hold an image, got none; check the file")
    if variable is None and len(found) > 1 and len({one.shape for one in found.values()}) > 1:
        shapes = ", ".join(f"{name}: {one.shape}" for name, one in list(found.items())[:10])
        raise FileError(
            f"{path} must hold one image or stack, got several ({shapes}); name one with variable"
        )
    name = "0" if variable is None else variable
    if name not in found:
        raise FileError(f"{path} must hold the stack {name!r}, found {', '.join(found)}")
    return found[name]


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
    """Name the modes by the axes that the file tells; what it does not tell are pages."""
    names: list[str] = []
    for axis in axes:
        name = AXES.get(axis, "page")
        n = sum(other.split(" ")[0] == name for other in names)
        names.append(f"{name} {n + 1}" if n else name)
    return tuple(names)


def write_tiff(path: Path, data: TensorData) -> None:
    """Write an image or a stack in the type that was read; NaN where unknown, then as floats."""
    tifffile = require("tifffile", "images", "a .tif file")
    values = data.dense()
    stated = np.dtype(data.details.get("dtype", values.dtype))
    has_holes = values.dtype.kind == "f" and bool(np.isnan(values).any())
    if stated.kind in "iu" and values.dtype != stated and not has_holes:
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
    axes = data.details.get("axes", "")
    if len(axes) != values.ndim:
        axes = _find_axes(data)
    is_colour = axes[-1] == "S" and values.shape[-1] in (3, 4)
    with decoding(path, "a .tif file"):
        tifffile.imwrite(
            path,
            np.ascontiguousarray(values),
            photometric="rgb" if is_colour else "minisblack",
            metadata={"axes": axes},
            bigtiff=values.nbytes > 2**31,
        )


def _find_axes(data: TensorData) -> str:
    """Tell the axes from the names of the modes: the last are rows, columns, perhaps colours."""
    order = len(data.shape)
    has_names = "row" in data.names and "column" in data.names
    is_colour = data.names[-1] == "channel" if has_names else order > 2 and data.shape[-1] == 3
    if not has_names:
        last = "YXS" if is_colour else "YX"
        return "Q" * (order - len(last)) + last
    known = {name: axis for axis, name in AXES.items() if axis != "S"}
    axes = "".join(known.get(name, "Q") for name in data.names)
    return axes[:-1] + "S" if is_colour else axes
