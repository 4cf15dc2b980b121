"""Labels as text: numbers, ISO dates or words, inferred from all of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from tensormend.core.algebra import Array

__all__ = ["format_labels", "read_labels"]

# as programs write them: "007" and "1E5" are names and stay text
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
FRACTION = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]+(e[+-]?[0-9]+)?)?", re.IGNORECASE)
DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}(-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?)?)?"
)

UNITS = ("D", "m", "s", "ms", "us", "ns")  # of dates as text; an hour alone is not read


def read_labels(texts: Sequence[str]) -> tuple[Array, Array]:
    """Sort labels: numbers by number, ISO dates as ``datetime64``, others by code point.

    Returns the sorted labels and, for each text, the index of its label.

    Examples
    --------
    >>> labels, codes = read_labels(["10", "9", "-1"])
    >>> labels.tolist(), codes.tolist()
    ([-1, 9, 10], [2, 1, 0])
    """
    labels, codes = np.unique(_convert(texts), return_inverse=True)
    return labels, codes.reshape(-1)


def _convert(texts: Sequence[str]) -> Array:
    if all(map(WHOLE.fullmatch, texts)):
        return np.array(texts, dtype=object).astype(np.int64)
    if all(map(FRACTION.fullmatch, texts)):
        return np.array([float(text) for text in texts])
    if all(map(DATE.fullmatch, texts)):
        try:
            return np.array(texts, dtype="datetime64")
        except ValueError:  # such as the 30th of February
            pass
    return np.array(texts, dtype=str)


def format_labels(labels: Array) -> list[str]:
    """Write labels as text: dates with the parts that any of them needs, numbers in few digits.

    Examples
    --------
    >>> format_labels(np.array(["2024-01-31"], dtype="datetime64[ns]"))
    ['2024-01-31']
    >>> format_labels(np.array([0.1], dtype=np.float32))
    ['0.1']
    """
    if labels.dtype.kind == "M":
        return [str(text) for text in np.datetime_as_string(_shorten(labels))]
    if labels.dtype.kind == "f":  # one by one, since a list would have the digits of a double
        return [str(label) for label in labels]
    return [str(label) for label in labels.tolist()]


def _shorten(dates: Array) -> Array:
    """Return the same dates in the coarsest unit that holds them all, of those that are read."""
    if np.datetime_data(dates.dtype)[0] in ("Y", "M", "generic"):
        return dates
    units = (dates.astype(f"datetime64[{unit}]") for unit in UNITS)
    return next((short for short in units if _is_same(short, dates)), dates)


def _is_same(ours: Array, its: Array) -> bool:
    return bool(np.all((ours == its) | np.isnat(its)))
