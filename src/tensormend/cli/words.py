"""Text output: messages on stderr, labelled rows and JSON on stdout, the end of help pages."""

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
MIN_WIDTH, MAX_WIDTH = 20, 100  # smallest width of the text beside a label, largest of a line


def open_streams() -> None:
    """Replace closed streams, and escape characters that a stream cannot encode."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the parent process
            setattr(sys, name, io.TextIOWrapper(io.FileIO(os.devnull, "w"), encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def put(text: str) -> None:
    """Write to stdout and flush; ignore a closed pipe."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        _discard(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            raise


def _discard(stream: TextIO) -> None:
    """Redirect a stream to the null device, so that closing it raises no further error."""
    with suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def say(text: str) -> None:
    """Write a line to stderr, with the name of the program.

    Errors are ignored, so that they do not end a run.
    """
    try:
        sys.stderr.write(f"tensormend: {text}\n")
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)
    except RuntimeError:  # called by a signal handler during another write
        pass


def show(rows: Iterable[tuple[str, str]]) -> None:
    """Write labelled rows to stdout, wrapped; on a terminal the labels are dim."""
    width = min(shutil.get_terminal_size((MAX_WIDTH, 0)).columns, MAX_WIDTH)
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    first, last = ("", "") if is_plain or not sys.stdout.isatty() else ("\x1b[2m", "\x1b[0m")
    for label, text in rows:
        lines = textwrap.wrap(
            text, max(width - LABEL, MIN_WIDTH), break_long_words=False, break_on_hyphens=False
        )
        put(f"{first}{label:<{LABEL}}{last}{''.join(lines[:1])}".rstrip() + "\n")
        for line in lines[1:]:
            put(f"{'':<{LABEL}}{line}\n")


def show_json(record: Mapping[str, Any]) -> None:
    """Write one JSON object to stdout; NaN and infinity become null."""
    import json

    put(json.dumps(as_json(record), indent=2, allow_nan=False) + "\n")


def as_json(value: Any) -> Any:
    """Convert mappings, sequences and NumPy values to types of JSON.

    Examples
    --------
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
    """Format the end of a help page: examples and, where given, the exit codes."""
    lines = [" Examples:", *(f"   {line}" for line in examples)]
    if exits is not None:
        lines += ["", " Exit codes:"]
        lines += [f"   {code:<4} {meaning}" for code, meaning in exits.items()]
    return "\n".join(lines)


def count(number: int, what: str) -> str:
    """Format a count with its noun.

    Examples
    --------
    >>> count(1, "slice"), count(12, "slice")
    ('1 slice', '12 slices')
    """
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
