"""`load` and `save`: one reader and writer for each format, found by the end of the name."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.algebra import DEFAULT_MEMORY_LIMIT, Array
from tensormend.errors import FileError, InputError
from tensormend.io import images, numpy_files, tables, tiff, tns, video
from tensormend.io.base import Format, Options
from tensormend.io.pixels import is_colour
from tensormend.known import TensorData
from tensormend.storage import check_folder

__all__ = ["FORMATS", "find_format", "load", "save"]

FORMATS: tuple[Format, ...] = (
    Format("NumPy array", (".npy",), numpy_files.read_npy, numpy_files.write_npy),
    Format("NumPy archive", (".npz",), numpy_files.read_npz, numpy_files.write_npz),
    Format("FROSTT entries", (".tns", ".tns.gz"), tns.read_tns, tns.write_tns),
    Format(
        "long table",
        (".csv", ".csv.gz", ".tsv", ".tsv.gz"),
        tables.read_csv,
        tables.write_csv,
        "tables",
    ),
    Format("Parquet table", (".parquet",), tables.read_parquet, tables.write_parquet, "tables"),
    Format("image", (".png", ".jpg", ".jpeg"), images.read_image, images.write_image, "images"),
    Format("TIFF stack", (".tif", ".tiff"), tiff.read_tiff, tiff.write_tiff, "images"),
    Format("animated GIF", (".gif",), images.read_gif, images.write_gif, "images"),
    Format(
        "video",
        (".mp4", ".mkv", ".avi", ".mov", ".webm"),
        video.read_video,
        video.write_video,
        "video",
    ),
)
"""Every format, one a line: add a format by adding its reader and writer here."""


def find_format(path: str | os.PathLike[str]) -> Format:
    """Tell the format of a file from the end of its name.

    >>> find_format("speeds.npy").name
    'NumPy array'
    """
    name = Path(path).name.lower()
    endings = [(end, form) for form in FORMATS for end in form.suffixes if name.endswith(end)]
    if not endings:
        known = ", ".join(end for form in FORMATS for end in form.suffixes)
        raise InputError(
            f"the name of a file must end in one of {known}, got {Path(path).name!r}; rename or "
            "convert it"
        )
    return max(endings, key=lambda pair: len(pair[0]))[1]


def load(
    path: str | os.PathLike[str],
    *,
    variable: str | None = None,
    modes: Sequence[str] | None = None,
    missing: float | None = None,
    mask: str | os.PathLike[str] | None = None,
    memory_limit: float | None = DEFAULT_MEMORY_LIMIT,
) -> TensorData:
    """Read a tensor with holes from a file.

    Parameters
    ----------
    path : a file whose name ends as one of `FORMATS` does
    variable : the array, dataset or column of values to take, where there are several
    modes : the columns of a table that hold the labels of the modes
    missing : a value that stands for an unknown entry, beside NaN and what the file itself says;
        a pixel of colours is unknown if all of them have it
    mask : another file with an array of the same shape, zero or false where unknown; for a
        picture also without its colours or frames
    memory_limit : bytes that the values may take; a larger file is refused before it is read

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "data.npy"
    >>> np.save(path, np.array([[1.0, -9.0], [3.0, 4.0]]))
    >>> load(path, missing=-9).n_known
    3
    """
    source = Path(path)
    form = find_format(source)
    if not source.exists():
        raise InputError(f"{source} must be a file that exists; check the name")
    columns = None if modes is None else tuple(modes)
    data = form.read(source, Options(variable, columns, memory_limit))
    if missing is not None and not np.isnan(missing):
        hidden = np.asarray(data.values == missing)
        if is_colour(data) and not data.is_sparse:  # a pixel is unknown whole
            hidden = np.broadcast_to(hidden.all(axis=-1, keepdims=True), hidden.shape)
        data = data.hide(hidden)
    if mask is not None:
        data = data.hide(~_read_mask(Path(mask), data, memory_limit))
    if data.n_known == 0:
        raise FileError(f"{source} must hold at least one known entry, found none")
    return data


def _read_mask(path: Path, data: TensorData, memory_limit: float | None) -> Array:
    """Read an array that tells what is known, and match it with the values."""
    given = load(path, memory_limit=memory_limit)
    if given.is_sparse or given.shape not in (shapes := _mask_shapes(data)):
        raise FileError(
            f"the mask {path} must be an array of the shape of the data, {data.shape}, got "
            f"{given.shape}"
        )
    shown = np.nan_to_num(given.values) != 0
    if given.known is not None:
        shown &= given.known
    shown = np.broadcast_to(shown.reshape(shapes[given.shape]), data.shape)
    return shown if data.indices is None else np.asarray(shown[tuple(data.indices.T)])


def _mask_shapes(data: TensorData) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Shapes that a mask may have, each with that in which it spreads over the data.

    A mask of a picture may leave out the colours, the frames, or both.
    """
    shapes = {data.shape: data.shape}
    for frames in {0, int(data.names[0] == "frame")}:
        for colours in {0, int(is_colour(data))}:
            inner = data.shape[frames : len(data.shape) - colours]
            shapes.setdefault(inner, (1,) * frames + inner + (1,) * colours)
    return shapes


def save(path: str | os.PathLike[str], data: Any, *, overwrite: bool = False) -> None:
    """Write a tensor to a file, which is there whole in the end or not at all.

    Parameters
    ----------
    path : where to, in the format that the end of the name tells
    data : a `TensorData`, as `load` and `complete` return them, or an array
    overwrite : take the place of a file that is there

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "data.npy"
    >>> save(path, np.ones((2, 3)))
    >>> load(path).shape
    (2, 3)
    """
    target = check_folder(path)
    form = find_format(target)
    if target.exists() and not overwrite:
        raise InputError(f"{target} is there already; choose another name, or overwrite it")
    if not isinstance(data, TensorData):
        data = TensorData(np.asarray(data))
    ending = next(end for end in form.suffixes if target.name.lower().endswith(end))
    temporary = target.parent / f".{secrets.token_hex(6)}.part{ending}"
    try:
        form.write(temporary, data)
        if target.is_dir():
            shutil.rmtree(target)
        temporary.replace(target)
    except BaseException:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        temporary.unlink(missing_ok=True)
        raise
