"""The result of a run: the tensor, a status, and a history with one record per iteration."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import overload

import numpy as np

from tensormend.core.algebra import Array
from tensormend.core.tucker import Tucker

__all__ = ["MESSAGES", "History", "IterationRecord", "Result", "Status"]


class Status(Enum):
    """How a run ended.

    Attributes
    ----------
    CONVERGED : Status
        A tolerance was reached: residual, relative change, or error.
    FINISHED : Status
        The method came to the end of its path (``"shrink"``).
    ITERATION_LIMIT : Status
        ``max_iter`` iterations were made before a tolerance was reached.
    TIME_LIMIT : Status
        The time limit was exceeded before a tolerance was reached.
    STALLED : Status
        The loss stopped falling before a tolerance was reached.
    DIVERGED : Status
        The residual is not finite or very large, or a matrix decomposition failed.
    STOPPED : Status
        The callback ended the run.
    """

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
        "The iteration limit was reached before a tolerance; allow more iterations."
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
"""First sentence of the message of a result, by status."""


@dataclass(frozen=True)
class IterationRecord:
    """Numbers of an iterate.

    Attributes
    ----------
    seconds : float
        Time of the solver so far, initialization included, diagnostics excluded.
    loss : float
        ``||A(x) - y||^2 / 2``.
    residual : float
        ``||A(x) - y|| / ||y||``.
    step_size : float
        Step size of the iteration; NaN for the initial estimate.
    change : float
        ``||x - previous|| / ||x||``; NaN for the initial estimate and, unless ``xtol`` was given,
        while an iteration reduces the residual by a tenth or more.
    validation_error : float
        Relative residual on validation data; NaN without any.
    error : float
        ``||x - truth|| / ||truth||``; NaN without a truth.
    exploring : bool
        Whether the iteration belongs to a search for another initial estimate, which ``"auto"``
        makes with larger ranks. ``x`` is then the best iterate so far, and no tolerance is applied.
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
    """Records of a run, one per iteration, that of the initial estimate first.

    ``history[k]`` is the record of iteration ``k``, a slice is a `History`, and
    ``len(history) == n_iter + 1``. Every field of `IterationRecord` is also an attribute: an array
    with one value per record.

    Parameters
    ----------
    records : tuple of IterationRecord, default=()
        The records.

    Examples
    --------
    >>> history = History((IterationRecord(0.0, 8.0, 1.0), IterationRecord(0.1, 2.0, 0.5)))
    >>> history.residual
    array([1. , 0.5])
    >>> history[-1].loss
    2.0
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
        """Return all columns by name, for instance for ``pandas.DataFrame``.

        Returns
        -------
        dict of str to ndarray
            One array per field of `IterationRecord`.
        """
        return {column.name: getattr(self, column.name) for column in fields(IterationRecord)}


@dataclass(frozen=True)
class Result:
    """Result of `recover` and `solve`.

    Attributes
    ----------
    x : Tucker
        The recovered tensor, with ``core`` and ``factors``.
    status : Status
        How the run ended, see Notes.
    message : str
        Description of the end of the run, and what to do where it did not converge.
    n_iter : int
        Number of iterations.
    seconds : float
        Time of the solver, initialization included, diagnostics and callback excluded.
    loss : float
        ``||A(x) - y||^2 / 2``.
    history : History
        One record per iteration, and one for the initial estimate.
    method : str
        Name of the solver.
    notes : tuple of str, default=()
        Remarks on the run: what ``"auto"`` chose and why, and whether the run was resumed on
        another machine.

    Notes
    -----
    =================== =========== ========================================= ==============
    status              ``success`` condition                                 ``x``
    =================== =========== ========================================= ==============
    ``CONVERGED``       true        a tolerance was reached                   last iterate
    ``FINISHED``        true        the method came to the end of its path    last iterate
    ``STOPPED``         false       the callback ended the run                last iterate
    ``ITERATION_LIMIT`` false       ``max_iter`` iterations were made         least loss
    ``TIME_LIMIT``      false       the time limit was exceeded               least loss
    ``STALLED``         false       the loss stopped falling                  least loss
    ``DIVERGED``        false       the residual is not finite, or very large least loss
    =================== =========== ========================================= ==============

    ``success`` does not mean that missing entries are accurate. `StoppingCriteria` defines the
    conditions.

    Examples
    --------
    >>> import tensormend as tm
    >>> operator = tm.MatrixOperator.gaussian((6, 5, 4), 60, rng=0)
    >>> y = operator.forward(tm.simulate.random_tucker((6, 5, 4), rank=1, rng=1))
    >>> result = tm.recover(operator, y, rank=1, method="rgd", max_iter=3)
    >>> result.success, result.status.name, result.n_iter, len(result.history)
    (False, 'ITERATION_LIMIT', 3, 4)
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
        """Whether the run converged or came to the end of its regularization path.

        It does not mean that missing entries are accurate.
        """
        return self.status in (Status.CONVERGED, Status.FINISHED)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.method}, {self.status.name}: {self.n_iter} iterations, "
            f"{self.seconds:.3g} s, {self.x})"
        )
