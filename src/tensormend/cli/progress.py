"""Progress of a run on stderr: a bar on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from tensormend.cli.words import say
from tensormend.core.text import format_seconds

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from tensormend import CompletionProgress

__all__ = ["View", "follow", "seconds_left"]

LINE_SECONDS = 5.0  # between two lines
BAR = 12  # columns of the bar
PREFIX = 2 + len("weights") + 1 + BAR + 1  # columns before the numbers
BAR_SECONDS = 0.05  # between two updates of the bar
ECHO = 3  # columns left free for the ^C that a terminal prints, which would wrap the line
MIN_SECONDS, MIN_FRACTION = 1.0, 0.02  # of the run, before the time left is estimated


class View(Protocol):
    """Display of progress and notes."""

    def begin(self, stage: str) -> None:
        """Show a stage without iterations."""

    def show(self, state: CompletionProgress) -> None:
        """Show the progress of the iterations."""

    def note(self, text: str) -> None:
        """Show a note."""


@contextmanager
def follow(*, quiet: bool, limit: float | None = None) -> Iterator[View]:
    """Show the progress of a run on stderr: as a bar, as lines, or not at all if ``quiet``."""
    if quiet:
        yield _Silent()
    elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and _can_encode_bar(sys.stderr):
        with _open_bar(limit) as bar:
            yield bar
    else:
        yield _Lines(limit)


def _can_encode_bar(stream: TextIO) -> bool:
    """Tell whether a stream can encode the characters of the bar."""
    try:
        "━⠋·…".encode(stream.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def seconds_left(state: CompletionProgress, limit: float | None) -> float:
    """Estimate the time left from the fraction of the work done; NaN if unknown.

    A time limit bounds it.
    """
    left = math.nan
    if state.seconds >= MIN_SECONDS and state.fraction >= MIN_FRACTION:
        left = state.seconds * (1 - state.fraction) / state.fraction
    if limit is None:
        return left
    most = max(limit - state.seconds, 0.0)
    return most if math.isnan(left) else min(left, most)


def _describe(state: CompletionProgress) -> list[str]:
    """Return the iteration, residual and held-out error as texts."""
    words = [f"iteration {state.n_iter}"]
    if math.isfinite(state.residual):
        words.append(f"residual {state.residual:.3g}")
    if math.isfinite(state.validation_error):
        words.append(f"held-out error {state.validation_error:.3g}")
    return words


def _describe_time(state: CompletionProgress, limit: float | None) -> str:
    """Return the time taken and left as text."""
    left = seconds_left(state, limit)
    rest = f", about {format_seconds(left)} left" if left >= 1 else ""  # NaN if unknown
    return f"{format_seconds(state.seconds)}{rest}"


def _shorten(state: CompletionProgress, limit: float | None, width: int) -> str:
    """Describe the progress in as much detail as fits into a width."""
    left = seconds_left(state, limit)
    rest = f"{format_seconds(left)} left" if left >= 1 else format_seconds(state.seconds)
    error = f"residual {state.residual:.3g}"
    if math.isfinite(state.validation_error):
        error = f"held out {state.validation_error:.3g}"
    choices = (
        [*_describe(state), _describe_time(state, limit)],
        [f"iteration {state.n_iter}", error, rest],
        [f"iteration {state.n_iter}", rest],
    )
    lines = [" · ".join(words) for words in choices]
    return next((line for line in lines if len(line) <= width), "")


class _Silent:
    """Shows nothing."""

    def begin(self, stage: str) -> None:
        pass

    def show(self, state: CompletionProgress) -> None:
        pass

    def note(self, text: str) -> None:
        pass


class _Lines:
    """Prints a line for the first iteration and then every few seconds."""

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        self._next = 0.0

    def begin(self, stage: str) -> None:
        pass

    def show(self, state: CompletionProgress) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_SECONDS
            words = [state.stage, *_describe(state), _describe_time(state, self._limit)]
            self.note(", ".join(words))

    def note(self, text: str) -> None:
        say(text)


class _Bar:
    """Shows a progress bar with numbers beside it."""

    def __init__(self, progress: Progress, task: TaskID, limit: float | None) -> None:
        self._progress, self._task, self._limit = progress, task, limit
        self._next = 0.0

    def begin(self, stage: str) -> None:
        self._progress.update(self._task, description=stage, total=None, numbers="")

    def show(self, state: CompletionProgress) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + BAR_SECONDS
        is_known = not math.isnan(state.fraction)
        numbers = _shorten(state, self._limit, self._progress.console.width - ECHO - PREFIX)
        self._progress.update(
            self._task,
            description=state.stage,
            total=1.0 if is_known else None,
            completed=state.fraction if is_known else 0,
            numbers=numbers,
        )

    def note(self, text: str) -> None:
        self._progress.console.print(f"tensormend: {text}", markup=False, highlight=False)


@contextmanager
def _open_bar(limit: float | None) -> Iterator[_Bar]:
    """Show a bar while the block runs."""
    from rich.console import Console, RenderableType
    from rich.constrain import Constrain
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=BAR),
        TextColumn("{task.fields[numbers]}", markup=False),
    )
    console = Console(stderr=True)

    class Bar(Progress):
        def get_renderable(self) -> RenderableType:
            return Constrain(super().get_renderable(), console.width - ECHO)

    with Bar(*columns, console=console, transient=True, redirect_stdout=False) as progress:
        yield _Bar(progress, progress.add_task("", total=None, numbers=""), limit)
