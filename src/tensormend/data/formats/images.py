"""Images and animated GIFs, through Pillow.

Row x column, x channel where there are colours, and frames first where there are several.
A pixel whose alpha is 0 is missing; alpha is not part of the tensor. The orientation that a camera
notes is ignored.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.core.algebra import Array, check_memory
from tensormend.data.formats.base import Options
from tensormend.data.formats.pixels import Pixels, as_pixels, drop_grey, name_modes
from tensormend.data.observations import TensorData
from tensormend.errors import DataWarning, FileError, InputError, require, warn_user

__all__ = ["read_gif", "read_image", "read_pages", "write_gif", "write_image"]

QUALITY = 95  # of JPEG, of 100
FRAME_SECONDS = 0.1  # where an animation has none
DEEP_MODES = {"I;16", "I;16B", "I;16L", "I;16N"}


# PNG and JPEG


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    pillow = require("PIL.Image", "images", "an image")
    with warnings.catch_warnings():
        # memory_limit decides what is too large
        warnings.simplefilter("ignore", pillow.DecompressionBombWarning)
        with pillow.open(path) as image:
            yield image


def read_image(path: Path, options: Options) -> TensorData:
    """Read a ``.png`` or ``.jpg`` file."""
    with _opened(path) as image:
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
        observed=_spread(alpha, values),
        dims=names,
        coords=labels,
        encoding={"dtype": values.dtype.str, "alpha": alpha},
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
    """Return which values are observed by alpha, ``None`` if all are."""
    if alpha is None or alpha.all():
        return None
    observed = alpha != 0
    return observed if observed.ndim == values.ndim else np.repeat(observed[..., None], 3, axis=-1)


def read_pages(path: Path, memory_limit: float | None) -> tuple[Array, Array | None]:
    """Read the pages of a file that has them, and their alpha, in what pixels Pillow knows."""
    with _opened(path) as image:
        size = (image.n_frames, image.height, image.width, 4)
        check_memory(size, np.uint8, memory_limit, f"the pages of {path}")
        pages = []
        for k in range(image.n_frames):
            image.seek(k)
            pages.append(_read_pixels(image))
    values = np.stack([page for page, _ in pages])
    alphas = [alpha for _, alpha in pages if alpha is not None]
    return values, np.stack(alphas) if len(alphas) == len(pages) else None


def write_image(path: Path, data: TensorData) -> None:
    """Write a ``.png`` file, or a ``.jpg`` file, which is not exact even at this quality."""
    pillow = require("PIL.Image", "images", "an image")
    is_png = path.name.lower().endswith(".png")
    what = "a .png file" if is_png else "a .jpg file"
    pixels = as_pixels(data, what, deep=is_png, allow_missing=is_png)
    if len(pixels.values) != 1:
        raise InputError(
            f"{what} holds one image, got {len(pixels.values)} frames; write .gif, .tif or a slice"
        )
    values = pixels.values[0]
    alpha = _join_alpha(pixels, data.encoding.get("alpha")) if is_png else None
    if alpha is not None and values.dtype == np.uint16:
        raise InputError(
            "a .png file of 16 bits cannot leave pixels out, got missing ones; write .tif or .npz"
        )
    if alpha is not None:
        colours = values if values.ndim == 3 else values[..., None]
        values = np.concatenate([colours, alpha[..., None]], axis=-1)
    image = pillow.fromarray(np.ascontiguousarray(values))
    image.save(path, **({} if is_png else {"quality": QUALITY, "subsampling": 0}))


def _join_alpha(pixels: Pixels, alpha: Array | None) -> Array | None:
    """Make missing pixels transparent, and imputed ones opaque."""
    shape = pixels.values.shape[1:3]
    if alpha is not None and (alpha.shape != shape or pixels.values.dtype == np.uint16):
        alpha = None
    if alpha is None and pixels.observed is None:
        return None
    full = np.full(shape, 255, np.uint8)
    shown = full if alpha is None else np.where(alpha == 0, full, alpha)
    return (
        shown
        if pixels.observed is None
        else np.where(pixels.observed[0], shown, 0).astype(np.uint8)
    )


# GIF


def read_gif(path: Path, options: Options) -> TensorData:
    """Read the frames of a ``.gif`` file as they are shown one after another."""
    _check_end(path)
    with _opened(path) as image:
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
        observed=_spread(alpha, values),
        dims=names,
        coords=labels,
        encoding={"dtype": "uint8", "durations": tuple(durations), "loop": loop},
    )


def _check_end(path: Path) -> None:
    """Refuse a file without its last byte, whose frames may be missing too."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 2**16))
        end = file.read().rstrip(b"\0")[-1:]
    if end != b";":
        raise FileError(
            f"{path} must be a whole .gif file, which ends in ';', but ends in {end!r}; get the "
            "whole file, or write it again"
        )


def write_gif(path: Path, data: TensorData) -> None:
    """Write an animation with a palette of its own for each frame, of at most 256 colours.

    Grey values are kept, but one of 256 if pixels are missing; colours are not exact. Frames equal
    to the one before lengthen it.
    """
    pillow = require("PIL.Image", "images", "an animation")
    pixels = as_pixels(data, "a .gif file", allow_missing=True)

    def frames(first: int) -> Iterator[Any]:
        for k in range(first, len(pixels.values)):
            values = pixels.values[k]
            observed = None if pixels.observed is None else pixels.observed[k]
            if observed is not None and pixels.has_colour:
                alpha = np.where(observed, 255, 0).astype(np.uint8)
                values = np.concatenate([values, alpha[..., None]], axis=-1)
            elif observed is not None:
                yield _clear_grey(pillow, values, observed)
                continue
            yield pillow.fromarray(np.ascontiguousarray(values))

    durations = data.encoding.get("durations", ())
    if len(durations) != len(pixels.values):
        durations = _durations(data, len(pixels.values))
    loop = data.encoding.get("loop", 0)
    settings: dict[str, Any] = {} if loop is None else {"loop": loop}
    if pixels.observed is not None:
        settings["disposal"] = 2  # else a clear pixel would show the frame before
    next(frames(0)).save(
        path,
        format="GIF",
        save_all=True,
        append_images=frames(1),
        duration=list(durations),
        **settings,
    )


def _clear_grey(pillow: Any, values: Array, observed: Array) -> Any:
    """Make an image of greys in which the rarest one, if possible without a pixel, is clear."""
    counts = np.bincount(values[observed], minlength=256)
    clear = int(np.argmin(counts))
    near = clear - 1 if clear else 1
    values = np.where(observed, np.where(values == clear, near, values), clear)
    image = pillow.fromarray(values.astype(np.uint8)).convert("P")
    image.info["transparency"] = clear
    return image


def _durations(data: TensorData, n_frames: int) -> list[float]:
    """Milliseconds of each frame: from times in seconds, else a tenth of a second."""
    labels = data.coords[0] if data.dims[0] == "frame" else None
    if labels is None or labels.dtype.kind not in "iuf" or n_frames < 2:
        return [1000 * FRAME_SECONDS] * n_frames
    steps = np.diff(labels.astype(float))
    return [float(step) for step in 1000 * np.append(steps, steps[-1])]
