"""Observed entries of a tensor that is small enough to be formed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tensormend.core.algebra import (
    DEFAULT_MEMORY_LIMIT,
    Array,
    as_shape,
    check_memory,
    is_inexact,
    multi_mode_product,
    squared_norm,
)
from tensormend.core.fibres import check_indices
from tensormend.core.tucker import Tucker
from tensormend.errors import InputError
from tensormend.operators.base import Operator

__all__ = ["DenseSampling"]


class DenseSampling(Operator):
    """Observe some entries of a tensor, by products with the whole of it.

    The same measurements as `Sampling`. Where most entries are seen, or the ranks are near the
    sizes of the modes, dense products are faster than a pass over the entries, and take memory for
    a few copies of the whole tensor.

    Parameters
    ----------
    shape : sizes of the modes
    indices : ``m x d`` integers, each entry once, in any order; measurements keep that order
    dtype : data type of the measurements

    Examples
    --------
    >>> operator = DenseSampling((2, 3), [[1, 2], [0, 1]])
    >>> operator.forward(np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]))
    array([5., 1.])
    """

    def __init__(self, shape: Sequence[int], indices: Any, *, dtype: Any = np.float64) -> None:
        self.tensor_shape = as_shape(shape)
        self.tensor_dtype = np.dtype(dtype)
        if not is_inexact(self.tensor_dtype):
            raise InputError(
                f"dtype must be float32, float64, complex64 or complex128, got {self.tensor_dtype}"
            )
        check_memory(self.tensor_shape, self.tensor_dtype, DEFAULT_MEMORY_LIMIT, "the dense tensor")
        indices = check_indices(np.asarray(indices), self.tensor_shape)
        self.places: Array = np.ravel_multi_index(tuple(indices.T), self.tensor_shape)
        self.n_measurements = len(self.places)
        self.seen: Array = np.zeros(math.prod(self.tensor_shape), dtype=bool)
        self.seen[self.places] = True
        if np.count_nonzero(self.seen) != self.n_measurements:
            raise InputError(
                f"each entry may be observed once, got {self.n_measurements} indices of "
                f"{np.count_nonzero(self.seen)} entries; drop or average the repeated ones"
            )

    def __repr__(self) -> str:
        return (
            f"DenseSampling(tensor_shape={self.tensor_shape}, n_measurements={self.n_measurements})"
        )

    def forward(self, x: Tucker | Array) -> Array:
        """Observe the entries of a tensor."""
        x = self._check_tensor(x)
        return np.asarray((x.todense() if isinstance(x, Tucker) else x).ravel()[self.places])

    def adjoint(self, y: Array) -> Array:
        """Put measurements back in their places, zero elsewhere."""
        y = self._check_measurements(y)
        out = np.zeros(math.prod(self.tensor_shape), dtype=y.dtype)
        out[self.places] = y
        return out.reshape(self.tensor_shape)

    def filled(self, x: Tucker, y: Array) -> tuple[float, Array]:
        """Return the loss at ``x``, and ``x`` with the data in their places."""
        whole = x.todense().ravel()
        residual = y - whole[self.places]
        whole[self.places] = y
        return 0.5 * squared_norm(residual), whole.reshape(self.tensor_shape)

    def core_gradient(self, x: Tucker, y: Array | None) -> Array:
        """Pull the residual back to the core."""
        whole = x.todense().ravel()
        if y is not None:
            whole[self.places] -= y
        whole *= self.seen
        return -multi_mode_product(whole.reshape(self.tensor_shape), x.factors, adjoint=True)
