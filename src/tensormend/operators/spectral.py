"""Diagonally corrected spectral estimate of a tensor from sampled entries."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensormend.core.algebra import DEFAULT_MEMORY_LIMIT, Array, gaussian, mode_product
from tensormend.core.linalg import svd, tall_qr
from tensormend.core.sparse import SparsePlusTucker
from tensormend.core.subspaces import dense_gram, leading_eigenvectors
from tensormend.core.tucker import Tucker, degrees_of_freedom

__all__ = ["corrected_estimate"]

# The eigenvectors of sampled data are estimates, and noise beyond a tenth: more sweeps cost more
# than the iterations they save.
ESTIMATE_TOL, ESTIMATE_SWEEPS = 0.1, 8

# From this many samples per degree of freedom on, the other modes are estimated after projection
# onto the leaf factor, which needs the entries in one order only; from the second number on a few
# products with a block, of the rank and a few more columns, tell them well enough.
MANY_SAMPLES, PLENTY = 20, 100
SURPLUS, N_PRODUCTS = 3, 2

Finder = Callable[[Callable[[Array], Array], int, int, "np.dtype[np.generic]"], Array]


def corrected_estimate(z: SparsePlusTucker, rank: tuple[int, ...]) -> Tucker:
    """Estimate factors from sampled entries alone, and project the entries onto them.

    Parameters
    ----------
    z : SparsePlusTucker
        The entries, without a Tucker part.
    rank : tuple of int
        Multilinear rank.

    Returns
    -------
    Tucker
        The entries, zero elsewhere, projected onto the factors.

    Notes
    -----
    For entries sampled with ratio ``p`` from ``T``, the mean of the Gram matrix of an unfolding of
    the entries is ``p^2 M M^H`` off the diagonal but ``p M M^H`` on it. Multiplying the diagonal by
    ``p`` removes the excess, which matters when few entries are observed.
    """
    n_entries = len(z.values)
    ratio = n_entries / float(np.prod(z.shape, dtype=float))
    panel = z.fibres.n_columns * rank[z.fibres.leaf_mode]
    needed = degrees_of_freedom(z.shape, rank)
    is_small = panel * z.dtype.itemsize <= DEFAULT_MEMORY_LIMIT / 8  # it is copied twice
    if is_small and n_entries >= max(MANY_SAMPLES * needed, panel / 4):
        return _sequential(
            z, rank, ratio, _power_basis if n_entries >= PLENTY * needed else _leading
        )
    grams = [z.gram(k, shrink=ratio) for k in range(len(rank))]
    factors = tuple(_leading(gram, z.shape[k], rank[k], z.dtype) for k, gram in enumerate(grams))
    return Tucker(z.project(factors), factors)


def _sequential(z: SparsePlusTucker, rank: tuple[int, ...], ratio: float, find: Finder) -> Tucker:
    """Estimate one factor after the other, each from what the ones before it left."""
    leaf = z.fibres.leaf_mode
    factors = {leaf: find(z.gram(leaf, shrink=ratio), z.shape[leaf], rank[leaf], z.dtype)}
    core = z.compress(leaf, factors[leaf]).array
    for k in range(len(rank)):
        if k != leaf:
            matrix = np.moveaxis(core, k, 0).reshape(z.shape[k], -1)
            gram = dense_gram(matrix, z.threads, shrink=ratio)
            factors[k] = find(gram, z.shape[k], rank[k], z.dtype)
            core = mode_product(core, factors[k].conj().T, k)
    return Tucker(core, tuple(factors[k] for k in range(len(rank))))


def _power_basis(
    gram: Callable[[Array], Array], n: int, rank: int, dtype: np.dtype[np.generic]
) -> Array:
    """Estimate leading eigenvectors by a few products with a block."""
    block = gaussian((n, min(n, rank + SURPLUS)), np.random.default_rng(0), dtype)
    for _ in range(N_PRODUCTS):
        block = gram(tall_qr(block)[0])
    return svd(block, full_matrices=False)[0][:, :rank]


def _leading(
    gram: Callable[[Array], Array], n: int, rank: int, dtype: np.dtype[np.generic]
) -> Array:
    return leading_eigenvectors(
        gram, n, rank, dtype=dtype, tol=ESTIMATE_TOL, max_sweeps=ESTIMATE_SWEEPS
    )[0]
