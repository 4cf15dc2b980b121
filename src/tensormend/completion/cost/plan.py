"""A run counted through: what is held at each stage, and the work of its passes."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensormend.core import kernels
from tensormend.core.algebra import DEFAULT_MEMORY_LIMIT, gaussian
from tensormend.core.fibres import (
    ENTRY,
    ENTRY_PRODUCT,
    NODE,
    NODE_PRODUCT,
    SORT,
    Fibres,
    choose_modes,
)
from tensormend.core.subspaces import FULL_BASIS, block_size
from tensormend.core.tucker import degrees_of_freedom
from tensormend.operators.spectral import MANY_SAMPLES
from tensormend.recovery.contract import IterationCost, Ordered, cost_of
from tensormend.recovery.registry import as_solver

__all__ = ["Plan", "measure_speed"]

# Bytes of an entry: its coordinate in a mode, its position in an order. Bytes of a node: its
# coordinate and where its children begin; and while it is found, lists that grow and are copied.
COLUMN, POSITION, NODE_BYTES, OPEN_NODE = 4, 8, 12, 40
# how native/parallel.hpp cuts a pass
MAX_CHUNKS, MIN_CHUNK, MAX_PARTIAL, PARTIALS_PER_ENTRY = 64, 16384, 2**28, 4

# time in the nanoseconds of the model in `fibres`, scaled to the machine by `measure_speed`
START_PASSES = 25
WIDE = 1.4  # of a pass, as many measure a tangent vector
DIGIT = 2 * SORT  # of an index, to sort an entry and find its position
FACTOR_ENTRY = 10.0  # of small dense algebra, a pass
CACHE, MISS, WORST_MISS = 2**20, 25.0, 100.0  # a row out of cache, by doublings of the panel


@dataclass(frozen=True)
class Plan:
    """A run in numbers: what is held at each stage, and how long a pass takes.

    Attributes
    ----------
    shape : tuple of int
        Shape of tensor and data.
    rank : tuple of int
        Rank of tensor and data.
    size : int
        Size of tensor and data.
    width : int
        Bytes of a number.
    method : str or solver, default='auto'
        The method, or its name.
    """

    shape: tuple[int, ...]
    rank: tuple[int, ...]
    size: int
    width: int
    method: Any = "auto"

    @functools.cached_property
    def solver(self) -> Any:
        """The method, with its default settings where it is named."""
        return as_solver(self.method)

    @functools.cached_property
    def cost(self) -> IterationCost:
        """What an iteration of the method holds."""
        return cost_of(self.solver, self)

    @property
    def n_measurements(self) -> int:
        """Number of entries, by the name that solvers know."""
        return self.size

    @functools.cached_property
    def modes(self) -> tuple[int, ...]:
        """Tree order of the entries, as the method will choose it."""
        stored = range(len(self.shape))
        if not isinstance(self.solver, Ordered):
            return choose_modes(self.shape, self.rank, self.size, stored)
        leaf = self.solver.modes(self)[0]
        return (*(k for k in stored if k != leaf), leaf)

    @functools.cached_property
    def samples(self) -> float:
        """Entries per degree of freedom."""
        return self.size / degrees_of_freedom(self.shape, self.rank)

    def nodes(self, modes: Sequence[int]) -> list[float]:
        """Nodes of every level of the tree, expected for random indices."""
        n_positions, out = 1.0, []
        for k in modes[:-1]:
            n_positions *= self.shape[k]
            out.append(-n_positions * math.expm1(-self.size / n_positions))
        return out

    def tree(self, modes: Sequence[int]) -> float:
        """Bytes of the entries in tree order, and of the permutation into it."""
        nodes = NODE_BYTES * sum(self.nodes(modes))
        return nodes + (COLUMN + POSITION) * self.size

    def building(self, modes: Sequence[int], n_given: int) -> float:
        """Bytes while the tree is built from columns, some of which are made for it."""
        sorting = 2 * POSITION * self.size
        columns = COLUMN * len(self.shape) * self.size
        opening = POSITION * self.size + columns + OPEN_NODE * sum(self.nodes(modes))
        return max(sorting, opening) + COLUMN * n_given * self.size

    def stages(self) -> Iterator[tuple[str, float]]:
        """Yield what is done and the bytes held meanwhile."""
        d, values = len(self.shape), self.width * self.size
        stored = tuple(range(d))
        yield "while the entries are sorted", self.building(stored, d)
        held = self.tree(stored) + values
        if self.modes != stored:
            yield "while the entries are arranged", held + self.building(self.modes, d - 1)
            held += self.tree(self.modes)
        held += values  # arranged
        if self.is_sequential:
            numbers = 4 * POSITION * self.nodes(self.modes)[-1]  # of the fibres, and while found
            n_panels = 1 + (self.modes[-1] != d - 1)  # copied where its axes are not in order
            bases = self.block_iteration
            yield (
                "while the initial estimate is computed",
                held + numbers + n_panels * self.panel + bases,
            )
        else:
            others = [(*(j for j in stored if j != k), k) for k in stored if k != self.modes[-1]]
            for modes in others:
                yield "while the initial estimate is computed", held + self.building(modes, d - 1)
                held += self.tree(modes) + values
            yield (
                "while the initial estimate is computed",
                held + self.block_iteration + self.factors(1),
            )
            held -= len(others) * values
        held += self.cost.n_residuals * values
        core = 4 * self.width * math.prod(2 * r for r in self.cost.rank)
        factors = self.factors(self.cost.n_factor_sets) + self.cost.n_panels * self.panel
        yield "during the iteration", held + factors + core + self.partial_sums

    def factors(self, copies: int) -> float:
        """Bytes of so many sets of factors."""
        sizes = zip(self.shape, self.cost.rank, strict=True)
        return copies * self.width * sum(n * r for n, r in sizes)

    @property
    def panel(self) -> float:
        """Bytes of a panel with one row for every fibre along the leaf mode."""
        leaf = self.modes[-1]
        return self.width * math.prod(self.shape) / self.shape[leaf] * self.rank[leaf]

    @property
    def is_sequential(self) -> bool:
        """Whether the entries are needed in one order only; otherwise along every mode."""
        if self.cost.needs_every_mode:
            return False
        is_small = self.panel <= min(DEFAULT_MEMORY_LIMIT / 8, 4 * self.width * self.size)
        return is_small and self.samples >= MANY_SAMPLES

    @property
    def block_iteration(self) -> float:
        """Bytes of the bases of the eigenvectors of the initialization, and of a pass over them."""
        most = 0.0
        for n, r in zip(self.shape, self.cost.rank, strict=True):
            block = block_size(n, r)
            limit = n if n <= FULL_BASIS else min(n, 4 * block)
            bases = self.width * n * (3 * limit + 4 * block)
            most = max(most, bases + self.chunk_sums(n * block))
        return most

    @property
    def partial_sums(self) -> float:
        """Bytes of the sums of a gradient."""
        below = sum(self.shape[k] * self.cost.rank[k] for k in self.modes[1:])
        return self.chunk_sums(below + math.prod(self.cost.rank))

    def chunk_sums(self, n_partial: int) -> float:
        """Bytes of the sums that the chunks of a pass keep for themselves."""
        n_bytes = n_partial * self.width
        least = max(MIN_CHUNK, n_partial // PARTIALS_PER_ENTRY)
        n_chunks = min(MAX_CHUNKS, MAX_PARTIAL // n_bytes, self.size // least)
        return max(0, n_chunks - 1) * n_bytes

    # how long it takes

    def work(self, passes: int) -> float:
        """Nanoseconds of the model for sorting, initialization and passes."""
        n_sorts = 1 + (self.modes != tuple(range(len(self.shape))))
        n_digits = sum(1 + (n > 2**16) for n in self.shape)
        factors = sum(n * r for n, r in zip(self.shape, self.rank, strict=True))
        a_pass = WIDE * self.pass_work() + FACTOR_ENTRY * factors
        return n_sorts * n_digits * DIGIT * self.size + (START_PASSES + passes) * a_pass

    def pass_work(self) -> float:
        """Nanoseconds of the model for one pass."""
        counts = [*self.nodes(self.modes), float(self.size)]
        total, rest = 0.0, math.prod(self.rank)
        for level, (k, count) in enumerate(zip(self.modes, counts, strict=True)):
            is_leaf = level == len(self.modes) - 1
            cost = ENTRY + ENTRY_PRODUCT * rest if is_leaf else NODE + NODE_PRODUCT * rest
            panel = 2 * self.width * self.shape[k] * self.rank[k]  # a factor and its gradient
            if level > 0:  # the root takes its rows in order
                cost += min(WORST_MISS, MISS * max(0.0, math.log2(panel / CACHE)))
            total += count * cost
            rest //= self.rank[k]
        return total


@functools.cache
def measure_speed(threads: int) -> float:
    """Return the seconds that a nanosecond of the model takes here, from a small pass."""
    plan = Plan((300, 300, 300), (5, 5, 5), 200_000, 8)
    rng = np.random.default_rng(0)
    flat = np.unique(rng.integers(0, math.prod(plan.shape), plan.size))  # a few less
    indices = np.stack(np.unravel_index(flat, plan.shape), axis=1)
    fibres, _ = Fibres.build(plan.shape, indices, threads=threads)
    y, core = gaussian(flat.shape, rng, np.float64), gaussian(plan.rank, rng, np.float64)
    factors = [
        gaussian((n, r), rng, np.float64) for n, r in zip(plan.shape, plan.rank, strict=True)
    ]
    seconds = math.inf
    for _ in range(10):  # the least is the one that nothing disturbed
        clock = time.perf_counter()
        kernels.tucker_gradient(fibres.tree, y, core, factors, threads=threads)
        seconds = min(seconds, time.perf_counter() - clock)
    return seconds / plan.pass_work()
