"""The contract of measurement operators, with correct defaults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensormend.core.algebra import DEFAULT_MEMORY_LIMIT, Array, as_rank, norm
from tensormend.core.algebra import squared_norm as array_square
from tensormend.core.implicit import (
    DenseTensor,
    ImplicitTensor,
    as_implicit,
    project,
    tensor_norm,
    tucker_products,
)
from tensormend.core.manifold import TuckerTangent
from tensormend.core.truncate import thosvd
from tensormend.core.tucker import Tucker
from tensormend.errors import InputError

__all__ = [
    "GaussNewtonProduct",
    "Gradient",
    "Operator",
    "ScaledOperator",
    "SelectedRows",
    "as_multiplier",
    "check_contract",
]

PAIRS = (("forward", "forward_tucker"), ("adjoint", "adjoint_tensor"))


@dataclass(frozen=True, eq=False)
class Gradient:
    """Negative gradient of ``||A(x) - y||^2 / 2`` with respect to core and factors of ``x``.

    With ``G = A*(y - A(x))`` and any factors ``U_k``, orthonormal or not.

    Attributes
    ----------
    loss : float
        ``||y - A(x)||^2 / 2``.
    gradient_norm : float
        ``||G||``, or an estimate of it where ``G`` is never formed.
    core : ndarray
        ``G ×_j U_j^H``.
    factors : tuple of ndarray
        ``M_k(G ×_{j≠k} U_j^H) M_k(C)^H`` for every mode ``k``; empty unless asked for.
    residual : ndarray
        ``y - A(x)``; empty unless asked for.
    """

    loss: float
    gradient_norm: float
    core: Array
    factors: tuple[Array, ...] = ()
    residual: Array = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True, eq=False)
class GaussNewtonProduct:
    """``A*A`` applied to a tangent vector ``d``, at the point ``C ×_j U_j`` of ``d``.

    Attributes
    ----------
    squared_norm : float
        ``||A(d)||^2``.
    core : ndarray
        ``A*A(d) ×_j U_j^H``.
    factors : tuple of ndarray
        ``M_k(A*A(d) ×_{j≠k} U_j^H) M_k(C)^H`` for every mode ``k``.
    """

    squared_norm: float
    core: Array
    factors: tuple[Array, ...]


class Operator:
    """A linear map ``A`` from tensors of one shape to a vector of measurements.

    A subclass sets ``tensor_shape``, ``n_measurements`` and ``tensor_dtype``, and gives one of
    `forward` and `forward_tucker`, and one of `adjoint` and `adjoint_tensor`. Every other method
    has a correct default built on these, to be overridden for speed. An operator that gives
    `forward_tucker` and `adjoint_tensor` forms no array of the shape of the tensor, with any
    method but SM-QRGD. `tensormend.testing.check_operator` checks a subclass.

    Attributes
    ----------
    tensor_shape : tuple of int
        Sizes of the modes of the tensor.
    n_measurements : int
        Number of measurements.
    tensor_dtype : dtype
        Data type of the tensor.
    measurement_dtype : dtype
        Data type of the measurements, by default that of the tensor. Where the tensor is real and
        the measurements are complex (Fourier coefficients, for example), the adjoint is that of a
        real map: it takes the real part.
    storage_order : tuple of int or None
        Order of the modes in which the measurements are stored, the innermost last; None where
        there is no such order.
    """

    tensor_shape: tuple[int, ...]
    n_measurements: int
    tensor_dtype: np.dtype[Any]
    storage_order: tuple[int, ...] | None = None
    _measurement_dtype: np.dtype[Any] | None = None

    @property
    def measurement_dtype(self) -> np.dtype[Any]:
        """Data type of the measurements."""
        return self.tensor_dtype if self._measurement_dtype is None else self._measurement_dtype

    @measurement_dtype.setter
    def measurement_dtype(self, dtype: Any) -> None:
        self._measurement_dtype = np.dtype(dtype)

    def __mul__(self, factor: float) -> Operator:
        return ScaledOperator(self, as_multiplier(factor))

    __rmul__ = __mul__

    # required, one of each pair

    def forward(self, x: Tucker | Array) -> Array:
        """Measure a tensor: ``A(x)``.

        Parameters
        ----------
        x : ndarray or Tucker
            The tensor; ``np.asarray(x)`` is its array in both cases.

        Returns
        -------
        ndarray
            The measurements, a vector of length ``n_measurements``.
        """
        _require(self, "forward", "forward_tucker")
        if not isinstance(x, Tucker):
            x = np.asarray(x)
            x = Tucker(x, tuple(np.eye(n, dtype=x.dtype) for n in x.shape))
        return self.forward_tucker(x)

    def forward_tucker(self, x: Tucker) -> Array:
        """Measure a tensor in factored form; the factors need not be orthonormal.

        Parameters
        ----------
        x : Tucker
            Tensor in factored form.

        Returns
        -------
        ndarray
            Measurements ``A(x)``, one per row of the operator.
        """
        _require(self, "forward_tucker", "forward")
        return self.forward(x.todense())

    def adjoint(self, y: Array) -> Array:
        """Apply the adjoint: the array ``A*(y)``, where it fits the memory limit.

        Parameters
        ----------
        y : ndarray
            Measurements.

        Returns
        -------
        ndarray
            Dense tensor ``A*(y)``.
        """
        _require(self, "adjoint", "adjoint_tensor")
        return as_implicit(self.adjoint_tensor(y)).todense(DEFAULT_MEMORY_LIMIT)

    def adjoint_tensor(
        self, y: Array, *, base: Tucker | None = None, step: float = 1.0
    ) -> ImplicitTensor:
        """Return ``base + step * A*(y)``, a tensor that need not be formed.

        Parameters
        ----------
        y : ndarray
            Measurements.
        base : Tucker, optional
            Tensor to add to; zero by default.
        step : float, default=1.0
            Factor on ``A*(y)``.

        Returns
        -------
        ImplicitTensor
            In a form that `thosvd`, `sthosvd` and `shrink` take.
        """
        _require(self, "adjoint_tensor", "adjoint")
        back = self.adjoint(y)
        if step != 1:
            back = step * back
        return DenseTensor(back if base is None else base.todense() + back)

    # optional

    def gradient(
        self, x: Tucker, y: Array | None = None, *, factors: bool = True, residual: bool = False
    ) -> Gradient:
        """Evaluate the loss and its negative gradient with respect to core and factors.

        Parameters
        ----------
        x : Tucker
            The iterate, with any factors.
        y : ndarray, optional
            Measurements; zeros by default.
        factors : bool, default=True
            Whether the negative gradients with respect to the factors are wanted.
        residual : bool, default=False
            Whether ``y - A(x)`` is wanted.

        Returns
        -------
        Gradient
            Loss, ``||A*(y - A(x))||`` and negative gradients.
        """
        measured = self.forward_tucker(x)
        difference = -measured if y is None else y - measured
        back = as_implicit(self.adjoint_tensor(difference))
        parts: tuple[Array, ...] = ()
        if factors:
            core, parts = tucker_products(back, x)
        else:
            core = project(back, x.factors)
        kept = difference if residual else np.empty(0, difference.dtype)
        return Gradient(0.5 * array_square(difference), tensor_norm(back), core, parts, kept)

    def gauss_newton_product(self, d: TuckerTangent) -> GaussNewtonProduct:
        """Measure a tangent vector, and apply the adjoint at its point.

        Parameters
        ----------
        d : TuckerTangent
            Tangent vector.

        Returns
        -------
        GaussNewtonProduct
            ``||A(d)||^2``, and ``A*A(d)`` as core and factors at the point of ``d``.
        """
        y = self.forward_tucker(d.as_tucker())
        core, factors = tucker_products(as_implicit(self.adjoint_tensor(y)), d.point)
        return GaussNewtonProduct(array_square(y), core, factors)

    def squared_norm(self, x: Tucker | TuckerTangent) -> float:
        """Squared norm of the measurements of a tensor or of a tangent vector.

        Parameters
        ----------
        x : Tucker or TuckerTangent
            Tensor or tangent vector.

        Returns
        -------
        float
            ``||A(x)||^2``.
        """
        tucker = x.as_tucker() if isinstance(x, TuckerTangent) else x
        return array_square(self.forward_tucker(tucker))

    def gradient_step(self, x: Tucker, y: Array) -> tuple[float, ImplicitTensor]:
        """Return the loss at ``x``, and ``x + A*(y - A(x))``.

        For observed entries, not scaled, that is ``x`` with the data in their place.

        Parameters
        ----------
        x : Tucker
            Tensor in factored form.
        y : ndarray
            Measurements, one per row of the operator.

        Returns
        -------
        tuple of (float, ImplicitTensor)
            The loss at ``x``, and ``x + A*(y - A(x))``.
        """
        residual = y - self.forward_tucker(x)
        return 0.5 * array_square(residual), self.adjoint_tensor(residual, base=x)

    def initial_estimate(self, y: Array, rank: Sequence[int]) -> Tucker:
        """Estimate the tensor: ``A*(y)`` truncated to the rank, and scaled by least squares.

        Parameters
        ----------
        y : ndarray
            Measurements.
        rank : int or sequence of int
            Multilinear rank, one int per mode or one for all modes.

        Returns
        -------
        Tucker
            Initial tensor.
        """
        rank = as_rank(rank, self.tensor_shape)
        return self._with_optimal_scale(thosvd(self.adjoint_tensor(y), rank))

    def prepare(
        self,
        y: Array,
        *,
        storage_order: Sequence[int] | None = None,
        dtype: Any = None,
        threads: int | None = None,
    ) -> tuple[Operator, Array]:
        """Return an equivalent operator and measurements, prepared for many evaluations.

        Parameters
        ----------
        y : ndarray
            Measurements.
        storage_order : sequence of int, optional
            Order in which the modes are best stored, the innermost last.
        dtype : dtype, optional
            Data type to round the measurements to; sums keep the precision of the tensor.
        threads : int, optional
            Threads of the evaluations.

        Returns
        -------
        operator : Operator
            The same measurements, maybe in another order.
        y : ndarray
            The measurements in that order.
        """
        del storage_order, threads
        return self, y if dtype is None else y.astype(dtype)

    def rows(self, subset: Any) -> Operator:
        """Return the operator of some of the measurements.

        Parameters
        ----------
        subset : array_like of int or bool
            Positions of the measurements, or true where a measurement is taken.

        Returns
        -------
        Operator
            The operator of these measurements.
        """
        return SelectedRows(self, self._positions(subset))

    def unmeasured(self, mode: int) -> Array:
        """Return the indices of a mode whose slices no measurement depends on.

        Parameters
        ----------
        mode : int
            Mode, counted from 0; negative modes count from the last.

        Returns
        -------
        ndarray of int
            The indices in ascending order; by default none, as nothing is known of the operator.
        """
        del mode
        return np.empty(0, dtype=np.intp)

    def describe(self, mode: int, indices: Sequence[int]) -> tuple[str, str]:
        """Name a mode and some of its indices, for a message.

        Parameters
        ----------
        mode : int
            Mode, counted from 0.
        indices : sequence of int
            Some indices of that mode.

        Returns
        -------
        tuple of (str, str)
            Text for the mode and text for the indices.
        """
        return f"mode {mode}", f"index {', '.join(map(str, indices))}"

    # for subclasses

    def _with_optimal_scale(self, x: Tucker) -> Tucker:
        """Scale ``x = P A*(y)``, ``P`` a projection, so that ``||A(x) - y||`` is least."""
        # <A(x), y> = <x, A*(y)> is the squared norm of the core
        square = self.squared_norm(x)
        return x * (norm(x.core) ** 2 / square) if square > 0 else x

    def _positions(self, subset: Any) -> Array:
        """Check the argument of `rows`, and return it as positions."""
        subset = np.asarray(subset)
        is_mask = subset.dtype == np.bool_ and subset.shape == (self.n_measurements,)
        if not is_mask and not (subset.ndim == 1 and subset.dtype.kind in "iu"):
            raise InputError(
                f"rows takes a vector of positions, or {self.n_measurements} booleans, got "
                f"{subset.dtype} of shape {subset.shape}; for example rows(np.arange(10))"
            )
        n = self.n_measurements
        if not is_mask and ((subset < -n) | (subset >= n)).any():
            raise InputError(
                f"rows takes positions from 0 to {n - 1}, got {subset.min()} to {subset.max()}; "
                "leave out those beyond the measurements"
            )
        positions = np.arange(n)[subset]
        if not len(positions) or len(np.unique(positions)) != len(positions):
            raise InputError(
                f"rows takes one or more measurements, each once, got {len(positions)}, of which "
                f"{len(np.unique(positions))} are distinct; apply numpy.unique to the positions"
            )
        return np.asarray(positions)

    def _check_tensor(self, x: Tucker | Array) -> Tucker | Array:
        """Check the argument of `forward`."""
        if not isinstance(x, Tucker):
            x = np.asarray(x)
        if x.shape != self.tensor_shape:
            raise InputError(
                f"{type(self).__name__} measures tensors of shape {self.tensor_shape}, "
                f"got {x.shape}; give a tensor of that shape"
            )
        return x

    def _check_measurements(self, y: Array) -> Array:
        """Check the argument of `adjoint`."""
        y = np.asarray(y)
        if y.shape != (self.n_measurements,):
            raise InputError(
                f"{type(self).__name__} has {self.n_measurements} measurements, so y must have "
                f"shape ({self.n_measurements},), got {y.shape}; give one number per measurement"
            )
        return y


def _require(operator: Operator, name: str, other: str) -> None:
    """Refuse a default that would call itself through the default of the other method."""
    if getattr(type(operator), other) is getattr(Operator, other):
        raise InputError(
            f"an operator must define {name} or {other}, {type(operator).__name__} defines "
            "neither; add one of them"
        )


def check_contract(operator: Any) -> Operator:
    """Check that something is an operator with all that the contract requires."""
    if not isinstance(operator, Operator):
        raise InputError(
            f"operator must be a tensormend Operator, got {type(operator).__name__}; "
            "wrap a matrix as tensormend.MatrixOperator(matrix, shape), observed entries as "
            "tensormend.Sampling(shape, indices), or derive a class from tensormend.Operator"
        )
    for name in ("tensor_shape", "n_measurements", "tensor_dtype"):
        if not hasattr(operator, name):
            raise InputError(
                "an operator must set tensor_shape, n_measurements and tensor_dtype, "
                f"{type(operator).__name__} has no {name}; set it in its __init__"
            )
    for name, other in PAIRS:
        if getattr(type(operator), name) is getattr(Operator, name):
            _require(operator, name, other)
    return operator


class ScaledOperator(Operator):
    """A multiple of an operator, made by ``a * operator``.

    Parameters
    ----------
    inner : Operator
        The operator.
    multiplier : float
        The factor.
    """

    def __init__(self, inner: Operator, multiplier: float) -> None:
        self.inner, self.multiplier = inner, multiplier
        self.tensor_shape, self.n_measurements = inner.tensor_shape, inner.n_measurements
        self.tensor_dtype, self.measurement_dtype = inner.tensor_dtype, inner.measurement_dtype
        self.storage_order = inner.storage_order

    def __repr__(self) -> str:
        return f"{self.multiplier} * {self.inner!r}"

    def forward(self, x: Tucker | Array) -> Array:
        """Measure a tensor."""
        return self.multiplier * self.inner.forward(x)

    def forward_tucker(self, x: Tucker) -> Array:
        """Measure a tensor in factored form."""
        return self.multiplier * self.inner.forward_tucker(x)

    def adjoint_tensor(
        self, y: Array, *, base: Tucker | None = None, step: float = 1.0
    ) -> ImplicitTensor:
        """Return ``base + step * A*(y)``."""
        return self.inner.adjoint_tensor(y, base=base, step=step * self.multiplier)

    def prepare(
        self,
        y: Array,
        *,
        storage_order: Sequence[int] | None = None,
        dtype: Any = None,
        threads: int | None = None,
    ) -> tuple[Operator, Array]:
        """Return a multiple of the prepared operator, and the measurements in its order."""
        settings: dict[str, Any] = {"dtype": dtype, "threads": threads}
        inner, y = self.inner.prepare(y, storage_order=storage_order, **settings)
        return self.multiplier * inner, y

    def unmeasured(self, mode: int) -> Array:
        """Return the indices of a mode whose slices no measurement depends on."""
        return self.inner.unmeasured(mode)

    def describe(self, mode: int, indices: Sequence[int]) -> tuple[str, str]:
        """Name a mode and some of its indices, for a message."""
        return self.inner.describe(mode, indices)


class SelectedRows(Operator):
    """Some measurements of an operator, made by ``operator.rows(subset)``.

    Parameters
    ----------
    inner : Operator
        The operator.
    positions : ndarray of int
        Positions of the measurements.
    """

    def __init__(self, inner: Operator, positions: Array) -> None:
        self.inner, self.positions = inner, positions
        self.tensor_shape, self.n_measurements = inner.tensor_shape, len(positions)
        self.tensor_dtype, self.measurement_dtype = inner.tensor_dtype, inner.measurement_dtype

    def __repr__(self) -> str:
        return f"{self.n_measurements} rows of {self.inner!r}"

    def forward(self, x: Tucker | Array) -> Array:
        """Measure a tensor."""
        return self.inner.forward(x)[self.positions]

    def forward_tucker(self, x: Tucker) -> Array:
        """Measure a tensor in factored form."""
        return self.inner.forward_tucker(x)[self.positions]

    def adjoint_tensor(
        self, y: Array, *, base: Tucker | None = None, step: float = 1.0
    ) -> ImplicitTensor:
        """Return ``base + step * A*(y)``."""
        y = self._check_measurements(y)
        whole = np.zeros(self.inner.n_measurements, dtype=y.dtype)
        whole[self.positions] = y
        return self.inner.adjoint_tensor(whole, base=base, step=step)


def as_multiplier(factor: Any) -> float:
    """Check the factor of ``a * operator``."""
    is_number = isinstance(factor, int | float | np.floating | np.integer)
    if not is_number or isinstance(factor, bool) or not np.isfinite(factor) or factor == 0:
        raise InputError(
            "an operator can be multiplied by a finite real number other than 0, got "
            f"{factor!r}; for example 2 * operator"
        )
    return float(factor)
