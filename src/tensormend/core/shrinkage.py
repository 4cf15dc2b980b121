"""Spectral shrinkage: ST-HOSVD with a filter on the singular directions instead of a cut.

Mode after mode the singular directions of the current unfolding are multiplied by ``f(s)``. Real
data are rarely of low rank; their spectra decay, and what helps is to trust a direction by its
strength rather than all or nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensormend.core.algebra import Array, mode_product, norm
from tensormend.core.implicit import as_implicit, exact_core, leading_basis, project
from tensormend.core.linalg import eigh
from tensormend.core.subspaces import leading_eigenvectors
from tensormend.core.tucker import Tucker

__all__ = ["Shrunk", "shrink"]

NEGLIGIBLE = 1e-2  # weight below which a direction is left out: measured, it makes no difference
EXACT_SIZE = 1024  # up to this size all eigenvectors cost less than some of them
LOOSE_TOL, LOOSE_SWEEPS = 0.1, 4  # the directions change with every iterate: no need for digits


@dataclass(frozen=True, eq=False)
class Shrunk:
    """The outcome of `shrink`: directions, their weights, and the shrunken tensor.

    ``F = F_0 x ... x F_{d-1}`` with ``F_k = U_k diag(w_k) U_k^H`` is the linear map that took ``z``
    to ``x = F z``; ``U_k`` are the factors of ``x``, ``w_k`` the weights.
    """

    x: Tucker
    weights: tuple[Array, ...]

    @property
    def degrees_of_freedom(self) -> float:
        """Effective number of parameters: trace of ``F``."""
        return math.prod(float(w.sum()) for w in self.weights)


def shrink(
    z: Any,
    strength: float,
    *,
    mode_weights: Sequence[float] | None = None,
    rank: Sequence[int] | None = None,
    mode_order: Sequence[int] | None = None,
    init: Sequence[Array] | None = None,
) -> Shrunk:
    """Shrink the singular directions of every mode, one mode after the other.

    In mode ``k`` of the current tensor the direction of singular value ``s`` is multiplied by
    ``s^2 / (s^2 + tau^2)`` with ``tau = strength * ||z||``, the Wiener filter of a signal of power
    ``s^2`` in white noise.

    Parameters
    ----------
    z : array_like or ImplicitTensor
        The tensor.
    strength : float
        ``tau`` relative to the norm of ``z``.
    mode_weights : sequence of float, optional
        Factors on ``tau``, one per mode; all 1 by default.
    rank : sequence of int, optional
        At most so many directions per mode; all by default.
    mode_order : sequence of int, optional
        Processing order of the modes; by descending size by default.
    init : sequence of ndarray, optional
        Factors near the answer, to start iterations from.

    Returns
    -------
    Shrunk
        The shrunken tensor and the weights of its directions.

    Examples
    --------
    >>> z = np.random.default_rng(0).standard_normal((6, 7, 8))
    >>> shrink(z, 0.3).x.norm() < norm(z)
    True
    """
    z = as_implicit(z)
    limits = tuple(z.shape) if rank is None else tuple(rank)
    core, bases = exact_core(z) or (None, None)
    if core is None:
        guesses = (None,) * len(limits) if init is None else init
        bases = tuple(
            leading_basis(z, k, r, init=guesses[k], tol=LOOSE_TOL) for k, r in enumerate(limits)
        )
        core = project(z, bases)
    return _shrink_core(
        core, bases, strength, mode_weights, limits, mode_order, init if bases is None else None
    )


def _shrink_core(
    z: Array,
    bases: tuple[Array, ...] | None,
    strength: float,
    mode_weights: Sequence[float] | None,
    limits: tuple[int, ...],
    mode_order: Sequence[int] | None,
    init: Sequence[Array] | None,
) -> Shrunk:
    """Shrink an array whose modes stand for bases, or for themselves."""
    floor = (strength * norm(z)) ** 2
    if mode_order is None:
        mode_order = sorted(range(z.ndim), key=lambda k: -limits[k])
    factors: dict[int, Array] = {}
    weights: dict[int, Array] = {}
    for k in mode_order:
        guess = None if init is None else init[k]
        squares, u = _spectrum(z, k, limits[k], guess)
        own = floor if mode_weights is None else floor * mode_weights[k] ** 2
        w = np.asarray(squares / (squares + own)) if own > 0 else np.ones_like(squares)
        n_kept = max(1, int(np.count_nonzero(w > NEGLIGIBLE)))
        u, weights[k] = u[:, :n_kept], np.maximum(w[:n_kept], NEGLIGIBLE)
        z = mode_product(z, (u * weights[k]).conj().T, k)
        factors[k] = u if bases is None else bases[k] @ u
    modes = range(z.ndim)
    x = Tucker(z, tuple(factors[k] for k in modes))
    return Shrunk(x, tuple(weights[k] for k in modes))


def _spectrum(z: Array, mode: int, rank: int, init: Array | None) -> tuple[Array, Array]:
    """Squares of the leading singular values of an unfolding, and the left singular vectors."""
    gram = _gram(z, mode)
    n = len(gram)
    rank = min(rank, n)
    if n <= EXACT_SIZE or 4 * rank > n:
        squares, vectors = eigh(gram)
        return np.maximum(squares[::-1][:rank], 0), vectors[:, ::-1][:, :rank]
    vectors, _ = leading_eigenvectors(
        lambda q: gram @ q,
        n,
        rank,
        init=init,
        dtype=gram.dtype,
        tol=LOOSE_TOL,
        max_sweeps=LOOSE_SWEEPS,
    )
    squares, turn = eigh(vectors.conj().T @ gram @ vectors)
    return np.maximum(squares[::-1], 0), vectors @ turn[:, ::-1]


def _gram(z: Array, mode: int) -> Array:
    """``M M^H`` for the unfolding ``M`` of a dense tensor, without a transposed copy."""
    n = z.shape[mode]
    before, after = math.prod(z.shape[:mode]), math.prod(z.shape[mode + 1 :])
    if after == 1:
        panel = z.reshape(before, n)
        return np.asarray(panel.T @ panel.conj())
    slabs = z.reshape(before, n, after)
    out = slabs[0] @ slabs[0].conj().T
    for slab in slabs[1:]:
        out += slab @ slab.conj().T
    return np.asarray(out)
