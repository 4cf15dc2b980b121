"""Leading singular subspaces of matrices, and leading eigenvectors of Hermitian maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensormend.core.algebra import SAFE_SQUARE, Array
from tensormend.core.linalg import eigh, svd, tall_qr
from tensormend.core.threads import map_threads

__all__ = ["FULL_BASIS", "dense_gram", "leading_eigenvectors", "leading_subspace"]

EXACT_FLOPS = 2e7  # below this an exact factorization beats an iteration
FULL_BASIS = 128  # up to this size a basis of the whole space beats restarts, and is exact
LARGE, N_BLOCKS = 2**20, 8  # numbers from which on a matrix is multiplied in blocks, and how many
EVEN = 1 / 8  # power of eps: singular values above this fraction of the largest may be squared
ROUNDING = 64  # a residual below this many eps of the norm is rounding


def leading_subspace(
    matrix: Array, rank: int, init: Array | None = None, threads: int = 1
) -> Array:
    """Orthonormal basis of the leading left singular subspace of a dense matrix.

    From a ``init`` near the answer, large matrices take a few multiplications instead of a
    factorization; where these do not converge to within 1e4 roundings the factorization steps in.
    It works on the Gram matrix where the singular values kept are within a factor 90, or 7 in
    single precision: rounding tilts the subspace by at most that much more than without squares.
    """
    n, columns = matrix.shape
    if init is not None and n * min(n, columns) * columns > EXACT_FLOPS:
        basis, accuracy = leading_eigenvectors(
            dense_gram(matrix, threads), n, rank, init=init, max_sweeps=8
        )
        if accuracy <= 1e4 * np.finfo(matrix.dtype).eps:
            return basis
    if n < columns:
        with np.errstate(over="ignore", invalid="ignore"):
            gram = matrix @ matrix.conj().T
        if SAFE_SQUARE < gram.trace().real < 1 / SAFE_SQUARE:
            values, vectors = eigh(gram)
            if values[-rank] >= np.finfo(values.dtype).eps ** (2 * EVEN) * values[-1]:
                return np.ascontiguousarray(vectors[:, : -rank - 1 : -1])
        triangle = np.asarray(np.linalg.qr(matrix.conj().T, mode="r"))
        return svd(triangle.conj().T)[0][:, :rank]
    return svd(matrix, full_matrices=columns < rank)[0][:, :rank]


def dense_gram(matrix: Array, threads: int, shrink: float = 1.0) -> Callable[[Array], Array]:
    """Return the map ``Q -> M M^H Q``, the diagonal of ``M M^H`` multiplied by ``shrink``.

    Large products are cut into blocks of rows, the same for any number of threads.
    """
    blocks = np.array_split(matrix, N_BLOCKS if matrix.size >= LARGE else 1)
    edges = np.cumsum([len(block) for block in blocks])[:-1]
    diagonal: Array | float = 0.0
    if shrink != 1:
        squares = np.einsum("ij,ij->i", matrix, matrix.conj()).real
        diagonal = ((shrink - 1) * squares)[:, None].astype(squares.dtype)

    def apply(q: Array) -> Array:
        pairs = list(zip(blocks, np.split(q, edges), strict=True))
        inside = sum(map_threads(lambda pair: pair[0].conj().T @ pair[1], pairs, threads))
        outside = map_threads(lambda block: block @ inside, blocks, threads)
        out: Array = np.concatenate(outside) + diagonal * q
        return out

    def apply_whole(q: Array) -> Array:
        out: Array = matrix @ (matrix.conj().T @ q) + diagonal * q
        return out

    return apply if len(blocks) > 1 else apply_whole


def leading_eigenvectors(
    apply: Callable[[Array], Array],
    n: int,
    rank: int,
    *,
    init: Array | None = None,
    dtype: Any = None,
    tol: float = 1e-12,
    max_sweeps: int = 60,
) -> tuple[Array, float]:
    """Leading eigenvectors of a Hermitian ``n x n`` map, by a thick-restarted block iteration.

    The basis grows by the residuals of its Ritz pairs, as in a block Lanczos method, and is cut
    back to the best of them when it is full. Beside ``init`` a few random columns look for what it
    misses.

    Returns
    -------
    basis : ndarray
        ``n x rank``, orthonormal, largest eigenvalue first.
    accuracy : float
        Residual of the Ritz pairs relative to the smallest eigenvalue kept, which bounds the angle
        to the invariant subspace where a gap follows it.
    """
    dtype = np.dtype(dtype if init is None else init.dtype)
    rng = np.random.default_rng(0)  # fixed: the same input gives the same answer
    block = min(n, rank + max(3, rank // 2))
    limit = n if n <= FULL_BASIS else min(n, 4 * block)
    guess = rng.standard_normal((n, block)).astype(dtype)
    if init is not None:
        guess[:, : init.shape[1]] = init[:, :block]
    basis = tall_qr(guess)[0]
    image = apply(basis)
    eps = float(np.finfo(dtype).eps)
    for sweep in range(max_sweeps):
        small = basis.conj().T @ image
        values, vectors = eigh((small + small.conj().T) / 2)
        values, vectors = values[::-1], vectors[:, ::-1]
        kept = min(block, len(values))
        ritz = basis @ vectors[:, :kept]
        residual = image @ vectors[:, :kept] - ritz * values[:kept]
        top = max(abs(values[0]), abs(values[-1]))
        sizes = np.linalg.norm(residual / top, axis=0) if top > 0 else np.zeros(kept)
        noise = ROUNDING * eps
        worst = float(np.linalg.norm(sizes[:rank]))
        floor = max(abs(values[rank - 1]) / top, noise) if top > 0 else 1.0
        active = sizes > noise
        settled = worst <= tol * floor or not active[:rank].any()
        # an init may be invariant without leading: look beyond it before believing it
        enough = init is None or sweep >= 2 or not active.any()
        done = (settled and enough) or basis.shape[1] == n
        if done or sweep == max_sweeps - 1:
            break
        if basis.shape[1] + kept > limit and limit < n:
            basis, image = ritz, image @ vectors[:, :kept]
        fresh = (residual[:, active] / (top * sizes[active]))[:, : n - basis.shape[1]]
        for _ in range(2):  # twice is enough
            fresh = tall_qr(fresh - basis @ (basis.conj().T @ fresh))[0]
        basis = np.hstack([basis, fresh])
        image = np.hstack([image, apply(fresh)])
    best = ritz[:, :rank]
    # a power step with the products at hand, where it cannot hurt; directions whose eigenvalues
    # are roundings of the largest remain lost
    if abs(values[-1]) <= values[rank - 1]:
        best = tall_qr(image @ vectors[:, :rank])[0]
    return best, worst / floor
