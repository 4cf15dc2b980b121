"""How a run is followed: a bar on a terminal, a line now and then in a log, or nothing."""

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

LINE_SECONDS = 5.0  # between two lines of a log
BAR = 12  # columns of the bar
BESIDE = 2 + len("balance") + 1 + BAR + 1  # columns of what stands before the numbers
BAR_SECONDS = 0.05  # between two looks of the bar
ECHO = 3  # columns left free for the ^C that a terminal shows, which else moves the bar on a line
SOONEST, LEAST_SHARE = 1.0, 0.02  # seconds and share of the work from which on the rest can be told


class View(Protocol):
    """Shows moments of a run, and notes between them."""

    def begin(self, stage: str) -> None:
        """Say what is done before and after the iterations."""

    def show(self, moment: CompletionProgress) -> None:
        """Show where a run is."""

    def note(self, text: str) -> None:
        """Show a sentence."""


@contextmanager
def follow(*, quiet: bool, limit: float | None = None) -> Iterator[View]:
    """Follow a run on stderr, as it suits what stderr is."""
    if quiet:
        yield _Nothing()
    elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and _has_signs(sys.stderr):
        with _open_bar(limit) as bar:
            yield bar
    else:
        yield _Lines(limit)


def _has_signs(stream: TextIO) -> bool:
    """Tell whether a stream can show what a bar is made of."""
    try:
        "━⠋·…".encode(stream.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def seconds_left(moment: CompletionProgress, limit: float | None) -> float:
    """Tell how long a run may still take, from the share of the work that is done; NaN if unknown.

    A time limit bounds it.
    """
    left = math.nan
    if moment.seconds >= SOONEST and moment.share >= LEAST_SHARE:
        left = moment.seconds * (1 - moment.share) / moment.share
    if limit is None:
        return left
    most = max(limit - moment.seconds, 0.0)
    return most if math.isnan(left) else min(left, most)


def _describe(moment: CompletionProgress) -> list[str]:
    """Say what is known of a moment."""
    words = [f"iteration {moment.n_iter}"]
    if math.isfinite(moment.residual):
        words.append(f"residual {moment.residual:.3g}")
    if math.isfinite(moment.validation_error):
        words.append(f"held-out error {moment.validation_error:.3g}")
    return words


def _describe_time(moment: CompletionProgress, limit: float | None) -> str:
    left = seconds_left(moment, limit)
    rest = f", about {format_seconds(left)} left" if left >= 1 else ""  # else over, or not known
    return f"{format_seconds(moment.seconds)}{rest}"


def _fit(moment: CompletionProgress, limit: float | None, room: int) -> str:
    """Say of a moment what there is room for beside the bar."""
    left = seconds_left(moment, limit)
    rest = f"{format_seconds(left)} left" if left >= 1 else format_seconds(moment.seconds)
    error = f"residual {moment.residual:.3g}"
    if math.isfinite(moment.validation_error):
        error = f"held out {moment.validation_error:.3g}"
    choices = (
        [*_describe(moment), _describe_time(moment, limit)],
        [f"iteration {moment.n_iter}", error, rest],
        [f"iteration {moment.n_iter}", rest],
    )
    lines = [" · ".join(words) for words in choices]
    return next((line for line in lines if len(line) <= room), "")


class _Nothing:
    def begin(self, stage: str) -> None:
        pass

    def show(self, moment: CompletionProgress) -> None:
        pass

    def note(self, text: str) -> None:
        pass


class _Lines:
    """A line at the beginning and every few seconds."""

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        self._next = 0.0

    def begin(self, stage: str) -> None:
        pass

    def show(self, moment: CompletionProgress) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_SECONDS
            words = [moment.stage, *_describe(moment), _describe_time(moment, self._limit)]
            self.note(", ".join(words))

    def note(self, text: str) -> None:
        say(text)


class _Bar:
    """A bar that moves, with a line of numbers beside it."""

    def __init__(self, progress: Progress, task: TaskID, limit: float | None) -> None:
        self._progress, self._task, self._limit = progress, task, limit
        self._next = 0.0

    def begin(self, stage: str) -> None:
        self._progress.update(self._task, description=stage, total=None, numbers="")

    def show(self, moment: CompletionProgress) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + BAR_SECONDS
        share = None if math.isnan(moment.share) else 1.0
        numbers = _fit(moment, self._limit, self._progress.console.width - ECHO - BESIDE)
        self._progress.update(
            self._task,
            description=moment.stage,
            total=share,
            completed=0 if share is None else moment.share,
            numbers=numbers,
        )

    def note(self, text: str) -> None:
        self._progress.console.print(f"tensormend: {text}", markup=False, highlight=False)


@contextmanager
def _open_bar(limit: float | None) -> Iterator[_Bar]:
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
