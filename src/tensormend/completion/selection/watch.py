"""What was tried, how far things are, and who looks on and may end them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from tensormend.recovery.result import IterationRecord

__all__ = ["Moment", "Trial", "Watch"]

NEARLY_DONE = 0.99  # the most that is said to be done before the end


@dataclass(frozen=True)
class Trial:
    """One model that was tried.

    Attributes
    ----------
    method : ``"shrink"``, or ``"rank"`` for one of fixed rank
    center : modes whose slices have effects; ``()`` for the grand mean alone, ``None`` for nothing
    strength : of the shrinkage; NaN for a fixed rank
    rank : number of directions per mode
    error : held-out RMSE in the units of the data
    standard_error : of ``error``, fibres held out as a whole counting once
    balance : factors on the strength, one per mode; ``None`` where all are 1
    """

    method: Literal["shrink", "rank"]
    center: tuple[int, ...] | None
    strength: float
    rank: tuple[int, ...]
    error: float
    standard_error: float
    balance: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Moment:
    """What ``progress`` of `complete` is shown, after every iteration and every trial.

    Attributes
    ----------
    stage : ``"search"`` along the strengths, ``"balance"`` between modes, ``"rank"`` for ranks,
        ``"fit"`` for the last fit or one of given rank
    n_iter : iterations so far, of all fits
    residual : relative residual on the entries that are fitted
    validation_error : error on held-out entries relative to their size; NaN where none was measured
    share : rough share of the work that is done; NaN where it cannot be told
    seconds : time since the start
    note : what is being fitted
    trial : the model that was just judged; ``None`` after an iteration
    """

    stage: str
    n_iter: int
    residual: float
    validation_error: float
    share: float
    seconds: float
    note: str
    trial: Trial | None = None


@dataclass
class Watch:
    """Tells a callback how far things are; a true answer ends them."""

    progress: Callable[[Moment], bool | None] | None = None
    n_iter: int = 0
    expected: float = math.nan
    started: float = field(default_factory=time.perf_counter)
    is_stopped: bool = False
    last: Moment | None = None

    def expect(self, n_iterations: float) -> None:
        """Say how many more iterations there may be."""
        self.expected = self.n_iter + n_iterations

    def tell(
        self,
        stage: str,
        record: IterationRecord,
        note: str,
        *,
        validation_error: float | None = None,
    ) -> bool:
        """Count an iteration and show it; return whether to stop.

        Without a held-out error of its own, an iteration shows the last one of its stage.
        """
        self.n_iter += 1
        if validation_error is None:
            is_same = self.last is not None and self.last.stage == stage
            validation_error = self.last.validation_error if self.last and is_same else math.nan
        share = min(self.n_iter / self.expected, NEARLY_DONE) if self.expected else math.nan
        seconds = time.perf_counter() - self.started
        self.last = Moment(
            stage, self.n_iter, record.residual, validation_error, share, seconds, note
        )
        return self._show(self.last)

    def judge(self, trial: Trial, stage: str, note: str) -> None:
        """Show a model that was judged."""
        residual = self.last.residual if self.last else math.nan
        error = self.last.validation_error if self.last else math.nan
        share = self.last.share if self.last else math.nan
        seconds = time.perf_counter() - self.started
        self._show(Moment(stage, self.n_iter, residual, error, share, seconds, note, trial))

    def _show(self, moment: Moment) -> bool:
        if self.progress is not None and self.progress(moment):
            self.is_stopped = True
        return self.is_stopped
