"""Quantities as text, for messages and summaries."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["format_bytes", "format_seconds", "format_shape"]


def format_bytes(n_bytes: float) -> str:
    """Format a number of bytes.

    Examples
    --------
    >>> format_bytes(3 * 2**20)
    '3 MiB'
    """
    for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes / 2**10:.3g} KiB"


def format_seconds(seconds: float) -> str:
    """Format a duration.

    Examples
    --------
    >>> format_seconds(0.0042), format_seconds(3.21), format_seconds(75), format_seconds(7350)
    ('0.0042 s', '3.2 s', '1 min 15 s', '2 h 2 min')
    """
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 1 else f"{seconds:.{1 if seconds < 10 else 0}f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def format_shape(sizes: Sequence[int]) -> str:
    """Format a shape or a rank.

    Examples
    --------
    >>> format_shape((30, 40, 50))
    '30 x 40 x 50'
    """
    return " x ".join(map(str, sizes))
