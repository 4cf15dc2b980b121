"""`as_observations`: one reader for every kind of data."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from typing import Any

from tensormend.data.observations.arrays import read_array, read_entries
from tensormend.data.observations.base import Observations
from tensormend.data.observations.data import TensorData, read_data
from tensormend.data.observations.labelled import read_dataarray
from tensormend.data.observations.sparse import read_coo
from tensormend.data.observations.tables import read_table
from tensormend.errors import InputError

__all__ = ["as_observations"]

ADVICE = {
    "mask": "leave unknown entries out, or make them NaN",
    "shape": "leave it out",
    "modes": "it names the columns of a DataFrame",
    "value": "it names a column of a DataFrame",
}


def as_observations(
    data: Any,
    *,
    mask: Any = None,
    indices: Any = None,
    shape: Sequence[int] | None = None,
    modes: Sequence[Hashable] | None = None,
    value: Hashable | None = None,
) -> Observations:
    """Read what is known of a tensor from data of any accepted kind.

    Parameters
    ----------
    data : an array or ``xarray.DataArray`` with NaN where unknown, or with ``mask``; a
        ``numpy.ma`` array, masked where unknown; a vector of values with ``indices`` and
        ``shape``; a pandas Series with a MultiIndex or a long DataFrame, rows left out or NaN
        where unknown; a ``sparse.COO``, whose stored entries are known; a `TensorData`, as files
        are loaded
    mask : boolean array, true where ``data`` is known; NaN may stand where it is false
    indices : ``m x d`` integers, the places of the values
    shape : shape of the tensor, with ``indices``
    modes, value : columns of a DataFrame that hold the labels of each mode and the values; by
        default the last column holds the values and all others labels

    Notes
    -----
    The labels of a table are those that occur, sorted as pandas sorts them; a categorical has all
    its categories, in their order. Integers and booleans become float64 numbers, so that integers
    beyond 2**53 are rounded.

    Examples
    --------
    >>> known = as_observations([[1.0, float("nan")], [3.0, 4.0]])
    >>> known.shape, known.values
    ((2, 2), array([1., 3., 4.]))
    """
    if isinstance(data, str | os.PathLike):
        name = os.fspath(data)
        raise InputError(
            f"data must be an array, a table or what load returns, got the name {name!r}; load it "
            f"first: tm.complete(tm.load({name!r}))"
        )
    # by the names of the libraries, so that none has to be imported
    families = {cls.__module__.partition(".")[0] for cls in type(data).__mro__}
    if indices is not None:
        _refuse("values with indices", mask=mask, modes=modes, value=value)
        return read_entries(data, indices, shape)
    if "pandas" in families:
        _refuse("a table", mask=mask, shape=shape)
        return read_table(data, modes, value)
    _refuse("an array", modes=modes, value=value)
    if isinstance(data, TensorData):
        _refuse("a TensorData", shape=shape)
        return read_data(data, mask)
    if "xarray" in families:
        _refuse("a DataArray", shape=shape)
        return read_dataarray(data, mask)
    if "sparse" in families:
        _refuse("a sparse.COO", mask=mask, shape=shape)
        return read_coo(data)
    if "scipy" in families:
        raise InputError(
            f"a sparse array must be a sparse.COO, whose stored entries are known, got scipy's "
            f"{type(data).__name__}; convert it with sparse.COO(data)"
        )
    return read_array(data, mask, shape)


def _refuse(what: str, **options: Any) -> None:
    for name, given in options.items():
        if given is not None:
            raise InputError(f"{name} does not go with {what}; {ADVICE[name]}")
