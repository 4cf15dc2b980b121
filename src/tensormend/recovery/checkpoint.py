"""Saving a run, so that it goes on: bit for bit on one machine, to rounding on another."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.core.algebra import Array
from tensormend.core.storage import load_arrays, save_arrays
from tensormend.core.tucker import Tucker
from tensormend.errors import CheckpointError, CheckpointWarning, InputError, warn_user
from tensormend.recovery.contract import Solver
from tensormend.recovery.problem import Problem
from tensormend.recovery.result import History, IterationRecord

__all__ = [
    "MOVED",
    "Checkpoint",
    "RunSoFar",
    "load_run",
    "read_extra",
    "read_n_iter",
    "read_seconds",
    "save_run",
    "warn_unsaved",
]

N_PARTS = 64  # of the measurements, whose signed sums tell data apart
GOLDEN = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio: the top bits of its multiples mix well

MOVED = (
    "the run was resumed from a checkpoint of another machine or of other libraries: the result is "
    "that of a run left alone to rounding, not bit for bit"
)
"""The note on a run whose numbers, computed again, agree with those of its checkpoint nearly."""


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often to save a run, so that it can be resumed.

    On the machine that saved it a run goes on bit for bit. Another processor or other libraries
    round otherwise: there it goes on to the same result to rounding, and says so in its notes.

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
    """The loop's own variables; what a checkpoint holds beside the state.

    ``is_moved`` tells that a part of the run was computed elsewhere, where rounding is another.
    """

    state: Any
    records: list[IterationRecord]
    best: Tucker
    best_index: int
    is_moved: bool = False


def _signature(problem: Problem, solver: Solver[Any]) -> str:
    """Describe a run; data and operator are told apart by numbers, see `load_run`."""
    settings = repr(solver) if is_dataclass(solver) else type(solver).__qualname__
    operator = f"{type(problem.operator).__qualname__} of shape {problem.shape}"
    data = f"{problem.y.size} {problem.dtype} measurements"
    return f"{settings}, rank {problem.rank}, {operator}, {data}"


def _signed_sums(problem: Problem) -> Array:
    """Return sums of parts of the measurements with fixed signs, in double precision.

    A measurement that changes, or changes places, counts with its full size.
    """
    parts = np.array_split(problem.y, N_PARTS)
    places = np.arange(len(parts[0]), dtype=np.uint64)
    signs = 1.0 - 2.0 * ((places * np.uint64(GOLDEN)) >> np.uint64(63))
    dtype = np.result_type(problem.y.dtype, np.float64)
    return np.array([np.sum(signs[: len(part)] * part, dtype=dtype) for part in parts])


def _rounding(problem: Problem) -> float:
    """Return what numbers that are computed elsewhere may differ by, of the measurements' norm.

    Half the digits. Rounding takes one or two, and some more where means far above the rest were
    taken out of the data; another problem leaves none.
    """
    return float(np.sqrt(np.finfo(problem.y.dtype).eps))


def _write_run(
    checkpoint: Checkpoint, run: RunSoFar, problem: Problem, solver: Solver[Any]
) -> None:
    arrays = {
        "signature": np.array(_signature(problem, solver)),
        "sums": _signed_sums(problem),
        "is_moved": np.array(run.is_moved),
        "best_index": np.array(run.best_index),
        **_prefixed("history.", History(tuple(run.records)).as_arrays()),
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
    return float(_load_checkpoint(path)["history.seconds"][-1])


def read_n_iter(path: str | os.PathLike[str]) -> int:
    """Return how many iterations the run of a checkpoint had made when it was saved."""
    return len(_load_checkpoint(path)["history.seconds"]) - 1


def read_extra(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Return the arrays that a checkpoint holds beside the run."""
    return _unprefixed("extra.", _load_checkpoint(path))


def load_run(path: Any, problem: Problem, inside: Problem, solver: Solver[Any]) -> RunSoFar:
    """Return the run that a checkpoint holds, if it is one of this problem and solver.

    Measurements that were computed (less their means, say) and the residual of the iterate, which
    is computed again, need to agree to rounding only: they may come from another machine.
    """
    arrays = _load_checkpoint(path)
    expected, found = _signature(problem, solver), str(arrays.get("signature"))
    if found != expected:
        raise CheckpointError(
            f"the checkpoint {path} belongs to another run; expected: {expected}; found: {found}; "
            "resume with the same data, rank, method and step (and rng, for a random hold-out)"
        )
    sums, allowed = _signed_sums(problem), _rounding(problem)
    if not np.abs(sums - arrays["sums"]).max() <= allowed * problem.y_norm:
        raise CheckpointError(
            f"the checkpoint {path} belongs to another run: the measurements differ; resume with "
            "the same data (and rng, for a random hold-out)"
        )
    columns = _unprefixed("history.", arrays)
    records = [
        IterationRecord(**{name: float(values[k]) for name, values in columns.items()})
        for k in range(len(columns["loss"]))
    ]
    state = solver.load(inside, _unprefixed("state.", arrays))
    residual = problem.unit * float(np.sqrt(2 * state.loss)) / problem.y_norm
    before = records[-1].residual
    if not abs(residual - before) <= allowed * (1 + before):
        raise CheckpointError(
            f"the checkpoint {path} has the relative residual {before:.6g}, but its iterate gives "
            f"{residual:.6g} on this problem; the operator has changed"
        )
    is_same = float(state.loss) * problem.unit * problem.unit == records[-1].loss
    is_moved = bool(arrays["is_moved"]) or not (is_same and np.array_equal(sums, arrays["sums"]))
    best = Tucker.from_arrays(_unprefixed("best.", arrays))
    return RunSoFar(state, records, best, int(arrays["best_index"]), is_moved)


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
