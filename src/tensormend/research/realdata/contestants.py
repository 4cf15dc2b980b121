"""Who takes part, and how each chooses its parameters."""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tensormend as tm
from tensormend.core.algebra import Array, cap_rank
from tensormend.errors import InputError
from tensormend.research.realdata.datasets import Dataset
from tensormend.research.realdata.losses import Loss, hold_out, score
from tensormend.research.realdata.masked_tucker import masked_tucker
from tensormend.research.realdata.nuclear import Completed, halrtc, lrtc_tnn
from tensormend.research.realdata.simple import fibre_mean, linear_interpolation

__all__ = ["CONTESTANTS", "OURS", "Answer", "Task"]

OURS = "tensormend"
THRESHOLDS = (0.3, 1.0, 3.0)
THETAS = (0.05, 0.1, 0.15, 0.2, 0.3)
RANKS = (2, 5, 10, 20)
FRACTIONS = (0.1, 0.2, 0.4)


@dataclass(frozen=True, eq=False)
class Task:
    """What a contestant gets: a tensor with missing entries; the lost ones are for scores only."""

    dataset: Dataset
    loss: Loss
    data: Array
    scored: Array
    seed: int

    def hold_out(self) -> tuple[Array, Array]:
        """Return the data less a tenth, lost in the same pattern, and the mask of that tenth."""
        mode = self.dataset.fibre_mode
        return hold_out(self.data, self.loss.pattern, mode, np.random.default_rng(self.seed + 1))

    def look(self, filled: Array) -> float:
        """Return the RMSE on the lost entries; only TensorLy is allowed to choose by it."""
        return score(self.dataset, filled, self.scored).rmse


@dataclass(frozen=True, eq=False)
class Answer:
    """A completed tensor, the parameters chosen, the seconds of one fit, and how it went."""

    filled: Array
    parameters: Mapping[str, Any] = field(default_factory=dict)
    fit_seconds: float | None = None
    n_iter: int | None = None
    converged: bool | None = None


def run_ours(task: Task) -> Answer:
    """Complete with nothing but the data."""
    result = tm.complete(task.data, rng=0)
    parameters = {"model": str(result.best_trial), "expected": result.trust.rmse}
    return Answer(
        result.fitted_values(), parameters, n_iter=result.n_iter, converged=result.success
    )


def run_function(path: str) -> Callable[[Task], Answer]:
    """Return a contestant that calls ``module:function``, from data with NaN to the filled data."""
    module, _, name = path.partition(":")
    if not name:
        raise InputError(f"a path module:function expected, got {path!r}; add the function")
    function = getattr(importlib.import_module(module), name)
    return lambda task: Answer(np.asarray(function(task.data)), {"function": path})


def run_halrtc(task: Task) -> Answer:
    """Run HaLRTC with the threshold that does best on the hold-out."""
    error = _on_hold_out(task, halrtc)
    threshold = sweep(lambda value: error(threshold=value), THRESHOLDS)
    return _fit(task, halrtc, threshold=threshold)


def run_lrtc_tnn(task: Task) -> Answer:
    """Run LRTC-TNN with the fraction, and then the threshold, that do best on the hold-out."""
    error = _on_hold_out(task, lrtc_tnn)
    middle = THRESHOLDS[1]
    errors: dict[float, float] = {}
    theta = sweep(
        lambda value: error(theta=value, threshold=middle),
        THETAS,
        below=(0.02, 0.01),
        above=(0.4, 0.5, 0.6),
        errors=errors,
    )
    computed = {middle: errors[theta]}
    threshold = sweep(
        lambda value: computed.get(value) or error(theta=theta, threshold=value), THRESHOLDS
    )
    return _fit(task, lrtc_tnn, theta=theta, threshold=threshold)


def _on_hold_out(task: Task, method: Callable[..., Completed]) -> Callable[..., float]:
    data, held = task.hold_out()

    def error(**settings: float) -> float:
        return math.sqrt(np.mean((method(data, **settings).x[held] - task.data[held]) ** 2))

    return error


def _fit(task: Task, method: Callable[..., Completed], **settings: float) -> Answer:
    begin = time.perf_counter()
    answer = method(task.data, **settings)
    seconds = time.perf_counter() - begin
    return Answer(answer.x, settings, seconds, answer.n_iter, answer.converged)


def run_masked_tucker(task: Task) -> Answer:
    """Run TensorLy at each rank of a grid, and keep the one closest to what was lost."""
    filled_in = fibre_mean(task.data)
    shape = task.data.shape
    best: dict[tuple[int, ...], tuple[float, Answer]] = {}

    def error(wanted: Sequence[int]) -> float:
        rank = cap_rank(wanted, shape)
        if rank in best:
            return best[rank][0]
        begin = time.perf_counter()
        for filled in masked_tucker(task.data, filled_in, rank):
            found = task.look(filled)
            if rank not in best or found < best[rank][0]:
                seconds = time.perf_counter() - begin
                best[rank] = (found, Answer(filled, {"rank": rank}, seconds))
        return best[rank][0]

    for r in RANKS:
        error((r,) * len(shape))
    sweep(lambda f: error(tuple(math.ceil(f * n) for n in shape)), FRACTIONS, above=(0.6, 0.8))
    return min(best.values(), key=lambda found: found[0])[1]


def sweep(
    evaluate: Callable[[float], float],
    values: Sequence[float],
    *,
    below: Sequence[float] = (),
    above: Sequence[float] = (),
    errors: dict[float, float] | None = None,
) -> float:
    """Return the value with the least error, continuing beyond an end as long as that pays.

    Examples
    --------
    >>> sweep(lambda x: abs(x - 4), (1, 2), above=(3, 4, 5, 6))
    4
    """
    errors = {} if errors is None else errors
    errors.update((value, evaluate(value)) for value in values)
    for end, further in ((values[0], below), (values[-1], above)):
        for value in further:
            if min(errors, key=errors.__getitem__) != end:
                break
            errors[value] = evaluate(value)
            end = value
    return min(errors, key=errors.__getitem__)


CONTESTANTS: dict[str, Callable[[Task], Answer]] = {
    "fibre mean": lambda task: Answer(fibre_mean(task.data)),
    "linear": lambda task: Answer(linear_interpolation(task.data)),
    "TensorLy": run_masked_tucker,
    "HaLRTC": run_halrtc,
    "LRTC-TNN": run_lrtc_tnn,
    OURS: run_ours,
}
"""Contestants by name, the reference first."""
