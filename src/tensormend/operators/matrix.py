"""Measurements by an explicit matrix."""

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
    gaussian,
    is_inexact,
)
from tensormend.core.tucker import Tucker
from tensormend.errors import InputError
from tensormend.operators.base import Operator

__all__ = ["Matrix"]


class Matrix(Operator):
    """Measure a tensor by an ``m x prod(shape)`` matrix acting on its entries in C order.

    Examples
    --------
    >>> operator = Matrix.gaussian((3, 4, 5), 40, rng=0)
    >>> operator.forward(np.ones((3, 4, 5))).shape
    (40,)
    """

    def __init__(self, matrix: Any, shape: Sequence[int]) -> None:
        self.shape = as_shape(shape)
        matrix = np.asarray(matrix)
        if matrix.ndim != 2 or matrix.shape[1] != math.prod(self.shape) or len(matrix) < 1:
            raise InputError(
                f"matrix must have {math.prod(self.shape)} columns, one per entry of a tensor of "
                f"shape {self.shape}, got shape {matrix.shape}"
            )
        if not is_inexact(matrix.dtype):
            matrix = matrix.astype(np.float64)
        if not np.isfinite(matrix).all():
            raise InputError("matrix must be finite, got NaN or infinite entries")
        self.matrix: Array = matrix
        self.size = matrix.shape[0]
        self.dtype = matrix.dtype

    @classmethod
    def gaussian(
        cls,
        shape: Sequence[int],
        size: int,
        *,
        rng: int | np.random.Generator | None = None,
        dtype: Any = np.float64,
    ) -> Matrix:
        """Independent Gaussian entries of variance ``1/size``, so that the mean of A*A is I."""
        rng, dtype = np.random.default_rng(rng), np.dtype(dtype)
        full = cls._check_size(shape, size, dtype)
        variance = size * (2 if dtype.kind == "c" else 1)
        return cls(gaussian(full, rng, dtype) / dtype.type(math.sqrt(variance)), shape)

    @classmethod
    def rademacher(
        cls,
        shape: Sequence[int],
        size: int,
        *,
        rng: int | np.random.Generator | None = None,
        dtype: Any = np.float64,
    ) -> Matrix:
        """Independent signs over ``sqrt(size)``, so that the mean of A*A is I."""
        full = cls._check_size(shape, size, np.dtype(dtype))
        signs = np.random.default_rng(rng).integers(0, 2, full, dtype=np.int8)
        return cls((2 * signs - 1).astype(dtype) / np.dtype(dtype).type(math.sqrt(size)), shape)

    @staticmethod
    def _check_size(shape: Sequence[int], size: int, dtype: np.dtype[Any]) -> tuple[int, int]:
        if size < 1:
            raise InputError(f"size must be 1 measurement or more, got {size}")
        full = (int(size), math.prod(as_shape(shape)))
        check_memory(full, dtype, DEFAULT_MEMORY_LIMIT, "the measurement matrix")
        return full

    def __repr__(self) -> str:
        return f"Matrix(shape={self.shape}, size={self.size}, dtype={self.dtype})"

    def forward(self, x: Tucker | Array) -> Array:
        """Multiply the entries of a tensor by the matrix."""
        x = self._check_tensor(x)
        return np.asarray(self.matrix @ (x.dense() if isinstance(x, Tucker) else x).ravel())

    def adjoint(self, y: Array) -> Array:
        """Multiply measurements by the conjugate transpose."""
        y = self._check_measurements(y)
        # conj(y)^T A read as a vector avoids a conjugated copy of the matrix
        return np.asarray(y.conj() @ self.matrix).conj().reshape(self.shape)
