"""Sampling: the operator of tensor completion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from tensormend.core import kernels
from tensormend.core.algebra import (
    DEFAULT_MEMORY_LIMIT,
    Array,
    as_shape,
    check_memory,
    is_inexact,
)
from tensormend.core.fibres import Fibres
from tensormend.core.manifold import ModeTangent, TuckerTangent
from tensormend.core.truncate import SparsePlusTucker
from tensormend.core.tucker import Tucker
from tensormend.errors import InputError
from tensormend.operators.base import ModeProducts, Operator, Pullback, as_multiplier

__all__ = ["Sampling"]

EMPTY = np.empty(0)


class Sampling(Operator):
    """Observe some entries of a tensor: ``A(x) = x[indices]``, or a multiple of that.

    Parameters
    ----------
    shape : sequence of int
        Sizes of the modes.
    indices : array_like of int, shape (m, d)
        Indices of the observed entries, each once, in any order; measurements keep that order.
    norm : {None, "isotropic"}, default=None
        None is the bare projection ``P_Omega`` of the paper, for which ``A*A`` is a projection and
        the mean of ``A*A`` over random samples is ``ratio`` times the identity. ``"isotropic"``
        multiplies the entries by ``1/sqrt(ratio)``, which makes that mean the identity, as the
        theory of restricted isometries assumes. The minimizer is the same; a constant step of 1
        with the isotropic norm is a constant step of ``1/ratio`` with the bare projection. For
        another multiple write ``a * Sampling(...)``.
    leaf_mode : int, default=-1
        Mode along which the entries are stored.
    dtype : dtype, default=numpy.float64
        Data type of tensor and measurements.
    threads : int, optional
        Threads of the kernels; all cores by default.

    Examples
    --------
    >>> operator = Sampling((2, 3), [[1, 2], [0, 1]])
    >>> operator.forward(np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]))
    array([5., 1.])
    """

    def __init__(
        self,
        shape: Sequence[int],
        indices: Any,
        *,
        norm: Literal["isotropic"] | None = None,
        leaf_mode: int = -1,
        dtype: Any = np.float64,
        threads: int | None = None,
    ) -> None:
        shape = as_shape(shape)
        if not is_inexact(np.dtype(dtype)):
            raise InputError(
                f"dtype must be float32, float64, complex64 or complex128, got {np.dtype(dtype)}"
            )
        if norm not in (None, "isotropic"):
            raise InputError(
                f"norm must be 'isotropic' or None, got {norm!r}; for another multiple write "
                "a * Sampling(...)"
            )
        if np.asarray(indices).dtype == np.bool_:
            raise InputError(
                "indices must be integers, got booleans; use Sampling.from_observed(observed)"
            )
        n_threads = kernels.thread_count(threads)
        fibres, permutation = Fibres.build(shape, np.asarray(indices), leaf_mode, n_threads)
        self._set(fibres, permutation, 1.0, np.dtype(dtype), threads)
        if norm == "isotropic":
            self.multiplier = 1 / math.sqrt(self.ratio)

    def _set(
        self,
        fibres: Fibres,
        permutation: Array | None,
        multiplier: float,
        dtype: np.dtype[Any],
        threads: int | None,
    ) -> None:
        self.fibres = fibres
        self.tensor_shape = fibres.shape
        self.n_measurements = fibres.size
        self.tensor_dtype = dtype
        self.threads = kernels.thread_count(threads)
        self._permutation = permutation
        self.multiplier = multiplier

    def __mul__(self, factor: float) -> Sampling:
        multiplier = self.multiplier * as_multiplier(factor)
        out = Sampling.__new__(Sampling)
        out._set(self.fibres, self._permutation, multiplier, self.tensor_dtype, self.threads)
        return out

    __rmul__ = __mul__

    @classmethod
    def from_observed(cls, observed: Any, **options: Any) -> Sampling:
        """Observe the entries where a boolean array is true, in C order."""
        observed = np.asarray(observed)
        if observed.dtype != np.bool_:
            raise InputError(
                f"observed must be a boolean array, true where observed, got {observed.dtype}; "
                "convert with observed.astype(bool)"
            )
        return cls(observed.shape, np.argwhere(observed), **options)

    @property
    def ratio(self) -> float:
        """Fraction of the entries that is observed."""
        return self.n_measurements / math.prod(self.tensor_shape)

    @property
    def indices(self) -> Array:
        """The ``m x d`` indices, in the order of the measurements."""
        stored = self.fibres.indices()
        if self._permutation is None:
            return stored
        out = np.empty_like(stored)
        out[self._permutation] = stored
        return out

    def __repr__(self) -> str:
        return (
            f"Sampling(tensor_shape={self.tensor_shape}, n_measurements={self.n_measurements}, "
            f"ratio={self.ratio:.3g})"
        )

    def describe(self, mode: int, places: Sequence[int]) -> tuple[str, str]:
        """Name a mode and some of its places, for a message."""
        return f"mode {mode}", f"index {', '.join(map(str, places))}"

    def _stored(self, y: Array) -> Array:
        """Measurements in storage order, without the multiplier."""
        y = self._check_measurements(y)
        if self._permutation is not None:
            y = y[self._permutation]
        return y if self.multiplier == 1 else y / self.multiplier

    def _measured(self, values: Array) -> Array:
        """Bring stored entries into the order and multiple of the measurements."""
        if self.multiplier != 1:
            values = values * self.multiplier
        if self._permutation is None:
            return values
        out = np.empty_like(values)
        out[self._permutation] = values
        return out

    def forward(self, x: Tucker | Array) -> Array:
        """Observe the entries of a tensor."""
        x = self._check_tensor(x)
        if isinstance(x, Tucker):
            f = self.fibres
            core, factors = _tree_order(x, f.modes)
            values = kernels.tucker_values(f.tree, core, factors, self.threads)
            return self._measured(values)
        return self._measured(
            x[tuple(self.fibres.coordinates(k) for k in range(len(self.tensor_shape)))]
        )

    def adjoint(self, y: Array, memory_limit: float | None = DEFAULT_MEMORY_LIMIT) -> Array:
        """Put measurements back in their places, zero elsewhere."""
        y = self._check_measurements(y)
        check_memory(self.tensor_shape, y.dtype, memory_limit, "the dense adjoint")
        out = np.zeros(self.tensor_shape, dtype=y.dtype)
        where = tuple(self.fibres.coordinates(k) for k in range(len(self.tensor_shape)))
        out[where] = self._stored(y) * self.multiplier**2
        return out

    def arrange(
        self, y: Array, modes: Sequence[int], threads: int | None
    ) -> tuple[Sampling, Array]:
        """Store the entries in a tree order and bring the measurements into it."""
        y = self._check_measurements(y)
        fibres, permutation = self.fibres.arranged(modes)
        if self._permutation is not None:
            y = y[self._permutation]
        if permutation is not None:
            y = y[permutation]
        out = Sampling.__new__(Sampling)
        out._set(
            fibres,
            None,
            self.multiplier,
            self.tensor_dtype,
            self.threads if threads is None else threads,
        )
        return out, y

    def compact(self) -> Sampling:
        """Keep lead-mode indices in 16 bits where the size allows."""
        out = Sampling.__new__(Sampling)
        fibres = self.fibres.compact()
        out._set(fibres, self._permutation, self.multiplier, self.tensor_dtype, self.threads)
        return out

    def shifted(self, x: Tucker | None, step_size: float, y: Array) -> SparsePlusTucker:
        """Return ``x + step_size * A*(y)``, sparse and low-rank part kept apart."""
        weight = step_size * self.multiplier**2
        values = self._stored(y) if weight == 1 else weight * self._stored(y)
        dtype = np.result_type(values.dtype, self.tensor_dtype)
        return SparsePlusTucker(self.fibres, values, x, self.threads, dtype)

    def filled(self, x: Tucker, y: Array) -> tuple[float, SparsePlusTucker]:
        """Return the loss at ``x``, and ``x`` with the data in their places."""
        pull = self.pullback(x, y, want_residual=True)
        return pull.loss, self.shifted(x, 1.0, pull.residual)

    def core_gradient(self, x: Tucker, y: Array | None) -> Array:
        """Pull the residual back to the core in one pass."""
        return self.pullback(
            x, np.zeros(self.n_measurements, dtype=x.dtype) if y is None else y
        ).core

    def pullback(self, x: Tucker, y: Array, *, want_residual: bool = False) -> Pullback:
        """Residual, loss and Tucker pull-back in one pass over the entries."""
        return self._pull(x, y, want_residual=want_residual, subtract=True)

    def pull(self, x: Tucker, y: Array) -> Pullback:
        """Pull measurements back in one pass over the entries."""
        return self._pull(x, y, want_residual=False, subtract=False)

    def _pull(self, x: Tucker, y: Array, *, want_residual: bool, subtract: bool) -> Pullback:
        f = self.fibres
        core, factors = _tree_order(x, f.modes)
        square, core, gradients, residual = kernels.tucker_pullback(
            f.tree,
            self._stored(y),
            core,
            factors,
            want_residual=want_residual,
            subtract=subtract,
            threads=self.threads,
        )
        return self._in_mode_order(square, core, gradients, residual)

    def _in_mode_order(
        self, square: float, core: Array, gradients: list[Array], residual: Array | None
    ) -> Pullback:
        weight = self.multiplier**2
        back = [self.fibres.modes.index(k) for k in range(len(self.tensor_shape))]
        core, factors = core.transpose(back), tuple(gradients[k] for k in back)
        if weight != 1:
            core, factors = weight * core, tuple(weight * gradient for gradient in factors)
        seen = EMPTY if residual is None else self._measured(residual)
        return Pullback(0.5 * weight * square, weight * math.sqrt(square), core, factors, seen)

    def mode_products(
        self, mode: int, left: Array, right: Array, rows: Array, y: Array
    ) -> ModeProducts:
        """Loss and single-mode products in one pass over the entries."""
        f, values = self._lead_fibres(mode, self._stored(y))
        square, across, along = kernels.mode_pass(
            f.tree, f.columns, values, left, right, rows, self.threads
        )
        weight = self.multiplier**2
        if weight != 1:
            across, along = weight * across, weight * along
        return ModeProducts(0.5 * weight * square, weight * math.sqrt(square), across, along)

    def forward_tangent(self, tangent: TuckerTangent | ModeTangent) -> Array:
        """Measure a tangent vector in one pass without values."""
        if isinstance(tangent, TuckerTangent):
            return self.forward(tangent.as_tucker())
        f, permutation = self.fibres.along(tangent.mode)
        panels = _panels(tangent)
        values = kernels.mode_values(f.tree, f.columns, *panels, self.threads)
        if permutation is not None:
            stored = np.empty_like(values)
            stored[permutation] = values
            values = stored
        return self._measured(values)

    def energy(self, x: Tucker) -> float:
        """Measure a tensor without keeping the measurements."""
        self._check_tensor(x)
        f = self.fibres
        core, factors = _tree_order(x, f.modes)
        square = kernels.tucker_energy(f.tree, core, factors, self.threads)
        return float(self.multiplier**2 * square)

    def tangent_energy(self, tangent: TuckerTangent | ModeTangent) -> float:
        """Measure a tangent vector without keeping the measurements."""
        if isinstance(tangent, TuckerTangent):
            square = kernels.tangent_energy(*self._moving(tangent), self.threads)
        else:
            f, _ = self.fibres.along(tangent.mode)
            panels = _panels(tangent)
            square = kernels.mode_energy(f.tree, f.columns, *panels, self.threads)
        return float(self.multiplier**2 * square)

    def normal(self, tangent: TuckerTangent) -> Pullback:
        """Measure a tangent vector and pull it back in one pass, keeping no measurement."""
        square, core, gradients = kernels.tucker_normal(*self._moving(tangent), self.threads)
        return self._in_mode_order(square, core, gradients, None)

    def _moving(self, tangent: TuckerTangent) -> tuple[Any, ...]:
        """Tree, tensor, and what the tensor moves by, as the kernels take them."""
        self._check_tensor(tangent.point)
        f = self.fibres
        x, step = _tree_order(tangent.point, f.modes), _tree_order(tangent, f.modes)
        return f.tree, *x, *step

    def _lead_fibres(self, mode: int, values: Array) -> tuple[Fibres, Array]:
        fibres, permutation = self.fibres.along(mode)
        return fibres, values if permutation is None else values[permutation]


def _tree_order(x: Tucker | TuckerTangent, modes: tuple[int, ...]) -> tuple[Array, list[Array]]:
    core = np.ascontiguousarray(x.core.transpose(modes))
    return core, [np.ascontiguousarray(x.factors[k]) for k in modes]


def _panels(tangent: ModeTangent) -> tuple[Array, tuple[Array, Array]]:
    return np.hstack([tangent.left, tangent.along]), (tangent.across, tangent.rows)
