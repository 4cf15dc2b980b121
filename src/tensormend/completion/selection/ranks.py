"""Selection of a Tucker rank: increased from 1 while the held-out error decreases."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from tensormend.completion.cost import generous_rank
from tensormend.completion.selection.problem import observe
from tensormend.completion.selection.search import (
    Found,
    Search,
    prepare,
    squared_errors,
    summarize,
    zero_model,
)
from tensormend.completion.selection.strengths import LAST
from tensormend.completion.selection.watch import Trial
from tensormend.core.algebra import as_rank
from tensormend.core.truncate import thosvd
from tensormend.core.tucker import Tucker, degrees_of_freedom
from tensormend.errors import InputError
from tensormend.recovery.init import corrected_init
from tensormend.recovery.loop import solve
from tensormend.recovery.problem import Problem
from tensormend.recovery.registry import make_solver
from tensormend.recovery.stopping import StoppingCriteria

__all__ = ["best_rank", "may_be_exact"]

# held-out errors relative to the standard deviation of the data for which exact low rank is tried:
# of any model, and of one at the weak end of the path
NEARLY_EXACT, MAY_BE_EXACT = 0.02, 0.1
RANK_GAIN = 0.99  # fraction of the mean square that a larger rank must get below
EXACT = 1e-7  # held-out error relative to the standard deviation below which the rank is final
RANK_ITERATIONS = 12


def may_be_exact(found: Found, search: Search) -> bool:
    """Return whether Tucker models may be better than shrinkage."""
    if search.is_late or found.trial.error == 0:
        return False
    std = float(np.std(search.entries.values))
    limit = MAY_BE_EXACT if found.trial.strength <= LAST else NEARLY_EXACT
    return found.trial.error <= limit * std


def best_rank(search: Search, center: tuple[int, ...] | None) -> Found:
    """Increase ranks from 1, in one mode or in all, as long as the held-out error decreases."""
    fold = search.folds[0]
    fitted, kept, held = prepare(search, fold, center)
    operator = observe(kept, search.threads, is_dense=False)
    where = observe(held, search.threads, is_dense=False)
    ones = (1,) * len(kept.shape)
    if not kept.values.any():
        zero = zero_model(kept)
        predicted = fitted.inverse_transform(held.indices, zero.entries(held.indices))
        squares = squared_errors(search, predicted, 1)
        trial = Trial("tucker", center, math.nan, ones, *summarize(search, squares, 1))
        return Found(trial, predicted, squares, (zero,))
    problem = Problem(operator, kept.values, ones)

    def fit(rank: tuple[int, ...], init: Tucker | None) -> Found:
        stop = StoppingCriteria(tol=1e-10, max_iter=RANK_ITERATIONS, time_limit=search.seconds_left)
        wide, note = problem.with_rank(rank), f"rank {rank}"
        part = search.journal.part(note)
        saved = part.outcome()
        if saved is None:
            callback = search.callback("rank", note)
            solver = make_solver("rgn", target=1e-10)
            result = solve(wide, solver, init, stop=stop, callback=callback)
            x = result.x
            if not search.is_late:
                part.finish(x.as_arrays(), result.n_iter)
        else:
            x = Tucker.from_arrays(saved[0])
            search.watch.skip(saved[1])
        predicted = fitted.inverse_transform(held.indices, where.forward(x))
        squares = squared_errors(search, predicted, 1)
        trial = Trial("tucker", center, math.nan, rank, *summarize(search, squares, 1))
        search.record(trial, "rank", note)
        return Found(trial, predicted, squares, (x,))

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
            rank = trials[0].trial.rank  # a new initial estimate may find more than the last fit
            trials.append(fit(rank, corrected_init(problem.with_rank(rank))))
            better = min(trials, key=lambda found: found.trial.error)
        if better is None or not _gains(better, best):
            break
        best = better
    for rank in _smaller(search.trials, best, kept.shape):
        if search.is_late:
            break
        found = fit(rank, thosvd(best.xs[0], rank))
        if found.trial.error <= max(best.trial.error + best.trial.standard_error, floor):
            return found
    return best


def _gains(found: Found, best: Found) -> bool:
    return found.trial.error**2 < RANK_GAIN * best.trial.error**2


def _smaller(
    trials: Sequence[Trial], best: Found, shape: tuple[int, ...]
) -> Iterator[tuple[int, ...]]:
    """Yield ranks with fewer parameters that may be as good, the smallest first.

    These are the tried ones within a standard error of the best, and the numerical rank of the
    best fit, with its error as tolerance.
    """
    error = best.trial.error + best.trial.standard_error
    ranks = {t.rank for t in trials if t.model == "tucker" and t.error <= error}
    x = best.xs[0]
    noise = max(best.trial.error / (x.norm() / math.sqrt(math.prod(shape)) or 1), 1e-6)
    ranks.add(tuple(max(1, r) for r in x.multilinear_rank(tol=noise)))
    size = degrees_of_freedom(shape, best.trial.rank)
    for rank in sorted(ranks, key=lambda rank: degrees_of_freedom(shape, rank)):
        if degrees_of_freedom(shape, rank) < size and rank == generous_rank(rank):
            yield rank


def _larger(rank: tuple[int, ...], shape: tuple[int, ...], size: int) -> Iterator[tuple[int, ...]]:
    """Yield the ranks to try next: about a quarter more in all modes, and in each mode alone."""
    steps = [max(1, r // 4) for r in rank]
    raised = [min(n, r + s) for n, r, s in zip(shape, rank, steps, strict=True)]
    options = [raised] + [
        [raised[j] if j == k else r for j, r in enumerate(rank)] for k in range(len(rank))
    ]
    yielded = {rank}
    for option in options:
        try:
            new = as_rank(option, shape)
        except InputError:  # more than the product of the other ranks
            continue
        if new not in yielded and 2 * math.prod(new) <= size:
            yielded.add(new)
            yield new


def _widen(problem: Problem, x: Tucker, rank: tuple[int, ...]) -> Tucker:
    """Return an initial estimate of larger rank, from a gradient step on the residual of a fit."""
    residual = problem.y - problem.operator.forward(x)
    ratio = problem.operator.n_measurements / math.prod(problem.shape)
    return thosvd(problem.operator.adjoint_tensor(residual, base=x, step=1 / ratio), rank)
