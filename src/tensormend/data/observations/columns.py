"""Find the columns of labels and of values in a long table."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, NoReturn

import numpy as np

from tensormend.core.algebra import Array
from tensormend.errors import DataWarning, InputError, warn_user

__all__ = ["choose_columns", "refuse_fractions", "warn_wide"]

MANY = 20  # minimum number of rows, and of labels of a column, for a wide table to be detected


def choose_columns(
    columns: Sequence[Hashable],
    modes: Sequence[Hashable] | None,
    value_column: Hashable | None,
    option: str = "value_column",
) -> tuple[tuple[Hashable, ...], Hashable]:
    """Return the columns of labels and that of values, by default the last.

    ``option`` is the name of the option for the column of values, in messages.

    Examples
    --------
    >>> choose_columns(["city", "day", "load"], None, None)
    (('city', 'day'), 'load')
    """
    columns = list(columns)
    if len(set(columns)) != len(columns):
        raise InputError(f"columns must have distinct names, got {columns}; rename them")
    if isinstance(modes, str):
        raise InputError(
            f"modes must be a list of column names, got the string {modes!r}; put it in brackets"
        )
    given = (*(modes or ()), *(() if value_column is None else (value_column,)))
    unknown = [name for name in given if name not in columns]
    if unknown:
        raise InputError(
            f"modes and {option} must be columns of the table, {columns}, got {unknown}; "
            "check the names"
        )
    rest = [name for name in columns if name not in (modes or ())]
    if value_column is None:
        if modes is not None and len(rest) != 1:
            raise InputError(
                f"{option} must name one of the columns {rest}, got none; give {option}=",
                parameter=option,
            )
        value_column = rest[-1] if rest else None
    if modes is None:
        modes = [name for name in columns if name != value_column]
    names = tuple(modes)
    if len(names) < 2 or len({*names, value_column}) != len(names) + 1:
        advice = "; select the column of values as a Series if the labels are a MultiIndex"
        raise InputError(
            f"a long table must have two or more columns of labels and another of values, got "
            f"{list(names)} and {value_column!r}{advice if option == 'value_column' else ''}"
        )
    return names, value_column


def refuse_fractions(name: Hashable, option: str = "value_column") -> NoReturn:
    """Refuse a column of fractions as labels unless ``modes`` names it: the table may be wide."""
    raise InputError(
        f"columns of labels must be given by modes= if they hold fractions, as {name!r} does; "
        f"give modes= and {option}=, and melt a wide table first",
        parameter="modes",
    )


def warn_wide(
    names: Sequence[Hashable], indices: Array, labels: Sequence[Any], option: str = "value_column"
) -> None:
    """Warn if integers that were read as labels may be measurements of a wide table.

    The warning is issued if the columns before them identify every row and fill at least half of
    the grid of their labels, as locations and times of a wide table do. Users and items fill a
    much smaller part, and entries sampled at random repeat some combinations.

    Parameters
    ----------
    names : sequence of hashable
        Names of the columns of labels.
    indices : ndarray of shape (m, d)
        Indices of the labels of each row.
    labels : sequence of ndarray or pandas.Index
        Labels of each column.
    option : str, default='value_column'
        Name of the option for the column of values, in the message.
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
        f"the integers of column {names[k]!r} are read as labels, but may be measurements, since "
        f"{list(names[:k])} identify all {len(indices)} rows; melt a wide table, or give the "
        f"columns of labels by modes= and that of values by {option}=",
        DataWarning,
    )
