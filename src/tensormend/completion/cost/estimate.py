"""Memory and time of a run, in numbers and in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensormend.completion.cost.machine import available_memory
from tensormend.completion.cost.plan import Plan, measure_speed
from tensormend.core import kernels
from tensormend.core.algebra import as_rank, as_shape, is_inexact
from tensormend.core.text import format_bytes, format_seconds
from tensormend.errors import InputError, MemoryLimitError

__all__ = ["Cost", "check_cost", "dense_cost", "fit_cost"]

SLACK = 1.3  # what the allocator and short-lived arrays take beyond what is counted
FIXED = 2**23  # bytes of what is loaded and set up at the first run
SMALL = 2**26  # bytes of runs that are not checked
TYPICAL_PASSES = 100  # of a run with "auto": 30 where data are exact and many, 200 where not


@dataclass(frozen=True)
class Cost:
    """What a run needs beyond the data it is given.

    Attributes
    ----------
    bytes : int
        The most memory held at a time.
    stage : str
        When that is.
    advice : str
        What to do where there is not so much.
    work : float, default=nan
        Nanoseconds of a model of the kernels; NaN where the time is not known.
    threads : int, default=1
        Threads that share the work.
    """

    bytes: int
    stage: str
    advice: str
    work: float = math.nan
    threads: int = 1

    @property
    def seconds(self) -> float:
        """Time on this machine, whose speed is measured when it is first asked for."""
        return self.work * measure_speed(self.threads) if self.work > 0 else self.work

    @property
    def sentence(self) -> str:
        """What to expect, in words."""
        memory = f"About {format_bytes(self.bytes)} of memory, most of it {self.stage}"
        if math.isnan(self.seconds):
            return f"{memory}."
        return f"{memory}, and {format_seconds(self.seconds)}."

    def __str__(self) -> str:
        return self.sentence


def fit_cost(
    shape: Sequence[int],
    rank: int | Sequence[int],
    size: int,
    dtype: Any = np.float64,
    *,
    method: Any = "auto",
    passes: int = TYPICAL_PASSES,
    threads: int | None = None,
    given: bool = True,
) -> Cost:
    """Estimate what the completion of a tensor from sampled entries costs.

    Parameters
    ----------
    shape : sequence of int
        Shape of the tensor.
    rank : int or sequence of int
        Rank of the tensor.
    size : int
        Number of observed entries.
    dtype : dtype, default=float64
        Their data type.
    method : str or solver, default='auto'
        The method, or its name.
    passes : int, default=TYPICAL_PASSES
        Passes over the entries; an iteration makes from one to some forty of them.
    threads : int, optional
        Threads of the kernels, all cores by default.
    given : bool, default=True
        Whether indices (64 bits) and values are there already; else they count.

    Notes
    -----
    Memory is counted array by array, from the sort to the iteration, for entries at random indices
    in any order, and 30% are added: peaks that were measured lie between a half and nine tenths of
    it. Entries that come sorted take less. The time is a model of the passes, scaled by what a
    small pass takes on this machine; it is good to a factor of three, and leaves out the panels of
    SM-QRGD and SeMPIHT.

    Examples
    --------
    >>> cost = fit_cost((1000, 1000, 1000), 5, 10_000_000)
    >>> bool(0.25 * 2**30 < cost.bytes < 2**30)
    True
    """
    shape = as_shape(shape)
    rank = as_rank(rank, shape)
    if not 1 <= size <= math.prod(shape):
        raise InputError(
            f"size must be a number of entries of a tensor of shape {shape}, between 1 and "
            f"{math.prod(shape)}, got {size}"
        )
    if not is_inexact(np.dtype(dtype)):
        raise InputError(
            f"dtype must be float32, float64, complex64 or complex128, got {np.dtype(dtype)}"
        )
    plan = Plan(shape, rank, size, np.dtype(dtype).itemsize, method)
    stage, most = max(plan.stages(), key=lambda pair: pair[1])
    extra = 0 if given else size * (8 * len(shape) + plan.width)
    return Cost(
        bytes=math.ceil(SLACK * (most + FIXED)) + extra,
        stage=stage,
        advice=_advice(stage),
        work=plan.work(passes),
        threads=kernels.thread_count(threads),
    )


def _advice(stage: str) -> str:
    if "entries" in stage:  # rank and precision do not matter there
        return "take fewer entries"
    return "lower the rank, take fewer entries, or give them in single precision"


def dense_cost(shape: Sequence[int], dtype: Any = np.float64, copies: int = 1) -> Cost:
    """Tell what a method needs that forms the whole tensor, several times over.

    Examples
    --------
    >>> dense_cost((1000, 1000, 1000), copies=3).sentence
    'About 22.4 GiB of memory, most of it in whole tensors.'
    """
    needed = copies * math.prod(as_shape(shape)) * np.dtype(dtype).itemsize
    advice = "use a method that works on the entries alone, or a smaller part of the tensor"
    return Cost(needed, "in whole tensors", advice)


def check_cost(cost: Cost, memory_limit: float | None = None) -> None:
    """Refuse a run that needs more memory than there is, or than the limit given.

    Where it is not known how much there is, nothing is refused, nor is a run of 64 MiB or less:
    asking the system would be a good part of its time.
    """
    if memory_limit is None and cost.bytes <= SMALL:
        return
    there = available_memory() if memory_limit is None else memory_limit
    if there is None or cost.bytes <= there:
        return
    whose = "are free" if memory_limit is None else "are allowed"
    raise MemoryLimitError(
        f"the run needs about {format_bytes(cost.bytes)} of memory, most of it {cost.stage}, and "
        f"{format_bytes(there)} {whose}; {cost.advice}, or raise memory_limit if you know better"
    )
