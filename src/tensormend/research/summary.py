"""What records say: groups of them, ratios, and bars that measurements are compared with."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tensormend.research.records import Record

__all__ = ["Bar", "Claim", "divide", "format_spread", "group", "least"]

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


def format_spread(values: Sequence[float]) -> str:
    """Return the median of some values, with the least and the largest where there are several.

    Examples
    --------
    >>> format_spread([0.31, 0.3, 0.35]), format_spread([2.0])
    ('0.31 [0.3, 0.35]', '2')
    """
    median = f"{statistics.median(values):.3g}"
    return median if len(values) == 1 else f"{median} [{min(values):.3g}, {max(values):.3g}]"


def divide(a: float | None, b: float | None) -> float | None:
    """Return the ratio of two values, or ``None`` where one was not measured."""
    return None if a is None or b is None else a / b


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and where the records agree with it.

    Attributes
    ----------
    what : str
        The claim.
    counts : mapping of str to tuple of int
        Where it was tried: at how many points it holds, and of how many.
    """

    what: str
    counts: Mapping[str, tuple[int, int]]

    @property
    def verdict(self) -> str:
        """Whether it holds at all points, at some, or at none.

        Examples
        --------
        >>> Claim("faster", {"n = 100": (3, 3), "n = 200": (1, 3)}).verdict
        'holds in part'
        """
        held, tried = map(sum, zip(*self.counts.values(), strict=True))
        return "holds" if held == tried else "holds in part" if held else "does not hold"

    @property
    def where(self) -> str:
        """Where it was tried, and how often it holds where that is not every time.

        Examples
        --------
        >>> Claim("faster", {"n = 100": (3, 3), "n = 200": (1, 3), "n = 300": (0, 1)}).where
        'n = 100. Not everywhere: n = 200 (1 of 3); n = 300'
        """
        full = [place for place, (held, tried) in self.counts.items() if held == tried]
        rest = [
            f"{place} ({held} of {tried})" if tried > 1 else place
            for place, (held, tried) in self.counts.items()
            if held < tried
        ]
        parts = ["; ".join(full)] if full else []
        parts += [f"Not everywhere: {'; '.join(rest)}"] if rest else []
        return ". ".join(parts)


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
