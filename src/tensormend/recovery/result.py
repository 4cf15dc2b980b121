"""What a run returns: a status, a history with one record per iteration, the tensor."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import overload

import numpy as np

from tensormend.core.algebra import Array
from tensormend.core.tucker import Tucker

__all__ = ["MESSAGES", "History", "IterationRecord", "Result", "Status"]


class Status(Enum):
    """How a run ended; `MESSAGES` has a sentence for each."""

    CONVERGED = "converged"
    FINISHED = "finished"
    ITERATION_LIMIT = "iteration_limit"
    TIME_LIMIT = "time_limit"
    STALLED = "stalled"
    DIVERGED = "diverged"
    STOPPED = "stopped"


MESSAGES = {
    Status.CONVERGED: "A tolerance was reached.",
    Status.FINISHED: "The method came to the end of its path.",
    Status.ITERATION_LIMIT: (
        "The iteration limit was reached before a tolerance; allow more iterations, or resume."
    ),
    Status.TIME_LIMIT: (
        "The time limit was reached before a tolerance; allow more time, or resume."
    ),
    Status.STALLED: (
        "The loss stopped falling before a tolerance was reached; expected with noisy or only "
        "nearly low-rank data, else try more rank or another initial point."
    ),
    Status.DIVERGED: (
        "The iteration left the finite or useful range; the best iterate so far is returned. "
        "Try the normalized step, a smaller constant step, or a lower rank."
    ),
    Status.STOPPED: "The callback asked to stop.",
}
"""What to tell people about each status."""


@dataclass(frozen=True)
class IterationRecord:
    """One iterate in numbers.

    Attributes
    ----------
    seconds : float
        Solver time since the beginning, diagnostics excluded.
    loss : float
        ``||A(x) - y||^2 / 2``.
    residual : float
        ``||A(x) - y|| / ||y||``.
    step_size : float
        The step that led here; NaN for the initial point.
    change : float
        ``||x - previous|| / ||x||``; NaN for the initial point and, unless ``xtol`` was given,
        while the residual still falls by a tenth or more.
    validation_error : float
        Relative residual on validation data; NaN without any.
    error : float
        ``||x - truth|| / ||truth||``; NaN without a truth.
    exploring : bool
        Whether the iteration was one of a search elsewhere (``"auto"`` looks for a new initial
        point in a space of larger ranks): ``x`` is then the best point so far, and only limits
        of iterations and time end the run.
    """

    seconds: float
    loss: float
    residual: float
    step_size: float = np.nan
    change: float = np.nan
    validation_error: float = np.nan
    error: float = np.nan
    exploring: bool = False


@dataclass(frozen=True)
class History:
    """The records of a run, the initial point first.

    Every field of `IterationRecord` is an array of that name.

    Parameters
    ----------
    records : tuple of IterationRecord, default=()
        Records of the iterations, the initial tensor first.
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
        """Return all columns by name, ready for a data frame or a file.

        Returns
        -------
        dict of str to ndarray
            One array per column.
        """
        return {column.name: getattr(self, column.name) for column in fields(IterationRecord)}


@dataclass(frozen=True)
class Result:
    """The outcome of a run.

    Attributes
    ----------
    x : Tucker
        The recovered tensor, with ``core`` and ``factors``: the last iterate of a run that
        converged, finished or was stopped by its callback, else the one of least loss.
    status : Status
        How the run ended.
    message : str
        What happened, in a sentence.
    n_iter : int
        Number of iterations.
    seconds : float
        Solver time, initialization included.
    loss : float
        ``||A(x) - y||^2 / 2`` of ``x``.
    history : History
        One record per iteration, and one for the initial point.
    method : str
        Name of the solver.
    notes : tuple of str
        Remarks on the run: what ``"auto"`` chose and why; that a run was resumed on another
        machine.
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
        """Whether a stopping criterion was met: residual, relative change, or end of the path.

        It does not say that missing entries are accurate.
        """
        return self.status in (Status.CONVERGED, Status.FINISHED)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.method}, {self.status.name}: {self.n_iter} iterations, "
            f"{self.seconds:.3g} s, {self.x})"
        )
