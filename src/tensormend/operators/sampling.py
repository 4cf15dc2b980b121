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
    as_rank,
    as_shape,
    check_memory,
    is_inexact,
)
from tensormend.core.fibres import Fibres
from tensormend.core.manifold import ModeTangent, TuckerTangent
from tensormend.core.sparse import SparsePlusTucker
from tensormend.core.tucker import Tucker
from tensormend.errors import InputError
from tensormend.operators.base import GaussNewtonProduct, Gradient, Operator, as_multiplier
from tensormend.operators.single_mode import ModeProducts
from tensormend.operators.spectral import corrected_estimate

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

    Raises
    ------
    InputError
        If an index is out of bounds or occurs twice, or the data type is not a floating or complex
        one.

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
        self.tensor_shape, self.storage_order = fibres.shape, fibres.modes
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
        """Observe the entries where a boolean array is true, in C order.

        Parameters
        ----------
        observed : array_like
            Boolean array, true where an entry is observed.
        **options
            Keyword arguments of `Sampling`.

        Returns
        -------
        Sampling
            Operator that observes these entries, in C order.

        Raises
        ------
        InputError
            If the array is not boolean.
        """
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
        if isinstance(x, Tucker):
            return self.forward_tucker(x)
        x = np.asarray(self._check_tensor(x))
        return self._measured(x[self._where()])

    def forward_tucker(self, x: Tucker) -> Array:
        """Observe the entries of a tensor in factored form."""
        self._check_tensor(x)
        f = self.fibres
        core, factors = _tree_order(x, f.modes)
        return self._measured(kernels.tucker_values(f.tree, core, factors, self.threads))

    def adjoint(self, y: Array, memory_limit: float | None = DEFAULT_MEMORY_LIMIT) -> Array:
        """Put measurements at their indices, zero elsewhere."""
        y = self._check_measurements(y)
        check_memory(self.tensor_shape, y.dtype, memory_limit, "the dense adjoint")
        out = np.zeros(self.tensor_shape, dtype=y.dtype)
        out[self._where()] = self._stored(y) * self.multiplier**2
        return out

    def _where(self) -> tuple[Array, ...]:
        return tuple(self.fibres.coordinates(k) for k in range(len(self.tensor_shape)))

    def adjoint_tensor(
        self, y: Array, *, base: Tucker | None = None, step: float = 1.0
    ) -> SparsePlusTucker:
        """Return ``base + step * A*(y)``, sparse and low-rank part kept apart."""
        weight = step * self.multiplier**2
        values = self._stored(y) if weight == 1 else weight * self._stored(y)
        dtype = np.result_type(values.dtype, self.tensor_dtype)
        return SparsePlusTucker(self.fibres, values, base, self.threads, dtype)

    def gradient(
        self, x: Tucker, y: Array | None = None, *, factors: bool = True, residual: bool = False
    ) -> Gradient:
        """Evaluate loss, gradient and residual in one pass over the entries."""
        self._check_tensor(x)
        f = self.fibres
        core, panels = _tree_order(x, f.modes)
        square, core, gradients, values = kernels.tucker_gradient(
            f.tree,
            np.zeros(self.n_measurements, dtype=x.dtype) if y is None else self._stored(y),
            core,
            panels,
            return_residual=residual,
            subtract=True,
            threads=self.threads,
        )
        core, parts = self._in_mode_order(core, gradients)
        weight = self.multiplier**2
        measured = EMPTY if values is None else self._measured(values)
        size = weight * math.sqrt(square)
        return Gradient(0.5 * weight * square, size, core, parts if factors else (), measured)

    def gauss_newton_product(self, d: TuckerTangent) -> GaussNewtonProduct:
        """Apply ``A*A`` in one pass over the entries, keeping no measurement."""
        square, core, gradients = kernels.gauss_newton(*self._moving(d), self.threads)
        return GaussNewtonProduct(
            self.multiplier**2 * square, *self._in_mode_order(core, gradients)
        )

    def squared_norm(self, x: Tucker | TuckerTangent) -> float:
        """Squared norm of the entries, which are not kept."""
        if isinstance(x, TuckerTangent):
            square = kernels.tangent_squared_norm(*self._moving(x), self.threads)
        else:
            self._check_tensor(x)
            core, factors = _tree_order(x, self.fibres.modes)
            square = kernels.tucker_squared_norm(self.fibres.tree, core, factors, self.threads)
        return float(self.multiplier**2 * square)

    def gradient_step(self, x: Tucker, y: Array) -> tuple[float, SparsePlusTucker]:
        """Return the loss at ``x``, and ``x`` with the data in place of the observed entries."""
        found = self.gradient(x, y, factors=False, residual=True)
        return found.loss, self.adjoint_tensor(found.residual, base=x)

    def initial_estimate(self, y: Array, rank: Sequence[int]) -> Tucker:
        """Estimate the tensor with factors corrected for the diagonal of the Gram matrices."""
        rank = as_rank(rank, self.tensor_shape)
        return self._with_optimal_scale(corrected_estimate(self.adjoint_tensor(y), rank))

    def prepare(
        self,
        y: Array,
        *,
        storage_order: Sequence[int] | None = None,
        dtype: Any = None,
        threads: int | None = None,
    ) -> tuple[Sampling, Array]:
        """Store the entries in a tree order, and bring the measurements into it.

        With a ``dtype`` the indices of the leaf mode take 16 bits where its size allows.
        """
        y = self._check_measurements(y)
        modes = self.fibres.modes if storage_order is None else storage_order
        fibres, permutation = self.fibres.arranged(modes)
        if self._permutation is not None:
            y = y[self._permutation]
        if permutation is not None:
            y = y[permutation]
        tensor_dtype = np.result_type(self.tensor_dtype, y.dtype)
        if dtype is not None:
            fibres, y = fibres.with_short_leaves(), y.astype(dtype)
        out = Sampling.__new__(Sampling)
        n_threads = self.threads if threads is None else threads
        out._set(fibres, None, self.multiplier, tensor_dtype, n_threads)
        return out, y

    def rows(self, subset: Any) -> Sampling:
        """Return the operator of some of the entries."""
        indices = self.indices[self._positions(subset)]
        leaf_mode, dtype = self.fibres.leaf_mode, self.tensor_dtype
        kind: dict[str, Any] = {"leaf_mode": leaf_mode, "dtype": dtype, "threads": self.threads}
        return self.multiplier * Sampling(self.tensor_shape, indices, **kind)

    def unmeasured(self, mode: int) -> Array:
        """Return the indices of a mode at which no entry is observed."""
        return self.fibres.unobserved(mode)

    # single-mode products

    def mode_products(
        self, mode: int, left: Array, right: Array, rows: Array, y: Array
    ) -> ModeProducts:
        """Loss and single-mode products in one pass over the entries."""
        f, permutation = self.fibres.along(mode)
        values = self._stored(y)
        values = values if permutation is None else values[permutation]
        square, across, along = kernels.mode_pass(
            f.tree, f.columns, values, left, right, rows, self.threads
        )
        weight = self.multiplier**2
        if weight != 1:
            across, along = weight * across, weight * along
        return ModeProducts(0.5 * weight * square, weight * math.sqrt(square), across, along)

    def mode_squared_norm(self, tangent: ModeTangent) -> float:
        """Squared norm of the entries of a tangent vector of a single mode."""
        f, _ = self.fibres.along(tangent.mode)
        panels = np.hstack([tangent.left, tangent.along]), (tangent.across, tangent.rows)
        square = kernels.mode_squared_norm(f.tree, f.columns, *panels, self.threads)
        return float(self.multiplier**2 * square)

    # between the order of the tree and that of the modes

    def _in_mode_order(
        self, core: Array, gradients: list[Array]
    ) -> tuple[Array, tuple[Array, ...]]:
        """Bring core and factors from the order of the tree into that of the modes."""
        weight = self.multiplier**2
        back = [self.fibres.modes.index(k) for k in range(len(self.tensor_shape))]
        core, factors = core.transpose(back), tuple(gradients[k] for k in back)
        if weight != 1:
            core, factors = weight * core, tuple(weight * gradient for gradient in factors)
        return core, factors

    def _moving(self, tangent: TuckerTangent) -> tuple[Any, ...]:
        """Tree, tensor, and what the tensor moves by, as the kernels take them."""
        self._check_tensor(tangent.point)
        f = self.fibres
        x, step = _tree_order(tangent.point, f.modes), _tree_order(tangent, f.modes)
        return f.tree, *x, *step


def _tree_order(x: Tucker | TuckerTangent, modes: tuple[int, ...]) -> tuple[Array, list[Array]]:
    core = np.ascontiguousarray(x.core.transpose(modes))
    return core, [np.ascontiguousarray(x.factors[k]) for k in modes]
