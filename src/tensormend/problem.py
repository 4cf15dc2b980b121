"""What is to be solved: an operator, its measurements, and a multilinear rank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tensormend.algebra import Array, as_rank, is_inexact
from tensormend.errors import InputError
from tensormend.manifold import TuckerTangent
from tensormend.operators import Operator
from tensormend.tucker import Tucker

__all__ = ["Gradient", "Problem"]


class Gradient(NamedTuple):
    """Loss at an iterate, ``||G||`` of ``G = A*(y - A(x))``, and its projection on the tangent."""

    loss: float
    scale: float
    tangent: TuckerTangent


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimize ``||A(x) - y||^2 / 2`` over tensors of a multilinear rank.

    ``dtype``, the type of the iterates and of all sums, is that of ``y`` joined with the
    operator's; the measurements have it too, unless `compact` has halved it.
    """

    operator: Operator
    y: Array
    rank: tuple[int, ...]
    dtype: np.dtype[Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("shape", "size", "dtype"):
            if not hasattr(self.operator, name):
                raise InputError(
                    f"an operator must set shape, size and dtype, {type(self.operator).__name__} "
                    f"has no {name}; set it in its __init__"
                )
        y = np.asarray(self.y)
        if y.dtype.kind not in "biufc":
            raise InputError(f"y must hold numbers, got an array of {y.dtype}")
        if y.shape != (self.operator.size,):
            raise InputError(
                f"y must hold one value per measurement, shape ({self.operator.size},), "
                f"got shape {y.shape}"
            )
        if not np.isfinite(y.sum()):  # without a temporary array where all is well
            bad = ~np.isfinite(y)
            if bad.any():
                raise InputError(
                    f"y must be finite, got {int(bad.sum())} NaN or infinite values (first at "
                    f"position {int(np.argmax(bad))}); drop these measurements"
                )
        object.__setattr__(self, "rank", as_rank(self.rank, self.operator.shape))
        dtype = np.result_type(y.dtype, self.operator.dtype)
        if not is_inexact(dtype):
            dtype = np.dtype(np.complex128 if dtype.kind == "c" else np.float64)
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "y", np.ascontiguousarray(y, dtype=dtype))
        if not self.y.any():
            raise InputError("measurements must hold at least one nonzero value, got zeros only")

    def _with(self, operator: Operator, y: Array) -> Problem:
        """Return the problem with other measurements that need no checking."""
        out = object.__new__(Problem)
        for name, value in (("operator", operator), ("y", y), ("rank", self.rank)):
            object.__setattr__(out, name, value)
        object.__setattr__(out, "dtype", self.dtype)
        return out

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes of the tensor sought."""
        return self.operator.shape

    @cached_property
    def y_norm(self) -> float:
        """Norm of the measurements, to which residuals are relative."""
        y = self.y if self.unit == 1 else self.y / self.y.dtype.type(self.unit)
        return self.unit * float(np.linalg.norm(y.astype(self.dtype, copy=False)))

    @cached_property
    def unit(self) -> float:
        """Power of two near the largest measurement; dividing by it loses no bit."""
        parts = (self.y.real, self.y.imag) if self.dtype.kind == "c" else (self.y,)
        largest = max(max(float(part.max()), -float(part.min())) for part in parts)
        return 2.0 ** math.floor(math.log2(largest))

    def in_units(self) -> Problem:
        """Return the problem for ``y / unit``, whose squares neither overflow nor vanish."""
        if self.unit == 1:
            return self
        return self._with(self.operator, self.y / self.y.dtype.type(self.unit))

    def with_rank(self, rank: tuple[int, ...]) -> Problem:
        """Return the problem for another rank."""
        out = self._with(self.operator, self.y)
        object.__setattr__(out, "rank", as_rank(rank, self.shape))
        return out

    def compact(self) -> Problem:
        """Return the problem in less memory, its measurements rounded to half the bits.

        float32 for float64, complex64 for complex128; iterates and sums keep the full precision.
        Lead-mode indices take 16 bits where the size allows.
        """
        half = {"f": np.float32, "c": np.complex64}[self.dtype.kind]
        if not 2.0**-100 < self.unit < 2.0**100:
            raise InputError(
                f"compact storage is for measurements that single precision can hold, got some of "
                f"size {self.unit:.1g}; divide them by that first, or leave compact out"
            )
        unit = self.y.dtype.type(self.unit)
        y = (self.y / unit).astype(half) * half(1).real.dtype.type(self.unit)
        return self._with(self.operator.compact(), y)

    def gradient(self, x: Tucker) -> Gradient:
        """Evaluate an iterate with orthonormal factors, in one pass over the measurements."""
        pull = self.operator.pullback(x, self.y)
        tangent = TuckerTangent.from_pullback(x, pull.core, pull.factors)
        return Gradient(pull.loss, pull.scale, tangent)

    def arranged(self, modes: Sequence[int], threads: int | None = None) -> Problem:
        """Return an equal problem with the measurements in the order of a tree over the modes."""
        return self._with(*self.operator.arrange(self.y, modes, threads))
