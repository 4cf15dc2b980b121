"""Cost of shrinkage, which is most of a search, and what follows from it for the search itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensormend.completion.cost.estimate import Cost, dense_cost, fit_cost
from tensormend.core.algebra import cap_rank

__all__ = ["generous_rank", "search_cost", "works_densely"]

GENEROUS, CORE_SIZE = 40, 100_000  # largest rank of a mode, and core, where entries are passed over
DENSE_COPIES = 8  # arrays of the whole tensor that shrinkage works with
DENSE_BYTES = 2**31  # for these, at most
DENSE_RATE, SPARSE_RATE = 4e10, 2e9  # multiply-adds per second: of dense products, of a pass
N_ITERATIONS = 150  # about 40 in a fold and as many to adjust single modes, and the final fit
FOLD_BYTES = 40  # per entry, in the set-up of a fold


def generous_rank(shape: Sequence[int], size: int | None = None) -> tuple[int, ...]:
    """Return the largest rank that exists, or the largest that ``size`` entries call for.

    With entries given, at most 40 in every mode, no more numbers in the factors than entries, and
    no more in the core than that or 100 000.

    Examples
    --------
    >>> generous_rank((100, 3, 2)), generous_rank((100, 100, 100), 200_000)
    ((6, 3, 2), (40, 40, 40))
    """
    limit = max(shape)
    if size is not None:
        limit = max(1, min(GENEROUS, size // sum(shape)))
        while limit > 1 and math.prod(min(n, limit) for n in shape) > max(size, CORE_SIZE):
            limit -= 1
    return cap_rank([limit] * len(shape), shape)


def iteration_seconds(shape: Sequence[int], size: int) -> tuple[float, float]:
    """Return roughly what an iteration of shrinkage takes: by dense products, by passes."""
    dense = 10 * math.prod(shape) * sum(shape) / DENSE_RATE
    rank = generous_rank(shape, size)
    bases = sum(n * (6 * r) ** 2 for n, r in zip(shape, rank, strict=True)) / DENSE_RATE
    return dense, 20 * len(shape) * size * max(rank) / SPARSE_RATE + 4 * bases


def works_densely(shape: Sequence[int], size: int, dtype: np.dtype[Any]) -> bool:
    """Tell whether shrinkage takes dense products rather than passes over ``size`` entries.

    It does where its arrays fit into 2 GiB and it is faster than passes with rank 40 in every mode.
    """
    is_small = math.prod(shape) * dtype.itemsize * DENSE_COPIES <= DENSE_BYTES
    dense, sparse = iteration_seconds(shape, size)
    return is_small and dense <= sparse


def search_cost(
    shape: tuple[int, ...],
    size: int,
    dtype: np.dtype[Any],
    *,
    n_folds: int,
    threads: int | None = None,
) -> Cost:
    """Estimate the cost of the regularization path, which takes more than ranks do.

    Parameters
    ----------
    shape : tuple of int
        Shape of the tensor.
    size : int
        Number of observed entries.
    dtype : dtype
        Their data type.
    n_folds : int
        Largest number of folds that are kept at a time.
    threads : int, optional
        Threads of the kernels.
    """
    is_dense = works_densely(shape, size, dtype)
    seconds = iteration_seconds(shape, size)[0 if is_dense else 1]
    rank = (1,) * len(shape) if is_dense else generous_rank(shape, size)
    cost = fit_cost(shape, rank, size, dtype, threads=threads)
    whole = dense_cost(shape, dtype, copies=DENSE_COPIES if is_dense else 0)
    return replace(
        cost,
        bytes=cost.bytes + whole.bytes + n_folds * size * FOLD_BYTES,
        work=1e9 * N_ITERATIONS * seconds,
        advice="take a part of the data, give them in single precision, or give a rank",
    )
