"""Accessor for xarray: importing this module adds ``tensormend`` to every DataArray."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from tensormend.completion.entry import complete
from tensormend.completion.result import Completion
from tensormend.data.observations.labelled import register_accessor

__all__ = ["TensormendAccessor"]


@register_accessor("tensormend")
class TensormendAccessor:
    """Accessor ``array.tensormend`` of a DataArray with NaN at missing entries.

    It is registered when ``tensormend.integrations.xarray`` is imported.

    Parameters
    ----------
    array : DataArray
        The array with missing entries.

    See Also
    --------
    tensormend.complete : The function that the accessor calls.

    Examples
    --------
    >>> import xarray as xr
    >>> import tensormend.integrations.xarray
    >>> array = xr.DataArray([[1.0, 2.0], [3.0, float("nan")]], dims=("city", "year"))
    >>> array.tensormend.fill(rank=1).round(3).values.tolist()
    [[1.0, 2.0], [3.0, 6.0]]
    """

    def __init__(self, array: Any) -> None:
        self._array = array

    def complete(
        self, rank: Literal["auto"] | int | Sequence[int] = "auto", **options: Any
    ) -> Completion:
        """Complete the array by `tensormend.complete`.

        Parameters
        ----------
        rank : "auto", int or sequence of int, default="auto"
            Multilinear rank, one int per mode or one for all modes; ``"auto"`` selects a model on
            held-out entries.
        **options
            Further keyword arguments of `tensormend.complete`.

        Returns
        -------
        Completion
            Result, whose ``data`` is the completed DataArray.

        Examples
        --------
        >>> import xarray as xr
        >>> array = xr.DataArray([[1.0, 2.0], [3.0, float("nan")]], dims=("city", "year"))
        >>> array.tensormend.complete(rank=1).rank
        (1, 1)
        """
        return complete(self._array, rank, **options)

    def fill(self, rank: Literal["auto"] | int | Sequence[int] = "auto", **options: Any) -> Any:
        """Return the DataArray with its missing entries filled in.

        Parameters
        ----------
        rank : "auto", int or sequence of int, default="auto"
            Multilinear rank, one int per mode or one for all modes; ``"auto"`` selects a model on
            held-out entries.
        **options
            Further keyword arguments of `tensormend.complete`.

        Returns
        -------
        DataArray
            The completed array, with its dimensions, coordinates, attributes and name.
        """
        return self.complete(rank, **options).data
