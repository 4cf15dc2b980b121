"""Which columns of a long table hold labels, and which the values."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NoReturn

from tensormend.errors import InputError

__all__ = ["choose_columns", "refuse_fractions"]


def choose_columns(
    columns: Sequence[Hashable],
    modes: Sequence[Hashable] | None,
    value: Hashable | None,
    word: str = "value",
) -> tuple[tuple[Hashable, ...], Hashable]:
    """Tell the columns of labels from that of values: by default the last holds the values.

    ``word`` is what the option that names the column of values is called.

    >>> choose_columns(["city", "day", "load"], None, None)
    (('city', 'day'), 'load')
    """
    columns = list(columns)
    if len(set(columns)) != len(columns):
        raise InputError(f"columns must have names of their own, got {columns}; rename them")
    if isinstance(modes, str):
        raise InputError(f"modes must be a list of column names, got the string {modes!r}")
    missing = [name for name in (*(modes or ()), value) if name is not None and name not in columns]
    if missing:
        raise InputError(f"modes and {word} must be columns of the table, {columns}, got {missing}")
    rest = [name for name in columns if name not in (modes or ())]
    if value is None:
        if modes is not None and len(rest) != 1:
            raise InputError(f"{word} must name one of the columns {rest}, got none; give {word}=")
        value = rest[-1] if rest else None
    names = tuple(name for name in columns if name != value) if modes is None else tuple(modes)
    if len(names) < 2 or len({*names, value}) != len(names) + 1:
        advice = "; for values under a MultiIndex give that column, a Series"
        raise InputError(
            f"a long table must have two or more columns of labels and another of values, got "
            f"{list(names)} and {value!r}{advice if word == 'value' else ''}"
        )
    return names, value


def refuse_fractions(name: Hashable, word: str = "value") -> NoReturn:
    """Refuse fractions as labels that nobody asked for: most likely the table is wide."""
    raise InputError(
        f"columns of labels must be named where they hold fractions, as {name!r} does; "
        f"give modes= and {word}=, and melt a wide table first"
    )
