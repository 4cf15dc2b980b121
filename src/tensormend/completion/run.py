"""What every completion has: data, settings, progress, checkpoint."""

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
    """What a completion is asked for, whichever model it fits.

    Attributes
    ----------
    observations : Observations
        The data.
    preprocessing : Preprocessing
        What is done to their values.
    rng : int, Generator or None
        Seed or generator as given; `open_journal` makes a generator of it.
    threads : int or None
        Threads of the kernels.
    time_limit : float or None
        Seconds for the whole run.
    memory_limit : float or None
        Bytes that it may take.
    watch : Watch
        Counts iterations and calls the callbacks.
    checkpoint : Checkpoint or None
        Folder to save the run in, and how often.
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
                f"time_limit must be a number, 0 or more, or None, got {self.time_limit!r}",
                parameter="time_limit",
            )

    @property
    def limit(self) -> float:
        """Seconds for the whole run, infinity without a limit."""
        return math.inf if self.time_limit is None else self.time_limit

    def open_journal(self, settings: Mapping[str, Any]) -> tuple[Journal, np.random.Generator]:
        """Open the folder of the run, which depends on these settings beside the data."""
        signature = {} if self.checkpoint is None else self._sign(settings)
        return Journal.open(self.checkpoint, signature, self.rng, resume=self.resume)

    def fit_callback(self, part: Part, note: str) -> Callback:
        """Return a callback for the last fit, which reports it and may end it.

        Who has ended the search gets the last fit all the same.
        """
        was_stopped = self.watch.is_stopped
        self.watch.skip(part.n_iter)

        def report(now: Iteration) -> bool:
            error = now.record.validation_error
            error_or_none = None if np.isnan(error) else error
            is_asked = self.watch.tell("fit", now.record, note, validation_error=error_or_none)
            return is_asked and not was_stopped

        return report

    def _sign(self, settings: Mapping[str, Any]) -> dict[str, str]:
        """Describe a run by what its result depends on, by name."""
        from importlib.metadata import version  # here, because it takes long to import

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
    """Describe a setting, arrays and records by what they hold."""
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
    """Sampling whose messages call modes and indices by the names they have in the data."""

    def __init__(self, observations: Observations, indices: Array, **settings: Any) -> None:
        super().__init__(observations.shape, indices, **settings)
        self._container = observations.container

    def describe(self, mode: int, indices: Sequence[int]) -> tuple[str, str]:
        """Name a mode and some of its indices, for a message."""
        return self._container.describe(mode, indices)
