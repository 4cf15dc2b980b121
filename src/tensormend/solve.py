"""The one loop: it counts, times, stops, records, calls back, checkpoints."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from tensormend.algebra import Array, norm
from tensormend.errors import CheckpointError, InputError
from tensormend.operators import Operator
from tensormend.problem import Problem
from tensormend.result import Result, Row, Status, Trace
from tensormend.stopping import Stop
from tensormend.storage import check_folder, load_arrays, save_arrays
from tensormend.tucker import Tucker

__all__ = ["Callback", "Checkpoint", "Progress", "Solver", "State", "solve"]


class State(Protocol):
    """What a solver carries from one iteration to the next: a value, never changed in place.

    The iterate comes evaluated, so that its residual is computed once, and has orthonormal
    factors.
    """

    @property
    def x(self) -> Tucker:
        """The iterate."""

    @property
    def loss(self) -> float:
        """``||A(x) - y||^2 / 2`` of the iterate."""

    @property
    def step_size(self) -> float:
        """The step that led here; NaN for the start."""


S = TypeVar("S", bound=State)


class Solver(Protocol[S]):
    """A method: a frozen record of settings with a name and pure functions."""

    name: ClassVar[str]

    def init(self, problem: Problem, x0: Tucker | None) -> S:
        """Return the state at a start; ``None`` is the method's own spectral start."""
        ...

    def step(self, problem: Problem, state: S) -> S:
        """Return the state after one iteration; the argument is left as it is."""
        ...

    def save(self, state: S) -> dict[str, Array]:
        """Return the arrays that determine a state."""
        ...

    def load(self, problem: Problem, arrays: Mapping[str, Array]) -> S:
        """Return the state that `save` was given, bit for bit."""
        ...


@dataclass(frozen=True)
class Progress:
    """What a callback is shown: the iterate and its row of the trace."""

    n_iter: int
    x: Tucker
    row: Row


Callback = Callable[[Progress], bool | None]
"""Called after every iteration; a true return value ends the run."""


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often to save a run, so that it can be resumed bit for bit."""

    path: str | os.PathLike[str]
    every: int = 10

    def __post_init__(self) -> None:
        if self.every < 1:
            raise InputError(f"a checkpoint is saved every 1 iteration or more, got {self.every}")


@dataclass(frozen=True)
class _Monitor:
    """The diagnostics of an iterate, kept off the clock."""

    problem: Problem
    truth: Tucker | Array | None
    holdout: tuple[Operator, Array] | None
    want_change: bool

    def row(self, state: State, previous: Tucker | None, seconds: float) -> Row:
        loss = float(state.loss)
        residual = float(np.sqrt(2 * loss)) / self.problem.y_norm
        change = holdout_error = error = np.nan
        if np.isfinite(loss):
            if self.want_change and previous is not None:
                size = norm(state.x.core)  # the factors are orthonormal
                change = state.x.distance(previous) / size if size else np.inf
            if self.holdout is not None:
                operator, y = self.holdout
                holdout_error = norm(operator.forward(state.x) - y) / norm(y)
            if self.truth is not None:
                size = self.truth.norm() if isinstance(self.truth, Tucker) else norm(self.truth)
                error = state.x.distance(self.truth) / size
        return Row(seconds, loss, residual, state.step_size, change, holdout_error, error)


@dataclass
class _Run:
    """The loop's own variables; what a checkpoint holds beside the state."""

    state: Any
    rows: list[Row]
    best: Tucker
    best_loss: float


def solve(
    problem: Problem,
    solver: Solver[S],
    x0: Tucker | None = None,
    *,
    stop: Stop | None = None,
    truth: Tucker | Array | None = None,
    holdout: tuple[Operator, Array] | None = None,
    callback: Callback | None = None,
    checkpoint: Checkpoint | None = None,
    resume: str | os.PathLike[str] | None = None,
    spent: float = 0.0,
) -> Result:
    """Run a solver on a problem until a rule says stop.

    Parameters
    ----------
    problem, solver, x0 : what to solve, how, and from where (``None``: spectral start)
    stop : the rules; the defaults of `Stop` if not given
    truth : the true tensor, for the error column and ``tol_error``
    holdout : an operator and measurements that the solver does not see
    callback : called with a `Progress` after every iteration, ends the run by returning true
    checkpoint : save the run now and then, and at its end
    resume : path of a checkpoint to go on from
    spent : seconds already spent on preparing the problem
    """
    stop = Stop() if stop is None else stop
    if stop.tol_error is not None and truth is None:
        raise InputError("tol_error needs the true tensor; give truth= as well")
    if checkpoint is not None:
        check_folder(checkpoint.path)
    monitor = _Monitor(problem, truth, holdout, want_change=stop.change > 0)
    wall = time.perf_counter() - spent
    # The loop looks for non-finite numbers itself. BLAS threads beside those of the kernels make
    # small problems slower, so BLAS keeps to one until the run ends.
    quiet = np.errstate(over="ignore", invalid="ignore")
    with quiet, threadpool_limits(limits=1, user_api="blas"):
        if resume is None:
            clock = time.perf_counter()
            state = solver.init(problem, x0)
            row = monitor.row(state, None, spent + time.perf_counter() - clock)
            run = _Run(state, [row], state.x, row.loss)
        else:
            run = _load_run(resume, problem, solver)
            wall -= run.rows[-1].seconds
        ending = stop.check(run.rows, time.perf_counter() - wall)
        while ending is None:
            ending = _advance(run, problem, solver, monitor)
            if ending is None:
                if callback is not None and callback(
                    Progress(len(run.rows) - 1, run.state.x, run.rows[-1])
                ):
                    ending = Status.STOPPED, f"after {len(run.rows) - 1} iterations"
                ending = stop.check(run.rows, time.perf_counter() - wall) or ending
            if checkpoint is not None and _is_due(checkpoint, run, ending):
                _save_run(checkpoint.path, run, problem, solver)
    return _conclude(run, *ending, method=solver.name)


def _advance(
    run: _Run, problem: Problem, solver: Solver[Any], monitor: _Monitor
) -> tuple[Status, str] | None:
    clock = time.perf_counter()
    try:
        state = solver.step(problem, run.state)
    except np.linalg.LinAlgError as error:
        return Status.DIVERGED, f"{error} after {len(run.rows) - 1} iterations"
    seconds = run.rows[-1].seconds + time.perf_counter() - clock
    run.rows.append(monitor.row(state, run.state.x, seconds))
    run.state = state
    if state.loss <= run.best_loss:
        run.best, run.best_loss = state.x, state.loss
    return None


def _conclude(run: _Run, status: Status, detail: str, method: str) -> Result:
    keep_last = status not in (Status.DIVERGED, Status.STALLED)
    return Result(
        x=run.state.x if keep_last else run.best,
        status=status,
        message=f"{status.value} ({detail[0].upper()}{detail[1:]}.)",
        n_iter=len(run.rows) - 1,
        seconds=run.rows[-1].seconds,
        loss=float(run.state.loss if keep_last else run.best_loss),
        trace=Trace(tuple(run.rows)),
        method=method,
    )


# checkpoints


def _is_due(checkpoint: Checkpoint, run: _Run, ending: tuple[Status, str] | None) -> bool:
    if ending is not None and ending[0] is Status.DIVERGED:
        return False
    return ending is not None or (len(run.rows) - 1) % checkpoint.every == 0


def _signature(problem: Problem, solver: Solver[Any]) -> str:
    digest = hashlib.sha256(problem.y.tobytes()).hexdigest()
    return f"{solver!r} rank={problem.rank} {problem.operator!r} y={problem.dtype}:{digest}"


def _save_run(path: Any, run: _Run, problem: Problem, solver: Solver[Any]) -> None:
    arrays = {
        "signature": np.array(_signature(problem, solver)),
        "best_loss": np.array(run.best_loss),
        **_prefixed("trace.", Trace(tuple(run.rows)).as_arrays()),
        **_prefixed("state.", solver.save(run.state)),
        **_prefixed("best.", run.best.as_arrays()),
    }
    save_arrays(path, "checkpoint", arrays)


def _load_run(path: Any, problem: Problem, solver: Solver[Any]) -> _Run:
    if not Path(path).exists():
        raise CheckpointError(f"the checkpoint {path} does not exist; start without resume")
    arrays = load_arrays(path, "checkpoint")
    expected, found = _signature(problem, solver), str(arrays.get("signature"))
    if found != expected:
        raise CheckpointError(
            f"the checkpoint {path} belongs to another run; expected {expected}, found {found}; "
            "resume with the same data, rank, method and step"
        )
    columns = _unprefixed("trace.", arrays)
    state = solver.load(problem, _unprefixed("state.", arrays))
    rows = [
        Row(**{name: float(values[k]) for name, values in columns.items()})
        for k in range(len(columns["loss"]))
    ]
    if state.loss != rows[-1].loss:
        raise CheckpointError(
            f"the checkpoint {path} has loss {rows[-1].loss}, but its iterate gives {state.loss} "
            "on this problem; the operator has changed"
        )
    best = Tucker.from_arrays(_unprefixed("best.", arrays))
    return _Run(state, rows, best, float(arrays["best_loss"]))


def _prefixed(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {prefix + name: array for name, array in arrays.items()}


def _unprefixed(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
