"""Criteria that end a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensormend.core.algebra import check_count, check_number
from tensormend.recovery.result import IterationRecord, Status

__all__ = ["StoppingCriteria"]

DIVERGED_RESIDUAL = 1e3  # relative residual beyond which a run has diverged


@dataclass(frozen=True)
class StoppingCriteria:
    """Tolerances and limits that end a run.

    Parameters
    ----------
    tol : float, default=1e-6
        Relative residual ``||A(x) - y|| / ||y||`` at which the run has converged; 0 to disable.
    xtol : float, optional
        Relative change ``||x - previous|| / ||x||`` at which the run has converged; 0 to disable,
        ``tol / 100`` by default.
    truth_tol : float, optional
        Relative error ``||x - truth|| / ||truth||`` at which the run has converged (``err`` in the
        paper); needs the true tensor.
    min_delta : float, default=1e-6
        The run has stalled if the best loss fell by less than this fraction within `patience`
        iterations.
    patience : int, default=50
        Number of iterations for `min_delta`.
    max_iter : int, default=500
        Maximum number of iterations.
    time_limit : float, optional
        Maximum wall-clock time in seconds; no limit by default.

    Raises
    ------
    InputError
        If a tolerance or limit is negative or not a number, or `patience` is below 1.

    Notes
    -----
    After every iteration the criteria are tested in this order; the first that holds ends the run:

    1. ``DIVERGED``: the relative residual is not finite, or above ``1000 max(1, r_0)`` with ``r_0``
       that of the initial estimate.
    2. ``CONVERGED``: the relative residual is at most ``tol``.
    3. ``CONVERGED``: the relative error is at most ``truth_tol``.
    4. ``CONVERGED``: the relative change is at most ``xtol min(1, step_size)``, since short steps
       change little anywhere, and the residual is the smallest so far up to a factor of
       ``1 + 1e-6``.
    5. ``STALLED``: the smallest loss of the last ``patience`` iterations is more than
       ``1 - min_delta`` times the smallest before.
    6. ``ITERATION_LIMIT``, then ``TIME_LIMIT``.

    Iterations that explore (see `IterationRecord`) are only tested for divergence and limits, and
    are not counted in ``patience``.

    Examples
    --------
    >>> stop = StoppingCriteria(tol=0.1)
    >>> stop.check([IterationRecord(0.0, 8.0, 1.0), IterationRecord(0.1, 0.02, 0.05)], 0.1)
    (<Status.CONVERGED: 'converged'>, 'relative residual 0.05 is at most 0.1 after 1 iteration')
    """

    tol: float = 1e-6
    xtol: float | None = None
    truth_tol: float | None = None
    min_delta: float = 1e-6
    patience: int = 50
    max_iter: int = 500
    time_limit: float | None = None

    def __post_init__(self) -> None:
        for name in ("tol", "xtol", "truth_tol", "min_delta", "time_limit"):
            check_number(
                name,
                getattr(self, name),
                "a number, 0 or more",
                lambda number: number >= 0,
                optional=name not in ("tol", "min_delta"),
            )
        check_count("max_iter", self.max_iter, 0)
        check_count("patience", self.patience, 1)

    @property
    def effective_xtol(self) -> float:
        """Tolerance on the relative change: `xtol`, or its default ``tol / 100``."""
        return self.tol / 100 if self.xtol is None else self.xtol

    def check(
        self, records: Sequence[IterationRecord], wall_seconds: float
    ) -> tuple[Status, str] | None:
        """Test the criteria after an iteration.

        Parameters
        ----------
        records : sequence of IterationRecord
            Records of the run so far, that of the initial estimate first.
        wall_seconds : float
            Wall-clock time of the run in seconds.

        Returns
        -------
        tuple of (Status, str) or None
            Status of the run and the reason in words, or ``None`` to continue.
        """
        record, n_iter = records[-1], len(records) - 1
        after = _after(n_iter)
        if not np.isfinite(record.residual):
            return Status.DIVERGED, f"the relative residual became {record.residual} {after}"
        if record.residual > DIVERGED_RESIDUAL * max(1.0, records[0].residual):
            return Status.DIVERGED, f"the relative residual grew to {record.residual:.2g} {after}"
        if record.exploring:
            return self._check_limits(record, n_iter, wall_seconds)
        plain = [other for other in records if not other.exploring]
        if record.residual <= self.tol:
            reached = f"relative residual {record.residual:.2g} is at most {self.tol:.2g}"
            return Status.CONVERGED, f"{reached} {after}"
        if self.truth_tol is not None and record.error <= self.truth_tol:
            reached = f"relative error {record.error:.2g} is at most {self.truth_tol:.2g}"
            return Status.CONVERGED, f"{reached} {after}"
        # short steps change little anywhere, so the tolerance is reduced with the step size
        allowed = self.effective_xtol * min(1.0, record.step_size)
        is_best = record.residual <= (1 + 1e-6) * min(other.residual for other in plain)
        if record.change <= allowed and allowed > 0 and is_best:
            reached = f"relative change {record.change:.2g} is at most {allowed:.2g}"
            return Status.CONVERGED, f"{reached} {after}"
        if self._is_stalled(plain):
            return Status.STALLED, f"the loss stayed at {record.loss:.4g} {after}"
        return self._check_limits(record, n_iter, wall_seconds)

    def _check_limits(
        self, record: IterationRecord, n_iter: int, wall_seconds: float
    ) -> tuple[Status, str] | None:
        reached = f"relative residual {record.residual:.2g} {_after(n_iter)}"
        if n_iter >= self.max_iter:
            return Status.ITERATION_LIMIT, reached
        if self.time_limit is not None and wall_seconds >= self.time_limit:
            return Status.TIME_LIMIT, reached
        return None

    def _is_stalled(self, records: Sequence[IterationRecord]) -> bool:
        if len(records) <= self.patience:
            return False
        recent = min(record.residual for record in records[-self.patience :])
        before = min(record.residual for record in records[: -self.patience])
        return recent**2 > (1 - self.min_delta) * before**2


def _after(n_iter: int) -> str:
    return f"after {n_iter} iteration{'s' if n_iter != 1 else ''}"
