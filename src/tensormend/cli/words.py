"""How the command line speaks: lines on stderr, labelled rows on stdout, examples in the help."""

from __future__ import annotations

import io
import math
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TextIO

__all__ = [
    "as_json",
    "count",
    "make_ending",
    "open_streams",
    "put",
    "say",
    "show",
    "show_json",
]

LABEL = 12  # width of the labels of rows
NARROWEST, WIDEST = 20, 100  # texts beside labels, and lines: others are hard to read


def open_streams() -> None:
    """Make stdout and stderr take all that is written: closed ones, and characters they lack."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by who started us
            setattr(sys, name, io.TextIOWrapper(io.FileIO(os.devnull, "w"), encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def put(text: str) -> None:
    """Write to stdout at once, unless who read it has gone."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        _discard(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            raise


def _discard(stream: TextIO) -> None:
    """Let what is still to be written to a stream go nowhere, without another error at the exit."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def say(text: str) -> None:
    """Write a line to stderr, which begins with who speaks.

    A log that cannot be written any more, or is being written when a signal comes, ends no run.
    """
    try:
        sys.stderr.write(f"tensormend: {text}\n")
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)
    except RuntimeError:  # a signal came while a line was written
        pass


def show(rows: Iterable[tuple[str, str]]) -> None:
    """Write labelled rows to stdout, wrapped; on a terminal the labels are dim."""
    wide = min(shutil.get_terminal_size((WIDEST, 0)).columns, WIDEST)
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    first, last = ("", "") if is_plain or not sys.stdout.isatty() else ("\x1b[2m", "\x1b[0m")
    for label, text in rows:
        lines = textwrap.wrap(
            text, max(wide - LABEL, NARROWEST), break_long_words=False, break_on_hyphens=False
        )
        put(f"{first}{label:<{LABEL}}{last}{''.join(lines[:1])}".rstrip() + "\n")
        for line in lines[1:]:
            put(f"{'':<{LABEL}}{line}\n")


def show_json(record: Mapping[str, Any]) -> None:
    """Write one JSON object to stdout; what is no number is null."""
    import json

    put(json.dumps(as_json(record), indent=2, allow_nan=False) + "\n")


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


def count(number: int, what: str) -> str:
    """Write how many there are of something.

    >>> count(1, "slice"), count(12, "slice")
    ('1 slice', '12 slices')
    """
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
