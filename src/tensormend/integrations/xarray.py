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
    """What tensormend does with a DataArray, NaN where unknown: ``array.tensormend.fill()``."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def complete(
        self, rank: Literal["auto"] | int | Sequence[int] = "auto", **options: Any
    ) -> Completion:
        """Call `complete` on the array, with the options that it has."""
        return complete(self._array, rank, **options)

    def fill(self, rank: Literal["auto"] | int | Sequence[int] = "auto", **options: Any) -> Any:
        """Return the DataArray with its holes filled, all else as it was."""
        return self.complete(rank, **options).data
