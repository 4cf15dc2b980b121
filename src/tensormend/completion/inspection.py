"""`inspect`: describe data with missing entries, and try ranks, before completing them."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensormend.completion.cost import Cost
from tensormend.completion.entry import complete, estimate_cost
from tensormend.completion.trust.coverage import ModeCoverage, measure_coverage
from tensormend.completion.validation import Pattern, draw_folds, find_pattern
from tensormend.core.algebra import cap_rank
from tensormend.core.tucker import degrees_of_freedom
from tensormend.data.observations import Observations, as_observations
from tensormend.errors import InputError
from tensormend.recovery.result import Status

__all__ = ["Inspection", "Mode", "RankTrial", "Values", "inspect"]

ENOUGH = 2.0  # entries per degree of freedom; with fewer a plain fit is doubtful, as in `judge`
RANKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
FRACTION = 0.1
CLEARLY = 0.95  # of the error of a smaller rank, that a larger one must get below
# when a trial may stop
ROUGHLY: dict[str, Any] = {"min_delta": 1e-2, "patience": 5, "max_iter": 100}
MANY = 2_000_000  # entries from which on even one trial would not be quick
N_SHOWN = 5


@dataclass(frozen=True)
class Mode:
    """One mode: name, size, and what was never observed along it.

    Attributes
    ----------
    name : str
        Name of the mode.
    size : int
        Number of indices.
    least, most : float
        Smallest and largest observed fraction of its slices.
    n_empty_slices : int
        Number of slices without any observed entry.
    empty_slices : str
        Labels of the first of these.
    n_empty_fibres : int
        Number of fibres along the mode without any observed entry.
    """

    name: str
    size: int
    least: float
    most: float
    n_empty_slices: int
    empty_slices: str
    n_empty_fibres: int


@dataclass(frozen=True)
class Values:
    """Statistics of the observed values; of complex ones, of their moduli."""

    least: float
    mean: float
    largest: float
    std: float


@dataclass(frozen=True)
class RankTrial:
    """A rank: entries per degree of freedom, and the error on held-out entries if it was tried."""

    rank: tuple[int, ...]
    entries_each: float
    error: float = math.nan


@dataclass(frozen=True)
class Inspection:
    """Result of `inspect`.

    Attributes
    ----------
    shape : tuple of int
        Shape of the tensor.
    dtype : str
        Data type of the values.
    n_observed : int
        Number of observed entries.
    modes : tuple of Mode
        One per mode.
    values : Values
        Statistics of the observed values.
    pattern : Pattern
        Pattern of the missing entries.
    n_folds : int
        Number of folds that a search holds out one after another.
    ranks : tuple of RankTrial
        Ranks with at least two entries per degree of freedom, and the relative error of those that
        were tried on held-out entries.
    best_rank : RankTrial or None
        The smallest rank whose held-out error no larger one improves by 5%; ``None`` if none was
        tried.
    cost : Cost
        Memory and time of ``complete(data)``.
    seconds : float
        Time that the trials took.
    """

    shape: tuple[int, ...]
    dtype: str
    n_observed: int
    modes: tuple[Mode, ...]
    values: Values
    pattern: Pattern
    n_folds: int
    ranks: tuple[RankTrial, ...]
    best_rank: RankTrial | None
    cost: Cost
    seconds: float

    @property
    def observed_fraction(self) -> float:
        """Fraction of the entries that are observed."""
        return self.n_observed / math.prod(self.shape)

    @property
    def largest_rank(self) -> tuple[int, ...] | None:
        """The largest rank, about equal in all modes, with two entries per degree of freedom."""
        return self.ranks[-1].rank if self.ranks else None


def inspect(
    data: Any,
    *,
    time_limit: float = 3.0,
    threads: int | None = None,
    rng: int | np.random.Generator | None = 0,
    **where: Any,
) -> Inspection:
    """Describe data with missing entries, and estimate which ranks they support.

    Parameters
    ----------
    data : array_like, TensorData, DataArray, Series, DataFrame or sparse.COO
        Data, as for `complete`.
    time_limit : float, default=3.0
        Time limit of the trial fits in seconds; 0 for no trial fits. Increasing ranks are fitted
        to nine tenths of the observed entries, and the error on the others is recorded, until
        larger ranks do not reduce it. No ranks are tried for more than two million entries.
    threads : int, default=None
        Threads of the kernels; all cores by default.
    rng : int or Generator, default=0
        Seed or generator for the held-out entries.
    **where
        ``observed``, ``indices``, ``shape``, ``modes`` and ``value_column``, as for `complete`.

    Returns
    -------
    Inspection
        Coverage, statistics of the values, pattern of missing entries, ranks and cost.

    Raises
    ------
    InputError
        If ``time_limit`` is negative, or the data cannot be read.

    Examples
    --------
    >>> import tensormend as tm
    >>> truth = tm.simulate.random_tucker((20, 20, 20), 2, rng=0).todense()
    >>> data = np.where(np.random.default_rng(1).random(truth.shape) < 0.4, truth, np.nan)
    >>> found = tm.inspect(data)
    >>> found.best_rank.rank, found.largest_rank
    ((2, 2, 2), (8, 8, 8))
    """
    if not time_limit >= 0:
        raise InputError(
            f"time_limit must be 0 or more, got {time_limit}; 0 makes no trial fits",
            parameter="time_limit",
        )
    observations = as_observations(data, **where)
    coverage = measure_coverage(observations.indices, observations.shape)
    clock = time.perf_counter()
    ranks = list(_carried(observations))
    tried = _try_ranks(observations, ranks, clock + time_limit, threads, rng) if time_limit else []
    pattern = find_pattern(observations.indices, observations.shape)
    folds = draw_folds(
        observations.indices, observations.shape, np.random.default_rng(0), pattern=pattern
    )
    return Inspection(
        shape=observations.shape,
        dtype=str(observations.values.dtype),
        n_observed=len(observations.values),
        modes=tuple(_describe_mode(observations, k, mode) for k, mode in enumerate(coverage)),
        values=_measure(observations),
        pattern=pattern,
        n_folds=max(len(folds), 1),
        ranks=tuple(tried + ranks[len(tried) :]),
        best_rank=_choose(tried),
        cost=estimate_cost(data, threads=threads, **where),
        seconds=time.perf_counter() - clock,
    )


def _describe_mode(observations: Observations, k: int, mode: ModeCoverage) -> Mode:
    name, empty_slices = observations.container.describe(k, mode.empty_slices[:N_SHOWN].tolist())
    more = ", ..." if len(mode.empty_slices) > N_SHOWN else ""
    return Mode(
        name=str(getattr(observations.container, "dims", {k: name})[k]),
        size=observations.shape[k],
        least=float(mode.fraction.min()),
        most=float(mode.fraction.max()),
        n_empty_slices=len(mode.empty_slices),
        empty_slices=f"{empty_slices}{more}" if len(mode.empty_slices) else "",
        n_empty_fibres=mode.n_empty_fibres,
    )


def _measure(observations: Observations) -> Values:
    values = (
        np.abs(observations.values)
        if observations.values.dtype.kind == "c"
        else observations.values
    )
    numbers = (values.min(), values.mean(dtype=float), values.max(), values.std(dtype=float))
    return Values(*map(float, numbers))


def _carried(observations: Observations) -> Iterator[RankTrial]:
    """Yield increasing ranks for which there are enough entries."""
    before: tuple[int, ...] = ()
    for r in RANKS:
        rank = cap_rank([r] * len(observations.shape), observations.shape)
        each = len(observations.values) / degrees_of_freedom(observations.shape, rank)
        if rank == before or each < ENOUGH:
            return
        before = rank
        yield RankTrial(rank, each)


def _try_ranks(
    observations: Observations,
    ranks: Sequence[RankTrial],
    deadline: float,
    threads: int | None,
    rng: int | np.random.Generator | None,
) -> list[RankTrial]:
    """Fit each rank to nine tenths of the entries until the error on the others stops falling."""
    tried: list[RankTrial] = []
    if len(observations.values) > MANY:
        return tried
    for trial in ranks:
        left = deadline - time.perf_counter()
        is_over = len(tried) > 1 and min(tried[-1].error, tried[-2].error) > _best(tried[:-2])
        if left <= 0 or is_over or (tried and tried[-1].error < 1e-6):
            break
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `complete` issues the same warnings
            try:
                result = complete(
                    observations.values,
                    trial.rank,
                    indices=observations.indices,
                    shape=observations.shape,
                    validation_fraction=FRACTION,
                    time_limit=left,
                    threads=threads,
                    rng=rng,
                    **ROUGHLY,
                )
            except InputError:  # too few to hold any out
                break
        if result.status is Status.TIME_LIMIT:
            break
        error = float(result.fit.history.validation_error[-1])
        tried.append(RankTrial(trial.rank, trial.entries_each, error))
    return tried


def _best(tried: Sequence[RankTrial]) -> float:
    return min((trial.error for trial in tried), default=math.inf)


def _choose(tried: Sequence[RankTrial]) -> RankTrial | None:
    """Return the smallest rank that no larger one clearly improves."""
    for k, trial in enumerate(tried):
        if not _best(tried[k + 1 :]) < CLEARLY * trial.error:
            return trial
    return None
