"""`as_observations`: read data of any supported kind."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from typing import Any

from tensormend.data.observations.arrays import read_array, read_entries
from tensormend.data.observations.base import Observations, Reader
from tensormend.data.observations.data import read_data
from tensormend.data.observations.labelled import read_dataarray
from tensormend.data.observations.sparse import read_coo, refuse_scipy
from tensormend.data.observations.tables import read_table
from tensormend.errors import InputError

__all__ = ["as_observations"]

ENTRIES = Reader("values with indices", read_entries, ("indices", "shape"))
ARRAY = Reader("an array", read_array, ("observed", "shape"))

READERS = (
    Reader("a TensorData", read_data, ("observed",), "tensormend"),
    Reader("a table", read_table, ("modes", "value_column"), "pandas"),
    Reader("a DataArray", read_dataarray, ("observed",), "xarray"),
    Reader("a sparse.COO", read_coo, (), "sparse"),
    Reader("a sparse array of SciPy", refuse_scipy, (), "scipy"),
)
"""Readers by library; other data are read as arrays."""

ADVICE = {
    "observed": "omit missing entries, or set them to NaN",
    "shape": "omit it",
    "modes": "it names the columns of a DataFrame",
    "value_column": "it names a column of a DataFrame",
}


def as_observations(
    data: Any,
    *,
    observed: Any = None,
    indices: Any = None,
    shape: Sequence[int] | None = None,
    modes: Sequence[Hashable] | None = None,
    value_column: Hashable | None = None,
) -> Observations:
    """Read the observed entries of a tensor from data of any supported kind.

    Parameters
    ----------
    data : array_like, TensorData, DataArray, Series, DataFrame or sparse.COO
        An array or ``xarray.DataArray`` with NaN at missing entries, or with ``observed``; a
        ``numpy.ma`` array, masked at missing entries; a vector of values with ``indices`` and
        ``shape``; a pandas Series with a MultiIndex or a long DataFrame, where rows of missing
        entries are left out or NaN; a ``sparse.COO``, whose stored entries are observed; a
        `TensorData`, as returned by `load`.
    observed : array_like of bool, default=None
        True where ``data`` is observed, in the shape of ``data``: the opposite of the mask of a
        ``numpy.ma`` array. Where it is false, ``data`` may have any value.
    indices : array_like of int, shape (m, d), default=None
        Indices of the values, if ``data`` is a vector of values.
    shape : sequence of int, default=None
        Shape of the tensor; required with ``indices``.
    modes : sequence of hashable, default=None
        Columns of a DataFrame with the labels of each mode; by default all except that of the
        values.
    value_column : hashable, default=None
        Column of a DataFrame with the values; by default the last.

    Returns
    -------
    Observations
        Indices and values of the observed entries, the shape, and the container that returns
        results in the same kind of data.

    Raises
    ------
    InputError
        If ``data`` is of no supported kind, has no observed entry, or an option does not go with
        this kind of data.

    Notes
    -----
    The labels of a mode of a table are those that occur, in the sort order of pandas; of a
    categorical column they are all categories, in their order. Integers and booleans are converted
    to float64, which rounds integers above 2**53.

    Examples
    --------
    >>> observations = as_observations([[1.0, float("nan")], [3.0, 4.0]])
    >>> observations.shape, observations.values
    ((2, 2), array([1., 3., 4.]))
    """
    if isinstance(data, str | os.PathLike):
        name = os.fspath(data)
        raise InputError(
            f"data must be an array, a table or a TensorData, got the name {name!r}; load the file "
            f"first: tm.complete(tm.load({name!r}))"
        )
    options = {
        "observed": observed,
        "indices": indices,
        "shape": shape,
        "modes": modes,
        "value_column": value_column,
    }
    given = {name: option for name, option in options.items() if option is not None}
    reader = ENTRIES if indices is not None else _find_reader(data)
    for name in given:
        if name not in reader.takes:
            raise InputError(f"{name} does not go with {reader.name}; {ADVICE[name]}")
    return reader.read(data, **given)


def _find_reader(data: Any) -> Reader:
    libraries = {cls.__module__.partition(".")[0] for cls in type(data).__mro__}
    return next((reader for reader in READERS if reader.library in libraries), ARRAY)
