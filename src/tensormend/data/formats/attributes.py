"""Attributes of arrays in files: fill values, units of dates, conversion to plain values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensormend.core.algebra import Array
from tensormend.data.observations.base import decode_text

__all__ = ["FILLS", "decode_labels", "encode_labels", "find_fills", "plain", "unique_names"]

FILLS = ("_FillValue", "missing_value", "fill_value")
"""Attributes with the value that marks missing entries."""

UNITS = {
    "W": "weeks",
    "D": "days",
    "h": "hours",
    "m": "minutes",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
}
SINCE = re.compile(
    r"(?P<unit>\w+) since (?P<day>\d{4}-\d\d-\d\d)([T ](?P<time>\d\d:\d\d(:\d\d)?)(\.0+)?)?"
    r"( ?(Z|UTC|\+00:00))?"
)
CALENDARS = ("standard", "gregorian", "proleptic_gregorian")


def find_fills(values: Array, attributes: Mapping[str, Any]) -> Array | None:
    """Return which values are no fill values; ``None`` if no attribute gives one.

    Examples
    --------
    >>> find_fills(np.array([1, -9]), {"_FillValue": -9})
    array([ True, False])
    """
    observed = None
    for name in FILLS:
        fills = np.ravel(np.asarray(attributes.get(name, ())))
        if fills.dtype.kind not in "biufc":
            continue
        for fill in fills:
            # rounded to the type of the values: 1e20 in single precision is another number
            same = fill.astype(values.dtype) if values.dtype.kind in "fc" else fill
            differs = np.asarray(values != same)
            observed = differs if observed is None else observed & differs
    return observed


def encode_labels(labels: Array) -> tuple[Array, dict[str, str]]:
    """Return labels as numbers or strings, and attributes; dates become numbers with units.

    Examples
    --------
    >>> encode_labels(np.array(["1970-01-03"], dtype="M8[D]"))[1]["units"]
    'days since 1970-01-01'
    """
    if labels.dtype.kind not in "mM":
        return labels, {}
    unit = np.datetime_data(labels.dtype)[0]
    unit = unit if unit in UNITS else "D" if unit in ("Y", "M") else "ns"
    numbers = labels.astype(f"{labels.dtype.kind}8[{unit}]").astype(np.int64)
    if labels.dtype.kind == "m":
        return numbers, {"units": UNITS[unit]}
    units = f"{UNITS[unit]} since 1970-01-01"
    return numbers, {"units": units, "calendar": "proleptic_gregorian"}


def decode_labels(labels: Array, attributes: Mapping[str, Any]) -> Array:
    """Convert integers with units such as ``days since 1970-01-01`` to dates.

    Examples
    --------
    >>> str(decode_labels(np.array([2]), {"units": "days since 1999-12-30"})[0])
    '2000-01-01'
    """
    units = SINCE.fullmatch(str(attributes.get("units", "")).strip())
    calendar = str(attributes.get("calendar", "standard")).lower()
    words = {word: unit for unit, word in UNITS.items()}
    unit = None if units is None else words.get(units["unit"].lower().removesuffix("s") + "s")
    if units is None or unit is None or calendar not in CALENDARS:
        return labels
    if labels.dtype.kind == "f" and bool(np.all(labels == np.round(labels))):
        labels = labels.astype(np.int64)
    if labels.dtype.kind not in "iu":
        return labels
    start = np.datetime64(units["day"])
    if units["time"] and units["time"].strip("0:"):
        start = np.datetime64(f"{units['day']}T{units['time']}")
    return np.asarray(start + labels.astype(np.int64).astype(f"m8[{unit}]"))


def plain(attributes: Mapping[str, Any], *, leave_out: Sequence[str] = ()) -> dict[str, Any]:
    """Return attributes as strings, numbers or arrays of these; other types become strings.

    Examples
    --------
    >>> plain({"units": b"K", "range": (0, 2), "observed": "m"}, leave_out=["observed"])
    {'units': 'K', 'range': array([0, 2])}
    """
    return {str(key): _plain(part) for key, part in attributes.items() if key not in leave_out}


def _plain(part: Any) -> Any:
    if isinstance(part, bytes):
        return decode_text(part)
    if isinstance(part, np.generic):
        part = part.item() if part.dtype.kind in "biufcUS" else str(part)
        return decode_text(part) if isinstance(part, bytes) else part
    if isinstance(part, str | bool | int | float | complex):
        return part
    if isinstance(part, np.ndarray | list | tuple):
        try:
            array = np.asarray(part)
        except ValueError:  # nested lists of different lengths
            return str(part)
        if array.dtype.kind in "biufcU":
            return array
        if array.dtype.kind in "SOT" and all(isinstance(one, str | bytes) for one in array.flat):
            return np.array([_plain(one) for one in array.flat], dtype=str).reshape(array.shape)
    return str(part)


def unique_names(names: Sequence[str], *, taken: Sequence[str] = ()) -> tuple[str, ...]:
    """Return distinct names without ``/``, which separates groups in the path of an array.

    Examples
    --------
    >>> unique_names(["x", "x", "km/h"])
    ('x', 'x_1', 'km_h')
    """
    out: list[str] = []
    for name in names:
        stem = name.strip().replace("/", "_").strip(".") or "mode"
        tries = (stem, *(f"{stem}_{k}" for k in range(1, len(names) + len(taken) + 1)))
        out.append(next(one for one in tries if one not in out and one not in taken))
    return tuple(out)
