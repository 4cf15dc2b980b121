"""``.h5``: datasets of HDF5, with dimension scales and labels.

Only what lies in the file itself is read: links to other files are not followed, and datasets that
take their values from other files are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.core.algebra import Array
from tensormend.data.formats.attributes import (
    FILLS,
    decode_labels,
    encode_labels,
    find_fills,
    plain,
    unique_names,
)
from tensormend.data.formats.base import (
    Options,
    check_chunks,
    choose_tensor,
    describe,
    find_observed,
    match_observed,
    portable,
    reading,
)
from tensormend.data.formats.heaps import check_heaps
from tensormend.data.observations import TensorData
from tensormend.data.observations.base import decode_text
from tensormend.errors import FileError, require

__all__ = [
    "check_stored",
    "create_file",
    "list_datasets",
    "open_file",
    "read_attribute",
    "read_hdf5",
    "read_numbers",
    "text_type",
    "write_hdf5",
]

INNER = ("CLASS", "NAME", "DIMENSION_LIST", "DIMENSION_LABELS", "REFERENCE_LIST")
NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable"
MAX_ATTRIBUTE = 2**20  # bytes
MAX_OBJECTS = 100_000  # groups and datasets of a file


@contextmanager
def open_file(path: Path, what: str = "an HDF5 file") -> Iterator[Any]:
    """Open a file to read from it."""
    h5py = require("h5py", "hdf5", f"reading {what}")
    check_heaps(path)
    with h5py.File(path, "r") as file:
        yield file


@contextmanager
def create_file(path: Path, **options: Any) -> Iterator[Any]:
    """Open a new file to write to it."""
    h5py = require("h5py", "hdf5", "writing an HDF5 file")
    with h5py.File(path, "w", **options) as file:
        yield file


def text_type() -> Any:
    """Return the type of text of any length."""
    return require("h5py", "hdf5", "text in an HDF5 file").string_dtype()


def list_datasets(path: Path, file: Any, *, refuse_links: bool = False) -> dict[str, Any]:
    """Return the datasets of a file by their paths in it; external links are not followed."""
    h5py = require("h5py", "hdf5", "reading an HDF5 file")
    found: dict[str, Any] = {}
    seen = {h5py.h5o.get_info(file.id).addr}
    waiting = [("", file)]
    while waiting:
        prefix, group = waiting.pop(0)
        for name in group:
            link = group.get(name, getlink=True)
            if refuse_links and isinstance(link, h5py.ExternalLink):
                raise FileError(f"{path} must have no links to other files, got {prefix}{name}")
            if not isinstance(link, h5py.HardLink):
                continue
            part = group[name]
            if isinstance(part, h5py.Dataset):
                found[f"{prefix}{name}"] = part
            elif isinstance(part, h5py.Group):
                address = h5py.h5o.get_info(part.id).addr
                if address not in seen:  # a group may hold itself
                    seen.add(address)
                    waiting.append((f"{prefix}{name}/", part))
            if len(found) + len(seen) > MAX_OBJECTS:
                raise FileError(
                    f"{path} must hold at most {MAX_OBJECTS} datasets; copy one to its own file"
                )
    return found


def read_hdf5(path: Path, options: Options) -> TensorData:
    """Read a dataset of an HDF5 file, with what its dimensions and attributes say."""
    with open_file(path) as file:
        found = list_datasets(path, file)
        name = choose_tensor(path, found, options.variable, "dataset", is_tensor=_is_tensor)
        dataset = found[name]
        values = read_numbers(path, name, dataset, options.memory_limit)
        attributes = _read_attributes(dataset)
        observed = _find_observed(path, found, name, values, attributes, options.memory_limit)
        names, labels = _read_modes(path, found, dataset, options.memory_limit)
        return TensorData(
            values,
            observed=observed,
            dims=names,
            coords=labels,
            name="" if name == "data" else name,
            attrs=plain(attributes, leave_out=(*FILLS, "observed")),
        )


def _is_tensor(dataset: Any) -> bool:
    kind, shape = _find_kind(dataset), dataset.shape
    return kind in "biufc" and shape is not None and len(shape) > 1 and not _is_scale(dataset)


def _find_kind(dataset: Any) -> str:
    """Return the letter that NumPy has for a kind of data, ``V`` if it has none."""
    h5t = require("h5py.h5t", "hdf5", "reading an HDF5 file")
    if dataset.id.get_type().get_class() not in (
        *(h5t.INTEGER, h5t.FLOAT, h5t.ENUM, h5t.COMPOUND, h5t.STRING),
        getattr(h5t, "COMPLEX", h5t.COMPOUND),
    ):
        return "V"
    try:
        return str(dataset.dtype.kind)
    except Exception:  # numbers of a width that NumPy does not have
        return "V"


def read_numbers(path: Path, name: str, dataset: Any, limit: float | None) -> Array:
    """Read a dataset, if it is stored in this file and within the memory limit."""
    what = f"the dataset {name!r} of {path}"
    if dataset.is_virtual or dataset.external:
        raise FileError(
            f"{what} must be stored in the file itself, but takes its values from other files; "
            "copy it to a file of its own"
        )
    check_chunks(dataset.shape, dataset.chunks, dataset.dtype, limit, what)
    with reading(path, f"an HDF5 file with the dataset {name!r}"):
        check_stored(path, what, dataset)
        return np.asarray(dataset[()])


def check_stored(path: Path, what: str, dataset: Any) -> None:
    """Refuse chunks that are empty or lie outside the file, which crash the library."""
    if dataset.chunks is None or not hasattr(dataset.id, "chunk_iter"):
        return
    size, chunks = path.stat().st_size, []
    dataset.id.chunk_iter(lambda chunk: chunks.append((chunk.byte_offset, chunk.size)))
    least = 5 if dataset.fletcher32 else 1  # a checksum takes four bytes
    if any(length < least or offset + length > size for offset, length in chunks):
        raise FileError(f"{what} is damaged: a chunk is empty or lies outside the file")


def read_attribute(owner: Any, key: str) -> Any:
    """Read an attribute of numbers or text, or of references and numbers; ``None`` if other.

    The library crashes on lists of what a damaged file says they hold.
    """
    h5t = require("h5py.h5t", "hdf5", "reading an HDF5 file")
    if key not in owner.attrs:
        return None
    attribute = owner.attrs.get_id(key)
    kind = attribute.get_type()
    is_right = kind.get_class() in (h5t.INTEGER, h5t.FLOAT, h5t.STRING, h5t.ENUM)
    if kind.get_class() == h5t.COMPOUND:
        parts = [kind.get_member_type(i).get_class() for i in range(kind.get_nmembers())]
        is_right = parts == [h5t.REFERENCE, h5t.INTEGER]
    if not is_right or attribute.get_storage_size() > MAX_ATTRIBUTE:
        return None
    part = owner.attrs[key]
    return part if isinstance(part, str | bytes | np.generic | np.ndarray) else None


def _read_attributes(dataset: Any) -> dict[str, Any]:
    """Read the attributes that are text or numbers."""
    keys = [key for key in dataset.attrs if key not in INNER and not key.startswith("_Netcdf4")]
    given = {key: read_attribute(dataset, key) for key in keys}
    return {key: part for key, part in given.items() if part is not None}


def _find_observed(
    path: Path,
    found: Mapping[str, Any],
    name: str,
    values: Array,
    attributes: Mapping[str, Any],
    limit: float | None,
) -> Array | None:
    """Return which entries are observed, by fill values and by a dataset that marks them."""
    stored = find_fills(values, attributes)
    word = _as_word(attributes.get("observed")) or None
    key = find_observed(path, found, name, word, "dataset")
    if key is None:
        return stored
    what = f"the dataset {key!r} of {path}"
    if not _is_tensor(found[key]):
        raise FileError(f"{what} must be numbers, got {describe(found[key])}")
    observed = match_observed(read_numbers(path, key, found[key], limit), values.shape, what)
    return observed if stored is None else stored & observed


def _read_modes(
    path: Path, found: Mapping[str, Any], dataset: Any, limit: float | None
) -> tuple[tuple[str, ...], tuple[Array | None, ...]]:
    """Read names and labels of the modes from the scales of the dimensions."""
    scales = _find_scales(found, dataset)
    words = read_attribute(dataset, "DIMENSION_LABELS")
    is_given = isinstance(words, np.ndarray) and words.shape == (len(dataset.shape),)
    names: list[str] = []
    labels: list[Array | None] = []
    for k, n in enumerate(dataset.shape):
        own = next(iter(scales[k]), "").rpartition("/")[2]
        names.append((_as_word(words[k]) if is_given else "") or own or f"mode {k}")
        parts = [part for part in scales[k].values() if part.shape == (n,) and not _is_empty(part)]
        labels.append(_read_labels(path, parts[0], limit) if parts else None)
    return unique_names(names), tuple(labels)


def _find_scales(found: Mapping[str, Any], dataset: Any) -> list[dict[str, Any]]:
    """Return the scales of each dimension by their paths, asking the scales whose they are.

    The list that the dataset has of its scales is one of those that crash the library.
    """
    scales: list[dict[str, Any]] = [{} for _ in dataset.shape]
    for name, part in found.items():
        owners = read_attribute(part, "REFERENCE_LIST") if _is_scale(part) else None
        for owner, mode in () if owners is None or owners.dtype.names is None else owners:
            if owner and dataset.file[owner] == dataset and mode < len(scales):
                scales[mode][name] = part
    return scales


def _is_scale(dataset: Any) -> bool:
    return _as_word(read_attribute(dataset, "CLASS")) == "DIMENSION_SCALE"


def _as_word(part: Any) -> str:
    return decode_text(part) if isinstance(part, str | bytes) else ""


def _is_empty(scale: Any) -> bool:
    """Return whether a scale has no values, as NetCDF makes them for dimensions without any."""
    return _as_word(read_attribute(scale, "NAME")).startswith(NO_VARIABLE)


def _read_labels(path: Path, scale: Any, limit: float | None) -> Array | None:
    if _find_kind(scale) not in "biufOS":  # of objects there is only text
        return None
    labels = read_numbers(path, str(scale.name), scale, limit)
    return decode_labels(labels, _read_attributes(scale))


def write_hdf5(path: Path, data: TensorData) -> None:
    """Write a dataset, its labels as scales of its dimensions, and its attributes."""
    values = portable(data, "an HDF5 file")
    name = data.name.strip("/") or "data"
    folder = name.rpartition("/")[0]
    with create_file(path) as file:
        dataset = file.create_dataset(name, data=values)
        for key, part in plain(data.attrs, leave_out=INNER).items():
            _write_attribute(dataset, key, part)
        scales = unique_names(data.dims, taken=[name.rpartition("/")[2]])
        for k, labels in enumerate(data.coords):
            dataset.dims[k].label = data.dims[k]
            if labels is not None:
                scale = _write_labels(file, f"{folder}/{scales[k]}".strip("/"), labels)
                scale.make_scale(data.dims[k])
                dataset.dims[k].attach_scale(scale)


def _write_labels(file: Any, name: str, labels: Array) -> Any:
    numbers, attributes = encode_labels(labels)
    if numbers.dtype.kind == "U":
        scale = file.create_dataset(name, data=numbers.astype(object), dtype=text_type())
    else:
        scale = file.create_dataset(name, data=numbers)
    scale.attrs.update(attributes)
    return scale


def _write_attribute(dataset: Any, key: str, part: Any) -> None:
    if isinstance(part, np.ndarray) and part.dtype.kind == "U":
        dataset.attrs.create(key, part.astype(object), dtype=text_type())
    else:
        dataset.attrs[key] = part
