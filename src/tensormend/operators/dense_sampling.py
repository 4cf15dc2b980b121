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
    norm,
    normalize_mode,
    squared_norm,
)
from tensormend.core.fibres import check_indices
from tensormend.core.implicit import DenseTensor
from tensormend.core.tucker import Tucker
from tensormend.errors import InputError
from tensormend.operators.base import Gradient, Operator

__all__ = ["DenseSampling"]


class DenseSampling(Operator):
    """Observe some entries of a tensor, by products with the whole of it.

    The same measurements as `Sampling`. Where most entries are observed, or the ranks are near the
    sizes of the modes, dense products are faster than a pass over the entries, and take memory for
    a few copies of the whole tensor.

    Parameters
    ----------
    shape : sequence of int
        Sizes of the modes.
    indices : array_like of int, shape (m, d)
        Indices of the observed entries, each once, in any order; measurements keep that order.
    dtype : dtype, default=numpy.float64
        Data type of tensor and measurements.

    Raises
    ------
    InputError
        If an index is out of bounds or occurs twice, or the data type is not a floating or complex
        one.

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
        self.positions: Array = np.ravel_multi_index(tuple(indices.T), self.tensor_shape)
        self.n_measurements = len(self.positions)
        self.observed: Array = np.zeros(math.prod(self.tensor_shape), dtype=bool)
        self.observed[self.positions] = True
        if np.count_nonzero(self.observed) != self.n_measurements:
            raise InputError(
                f"each entry may be observed once, got {self.n_measurements} indices of "
                f"{np.count_nonzero(self.observed)} entries; drop or average the repeated ones"
            )

    def __repr__(self) -> str:
        return (
            f"DenseSampling(tensor_shape={self.tensor_shape}, n_measurements={self.n_measurements})"
        )

    def forward(self, x: Tucker | Array) -> Array:
        """Observe the entries of a tensor."""
        x = self._check_tensor(x)
        return np.asarray((x.todense() if isinstance(x, Tucker) else x).ravel()[self.positions])

    def adjoint(self, y: Array) -> Array:
        """Put measurements at their indices, zero elsewhere."""
        y = self._check_measurements(y)
        out = np.zeros(math.prod(self.tensor_shape), dtype=y.dtype)
        out[self.positions] = y
        return out.reshape(self.tensor_shape)

    def gradient(
        self, x: Tucker, y: Array | None = None, *, factors: bool = True, residual: bool = False
    ) -> Gradient:
        """Evaluate loss and gradient; that of the core alone without a list of measurements."""
        if factors or residual:
            return super().gradient(x, y, factors=factors, residual=residual)
        whole = x.todense().ravel()
        if y is not None:
            whole[self.positions] -= y
        whole *= self.observed
        core = -multi_mode_product(whole.reshape(self.tensor_shape), x.factors, adjoint=True)
        size = norm(whole)
        return Gradient(0.5 * size**2, size, core)

    def gradient_step(self, x: Tucker, y: Array) -> tuple[float, DenseTensor]:
        """Return the loss at ``x``, and ``x`` with the data in place of the observed entries."""
        whole = x.todense().ravel()
        residual = y - whole[self.positions]
        whole[self.positions] = y
        return 0.5 * squared_norm(residual), DenseTensor(whole.reshape(self.tensor_shape))

    def rows(self, subset: Any) -> DenseSampling:
        """Return the operator of some of the entries."""
        positions = self.positions[self._positions(subset)]
        indices = np.stack(np.unravel_index(positions, self.tensor_shape), axis=1)
        return DenseSampling(self.tensor_shape, indices, dtype=self.tensor_dtype)

    def unmeasured(self, mode: int) -> Array:
        """Return the indices of a mode at which no entry is observed."""
        mode = normalize_mode(mode, len(self.tensor_shape))
        others = tuple(k for k in range(len(self.tensor_shape)) if k != mode)
        return np.flatnonzero(~self.observed.reshape(self.tensor_shape).any(axis=others))
