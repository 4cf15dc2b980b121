"""`load` and `save`: read and write files of any format in `registry`."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.core.algebra import DEFAULT_MEMORY_LIMIT, Array, as_shape
from tensormend.core.storage import check_folder
from tensormend.data.formats.base import Format, Options, match_observed, reading, writing
from tensormend.data.formats.pixels import is_colour
from tensormend.data.formats.registry import find_format, suffixes_taking
from tensormend.data.observations import Observations, TensorData
from tensormend.errors import FileError, InputError

__all__ = ["load", "save"]

OUTCOMES = {"Completion": "result.data", "Result": "result.x"}
"""Attribute to save instead, by the name of a class of results."""


def load(
    path: str | os.PathLike[str],
    *,
    variable: str | None = None,
    modes: Sequence[str] | None = None,
    na_value: float | None = None,
    observed: str | os.PathLike[str] | None = None,
    memory_limit: float | None = DEFAULT_MEMORY_LIMIT,
) -> TensorData:
    """Read a tensor with missing entries from a file.

    Parameters
    ----------
    path : path-like
        File; the suffix of its name determines the format.
    variable : str, default=None
        Array, dataset or column of values to read. Required if the file has several.
    modes : sequence of str, default=None
        Columns of a table with the labels of the modes; by default all except that of the values.
    na_value : float, default=None
        Value that marks missing entries, in addition to NaN and to what the file states. A colour
        pixel is missing if all its channels have this value.
    observed : path-like, default=None
        Another file with an array that is zero where entries are missing, in any format that
        preserves zeros. It has the shape of the data, or of their leading modes and is broadcast
        over the others. For images, the modes of channels and of frames may be omitted.
    memory_limit : float or None, default=DEFAULT_MEMORY_LIMIT
        Maximum size of the values in bytes, None for no limit. A larger file is refused before it
        is read.

    Returns
    -------
    TensorData
        Values, and names and labels of the modes if the file has them.

    Raises
    ------
    InputError
        If the file does not exist, its suffix is unknown, or the format does not take an option.
    FileError
        If the file is damaged, or has no tensor or no observed entry.
    MemoryLimitError
        If the values need more than ``memory_limit``.
    MissingDependencyError
        If the format needs a package that is not installed.

    See Also
    --------
    save : Write a tensor to a file.
    TensorData : What is returned.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "data.npy"
    >>> np.save(path, np.array([[1.0, -9.0], [3.0, 4.0]]))
    >>> load(path, na_value=-9).n_observed
    3
    """
    if observed is not None:
        _check_observed_format(Path(observed))
    data = _read(path, variable, modes, memory_limit)
    if na_value is not None and not np.isnan(na_value):
        hidden = np.asarray(data.values == float(na_value))
        if is_colour(data) and not data.is_sparse:
            hidden = np.broadcast_to(hidden.all(axis=-1, keepdims=True), hidden.shape)
        data = data.hide(hidden)
        _check_observed(data, path, f"other than na_value {na_value}")
    if observed is not None:
        data = data.hide(~_read_observed(Path(observed), data, memory_limit))
        _check_observed(data, path, f"where {observed} is nonzero")
    return data


def _read(
    path: str | os.PathLike[str],
    variable: str | None,
    modes: Sequence[str] | None,
    memory_limit: float | None,
) -> TensorData:
    """Read a file, without ``na_value`` and ``observed``."""
    source = Path(path)
    form = find_format(source)
    _check_options(source, form, variable=variable, modes=modes)
    if not source.exists():
        raise InputError(f"{source} must be a file that exists; check the name")
    if not source.is_file() and not source.is_dir():  # to read a pipe would block
        raise InputError(f"{source} must be a file, got a pipe or device; copy it to a file first")
    columns = None if modes is None else tuple(modes)
    with reading(source, f"a file of the format {form.name}"):
        data = form.read(source, Options(variable, columns, memory_limit))
        as_shape(data.shape)
    _check_observed(data, path, "")
    return data


def _check_options(path: Path, form: Format, **options: Any) -> None:
    """Refuse options that a format does not take."""
    for name, given in options.items():
        if given is not None and name not in form.takes:
            taking = ", ".join(suffixes_taking(name))
            raise InputError(
                f"{name} goes with files of several arrays or columns ({taking}), got "
                f"{name}={given!r} for {path}, a file of the format {form.name}; omit it",
                parameter=name,
            )
    if isinstance(options["modes"], str):
        raise InputError(
            f"modes must be a list of column names, got the string {options['modes']!r}; put "
            "it in brackets"
        )


def _check_observed(data: TensorData, path: str | os.PathLike[str], what: str) -> None:
    if data.n_observed == 0:
        raise FileError(
            f"{os.fspath(path)} must hold at least one observed entry {what}".rstrip()
            + ", found none; check how missing entries are marked"
        )


def _check_observed_format(path: Path) -> None:
    """Refuse a format in which zeros may become other numbers."""
    form = find_format(path)
    if form.is_lossy:
        raise InputError(
            f"observed must be a file of a format that preserves zeros, got {path}, of the format "
            f"{form.name}; write it as .png or .npy"
        )


def _read_observed(path: Path, data: TensorData, memory_limit: float | None) -> Array:
    """Read which entries are observed, in the shape of the values."""
    given = _read(path, None, None, memory_limit)
    shapes = _observed_shapes(data)
    if given.indices is None:
        values = given.values
        flags = values if given.observed is None else np.where(given.observed, values, 0)
        if given.shape in shapes:
            observed = np.nan_to_num(flags) != 0
            observed = np.broadcast_to(observed.reshape(shapes[given.shape]), data.shape)
        else:
            observed = match_observed(flags, data.shape, f"the array of {path}")
        if given.dims[0] == data.dims[0]:
            _check_labels(path, given, data)
        return np.array(observed if data.indices is None else observed[tuple(data.indices.T)])
    _check_labels(path, given, data)
    if given.shape != data.shape:
        raise FileError(
            f"the array of {path} must have the shape of the data, {data.shape}, got "
            f"{given.shape}; check that it belongs to the data"
        )
    indices, values = given.entries()
    indices = indices[values != 0]
    if data.indices is None:
        observed = np.zeros(data.shape, dtype=bool)
        observed[tuple(indices.T)] = True
        return observed
    if len(indices) == 0:
        return np.zeros(len(data.values), dtype=bool)
    return Observations(indices, np.ones(len(indices)), data.shape).find(data.indices) >= 0


def _check_labels(path: Path, given: TensorData, data: TensorData) -> None:
    """Refuse an array of observed entries whose labels differ from those of the data."""
    for name, ours, its in zip(data.dims, data.coords, given.coords, strict=False):
        if ours is not None and its is not None and not np.array_equal(ours, its):
            raise FileError(
                f"{path} must have the labels of the data in mode {name!r}, in the same "
                "order, got others; sort it like the data"
            )


def _observed_shapes(data: TensorData) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes that ``observed`` may have, each with one that broadcasts to the data.

    For images the modes of channels and of frames may be omitted.
    """
    shapes = {data.shape: data.shape}
    for frames in {0, int(data.dims[0] == "frame")}:
        for colours in {0, int(is_colour(data))}:
            inner = data.shape[frames : len(data.shape) - colours]
            shapes.setdefault(inner, (1,) * frames + inner + (1,) * colours)
    return shapes


def save(path: str | os.PathLike[str], data: Any, *, overwrite: bool = False) -> None:
    """Write a tensor to a file.

    Parameters
    ----------
    path : path-like
        File to write; the suffix of its name determines the format. It is written atomically
        (temporary file, then rename).
    data : TensorData or array_like
        Data to write, such as ``result.data`` of a completion. NaN is missing.
    overwrite : bool, default=False
        Whether to replace an existing file.

    Raises
    ------
    InputError
        If the file exists and ``overwrite`` is false, its suffix is unknown, or the format cannot
        hold the data.
    MissingDependencyError
        If the format needs a package that is not installed.

    See Also
    --------
    load : Read a tensor from a file.

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
        raise InputError(
            f"{target} already exists; choose another name, or give overwrite=True",
            parameter="overwrite",
        )
    if target.is_dir() and not _is_store(target):
        raise InputError(f"{target} is a folder that is no Zarr store; choose another name")
    data = _as_data(data)
    as_shape(data.shape)
    ending = next(end for end in form.suffixes if target.name.lower().endswith(end))
    temporary = target.parent / f".{secrets.token_hex(6)}.part{ending}"
    try:
        with writing(target, f"a file of the format {form.name}"):
            form.write(temporary, data)
        _replace(temporary, target)
    except BaseException:
        _remove(temporary)
        raise


def _as_data(data: Any) -> TensorData:
    """Convert data to a `TensorData`."""
    if isinstance(data, TensorData):
        return data
    for kind in type(data).__mro__:  # by name: these classes are in a higher layer
        if kind.__module__.startswith("tensormend.") and kind.__name__ in OUTCOMES:
            raise InputError(
                f"data to save must be an array or a TensorData, got a {type(data).__name__}; save "
                f"{OUTCOMES[kind.__name__]}"
            )
    return TensorData(np.asarray(data))


def _replace(temporary: Path, target: Path) -> None:
    """Replace the target by the temporary file or folder."""
    if not temporary.is_dir() and not target.is_dir():
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
        return
    if not target.exists():
        temporary.replace(target)
        return
    if target.is_dir() != temporary.is_dir():
        kind = "folder" if target.is_dir() else "file"
        raise InputError(f"{target} cannot replace a {kind} of that name; remove it first")
    aside = temporary.with_name(f"{temporary.name}.old")
    target.replace(aside)  # a folder cannot replace another in one rename
    try:
        temporary.replace(target)
    except BaseException:
        aside.replace(target)
        raise
    _remove(aside)


def _is_store(folder: Path) -> bool:
    """Return whether a folder is empty or a Zarr store, so that it may be replaced."""
    names = {part.name for part in folder.iterdir()}
    return not names or not names.isdisjoint({"zarr.json", ".zgroup", ".zarray"})


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
