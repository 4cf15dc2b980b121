"""Saving a run, so that it goes on bit for bit."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.algebra import Array
from tensormend.contract import Solver
from tensormend.errors import CheckpointError, CheckpointWarning, InputError, warn_user
from tensormend.problem import Problem
from tensormend.result import Row, Trace
from tensormend.storage import load_arrays, save_arrays
from tensormend.tucker import Tucker

__all__ = [
    "Checkpoint",
    "RunSoFar",
    "load_run",
    "read_extra",
    "read_seconds",
    "save_run",
    "warn_unsaved",
]


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often to save a run, so that it can be resumed bit for bit.

    Attributes
    ----------
    path : the file
    every : iterations between saves, at least
    seconds : time between saves, at least
    extra : returns arrays to save beside the run, for what a callback gathers; `read_extra` gives
        them back
    """

    path: str | os.PathLike[str]
    every: int = 10
    seconds: float = 0.0
    extra: Callable[[], Mapping[str, Array]] | None = None

    def __post_init__(self) -> None:
        if self.every < 1:
            raise InputError(f"a checkpoint is saved every 1 iteration or more, got {self.every}")
        if not self.seconds >= 0:
            raise InputError(f"a checkpoint is saved every 0 seconds or more, got {self.seconds}")


@dataclass
class RunSoFar:
    """The loop's own variables; what a checkpoint holds beside the state."""

    state: Any
    rows: list[Row]
    best: Tucker
    best_row: int


def _signature(problem: Problem, solver: Solver[Any]) -> str:
    """Describe a run; the operator is told apart by the loss it gives, see `load_run`."""
    settings = repr(solver) if is_dataclass(solver) else type(solver).__qualname__
    digest = hashlib.sha256(problem.y.tobytes()).hexdigest()[:16]
    operator = f"{type(problem.operator).__qualname__} of shape {problem.shape}"
    return f"{settings}, rank {problem.rank}, {operator}, {problem.dtype} data {digest}"


def _write_run(
    checkpoint: Checkpoint, run: RunSoFar, problem: Problem, solver: Solver[Any]
) -> None:
    arrays = {
        "signature": np.array(_signature(problem, solver)),
        "best_row": np.array(run.best_row),
        **_prefixed("trace.", Trace(tuple(run.rows)).as_arrays()),
        **_prefixed("state.", solver.save(run.state)),
        **_prefixed("best.", run.best.as_arrays()),
        **_prefixed("extra.", {} if checkpoint.extra is None else checkpoint.extra()),
    }
    save_arrays(checkpoint.path, "checkpoint", arrays)


def save_run(checkpoint: Checkpoint, run: RunSoFar, problem: Problem, solver: Solver[Any]) -> None:
    """Save a run, or say that it could not be done: a full disk must not end what runs."""
    try:
        _write_run(checkpoint, run, problem, solver)
    except (OSError, InputError) as error:
        warn_unsaved(checkpoint.path, error)


def warn_unsaved(path: str | os.PathLike[str], error: Exception) -> None:
    """Say that a checkpoint could not be saved."""
    reason = getattr(error, "strerror", None) or error
    warn_user(
        f"the checkpoint {os.fspath(path)} could not be saved ({reason}); the run goes on, and "
        "what was saved before stays; make room for it",
        CheckpointWarning,
    )


def read_seconds(path: str | os.PathLike[str]) -> float:
    """Return how long the run of a checkpoint had taken when it was saved."""
    return float(_load_checkpoint(path)["trace.seconds"][-1])


def read_extra(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Return the arrays that a checkpoint holds beside the run."""
    return _unprefixed("extra.", _load_checkpoint(path))


def load_run(path: Any, problem: Problem, inside: Problem, solver: Solver[Any]) -> RunSoFar:
    """Return the run that a checkpoint holds, if it is one of this problem and solver."""
    arrays = _load_checkpoint(path)
    expected, found = _signature(problem, solver), str(arrays.get("signature"))
    if found != expected:
        raise CheckpointError(
            f"the checkpoint {path} belongs to another run; expected: {expected}; found: {found}; "
            "resume with the same data, rank, method and step (and rng, for a random hold-out)"
        )
    columns = _unprefixed("trace.", arrays)
    rows = [
        Row(**{name: float(values[k]) for name, values in columns.items()})
        for k in range(len(columns["loss"]))
    ]
    state = solver.load(inside, _unprefixed("state.", arrays))
    loss = float(state.loss) * problem.unit * problem.unit
    if loss != rows[-1].loss:
        raise CheckpointError(
            f"the checkpoint {path} has loss {rows[-1].loss}, but its iterate gives {loss} on this "
            "problem; the operator has changed"
        )
    best = Tucker.from_arrays(_unprefixed("best.", arrays))
    return RunSoFar(state, rows, best, int(arrays["best_row"]))


def _load_checkpoint(path: Any) -> dict[str, Array]:
    if not Path(path).exists():
        raise CheckpointError(f"the checkpoint {path} does not exist; start without resume")
    try:
        return load_arrays(path, "checkpoint")
    except InputError as error:
        raise CheckpointError(str(error)) from error


def _prefixed(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {prefix + name: array for name, array in arrays.items()}


def _unprefixed(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
