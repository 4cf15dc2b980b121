"""Work on blocks of rows in several threads of Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

__all__ = ["map_rows", "map_threads"]

BLOCK_ROWS = 2**16  # rows of a block
MIN_BLOCKS = 4  # fewer blocks are not worth several threads

S = TypeVar("S")
T = TypeVar("T")


def map_threads(work: Callable[[S], T], items: Sequence[S], threads: int) -> list[T]:
    """Call a function for every item, in several threads, and return the results in order.

    Floating-point warnings of overflow and invalid values are suppressed in the calls, as they
    are during a solve, because threads do not inherit ``numpy.errstate``.

    Parameters
    ----------
    work : callable
        Function of one item.
    items : sequence
        Items to call it for.
    threads : int
        Number of threads.

    Returns
    -------
    list
        Results in the order of the items.
    """

    def quiet(item: S) -> T:
        with np.errstate(over="ignore", invalid="ignore"):
            return work(item)

    if min(threads, len(items)) < 2:
        return [quiet(item) for item in items]
    from concurrent.futures import ThreadPoolExecutor  # here, to keep the package quick to load

    with ThreadPoolExecutor(min(threads, len(items))) as pool:
        return list(pool.map(quiet, items))


def map_rows(
    work: Callable[[slice], T], n_rows: int, threads: int, block_rows: int | None = None
) -> list[T]:
    """Call a function for blocks of rows, which do not depend on the number of threads.

    Parameters
    ----------
    work : callable
        Function of a block of rows, given as a slice.
    n_rows : int
        Number of rows.
    threads : int
        Number of threads.
    block_rows : int, optional
        Rows of a block.

    Returns
    -------
    list
        Results in the order of the blocks.
    """
    size = BLOCK_ROWS if block_rows is None else block_rows
    blocks = [slice(k, k + size) for k in range(0, n_rows, size)]
    return map_threads(work, blocks, threads if len(blocks) >= MIN_BLOCKS else 1)
