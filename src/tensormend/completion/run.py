"""Data, settings, progress and checkpoint of a completion, whichever model it fits."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from tensormend.completion.journal import Journal, Part
from tensormend.completion.preprocessing import Preprocessing
from tensormend.completion.selection import Watch
from tensormend.core.algebra import Array
from tensormend.data.observations import Observations
from tensormend.errors import InputError
from tensormend.operators import Sampling
from tensormend.recovery.checkpoint import Checkpoint
from tensormend.recovery.loop import Callback, Iteration

__all__ = ["ObservedSampling", "Run"]

PLAIN_TYPES = (str, int, float, bool, type(None))


@dataclass(frozen=True, eq=False)
class Run:
    """Arguments of a completion that do not depend on the model.

    Attributes
    ----------
    observations : Observations
        The observed entries, and the container they came in.
    preprocessing : Preprocessing
        Settings of the preprocessing.
    rng : int, numpy.random.Generator or None
        Seed or generator as given; `open_journal` returns the generator of the run.
    threads : int or None
        Number of threads of the compiled kernels; ``None`` is all cores.
    time_limit : float or None
        Limit of the run time in seconds; ``None`` is no limit.
    memory_limit : float or None
        Limit of the memory in bytes; ``None`` is the memory available.
    watch : Watch
        Counts iterations and calls the callbacks.
    checkpoint : Checkpoint or None
        Folder to save the run in, and intervals.
    resume : bool
        Whether to continue the run in that folder.
    """

    observations: Observations
    preprocessing: Preprocessing
    rng: int | np.random.Generator | None
    threads: int | None
    time_limit: float | None
    memory_limit: float | None
    watch: Watch
    checkpoint: Checkpoint | None
    resume: bool

    def __post_init__(self) -> None:
        is_number = isinstance(self.time_limit, int | float | np.number)
        if self.time_limit is not None and not (is_number and self.time_limit >= 0):
            raise InputError(
                f"time_limit must be a number, 0 or more, or None, got {self.time_limit!r}; "
                "give seconds, or leave it out",
                parameter="time_limit",
            )

    @property
    def limit(self) -> float:
        """The time limit in seconds, infinity if there is none."""
        return math.inf if self.time_limit is None else self.time_limit

    def open_journal(self, settings: Mapping[str, Any]) -> tuple[Journal, np.random.Generator]:
        """Open the folder of a run that depends on these settings and the data."""
        signature = {} if self.checkpoint is None else self._sign(settings)
        return Journal.open(self.checkpoint, signature, self.rng, resume=self.resume)

    def fit_callback(self, part: Part, note: str) -> Callback:
        """Return a callback of the final fit, which reports it and may end it.

        A callback that has ended the search does not end the final fit.
        """
        was_stopped = self.watch.is_stopped
        self.watch.skip(part.n_iter)

        def report(now: Iteration) -> bool:
            error = now.record.validation_error
            error_or_none = None if np.isnan(error) else error
            is_stopped = self.watch.report_iteration(
                "fit", now.record, note, validation_error=error_or_none
            )
            return is_stopped and not was_stopped

        return report

    def _sign(self, settings: Mapping[str, Any]) -> dict[str, str]:
        """Return what the result depends on, as text by name."""
        from importlib.metadata import version  # slow to import

        given = self.observations
        steps = {
            part.name: getattr(self.preprocessing, part.name) for part in fields(self.preprocessing)
        }
        return {
            "version": version("tensormend"),
            "shape": str(given.shape),
            "data": f"{given.values.dtype} {_digest(given.indices, given.values)}",
            **{name: _say(value) for name, value in {**steps, **settings}.items()},
        }


def _say(value: Any) -> str:
    """Return a setting as text that differs if its content does."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} array of shape {value.shape}, {_digest(value)}"
    if isinstance(value, np.generic):
        return repr(value.item())
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_say, value))})"
    name = type(value).__qualname__
    if is_dataclass(value) and not isinstance(value, type):
        parts = (f"{part.name} {_say(getattr(value, part.name))}" for part in fields(value))
        return f"{name}({', '.join(parts)})"
    if isinstance(value, type | np.dtype):
        return str(np.dtype(value))
    return repr(value) if isinstance(value, PLAIN_TYPES) else name


def _digest(*arrays: Array) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


class ObservedSampling(Sampling):
    """Sampling whose messages name modes and indices as the data do."""

    def __init__(self, observations: Observations, indices: Array, **settings: Any) -> None:
        super().__init__(observations.shape, indices, **settings)
        self._container = observations.container

    def describe(self, mode: int, indices: Sequence[int]) -> tuple[str, str]:
        """Return the name of a mode and the labels of some indices, for a message."""
        return self._container.describe(mode, indices)
