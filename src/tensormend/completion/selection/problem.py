"""Operators and ranks for shrinkage of given entries."""

from __future__ import annotations

from tensormend.completion.cost import generous_rank, works_densely
from tensormend.data.observations import Observations
from tensormend.operators import DenseSampling, Operator, Sampling
from tensormend.recovery.problem import Problem

__all__ = ["make_problem", "observe"]


def make_problem(entries: Observations, threads: int | None) -> Problem:
    """Return the problem that shrinkage solves, by dense products or by passes over the entries.

    Its rank is full with dense products, and otherwise that of `generous_rank`.
    """
    is_dense = works_densely(entries.shape, len(entries), entries.values.dtype)
    operator = observe(entries, threads, is_dense=is_dense)
    rank = generous_rank(entries.shape, None if is_dense else len(entries))
    return Problem(operator, entries.values, rank)


def observe(entries: Observations, threads: int | None, *, is_dense: bool) -> Operator:
    """Return the sampling operator of entries, by dense products or by passes over them."""
    dtype = entries.values.dtype
    if is_dense:
        return DenseSampling(entries.shape, entries.indices, dtype=dtype)
    return Sampling(entries.shape, entries.indices, dtype=dtype, threads=threads)
