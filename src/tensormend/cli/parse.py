"""Parsers of option values: ranks, lists, times, amounts of memory and bounds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Literal

import typer

__all__ = [
    "parse_bounds",
    "parse_bytes",
    "parse_center",
    "parse_names",
    "parse_rank",
    "parse_seconds",
    "parse_seconds_or_zero",
    "parse_sizes",
]

CENTERS = ("auto", "none", "mean", "all")

SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
BYTES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_rank(text: str) -> Literal["auto"] | int | tuple[int, ...]:
    """Read ``auto``, one number, or one number per mode.

    Examples
    --------
    >>> parse_rank("auto"), parse_rank("5"), parse_rank("5,4,3")
    ('auto', 5, (5, 4, 3))
    """
    if text == "auto":
        return "auto"
    rank = parse_sizes(text, "auto, a number such as 8 or one per mode such as 20,20,3")
    return rank[0] if len(rank) == 1 else rank


def parse_sizes(text: str, what: str = "one number per mode, such as 30,40,50") -> tuple[int, ...]:
    """Read integers separated by commas.

    Examples
    --------
    >>> parse_sizes("30,40,50")
    (30, 40, 50)
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"expected {what}, got {text!r}") from None


def parse_names(text: str) -> tuple[str, ...]:
    """Read names separated by commas.

    Examples
    --------
    >>> parse_names("city, year")
    ('city', 'year')
    """
    names = tuple(part.strip() for part in text.split(","))
    if not all(names):
        raise typer.BadParameter(f"expected names separated by commas, got {text!r}")
    return names


def parse_center(text: str) -> str | tuple[str, ...]:
    """Read which means to subtract: one of `CENTERS`, or modes by name or number.

    Examples
    --------
    >>> parse_center("all"), parse_center("city,2")
    ('all', ('city', '2'))
    """
    return text if text in CENTERS else parse_names(text)


def parse_seconds(text: str) -> float:
    """Read a time above 0: a number of seconds, or one with the unit s, m, h or d.

    Examples
    --------
    >>> parse_seconds("90"), parse_seconds("10m"), parse_seconds("1.5h")
    (90.0, 600.0, 5400.0)
    """
    amount = _measure(text, SECONDS)
    if amount is None:
        raise typer.BadParameter(f"expected a time above 0 such as 90, 10m or 2h, got {text!r}")
    return amount


def parse_seconds_or_zero(text: str) -> float:
    """Read a time that may be 0.

    Examples
    --------
    >>> parse_seconds_or_zero("0"), parse_seconds_or_zero("1m")
    (0.0, 60.0)
    """
    return 0.0 if re.fullmatch(r"0+(\.0*)?", text.strip()) else parse_seconds(text)


def parse_bytes(text: str) -> float:
    """Read an amount of memory: bytes, or a number with the unit K, M, G or T (powers of 1024).

    Examples
    --------
    >>> parse_bytes("4G") == 4 * 2**30
    True
    """
    amount = _measure(re.sub("I?B$", "", text.upper()), BYTES)
    if amount is None:
        raise typer.BadParameter(f"expected an amount of memory such as 500M or 4G, got {text!r}")
    return amount


def _measure(text: str, units: Mapping[str, float]) -> float | None:
    """Return a positive number times its unit, ``None`` for any other text."""
    found = re.fullmatch(r"([0-9.]+) *([a-zA-Z]*)", text.strip())
    if found is None or found[2] not in units:
        return None
    try:
        amount = float(found[1]) * units[found[2]]
    except ValueError:
        return None
    return amount if 0 < amount < math.inf else None


def parse_bounds(text: str) -> tuple[float | None, float | None]:
    """Read a lower and an upper bound, separated by a comma; one may be left out.

    Examples
    --------
    >>> parse_bounds("0,1"), parse_bounds("0,")
    ((0.0, 1.0), (0.0, None))
    """
    try:
        low, high = (float(part) if part.strip() else None for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(
            f"expected two bounds such as 0,1, or one such as 0, (lower) or ,1 (upper), got "
            f"{text!r}"
        ) from None
    return low, high
