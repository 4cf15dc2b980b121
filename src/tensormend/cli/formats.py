"""``tensormend formats``: list the file formats."""

from __future__ import annotations

from tensormend.cli.outputs import missing_packages
from tensormend.cli.words import put

__all__ = ["EXAMPLES", "formats"]

EXAMPLES = ("tensormend formats",)


def formats() -> None:
    """List the file formats, and what to install for those that need it."""
    from tensormend.data.formats import FORMATS

    rows = [("FORMAT", "SUFFIXES", "REQUIRES")]
    for form in FORMATS:
        need = "" if form.extra is None else f"pip install 'tensormend[{form.extra}]'"
        rows.append((form.name, " ".join(form.suffixes), need if missing_packages(form) else ""))
    widths = [max(len(row[k]) for row in rows) for k in range(3)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        put("  ".join(cells).rstrip() + "\n")
