"""What a run returns: a status, a trace with one row per iteration, the tensor."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import overload

import numpy as np

from tensormend.core.algebra import Array
from tensormend.core.tucker import Tucker

__all__ = ["Result", "Row", "Status", "Trace"]


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
class Row:
    """One iterate in numbers.

    Attributes
    ----------
    seconds : solver time since the start, diagnostics excluded
    loss : ``||A(x) - y||^2 / 2``
    residual : ``||A(x) - y|| / ||y||``
    step_size : the step that led here; NaN for the start
    change : ``||x - previous|| / ||x||``; NaN for the start and, unless ``xtol`` was given,
        while the residual still falls by a tenth or more
    holdout_error : relative residual on held-out measurements; NaN without any
    error : ``||x - truth|| / ||truth||``; NaN without a truth
    """

    seconds: float
    loss: float
    residual: float
    step_size: float = np.nan
    change: float = np.nan
    holdout_error: float = np.nan
    error: float = np.nan


@dataclass(frozen=True)
class Trace:
    """The rows of a run, the start first; every column of `Row` is an array of that name."""

    rows: tuple[Row, ...] = field(default_factory=tuple)

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, iteration: int) -> Row: ...

    @overload
    def __getitem__(self, iteration: slice) -> Trace: ...

    def __getitem__(self, iteration: int | slice) -> Row | Trace:
        rows = self.rows[iteration]
        return Trace(rows) if isinstance(rows, tuple) else rows

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *Row.__dataclass_fields__]

    def __getattr__(self, name: str) -> Array:
        if name in Row.__dataclass_fields__:
            return np.array([getattr(row, name) for row in self.rows])
        raise AttributeError(name)

    def as_arrays(self) -> dict[str, Array]:
        """Return all columns by name, ready for a data frame or a file."""
        return {column.name: getattr(self, column.name) for column in fields(Row)}


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
    trace : one row per iteration and one for the start
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
    trace: Trace
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
