"""The timer of one run: the true error is computed while the clock is stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensormend.core.algebra import Array
from tensormend.core.tucker import Tucker
from tensormend.research.bench.cases import Given

__all__ = ["Contestant", "TimedRun"]

MAX_POINTS = 60  # of a curve in a record


class TimedRun:
    """One run of a contestant on a problem.

    A contestant calls `start` when it is ready to be timed and `check` with its iterates, and ends
    when that returns true.

    Parameters
    ----------
    given : Given
        The problem.
    accuracy : float
        True relative error to reach.
    budget : float
        Seconds that the run may take.
    memory : dict, optional
        Kept between the runs of a worker on one problem, for what is computed off the clock.
    """

    def __init__(
        self, given: Given, accuracy: float, budget: float, memory: dict[str, Any] | None = None
    ) -> None:
        self.given, self.accuracy, self.budget = given, accuracy, budget
        self.memory: dict[str, Any] = {} if memory is None else memory
        self.curve: list[tuple[float, float]] = []
        self.n_iter = 0
        self._spent = 0.0
        self._since: float | None = None

    def start(self) -> None:
        """Start the clock, or continue it."""
        self._since = time.perf_counter()

    def pause(self) -> float:
        """Stop the clock and return the seconds so far."""
        if self._since is not None:
            self._spent += time.perf_counter() - self._since
            self._since = None
        return self._spent

    def check(self, make: Callable[..., Tucker | Array], *parts: Any) -> bool:
        """Record the true error of ``make(*parts)`` off the clock; tell whether the run may end."""
        seconds = self.pause()
        self.curve.append((seconds, self.measure_error(make(*parts))))
        is_over = self.has_reached or seconds >= self.budget or not np.isfinite(self.error)
        if not is_over:
            self.start()
        return is_over

    def measure_error(self, x: Tucker | Array) -> float:
        """Return the true relative error."""
        if isinstance(x, Tucker):
            return x.distance(self.given.truth) / self.given.truth.norm()
        full = self.given.full
        return float(np.linalg.norm(x - full) / np.linalg.norm(full))

    @property
    def error(self) -> float:
        """The last true error."""
        return self.curve[-1][1] if self.curve else np.nan

    @property
    def has_reached(self) -> bool:
        """Whether the last iterate is as accurate as asked."""
        return bool(self.error <= self.accuracy)

    def as_record(self) -> dict[str, Any]:
        """Return the record of the run; a run that missed the accuracy has no time."""
        seconds = self.curve[-1][0] if self.curve else np.nan
        record: dict[str, Any] = {
            "outcome": "reached" if self.has_reached else "missed",
            "error": self.error,
            "n_iter": self.n_iter,
            "curve": thin(self.curve) if self.curve else [],
        }
        if self.has_reached:
            record["seconds"] = seconds
        else:
            record["message"] = f"reached {self.error:.1e} in {seconds:.3g} s"
        return record


@dataclass(frozen=True)
class Contestant:
    """Something that recovers a tensor.

    Attributes
    ----------
    name : str
        What tables and records call it.
    family : str
        ``"ours"``, ``"dense"`` (the paper's methods in NumPy), ``"peer"``, or ``"custom"`` for a
        solver of the user.
    run : callable
        Recovers the tensor of a `TimedRun`.
    about : str, default=''
        Settings in a sentence, for the tables.
    modules : tuple of tuple of (str, str), default=()
        What must be installed to run it, with the names of the packages.
    """

    name: str
    family: str
    run: Callable[[TimedRun], None]
    about: str = ""
    modules: tuple[tuple[str, str], ...] = ()


def thin(curve: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Keep at most `MAX_POINTS` points, the first and last among them, to four digits."""
    kept = np.unique(np.linspace(0, len(curve) - 1, MAX_POINTS).round().astype(int))
    return [(float(f"{curve[k][0]:.4g}"), float(f"{curve[k][1]:.4g}")) for k in kept]
