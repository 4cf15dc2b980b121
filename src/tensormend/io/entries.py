"""What files of entries share: none may be there twice, and a library may fail in any way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tensormend import kernels
from tensormend.algebra import Array
from tensormend.errors import FileError, TensormendError
from tensormend.io.base import reading

__all__ = ["decoding", "find_repeat", "refuse_huge"]


def find_repeat(indices: Array, shape: Sequence[int]) -> tuple[int, int] | None:
    """Find two rows of ``m x d`` indices that name the same entry.

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


@contextmanager
def decoding(path: Path, what: str) -> Iterator[None]:
    """Turn whatever a library raises on damaged bytes into an error that names the file.

    As `reading`, for libraries that raise errors of their own beside the built-in ones.
    """
    with reading(path, what):
        try:
            yield
        except TensormendError:
            raise
        except Exception as error:
            raise ValueError(str(error) or type(error).__name__) from error


def refuse_huge(path: Path, n_bytes: float, limit: float | None) -> None:
    """Refuse a file whose entries take more memory than they may."""
    if limit is not None and n_bytes > limit:
        raise FileError(
            f"the entries of {path} must fit into {limit / 2**30:.3g} GiB, got more; raise "
            "memory_limit, or take a part of the file"
        )
