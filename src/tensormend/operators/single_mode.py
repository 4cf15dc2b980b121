"""Products of single-mode methods, which need an unstructured panel over all other modes.

They are no part of the contract of operators. An operator may give them as methods; for others
the tensor is formed, where it fits the memory limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from tensormend.core.algebra import (
    DEFAULT_MEMORY_LIMIT,
    Array,
    check_memory,
    norm,
    squared_norm,
)
from tensormend.core.manifold import ModeTangent
from tensormend.operators.base import Operator

__all__ = ["ModeProducts", "SingleModeOperator", "mode_products", "mode_squared_norm"]


@dataclass(frozen=True, eq=False)
class ModeProducts:
    """Single-mode products of ``G = A*(y - A(x))``, unfolded along a mode.

    Attributes
    ----------
    loss : float
        ``||y - A(x)||^2 / 2``.
    gradient_norm : float
        ``||G||``.
    across : ndarray
        ``G^T conj(U)`` (``N x r``), the ``N`` columns counted in C order over the other modes.
    along : ndarray
        ``G conj(V)`` (``n x r``).
    """

    loss: float
    gradient_norm: float
    across: Array
    along: Array


@runtime_checkable
class SingleModeOperator(Protocol):
    """An operator with single-mode products of its own."""

    def mode_products(
        self, mode: int, left: Array, right: Array, rows: Array, y: Array
    ) -> ModeProducts:
        """Compute loss and products at the tensor whose unfolding is ``left right^T``.

        Parameters
        ----------
        mode : int
            Mode of the unfolding, counted from 0.
        left : ndarray of shape (n_mode, r)
            Left factor of the unfolding.
        right : ndarray of shape (prod of other sizes, r)
            Right factor of the unfolding, the other modes in C order along its rows.
        rows : ndarray of shape (prod of other sizes, r)
            Matrix ``V`` of the product ``along``.
        y : ndarray
            Measurements.

        Returns
        -------
        ModeProducts
            Loss, norm of the gradient, and products of the negative gradient.
        """
        ...

    def mode_squared_norm(self, tangent: ModeTangent) -> float:
        """Compute the squared norm of the measurements of a tangent vector of a single mode.

        Parameters
        ----------
        tangent : ModeTangent
            Tangent vector.

        Returns
        -------
        float
            ``||A(tangent)||^2``.
        """
        ...


def mode_products(
    operator: Operator, mode: int, left: Array, right: Array, rows: Array, y: Array
) -> ModeProducts:
    """Loss and products at the tensor whose unfolding along the mode is ``left right^T``."""
    if isinstance(operator, SingleModeOperator):
        return operator.mode_products(mode, left, right, rows, y)
    shape = operator.tensor_shape
    _check(operator)
    others = [n for k, n in enumerate(shape) if k != mode]
    x = np.moveaxis((left @ right.T).reshape(-1, *others), 0, mode)
    residual = y - operator.forward(x)
    matrix = np.moveaxis(operator.adjoint(residual), mode, 0).reshape(shape[mode], -1)
    across, along = (
        product.astype(left.dtype, copy=False)
        for product in (matrix.T @ left.conj(), matrix @ rows.conj())
    )
    return ModeProducts(0.5 * squared_norm(residual), norm(matrix), across, along)


def mode_squared_norm(operator: Operator, tangent: ModeTangent) -> float:
    """Squared norm of the measurements of a tangent vector of a single mode."""
    if isinstance(operator, SingleModeOperator):
        return operator.mode_squared_norm(tangent)
    _check(operator)
    return squared_norm(operator.forward(tangent.todense(operator.tensor_shape)))


def _check(operator: Operator) -> None:
    what = f"the dense tensor that SM-QRGD forms for {type(operator).__name__}"
    advice = "use method='rgd' or 'auto'"
    check_memory(operator.tensor_shape, operator.tensor_dtype, DEFAULT_MEMORY_LIMIT, what, advice)
