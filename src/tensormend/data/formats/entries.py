"""Helpers for files with one entry per line: compressed text, and repeated entries."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from tensormend.core import kernels
from tensormend.core.algebra import Array

__all__ = ["find_repeat", "open_bytes"]


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading; one whose name ends in ``.gz`` is decompressed."""
    if path.name.lower().endswith(".gz"):
        return cast(BinaryIO, gzip.open(path, "rb"))
    return path.open("rb")


def find_repeat(indices: Array, shape: Sequence[int]) -> tuple[int, int] | None:
    """Return two rows of ``m x d`` indices that are equal, ``None`` if there are none.

    Examples
    --------
    >>> find_repeat(np.array([[0, 1], [1, 0], [0, 1]]), (2, 2))
    (0, 2)
    """
    columns = [np.ascontiguousarray(column, dtype=np.uint32) for column in indices.T]
    threads = kernels.thread_count(None)
    order = kernels.sort_entries(columns, shape, threads)
    if order is not None:
        columns = [column[order] for column in columns]
    _, n_repeated, row = kernels.find_nodes(columns, shape, threads)
    if not n_repeated:
        return None
    return (row - 1, row) if order is None else (int(order[row - 1]), int(order[row]))
