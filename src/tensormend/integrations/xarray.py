"""Importing this module gives every ``xarray.DataArray`` an attribute ``tensormend``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from tensormend.completion.entry import complete
from tensormend.completion.result import Completion
from tensormend.data.observations.labelled import register_accessor

__all__ = ["TensormendAccessor"]


@register_accessor("tensormend")
class TensormendAccessor:
    """What tensormend does with a DataArray, NaN where unknown: ``array.tensormend.fill()``.

    Parameters
    ----------
    array : array_like
        The array that the accessor belongs to.
    """

    def __init__(self, array: Any) -> None:
        self._array = array

    def complete(
        self, rank: Literal["auto"] | int | Sequence[int] = "auto", **options: Any
    ) -> Completion:
        """Call `complete` on the array, with the options that it has.

        Parameters
        ----------
        rank : {'auto'} or int or sequence of int, default='auto'
            Multilinear rank, one int per mode or one for all modes.
        **options
            Keyword arguments of `complete`.

        Returns
        -------
        Completion
            The completed data with all that `complete` returns.
        """
        return complete(self._array, rank, **options)

    def fill(self, rank: Literal["auto"] | int | Sequence[int] = "auto", **options: Any) -> Any:
        """Return the DataArray with its holes filled, all else as it was.

        Parameters
        ----------
        rank : {'auto'} or int or sequence of int, default='auto'
            Multilinear rank, one int per mode or one for all modes.
        **options
            Keyword arguments of `complete`.

        Returns
        -------
        object
            The DataArray with its holes filled, all else as it was.
        """
        return self.complete(rank, **options).data
