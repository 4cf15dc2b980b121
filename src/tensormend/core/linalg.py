"""Matrix factorizations: singular values, eigenvalues and QR, made reliable and fast."""

from __future__ import annotations

import math

import numpy as np

from tensormend.core.algebra import Array

__all__ = ["eigh", "orthonormalize", "orthonormalizer", "refresh", "svd", "tall_qr"]

TALL = 4000  # rows from which Cholesky-QR is faster than Householder reflections


def svd(matrix: Array, *, full_matrices: bool = True) -> tuple[Array, Array, Array]:
    """Compute a singular value decomposition that does not fail on a finite matrix.

    NumPy calls LAPACK's divide-and-conquer driver, which is fast but sometimes fails to converge,
    depending on the BLAS and on the last bits of the matrix. The slower QR iteration is then used.

    Parameters
    ----------
    matrix : ndarray
        Matrix to decompose.
    full_matrices : bool, default=True
        Whether ``u`` and ``vh`` are square.

    Returns
    -------
    u : ndarray
        Left singular vectors, one per column.
    s : ndarray
        Singular values in descending order.
    vh : ndarray
        Conjugate transpose of the right singular vectors.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the matrix holds NaN or infinite numbers.
    """
    try:
        u, s, vh = np.linalg.svd(matrix, full_matrices=full_matrices)
    except np.linalg.LinAlgError:
        if not np.isfinite(matrix).all():
            raise
        from scipy.linalg import svd as iterate

        u, s, vh = iterate(
            matrix, full_matrices=full_matrices, lapack_driver="gesvd", check_finite=False
        )
    return u, s, vh


def eigh(matrix: Array) -> tuple[Array, Array]:
    """Compute the eigenvalues and eigenvectors of a Hermitian matrix.

    Where LAPACK's divide-and-conquer driver fails to converge, the QR iteration is used, as in
    `svd`.

    Parameters
    ----------
    matrix : ndarray
        Hermitian matrix.

    Returns
    -------
    values : ndarray
        Eigenvalues in ascending order.
    vectors : ndarray
        Eigenvectors, one per column.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the matrix holds NaN or infinite numbers.
    """
    try:
        values, vectors = np.linalg.eigh(matrix)
    except np.linalg.LinAlgError:
        if not np.isfinite(matrix).all():
            raise
        from scipy.linalg import eigh as iterate

        values, vectors = iterate(matrix, driver="ev", check_finite=False)
    return values, vectors


def _householder(panel: Array) -> tuple[Array, Array]:
    q, r = np.linalg.qr(panel)
    return q, r


def tall_qr(panel: Array) -> tuple[Array, Array]:
    """Compute the thin QR decomposition ``panel = q r`` of a tall panel.

    Tall panels are factored by Cholesky-QR, applied twice. It consists of matrix products, where
    Householder reflections read the panel once per column, and is as accurate as long as the
    condition number is below the inverse square root of the machine epsilon. Other panels are
    factored by Householder reflections. The diagonal of ``r`` may have either sign.

    Parameters
    ----------
    panel : ndarray
        Matrix with at least as many rows as columns.

    Returns
    -------
    q : ndarray
        Matrix with orthonormal columns.
    r : ndarray
        Upper triangular factor.
    """
    n, columns = panel.shape
    if n < TALL or n < 20 * columns:
        return _householder(panel)
    limit = 10 * math.sqrt(float(np.finfo(panel.dtype).eps))
    q, r = panel, np.eye(columns, dtype=panel.dtype)
    for _ in range(2):
        try:
            root = np.linalg.cholesky(q.conj().T @ q)
            values = np.linalg.svd(root, compute_uv=False)
        except np.linalg.LinAlgError:
            return _householder(panel)
        if not values[-1] > limit * values[0]:
            return _householder(panel)
        q = q @ np.linalg.inv(root).conj().T
        r = root.conj().T @ r
    return q, r


def orthonormalizer(gram: Array) -> Array:
    """Return what takes a panel with this Gram matrix to the nearest orthonormal one, nearly.

    It is a Newton step, which squares the distance of the Gram matrix to the identity.

    Parameters
    ----------
    gram : ndarray
        Gram matrix, close to the identity.

    Returns
    -------
    ndarray
        Matrix to multiply the panel by.
    """
    out: Array = 1.5 * np.eye(len(gram), dtype=gram.dtype) - 0.5 * gram
    return out


def refresh(panel: Array) -> Array:
    """Take a Newton step to the nearest orthonormal panel, so that rounding does not add up.

    Parameters
    ----------
    panel : ndarray
        Matrix with nearly orthonormal columns.

    Returns
    -------
    ndarray
        Matrix with orthonormal columns, to rounding.
    """
    fresh: Array = panel @ orthonormalizer(panel.conj().T @ panel)
    return fresh


def orthonormalize(panel: Array) -> Array:
    """Return an orthonormal basis of the columns of a panel, which may be nearly orthonormal.

    Where it is, a Newton step is several times faster than a factorization.

    Parameters
    ----------
    panel : ndarray
        Matrix with at least as many rows as columns.

    Returns
    -------
    ndarray
        Matrix with orthonormal columns.
    """
    gram = panel.conj().T @ panel
    off = np.abs(gram - np.eye(len(gram), dtype=gram.dtype)).max()
    if not off <= math.sqrt(float(np.finfo(panel.dtype).eps)) / len(gram):
        return tall_qr(panel)[0]
    out: Array = panel @ orthonormalizer(gram)
    return out
