"""Ctrl-C and SIGTERM: the first ends a run in good order, the second at once."""

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
    """Catches signals: while a run is `deferred`, the first is only noted, to be asked for.

    The second, and the first while nothing runs that could end in good order, exits at once, by way
    of the clean-up of half-written files; the third is left to the system.

    Attributes
    ----------
    caught : the signal that was noted
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
        """Only note the first signal meanwhile: what runs asks for it and ends in good order."""
        self._is_running = True
        try:
            yield
        finally:
            self._is_running = False

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self.caught is None and self._is_running:
            self.caught = signal.Signals(number)
            self._note("stopping after this iteration; once more to end at once")
            return
        for each in CAUGHT:
            signal.signal(each, signal.SIG_DFL)
        self._note("ended at once" if self.caught else "stopped before there was a result")
        raise SystemExit(INTERRUPTED + number)
