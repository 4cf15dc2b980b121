"""Time the passes over the entries beside a plain threaded read of the same bytes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from tensormend.core.algebra import Array, squared_norm
from tensormend.core.tucker import Tucker
from tensormend.operators import Sampling
from tensormend.operators.single_mode import mode_products, mode_squared_norm
from tensormend.recovery.contract import Ordered
from tensormend.recovery.init import corrected_init
from tensormend.recovery.problem import Problem
from tensormend.recovery.registry import make_solver
from tensormend.recovery.solvers import SMQRGD
from tensormend.recovery.steps import ConstantStep, as_step
from tensormend.research.bench.cases import ACCURACY, Given

__all__ = ["read_seconds", "time_passes"]

MAX_STEPS = 100
ITERATIONS_BEFORE = 2  # one that is timed


def time_passes(
    given: Given, threads: int, repeats: int, solvers: Sequence[str]
) -> tuple[dict[str, list[float]], int]:
    """Return the seconds of the read, the gradient pass and whole iterations, taken in turns.

    A solver is the name of a method, or a name and a step such as ``"rgd, constant"``. Its
    iterations are those in the middle of a solve. For SM-QRGD the passes of an iteration are also
    timed by themselves. As in a solve, each is timed after other runs of the same, which are not.
    The read takes the values and the leaf-mode indices as the kernels find them; how many bytes
    these have is returned as well.
    """
    operator = Sampling(given.shape, given.indices, threads=threads)
    y = np.asarray(given.values)
    problem = Problem(operator, y, given.rank).arranged(operator.fibres.modes, threads)
    operator, y = _as_sampling(problem.operator), problem.y
    with threadpool_limits(limits=1, user_api="blas"):  # as in a solve
        init = corrected_init(problem)
        tasks: dict[str, Callable[[], float]] = {
            "read": lambda: read_seconds([y, operator.fibres.leaves], threads),
            "values at the entries": _repeated(lambda: operator.forward(init)),
            "gradient pass": _repeated(lambda: operator.gradient(init, y)),
        }
        for name in solvers:
            method, _, step = name.partition(", ")
            solver = make_solver(method, **({"step_rule": as_step(step)} if step else {}))
            tasks[f"{name} iteration"] = _iteration(solver, problem, init, threads)
            if isinstance(solver, SMQRGD):
                tasks[f"{name} passes"] = _single_mode_passes(solver, problem, init, threads)
        times: dict[str, list[float]] = {name: [] for name in tasks}
        for _ in range(repeats):
            for name, task in tasks.items():
                times[name].append(task())
    return times, y.nbytes + operator.fibres.leaves.nbytes


def read_seconds(arrays: Sequence[Array], threads: int) -> float:
    """Return the seconds of a plain read: every thread sums a part of the bytes."""

    def read(k: int) -> None:
        for split in parts:
            np.add.reduce(split[k])

    def run() -> None:
        workers = [threading.Thread(target=read, args=(k,)) for k in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    parts = [np.array_split(as_words(array), threads) for array in arrays]
    return _repeated(run)()


def as_words(array: Array) -> Array:
    """View an array as integers of eight bytes, without the odd bytes at its end."""
    raw = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
    return raw[: raw.size // 8 * 8].view(np.int64)


def _time(run: Callable[[], object]) -> float:
    clock = time.perf_counter()
    run()
    return time.perf_counter() - clock


def _repeated(run: Callable[[], object]) -> Callable[[], float]:
    """Return what times the second of two runs."""

    def time_second() -> float:
        run()
        return _time(run)

    return time_second


def _iteration(solver: Any, problem: Problem, init: Tucker, threads: int) -> Callable[[], float]:
    problem, state = _solve_half(solver, problem, init, threads)

    def run() -> float:
        current = state
        for _ in range(ITERATIONS_BEFORE):  # the memory of earlier iterates is used again
            current = solver.step(problem, current)
        return _time(lambda: solver.step(problem, current))

    return run


def _single_mode_passes(
    solver: SMQRGD, problem: Problem, init: Tucker, threads: int
) -> Callable[[], float]:
    """Time what an iteration does at the entries, and nothing else."""
    problem, state = _solve_half(solver, problem, init, threads)
    mode, tangent = solver.modes(problem)[0], state.tangent

    def run() -> None:
        mode_products(problem.operator, mode, tangent.left, state.base, tangent.rows, problem.y)
        if not isinstance(solver.step_rule, ConstantStep):
            mode_squared_norm(problem.operator, tangent)

    return _repeated(run)


def _solve_half(solver: Any, problem: Problem, init: Tucker, threads: int) -> tuple[Problem, Any]:
    """Arrange the entries as the solver wants them, and reach half of the digits of a solve.

    Of slow methods it takes `MAX_STEPS` iterations.
    """
    if isinstance(solver, Ordered):
        leaf, *others = solver.modes(problem)
        problem = problem.arranged((*sorted(others), leaf), threads)
    state = solver.init(problem, init)
    enough = ACCURACY * squared_norm(problem.y) / 2  # the loss at the root of the accuracy
    for _ in range(MAX_STEPS):
        state = solver.step(problem, state)
        if state.loss <= enough:
            break
    return problem, state


def _as_sampling(operator: Any) -> Sampling:
    if not isinstance(operator, Sampling):
        raise TypeError(f"a Sampling operator expected, got {type(operator).__name__}")
    return operator
