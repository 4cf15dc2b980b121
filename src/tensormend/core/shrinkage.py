"""Spectral shrinkage: ST-HOSVD with a filter on the singular directions instead of a cut.

Mode after mode the singular directions of the current unfolding are multiplied by ``f(s)``. Real
data are rarely of low rank; their spectra decay, and what helps is to trust a direction by its
strength rather than all or nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tensormend.core.algebra import Array, eigh, mode_product, norm
from tensormend.core.truncate import SparsePlusTucker, leading_eigenvectors
from tensormend.core.tucker import Tucker
from tensormend.errors import InputError

__all__ = ["FILTERS", "Shrunk", "shrink"]


def _ridge(squares: Array, floor: float) -> Array:
    """``s^2 / (s^2 + tau^2)``, the Wiener filter of a signal of power ``s^2`` in white noise."""
    return np.asarray(squares / (squares + floor))


def _garrote(squares: Array, floor: float) -> Array:
    """``max(1 - tau^2 / s^2, 0)``, which drops what is below ``tau``."""
    return np.asarray(1 - floor / np.maximum(squares, floor))


FILTERS: dict[str, Callable[[Array, float], Array]] = {"ridge": _ridge, "garrote": _garrote}
"""Weights of singular directions from the squares of ``s`` and of ``tau``, by name."""

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
    z: Array | SparsePlusTucker,
    strength: float,
    *,
    filter: str = "ridge",  # noqa: A002
    balance: Sequence[float] | None = None,
    rank: Sequence[int] | None = None,
    order: Sequence[int] | None = None,
    start: Sequence[Array] | None = None,
) -> Shrunk:
    """Shrink the singular directions of every mode, one mode after the other.

    In mode ``k`` of the current tensor the direction of singular value ``s`` is multiplied by
    ``f(s)``, for the ridge filter ``s^2 / (s^2 + tau^2)`` with ``tau = strength * ||z||``.

    Parameters
    ----------
    z : dense array, or sparse plus Tucker
    strength : ``tau`` relative to the norm of ``z``
    filter : ``"ridge"`` or ``"garrote"``, see `FILTERS`
    balance : factors on ``tau``, one per mode; all 1 by default
    rank : at most so many directions per mode; all by default
    order : processing order of the modes; by descending size by default
    start : factors near the answer, to start iterations from

    Examples
    --------
    >>> z = np.random.default_rng(0).standard_normal((6, 7, 8))
    >>> shrink(z, 0.3).x.norm() < norm(z)
    True
    """
    if filter not in FILTERS:
        raise InputError(f"filter must be one of {', '.join(FILTERS)}, got {filter!r}")
    limits = tuple(z.shape) if rank is None else tuple(rank)
    bases: tuple[Array, ...] | None = None
    if isinstance(z, SparsePlusTucker):
        bases = _loose_bases(z, limits, start)
        z, start = z.project(bases), None
    floor = (strength * norm(z)) ** 2
    if order is None:
        order = sorted(range(z.ndim), key=lambda k: -limits[k])
    factors: dict[int, Array] = {}
    weights: dict[int, Array] = {}
    for k in order:
        guess = None if start is None else start[k]
        squares, u = _spectrum(z, k, limits[k], guess)
        own = floor if balance is None else floor * balance[k] ** 2
        w = FILTERS[filter](squares, own) if own > 0 else np.ones_like(squares)
        n_kept = max(1, int(np.count_nonzero(w > NEGLIGIBLE)))
        u, weights[k] = u[:, :n_kept], np.maximum(w[:n_kept], NEGLIGIBLE)
        z = mode_product(z, (u * weights[k]).conj().T, k)
        factors[k] = u if bases is None else bases[k] @ u
    modes = range(z.ndim)
    x = Tucker(z, tuple(factors[k] for k in modes))
    return Shrunk(x, tuple(weights[k] for k in modes))


def _spectrum(z: Array, mode: int, rank: int, start: Array | None) -> tuple[Array, Array]:
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
        start=start,
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


def _loose_bases(
    z: SparsePlusTucker, rank: tuple[int, ...], start: Sequence[Array] | None
) -> tuple[Array, ...]:
    """Leading singular subspaces of every mode, to the few digits that shrinkage needs."""
    return tuple(
        leading_eigenvectors(
            z.gram(k),
            z.shape[k],
            r,
            start=None if start is None else start[k],
            dtype=z.dtype,
            tol=LOOSE_TOL,
            max_sweeps=LOOSE_SWEEPS,
        )[0]
        for k, r in enumerate(rank)
    )
