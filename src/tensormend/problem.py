"""What is to be solved: an operator, its measurements, and a multilinear rank."""

from __future__ import annotations

import math
from dataclasses import dataclass
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

    Measurements and iterates share one data type, that of ``y`` joined with the operator's.
    """

    operator: Operator
    y: Array
    rank: tuple[int, ...]

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
        object.__setattr__(self, "y", np.ascontiguousarray(y, dtype=dtype))
        if not self.y.any():
            raise InputError("measurements must hold at least one nonzero value, got zeros only")

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes of the tensor sought."""
        return self.operator.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of measurements and iterates."""
        return self.y.dtype

    @cached_property
    def y_norm(self) -> float:
        """Norm of the measurements, to which residuals are relative."""
        return self.unit * float(np.linalg.norm(self.y / self.y.dtype.type(self.unit)))

    @cached_property
    def unit(self) -> float:
        """Power of two near the largest measurement; dividing by it loses no bit."""
        largest = max(float(np.abs(self.y.real).max()), float(np.abs(self.y.imag).max()))
        return 2.0 ** math.floor(math.log2(largest))

    def in_units(self) -> Problem:
        """Return the problem for ``y / unit``, whose squares neither overflow nor vanish."""
        if self.unit == 1:
            return self
        return Problem(self.operator, self.y / self.y.dtype.type(self.unit), self.rank)

    def gradient(self, x: Tucker) -> Gradient:
        """Evaluate an iterate with orthonormal factors, in one pass over the measurements."""
        pull = self.operator.pullback(x, self.y)
        tangent = TuckerTangent.from_pullback(x, pull.core, pull.factors)
        return Gradient(pull.loss, pull.scale, tangent)

    def arranged(self, lead: int, threads: int | None = None) -> Problem:
        """Return an equal problem with the measurements in the fastest order for a lead mode."""
        operator, y = self.operator.arrange(self.y, lead, threads)
        return Problem(operator, y, self.rank)
