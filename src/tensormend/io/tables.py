"""Long tables, one row an entry: ``.csv``, ``.tsv`` and ``.parquet``. The file that names pyarrow.

Labels are read as text and told apart by how they look in ``.csv``; in ``.parquet`` their types
say what they are. A row whose value is blank or NA is unknown, and so is every row that is not
there.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.algebra import Array
from tensormend.errors import FileError, InputError
from tensormend.io.base import Options, require
from tensormend.io.csv_text import NULLS, Layout, find_fault, find_layout, line_of
from tensormend.io.entries import decoding, find_repeat, refuse_huge
from tensormend.io.labels import format_labels, read_labels
from tensormend.known import TensorData
from tensormend.known.columns import choose_columns, refuse_fractions

__all__ = ["read_csv", "read_parquet", "write_csv", "write_parquet"]

MAX_ROWS = 5 * 10**8
"""Rows that a table may have when it is written."""

BLOCK = 2**18  # rows that are written at a time
CHUNK = 4 * 2**20  # bytes of text that are parsed at a time


@dataclass(frozen=True)
class Column:
    """A column of labels.

    Attributes
    ----------
    labels : in their order
    places : per row, the place of its label; -1 where it has none
    texts : the labels as they were written, or ``None``
    """

    labels: Array
    places: Array
    texts: tuple[str, ...] | None = None


def _arrow(module: str) -> Any:
    return require("pyarrow" + (module and f".{module}"), "tables", "a table")


# reading


def read_csv(path: Path, options: Options) -> TensorData:
    """Read a long ``.csv`` or ``.tsv`` file, which may be compressed with gzip."""
    _arrow("csv")
    with decoding(path, "a .csv file"):
        layout = find_layout(path)
        names, value = choose_columns(layout.columns, options.modes, options.variable, "variable")
        layout = layout.choose([str(name) for name in names], str(value))
        parts, values = _read_text(path, layout, options.memory_limit)
        if not np.isfinite(values).all() and np.isinf(values).any():
            raise find_fault(path, layout) or FileError(f"the values of {path} must be finite")
        columns = [_decode(path, part, options.memory_limit) for part in parts]
        if options.modes is None:
            for name, column in zip(names, columns, strict=True):
                if column.labels.dtype.kind == "f":
                    refuse_fractions(name, "variable")
        details = {
            "columns": tuple(name for name in layout.columns if name in (*names, value)),
            "delimiter": layout.delimiter,
            "decimal": layout.decimal,
            "texts": tuple((column.labels, column.texts) for column in columns),
        }
        return _assemble(
            path,
            layout.modes,
            layout.value,
            columns,
            values,
            details,
            lambda row: line_of(path, layout, row),
        )


def _read_text(path: Path, layout: Layout, limit: float | None) -> tuple[list[Any], Array]:
    """Read the columns: per mode codes and a dictionary of texts, and the values."""
    pyarrow = _arrow("")
    try:
        try:
            batches = list(_batches(path, layout, limit, newlines=False))
        except pyarrow.ArrowInvalid:  # a quoted field may hold the end of a line
            batches = list(_batches(path, layout, limit, newlines=True))
    except pyarrow.ArrowInvalid as error:
        raise find_fault(path, layout) or error from error
    if not sum(batch.num_rows for batch in batches):
        raise FileError(f"{path} must hold at least one known entry, found none")
    table = pyarrow.Table.from_batches(batches).unify_dictionaries()
    values = table.column(layout.value).to_numpy()
    return [table.column(name) for name in layout.modes], values


def _batches(path: Path, layout: Layout, limit: float | None, *, newlines: bool) -> Iterator[Any]:
    pyarrow, arrow_csv = _arrow(""), _arrow("csv")
    label = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    types = dict.fromkeys(layout.modes, label) | {layout.value: pyarrow.float64()}
    reader = arrow_csv.open_csv(
        pyarrow.input_stream(str(path)),  # which tells compression from the name
        read_options=arrow_csv.ReadOptions(
            block_size=CHUNK, column_names=list(layout.columns), skip_rows=layout.n_header
        ),
        parse_options=arrow_csv.ParseOptions(
            delimiter=layout.delimiter, newlines_in_values=newlines
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types=types,
            include_columns=[*layout.modes, layout.value],
            null_values=NULLS,
            decimal_point=layout.decimal,
        ),
    )
    n_bytes = 0
    with reader:
        for batch in reader:
            # codes and values come as they are counted here; indices take twice the codes
            n_bytes += batch.nbytes + 8 * batch.num_rows * len(layout.modes)
            refuse_huge(path, n_bytes, limit)
            yield batch


def _decode(path: Path, column: Any, limit: float | None) -> Column:
    """Sort the labels of a column of text."""
    texts = column.chunk(0).dictionary.to_pylist()
    # NumPy gives every label the room of the longest
    refuse_huge(path, 4 * len(texts) * max(map(len, texts), default=0), limit)
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in column.chunks])
    labels, places = read_labels(texts)
    shown = [""] * len(labels)
    for text, place in zip(reversed(texts), reversed(places.tolist()), strict=True):
        shown[place] = text
    found = np.where(np.array([not text for text in texts]), -1, places)[codes]
    return Column(labels, found, tuple(shown))


def read_parquet(path: Path, options: Options) -> TensorData:
    """Read a long ``.parquet`` file."""
    parquet = _arrow("parquet")
    pyarrow = _arrow("")
    with decoding(path, "a .parquet file"), parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
        names, value = choose_columns(schema.names, options.modes, options.variable, "variable")
        chosen = [str(name) for name in (*names, value)]
        n_rows = file.metadata.num_rows
        refuse_huge(path, 8 * n_rows * len(chosen), options.memory_limit)
        table = file.read(columns=chosen)
        refuse_huge(path, table.nbytes, options.memory_limit)
        if table.num_rows == 0:
            raise FileError(f"{path} must hold at least one known entry, found none")
        columns = []
        for name in names:
            column = _encode(path, str(name), table.column(name))
            if options.modes is None and column.labels.dtype.kind == "f":
                refuse_fractions(name, "variable")
            columns.append(column)
        types = pyarrow.types
        kind = schema.field(value).type
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)):
            raise FileError(f"column {value!r} of {path} must hold numbers, got {kind}; convert it")
        plain = kind if types.is_float32(kind) else pyarrow.float64()
        values = table.column(value).cast(plain).to_numpy()
        details = {
            "columns": tuple(name for name in schema.names if name in chosen),
            "types": {name: schema.field(name).type for name in chosen[:-1]},
        }
        modes = tuple(map(str, names))
        return _assemble(path, modes, str(value), columns, values, details, lambda row: row + 1)


def _encode(path: Path, name: str, column: Any) -> Column:
    """Sort the labels of a column whose type says what they are."""
    pyarrow = _arrow("")
    types, kind = pyarrow.types, column.type
    if types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if types.is_boolean(kind):
        column = column.cast(pyarrow.int64())
    elif types.is_decimal(kind):
        column = column.cast(pyarrow.float64())
    elif not (
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_date(kind)
        or types.is_timestamp(kind)
    ):
        raise FileError(
            f"labels in column {name!r} of {path} must be numbers, text or dates, got {kind}; "
            "convert them"
        )
    whole = column.combine_chunks().dictionary_encode()
    whole = whole.combine_chunks() if isinstance(whole, pyarrow.ChunkedArray) else whole
    labels = whole.dictionary.to_numpy(zero_copy_only=False)
    if labels.dtype == object:
        labels = labels.astype(str)
    codes = whole.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    labels, places = np.unique(labels, return_inverse=True)
    return Column(labels, np.where(codes < 0, -1, places.reshape(-1)[codes]))


def _assemble(
    path: Path,
    modes: Sequence[str],
    value: str,
    columns: Sequence[Column],
    values: Array,
    details: dict[str, Any],
    line: Any,
) -> TensorData:
    """Put the columns together, each row an entry of its own."""
    word = "row" if path.name.lower().endswith(".parquet") else "line"
    for name, column in zip(modes, columns, strict=True):
        if column.places.min() < 0:
            raise FileError(
                f"every row must have a label in each mode, got none for {name!r} in {word} "
                f"{line(int(np.argmin(column.places)))} of {path}; drop such rows"
            )
    indices = np.empty((len(values), len(columns)), dtype=np.int64)
    for k, column in enumerate(columns):
        indices[:, k] = column.places
    sizes = tuple(len(column.labels) for column in columns)
    repeat = find_repeat(indices, sizes)
    if repeat is not None:
        entry = ", ".join(
            f"{name}={column.labels[place]}"
            for name, column, place in zip(modes, columns, indices[repeat[0]], strict=True)
        )
        raise FileError(
            f"every entry must be in one row of {path}, got {entry} in {word}s {line(repeat[0])} "
            f"and {line(repeat[1])}; average the rows or drop some"
        )
    return TensorData(
        values,
        indices=indices,
        sizes=sizes,
        names=tuple(modes),
        labels=tuple(column.labels for column in columns),
        name=value,
        details=details,
    )


# writing


def write_csv(path: Path, data: TensorData) -> None:
    """Write a row for every entry, with the columns of the file that was read; blank is unknown."""
    pyarrow, arrow_csv = _arrow(""), _arrow("csv")
    columns, value = _plan(data)
    name = path.name.lower()
    delimiter = "\t" if ".tsv" in name[-7:] else data.details.get("delimiter", ",")
    decimal = data.details.get("decimal", ".") if delimiter != "," else "."
    labels = {name: _as_text(data, k) for k, name in enumerate(data.names)}
    specials = set(f'{delimiter}"\r\n')
    is_plain = all(specials.isdisjoint(text) for texts in labels.values() for text in texts)
    arrays = {name: pyarrow.array(texts, pyarrow.string()) for name, texts in labels.items()}
    for k, name in enumerate(data.names):  # numbers need no quotes
        part = data.labels[k]
        if part is None or part.dtype.kind in "iu":
            arrays[name] = arrays[name].cast(pyarrow.int64())
    style = arrow_csv.WriteOptions(
        include_header=False, delimiter=delimiter, quoting_style="none" if is_plain else "needed"
    )
    header = io.StringIO()
    csv.writer(header, delimiter=delimiter, lineterminator="\n").writerow(columns)
    number = pyarrow.float64() if decimal == "." else pyarrow.string()
    types = {name: array.type for name, array in arrays.items()} | {value: number}
    schema = pyarrow.schema([(name, types[name]) for name in columns])
    with pyarrow.output_stream(str(path)) as file:
        file.write(header.getvalue().encode())
        with arrow_csv.CSVWriter(file, schema, write_options=style) as writer:
            for places, values in _blocks(data):
                rows = {name: arrays[name].take(places[k]) for k, name in enumerate(data.names)}
                numbers = pyarrow.array(values.astype(np.float64), from_pandas=True)
                if decimal != ".":
                    text = numbers.cast(pyarrow.string())
                    numbers = _arrow("compute").replace_substring(text, ".", decimal)
                rows[value] = numbers
                writer.write_batch(
                    pyarrow.record_batch([rows[name] for name in columns], schema=schema)
                )


def write_parquet(path: Path, data: TensorData) -> None:
    """Write a row for every entry, with the columns and types of labels that were read."""
    pyarrow, parquet = _arrow(""), _arrow("parquet")
    columns, value = _plan(data)
    known_types = data.details.get("types", {})
    arrays = {}
    for k, name in enumerate(data.names):
        part = data.labels[k]
        labels = pyarrow.array(np.arange(data.shape[k]) if part is None else part)
        kind = known_types.get(name, labels.type)
        kind = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
        arrays[name] = labels if labels.type == kind else labels.cast(kind)
    single = data.values.dtype == np.float32
    types = {name: array.type for name, array in arrays.items()}
    types[value] = pyarrow.float32() if single else pyarrow.float64()
    schema = pyarrow.schema([(name, types[name]) for name in columns])
    with parquet.ParquetWriter(path, schema) as writer:
        for places, values in _blocks(data):
            rows = {name: arrays[name].take(places[k]) for k, name in enumerate(data.names)}
            rows[value] = pyarrow.array(values, types[value], from_pandas=True)
            writer.write_batch(
                pyarrow.record_batch([rows[name] for name in columns], schema=schema)
            )


def _plan(data: TensorData) -> tuple[list[str], str]:
    """Name the columns, and refuse what cannot be a table."""
    n_rows = math.prod(data.shape)
    if n_rows > MAX_ROWS:
        raise InputError(
            f"a table has a row for every entry and may have {MAX_ROWS}, got {n_rows} entries of "
            f"shape {data.shape}; write .npz or .tns, which hold the known entries alone"
        )
    if data.values.dtype.kind not in "biuf":
        raise InputError(f"a table holds real numbers, got {data.values.dtype}; write .npz instead")
    if len(set(data.names)) != len(data.names):
        raise InputError(
            f"modes of a table must have names of their own, got {list(data.names)}; rename them"
        )
    value = data.name or "value"
    while value in data.names:
        value += "_"
    columns = list(data.details.get("columns", ()))
    if sorted(columns) != sorted([*data.names, value]):
        columns = [*data.names, value]
    return columns, value


def _as_text(data: TensorData, mode: int) -> list[str]:
    """Write the labels of a mode, as the file that was read had them."""
    labels = data.labels[mode]
    if labels is None:
        return [str(place) for place in range(data.shape[mode])]
    texts = format_labels(labels)
    saved = data.details.get("texts", ())
    if mode < len(saved) and saved[mode][0].dtype == labels.dtype:
        known, shown = saved[mode]
        places = np.minimum(np.searchsorted(known, labels), len(known) - 1)
        found = known[places] == labels
        for k in np.flatnonzero(found).tolist():
            texts[k] = shown[places[k]]
    return texts


def _blocks(data: TensorData) -> Iterator[tuple[tuple[Array, ...], Array]]:
    """Yield the places and values of all entries, in the order of C arrays."""
    values = data.dense(memory_limit=None).reshape(-1)
    for start in range(0, len(values), BLOCK):
        stop = min(start + BLOCK, len(values))
        yield np.unravel_index(np.arange(start, stop), data.shape), values[start:stop]
