"""Saving a run, so that it can be continued: bit for bit on one machine, to rounding on another."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.core.algebra import Array, check_count, check_number
from tensormend.core.storage import load_arrays, save_arrays
from tensormend.core.tucker import Tucker
from tensormend.errors import CheckpointError, CheckpointWarning, InputError, warn_user
from tensormend.recovery.arrays import add_prefix, take_prefix
from tensormend.recovery.contract import Solver
from tensormend.recovery.problem import Problem
from tensormend.recovery.result import History, IterationRecord

__all__ = [
    "MOVED",
    "Checkpoint",
    "RunFile",
    "RunSoFar",
    "read_extra",
    "read_n_iter",
    "read_seconds",
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

    On the machine that saved it a run continues bit for bit. Another processor or other libraries
    round otherwise: there it continues to the same result to rounding, and says so in its notes.

    Attributes
    ----------
    path : str or PathLike
        File (`recover`, `solve`) or folder (`complete`) to save to.
    every : int, default=10
        Iterations between saves, at least.
    seconds : float, default=0.0
        Time between saves, at least.
    extra : callable, optional
        Returns arrays to save beside the run, for what a callback gathers; `read_extra` gives them
        back.

    Raises
    ------
    InputError
        If an interval is negative, or 0 iterations.
    """

    path: str | os.PathLike[str]
    every: int = 10
    seconds: float = 0.0
    extra: Callable[[], Mapping[str, Array]] | None = None

    def __post_init__(self) -> None:
        check_count("every", self.every, 1)
        check_number("seconds", self.seconds, "a number, 0 or more", lambda number: number >= 0)


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
    """Describe a run; data and operator are told apart by numbers, see `RunFile`."""
    settings = repr(solver) if is_dataclass(solver) else type(solver).__qualname__
    operator = f"{type(problem.operator).__qualname__} of shape {problem.shape}"
    data = f"{problem.y.size} {problem.dtype} measurements"
    return f"{settings}, rank {problem.rank}, {operator}, {data}"


def _signed_sums(problem: Problem) -> Array:
    """Return sums of parts of the measurements with fixed signs, in double precision.

    A measurement that changes, or changes its position, counts with its full size.
    """
    parts = np.array_split(problem.y, N_PARTS)
    positions = np.arange(len(parts[0]), dtype=np.uint64)
    signs = 1.0 - 2.0 * ((positions * np.uint64(GOLDEN)) >> np.uint64(63))
    dtype = np.result_type(problem.y.dtype, np.float64)
    return np.array([np.sum(signs[: len(part)] * part, dtype=dtype) for part in parts])


def _rounding(problem: Problem) -> float:
    """Return what numbers that are computed elsewhere may differ by, of the measurements' norm.

    Half the digits. Rounding takes one or two, and some more where means far above the rest were
    taken out of the data; another problem leaves none.
    """
    return float(np.sqrt(np.finfo(problem.y.dtype).eps))


def warn_unsaved(path: str | os.PathLike[str], error: Exception) -> None:
    """Say that a checkpoint could not be saved."""
    reason = getattr(error, "strerror", None) or error
    warn_user(
        f"the checkpoint {os.fspath(path)} could not be saved ({reason}); the run "
        "continues, and the last checkpoint is kept; free some disk space",
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
    return take_prefix("extra.", _load_checkpoint(path))


class RunFile:
    """The checkpoint of a run: saves it, and loads what belongs to this problem and solver.

    Parameters
    ----------
    checkpoint : Checkpoint
        Where and how often to save.
    problem, solver : Problem, Solver
        What is run; they are summarized once, not at every save.
    """

    def __init__(self, checkpoint: Checkpoint, problem: Problem, solver: Solver[Any]) -> None:
        self.checkpoint, self.problem, self.solver = checkpoint, problem, solver
        self._saved = time.perf_counter()

    @cached_property
    def _signature(self) -> str:
        return _signature(self.problem, self.solver)

    @cached_property
    def _sums(self) -> Array:
        return _signed_sums(self.problem)

    def exists(self) -> bool:
        """Tell whether there is a file."""
        return Path(self.checkpoint.path).exists()

    def save_now_and_then(self, run: RunSoFar) -> None:
        """Save a run if enough iterations and seconds have passed."""
        now = time.perf_counter()
        is_due = (len(run.records) - 1) % self.checkpoint.every == 0
        if is_due and now - self._saved >= self.checkpoint.seconds:
            self.save(run)
            self._saved = now

    def save(self, run: RunSoFar) -> None:
        """Save a run; a failure is a warning, for a full disk must not end what runs."""
        extra = self.checkpoint.extra
        arrays = {
            "signature": np.array(self._signature),
            "sums": self._sums,
            "is_moved": np.array(run.is_moved),
            "best_index": np.array(run.best_index),
            **add_prefix("history.", History(tuple(run.records)).as_arrays()),
            **add_prefix("state.", self.solver.save(run.state)),
            **add_prefix("best.", run.best.as_arrays()),
            **add_prefix("extra.", {} if extra is None else extra()),
        }
        try:
            save_arrays(self.checkpoint.path, "checkpoint", arrays)
        except (OSError, InputError) as error:
            warn_unsaved(self.checkpoint.path, error)

    def load(self, inside: Problem) -> RunSoFar:
        """Return the run that a checkpoint holds, if it is one of this problem and solver.

        Measurements that were computed (less their means, say) and the residual of the iterate,
        which is computed again, need to agree to rounding only: they may come from another
        machine.
        """
        path, problem = self.checkpoint.path, self.problem
        arrays = _load_checkpoint(path)
        expected, found = self._signature, str(arrays.get("signature"))
        if found != expected:
            raise CheckpointError(
                f"the checkpoint {path} belongs to another run; expected: {expected}; found: "
                f"{found}; resume with the same data, rank, method and step (and rng, for a random "
                "validation set)"
            )
        sums, allowed = self._sums, _rounding(problem)
        if not np.abs(sums - arrays["sums"]).max() <= allowed * problem.y_norm:
            raise CheckpointError(
                f"the checkpoint {path} belongs to another run: the measurements differ; resume "
                "with the same data (and rng, for a random validation set)"
            )
        columns = take_prefix("history.", arrays)
        records = [
            IterationRecord(**{name: values[k].item() for name, values in columns.items()})
            for k in range(len(columns["loss"]))
        ]
        state = self.solver.load(inside, take_prefix("state.", arrays))
        residual = problem.unit * float(np.sqrt(2 * state.loss)) / problem.y_norm
        before = records[-1].residual
        if not abs(residual - before) <= allowed * (1 + before):
            raise CheckpointError(
                f"the checkpoint {path} has the relative residual {before:.6g}, but its iterate "
                f"gives {residual:.6g} on this problem; the operator has changed"
            )
        is_same = float(state.loss) * problem.unit * problem.unit == records[-1].loss
        is_moved = bool(arrays["is_moved"]) or not (
            is_same and np.array_equal(sums, arrays["sums"])
        )
        best = Tucker.from_arrays(take_prefix("best.", arrays))
        return RunSoFar(state, records, best, int(arrays["best_index"]), is_moved)


def _load_checkpoint(path: Any) -> dict[str, Array]:
    if not Path(path).exists():
        raise CheckpointError(
            f"the checkpoint {path} does not exist; leave resume out, or give the path of one"
        )
    try:
        return load_arrays(path, "checkpoint")
    except InputError as error:
        raise CheckpointError(str(error)) from error
