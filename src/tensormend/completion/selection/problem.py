"""Which operator and how many directions suit shrinkage of given entries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tensormend.core.algebra import cap_rank
from tensormend.data.observations import Observations
from tensormend.operators import DenseSampling, Operator, Sampling
from tensormend.recovery.problem import Problem

__all__ = [
    "DENSE_COPIES",
    "generous_rank",
    "iteration_seconds",
    "make_problem",
    "observe",
    "works_densely",
]

GENEROUS, CORE_SIZE = 40, 100_000  # directions of a mode, and a core, where entries are passed over
DENSE_COPIES = 8  # arrays of the whole tensor that shrinkage works with
DENSE_BYTES = 2**31  # for these, at most
DENSE_RATE, SPARSE_RATE = 4e10, 2e9  # multiply-adds a second: of dense products, of a pass


def generous_rank(shape: Sequence[int], size: int | None = None) -> tuple[int, ...]:
    """Return the largest rank that exists, or the largest that ``size`` entries call for.

    With entries given, at most 40 in every mode, no more numbers in the factors than entries, and
    no more in the core than that or 100 000.

    >>> generous_rank((100, 3, 2)), generous_rank((100, 100, 100), 200_000)
    ((6, 3, 2), (40, 40, 40))
    """
    limit = max(shape)
    if size is not None:
        limit = max(1, min(GENEROUS, size // sum(shape)))
        while limit > 1 and math.prod(min(n, limit) for n in shape) > max(size, CORE_SIZE):
            limit -= 1
    return cap_rank((limit,) * len(shape), shape)


def iteration_seconds(shape: Sequence[int], size: int) -> tuple[float, float]:
    """Return roughly what an iteration of shrinkage takes: by dense products, by passes."""
    dense = 10 * math.prod(shape) * sum(shape) / DENSE_RATE
    rank = generous_rank(shape, size)
    bases = sum(n * (6 * r) ** 2 for n, r in zip(shape, rank, strict=True)) / DENSE_RATE
    return dense, 20 * len(shape) * size * max(rank) / SPARSE_RATE + 4 * bases


def works_densely(shape: Sequence[int], size: int, dtype: np.dtype[Any]) -> bool:
    """Tell whether shrinkage takes dense products rather than passes over ``size`` entries.

    Where its arrays fit into 2 GiB, and it is faster than passes with 40 directions a mode.
    """
    is_small = math.prod(shape) * dtype.itemsize * DENSE_COPIES <= DENSE_BYTES
    dense, sparse = iteration_seconds(shape, size)
    return is_small and dense <= sparse


def make_problem(entries: Observations, threads: int | None) -> Problem:
    """Return the problem that suits shrinkage, with dense products or passes over the entries.

    All directions where products are dense, else those of `generous_rank`.
    """
    is_dense = works_densely(entries.shape, len(entries), entries.values.dtype)
    operator = observe(entries, threads, is_dense=is_dense)
    rank = generous_rank(entries.shape, None if is_dense else len(entries))
    return Problem(operator, entries.values, rank)


def observe(entries: Observations, threads: int | None, *, is_dense: bool) -> Operator:
    """Return the operator that observes entries, by dense products or by passes over them."""
    dtype = entries.values.dtype
    if is_dense:
        return DenseSampling(entries.shape, entries.indices, dtype=dtype)
    return Sampling(entries.shape, entries.indices, dtype=dtype, threads=threads)
