"""Truncation to low multilinear rank: T-HOSVD, ST-HOSVD, and the truncated SVD of one mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensormend.core.algebra import Array, as_rank, normalize_mode
from tensormend.core.implicit import (
    DenseTensor,
    ImplicitTensor,
    as_implicit,
    exact_core,
    leading_basis,
    project,
)
from tensormend.core.linalg import svd, tall_qr
from tensormend.core.tucker import Tucker
from tensormend.errors import InputError

__all__ = ["as_order", "mode_svd", "panel_svd", "sthosvd", "thosvd", "truncate_modes"]


def as_order(order: Sequence[int] | None, rank: Sequence[int]) -> tuple[int, ...]:
    """Check an order in which modes are processed; the default is by ascending rank."""
    if order is None:
        return tuple(sorted(range(len(rank)), key=lambda k: rank[k]))
    out = tuple(normalize_mode(k, len(rank)) for k in order)
    if sorted(out) != list(range(len(rank))):
        raise InputError(
            f"mode_order must name each of the {len(rank)} modes once, got {tuple(order)}; "
            f"for example {tuple(range(len(rank)))}"
        )
    return out


def mode_svd(z: ImplicitTensor, mode: int, rank: int) -> tuple[Array, Array, Array]:
    """Compute a truncated SVD ``M_k(z) ~ U S V^T`` along one mode.

    Parameters
    ----------
    z : ImplicitTensor
        The tensor.
    mode : int
        Mode of the unfolding, counted from 0.
    rank : int
        Number of singular vectors.

    Returns
    -------
    left : ndarray of shape (n_mode, rank)
        Left singular vectors ``U``.
    values : ndarray of shape (rank,)
        Singular values in descending order.
    rows : ndarray of shape (prod of other sizes, rank)
        Right singular vectors ``V``, not conjugated, the other modes in C order along its rows.
    """
    left = leading_basis(z, mode, rank)
    own = getattr(z, "panel", None)
    if own is None:
        panel = np.moveaxis(z.compress(mode, left).todense(), mode, -1).reshape(-1, rank)
    else:
        panel = own(mode, left)
    return panel_svd(left, panel)


def panel_svd(left: Array, panel: Array) -> tuple[Array, Array, Array]:
    """Compute the SVD ``U S V^T`` of ``left panel^T``, where ``left`` is orthonormal."""
    q, triangle = tall_qr(panel)
    u, s, vh = svd(triangle.T)
    return left @ u, s, q @ vh.T


def truncate_modes(
    z: ImplicitTensor, rank: Sequence[int], modes: Sequence[int], init: Sequence[Array] | None
) -> tuple[ImplicitTensor, dict[int, Array]]:
    """Compress some modes to their leading subspaces, one after the other, as ST-HOSVD does."""
    factors: dict[int, Array] = {}
    for k in modes:
        factors[k] = leading_basis(z, k, rank[k], init=None if init is None else init[k])
        z = z.compress(k, factors[k])
    return z, factors


def thosvd(z: Any, rank: int | Sequence[int], *, init: Sequence[Array] | None = None) -> Tucker:
    """Approximate a tensor by one of low multilinear rank, by the truncated HOSVD (T-HOSVD).

    Parameters
    ----------
    z : array_like or ImplicitTensor
        Array, Tucker tensor of larger rank, or any other implicit tensor.
    rank : int or sequence of int
        Multilinear rank of the result; an int is used for every mode.
    init : sequence of ndarray, optional
        Approximate factors, one per mode, from which iterative methods begin. They affect the
        speed, and the result only up to rounding.

    Returns
    -------
    Tucker
        The approximation, with orthonormal factors.

    See Also
    --------
    sthosvd : Truncates one mode after the other, usually at lower cost.

    Notes
    -----
    Factor ``U_k`` spans the leading ``r_k`` left singular vectors of the unfolding ``M_k(z)``, and
    the core is ``z ×_0 U_0^H ... ×_{d-1} U_{d-1}^H``. The error is at most ``sqrt(d)`` times that
    of the best approximation of this rank.

    References
    ----------
    L. De Lathauwer, B. De Moor, J. Vandewalle (2000), "A multilinear singular value
    decomposition", SIAM Journal on Matrix Analysis and Applications 21(4), 1253-1278.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormend import thosvd
    >>> z = np.random.default_rng(0).standard_normal((6, 7, 8))
    >>> thosvd(z, 2)
    Tucker(shape=(6, 7, 8), rank=(2, 2, 2), dtype=float64)
    """
    z = as_implicit(z)
    rank = as_rank(rank, z.shape)
    z, bases = _reduce(z, rank)
    guesses = (None,) * len(rank) if init is None or bases is not None else init
    factors = tuple(leading_basis(z, k, r, init=guesses[k]) for k, r in enumerate(rank))
    return _expand(Tucker(project(z, factors), factors), bases)


def sthosvd(
    z: Any,
    rank: int | Sequence[int],
    *,
    mode_order: Sequence[int] | None = None,
    init: Sequence[Array] | None = None,
) -> Tucker:
    """Approximate a tensor by one of low multilinear rank, one mode after the other (ST-HOSVD).

    Parameters
    ----------
    z : array_like or ImplicitTensor
        Array, Tucker tensor of larger rank, or any other implicit tensor.
    rank : int or sequence of int
        Multilinear rank of the result; an int is used for every mode.
    mode_order : sequence of int, optional
        Order in which the modes are truncated; by ascending rank by default.
    init : sequence of ndarray, optional
        Approximate factors, one per mode, from which iterative methods begin. They affect the
        speed, and the result only up to rounding.

    Returns
    -------
    Tucker
        The approximation, with orthonormal factors.

    See Also
    --------
    thosvd : Truncates every mode of the given tensor.

    Notes
    -----
    The sequentially truncated HOSVD replaces the tensor by ``z ×_k U_k^H`` before the next mode is
    truncated, where ``U_k`` spans the leading ``r_k`` left singular vectors of its unfolding
    ``M_k``. What remains is the core. The bound ``sqrt(d)`` of the error is that of `thosvd`; the
    later modes cost less, and the result depends on the order.

    References
    ----------
    N. Vannieuwenhoven, R. Vandebril, K. Meerbergen (2012), "A new truncation strategy for the
    higher-order singular value decomposition", SIAM Journal on Scientific Computing 34(2),
    A1027-A1052.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormend import sthosvd
    >>> z = np.random.default_rng(0).standard_normal((6, 7, 8))
    >>> sthosvd(z, (2, 3, 4), mode_order=(2, 0, 1))
    Tucker(shape=(6, 7, 8), rank=(2, 3, 4), dtype=float64)
    """
    z = as_implicit(z)
    rank = as_rank(rank, z.shape)
    mode_order = as_order(mode_order, rank)
    z, bases = _reduce(z, rank)
    core, factors = truncate_modes(z, rank, mode_order, None if bases is not None else init)
    return _expand(Tucker(core.todense(), tuple(factors[k] for k in range(len(rank)))), bases)


def _reduce(
    z: ImplicitTensor, rank: tuple[int, ...]
) -> tuple[ImplicitTensor, tuple[Array, ...] | None]:
    """Return the tensor to truncate, its core and bases where it has them."""
    exact = exact_core(z)
    if exact is None:
        return z, None
    core, bases = exact
    if any(r > s for r, s in zip(rank, core.shape, strict=True)):
        raise InputError(
            f"rank must not exceed {core.shape}, that of the given Tucker tensor, got {rank}; "
            "lower it"
        )
    return DenseTensor(core), bases


def _expand(x: Tucker, bases: tuple[Array, ...] | None) -> Tucker:
    if bases is None:
        return x
    return replace(x, factors=tuple(u @ w for u, w in zip(bases, x.factors, strict=True)))
