"""Handling of SIGINT (Ctrl-C) and SIGTERM during a run."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

from tensormend.cli.exits import INTERRUPTED

__all__ = ["Signals"]

CAUGHT = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """Handler of SIGINT and SIGTERM.

    Inside `deferred` the first signal is only recorded, so that the run can stop after its current
    iteration. The second signal, or the first one outside `deferred`, raises `SystemExit`, so that
    temporary files are removed; a third has the default action.

    Parameters
    ----------
    note : callable
        Called with a message to show when a signal arrives.

    Attributes
    ----------
    caught : signal.Signals or None
        The recorded signal.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self.caught: signal.Signals | None = None
        self._is_running = False
        self._note = note
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in CAUGHT:
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Record the first signal instead of exiting."""
        self._is_running = True
        try:
            yield
        finally:
            self._is_running = False

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self.caught is None and self._is_running:
            self.caught = signal.Signals(number)
            self._note("stopping after this iteration; repeat to exit at once")
            return
        for each in CAUGHT:
            signal.signal(each, signal.SIG_DFL)
        self._note(
            "exited without writing a result"
            if self.caught
            else "interrupted before there was a result"
        )
        raise SystemExit(INTERRUPTED + number)
