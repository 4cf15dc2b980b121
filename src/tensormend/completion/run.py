"""What every completion has: the data, what is done to them, who looks on, what is remembered."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from tensormend.completion.journal import Part
from tensormend.completion.preprocessing import Preprocessing
from tensormend.completion.selection import Watch
from tensormend.core.algebra import Array
from tensormend.data.observations import Observations
from tensormend.operators import Sampling
from tensormend.recovery.loop import Callback, Iteration

__all__ = ["KnownSampling", "Run", "sign"]

PLAIN_TYPES = (str, int, float, bool, type(None))


@dataclass(frozen=True, eq=False)
class Run:
    """A completion that is under way, down to its last fit.

    Attributes
    ----------
    known : the data
    preprocessing : what is done to their values
    rng : generator of what is random
    watch : is told of every iteration
    part : of the journal, for the last fit
    threads : of the kernels
    """

    known: Observations
    preprocessing: Preprocessing
    rng: np.random.Generator
    watch: Watch
    part: Part
    threads: int | None

    def looks_on(self, note: str, callback: Callback | None = None) -> Callback:
        """Return a callback for the last fit, which tells of it and may end it.

        Who has ended the search gets the last fit all the same.
        """
        was_stopped = self.watch.is_stopped

        def look(now: Iteration) -> bool:
            error = None if np.isnan(now.record.validation_error) else now.record.validation_error
            is_asked = self.watch.tell("fit", now.record, note, validation_error=error)
            is_over = bool(callback is not None and callback(now))
            return is_over or (is_asked and not was_stopped)

        return look


def sign(
    known: Observations, preprocessing: Preprocessing, settings: Mapping[str, Any]
) -> dict[str, str]:
    """Describe a run by what its result depends on, by name."""
    from importlib.metadata import version  # here, because it takes long to import

    steps = {part.name: getattr(preprocessing, part.name) for part in fields(preprocessing)}
    return {
        "version": version("tensormend"),
        "shape": str(known.shape),
        "data": f"{known.values.dtype} {_digest(known.indices, known.values)}",
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
    return repr(value) if isinstance(value, PLAIN_TYPES) else name


def _digest(*arrays: Array) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


class KnownSampling(Sampling):
    """Sampling that calls modes and places by the names they have in the data."""

    def __init__(self, known: Observations, places: Array, **settings: Any) -> None:
        super().__init__(known.shape, places, **settings)
        self._kind = known.container

    def describe(self, mode: int, places: Sequence[int]) -> tuple[str, str]:
        """Name a mode and some of its places, for a message."""
        return self._kind.describe(mode, places)
