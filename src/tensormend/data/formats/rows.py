"""Rows of a long table as entries of a tensor, and back; whatever library holds the table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.core.algebra import Array
from tensormend.data.formats.entries import find_repeat
from tensormend.data.formats.labels import format_labels
from tensormend.data.observations import TensorData
from tensormend.data.observations.columns import warn_wide
from tensormend.errors import FileError, InputError

__all__ = ["Column", "as_text", "assemble", "blocks", "keep_used", "plan_columns"]

MAX_ROWS = 5 * 10**8
"""Rows that a table may have when it is written."""

BLOCK = 2**18  # rows that are written at a time


@dataclass(frozen=True)
class Column:
    """A column of labels.

    Attributes
    ----------
    labels : ndarray
        In their order.
    positions : ndarray
        Per row, the index of its label; -1 where it has none.
    texts : tuple of str, optional
        The labels as they were written, or ``None``.
    """

    labels: Array
    positions: Array
    texts: tuple[str, ...] | None = None


def keep_used(labels: Array, positions: Array) -> Column:
    """Drop labels that no row has; -1 marks a row without a label.

    Examples
    --------
    >>> keep_used(np.array(["a", "b", "c"]), np.array([2, 0, -1])).positions
    array([ 1,  0, -1])
    """
    used = np.bincount(positions[positions >= 0], minlength=len(labels)) > 0
    return Column(labels[used], np.append(np.cumsum(used) - 1, -1)[positions])


def assemble(
    path: Path,
    modes: Sequence[str],
    value: str,
    columns: Sequence[Column],
    values: Array,
    details: dict[str, Any],
    line: Callable[[int], int],
    *,
    is_guess: bool,
) -> TensorData:
    """Combine the columns, one row per entry; warn if they seem badly inferred."""
    word = "row" if path.name.lower().endswith(".parquet") else "line"
    for name, column in zip(modes, columns, strict=True):
        if column.positions.min() < 0:
            raise FileError(
                f"every row must have a label in each mode, got none for {name!r} in {word} "
                f"{line(int(np.argmin(column.positions)))} of {path}; drop such rows"
            )
    indices = np.empty((len(values), len(columns)), dtype=np.int64)
    for k, column in enumerate(columns):
        indices[:, k] = column.positions
    sizes = tuple(len(column.labels) for column in columns)
    repeat = find_repeat(indices, sizes)
    if repeat is not None:
        entry = ", ".join(
            f"{name}={column.labels[position]}"
            for name, column, position in zip(modes, columns, indices[repeat[0]], strict=True)
        )
        raise FileError(
            f"every entry must be in one row of {path}, got {entry} in {word}s {line(repeat[0])} "
            f"and {line(repeat[1])}; average the rows or drop some"
        )
    labels = tuple(column.labels for column in columns)
    if is_guess:
        warn_wide(modes, indices, labels, "variable")
    return TensorData(
        values,
        indices=indices,
        shape=sizes,
        dims=tuple(modes),
        coords=labels,
        name=value,
        encoding=details,
    )


def plan_columns(data: TensorData) -> tuple[list[str], str]:
    """Return the names of the columns; refuse data that cannot be a table."""
    n_rows = math.prod(data.shape)
    if n_rows > MAX_ROWS:
        raise InputError(
            f"a table has a row for every entry and may have {MAX_ROWS}, got {n_rows} entries of "
            f"shape {data.shape}; write .npz or .tns, which hold the observed entries alone"
        )
    if data.values.dtype.kind not in "biuf":
        raise InputError(f"a table holds real numbers, got {data.values.dtype}; write .npz instead")
    if len(set(data.dims)) != len(data.dims):
        raise InputError(
            f"modes of a table must have distinct names, got {list(data.dims)}; rename them"
        )
    value = data.name or "value"
    while value in data.dims:
        value += "_"
    columns = list(data.encoding.get("columns", ()))
    if sorted(columns) != sorted([*data.dims, value]):
        columns = [*data.dims, value]
    return columns, value


def as_text(data: TensorData, mode: int) -> list[str]:
    """Write the labels of a mode, as the file that was read had them."""
    labels = data.coords[mode]
    if labels is None:
        return [str(position) for position in range(data.shape[mode])]
    texts = format_labels(labels)
    saved = data.encoding.get("texts", ())
    if mode < len(saved) and saved[mode][0].dtype == labels.dtype:
        known, shown = saved[mode]
        positions = np.minimum(np.searchsorted(known, labels), len(known) - 1)
        found = known[positions] == labels
        for k in np.flatnonzero(found).tolist():
            texts[k] = shown[positions[k]]
    return texts


def blocks(data: TensorData) -> Iterator[tuple[tuple[Array, ...], Array]]:
    """Yield the indices and values of all entries, in C order."""
    values = data.todense(memory_limit=None).reshape(-1)
    for start in range(0, len(values), BLOCK):
        stop = min(start + BLOCK, len(values))
        yield np.unravel_index(np.arange(start, stop), data.shape), values[start:stop]
