"""A progress bar on stderr, for runs that are asked to show one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress_bar"]

REFRESH = 0.05  # seconds between two updates of the bar


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float, str], None]]:
    """Show a progress bar on stderr while the block runs, if that is a terminal.

    Yields
    ------
    callable
        Called with a description, the fraction of the work that is done (NaN if unknown) and a
        text to show beside the bar; cheap to call often.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[text]}", markup=False),
    )
    due = 0.0
    console = Console(stderr=True)
    is_hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=is_hidden) as bar:
        task = bar.add_task("", total=None, text="")

        def show(description: str, fraction: float, text: str) -> None:
            nonlocal due
            now = time.monotonic()
            if now < due:
                return
            due = now + REFRESH
            is_known = math.isfinite(fraction)
            bar.update(
                task,
                description=description,
                total=1.0 if is_known else None,
                completed=fraction if is_known else 0.0,
                text=text,
            )

        yield show
