"""Turn the docstrings of the house into reStructuredText.

They follow numpydoc, but say what a parameter means after the colon and leave its type to the
signature, which readers of numpydoc would take for the type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

FIELDS = ("Parameters", "Attributes", "Returns", "Yields", "Raises")


def rewrite(lines: list[str]) -> list[str]:
    """Rewrite a docstring.

    >>> rewrite(["Do.", "", "Parameters", "----------", "x, y : two", "    numbers"])
    ['Do.', '', ':Parameters:', '    * **x, y** – two', '      numbers', '']
    """
    out: list[str] = []
    for title, body in split_sections(lines):
        if title in FIELDS:
            out += [f":{title}:", *list_items(body), ""]
        elif title:
            out += [f".. rubric:: {title}", "", *body]
        else:
            out += body
    return out


def split_sections(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the title and lines of every section; the first has no title."""
    title = ""
    body: list[str] = []
    k = 0
    while k < len(lines):
        below = lines[k + 1] if k + 1 < len(lines) else ""
        if lines[k].strip() and re.fullmatch("-{3,}", below.strip()):
            yield title, body
            title, body = lines[k].strip(), []
            k += 2
            continue
        body.append(lines[k])
        k += 1
    yield title, body


def list_items(body: list[str]) -> Iterator[str]:
    """Make a bullet of every entry of a section: ``name : meaning``, or a type and its meaning."""
    for line, below in zip(body, [*body[1:], ""], strict=True):
        if line and not line[0].isspace():
            name, colon, meaning = line.partition(" : ")
            has_more = colon or below.startswith(" ")
            yield f"    * **{name}** – {meaning}".rstrip() if has_more else f"    * {line}"
        else:
            yield f"      {line.strip()}" if line.strip() else ""


def process(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Rewrite a docstring in place, as autodoc wants it."""
    del app, what, name, thing, options
    lines[:] = rewrite(lines)


def setup(app: Any) -> dict[str, bool]:
    """Register the rewriting."""
    app.connect("autodoc-process-docstring", process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
