"""Progress on the command line: a bar with the time left, or lines where there is no terminal."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TextIO

from tensormend.core.text import format_seconds

__all__ = ["Progress"]

WIDTH = 24
LINES = 10  # in all where there is no terminal


@dataclass
class Progress:
    """Count the cells of an experiment that are finished, and estimate the time left."""

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
