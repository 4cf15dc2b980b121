"""The contestants: our methods, dense versions of the paper's, and other packages."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Any

import numpy as np

from tensormend.completion.entry import complete
from tensormend.errors import InputError
from tensormend.operators import Sampling
from tensormend.recovery.entry import recover
from tensormend.recovery.registry import METHODS
from tensormend.research.bench.peers import PEERS
from tensormend.research.bench.timed_run import Contestant, TimedRun
from tensormend.research.custom import is_custom, make_method
from tensormend.research.experiments import fast_dense

__all__ = ["DENSE_NAMES", "find_contestant"]

MAX_ITER = 3000
LOOSEST = 0.25  # of the accuracy: a method that overshot in that run need not do so again
TIGHTER = 0.5  # factor on the tolerance where a run ended just short of the accuracy
MAX_TRIES = 8
AUTO = "auto"

DENSE = ("rgd", "smqrgd", "sempiht")
DENSE_NAMES = tuple(
    f"fast dense {method}{suffix}" for suffix in ("", ", constant") for method in DENSE
)
"""The dense contestants; records of earlier, slower ones have other names."""


def run_ours(timed: TimedRun, *, method: str, **options: Any) -> None:
    """Time one call of `complete`, as a user would make it, from indices and values to the answer.

    The tolerance on the residual that makes the true error small enough is found beforehand, in a
    run of `recover` that is given the truth and takes the same iterations; it also gives the errors
    of the curve. A user would ask for about the accuracy, so a quarter of it is asked for where the
    residual of that run is smaller.
    """
    given, memory = timed.given, timed.memory
    solver = make_method(method) if is_custom(method) else method
    settings: dict[str, Any] = {"max_iter": MAX_ITER, "time_limit": timed.budget, **options}
    if "errors" not in memory:
        with_truth = recover(
            Sampling(given.shape, given.indices),
            given.values,
            given.rank,
            method=solver,
            truth=given.truth,
            tol=timed.accuracy * 1e-3,
            truth_tol=timed.accuracy,
            **{"init": "corrected", **settings},
        )
        errors = [float(error) for error in with_truth.history.error]
        memory.update(errors=errors, seconds=list(with_truth.history.seconds))
        memory["tol"] = max(with_truth.history[-1].residual, LOOSEST * timed.accuracy) * (1 + 1e-9)
    if not memory["errors"][-1] <= timed.accuracy:
        timed.curve = list(zip(memory["seconds"], memory["errors"], strict=True))
        timed.n_iter = len(timed.curve) - 1
        return
    for _ in range(MAX_TRIES):
        fresh = TimedRun(given, timed.accuracy, timed.budget)
        fresh.start()
        result = complete(
            given.values,
            given.rank,
            indices=given.indices,
            shape=given.shape,
            method=solver,
            tol=memory["tol"],
            **settings,
        )
        total = fresh.pause()
        error = timed.measure_error(result.fit.x)
        if error <= timed.accuracy:
            break
        memory["tol"] *= TIGHTER
    timed.n_iter = result.n_iter
    setup = total - result.fit.history[-1].seconds  # checks and the sort of the entries come before
    points = zip(result.fit.history.seconds + setup, memory["errors"], strict=False)
    timed.curve = [*list(points)[: result.n_iter], (total, error)]


def run_dense(timed: TimedRun, *, method: str, step: str) -> None:
    """Iterate a dense method until it is accurate; its arrays are filled off the clock."""
    given = timed.given
    data, mask = given.filled, given.mask
    timed.start()
    iterates = getattr(fast_dense, method)(data, mask, given.rank, step=step)
    for timed.n_iter in range(MAX_ITER):
        x = next(iterates).x
        if timed.check(np.asarray, x):
            return


def run_crash(timed: TimedRun) -> None:
    """Raise an error, to test how the benchmark records it."""
    del timed
    raise ArithmeticError("this contestant always crashes")


def run_exit(timed: TimedRun) -> None:
    """End the process."""
    del timed
    os._exit(3)


def run_endless(timed: TimedRun) -> None:
    """Never answer."""
    del timed
    while True:
        time.sleep(1)


def run_poor(timed: TimedRun) -> None:
    """Return zero, to test how the benchmark records a result that misses the accuracy."""
    timed.start()
    timed.check(np.zeros, timed.given.shape)


def _make_contestants() -> dict[str, Contestant]:
    out: dict[str, Contestant] = {}

    def add(contestant: Contestant) -> None:
        out[contestant.name] = contestant

    for method in dict.fromkeys((AUTO, *METHODS)):
        add(Contestant(method, "ours", partial(run_ours, method=method), "default settings"))
    add(
        Contestant(
            "auto, 1 thread", "ours", partial(run_ours, method=AUTO, threads=1), "one thread"
        )
    )
    add(
        Contestant(
            "sm-qrgd, constant",
            "ours",
            partial(run_ours, method="sm-qrgd", step="constant", init="spectral"),
            "constant step and spectral initialization, as in the paper",
        )
    )
    for method in DENSE:
        for step in ("normalized", "constant"):
            suffix = "" if step == "normalized" else ", constant"
            about = f"dense NumPy, written for speed, {step} step, spectral initialization"
            run = partial(run_dense, method=method, step=step)
            add(Contestant(f"fast dense {method}{suffix}", "dense", run, about))
    for peer in PEERS:
        add(peer)
    return out


CONTESTANTS = _make_contestants()
# for the tests of the benchmark itself
FAILING = {
    name: Contestant(name, "failing", run)
    for name, run in (
        ("crash", run_crash),
        ("exit", run_exit),
        ("endless", run_endless),
        ("poor", run_poor),
    )
}


def find_contestant(name: str) -> Contestant:
    """Return a contestant by its name, or the solver of a user by ``module:Class``."""
    if is_custom(name):
        return Contestant(name, "custom", partial(run_ours, method=name), f"--solver {name}")
    contestants = CONTESTANTS | FAILING
    if name not in contestants:
        raise InputError(f"a contestant is one of {'; '.join(CONTESTANTS)}, got {name!r}")
    return contestants[name]
