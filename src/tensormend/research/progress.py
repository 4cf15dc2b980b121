"""Progress on the command line: a bar with the time left, or lines where there is no terminal."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TextIO

__all__ = ["Progress", "format_seconds"]

WIDTH = 24
LINES = 10  # lines in all where the bar cannot be drawn over itself


def format_seconds(seconds: float) -> str:
    """Write a duration for people.

    >>> format_seconds(42.4), format_seconds(125), format_seconds(3725)
    ('42 s', '2 min 5 s', '1 h 2 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


@dataclass
class Progress:
    """Count finished cells of a named experiment and say how long the rest may take."""

    name: str
    total: int
    stream: TextIO
    done: int = 0
    began: float = field(default_factory=time.perf_counter)

    def advance(self) -> None:
        """Count one more cell."""
        self.done += 1
        spent = time.perf_counter() - self.began
        left = format_seconds(spent / self.done * (self.total - self.done))
        ending = f"{left} left" if self.done < self.total else f"{format_seconds(spent)} in all"
        count = f"{self.done}/{self.total} cells"
        if self.stream.isatty():
            filled = WIDTH * self.done // self.total
            bar = "#" * filled + "." * (WIDTH - filled)
            close = "\n" if self.done == self.total else ""
            self.stream.write(f"\r{self.name:<11} [{bar}] {count}, {ending}\033[K{close}")
        elif self.done == self.total or self._is_due():
            self.stream.write(f"{self.name:<11} {count}, {ending}\n")
        self.stream.flush()

    def _is_due(self) -> bool:
        return LINES * self.done // self.total > LINES * (self.done - 1) // self.total
