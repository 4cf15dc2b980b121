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
    """Check a processing order of the modes; the default is by ascending rank."""
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

    Returns ``U`` (``n_k x rank``), the singular values, and ``V`` (``N x rank``, not conjugated)
    with the ``N`` columns of the unfolding counted in C order over the other modes.
    """
    left = leading_basis(z, mode, rank)
    own = getattr(z, "panel", None)
    if own is None:
        panel = np.moveaxis(z.compress(mode, left).todense(), mode, -1).reshape(-1, rank)
    else:
        panel = own(mode, left)
    return panel_svd(left, panel)


def panel_svd(left: Array, panel: Array) -> tuple[Array, Array, Array]:
    """Singular value decomposition ``U S V^T`` of ``left panel^T`` with orthonormal ``left``."""
    q, triangle = tall_qr(panel)
    u, s, vh = svd(triangle.T)
    return left @ u, s, q @ vh.T


def truncate_modes(
    z: ImplicitTensor, rank: Sequence[int], modes: Sequence[int], init: Sequence[Array] | None
) -> tuple[ImplicitTensor, dict[int, Array]]:
    """Truncate some modes of a tensor, one after the other, as ST-HOSVD does."""
    factors: dict[int, Array] = {}
    for k in modes:
        factors[k] = leading_basis(z, k, rank[k], init=None if init is None else init[k])
        z = z.compress(k, factors[k])
    return z, factors


def thosvd(z: Any, rank: int | Sequence[int], *, init: Sequence[Array] | None = None) -> Tucker:
    """Compute a truncated HOSVD (Algorithm 1 of the paper).

    Parameters
    ----------
    z : array_like or ImplicitTensor
        Array, Tucker tensor of larger rank, or any other implicit tensor.
    rank : int or sequence of int
        Target multilinear rank.
    init : sequence of ndarray, optional
        Factors near the answer, to start iterations from.

    Returns
    -------
    Tucker
        The truncated tensor, with orthonormal factors.

    Examples
    --------
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
    """Compute a sequentially truncated HOSVD (Algorithm 2 of the paper).

    Parameters
    ----------
    z : array_like or ImplicitTensor
        Array, Tucker tensor of larger rank, or any other implicit tensor.
    rank : int or sequence of int
        Target multilinear rank.
    mode_order : sequence of int, optional
        Processing order of the modes; by ascending rank by default.
    init : sequence of ndarray, optional
        Factors near the answer, to start iterations from.

    Returns
    -------
    Tucker
        The truncated tensor, with orthonormal factors.

    Examples
    --------
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
    """Return what is to be truncated: a core where the tensor is an isometry of one."""
    exact = exact_core(z)
    if exact is None:
        return z, None
    core, bases = exact
    if any(r > s for r, s in zip(rank, core.shape, strict=True)):
        raise InputError(
            f"rank must not exceed the rank of the Tucker tensor, got {rank} for {core.shape}"
        )
    return DenseTensor(core), bases


def _expand(x: Tucker, bases: tuple[Array, ...] | None) -> Tucker:
    if bases is None:
        return x
    return replace(x, factors=tuple(u @ w for u, w in zip(bases, x.factors, strict=True)))
