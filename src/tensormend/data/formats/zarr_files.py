"""``.zarr``: folders of chunks, of version 2 and 3 of the format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    find_observed,
    match_observed,
    portable,
    reading,
)
from tensormend.data.observations import TensorData
from tensormend.errors import FileError, require

__all__ = ["read_zarr", "write_zarr"]

CODECS = (
    *("adler32", "astype", "bitround", "blosc", "bytes", "bz2", "crc32", "crc32c", "delta"),
    *("fixedscaleoffset", "fletcher32", "gzip", "jenkins_lookup3", "lz4", "lzma", "packbits"),
    *("pcodec", "quantize", "sharding_indexed", "shuffle", "transpose", "vlen-utf8", "zfpy"),
    *("zlib", "zstd"),
)
"""Ways of packing chunks that only turn bytes into numbers; others may unpickle."""

DIMENSIONS = "_ARRAY_DIMENSIONS"  # names of the modes, in version 2 of the format


def read_zarr(path: Path, options: Options) -> TensorData:
    """Read an array of a store, with the coordinates and observed entries beside it."""
    zarr = require("zarr", "zarr", "reading a Zarr store")
    if not path.is_dir():
        raise FileError(f"{path} must be a folder, as Zarr stores are, got a file; unpack it")
    root = zarr.open(path, mode="r")
    if isinstance(root, zarr.Array):
        found = {"data": root}
    else:
        parts = sorted(root.members(max_depth=None), key=lambda pair: pair[0])
        found = {name: part for name, part in parts if isinstance(part, zarr.Array)}
    name = choose_tensor(path, found, options.variable)
    return _read_tensor(path, found, name, options.memory_limit)


def _read_tensor(
    path: Path, found: Mapping[str, Any], name: str, limit: float | None
) -> TensorData:
    array, attributes = found[name], dict(found[name].attrs)
    folder = name.rpartition("/")[0]
    values = _read_array(path, name, array, limit)
    if array.metadata.zarr_format == 2 and DIMENSIONS in attributes:
        # xarray keeps the fill value of version 2 here, and not as an attribute
        attributes.setdefault("_FillValue", () if array.fill_value is None else array.fill_value)
    observed = find_fills(values, attributes)
    word = attributes.get("observed")
    key = find_observed(path, found, name, word if isinstance(word, str) else None)
    if key is not None:
        what = f"the array {key!r} of {path}"
        shown = match_observed(_read_array(path, key, found[key], limit), values.shape, what)
        observed = shown if observed is None else observed & shown
    given = getattr(array.metadata, "dimension_names", None) or attributes.get(DIMENSIONS)
    order = values.ndim
    words = (
        list(given) if isinstance(given, list | tuple) and len(given) == order else [None] * order
    )
    names = [str(word) if word else f"mode {k}" for k, word in enumerate(words)]
    beside = [found.get(f"{folder}/{word}".strip("/")) for word in names]
    labels = [
        _read_labels(path, word, part, n, limit)
        for word, part, n in zip(names, beside, values.shape, strict=True)
    ]
    return TensorData(
        _unpack(values, attributes),
        observed=observed,
        dims=unique_names(names),
        coords=tuple(labels),
        name="" if name == "data" else name,
        attrs=plain(
            attributes, leave_out=(*FILLS, DIMENSIONS, "observed", "scale_factor", "add_offset")
        ),
        encoding={"zarr": array.metadata.zarr_format},
    )


def _read_array(path: Path, name: str, array: Any, limit: float | None) -> Array:
    what = f"the array {name!r} of {path}"
    for codec in _list_codecs(array.metadata.to_dict()):
        if codec.removeprefix("numcodecs.") not in CODECS:
            raise FileError(f"{what} is packed by {codec}, which is not trusted; write it again")
    check_chunks(array.shape, array.shards or array.chunks, array.dtype, limit, what)
    check_chunks(array.shape, array.chunks, array.dtype, limit, what)
    with reading(path, f"a Zarr store with the array {name!r}"):
        return np.asarray(array[...])


def _list_codecs(described: Any) -> Iterator[str]:
    """Name all that packs the chunks of an array, and what is packed inside that."""
    parts = [described.get(key) for key in ("compressor", "filters", "codecs", "index_codecs")]
    for part in parts:
        for codec in [part] if isinstance(part, Mapping) else part or ():
            yield str(codec.get("id", codec.get("name")))
            yield from _list_codecs(codec.get("configuration") or {})


def _read_labels(path: Path, name: str, array: Any, n: int, limit: float | None) -> Array | None:
    if array is None or array.shape != (n,):
        return None
    labels = _read_array(path, name, array, limit)
    return decode_labels(labels, dict(array.attrs)) if labels.dtype.kind in "biufUSTOmM" else None


def _unpack(values: Array, attributes: Mapping[str, Any]) -> Array:
    """Scale and shift packed numbers, as the conventions of CF have it."""
    scale, shift = attributes.get("scale_factor", 1), attributes.get("add_offset", 0)
    if (scale, shift) == (1, 0):
        return values
    return np.asarray(values * np.float64(scale) + np.float64(shift))


def write_zarr(path: Path, data: TensorData) -> None:
    """Write a group with the array, and its labels as coordinates, that xarray opens as well."""
    zarr = require("zarr", "zarr", "writing a Zarr store")
    values = portable(data, "a Zarr store")
    version = data.encoding.get("zarr", 3)
    name = data.name.strip("/") or "data"
    folder, _, last = name.rpartition("/")
    names = unique_names(data.dims, taken=[last])
    group = zarr.open_group(path, mode="w", zarr_format=version)
    group = group.require_group(folder) if folder else group
    attributes = plain(data.attrs, leave_out=[DIMENSIONS])
    _write_array(group, last, values, names, attributes, version)
    for k, labels in enumerate(data.coords):
        if labels is not None:
            numbers, units = encode_labels(labels)
            _write_array(group, names[k], numbers, (names[k],), units, version)


def _write_array(
    group: Any,
    name: str,
    values: Array,
    names: tuple[str, ...],
    attributes: Mapping[str, Any],
    version: int,
) -> None:
    options: dict[str, Any] = {"dimension_names": names} if version == 3 else {}
    kept = {key: _as_json(part) for key, part in attributes.items()}
    if version == 2:
        kept[DIMENSIONS] = list(names)
    if values.dtype.kind in "fc":
        options["fill_value"] = np.nan
    elif version == 2:
        options["fill_value"] = None  # which xarray takes for a missing value
    dtype = str if values.dtype.kind == "U" else values.dtype
    array = group.create_array(name, shape=values.shape, dtype=dtype, attributes=kept, **options)
    array[...] = values


def _as_json(part: Any) -> Any:
    if isinstance(part, np.ndarray) and part.dtype.kind != "c":
        return part.tolist()
    return str(part) if isinstance(part, np.ndarray | complex) else part
