"""Pages in Markdown: prose from templates, tables and numbers from records."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from string import Template

from tensormend.core.storage import atomic_write
from tensormend.research.summary import Bar, Claim

__all__ = [
    "Section",
    "link",
    "make_table",
    "shorten_path",
    "show_bars",
    "show_claims",
    "show_picture",
    "write_page",
]

Section = tuple[str, Mapping[str, str]]
"""Name of a template, and what is filled in."""


def write_page(path: Path, package: str, sections: Iterable[Section]) -> None:
    """Fill in templates and write them as one page, atomically.

    Parameters
    ----------
    path : Path
        The page.
    package : str
        Package whose folder ``prose`` has the templates, ``<name>.md``.
    sections : iterable of (str, mapping)
        Names of templates with what takes the place of their ``$name``, in order.
    """
    prose = resources.files(package) / "prose"
    parts = [
        Template((prose / f"{name}.md").read_text("utf-8")).substitute(facts)
        for name, facts in sections
    ]
    with atomic_write(path) as file:
        file.write("\n".join(parts).encode())


def link(target: Path, page: Path) -> str:
    """Return the path of a file or folder relative to a page."""
    return Path(os.path.relpath(target, page.parent)).as_posix()


def shorten_path(path: Path) -> str:
    """Name a path from the working folder where it lies inside, else by its last part."""
    full, here = path.resolve(), Path.cwd()
    return (full.relative_to(here) if full.is_relative_to(here) else Path(full.name)).as_posix()


def make_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    r"""Return a table in Markdown.

    Examples
    --------
    >>> make_table(["n", "s"], [[1, "a|b"]])
    '| n | s |\n|---|---|\n| 1 | a\\|b |'
    """
    lines = [list(map(str, head))] + [[str(cell) for cell in row] for row in rows]
    shown = ["| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines]
    return "\n".join([shown[0], "|" + "---|" * len(head), *shown[1:]])


def show_bars(bars: Iterable[Bar]) -> str:
    """Return a table of bars: the limit, the measurement, and whether it is met."""
    words = {True: "yes", False: "**no**", None: "not measured"}
    rows = [(bar.what, bar.promise, bar.measured, words[bar.met]) for bar in bars]
    return make_table(["what", "bar", "measured", "met"], rows)


def show_claims(claims: Iterable[Claim]) -> str:
    """Return a table of claims: whether they hold, and where."""
    rows = [(claim.what, f"**{claim.verdict}**", claim.where) for claim in claims]
    return make_table(["the paper says", "here it", "where"], rows)


def show_picture(text: str, path: str | None) -> str:
    """Return a paragraph with a picture, to append to another; nothing without a path."""
    return "" if path is None else f"\n\n![{text}]({path})"
