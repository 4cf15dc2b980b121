"""Tangent spaces: of the Tucker manifold (d+1 orthogonal parts), and of a single mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensormend.core.algebra import (
    SAFE_SQUARE,
    Array,
    inner,
    matricize,
    mode_product,
    multi_mode_product,
    squared_norm,
)
from tensormend.core.kernels import panel_kernels
from tensormend.core.linalg import eigh, orthonormalizer, refresh, svd, tall_qr
from tensormend.core.subspaces import may_square
from tensormend.core.threads import map_rows
from tensormend.core.truncate import thosvd
from tensormend.core.tucker import Tucker
from tensormend.errors import InputError

__all__ = ["ModeTangent", "TuckerTangent", "orthonormal_complement"]

ROUNDING = 16  # so many eps a panel may be from orthonormal


@dataclass(frozen=True, eq=False)
class TuckerTangent:
    """A tangent vector ``D ×_j U_j + sum_k C ×_{j≠k} U_j ×_k V_k`` at ``C ×_j U_j``.

    For the solvers the factors ``U_j`` of the point are orthonormal and ``U_k^H V_k = 0``, so that
    the ``d + 1`` parts are orthogonal to each other (equation 2.4 of the paper); norms and inner
    products assume that. Operators take tangent vectors with any factors.

    Parameters
    ----------
    point : Tucker
        Point of the manifold, with orthonormal factors.
    core : ndarray
        Core ``D`` of the part along the point's own factors.
    factors : tuple of ndarray
        Matrices ``V_k``, orthogonal to the factors of the point.
    """

    point: Tucker
    core: Array
    factors: tuple[Array, ...]

    @classmethod
    def from_products(cls, point: Tucker, core: Array, gradients: Sequence[Array]) -> TuckerTangent:
        """Project a tensor ``G`` onto the tangent space, given its products with core and factors.

        ``core`` is ``G ×_j U_j^H`` and ``gradients[k]`` is ``M_k(G ×_{j≠k} U_j^H) M_k(C)^H``.

        Parameters
        ----------
        point : Tucker
            Point of the manifold, with orthonormal factors.
        core : ndarray
            The product ``G ×_j U_j^H``, of the shape of the core of the point.
        gradients : sequence of ndarray
            For every mode the product above, of the shape of its factor.

        Returns
        -------
        TuckerTangent
            The orthogonal projection of ``G``.
        """
        factors = tuple(
            (gradient - u @ (u.conj().T @ gradient)) @ inverse
            for u, gradient, inverse in zip(
                point.factors, gradients, point.core_inverses, strict=True
            )
        )
        return cls(point, core, factors)

    @classmethod
    def project(cls, point: Tucker, z: Array) -> TuckerTangent:
        """Project a dense tensor onto the tangent space, by dense products.

        Parameters
        ----------
        point : Tucker
            Point of the manifold, with orthonormal factors.
        z : ndarray
            Dense tensor.

        Returns
        -------
        TuckerTangent
            The projection of ``z``.
        """
        gradients = []
        core = z
        for k in range(point.ndim):
            core = mode_product(core, point.factors[k].conj().T, k)
            part = z
            for j in range(point.ndim):
                if j != k:
                    part = mode_product(part, point.factors[j].conj().T, j)
            gradients.append(matricize(part, k) @ matricize(point.core, k).conj().T)
        return cls.from_products(point, core, gradients)

    def inner(self, other: TuckerTangent) -> float:
        """Compute the real part of the inner product with another tangent vector at the point.

        Parameters
        ----------
        other : TuckerTangent
            Tangent vector at the same point.

        Returns
        -------
        float
            Real part of the inner product.
        """
        total = inner(self.core, other.core).real
        for v, w, root in zip(self.factors, other.factors, self.point.core_roots, strict=True):
            total += inner(v @ root, w @ root).real
        return float(total)

    def plus(self, other: TuckerTangent, weight: float) -> TuckerTangent:
        """Return ``self + weight * other``, both at the same point.

        Parameters
        ----------
        other : TuckerTangent
            Tangent vector at the same point.
        weight : float
            Factor.

        Returns
        -------
        TuckerTangent
            The sum, at the same point.
        """
        factors = tuple(v + weight * w for v, w in zip(self.factors, other.factors, strict=True))
        return TuckerTangent(self.point, self.core + weight * other.core, factors)

    def times(self, weight: float) -> TuckerTangent:
        """Return ``weight * self``.

        Parameters
        ----------
        weight : float
            Factor.

        Returns
        -------
        TuckerTangent
            The multiple, at the same point.
        """
        factors = tuple(weight * v for v in self.factors)
        return TuckerTangent(self.point, weight * self.core, factors)

    def transport(self, point: Tucker) -> TuckerTangent:
        """Project the vector onto the tangent space at another point, in factored form.

        Parameters
        ----------
        point : Tucker
            Point to project at, with orthonormal factors.

        Returns
        -------
        TuckerTangent
            The projection.
        """
        z = self.as_tucker()
        overlaps = [u.conj().T @ w for u, w in zip(point.factors, z.factors, strict=True)]
        gradients = [
            z.factors[k]
            @ (
                matricize(multi_mode_product(z.core, overlaps, skip=k), k)
                @ matricize(point.core, k).conj().T
            )
            for k in range(z.ndim)
        ]
        return self.from_products(point, multi_mode_product(z.core, overlaps), gradients)

    def squared_norm(self) -> float:
        """Compute the squared Frobenius norm from the orthogonal parts.

        Returns
        -------
        float
            Squared Frobenius norm.
        """
        parts = (v @ root for v, root in zip(self.factors, self.point.core_roots, strict=True))
        return sum(map(squared_norm, (self.core, *parts)))

    def shifted(self, step_size: float) -> Tucker:
        """Return ``point + step_size * self`` as a Tucker tensor of rank ``2 r``.

        Parameters
        ----------
        step_size : float
            Step size.

        Returns
        -------
        Tucker
            Tensor of rank ``2 r``, not truncated.
        """
        return self._wide(self.point.core + step_size * self.core, step_size)

    def as_tucker(self) -> Tucker:
        """Return the tangent vector itself as a Tucker tensor of rank ``2 r``.

        Returns
        -------
        Tucker
            The same tensor, not truncated.
        """
        return self._wide(self.core, 1.0)

    def _wide(self, corner: Array, weight: float) -> Tucker:
        x = self.point
        core = np.zeros(tuple(2 * r for r in x.rank), dtype=x.dtype)
        base = [slice(0, r) for r in x.rank]
        core[tuple(base)] = corner
        beside = weight * x.core
        for k, r in enumerate(x.rank):
            block = list(base)
            block[k] = slice(r, None)
            core[tuple(block)] = beside
        pairs = zip(x.factors, self.factors, strict=True)
        return Tucker(core, tuple(np.concatenate(pair, axis=1) for pair in pairs))

    def retract(self, step_size: float) -> Tucker:
        """Move along the vector and truncate back to the rank of the point, on the 2r core.

        Parameters
        ----------
        step_size : float
            Step size.

        Returns
        -------
        Tucker
            Point of the rank of ``point``.
        """
        return thosvd(self.shifted(step_size), self.point.rank)


@dataclass(frozen=True, eq=False)
class ModeTangent:
    """A matrix ``U C^T + D V^T`` in the tangent space at ``U S V^T``, along one mode.

    ``left`` is ``U`` (``n x r``, orthonormal) and ``rows`` is ``V`` (``N x r``, orthonormal): the
    singular vectors of the unfolding of X-hat along ``mode``, without conjugation of ``V``.
    ``across`` is ``C`` (``N x r``) and ``along`` is ``D`` (``n x r``) with ``U^H D = 0``. The ``N``
    columns of the unfolding are counted in C order over the other modes.

    Parameters
    ----------
    mode : int
        Mode of the unfolding.
    left : ndarray
        ``U``, of size ``n x r``, orthonormal.
    rows : ndarray
        ``V``, of size ``N x r``, orthonormal, not conjugated.
    across : ndarray
        ``C``, of size ``N x r``.
    along : ndarray
        ``D``, of size ``n x r``, with ``U^H D = 0``.
    """

    mode: int
    left: Array
    rows: Array
    across: Array
    along: Array

    @classmethod
    def from_products(
        cls, mode: int, left: Array, rows: Array, across: Array, along: Array
    ) -> ModeTangent:
        """Project ``G`` (equation 3.2), given ``G^T conj(U)`` and ``G conj(V)``.

        Parameters
        ----------
        mode : int
            Mode of the unfolding.
        left : ndarray
            ``U``, of size ``n x r``, orthonormal.
        rows : ndarray
            ``V``, of size ``N x r``, orthonormal, not conjugated.
        across : ndarray
            ``G^T conj(U)``.
        along : ndarray
            ``G conj(V)``.

        Returns
        -------
        ModeTangent
            The projection of ``G``.
        """
        return cls(mode, left, rows, across, along - left @ (left.conj().T @ along))

    @classmethod
    def project(cls, mode: int, left: Array, rows: Array, z: Array) -> ModeTangent:
        """Project a dense tensor, by dense products.

        Parameters
        ----------
        mode : int
            Mode of the unfolding.
        left : ndarray
            ``U``, of size ``n x r``, orthonormal.
        rows : ndarray
            ``V``, of size ``N x r``, orthonormal, not conjugated.
        z : ndarray
            Dense tensor.

        Returns
        -------
        ModeTangent
            The projection of ``z``.
        """
        matrix = np.moveaxis(z, mode, 0).reshape(z.shape[mode], -1)
        return cls.from_products(mode, left, rows, matrix.T @ left.conj(), matrix @ rows.conj())

    def squared_norm(self) -> float:
        """Compute the squared Frobenius norm from the two orthogonal parts.

        Returns
        -------
        float
            Squared Frobenius norm.
        """
        return squared_norm(self.across) + squared_norm(self.along)

    def todense(self, shape: Sequence[int]) -> Array:
        """Form the tensor of a given shape.

        Parameters
        ----------
        shape : sequence of int
            Shape of the tensor.

        Returns
        -------
        ndarray
            Dense tensor.
        """
        matrix = self.left @ self.across.T + self.along @ self.rows.T
        others = [n for k, n in enumerate(shape) if k != self.mode]
        return np.moveaxis(matrix.reshape(-1, *others), 0, self.mode)

    def retract(
        self, step_size: float, base: Array, threads: int = 1
    ) -> tuple[Array, Array, Array]:
        """Move from ``U base^T`` along the vector and truncate to rank ``r`` in that mode.

        The ``n x N`` unfolding is not formed. Its singular vectors come from a ``2r x 2r`` Gram
        matrix or, where the singular values are too uneven to be squared, from the ``2r x 2r``
        matrix of the paper's appendix. Returns left singular vectors, singular values and row panel
        of the leading ``r`` directions of ``W = U (base + step_size C)^T + step_size D V^T``.

        Parameters
        ----------
        step_size : float
            Step size.
        base : ndarray
            Panel ``B`` of the point ``U B^T`` that is moved.
        threads : int, default=1
            Number of threads.

        Returns
        -------
        left : ndarray
            Left singular vectors, of size ``n x r``.
        values : ndarray
            Singular values in descending order.
        rows : ndarray
            Right singular vectors, of size ``N x r``, not conjugated.
        """
        q1, r1 = orthonormal_complement(self.left, _like(step_size, self.left) * self.along)
        found = self._retract_by_gram(step_size, base, r1, threads)
        if found is None:
            found = self._retract_by_qr(step_size, base, r1, threads)
        turn, s, rows = found
        r = len(s)
        return refresh(self.left @ turn[:r] + q1 @ turn[r:]), s, rows

    def _retract_by_gram(
        self, step_size: float, base: Array, r1: Array, threads: int
    ) -> tuple[Array, Array, Array] | None:
        """Decompose ``W = [U Q_1] L``, ``L = [Z^T; R_1 V^T]``, by the eigenvectors of ``L L^H``.

        ``Z`` is ``base + step_size C``, and ``Q_1 R_1 = step_size D``. Returns the left singular
        vectors of ``L``, singular values and rows, or ``None`` where the singular values are too
        uneven to be squared.
        """
        sweeps, dtype = panel_kernels(self.rows), self.rows.dtype
        panels = (self.rows, base, self.across, float(step_size))
        vz, zz = sweeps.panel_products(*panels, threads)
        r = len(zz)
        gram = np.empty((r + len(r1), r + len(r1)), dtype=zz.dtype)
        gram[:r, :r], gram[r:, :r], gram[r:, r:] = zz.conj(), r1 @ vz.conj(), r1 @ r1.conj().T
        gram[:r, r:] = gram[r:, :r].conj().T
        if not SAFE_SQUARE < gram.trace().real < 1 / SAFE_SQUARE:
            return None
        values, vectors = eigh(gram)
        if not may_square(values.astype(dtype.char.lower()), r):
            return None
        s, turn = np.sqrt(values[: -r - 1 : -1]), vectors[:, : -r - 1 : -1]
        mix = np.vstack([r1.T @ turn[r:].conj(), turn[:r].conj()]) / s
        rows, gram = sweeps.panel_combine(*panels, mix, threads)
        if np.abs(gram - np.eye(r)).max() > ROUNDING * np.finfo(dtype).eps:
            root = np.linalg.cholesky(gram).conj().T  # rows = q root
            more, s, vh = svd(s[:, None] * root.T)
            turn = turn @ more
            correction = np.linalg.solve(root, vh.T).astype(dtype)
            _multiply_rows(rows, correction, threads)
        return turn.astype(dtype), s.astype(dtype.char.lower()), rows

    def _retract_by_qr(
        self, step_size: float, base: Array, r1: Array, threads: int
    ) -> tuple[Array, Array, Array]:
        """Decompose the ``2r x 2r`` matrix of the paper's appendix, for any singular values."""
        r, v = self.left.shape[1], self.rows
        alpha, panel = _like(step_size, v), np.empty_like(v)

        def move(part: slice) -> Array:
            panel[part] = base[part] + alpha * self.across[part]
            return panel[part].T @ v[part].conj()

        def leave(part: slice) -> None:
            panel[part] -= v[part] @ middle.T

        middle = np.sum(map_rows(move, len(v), threads), axis=0)
        map_rows(leave, len(v), threads)
        basis, triangle = orthonormal_complement(v.conj(), panel.conj())
        corner = np.zeros((len(r1), len(triangle)), dtype=v.dtype)
        um, s, vh = svd(np.block([[middle, triangle.conj().T], [r1, corner]]))
        rows = v @ vh[:r, :r].T + basis.conj() @ vh[:r, r:].T
        _multiply_rows(rows, orthonormalizer(rows.conj().T @ rows), threads)
        return um[:, :r], s[:r], rows


def _like(number: float, array: Array) -> Any:
    """Return a number in the data type of an array."""
    return array.dtype.type(number)


def _multiply_rows(panel: Array, matrix: Array, threads: int) -> None:
    """Multiply a panel by a small square matrix, in place."""

    def multiply(rows: slice) -> None:
        panel[rows] = panel[rows] @ matrix

    map_rows(multiply, len(panel), threads)


def orthonormal_complement(basis: Array, panel: Array) -> tuple[Array, Array]:
    """Factor ``panel = q r`` with ``q`` orthonormal and orthogonal to ``basis``.

    ``panel`` is orthogonal to ``basis`` up to rounding. Where it is rank-deficient the plain QR
    factor would not be orthogonal to the basis, and QR of both together is taken instead.

    Parameters
    ----------
    basis : ndarray
        Matrix with orthonormal columns.
    panel : ndarray
        Matrix with as many rows.

    Returns
    -------
    q : ndarray
        Matrix with orthonormal columns, orthogonal to ``basis``.
    r : ndarray
        Factor with ``panel = q r``.

    Raises
    ------
    InputError
        If basis and panel differ in their number of rows.
    """
    n, r = basis.shape
    if panel.shape[0] != n:
        raise InputError(f"panel must have {n} rows as the basis has, got {panel.shape[0]}")
    width = min(panel.shape[1], n - r)
    panel = panel - basis @ (basis.conj().T @ panel)
    if width == panel.shape[1]:
        q, triangle = tall_qr(panel)
        if np.linalg.norm(basis.conj().T @ q) <= 1e2 * np.finfo(q.dtype).eps * np.sqrt(r):
            return q, triangle
    q = np.linalg.qr(np.hstack([basis, panel]))[0][:, r : r + width]
    return q, q.conj().T @ panel
