"""Long tables with one row per entry: ``.csv``, ``.tsv`` and ``.parquet``.

Labels in ``.csv`` are read as text, and their type is inferred from it; in ``.parquet`` they have
types. An entry is missing if its value is blank or NA, or if it has no row.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tensormend.core.algebra import Array, check_memory
from tensormend.data.formats.base import Options
from tensormend.data.formats.csv_text import NULLS, Layout, find_fault, find_layout, line_of, quote
from tensormend.data.formats.labels import read_labels
from tensormend.data.formats.rows import Column, as_text, assemble, blocks, keep_used, plan_columns
from tensormend.data.observations import TensorData
from tensormend.data.observations.columns import choose_columns, refuse_fractions
from tensormend.errors import FileError, require

__all__ = ["read_csv", "read_parquet", "write_csv", "write_parquet"]

CHUNK = 4 * 2**20  # bytes of text that are parsed at a time
ROOM = 8  # bytes of memory that a byte of text may need; rows of short labels need six


def _arrow(module: str) -> Any:
    return require("pyarrow" + (module and f".{module}"), "tables", "a table")


# reading


def _check_size(path: Path, n_bytes: int, limit: float | None) -> None:
    check_memory((n_bytes,), np.uint8, limit, f"the rows of {path}, in bytes,")


def _check_labels(path: Path, count: int, longest: int, limit: float | None) -> None:
    """Refuse labels that are too long: NumPy stores each with the length of the longest."""
    check_memory((count, longest), "U1", limit, f"the labels of {path}")


def read_csv(path: Path, options: Options) -> TensorData:
    """Read a long ``.csv`` or ``.tsv`` file, which may be compressed with gzip."""
    _arrow("csv")
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
    return assemble(
        path,
        layout.modes,
        layout.value_column,
        columns,
        values,
        details,
        lambda row: line_of(path, layout, row),
        is_guess=options.modes is None,
    )


def _read_text(path: Path, layout: Layout, limit: float | None) -> tuple[list[Any], Array]:
    """Read the columns: per mode codes and a dictionary of texts, and the values."""
    pyarrow = _arrow("")
    try:
        try:
            table = _read_rows(path, layout, limit, newlines=False)
        except pyarrow.ArrowInvalid:  # a quoted field may hold the end of a line
            table = _read_rows(path, layout, limit, newlines=True)
    except pyarrow.ArrowInvalid as error:
        raise find_fault(path, layout) or error from error
    if not table.num_rows:
        raise FileError(f"{path} must hold at least one observed entry, found none")
    table = table.unify_dictionaries()
    values = table.column(layout.value_column).to_numpy()
    return [table.column(name) for name in layout.modes], values


def _read_rows(path: Path, layout: Layout, limit: float | None, *, newlines: bool) -> Any:
    """Read a table with all threads, or in chunks where it may not fit into memory."""
    pyarrow, arrow_csv = _arrow(""), _arrow("csv")
    label = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    types = dict.fromkeys(layout.modes, label) | {layout.value_column: pyarrow.float64()}
    ways = {
        "read_options": arrow_csv.ReadOptions(
            block_size=CHUNK, column_names=list(layout.columns), skip_rows=layout.n_header
        ),
        "parse_options": arrow_csv.ParseOptions(
            delimiter=layout.delimiter, newlines_in_values=newlines
        ),
        "convert_options": arrow_csv.ConvertOptions(
            column_types=types,
            include_columns=[*layout.modes, layout.value_column],
            null_values=NULLS,
            decimal_point=layout.decimal,
        ),
    }
    stream = pyarrow.input_stream(str(path))  # which tells compression from the name
    is_packed = path.name.lower().endswith(".gz")
    if not is_packed and (limit is None or ROOM * path.stat().st_size <= limit):
        return arrow_csv.read_csv(stream, **ways)
    batches, n_bytes = [], 0
    with arrow_csv.open_csv(stream, **ways) as reader:
        for batch in reader:
            # codes and values come as they are counted here; indices take twice the codes
            n_bytes += batch.nbytes + 8 * batch.num_rows * len(layout.modes)
            _check_size(path, n_bytes, limit)
            batches.append(batch)
    return pyarrow.Table.from_batches(batches)


def _decode(path: Path, column: Any, limit: float | None) -> Column:
    """Sort the labels of a column of text."""
    texts = column.chunk(0).dictionary.to_pylist()
    _check_labels(path, len(texts), max(map(len, texts), default=0), limit)
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in column.chunks])
    labels, positions = read_labels(texts)
    shown = [""] * len(labels)
    for text, position in zip(reversed(texts), reversed(positions.tolist()), strict=True):
        shown[position] = text
    found = np.where(np.array([not text for text in texts]), -1, positions)[codes]
    return Column(labels, found, tuple(shown))


def read_parquet(path: Path, options: Options) -> TensorData:
    """Read a long ``.parquet`` file."""
    pyarrow = _arrow("")
    with _open_parquet(path) as file:
        schema = file.schema_arrow
        names, value = choose_columns(schema.names, options.modes, options.variable, "variable")
        chosen = [str(name) for name in (*names, value)]
        n_rows = file.metadata.num_rows
        _check_size(path, 8 * n_rows * len(chosen), options.memory_limit)
        table = file.read(columns=chosen)
        _check_size(path, table.nbytes, options.memory_limit)
        if table.num_rows == 0:
            raise FileError(f"{path} must hold at least one observed entry, found none")
        columns = []
        for name in names:
            column = _encode(path, str(name), table.column(name), options.memory_limit)
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
        return assemble(
            path,
            modes,
            str(value),
            columns,
            values,
            details,
            lambda row: row + 1,
            is_guess=options.modes is None,
        )


def _open_parquet(path: Path) -> Any:
    """Open a file so that each text of a column is kept once."""
    pyarrow, parquet = _arrow(""), _arrow("parquet")
    with parquet.ParquetFile(path) as file:
        texts = [field.name for field in file.schema_arrow if pyarrow.types.is_string(field.type)]
    return parquet.ParquetFile(path, read_dictionary=texts)


def _encode(path: Path, name: str, column: Any, limit: float | None) -> Column:
    """Sort the labels of a column whose type says what they are."""
    pyarrow, compute = _arrow(""), _arrow("compute")
    types, kind = pyarrow.types, column.type
    kind = kind.value_type if types.is_dictionary(kind) else kind
    is_text = types.is_string(kind) or types.is_large_string(kind)
    if types.is_boolean(kind):
        column = column.cast(pyarrow.int64())
    elif types.is_decimal(kind):
        column = column.cast(pyarrow.float64())
    elif not is_text and not any(
        test(kind)
        for test in (types.is_integer, types.is_floating, types.is_date, types.is_timestamp)
    ):
        raise FileError(
            f"labels in column {name!r} of {path} must be numbers, text or dates, got {kind}; "
            "convert them"
        )
    if not types.is_dictionary(column.type):
        column = column.dictionary_encode()
    whole = column.unify_dictionaries().combine_chunks()
    whole = whole.chunk(0) if isinstance(whole, pyarrow.ChunkedArray) else whole
    values = whole.dictionary
    if is_text:
        longest = compute.max(compute.utf8_length(values)).as_py() or 0
        _check_labels(path, len(values), longest, limit)
    missing = ~values.is_valid().to_numpy(zero_copy_only=False)
    found = (values.fill_null("") if is_text else values).to_numpy(zero_copy_only=False)
    labels, positions = np.unique(found.astype(str) if is_text else found, return_inverse=True)
    positions = np.where(missing, -1, positions.reshape(-1))
    codes = whole.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)
    return keep_used(labels, np.append(positions, -1)[codes])


# writing


def write_csv(path: Path, data: TensorData) -> None:
    """Write a row for every entry, with the columns of the file that was read; blank if missing."""
    pyarrow, compute = _arrow(""), _arrow("compute")
    columns, value = plan_columns(data)
    name = path.name.lower()
    delimiter = "\t" if ".tsv" in name[-7:] else data.encoding.get("delimiter", ",")
    decimal = data.encoding.get("decimal", ".") if delimiter != "," else "."
    arrays = {
        name: pyarrow.array(quote(as_text(data, k), delimiter), pyarrow.string())
        for k, name in enumerate(data.dims)
    }
    dtype = data.values.dtype
    is_single = dtype.kind == "f" and dtype.itemsize <= np.dtype(np.float32).itemsize
    number = np.float32 if is_single else np.float64  # whose shortest digits are written
    with pyarrow.output_stream(str(path)) as file:
        file.write((delimiter.join(quote(columns, delimiter)) + "\n").encode())
        for positions, values in blocks(data):
            rows = {name: arrays[name].take(positions[k]) for k, name in enumerate(data.dims)}
            texts = pyarrow.array(values.astype(number), from_pandas=True).cast(pyarrow.string())
            if decimal != ".":
                texts = compute.replace_substring(texts, ".", decimal)
            rows[value] = texts.fill_null("")
            lines = compute.binary_join_element_wise(*(rows[name] for name in columns), delimiter)
            lines = compute.binary_join_element_wise(lines, "", "\n")
            file.write(lines.buffers()[2])  # the text of all of them, one after the other


def write_parquet(path: Path, data: TensorData) -> None:
    """Write a row for every entry, with the columns and types of labels that were read."""
    pyarrow, parquet = _arrow(""), _arrow("parquet")
    columns, value = plan_columns(data)
    known_types = data.encoding.get("types", {})
    arrays = {}
    for k, name in enumerate(data.dims):
        part = data.coords[k]
        labels = pyarrow.array(np.arange(data.shape[k]) if part is None else part)
        kind = known_types.get(name, labels.type)
        kind = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
        arrays[name] = labels if labels.type == kind else labels.cast(kind)
    single = data.values.dtype == np.float32
    types = {name: array.type for name, array in arrays.items()}
    types[value] = pyarrow.float32() if single else pyarrow.float64()
    schema = pyarrow.schema([(name, types[name]) for name in columns])
    with parquet.ParquetWriter(path, schema) as writer:
        for positions, values in blocks(data):
            rows = {name: arrays[name].take(positions[k]) for k, name in enumerate(data.dims)}
            rows[value] = pyarrow.array(values, types[value], from_pandas=True)
            writer.write_batch(
                pyarrow.record_batch([rows[name] for name in columns], schema=schema)
            )
