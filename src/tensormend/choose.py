"""Choosing a model for data with holes: how much to shrink, or which rank, judged on a hold-out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from tensormend.algebra import Array, as_rank, normalize_mode
from tensormend.errors import InputError
from tensormend.holdout import Fold, Pattern, draw_folds, find_pattern
from tensormend.initial import corrected_start
from tensormend.operators import Masked, Operator, Sampling
from tensormend.preprocess import Fitted, Preprocessing
from tensormend.problem import Problem
from tensormend.solve import Progress, solve
from tensormend.solvers import RGN, Shrink
from tensormend.stopping import Stop
from tensormend.truncate import thosvd
from tensormend.tucker import Tucker, degrees_of_freedom

__all__ = [
    "DENSE_COPIES",
    "PLAIN",
    "Choice",
    "Entries",
    "Trial",
    "choose_model",
    "generous_rank",
    "iteration_seconds",
    "make_problem",
    "works_densely",
]

FIRST, LAST = 0.3, 3e-4  # strengths of the path, of centred data
WORSE, MAX_WORSE = 1.01, 2  # of the least error on the way: stages beyond that end the path
EFFECTS_SHARE = 0.5  # of the mean square that effects must leave less of to be tried
BALANCE_GAIN, MAX_BALANCE = 0.995, 8.0  # what a change of a mode's strength must gain, and may be
BALANCE_ROUNDS = 4
TIED = 1.01  # of the least error: what is above it is worse, whatever the standard error
# held-out errors relative to the deviation of the data for which exact low rank is tried: of any
# model, and of one at the weak end of the path
NEARLY_EXACT, MAY_BE_EXACT = 0.02, 0.1
RANK_GAIN = 0.99  # share of the mean square that a larger rank must get below
EXACT = 1e-7  # held-out error relative to the deviation of the data: nothing left to gain
RANK_ITERATIONS = 12
GENEROUS, CORE_SIZE = 40, 100_000  # directions of a mode, and a core, where entries are passed over
DENSE_COPIES = 8  # arrays of the whole tensor that shrinkage works with
DENSE_BYTES = 2**31  # for these, at most
DENSE_RATE, SPARSE_RATE = 4e10, 2e9  # multiply-adds a second: of dense products, of a pass


PLAIN = Shrink(rounds=3, inner=0, momentum=0.8)
"""Shrinkage by momentum alone, which is the fastest way down a path."""


@dataclass(frozen=True, eq=False)
class Entries:
    """Known entries of a tensor: ``m x d`` indices, values, and the shape."""

    indices: Array
    values: Array
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.values)

    def part(self, positions: Array) -> Entries:
        """Return some of the entries."""
        return replace(self, indices=self.indices[positions], values=self.values[positions])


@dataclass(frozen=True)
class Trial:
    """One model that was tried.

    Attributes
    ----------
    method : ``"shrink"``, or ``"rank"`` for one of fixed rank
    center : modes whose slices have effects; ``()`` for the grand mean alone, ``None`` for nothing
    strength : of the shrinkage; NaN for a fixed rank
    rank : number of directions per mode
    error : held-out RMSE in the units of the data
    standard_error : of ``error``, fibres held out as a whole counting once
    balance : factors on the strength, one per mode; ``None`` where all are 1
    """

    method: Literal["shrink", "rank"]
    center: tuple[int, ...] | None
    strength: float
    rank: tuple[int, ...]
    error: float
    standard_error: float
    balance: tuple[float, ...] | None = None


@dataclass(frozen=True, eq=False)
class Choice:
    """The model chosen, what it was chosen from, and what it said about the held-out entries.

    Attributes
    ----------
    trial : the model
    path : all that were tried, in order
    x : the fit of that model or one near it, to start from
    held : positions of the held-out entries, over all folds
    predicted : what fits that had not seen them said, in the units of the data
    groups : entries that were held out as one fibre share a number
    folds : number of the fold of each
    pattern : how entries are missing
    notes : what there is to say
    """

    trial: Trial
    path: tuple[Trial, ...]
    x: Tucker
    held: Array
    predicted: Array
    groups: Array
    folds: Array
    pattern: Pattern
    notes: tuple[str, ...]


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
    rank = [min(n, limit) for n in shape]
    for _ in rank:
        for k in range(len(rank)):
            rank[k] = min(rank[k], math.prod(rank[:k] + rank[k + 1 :]))
    return tuple(rank)


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


def make_problem(entries: Entries, threads: int | None) -> Problem:
    """Return the problem that suits shrinkage, with dense products or passes over the entries.

    All directions where products are dense, else those of `generous_rank`.
    """
    is_dense = works_densely(entries.shape, len(entries), entries.values.dtype)
    operator = _observe(entries, threads, is_dense=is_dense)
    rank = generous_rank(entries.shape, None if is_dense else len(entries))
    return Problem(operator, entries.values, rank)


def _observe(entries: Entries, threads: int | None, *, is_dense: bool) -> Operator:
    dtype = entries.values.dtype
    if is_dense:
        return Masked(entries.shape, entries.indices, dtype=dtype)
    return Sampling(entries.shape, entries.indices, dtype=dtype, threads=threads)


@dataclass
class _Search:
    """What a search needs to know and what it has found."""

    entries: Entries
    folds: tuple[Fold, ...]
    pattern: Pattern
    preprocessing: Preprocessing
    deadline: float
    threads: int | None
    progress: Callable[[Trial], None] | None
    unit: float = 1.0
    path: list[Trial] = field(default_factory=list)
    set_ups: dict[Any, _SetUp] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def is_late(self) -> bool:
        return time.perf_counter() > self.deadline

    @property
    def seconds_left(self) -> float | None:
        """Time until the deadline, for the rules of a run; ``None`` where there is none."""
        left = self.deadline - time.perf_counter()
        return None if math.isinf(left) else max(left, 0.0)

    def record(self, trial: Trial) -> None:
        self.path.append(trial)
        if self.progress is not None:
            self.progress(self.in_data_units(trial))

    def in_data_units(self, trial: Trial) -> Trial:
        """Return a trial with its errors in the units of the data."""
        error, spread = self.unit * trial.error, self.unit * trial.standard_error
        return replace(trial, error=error, standard_error=spread)


@dataclass(frozen=True, eq=False)
class _Found:
    """A model, its predictions over all folds, their squared errors, and a fit."""

    trial: Trial
    predicted: Array
    squares: Array
    xs: tuple[Tucker, ...]

    @property
    def n_folds(self) -> int:
        return len(self.xs)


def choose_model(
    entries: Entries,
    *,
    preprocessing: Preprocessing | None = None,
    method: Literal["auto", "shrink", "rank"] = "auto",
    center: Literal["auto"] | bool | Sequence[int] = "auto",
    holdout: float = 0.1,
    max_seconds: float = math.inf,
    rng: np.random.Generator | int | None = None,
    threads: int | None = None,
    progress: Callable[[Trial], None] | None = None,
) -> Choice:
    """Choose between strengths of shrinkage, centrings and ranks by the error on a hold-out.

    1. Entries are held out as the holes are (see `draw_folds`).
    2. Shrinkage comes down its path from strong to weak, with the grand mean taken out, and where
       whole fibres are missing and effects of the slices alone halve the mean square, also with
       these; the held-out error is measured at every stage, and a path ends where the error has
       been higher than on the way for two stages.
    3. Of all strengths the strongest is taken whose error is above the least by no more than the
       standard error of the difference, and by no more than 1%. There, single modes are shrunk
       half or twice as much, as long as that lowers the error by half a percent.
    4. Where that error is small (2% of the deviation of the data, 10% if the path was best at its
       weak end), the data may be of low rank exactly: ranks grow from 1, in one mode or in all,
       each fit starting from the last, as long as the held-out error falls; then the smallest
       rank within one standard error of the best is taken.

    Parameters
    ----------
    entries : what is known
    preprocessing : log, scale and clip; the centring in it is replaced
    method : ``"shrink"`` or ``"rank"`` to try only one kind of model
    center : modes to take effects out of, ``True`` for all, ``()`` for the grand mean alone,
        ``False`` for nothing; ``"auto"`` is the rule above
    holdout : share of the entries to hold out
    max_seconds : the search ends by then with the best model so far
    progress : called with every trial
    """
    if len(entries) < 2:
        raise InputError(
            f"choosing a model takes at least two known entries, got {len(entries)}; give a rank"
        )
    rng = np.random.default_rng(rng)
    preprocessing = Preprocessing() if preprocessing is None else preprocessing
    unit = _unit(entries.values, preprocessing)
    if unit != 1:
        entries = replace(entries, values=entries.values / entries.values.dtype.type(unit))
    pattern = find_pattern(entries.indices, entries.shape)
    folds = draw_folds(entries.indices, entries.shape, rng, share=holdout, pattern=pattern)
    if not folds:
        raise InputError(
            f"no entry can be held out of {len(entries)}: every slice needs one that is left; "
            "give a rank"
        )
    center = _check_center(center, len(entries.shape))
    search = _Search(
        entries,
        folds,
        pattern,
        preprocessing,
        time.perf_counter() + max_seconds,
        threads,
        progress,
        unit,
    )
    best = None
    if method != "rank":
        for modes in _centrings(center, search):
            found = _best_strength(search, modes, best)
            if best is None or (found is not None and found.trial.error < best.trial.error):
                best = found
        if best is not None and not search.is_late:
            others = [key for key in search.set_ups if key[1] != best.trial.center]
            for key in others:
                del search.set_ups[key]
            best = _tune_balance(search, best)
    if best is None or (method == "auto" and _may_be_exact(best, search)):
        search.set_ups.clear()
        found = _best_rank(search, None if center == "auto" else next(_centrings(center, search)))
        if best is None or _is_better_in_first_fold(search, found, best):
            best = found
    if search.is_late:
        search.notes.append("the time limit ended the search; the model is the best until then")
    held, groups, numbers = _over_folds(search.folds[: best.n_folds])
    scalar = entries.values.dtype.type(unit)
    return Choice(
        search.in_data_units(best.trial),
        tuple(search.in_data_units(trial) for trial in search.path),
        best.xs[0] * unit,
        held,
        best.predicted * scalar,
        groups,
        numbers,
        pattern,
        tuple(search.notes),
    )


def _unit(values: Array, preprocessing: Preprocessing) -> float:
    """Power of two near the largest value, which squares neither overflow nor vanish in.

    A logarithm and bounds are in the units of the data, so with these it is 1.
    """
    largest = float(np.abs(values).max())
    if largest == 0 or preprocessing.log or preprocessing.clip is not None:
        return 1.0
    return 2.0 ** math.floor(math.log2(largest))


def _check_center(center: Any, order: int) -> Any:
    """Refuse what is no centring; return ``"auto"``, true, false, or modes."""
    if isinstance(center, np.ndarray):
        center = tuple(center.tolist())
    checked = Preprocessing(center=center).center
    if isinstance(checked, bool | str):
        return checked
    return tuple(normalize_mode(k, order) for k in checked)


def _is_better_in_first_fold(search: _Search, found: _Found, best: _Found) -> bool:
    """Compare with what was judged in more folds, on the entries that both have predicted."""
    fold = search.folds[0]
    to_beat = fold.weights @ best.squares[: len(fold.held)]
    return bool(fold.weights @ found.squares < to_beat)


def _centrings(center: Any, search: _Search) -> Iterator[tuple[int, ...] | None]:
    order = len(search.entries.shape)
    if center == "auto":
        yield ()
        if search.pattern.mode is not None and not search.is_late and _effects_matter(search):
            yield tuple(range(order))
    elif isinstance(center, bool):
        yield tuple(range(order)) if center else None
    else:
        yield tuple(center)


def _effects_matter(search: _Search) -> bool:
    """Tell whether effects of the slices, with nothing else, halve the mean square."""
    fold = search.folds[0]
    left = []
    for modes in ((), tuple(range(len(search.entries.shape)))):
        fitted, _, held = _prepare(search, fold, modes)
        inside = fitted.apply(held.indices, held.values)
        left.append(float(fold.weights @ np.abs(inside) ** 2))
    return left[1] < EFFECTS_SHARE * left[0]


def _over_folds(folds: Sequence[Fold]) -> tuple[Array, Array, Array]:
    """Positions, groups and fold numbers of the held-out entries of several folds."""
    groups, first = [], 0
    for fold in folds:
        _, numbers = np.unique(fold.clusters, return_inverse=True)
        groups.append(first + numbers)
        first += int(numbers.max()) + 1
    sizes = [len(fold.held) for fold in folds]
    held = np.concatenate([fold.held for fold in folds])
    return held, np.concatenate(groups), np.repeat(np.arange(len(folds)), sizes)


# strengths


def _best_strength(
    search: _Search, center: tuple[int, ...] | None, rival: _Found | None
) -> _Found | None:
    """Follow the path in every fold, and take the strength that is best over all of them.

    Where the first fold is no better than the rival's was, the others are spared.
    """
    solver = replace(PLAIN, strength=LAST, first=FIRST)
    runs = []
    for fold in search.folds:
        runs.append(_follow(search, fold, center, solver))
        if search.is_late:
            break
        if rival is not None and len(runs) == 1:
            errors = [_squared_errors(search, predicted, 1) for predicted in runs[0].predicted]
            to_beat = fold.weights @ rival.squares[: len(fold.held)]
            if min(fold.weights @ error for error in errors) > to_beat:
                break
    if search.is_late and len(runs) > 1:
        runs.pop()  # it was cut short; those before it were not
    n_stages = min(len(run.predicted) for run in runs)
    trials, squares, predictions = [], [], []
    for stage in range(n_stages):
        predicted = np.concatenate([run.predicted[stage] for run in runs])
        strength, rank = runs[0].strengths[stage], runs[0].ranks[stage]
        error = _squared_errors(search, predicted, len(runs))
        rmse, standard_error = _summarize(search, error, len(runs))
        trials.append(Trial("shrink", center, strength, rank, rmse, standard_error))
        squares.append(error)
        predictions.append(predicted)
        search.record(trials[-1])
    if rival is not None and len(runs) < rival.n_folds:
        return None
    least = int(np.argmin([trial.error for trial in trials]))
    tied = (_is_within_error(search, squares[k], squares[least], len(runs)) for k in range(least))
    chosen = next((k for k, is_tied in enumerate(tied) if is_tied), least)
    xs = tuple(run.x for run in runs)
    return _Found(trials[chosen], predictions[chosen], squares[chosen], xs)


def _tune_balance(search: _Search, found: _Found) -> _Found:
    """Shrink one mode more or less than the others, as long as the held-out error falls.

    From the fits at the chosen strength a few iterations tell which way to go.
    """
    start = found.trial
    best = _fit_balance(search, found, (1.0,) * len(search.entries.shape))
    for k in range(len(search.entries.shape)):
        for factor in (0.5, 2.0):
            is_better = True
            while is_better and not search.is_late:
                balance = list(best.trial.balance or ())
                balance[k] *= factor
                if not 1 / MAX_BALANCE <= balance[k] <= MAX_BALANCE:
                    break
                new = _fit_balance(search, best, tuple(balance))
                is_better = new.trial.error < BALANCE_GAIN * best.trial.error
                best = new if is_better else best
            if best.trial.balance and best.trial.balance[k] != 1:
                break  # what is worth halving is not worth doubling
    return best if best.trial.error < start.error else found


def _fit_balance(search: _Search, near: _Found, balance: tuple[float, ...]) -> _Found:
    """Go on from fits with other factors on the strength."""
    strength, center = near.trial.strength, near.trial.center
    solver = replace(
        PLAIN, strength=strength, first=strength, rounds=BALANCE_ROUNDS, balance=balance
    )
    predicted, xs = [], []
    for fold, x in zip(search.folds, near.xs, strict=False):
        limit = search.seconds_left
        stop = Stop(tol=0, tol_change=0, patience=BALANCE_ROUNDS + 1, max_seconds=limit)
        setup = _set_up(search, fold, center)
        xs.append(x if setup.problem is None else solve(setup.problem, solver, x, stop=stop).x)
        predicted.append(setup.predict(xs[-1]))
    everything = np.concatenate(predicted)
    squares = _squared_errors(search, everything, len(xs))
    rmse, standard_error = _summarize(search, squares, len(xs))
    trial = Trial("shrink", center, strength, xs[0].rank, rmse, standard_error, balance)
    search.record(trial)
    return _Found(trial, everything, squares, tuple(xs))


@dataclass(eq=False)
class _Run:
    """A path in one fold: what was predicted at each strength, and the best fit."""

    x: Tucker
    predicted: list[Array] = field(default_factory=list)
    strengths: list[float] = field(default_factory=list)
    ranks: list[tuple[int, ...]] = field(default_factory=list)


def _prepare(
    search: _Search, fold: Fold, center: tuple[int, ...] | None
) -> tuple[Fitted, Entries, Entries]:
    """Fit means to the entries that are kept; return them prepared, and those held out."""
    kept = search.entries.part(fold.kept(len(search.entries)))
    modes = False if center is None else center
    fitted = replace(search.preprocessing, center=modes).fit(kept.indices, kept.values, kept.shape)
    prepared = replace(kept, values=fitted.apply(kept.indices, kept.values))
    return fitted, prepared, search.entries.part(fold.held)


@dataclass(frozen=True, eq=False)
class _SetUp:
    """A fold ready to be fitted with shrinkage, and where its held-out entries are.

    There is no problem where the means have taken everything out.
    """

    problem: Problem | None
    fitted: Fitted
    held: Entries
    where: Operator

    def predict(self, x: Tucker) -> Array:
        """Return what a fit says about the held-out entries, in the units of the data."""
        return self.fitted.undo(self.held.indices, self.where.forward(x))


def _set_up(search: _Search, fold: Fold, center: tuple[int, ...] | None) -> _SetUp:
    key = (id(fold), center)
    if key not in search.set_ups:
        fitted, kept, held = _prepare(search, fold, center)
        problem = make_problem(kept, search.threads) if kept.values.any() else None
        is_dense = problem is not None and isinstance(problem.operator, Masked)
        where = _observe(held, search.threads, is_dense=is_dense)
        search.set_ups[key] = _SetUp(problem, fitted, held, where)
    return search.set_ups[key]


def _follow(search: _Search, fold: Fold, center: tuple[int, ...] | None, solver: Shrink) -> _Run:
    """Come down the path of strengths in one fold, and look at the held-out entries on the way."""
    setup = _set_up(search, fold, center)
    held = setup.held
    run = _Run(_zero(search.entries))
    if setup.problem is None:
        return _Run(run.x, [setup.predict(run.x)], [FIRST], [run.x.rank])
    errors: list[float] = []

    def look(now: Progress) -> bool:
        if now.n_iter % solver.rounds and not search.is_late:
            return False
        predicted = setup.predict(now.x)
        errors.append(float(fold.weights @ np.abs(predicted - held.values).astype(float) ** 2))
        if errors[-1] <= min(errors):
            run.x = now.x
        run.predicted.append(predicted)
        run.strengths.append(solver.strength_at(now.n_iter - 1))
        run.ranks.append(now.x.rank)
        recent = errors[-MAX_WORSE:]
        is_worse = len(errors) > MAX_WORSE and min(recent) > WORSE**2 * min(errors)
        return is_worse or search.is_late

    stop = Stop(tol=0, tol_change=0, patience=solver.n_path + 1, max_iter=solver.n_path)
    solve(setup.problem, solver, stop=stop, callback=look)
    return run


def _zero(entries: Entries) -> Tucker:
    shape, dtype = entries.shape, entries.values.dtype
    core = np.zeros((1,) * len(shape), dtype=dtype)
    return Tucker(core, tuple(np.ones((n, 1), dtype=dtype) / math.sqrt(n) for n in shape))


def _squared_errors(search: _Search, predicted: Array, n_folds: int) -> Array:
    held = np.concatenate([fold.held for fold in search.folds[:n_folds]])
    return np.asarray(np.abs(predicted - search.entries.values[held]).astype(np.float64) ** 2)


def _clustered(search: _Search, n_folds: int, values: Array) -> tuple[float, float]:
    """Weighted mean of values at the held-out entries, and its standard error by cluster."""
    folds = search.folds[:n_folds]
    weights = np.concatenate([fold.weights for fold in folds]) / n_folds
    mean = float(weights @ values)
    _, groups, _ = _over_folds(folds)
    shares = np.bincount(groups, weights * (values - mean))
    n = len(shares)
    return mean, float(np.sqrt(np.sum(shares**2) * n / (n - 1))) if n > 1 else math.inf


def _summarize(search: _Search, squares: Array, n_folds: int) -> tuple[float, float]:
    mean, spread = _clustered(search, n_folds, squares)
    rmse = math.sqrt(mean)
    return rmse, spread / (2 * rmse) if rmse > 0 else 0.0


def _is_within_error(search: _Search, squares: Array, least: Array, n_folds: int) -> bool:
    excess, spread = _clustered(search, n_folds, squares - least)
    return excess <= min(spread, (TIED**2 - 1) * _clustered(search, n_folds, least)[0])


# ranks


def _may_be_exact(found: _Found, search: _Search) -> bool:
    """Tell whether fixed ranks may do better than shrinkage."""
    if search.is_late or found.trial.error == 0:
        return False
    deviation = float(np.std(search.entries.values))
    share = MAY_BE_EXACT if found.trial.strength <= LAST else NEARLY_EXACT
    return found.trial.error <= share * deviation


def _best_rank(search: _Search, center: tuple[int, ...] | None) -> _Found:
    """Grow ranks from 1 as long as the held-out error falls, in one mode or in all at once."""
    fold = search.folds[0]
    fitted, kept, held = _prepare(search, fold, center)
    operator = _observe(kept, search.threads, is_dense=False)
    where = _observe(held, search.threads, is_dense=False)
    ones = (1,) * len(kept.shape)
    if not kept.values.any():
        zero = _zero(kept)
        predicted = fitted.undo(held.indices, zero.entries(held.indices))
        squares = _squared_errors(search, predicted, 1)
        trial = Trial("rank", center, math.nan, ones, *_summarize(search, squares, 1))
        return _Found(trial, predicted, squares, (zero,))
    problem = Problem(operator, kept.values, ones)

    def fit(rank: tuple[int, ...], start: Tucker | None) -> _Found:
        stop = Stop(tol=1e-10, max_iter=RANK_ITERATIONS, max_seconds=search.seconds_left)
        wide = problem.with_rank(rank)
        x = solve(wide, RGN(target=1e-10), start, stop=stop).x
        predicted = fitted.undo(held.indices, where.forward(x))
        squares = _squared_errors(search, predicted, 1)
        trial = Trial("rank", center, math.nan, rank, *_summarize(search, squares, 1))
        search.record(trial)
        return _Found(trial, predicted, squares, (x,))

    best = fit(ones, None)
    floor = EXACT * float(np.std(search.entries.values))
    while best.trial.error > floor and not search.is_late:
        trials = []
        for rank in _larger(best.trial.rank, kept.shape, len(kept)):
            if search.is_late:
                break
            trials.append(fit(rank, _widen(problem, best.xs[0], rank)))
        better = min(trials, key=lambda found: found.trial.error, default=None)
        if trials and better is not None and not _gains(better, best) and not search.is_late:
            rank = trials[0].trial.rank  # a start of its own may find what the residual hides
            trials.append(fit(rank, corrected_start(problem.with_rank(rank))))
            better = min(trials, key=lambda found: found.trial.error)
        if better is None or not _gains(better, best):
            break
        best = better
    for rank in _smaller(search.path, best, kept.shape):
        if search.is_late:
            break
        found = fit(rank, thosvd(best.xs[0], rank))
        if found.trial.error <= max(best.trial.error + best.trial.standard_error, floor):
            return found
    return best


def _gains(found: _Found, best: _Found) -> bool:
    return found.trial.error**2 < RANK_GAIN * best.trial.error**2


def _smaller(
    path: Sequence[Trial], best: _Found, shape: tuple[int, ...]
) -> Iterator[tuple[int, ...]]:
    """Ranks with fewer parameters that may do as well, the smallest first.

    Those on the path within a standard error of the best, and the rank of the best fit down to
    its error.
    """
    error = best.trial.error + best.trial.standard_error
    ranks = {t.rank for t in path if t.method == "rank" and t.error <= error}
    x = best.xs[0]
    noise = max(best.trial.error / (x.norm() / math.sqrt(math.prod(shape)) or 1), 1e-6)
    ranks.add(tuple(max(1, r) for r in x.multilinear_rank(tol=noise)))
    size = degrees_of_freedom(shape, best.trial.rank)
    for rank in sorted(ranks, key=lambda rank: degrees_of_freedom(shape, rank)):
        if degrees_of_freedom(shape, rank) < size and rank == generous_rank(rank):
            yield rank


def _larger(rank: tuple[int, ...], shape: tuple[int, ...], size: int) -> Iterator[tuple[int, ...]]:
    """Ranks to try next: a little more in every mode, and in each mode alone."""
    steps = [max(1, r // 4) for r in rank]
    raised = [min(n, r + s) for n, r, s in zip(shape, rank, steps, strict=True)]
    options = [raised] + [
        [raised[j] if j == k else r for j, r in enumerate(rank)] for k in range(len(rank))
    ]
    seen = {rank}
    for option in options:
        try:
            new = as_rank(option, shape)
        except InputError:  # more than the product of the other ranks
            continue
        if new not in seen and 2 * math.prod(new) <= size:
            seen.add(new)
            yield new


def _widen(problem: Problem, x: Tucker, rank: tuple[int, ...]) -> Tucker:
    """Take the directions that a fit misses most from its residual."""
    residual = problem.y - problem.operator.forward(x)
    ratio = problem.operator.size / math.prod(problem.shape)
    return thosvd(problem.operator.shifted(x, 1 / ratio, residual), rank)
