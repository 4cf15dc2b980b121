"""What records say: groups of them, ratios, and bars that measurements are compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tensormend.research.records import Record

__all__ = ["Bar", "divide", "group", "least"]

T = TypeVar("T")


def group(records: Sequence[Record], *keys: str) -> dict[tuple[Any, ...], list[Record]]:
    """Collect records by the values of some settings, in the order of their first appearance."""
    found: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        values = (record["settings"][key] for key in keys)
        where = tuple(tuple(v) if isinstance(v, list) else v for v in values)
        found.setdefault(where, []).append(record)
    return found


def least(values: Iterable[float | None]) -> float | None:
    """Return the least of the values that were measured, if there are any.

    Examples
    --------
    >>> least([None, 3.0, 2.0]), least([])
    (2.0, None)
    """
    return min((value for value in values if value is not None), default=None)


def divide(a: float | None, b: float | None) -> float | None:
    """Return the ratio of two values, or ``None`` where one was not measured."""
    return None if a is None or b is None else a / b


@dataclass(frozen=True)
class Bar:
    """A bar and what was measured.

    Attributes
    ----------
    what : str
        What is measured.
    promise : str
        The limit.
    measured : str
        The measurement.
    met : bool or None
        Whether the limit is kept; ``None`` where nothing was measured.
    """

    what: str
    promise: str
    measured: str
    met: bool | None

    @classmethod
    def check(
        cls,
        what: str,
        promise: str,
        value: T | None,
        show: Callable[[T], str],
        is_met: Callable[[T], bool],
    ) -> Bar:
        """Compare a value with a limit; a value of ``None`` was not measured."""
        if value is None:
            return cls(what, promise, "not measured", None)
        return cls(what, promise, show(value), is_met(value))

    @classmethod
    def at_most(cls, what: str, limit: float, value: float | None, unit: str = "") -> Bar:
        """Return a bar on a value that must not exceed a limit."""
        promise = f"at most {limit:g}{unit}"
        return cls.check(what, promise, value, lambda x: f"{x:.3g}{unit}", lambda x: x <= limit)

    @classmethod
    def at_least(cls, what: str, limit: float, value: float | None) -> Bar:
        """Return a bar on a factor that must reach a limit."""
        promise = f"at least {limit:g} times"
        return cls.check(what, promise, value, lambda x: f"{x:.3g} times", lambda x: x >= limit)
