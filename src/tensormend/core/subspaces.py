"""Leading singular subspaces of matrices, and leading eigenvectors of Hermitian maps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tensormend.core.algebra import SAFE_SQUARE, Array, norm, squared_norm
from tensormend.core.kernels import panel_kernels
from tensormend.core.linalg import eigh, orthonormalize, svd, tall_qr

__all__ = [
    "Product",
    "block_size",
    "dense_gram",
    "improve_subspace",
    "leading_eigenvectors",
    "leading_subspace",
    "matrix_products",
    "may_square",
]

Product = Callable[[Array], Array]

EXACT_FLOPS = 2e7  # below this an exact factorization beats an iteration
FULL_BASIS = 128  # up to this size a basis of the whole space beats restarts, and is exact
EVEN = 1 / 8  # power of eps: singular values above this fraction of the largest may be squared
FEW = 48  # rows or columns up to which a Gram matrix is faster than improving a basis
MAX_POWERS = 6  # multiplications of a basis that is near the answer
ROUNDING = 64  # a residual below this many eps of the norm is rounding


def leading_subspace(
    matrix: Array,
    rank: int,
    init: Array | None = None,
    threads: int = 1,
    *,
    improve: bool = True,
) -> Array:
    """Orthonormal basis of the leading left singular subspace of a dense matrix.

    An ``init`` near the answer is improved by a few multiplications (`improve_subspace`, unless
    that was tried). For large matrices a block iteration follows where this is not certain, and the
    factorization where that does not converge to within 1e4 roundings. It works on the Gram matrix
    where the singular values kept are within a factor 90, or 7 in single precision: rounding tilts
    the subspace by at most that much more than without squares.
    """
    n, columns = matrix.shape
    short = min(n, columns)
    is_large = n * short * columns > EXACT_FLOPS
    improve = improve and init is not None and init.shape[1] == rank < short > FEW
    if init is not None and (improve or is_large):
        init = _as_basis(init, matrix.dtype)
    if improve and init is not None:
        near = improve_subspace(*matrix_products(matrix, threads), squared_norm(matrix), init)
        if near is not None:
            return near
    if init is not None and is_large:
        basis, accuracy = leading_eigenvectors(
            dense_gram(matrix, threads), n, rank, init=init, max_sweeps=8
        )
        if accuracy <= 1e4 * np.finfo(matrix.dtype).eps:
            return basis
    found = _gram_subspace(matrix, rank) if rank <= short else None
    if found is not None:
        return found
    if n < columns:
        triangle = np.asarray(np.linalg.qr(matrix.conj().T, mode="r"))
        return svd(triangle.conj().T)[0][:, :rank]
    return svd(matrix, full_matrices=columns < rank)[0][:, :rank]


def _as_basis(init: Array, dtype: np.dtype[Any]) -> Array | None:
    """Orthonormalize a basis in a data type; ``None`` for a complex one of a real matrix."""
    if np.iscomplexobj(init) and dtype.kind != "c":
        return None
    return tall_qr(init.astype(dtype))[0]


def may_square(values: Array, rank: int) -> bool:
    """Whether the Gram matrix with these eigenvalues, ascending, tells its leading subspace.

    The singular values that are kept must be within a factor 90, or 7 in single precision.
    """
    return bool(values[-rank] >= np.finfo(values.dtype).eps ** (2 * EVEN) * values[-1])


def _gram_subspace(matrix: Array, rank: int) -> Array | None:
    """Leading left singular subspace from the Gram matrix of the shorter side, or ``None``."""
    n, columns = matrix.shape
    with np.errstate(over="ignore", invalid="ignore"):
        gram = matrix @ matrix.conj().T if n < columns else matrix.conj().T @ matrix
    if not SAFE_SQUARE < gram.trace().real < 1 / SAFE_SQUARE:
        return None
    values, vectors = eigh(gram)
    if not may_square(values, rank):
        return None
    leading = np.ascontiguousarray(vectors[:, : -rank - 1 : -1])
    if n < columns:
        return leading
    return orthonormalize(matrix @ (leading / np.sqrt(values[: -rank - 1 : -1])))


def improve_subspace(
    multiply: Product, multiply_adjoint: Product, total: float, init: Array
) -> Array | None:
    """Leading left singular subspace by a few multiplications of a basis near it.

    With the Rayleigh quotient ``H`` of a basis ``Q`` for ``M M^H``, and the energy that the basis
    leaves out, ``rest = ||M||^2 - tr(H)``, the angle to an invariant subspace is at most
    ``||M M^H Q - Q H|| / (h_r - rest)``, ``h_r`` being the least eigenvalue of ``H``. This
    subspace is the leading one, because no direction outside of it can have an eigenvalue above
    ``rest``.

    Parameters
    ----------
    multiply, multiply_adjoint : callable
        The maps ``P -> M P`` and ``Q -> M^H Q``.
    total : float
        ``||M||^2``.
    init : ndarray
        Orthonormal basis, which has as many columns as the one to find.

    Returns
    -------
    ndarray or None
        Orthonormal basis; ``None`` where the angle does not become a rounding error soon.
    """
    eps = float(np.finfo(init.dtype).eps)
    if not SAFE_SQUARE < total < 1 / SAFE_SQUARE:
        return None
    q, last = init, np.inf
    for _ in range(MAX_POWERS):
        inside = multiply_adjoint(q)
        image = multiply(inside)
        values, vectors = eigh(inside.conj().T @ inside)
        rest = total - float(values.sum())
        is_near = -math.sqrt(eps) * total < rest < values[0] / 2
        if not (is_near and may_square(values, len(values))):
            return None
        rest = max(rest, 0.0)
        angle = norm(image - q @ (q.conj().T @ image)) / (values[0] - rest)
        # a power step ahead of the basis before
        q = orthonormalize(image @ (vectors[:, ::-1] / values[::-1]))
        if angle * max(rest / values[0], eps) <= ROUNDING * eps * values[-1] / values[0]:
            return q
        if angle > last / 4:
            return None
        last = angle
    return None


def matrix_products(matrix: Array, threads: int) -> tuple[Product, Product]:
    """Return the maps ``P -> M P`` and ``Q -> M^H Q``, for ``P`` and ``Q`` of few columns."""
    if matrix.dtype.kind == "f" and matrix.flags.f_contiguous and not matrix.flags.c_contiguous:
        multiply_transposed, multiply_adjoint_transposed = matrix_products(matrix.T, threads)
        return multiply_adjoint_transposed, multiply_transposed  # the kernels read rows

    def multiply(p: Array) -> Array:
        out: Array = panel_kernels(p).panel_multiply(matrix, p[None], threads)
        return out

    def multiply_adjoint(q: Array) -> Array:
        out: Array = panel_kernels(q).panel_adjoint(matrix, q, threads)
        return out

    return multiply, multiply_adjoint


def dense_gram(matrix: Array, threads: int, shrink: float = 1.0) -> Callable[[Array], Array]:
    """Return the map ``Q -> M M^H Q``, the diagonal of ``M M^H`` multiplied by ``shrink``."""
    multiply, multiply_adjoint = matrix_products(matrix, threads)
    diagonal: Array | float = 0.0
    if shrink != 1:
        squares = np.einsum("ij,ij->i", matrix, matrix.conj()).real
        diagonal = ((shrink - 1) * squares)[:, None].astype(squares.dtype)

    def apply(q: Array) -> Array:
        out: Array = multiply(multiply_adjoint(q)) + diagonal * q
        return out

    return apply


def block_size(n: int, rank: int) -> int:
    """Columns of the blocks of `leading_eigenvectors`."""
    return min(n, rank + max(3, rank // 2))


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
    block = block_size(n, rank)
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
