"""The one contract of measurement operators, with correct defaults."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensormend.core.algebra import (
    Array,
    matricize,
    mode_product,
    multi_mode_product,
    norm,
    squared_norm,
)
from tensormend.core.manifold import ModeTangent, TuckerTangent
from tensormend.core.truncate import SparsePlusTucker
from tensormend.core.tucker import Tucker
from tensormend.errors import InputError

__all__ = ["ModeProducts", "Operator", "Pullback"]


@dataclass(frozen=True, eq=False)
class Pullback:
    """The residual ``y - A(x)`` (or given measurements), pulled back through ``x``.

    With ``G = A*(y - A(x))``: ``loss`` is ``||y - A(x)||^2 / 2``, ``core`` is ``G ×_j U_j^H``,
    ``factors[k]`` is ``M_k(G ×_{j≠k} U_j^H) M_k(C)^H``, and ``residual`` is empty unless asked for.
    For orthonormal factors these are minus the gradients of the loss. ``gradient_norm`` is
    ``||G||``.
    """

    loss: float
    gradient_norm: float
    core: Array
    factors: tuple[Array, ...]
    residual: Array


@dataclass(frozen=True, eq=False)
class ModeProducts:
    """Single-mode products of ``G = A*(y - A(x))``, unfolded along a lead mode.

    ``across`` is ``G^T conj(U)`` (``N x r``) and ``along`` is ``G conj(V)`` (``n x r``), with the
    ``N`` columns counted in C order over the other modes. ``gradient_norm`` is ``||G||``.
    """

    loss: float
    gradient_norm: float
    across: Array
    along: Array


class Operator(ABC):
    """A linear map ``A`` from tensors of one shape to a vector of measurements.

    A subclass sets ``tensor_shape``, ``n_measurements`` and ``tensor_dtype`` (and
    ``threads`` where it uses more than one)
    and gives `forward` and `adjoint`; every other method has a correct default built on these two,
    to be overridden for speed.
    `tensormend.testing.check_operator` holds any subclass to the contract.
    """

    tensor_shape: tuple[int, ...]
    n_measurements: int
    tensor_dtype: np.dtype[Any]
    threads: int = 1

    @property
    def measurement_dtype(self) -> np.dtype[Any]:
        """Data type of the measurements: that of the tensor unless a subclass says otherwise."""
        return self.tensor_dtype

    def __mul__(self, factor: float) -> Operator:
        return ScaledOperator(self, as_multiplier(factor))

    __rmul__ = __mul__

    @abstractmethod
    def forward(self, x: Tucker | Array) -> Array:
        """Measure a tensor: ``A(x)``, a vector of length ``n_measurements``."""

    @abstractmethod
    def adjoint(self, y: Array) -> Array:
        """Apply the adjoint: ``A*(y)``, a dense tensor (guarded by the memory limit)."""

    def arrange(
        self, y: Array, modes: Sequence[int], threads: int | None
    ) -> tuple[Operator, Array]:
        """Return an equal problem with the measurements in the order of a tree over the modes.

        ``modes`` names them root first, the lead mode last. The default changes nothing.
        """
        del modes, threads
        return self, y

    def compact(self) -> Operator:
        """Return an equal operator that takes less memory; the default has none."""
        return self

    def shifted(self, x: Tucker | None, step_size: float, y: Array) -> Array | SparsePlusTucker:
        """Return ``x + step_size * A*(y)`` in a form that `thosvd` and `sthosvd` take."""
        back = step_size * self.adjoint(y)
        return back if x is None else x.todense() + back

    def filled(self, x: Tucker, y: Array) -> tuple[float, Array | SparsePlusTucker]:
        """Return the loss at ``x``, and ``x + A*(y - A(x))`` in a form that can be truncated.

        For observed entries that is ``x`` with the data in their places.
        """
        residual = y - self.forward(x)
        return 0.5 * squared_norm(residual), self.shifted(x, 1.0, residual)

    def core_gradient(self, x: Tucker, y: Array | None) -> Array:
        """Pull ``A*(y - A(x))`` back to the core by ``×_j U_j^H``; no ``y`` stands for zero."""
        seen = self.forward(x)
        residual = -seen if y is None else y - seen
        return multi_mode_product(self.adjoint(residual), x.factors, adjoint=True)

    def pullback(self, x: Tucker, y: Array, *, want_residual: bool = False) -> Pullback:
        """Residual, loss and Tucker pull-back at ``x``."""
        residual = y - self.forward(x)
        pulled = self.pull(x, residual)
        return replace(pulled, residual=residual) if want_residual else pulled

    def pull(self, x: Tucker, y: Array) -> Pullback:
        """Pull-back through ``x`` of measurements ``y``, from which nothing is subtracted."""
        back = self.adjoint(y)
        # the parts of all modes but the first share their largest product
        head = mode_product(back, x.factors[0].conj().T, 0)
        rest: tuple[Array | None, ...] = (None, *x.factors[1:])
        parts = [multi_mode_product(back, rest, adjoint=True)]
        parts += [multi_mode_product(head, rest, adjoint=True, skip=k) for k in range(1, x.ndim)]
        factors = tuple(
            matricize(part, k) @ matricize(x.core, k).conj().T for k, part in enumerate(parts)
        )
        core = mode_product(parts[0], x.factors[0].conj().T, 0)
        return Pullback(0.5 * squared_norm(y), norm(back), core, factors, np.empty(0, y.dtype))

    def mode_products(
        self, mode: int, left: Array, right: Array, rows: Array, y: Array
    ) -> ModeProducts:
        """Loss and single-mode products at the tensor whose unfolding is ``left right^T``."""
        residual = y - self.forward(self._fold(mode, left @ right.T))
        matrix = self._unfold(mode, self.adjoint(residual))
        across, along = matrix.T @ left.conj(), matrix @ rows.conj()
        return ModeProducts(0.5 * squared_norm(residual), norm(matrix), across, along)

    def forward_tangent(self, tangent: TuckerTangent | ModeTangent) -> Array:
        """Measure a tangent vector."""
        if isinstance(tangent, TuckerTangent):
            return self.forward(tangent.as_tucker())
        return self.forward(tangent.todense(self.tensor_shape))

    def energy(self, x: Tucker) -> float:
        """Squared norm of the measurements of a tensor."""
        return squared_norm(self.forward(x))

    def tangent_energy(self, tangent: TuckerTangent | ModeTangent) -> float:
        """Squared norm of the measurements of a tangent vector."""
        return squared_norm(self.forward_tangent(tangent))

    def normal(self, tangent: TuckerTangent) -> Pullback:
        """Measure a tangent vector and pull the measurements back through its point."""
        return self.pull(tangent.point, self.forward_tangent(tangent))

    def _unfold(self, mode: int, x: Array) -> Array:
        return np.moveaxis(x, mode, 0).reshape(self.tensor_shape[mode], -1)

    def _fold(self, mode: int, matrix: Array) -> Array:
        others = [n for k, n in enumerate(self.tensor_shape) if k != mode]
        return np.moveaxis(matrix.reshape(-1, *others), 0, mode)

    def _check_tensor(self, x: Tucker | Array) -> Tucker | Array:
        """Check the argument of `forward`."""
        if not isinstance(x, Tucker):
            x = np.asarray(x)
        if x.shape != self.tensor_shape:
            raise InputError(
                f"{type(self).__name__} measures tensors of shape {self.tensor_shape}, "
                f"got {x.shape}"
            )
        return x

    def _check_measurements(self, y: Array) -> Array:
        """Check the argument of `adjoint`."""
        y = np.asarray(y)
        if y.shape != (self.n_measurements,):
            raise InputError(
                f"{type(self).__name__} has {self.n_measurements} measurements, so y must have "
                f"shape ({self.n_measurements},), got {y.shape}"
            )
        return y


class ScaledOperator(Operator):
    """A multiple of an operator, made by ``a * operator``."""

    def __init__(self, inner: Operator, multiplier: float) -> None:
        self.inner, self.multiplier = inner, multiplier
        self.tensor_shape, self.n_measurements = inner.tensor_shape, inner.n_measurements
        self.tensor_dtype, self.threads = inner.tensor_dtype, inner.threads

    def __repr__(self) -> str:
        return f"{self.multiplier} * {self.inner!r}"

    @property
    def measurement_dtype(self) -> np.dtype[Any]:
        """Data type of the measurements."""
        return self.inner.measurement_dtype

    def forward(self, x: Tucker | Array) -> Array:
        """Measure a tensor."""
        return self.multiplier * self.inner.forward(x)

    def adjoint(self, y: Array) -> Array:
        """Apply the adjoint."""
        return self.multiplier * self.inner.adjoint(y)


def as_multiplier(factor: Any) -> float:
    """Check the factor of ``a * operator``."""
    is_number = isinstance(factor, int | float | np.floating | np.integer)
    if not is_number or isinstance(factor, bool) or not np.isfinite(factor) or factor == 0:
        raise InputError(
            f"an operator can be multiplied by a finite real number other than 0, got {factor!r}"
        )
    return float(factor)
