"""Spectral shrinkage: ST-HOSVD with weights on the singular directions in place of a cut-off.

The spectra of real data usually decay without a gap. Weights that grow with the singular value
then estimate a tensor from noisy entries better than a truncation, whose weights are 0 or 1.
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
from tensormend.errors import InputError

__all__ = ["Shrunk", "shrink"]

NEGLIGIBLE = 1e-2  # directions of smaller weight are dropped, which does not change measured errors
EXACT_SIZE = 1024  # up to this size computing all eigenvectors is faster than an iteration
LOOSE_TOL, LOOSE_SWEEPS = 0.1, 4  # low accuracy is enough: the directions change in every iteration


@dataclass(frozen=True, eq=False)
class Shrunk:
    """Result of `shrink`.

    Attributes
    ----------
    x : Tucker
        The regularized tensor; its factors ``U_k`` are the directions, with orthonormal columns.
    weights : tuple of ndarray
        Weights ``w_k`` of the directions, one vector per mode.

    Notes
    -----
    For fixed directions and weights, ``x = F z`` with the linear map
    ``F = F_0 ⊗ ... ⊗ F_{d-1}``, ``F_k = U_k diag(w_k) U_k^H``.
    """

    x: Tucker
    weights: tuple[Array, ...]

    @property
    def degrees_of_freedom(self) -> float:
        """Effective number of parameters, the trace of ``F``."""
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
    """Regularize a tensor by shrinking its singular directions, one mode after the other.

    Parameters
    ----------
    z : array_like or ImplicitTensor
        The tensor.
    strength : float
        Strength of the regularization: ``tau`` relative to the norm of ``z``.
    mode_weights : sequence of float, optional
        Factors on ``tau``, one per mode; all 1 by default.
    rank : sequence of int, optional
        Largest number of directions per mode; all by default.
    mode_order : sequence of int, optional
        Order in which the modes are processed; by descending size by default.
    init : sequence of ndarray, optional
        Approximate factors, one per mode, from which iterative methods begin.

    Returns
    -------
    Shrunk
        The regularized tensor and the weights of its directions.

    Raises
    ------
    InputError
        If ``mode_weights`` does not have one number per mode.

    Notes
    -----
    In mode ``k`` of the current tensor, the direction of singular value ``s`` is multiplied by
    ``s^2 / (s^2 + tau^2)`` with ``tau = strength * ||z||``, the Wiener filter of a signal of power
    ``s^2`` in white noise of power ``tau^2``. Directions whose weight is negligible are dropped.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormend.core.shrinkage import shrink
    >>> z = np.random.default_rng(0).standard_normal((6, 7, 8))
    >>> result = shrink(z, 0.3)
    >>> bool(result.x.norm() < np.linalg.norm(z))
    True
    >>> bool(result.degrees_of_freedom < z.size)
    True
    """
    z = as_implicit(z)
    limits = tuple(z.shape) if rank is None else tuple(rank)
    if mode_weights is not None and len(mode_weights) != len(limits):
        raise InputError(
            f"mode_weights must have one number per mode, got {len(mode_weights)} for "
            f"{len(limits)} modes"
        )
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
    """Shrink an array of coefficients with respect to orthonormal bases, or without bases."""
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
    """Return squared leading singular values of an unfolding, and its left singular vectors."""
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
    """Return ``M M^H`` for the unfolding ``M`` of a dense tensor, without a transposed copy."""
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
