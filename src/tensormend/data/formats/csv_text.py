"""Layout of a ``.csv`` file, and the first invalid line of one.

Only the first lines of a file are read here; all of them if one is invalid.
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
"""Texts that mark a missing value."""

NUMBER = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?inf(inity)?", re.IGNORECASE
)
START = 2**16  # bytes from which the layout is inferred
DELIMITERS = ",;\t|"


@dataclass(frozen=True)
class Layout:
    """Layout of a file.

    Attributes
    ----------
    columns : tuple of str
        Names of the columns, from the first line.
    delimiter : str
        Character between two fields.
    decimal : str
        Decimal point or comma.
    n_header : int
        Number of lines of the header.
    sample : tuple of tuple of str
        Fields of the first rows.
    modes : tuple of str
        Columns with the labels of the modes, once chosen.
    value_column : str
        Column with the values, once chosen.
    """

    columns: tuple[str, ...]
    delimiter: str
    decimal: str
    n_header: int
    sample: tuple[tuple[str, ...], ...] = ()
    modes: tuple[str, ...] = ()
    value_column: str = ""

    def choose(self, modes: list[str], value_column: str) -> Layout:
        """Return the layout with the columns to read, and the decimal sign of the values."""
        column = self.columns.index(value_column)
        fields = [row[column] for row in self.sample if len(row) == len(self.columns)]
        has_comma = any(re.fullmatch(r"\s*[+-]?[0-9]*,[0-9]+\s*", field) for field in fields)
        decimal = "," if has_comma and self.delimiter != "," else "."
        return replace(self, modes=tuple(modes), value_column=value_column, decimal=decimal)


def find_layout(path: Path) -> Layout:
    """Infer the names of the columns and the delimiter from the first lines."""
    with open_bytes(path) as file:
        start = file.read(START)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FileError(f"{path} must be text in UTF-8, got UTF-16; save it as UTF-8")
    text = start.decode("utf-8-sig", "replace")
    if "\0" in text:
        raise FileError(f"{path} must be text, got binary data; check the file")
    if not text.strip():
        raise FileError(f"{path} must hold at least one observed entry, found none; check the file")
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
            f"separated by commas, semicolons or tabs, got {header}; add the names, or a column"
        )
    numbers = [name for name in header if NUMBER.fullmatch(name.strip())]
    if header[-1] in numbers:
        raise FileError(
            f"the first line of {path} must name the columns, got the number {header[-1]!r}; add a "
            "line of names, and melt a wide table first"
        )
    return Layout(tuple(header), delimiter, ".", n_header, rows)


def _find_delimiter(text: str) -> str:
    """Return the delimiter that splits the first line into most fields."""
    first = next(line for line in text.splitlines() if line.strip())

    def count(delimiter: str) -> int:
        return len(next(csv.reader([first], delimiter=delimiter), []))

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
    n_columns, column = len(layout.columns), layout.columns.index(layout.value_column)
    with _rows(path, layout) as rows:
        for line, row in rows:
            where = f"line {line} of {path}"
            if len(row) != n_columns:
                return FileError(
                    f"{where} must have {n_columns} fields, as the first line has, got {len(row)}; "
                    "correct it, or put quotes around fields with a separator in them"
                )
            if any("\udc80" <= character <= "\udcff" for field in row for character in field):
                return FileError(f"{where} must be in UTF-8, got other bytes; save it as UTF-8")
            field = row[column].strip()
            if field in NULLS:
                continue
            if not NUMBER.fullmatch(field.replace(layout.decimal, ".")):
                return FileError(
                    f"{where} must have a number in column {layout.value_column!r}, got "
                    f"{field[:40]!r}; correct it, or leave it blank if it is missing"
                )
            if math.isinf(float(field.replace(layout.decimal, "."))):
                return FileError(
                    f"{where} must have a finite number in column {layout.value_column!r}, got "
                    f"{field[:40]!r}; leave it blank if it is missing"
                )
    return None


def quote(texts: Iterable[str], delimiter: str) -> list[str]:
    """Put quotes around fields that need them by RFC 4180.

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
    """Return the line of a row, which is found by reading the file again."""
    with _rows(path, layout) as rows:
        for number, (line, _) in enumerate(rows):
            if number == row:
                return line
    raise FileError(f"{path} has changed while it was read; read it again")
