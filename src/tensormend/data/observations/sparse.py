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
    """A sparse.COO; it is returned with its fill value and every entry stored."""

    words: ClassVar[str] = "a sparse.COO"
    fill_value: Any

    def wrap(self, block: Array, keys: Keys) -> Any:
        """Return a block of values as a sparse.COO."""
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
        """Return the bytes of one entry: its value and an integer per mode."""
        return dtype.itemsize + order * np.dtype(np.intp).itemsize


def read_coo(data: Any) -> Observations:
    """Read the stored entries; NaN is missing."""
    import sparse

    if not isinstance(data, sparse.COO):
        raise InputError(
            f"a sparse array must be a sparse.COO, got {type(data).__name__}; convert it with "
            "sparse.COO(data)"
        )
    if not (data.fill_value == 0 or np.isnan(data.fill_value)):
        raise InputError(
            f"a sparse.COO must have the fill value 0 or NaN for missing entries, got "
            f"{data.fill_value}; give its values with indices= and shape="
        )
    values = as_numbers(data.data)
    observed = ~np.isnan(values)
    indices = data.coords.T[observed]
    container = CooContainer(data.fill_value)
    return Observations(indices, values[observed], as_shape(data.shape), container)


def refuse_scipy(data: Any) -> NoReturn:
    """Refuse sparse arrays of SciPy, whose stored entries need not be the observed ones."""
    raise InputError(
        f"a sparse array must be a sparse.COO, whose stored entries are observed, got a "
        f"{type(data).__name__} of SciPy; convert it with sparse.COO(data)"
    )
