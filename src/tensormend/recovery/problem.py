"""What is to be solved: an operator, its measurements, and a multilinear rank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tensormend.core import kernels
from tensormend.core.algebra import Array, as_rank, is_inexact, norm, power_of_two
from tensormend.core.manifold import TuckerTangent
from tensormend.core.truncate import thosvd
from tensormend.core.tucker import Tucker
from tensormend.errors import InputError
from tensormend.operators import Operator
from tensormend.operators.base import check_contract

__all__ = ["Problem", "TangentGradient"]

# Sizes up to which, and down to the inverse of which, eighth powers of measurements and sums of
# many of them are far from the limits of the data type, by its bits.
ORDINARY = {32: 2.0**8, 64: 2.0**64}
TYPES = {"f": ("float32", "float64"), "c": ("complex64", "complex128")}  # of measurements


class TangentGradient(NamedTuple):
    """Loss at an iterate, ``||G||`` of ``G = A*(y - A(x))``, and its projection on the tangent."""

    loss: float
    gradient_norm: float
    tangent: TuckerTangent


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimize ``||A(x) - y||^2 / 2`` over tensors of a multilinear rank.

    ``dtype``, the type of the iterates and of all sums, is that of ``y`` joined with the
    operator's; the measurements have it too, unless `with_measurement_dtype` has rounded
    them. ``magnitude`` is the power of two below their largest.

    Parameters
    ----------
    operator : Operator
        Measurement operator ``A``.
    y : ndarray
        Measurements, one per row of the operator.
    rank : tuple of int
        Multilinear rank of the tensor sought, one int per mode.

    Raises
    ------
    InputError
        If the measurements are not finite, all zero, or not one per row of the operator.
    """

    operator: Operator
    y: Array
    rank: tuple[int, ...]
    dtype: np.dtype[Any] = field(init=False, repr=False)
    magnitude: float = field(init=False, repr=False)
    _square: float | None = field(init=False, repr=False)  # of the norm of y, where it is known

    def __post_init__(self) -> None:
        check_contract(self.operator)
        y = np.asarray(self.y)
        if y.dtype.kind not in "biufc":
            raise InputError(f"y must hold numbers, got an array of {y.dtype}")
        if y.shape != (self.operator.n_measurements,):
            raise InputError(
                f"y must hold one value per measurement, shape ({self.operator.n_measurements},), "
                f"got shape {y.shape}"
            )
        tensor, measured = self.operator.tensor_dtype, self.operator.measurement_dtype
        dtype = np.result_type(y.dtype, tensor, measured)
        if not is_inexact(dtype):
            dtype = np.dtype(np.complex128 if dtype.kind == "c" else np.float64)
        y = np.ascontiguousarray(y, dtype=dtype)
        if measured.kind == "c" and tensor.kind != "c":
            dtype = y.real.dtype
        largest, square = kernels.survey(y, self.threads)
        if not np.isfinite(largest):
            bad = ~np.isfinite(y)
            raise InputError(
                f"y must be finite, got {int(bad.sum())} NaN or infinite values (first at "
                f"position {int(np.argmax(bad))}); drop these measurements"
            )
        if not largest:
            raise InputError("measurements must hold at least one nonzero value, got zeros only")
        object.__setattr__(self, "rank", as_rank(self.rank, self.operator.tensor_shape))
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "y", y)
        object.__setattr__(self, "_square", square)
        object.__setattr__(self, "magnitude", power_of_two(largest))

    def _with(
        self,
        operator: Operator,
        y: Array,
        *,
        rank: tuple[int, ...] | None = None,
        magnitude: float | None = None,
        square: float | None = None,
    ) -> Problem:
        """Return the problem with other measurements that need no checking."""
        out = object.__new__(Problem)
        for name, value in (
            ("operator", operator),
            ("y", y),
            ("rank", rank or self.rank),
            ("dtype", self.dtype),
            ("magnitude", magnitude or self.magnitude),
            ("_square", square),
        ):
            object.__setattr__(out, name, value)
        return out

    @property
    def threads(self) -> int:
        """Threads of the operator, 1 where it does not say."""
        return int(getattr(self.operator, "threads", 1))

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes of the tensor sought."""
        return self.operator.tensor_shape

    @property
    def n_measurements(self) -> int:
        """Number of measurements."""
        return self.operator.n_measurements

    @cached_property
    def y_norm(self) -> float:
        """Norm of the measurements, to which residuals are relative."""
        if self.unit == 1 and self._square is not None:
            return math.sqrt(self._square)
        y = self.y if self.unit == 1 else self.y / self.y.dtype.type(self.unit)
        return self.unit * norm(y)

    @property
    def unit(self) -> float:
        """What measurements are to be divided by lest powers of them overflow or vanish.

        A power of two, so that no bit is lost; 1 where the measurements are of ordinary size.
        """
        widest = ORDINARY[np.finfo(self.dtype).bits]
        return 1.0 if 1 / widest <= self.magnitude <= widest else self.magnitude

    def in_units(self) -> Problem:
        """Return the problem for ``y / unit``.

        Returns
        -------
        Problem
            An equivalent problem, or the problem itself where ``unit`` is 1.
        """
        if self.unit == 1:
            return self
        return self._with(self.operator, self.y / self.y.dtype.type(self.unit), magnitude=1.0)

    def with_rank(self, rank: tuple[int, ...]) -> Problem:
        """Return the problem for another rank.

        Parameters
        ----------
        rank : tuple of int
            Multilinear rank of the tensor sought, one int per mode.

        Returns
        -------
        Problem
            The same problem for that rank.
        """
        rank = as_rank(rank, self.shape)
        return self._with(self.operator, self.y, rank=rank, square=self._square)

    def with_measurement_dtype(self, dtype: Any) -> Problem:
        """Return the problem with its measurements rounded to another data type.

        Iterates and sums keep ``dtype`` of the problem. Indices along the leaf mode take 16 bits
        where the size allows.

        Parameters
        ----------
        dtype : data type
            Type float32 or float64 for real problems, complex64 or complex128 for complex ones, at
            most as wide as the problem's.

        Returns
        -------
        Problem
            The problem with its measurements rounded to another data type.

        Raises
        ------
        InputError
            If the type is another one, or cannot hold the measurements.
        """
        try:
            dtype = np.dtype(dtype)
        except TypeError:
            raise InputError(
                f"measurement_dtype must be a data type such as numpy.float32, got {dtype!r}"
            ) from None
        allowed = [name for name in TYPES[self.y.dtype.kind] if np.dtype(name) <= self.y.dtype]
        if dtype.name not in allowed:
            raise InputError(
                f"measurement_dtype must be one of {' or '.join(allowed)} for a problem of "
                f"{self.dtype}, got {dtype}"
            )
        if np.finfo(dtype).bits == 32 and not 2.0**-100 < self.magnitude < 2.0**100:
            raise InputError(
                f"measurement_dtype={dtype} is for measurements that single precision can hold, "
                f"got some of size {self.magnitude:.1g}; divide them by that first, or leave "
                "measurement_dtype out"
            )
        return self._with(*self.operator.prepare(self.y, dtype=dtype))

    def initial_point(self, x0: Tucker | None) -> Tucker:
        """Bring ``x0`` to the rank, with orthonormal factors; without one, make ``H_r(A* y)``.

        Parameters
        ----------
        x0 : Tucker or None
            Initial tensor; ``None`` for the initialization of the method itself.

        Returns
        -------
        Tucker
            Tensor of the rank of the problem, with orthonormal factors.
        """
        if x0 is None:
            return thosvd(self.operator.adjoint_tensor(self.y), self.rank)
        return x0 if x0.rank == self.rank and x0.is_orthonormal() else thosvd(x0, self.rank)

    def gradient(self, x: Tucker) -> TangentGradient:
        """Evaluate an iterate with orthonormal factors, in one pass over the measurements.

        Parameters
        ----------
        x : Tucker
            Tensor with orthonormal factors.

        Returns
        -------
        TangentGradient
            Loss, norm of the gradient, and its projection onto the tangent space.
        """
        found = self.operator.gradient(x, self.y)
        tangent = TuckerTangent.from_products(x, found.core, found.factors)
        return TangentGradient(found.loss, found.gradient_norm, tangent)

    def arranged(self, modes: Sequence[int], threads: int | None = None) -> Problem:
        """Return an equal problem with the measurements in the order of a tree over the modes.

        Parameters
        ----------
        modes : sequence of int
            Modes in the order wanted, each once.
        threads : int, optional
            Number of threads; all cores by default.

        Returns
        -------
        Problem
            An equivalent problem.
        """
        prepared = self.operator.prepare(self.y, storage_order=modes, threads=threads)
        return self._with(*prepared, square=self._square)
