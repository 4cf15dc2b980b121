"""Truncation to low multilinear rank: T-HOSVD, ST-HOSVD, and the truncated SVD of one mode."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensormend.core.algebra import Array, as_rank, normalize_mode
from tensormend.core.implicit import (
    DenseTensor,
    ImplicitTensor,
    exact_core,
    leading_basis,
    panel,
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
    try:
        out = tuple(normalize_mode(operator.index(k), len(rank)) for k in order)
    except TypeError as error:
        raise InputError(
            f"mode_order must be a sequence of integers, got {order!r}; "
            f"for example {tuple(range(len(rank)))}"
        ) from error
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
    return panel_svd(left, panel(z, mode, left))


def panel_svd(left: Array, rows: Array) -> tuple[Array, Array, Array]:
    """Compute the SVD ``U S V^T`` of ``left rows^T``, where ``left`` is orthonormal."""
    q, triangle = tall_qr(rows)
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
        Multilinear rank of the result. An int is used for every mode, and lowered in those that
        allow only a lower one.
    init : sequence of ndarray, optional
        Approximate factors, one per mode, from which iterative methods begin. They affect the
        speed, and the result only within the accuracy of these methods.

    Returns
    -------
    Tucker
        The approximation, with orthonormal factors.

    Raises
    ------
    InputError
        If no tensor of that shape has the rank, if the rank exceeds that of a given Tucker tensor,
        if an array is not numeric or not finite, or if `init` does not have one matrix per mode
        with a row for every index.

    See Also
    --------
    sthosvd : Truncates one mode after the other, usually at lower cost.

    Notes
    -----
    Factor ``U_k`` spans the leading ``r_k`` left singular vectors of the unfolding ``M_k(z)``, and
    the core is ``z ×_0 U_0^H ... ×_{d-1} U_{d-1}^H``. The error is at most ``sqrt(d)`` times that
    of the best approximation of this rank.

    Of an implicit tensor with neither ``leading_basis`` nor ``exact_core``, the subspaces are
    estimated from a random sketch if it has more than about four million entries, and the bound
    does not hold.

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
    z = _as_tensor(z)
    rank = as_rank(rank, z.shape)
    init = _as_init(init, z.shape)
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
        Multilinear rank of the result. An int is used for every mode, and lowered in those that
        allow only a lower one.
    mode_order : sequence of int, optional
        Order in which the modes are truncated; by ascending rank by default.
    init : sequence of ndarray, optional
        Approximate factors, one per mode, from which iterative methods begin. They affect the
        speed, and the result only within the accuracy of these methods.

    Returns
    -------
    Tucker
        The approximation, with orthonormal factors.

    Raises
    ------
    InputError
        If no tensor of that shape has the rank, if the rank exceeds that of a given Tucker tensor,
        if an array is not numeric or not finite, if `mode_order` does not name every mode once, or
        if `init` does not have one matrix per mode with a row for every index.

    See Also
    --------
    thosvd : Truncates every mode of the given tensor.

    Notes
    -----
    The sequentially truncated HOSVD replaces the tensor by ``z ×_k U_k^H`` before the next mode is
    truncated, where ``U_k`` spans the leading ``r_k`` left singular vectors of its unfolding
    ``M_k``. What remains is the core. The bound ``sqrt(d)`` of the error is that of `thosvd`; the
    later modes cost less, and the result depends on the order. As for `thosvd`, it does not hold
    where subspaces are estimated from a random sketch.

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
    z = _as_tensor(z)
    rank = as_rank(rank, z.shape)
    mode_order = as_order(mode_order, rank)
    init = _as_init(init, z.shape)
    z, bases = _reduce(z, rank)
    core, factors = truncate_modes(z, rank, mode_order, None if bases is not None else init)
    return _expand(Tucker(core.todense(), tuple(factors[k] for k in range(len(rank)))), bases)


def _as_tensor(z: Any) -> ImplicitTensor:
    """Return the given tensor; an array must be finite, other tensors are not formed to see."""
    if isinstance(z, ImplicitTensor):
        return z
    tensor = DenseTensor(z)
    bad = ~np.isfinite(tensor.array)
    if bad.any():
        first = tuple(int(i) for i in np.unravel_index(np.argmax(bad), bad.shape))
        raise InputError(
            f"a tensor must be finite, got {int(bad.sum())} NaN or infinite entries (first at "
            f"{first}); tensormend.complete fills in missing entries"
        )
    return tensor


def _as_init(init: Sequence[Array] | None, shape: Sequence[int]) -> tuple[Array, ...] | None:
    if init is None:
        return None
    out = tuple(np.asarray(u) for u in init)
    if [u.shape[0] if u.ndim == 2 else None for u in out] != list(shape):
        raise InputError(
            f"init must have one matrix per mode with {', '.join(map(str, shape))} rows, got "
            f"shapes {[u.shape for u in out]}; leave it out, or give factors of a similar tensor"
        )
    return out


def _reduce(
    z: ImplicitTensor, rank: tuple[int, ...]
) -> tuple[ImplicitTensor, tuple[Array, ...] | None]:
    """Return what to truncate: the tensor, or its core, with the bases of the core."""
    exact = exact_core(z)
    if exact is None:
        return z, None
    core, bases = exact
    if any(r > s for r, s in zip(rank, core.shape, strict=True)):
        raise InputError(
            f"rank must not exceed {core.shape}, that of the given Tucker tensor, got {rank}; "
            "lower it"
        )
    # a dense tensor is its own core, and has threads
    return z if isinstance(z, DenseTensor) else DenseTensor(core), bases


def _expand(x: Tucker, bases: tuple[Array, ...] | None) -> Tucker:
    if bases is None:
        return x
    return replace(x, factors=tuple(u @ w for u, w in zip(bases, x.factors, strict=True)))
