"""How the command line speaks: lines on stderr, labelled rows on stdout, examples in the help."""

from __future__ import annotations

import math
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["as_json", "duration", "make_ending", "memory", "say", "show", "show_json", "times"]

LABEL = 12  # width of the labels of rows
WIDEST = 100  # longer lines are hard to read


def say(text: str) -> None:
    """Write a line to stderr, which begins with who speaks."""
    sys.stderr.write(f"tensormend: {text}\n")
    sys.stderr.flush()


def show(rows: Iterable[tuple[str, str]]) -> None:
    """Write labelled rows to stdout, wrapped; on a terminal the labels are dim."""
    wide = min(shutil.get_terminal_size((WIDEST, 0)).columns, WIDEST)
    first, last = ("\x1b[2m", "\x1b[0m") if sys.stdout.isatty() else ("", "")
    for label, text in rows:
        lines = textwrap.wrap(
            text, max(wide - LABEL, 30), break_long_words=False, break_on_hyphens=False
        )
        sys.stdout.write(f"{first}{label:<{LABEL}}{last}{''.join(lines[:1])}".rstrip() + "\n")
        for line in lines[1:]:
            sys.stdout.write(f"{'':<{LABEL}}{line}\n")


def show_json(record: Mapping[str, Any]) -> None:
    """Write one JSON object to stdout; what is no number is null."""
    import json

    sys.stdout.write(json.dumps(as_json(record), indent=2, allow_nan=False) + "\n")


def as_json(value: Any) -> Any:
    """Turn records, sequences and NumPy's numbers into what JSON has.

    >>> as_json({"rank": (2, 3), "error": float("nan")})
    {'rank': [2, 3], 'error': None}
    """
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return as_json(value.tolist())
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | None) else str(value)


def make_ending(examples: Sequence[str], *, exits: Mapping[str, str] | None = None) -> str:
    """Lay out the end of a help page: examples and, where given, the exit codes."""
    lines = [" Examples:", *(f"   {line}" for line in examples)]
    if exits is not None:
        lines += ["", " Exit codes:"]
        lines += [f"   {code:<4} {meaning}" for code, meaning in exits.items()]
    return "\n".join(lines)


def times(numbers: Sequence[int]) -> str:
    """Write a shape or a rank.

    >>> times((30, 40, 50))
    '30 x 40 x 50'
    """
    return " x ".join(map(str, numbers))


def duration(seconds: float) -> str:
    """Write a time as people say it.

    >>> duration(3.21), duration(75), duration(7350)
    ('3.2 s', '1 min 15 s', '2 h 2 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def memory(n_bytes: float) -> str:
    """Write a number of bytes.

    >>> memory(3 * 2**20)
    '3 MiB'
    """
    for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes / 2**10:.3g} KiB"
