"""What a run returns: a status, a history with one record per iteration, the tensor."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import overload

import numpy as np

from tensormend.core.algebra import Array
from tensormend.core.tucker import Tucker

__all__ = ["History", "IterationRecord", "Result", "Status"]


class Status(Enum):
    """How a run ended; the value is a sentence for people."""

    CONVERGED = "A tolerance was reached."
    FINISHED = "The method came to the end of its path."
    ITERATION_LIMIT = (
        "The iteration limit was reached before a tolerance; allow more iterations, or resume."
    )
    TIME_LIMIT = "The time limit was reached before a tolerance; allow more time, or resume."
    STALLED = (
        "The loss stopped falling before a tolerance was reached; expected with noisy or only "
        "nearly low-rank data, else try more rank or another start."
    )
    DIVERGED = (
        "The iteration left the finite or useful range; the best iterate so far is returned. "
        "Try the normalized step, a smaller constant step, or a lower rank."
    )
    STOPPED = "The callback asked to stop."


@dataclass(frozen=True)
class IterationRecord:
    """One iterate in numbers.

    Attributes
    ----------
    seconds : solver time since the start, diagnostics excluded
    loss : ``||A(x) - y||^2 / 2``
    residual : ``||A(x) - y|| / ||y||``
    step_size : the step that led here; NaN for the start
    change : ``||x - previous|| / ||x||``; NaN for the start and, unless ``xtol`` was given,
        while the residual still falls by a tenth or more
    validation_error : relative residual on held-out measurements; NaN without any
    error : ``||x - truth|| / ||truth||``; NaN without a truth
    """

    seconds: float
    loss: float
    residual: float
    step_size: float = np.nan
    change: float = np.nan
    validation_error: float = np.nan
    error: float = np.nan


@dataclass(frozen=True)
class History:
    """The records of a run, the initial point first.

    Every field of `IterationRecord` is an array of that name.
    """

    records: tuple[IterationRecord, ...] = field(default_factory=tuple)

    def __len__(self) -> int:
        return len(self.records)

    @overload
    def __getitem__(self, iteration: int) -> IterationRecord: ...

    @overload
    def __getitem__(self, iteration: slice) -> History: ...

    def __getitem__(self, iteration: int | slice) -> IterationRecord | History:
        records = self.records[iteration]
        return History(records) if isinstance(records, tuple) else records

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *IterationRecord.__dataclass_fields__]

    def __getattr__(self, name: str) -> Array:
        if name in IterationRecord.__dataclass_fields__:
            return np.array([getattr(record, name) for record in self.records])
        raise AttributeError(name)

    def as_arrays(self) -> dict[str, Array]:
        """Return all columns by name, ready for a data frame or a file."""
        return {column.name: getattr(self, column.name) for column in fields(IterationRecord)}


@dataclass(frozen=True)
class Result:
    """The outcome of a run.

    Attributes
    ----------
    x : the recovered tensor, a `Tucker` with ``core`` and ``factors``: the last iterate of a run
        that converged, finished or was stopped by its callback, else the one of least loss
    status : how the run ended
    message : what happened, in a sentence
    n_iter : number of iterations
    seconds : solver time, initialization included
    loss : ``||A(x) - y||^2 / 2`` of ``x``
    history : one record per iteration and one for the start
    method : name of the solver
    notes : what there is to say about the run: ``"auto"`` tells what it chose and why; a run that
        was resumed elsewhere, that it was
    """

    x: Tucker
    status: Status
    message: str
    n_iter: int
    seconds: float
    loss: float
    history: History
    method: str
    notes: tuple[str, ...] = ()

    @property
    def success(self) -> bool:
        """Whether a tolerance or the end of the method's path was reached."""
        return self.status in (Status.CONVERGED, Status.FINISHED)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.method}, {self.status.name}: {self.n_iter} iterations, "
            f"{self.seconds:.3g} s, {self.x})"
        )
