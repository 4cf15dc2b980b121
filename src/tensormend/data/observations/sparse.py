"""`sparse.COO` arrays, whose stored entries are the observed ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np

from tensormend.core.algebra import Array, as_shape
from tensormend.data.observations.base import Container, Keys, Observations, as_numbers
from tensormend.errors import InputError

__all__ = ["read_coo", "refuse_scipy"]


@dataclass(frozen=True)
class CooContainer(Container):
    """A sparse.COO: comes back with every entry stored, and its fill value."""

    words: ClassVar[str] = "a sparse.COO"
    fill_value: Any

    def wrap(self, block: Array, keys: Keys) -> Any:
        """Put the values of a block back into a sparse.COO."""
        import sparse

        values = super().wrap(block, keys)
        return sparse.COO(
            np.indices(values.shape).reshape(values.ndim, -1),
            values.ravel(),
            shape=values.shape,
            has_duplicates=False,
            sorted=True,
            fill_value=values.dtype.type(self.fill_value),
        )

    def entry_bytes(self, dtype: np.dtype[Any], order: int) -> int:
        """Bytes that one entry takes: its value and an integer per mode."""
        return dtype.itemsize + order * np.dtype(np.intp).itemsize


def read_coo(data: Any) -> Observations:
    """Read the stored entries; those that are NaN are missing."""
    import sparse

    if not isinstance(data, sparse.COO):
        raise InputError(
            f"a sparse array must be a sparse.COO, got {type(data).__name__}; convert it with "
            "sparse.COO(data)"
        )
    if not (data.fill_value == 0 or np.isnan(data.fill_value)):
        raise InputError(
            f"a sparse.COO must have the fill value 0 or NaN, which mark missing entries, got "
            f"{data.fill_value}; give its values with indices= and shape="
        )
    values = as_numbers(data.data)
    known = ~np.isnan(values)
    indices = data.coords.T[known]
    return Observations(indices, values[known], as_shape(data.shape), CooContainer(data.fill_value))


def refuse_scipy(data: Any) -> NoReturn:
    """Refuse sparse arrays of SciPy, whose stored entries need not be the observed ones."""
    raise InputError(
        f"a sparse array must be a sparse.COO, whose stored entries are observed, got scipy's "
        f"{type(data).__name__}; convert it with sparse.COO(data)"
    )
