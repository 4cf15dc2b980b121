"""The loop of all solvers: counting, timing, stopping, recording, callbacks, checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.core.algebra import Array, norm
from tensormend.core.storage import check_folder
from tensormend.core.tucker import Tucker
from tensormend.errors import InputError
from tensormend.operators import Operator
from tensormend.recovery.checkpoint import MOVED, Checkpoint, RunFile, RunSoFar
from tensormend.recovery.contract import Solver, State
from tensormend.recovery.limits import computing, outside
from tensormend.recovery.problem import Problem
from tensormend.recovery.result import MESSAGES, History, IterationRecord, Result, Status
from tensormend.recovery.stopping import StoppingCriteria

__all__ = ["Callback", "Init", "InternalCallback", "Iteration", "solve"]

FALLING = 0.9  # while the residual falls by a larger factor, the change is not computed


@dataclass(frozen=True)
class Iteration:
    """Argument of a callback: the iterate and its record in the history.

    Attributes
    ----------
    n_iter : int
        Number of iterations done, 1 after the first.
    x : Tucker
        The iterate, in the units of the data.
    record : IterationRecord
        Time, loss, residual and so on of the iterate.

    Examples
    --------
    >>> import tensormend as tm
    >>> operator = tm.MatrixOperator.gaussian((6, 5, 4), 60, rng=0)
    >>> y = operator.forward(tm.simulate.random_tucker((6, 5, 4), rank=1, rng=1))
    >>> def stop_early(iteration):
    ...     return iteration.record.residual < 0.1
    >>> tm.recover(operator, y, rank=1, callback=stop_early).status.name
    'STOPPED'
    """

    n_iter: int
    x: Tucker
    record: IterationRecord


Init = Callable[[Problem], Tucker]
"""Function that makes an initial estimate for a problem."""

Callback = Callable[[Iteration], bool | None]
"""Function called after every iteration; returning true ends the run."""


@dataclass(frozen=True)
class InternalCallback:
    """A callback of this package, called with the BLAS threads and errstate of the solver."""

    function: Callback

    def __call__(self, now: Iteration) -> bool | None:
        """Call the function."""
        return self.function(now)


@dataclass(frozen=True)
class _Monitor:
    """Diagnostics of an iterate in the units of the data; their time is not counted."""

    problem: Problem
    truth: Tucker | Array | None
    validation_data: tuple[Operator, Array] | None
    stop: StoppingCriteria

    def in_data_units(self, x: Tucker) -> Tucker:
        return x if self.problem.unit == 1 else x * self.problem.unit

    @cached_property
    def truth_size(self) -> float:
        if self.truth is None:
            return np.nan
        return self.truth.norm() if isinstance(self.truth, Tucker) else norm(self.truth)

    def wants_change(self, residual: float, last_residual: float) -> bool:
        """Tell whether to compute the change: if xtol is given, or the residual falls slowly."""
        if self.stop.xtol is not None:
            return self.stop.xtol > 0
        return self.stop.effective_xtol > 0 and residual > FALLING * last_residual

    def record(
        self, state: State, previous: Tucker | None, last: IterationRecord | None, seconds: float
    ) -> IterationRecord:
        unit = self.problem.unit
        is_exploring = bool(getattr(state, "is_exploring", False))
        residual = unit * float(np.sqrt(2 * state.loss)) / self.problem.y_norm
        change = validation_error = error = np.nan
        if np.isfinite(residual):
            if (
                last is not None
                and not is_exploring
                and previous is not None
                and self.wants_change(residual, last.residual)
            ):
                size = norm(state.x.core)  # the factors are orthonormal
                change = state.x.distance(previous) / size if size else np.inf
            x = self.in_data_units(state.x)
            if self.validation_data is not None:
                operator, y = self.validation_data
                validation_error = norm(operator.forward(x) - y) / norm(y)
            if self.truth is not None:
                error = x.distance(self.truth) / self.truth_size
        loss = float(state.loss) * unit * unit
        return IterationRecord(
            seconds, loss, residual, state.step_size, change, validation_error, error, is_exploring
        )


def solve(
    problem: Problem,
    solver: Solver[Any],
    x0: Tucker | Init | None = None,
    *,
    stop: StoppingCriteria | None = None,
    truth: Tucker | Array | None = None,
    validation_data: tuple[Operator, Array] | None = None,
    callback: Callback | None = None,
    checkpoint: Checkpoint | None = None,
    resume: bool = False,
    spent: float = 0.0,
) -> Result:
    """Run a solver on a problem until a stopping criterion is met.

    `recover` checks its arguments, arranges the measurements for the method and calls this.

    Parameters
    ----------
    problem : Problem
        Operator, measurements and rank.
    solver : Solver
        The method with its settings, such as ``tensormend.solvers.RCG()``.
    x0 : Tucker or callable, optional
        Initial estimate, or a function that makes one from a problem, such as those in
        ``tensormend.init``; by default that of the solver.
    stop : StoppingCriteria, optional
        Tolerances and limits; by default ``StoppingCriteria()``.
    truth : Tucker or ndarray, optional
        The true tensor, where it is known: its distance is recorded in the history.
    validation_data : tuple of Operator and ndarray, optional
        An operator and its measurements, not used by the fit: their relative residual is recorded
        in the history.
    callback : callable, optional
        Called with an `Iteration` after every iteration. Returning true ends the run.
    checkpoint : Checkpoint, optional
        File and intervals to save the run, which is also done at its end.
    resume : bool, default=False
        Continue from the file of `checkpoint`, if it exists.
    spent : float, default=0.0
        Seconds already spent on preparing the problem, counted in the time of the run.

    Returns
    -------
    Result
        The recovered tensor, the status of the run and its history.

    Raises
    ------
    InputError
        If ``truth_tol`` is given without `truth`, or `resume` without `checkpoint`.
    CheckpointError
        If the checkpoint to resume cannot be read or belongs to another run.

    Warns
    -----
    CheckpointWarning
        If a checkpoint cannot be saved; the run continues.

    Notes
    -----
    The solver minimizes ``||A(x) - y||^2 / 2`` over the tensors of the rank of the problem. After
    every iteration the loop records it, calls the callback and tests the stopping criteria.

    Where measurements are very large or very small, the solver works on ``y`` divided by a power of
    two, so that powers of the data neither overflow nor underflow. Results are in the units of the
    data.

    While the solver computes, BLAS uses one thread in the whole process and NumPy does not warn of
    overflow; the callback runs with the settings of the caller.

    Examples
    --------
    >>> import tensormend as tm
    >>> operator = tm.MatrixOperator.gaussian((6, 5, 4), 60, rng=0)
    >>> truth = tm.simulate.random_tucker((6, 5, 4), rank=1, rng=1)
    >>> problem = tm.Problem(operator, operator.forward(truth), (1, 1, 1))
    >>> stop = tm.StoppingCriteria(tol=1e-9)
    >>> result = tm.solve(problem, tm.solvers.RCG(), stop=stop, truth=truth)
    >>> result.status.name, bool(result.history.error[-1] < 1e-7)
    ('CONVERGED', True)
    """
    stop = StoppingCriteria() if stop is None else stop
    if stop.truth_tol is not None and truth is None:
        raise InputError("truth_tol needs the true tensor; give truth= as well")
    if checkpoint is not None:
        check_folder(checkpoint.path)
        if Path(checkpoint.path).is_dir():
            raise InputError(
                f"checkpoint must be a file to save the run to, but {checkpoint.path} is a folder"
            )
    elif resume:
        raise InputError("resume needs a checkpoint to continue from; give checkpoint= as well")
    if callback is not None and not isinstance(callback, InternalCallback):
        callback = outside(callback)
    monitor = _Monitor(problem, truth, validation_data, stop)
    scaled = problem.in_units()
    file = None if checkpoint is None else RunFile(checkpoint, problem, solver)
    wall = time.perf_counter() - spent
    with computing():
        if file is None or not (resume and file.exists()):
            run, ending = _begin(problem, scaled, solver, x0, monitor, spent)
        else:
            run, ending = file.load(scaled), None
            wall -= run.records[-1].seconds
        ending = ending or stop.check(run.records, time.perf_counter() - wall) or _finished(run)
        while ending is None:
            ending = _advance(run, scaled, solver, monitor)
            if ending is None:
                asked = _call(callback, run, monitor)
                ending = stop.check(run.records, time.perf_counter() - wall) or asked
                ending = ending or _finished(run)
            if file is not None and ending is None:
                file.save_now_and_then(run)
        if file is not None and ending[0] is not Status.DIVERGED:
            file.save(run)
    return _conclude(run, monitor, *ending, method=solver.name)


def _call(callback: Callback | None, run: RunSoFar, monitor: _Monitor) -> tuple[Status, str] | None:
    n_iter = len(run.records) - 1
    if callback is None or not callback(
        Iteration(n_iter, monitor.in_data_units(run.state.x), run.records[-1])
    ):
        return None
    return Status.STOPPED, f"in iteration {n_iter}"


def _begin(
    problem: Problem,
    scaled: Problem,
    solver: Solver[Any],
    x0: Tucker | Init | None,
    monitor: _Monitor,
    spent: float,
) -> tuple[RunSoFar, tuple[Status, str] | None]:
    """Return the first state, or, where that fails, the zero tensor and the reason."""
    clock = time.perf_counter()
    try:
        if isinstance(x0, Tucker):
            x0 = x0 * (1 / problem.unit)
        elif x0 is not None:
            x0 = x0(scaled)
        state = solver.init(scaled, x0)
        record = monitor.record(state, None, None, spent + time.perf_counter() - clock)
        if np.isfinite(record.residual):
            return RunSoFar(state, [record], state.x, 0), None
        trouble = f"the relative residual is {record.residual}"
    except np.linalg.LinAlgError as error:
        trouble = str(error)
    record = IterationRecord(time.perf_counter() - clock + spent, 0.5 * problem.y_norm**2, 1.0)
    return RunSoFar(None, [record], _zero(problem), 0), (
        Status.DIVERGED,
        f"{trouble} at the initial estimate",
    )


def _zero(problem: Problem) -> Tucker:
    sizes = zip(problem.shape, problem.rank, strict=True)
    factors = tuple(np.eye(n, r, dtype=problem.dtype) for n, r in sizes)
    return Tucker(np.zeros(problem.rank, dtype=problem.dtype), factors)


def _advance(
    run: RunSoFar, problem: Problem, solver: Solver[Any], monitor: _Monitor
) -> tuple[Status, str] | None:
    clock = time.perf_counter()
    try:
        state = solver.step(problem, run.state)
    except np.linalg.LinAlgError as error:
        return Status.DIVERGED, f"{error} in iteration {len(run.records)}"
    seconds = run.records[-1].seconds + time.perf_counter() - clock
    run.records.append(monitor.record(state, run.state.x, run.records[-1], seconds))
    run.state = state
    if run.records[-1].residual <= run.records[run.best_index].residual:
        run.best, run.best_index = state.x, len(run.records) - 1
    return None


def _finished(run: RunSoFar) -> tuple[Status, str] | None:
    if not getattr(run.state, "is_finished", False):
        return None
    return Status.FINISHED, f"after {len(run.records) - 1} iterations"


def _conclude(run: RunSoFar, monitor: _Monitor, status: Status, detail: str, method: str) -> Result:
    keep_last = status in (Status.CONVERGED, Status.FINISHED, Status.STOPPED)
    record = run.records[-1 if keep_last else run.best_index]
    return Result(
        x=monitor.in_data_units(run.state.x if keep_last else run.best),
        status=status,
        message=f"{MESSAGES[status]} ({detail[0].upper()}{detail[1:]}.)",
        n_iter=len(run.records) - 1,
        seconds=run.records[-1].seconds,
        loss=record.loss,
        history=History(tuple(run.records)),
        method=method,
        notes=(*getattr(run.state, "notes", ()), *([MOVED] if run.is_moved else [])),
    )
