"""How a ``.csv`` file is laid out, and what is wrong with a line of it.

The lines are read here only at the beginning of a file, and all of them once something is wrong.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tensormend.data.formats.entries import open_bytes
from tensormend.errors import FileError

__all__ = ["NULLS", "Layout", "find_fault", "find_layout", "line_of", "quote"]

NULLS = [
    "",
    "NA",
    "N/A",
    "n/a",
    "#N/A",
    "NaN",
    "nan",
    "-nan",
    "NULL",
    "null",
    "None",
    "<NA>",
    "NaT",
]
"""Values that mark a missing entry."""

NUMBER = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?inf(inity)?", re.IGNORECASE
)
START = 2**16  # bytes at the beginning from which the layout is inferred
DELIMITERS = ",;\t|"


@dataclass(frozen=True)
class Layout:
    """How a file is laid out.

    Attributes
    ----------
    columns : tuple of str
        Their names, from the first line.
    delimiter : str
        Between two fields.
    decimal : str
        Point or comma.
    n_header : int
        Lines of the header.
    modes : tuple of str, default=()
        Columns of a DataFrame that hold the labels of each mode; by default all but the last.
    value : str, default=''
        The columns to take.
    """

    columns: tuple[str, ...]
    delimiter: str
    decimal: str
    n_header: int
    sample: tuple[tuple[str, ...], ...] = ()
    modes: tuple[str, ...] = ()
    value: str = ""

    def choose(self, modes: list[str], value: str) -> Layout:
        """Return the same with the columns to take, and the decimal sign of the values."""
        place = self.columns.index(value)
        fields = [row[place] for row in self.sample if len(row) == len(self.columns)]
        has_comma = any(re.fullmatch(r"\s*[+-]?[0-9]*,[0-9]+\s*", field) for field in fields)
        decimal = "," if has_comma and self.delimiter != "," else "."
        return replace(self, modes=tuple(modes), value=value, decimal=decimal)


def find_layout(path: Path) -> Layout:
    """Infer the names of the columns and the delimiter from the first lines."""
    with open_bytes(path) as file:
        start = file.read(START)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FileError(f"{path} must be text in UTF-8, got UTF-16; save it as UTF-8")
    text = start.decode("utf-8-sig", "replace")
    if "\0" in text:
        raise FileError(f"{path} must be text, got bytes that are none; check the file")
    if not text.strip():
        raise FileError(f"{path} must hold at least one observed entry, found none")
    delimiter = "\t" if ".tsv" in path.name.lower()[-7:] else _find_delimiter(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    header: list[str] = []
    while not header:
        header = next(reader)
    n_header = reader.line_num
    rows = tuple(tuple(row) for _, row in zip(range(100), reader, strict=False) if row)
    if len(header) < 3:
        raise FileError(
            f"the first line of {path} must name two or more columns of labels and one of values, "
            f"between commas, semicolons or tabs, got {header}; add the names, or a column"
        )
    numbers = [name for name in header if NUMBER.fullmatch(name.strip())]
    if header[-1] in numbers:
        raise FileError(
            f"the first line of {path} must name the columns, got the number {header[-1]!r}; add a "
            "line of names, and melt a wide table first"
        )
    return Layout(tuple(header), delimiter, ".", n_header, rows)


def _find_delimiter(text: str) -> str:
    """Return the sign that cuts the first line into most fields."""
    first = next(line for line in text.splitlines() if line.strip())

    def count(sign: str) -> int:
        return len(next(csv.reader([first], delimiter=sign), []))

    return max(DELIMITERS, key=count)


@contextmanager
def _rows(path: Path, layout: Layout) -> Iterator[Iterator[tuple[int, list[str]]]]:
    """Open the rows below the header, each with the number of its first line."""

    def walk(text: io.TextIOWrapper) -> Iterator[tuple[int, list[str]]]:
        reader = csv.reader(text, delimiter=layout.delimiter)
        line = 1
        while True:
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise FileError(
                    f"line {reader.line_num} of {path} must hold fields of a table, got one that "
                    f"cannot be read ({error}); check its quotes"
                ) from error
            if row and line > layout.n_header:
                yield line, row
            line = reader.line_num + 1

    with (
        open_bytes(path) as file,
        io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="") as text,
    ):
        yield walk(text)


def find_fault(path: Path, layout: Layout) -> FileError | None:
    """Return an error for the first invalid line."""
    n_columns, place = len(layout.columns), layout.columns.index(layout.value)
    with _rows(path, layout) as rows:
        for line, row in rows:
            where = f"line {line} of {path}"
            if len(row) != n_columns:
                return FileError(
                    f"{where} must have {n_columns} fields as the first line, got {len(row)}; "
                    "correct it, or put quotes around fields that hold the separator"
                )
            if any("\udc80" <= sign <= "\udcff" for field in row for sign in field):
                return FileError(f"{where} must be in UTF-8, got other bytes; save it as UTF-8")
            field = row[place].strip()
            if field in NULLS:
                continue
            if not NUMBER.fullmatch(field.replace(layout.decimal, ".")):
                return FileError(
                    f"{where} must have a number in column {layout.value!r}, got {field[:40]!r}; "
                    "correct it, or leave it blank if it is missing"
                )
            if math.isinf(float(field.replace(layout.decimal, "."))):
                return FileError(
                    f"{where} must have a finite number in column {layout.value!r}, got "
                    f"{field[:40]!r}; leave it blank if it is missing"
                )
    return None


def quote(texts: Iterable[str], delimiter: str) -> list[str]:
    """Put quotes around fields that need them, as RFC 4180 does.

    Examples
    --------
    >>> quote(["Oslo", "x,y"], ",")
    ['Oslo', '"x,y"']
    """
    specials = set(f'{delimiter}"\r\n')
    return [
        text if specials.isdisjoint(text) else '"' + text.replace('"', '""') + '"' for text in texts
    ]


def line_of(path: Path, layout: Layout, row: int) -> int:
    """Find the line of a row by reading once more."""
    with _rows(path, layout) as rows:
        for number, (line, _) in enumerate(rows):
            if number == row:
                return line
    raise FileError(f"{path} has changed while it was read; read it again")
