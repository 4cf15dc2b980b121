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

__all__ = ["MatrixOperator"]


class MatrixOperator(Operator):
    """Measure a tensor by an ``m x prod(shape)`` matrix acting on its entries in C order.

    Parameters
    ----------
    matrix : array_like
        Matrix with one row per measurement and ``prod(tensor_shape)`` columns.
    shape : sequence of int
        Sizes of the modes.

    Raises
    ------
    InputError
        If the matrix does not have one column per entry of the tensor, or is not finite.

    Examples
    --------
    >>> operator = MatrixOperator.gaussian((3, 4, 5), 40, rng=0)
    >>> operator.forward(np.ones((3, 4, 5))).shape
    (40,)
    """

    def __init__(self, matrix: Any, shape: Sequence[int]) -> None:
        self.tensor_shape = as_shape(shape)
        matrix = np.asarray(matrix)
        if matrix.ndim != 2 or matrix.shape[1] != math.prod(self.tensor_shape) or len(matrix) < 1:
            raise InputError(
                f"matrix must have {math.prod(self.tensor_shape)} columns, one per entry of a "
                f"tensor of shape {self.tensor_shape}, got shape {matrix.shape}"
            )
        if not is_inexact(matrix.dtype):
            matrix = matrix.astype(np.float64)
        if not np.isfinite(matrix).all():
            raise InputError("matrix must be finite, got NaN or infinite entries")
        self.matrix: Array = matrix
        self.n_measurements = matrix.shape[0]
        self.tensor_dtype = matrix.dtype

    @classmethod
    def gaussian(
        cls,
        shape: Sequence[int],
        n_measurements: int,
        *,
        rng: int | np.random.Generator | None = None,
        dtype: Any = np.float64,
    ) -> MatrixOperator:
        """Independent Gaussian entries of variance 1/n_measurements: the mean of A*A is I.

        Parameters
        ----------
        shape : sequence of int
            Sizes of the modes.
        n_measurements : int
            Number of measurements.
        rng : int or Generator, optional
            Generator, or seed of one.
        dtype : dtype, default=float64
            Data type of the result.

        Returns
        -------
        MatrixOperator
            Operator with independent Gaussian entries of variance ``1 / n_measurements``.
        """
        rng, dtype = np.random.default_rng(rng), np.dtype(dtype)
        full = cls._check_size(shape, n_measurements, dtype)
        variance = n_measurements * (2 if dtype.kind == "c" else 1)
        return cls(gaussian(full, rng, dtype) / dtype.type(math.sqrt(variance)), shape)

    @classmethod
    def rademacher(
        cls,
        shape: Sequence[int],
        n_measurements: int,
        *,
        rng: int | np.random.Generator | None = None,
        dtype: Any = np.float64,
    ) -> MatrixOperator:
        """Draw random signs over ``sqrt(n_measurements)``: the mean of ``A*A`` is ``I``.

        Parameters
        ----------
        shape : sequence of int
            Sizes of the modes.
        n_measurements : int
            Number of measurements.
        rng : int or Generator, optional
            Generator, or seed of one.
        dtype : dtype, default=float64
            Data type of the result.

        Returns
        -------
        MatrixOperator
            Operator with independent entries ``+-1 / sqrt(n_measurements)``.
        """
        full = cls._check_size(shape, n_measurements, np.dtype(dtype))
        signs = np.random.default_rng(rng).integers(0, 2, full, dtype=np.int8)
        return cls(
            (2 * signs - 1).astype(dtype) / np.dtype(dtype).type(math.sqrt(n_measurements)), shape
        )

    @staticmethod
    def _check_size(
        shape: Sequence[int], n_measurements: int, dtype: np.dtype[Any]
    ) -> tuple[int, int]:
        if n_measurements < 1:
            raise InputError(f"n_measurements must be 1 or more, got {n_measurements}")
        full = (int(n_measurements), math.prod(as_shape(shape)))
        check_memory(full, dtype, DEFAULT_MEMORY_LIMIT, "the measurement matrix")
        return full

    def __repr__(self) -> str:
        return (
            f"MatrixOperator(tensor_shape={self.tensor_shape}, "
            f"n_measurements={self.n_measurements}, tensor_dtype={self.tensor_dtype})"
        )

    def forward(self, x: Tucker | Array) -> Array:
        """Multiply the entries of a tensor by the matrix."""
        x = self._check_tensor(x)
        return np.asarray(self.matrix @ (x.todense() if isinstance(x, Tucker) else x).ravel())

    def adjoint(self, y: Array) -> Array:
        """Multiply measurements by the conjugate transpose."""
        y = self._check_measurements(y)
        # conj(y)^T A read as a vector avoids a conjugated copy of the matrix
        return np.asarray(y.conj() @ self.matrix).conj().reshape(self.tensor_shape)

    def rows(self, subset: Any) -> MatrixOperator:
        """Return the operator of some rows of the matrix."""
        return MatrixOperator(self.matrix[self._positions(subset)], self.tensor_shape)
