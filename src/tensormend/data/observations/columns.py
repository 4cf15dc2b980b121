"""Which columns of a long table hold labels, and which the values."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, NoReturn

import numpy as np

from tensormend.core.algebra import Array
from tensormend.errors import DataWarning, InputError, warn_user

__all__ = ["choose_columns", "refuse_fractions", "warn_wide"]

MANY = 20  # labels of a column, or rows of a table, from which on a wide table is detected


def choose_columns(
    columns: Sequence[Hashable],
    modes: Sequence[Hashable] | None,
    value: Hashable | None,
    word: str = "value_column",
) -> tuple[tuple[Hashable, ...], Hashable]:
    """Return the columns of labels and that of values, by default the last.

    ``word`` is what the option that names the column of values is called.

    Examples
    --------
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
            raise InputError(
                f"{word} must name one of the columns {rest}, got none; give {word}=",
                parameter=word,
            )
        value = rest[-1] if rest else None
    names = tuple(name for name in columns if name != value) if modes is None else tuple(modes)
    if len(names) < 2 or len({*names, value}) != len(names) + 1:
        advice = "; for values under a MultiIndex give that column, a Series"
        raise InputError(
            f"a long table must have two or more columns of labels and another of values, got "
            f"{list(names)} and {value!r}{advice if word == 'value_column' else ''}"
        )
    return names, value


def refuse_fractions(name: Hashable, word: str = "value_column") -> NoReturn:
    """Refuse fractions as labels that nobody asked for: most likely the table is wide."""
    raise InputError(
        f"columns of labels must be named where they hold fractions, as {name!r} does; "
        f"give modes= and {word}=, and melt a wide table first",
        parameter="modes",
    )


def warn_wide(
    names: Sequence[Hashable], indices: Array, labels: Sequence[Any], word: str = "value_column"
) -> None:
    """Warn of whole numbers that were taken for labels and may be measurements.

    They may be if the columns before them identify the rows already and fill at least half of
    the grid of their labels, as places and times of a wide table do. Users and items fill far less
    of theirs, and entries seen at random have some of its cells twice.

    Parameters
    ----------
    names : sequence of hashable
        Names of the columns of labels.
    indices : ndarray
        Per row, the places of its labels.
    labels : sequence of object
        Per column, an array or index of them.
    word : str, default='value_column'
        What the option that names the column of values is called.
    """
    sizes = [len(part) for part in labels]
    for k in range(1, len(names)):
        if len(indices) < MANY or math.prod(sizes[:k]) > 2 * len(indices):
            return
        if labels[k].dtype.kind in "iu" and sizes[k] >= MANY:
            cells = np.ravel_multi_index(tuple(indices[:, :k].T), sizes[:k])
            if np.bincount(cells).max() == 1:
                break
    else:
        return
    warn_user(
        f"the whole numbers of column {names[k]!r} are taken for labels, but look like "
        f"measurements, since {list(names[:k])} identify all {len(indices)} rows; melt a wide "
        f"table, or name the columns of labels with modes= and that of values with {word}=",
        DataWarning,
    )
