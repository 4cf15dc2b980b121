"""Truncation to low multilinear rank: T-HOSVD, ST-HOSVD, and the singular subspaces they need."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tensormend.core import kernels
from tensormend.core.algebra import (
    DEFAULT_MEMORY_LIMIT,
    SAFE_SQUARE,
    Array,
    as_rank,
    check_memory,
    eigh,
    map_threads,
    mode_product,
    multi_mode_product,
    normalize_mode,
    svd,
    tall_qr,
)
from tensormend.core.fibres import Fibres
from tensormend.core.tucker import Tucker
from tensormend.errors import InputError

__all__ = [
    "SparsePlusTucker",
    "as_order",
    "dense_gram",
    "leading_eigenvectors",
    "leading_subspace",
    "mode_svd",
    "panel_svd",
    "sthosvd",
    "thosvd",
    "truncate_modes",
]

EXACT_FLOPS = 2e7  # below this an exact factorization beats an iteration
FULL_BASIS = 128  # up to this size a basis of the whole space beats restarts, and is exact
LARGE, N_BLOCKS = 2**20, 8  # numbers from which on a matrix is multiplied in blocks, and how many
WHOLE_GRAM = 1e7  # entries times size below which all of a small Gram matrix beats a part of it
EVEN = 1 / 8  # power of eps: singular values above this share of the largest may be squared
ROUNDING = 64  # a residual below this many eps of the norm is rounding


def as_order(order: Sequence[int] | None, rank: Sequence[int]) -> tuple[int, ...]:
    """Check a processing order of the modes; the default is by ascending rank."""
    if order is None:
        return tuple(sorted(range(len(rank)), key=lambda k: rank[k]))
    out = tuple(normalize_mode(k, len(rank)) for k in order)
    if sorted(out) != list(range(len(rank))):
        raise InputError(
            f"order must name each of the {len(rank)} modes once, got {tuple(order)}; "
            f"for example {tuple(range(len(rank)))}"
        )
    return out


@dataclass(frozen=True, eq=False)
class SparsePlusTucker:
    """The sum of sampled entries (zero elsewhere) and a Tucker tensor, kept apart.

    Parameters
    ----------
    fibres : where the entries are
    values : the entries, in storage order
    tucker : the low-rank part, brought to orthonormal form; ``None`` for none
    threads : threads of the kernels
    dtype : data type of sums, by default that of the entries, which may have half its bits
    """

    fibres: Fibres
    values: Array
    tucker: Tucker | None = None
    threads: int = 1
    dtype: Any = None

    def __post_init__(self) -> None:
        if self.dtype is None:
            object.__setattr__(self, "dtype", self.values.dtype)
        if self.tucker is not None:
            object.__setattr__(self, "tucker", self.tucker.orthonormal())

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes."""
        return self.fibres.shape

    def todense(self, memory_limit: float | None = DEFAULT_MEMORY_LIMIT) -> Array:
        """Form the whole array, or refuse above the memory limit."""
        check_memory(self.shape, self.dtype, memory_limit, "the dense tensor")
        out = np.zeros(self.shape, dtype=self.dtype)
        if self.tucker is not None:
            out += self.tucker.todense(memory_limit)
        out[tuple(self.fibres.indices().T)] += self.values
        return out

    def _entries(self, mode: int) -> tuple[Fibres, Array]:
        """Fibres along a mode and the entries in their order."""
        fibres, permutation = self.fibres.along(mode)
        return fibres, self.values if permutation is None else self.values[permutation]

    @cached_property
    def _cross(self) -> tuple[Array, ...]:
        """``M_k(S ×_{j≠k} U_j^H) M_k(C)^H`` for every mode ``k``, ``S`` being the sparse part."""
        x, f = self._low_rank(), self.fibres
        _, _, gradients, _ = kernels.tucker_pullback(
            f.tree,
            self.values,
            x.core.transpose(f.modes),
            [x.factors[k] for k in f.modes],
            subtract=False,
            threads=self.threads,
        )
        return tuple(gradients[f.modes.index(k)] for k in range(x.ndim))

    def _low_rank(self) -> Tucker:
        if self.tucker is None:
            raise InputError("this sum has no low-rank part")
        return self.tucker

    def gram(self, mode: int, shrink: float = 1.0) -> Callable[[Array], Array]:
        """Return the map ``Q -> M M^H Q`` for the unfolding ``M`` along a mode.

        With ``S`` the sparse part and ``U`` the factor of the mode, ``M M^H`` is
        ``S S^H + F U^H + U F^H + U A U^H`` with ``F = S X^H U`` and ``A = U^H X X^H U``, both
        small, so no more than one pass over the entries is needed. With ``shrink`` other than 1,
        for entries alone, the diagonal of ``M M^H`` is multiplied by it first.
        """
        if shrink != 1 and self.tucker is not None:
            raise InputError("shrink is for entries alone, got a low-rank part as well")
        fibres, values = self._entries(mode)
        diagonal = None
        if shrink != 1:
            n = self.shape[mode]
            energies = kernels.leaf_energies(fibres.tree, values, n, self.threads)
            diagonal = ((shrink - 1) * energies)[:, None].astype(energies.dtype)

        def sparse(q: Array) -> Array:
            q = np.ascontiguousarray(q)
            out: Array = kernels.gram_pass(fibres.tree, values, q, self.threads)
            return out if diagonal is None else out + diagonal * q

        if self.tucker is None:
            return sparse
        u, cross = self.tucker.factors[mode], self._cross[mode]
        core = np.moveaxis(self.tucker.core, mode, 0).reshape(u.shape[1], -1)
        small = core @ core.conj().T

        def total(q: Array) -> Array:
            inside = u.conj().T @ q
            out = sparse(q)
            out += cross @ inside + u @ (cross.conj().T @ q + small @ inside)
            return out

        return total

    def contract(self, mode: int, q: Array) -> Array:
        """Mode product with ``q^H``: dense, with ``q.shape[1]`` in place of the mode's size."""
        mode = normalize_mode(mode, len(self.shape))
        others = self.shape[:mode] + self.shape[mode + 1 :]
        check_memory((*others, q.shape[1]), self.dtype, DEFAULT_MEMORY_LIMIT, "the panel")
        fibres, values = self._entries(mode)
        panel = kernels.fibre_products(
            fibres.tree,
            fibres.columns,
            values,
            np.ascontiguousarray(q),
            math.prod(others),
            self.threads,
        )
        if self.tucker is not None:
            panel += _tucker_panel(self.tucker, mode, q)
        return np.moveaxis(panel.reshape(*others, q.shape[1]), -1, mode)

    def ahead(self, previous: SparsePlusTucker, momentum: float) -> SparsePlusTucker:
        """Return ``self + momentum * (self - previous)`` of sums with entries in one place."""
        values = self.values + momentum * (self.values - previous.values)
        step = self._low_rank() - previous._low_rank()
        return replace(self, values=values, tucker=self._low_rank() + step * momentum)

    def project(self, factors: Sequence[Array]) -> Array:
        """Core ``self ×_k U_k^H`` over all modes, without any large array."""
        modes = self.fibres.modes
        zero = np.zeros(tuple(factors[k].shape[1] for k in modes), dtype=self.dtype)
        _, core, _, _ = kernels.tucker_pullback(
            self.fibres.tree,
            self.values,
            zero,
            [np.ascontiguousarray(factors[k]) for k in modes],
            threads=self.threads,
        )
        core = np.asarray(core.transpose(np.argsort(modes)))
        if self.tucker is not None:
            overlaps = [q.conj().T @ u for q, u in zip(factors, self.tucker.factors, strict=True)]
            core = np.asarray(core + multi_mode_product(self.tucker.core, overlaps))
        return core


def _tucker_panel(x: Tucker, mode: int, q: Array) -> Array:
    """``M^T conj(q)`` for the unfolding ``M`` of a Tucker tensor, columns in C order."""
    factors = list(x.factors)
    factors[mode] = q.conj().T @ x.factors[mode]
    panel = np.moveaxis(multi_mode_product(x.core, factors), mode, -1)
    return np.ascontiguousarray(panel).reshape(-1, q.shape[1])


def leading_subspace(
    matrix: Array, rank: int, start: Array | None = None, threads: int = 1
) -> Array:
    """Orthonormal basis of the leading left singular subspace of a dense matrix.

    From a ``start`` near the answer, large matrices take a few multiplications instead of a
    factorization; where these do not converge to within 1e4 roundings the factorization steps in.
    It works on the Gram matrix where the singular values kept are within a factor 90, or 7 in
    single precision: rounding tilts the subspace by at most that much more than without squares.
    """
    n, columns = matrix.shape
    if start is not None and n * min(n, columns) * columns > EXACT_FLOPS:
        basis, accuracy = leading_eigenvectors(
            dense_gram(matrix, threads), n, rank, start=start, max_sweeps=8
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
        energies = np.einsum("ij,ij->i", matrix, matrix.conj()).real
        diagonal = ((shrink - 1) * energies)[:, None].astype(energies.dtype)

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
    start: Array | None = None,
    dtype: Any = None,
    tol: float = 1e-12,
    max_sweeps: int = 60,
) -> tuple[Array, float]:
    """Leading eigenvectors of a Hermitian ``n x n`` map, by a thick-restarted block iteration.

    The basis grows by the residuals of its Ritz pairs, as in a block Lanczos method, and is cut
    back to the best of them when it is full. Beside a start a few random columns look for what it
    misses.

    Returns
    -------
    basis : ``n x rank``, orthonormal, largest eigenvalue first
    accuracy : residual of the Ritz pairs relative to the smallest eigenvalue kept, which bounds
        the angle to the invariant subspace where a gap follows it
    """
    dtype = np.dtype(dtype if start is None else start.dtype)
    rng = np.random.default_rng(0)  # fixed: the same input gives the same answer
    block = min(n, rank + max(3, rank // 2))
    limit = n if n <= FULL_BASIS else min(n, 4 * block)
    guess = rng.standard_normal((n, block)).astype(dtype)
    if start is not None:
        guess[:, : start.shape[1]] = start[:, :block]
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
        # a start may be invariant without leading: look beyond it before believing it
        enough = start is None or sweep >= 2 or not active.any()
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
    if abs(values[-1]) <= values[rank - 1]:  # a power step at no cost, where it cannot hurt
        best = tall_qr(image @ vectors[:, :rank])[0]
    return best, worst / floor


def _leading_factor(
    z: Array | SparsePlusTucker,
    mode: int,
    rank: int,
    start: Array | None = None,
    threads: int = 1,
) -> Array:
    if isinstance(z, SparsePlusTucker):
        gram, n = z.gram(mode), z.shape[mode]
        if n <= FULL_BASIS and len(z.values) * n <= WHOLE_GRAM:
            whole = gram(np.eye(n, dtype=z.dtype))
            vectors = eigh((whole + whole.conj().T) / 2)[1]
            return np.ascontiguousarray(vectors[:, : -rank - 1 : -1])
        return leading_eigenvectors(gram, n, rank, start=start, dtype=z.dtype)[0]
    matrix = np.moveaxis(z, mode, 0).reshape(z.shape[mode], -1)
    return leading_subspace(matrix, rank, start, threads)


def mode_svd(z: Array | SparsePlusTucker, mode: int, rank: int) -> tuple[Array, Array, Array]:
    """Compute a truncated SVD ``M_k(z) ~ U S V^T`` along one mode.

    Returns ``U`` (``n_k x rank``), the singular values, and ``V`` (``N x rank``, not conjugated)
    with the ``N`` columns of the unfolding counted in C order over the other modes.
    """
    left = _leading_factor(z, mode, rank)
    if isinstance(z, SparsePlusTucker):
        panel = np.moveaxis(z.contract(mode, left), mode, -1).reshape(-1, rank)
    else:
        panel = np.moveaxis(z, mode, -1).reshape(-1, z.shape[mode]) @ left.conj()
    return panel_svd(left, panel)


def panel_svd(left: Array, panel: Array) -> tuple[Array, Array, Array]:
    """Singular value decomposition ``U S V^T`` of ``left panel^T`` with orthonormal ``left``."""
    q, triangle = tall_qr(panel)
    u, s, vh = svd(triangle.T)
    return left @ u, s, q @ vh.T


def truncate_modes(
    z: Array,
    rank: Sequence[int],
    modes: Sequence[int],
    start: Sequence[Array] | None,
    threads: int = 1,
) -> tuple[Array, dict[int, Array]]:
    """Truncate some modes of a dense tensor, one after the other, as ST-HOSVD does."""
    factors: dict[int, Array] = {}
    for k in modes:
        guess = None if start is None else start[k]
        factors[k] = _leading_factor(z, k, rank[k], guess, threads)
        z = mode_product(z, factors[k].conj().T, k)
    return z, factors


def thosvd(
    z: Array | Tucker | SparsePlusTucker,
    rank: int | Sequence[int],
    *,
    start: Sequence[Array] | None = None,
) -> Tucker:
    """Compute a truncated HOSVD (Algorithm 1 of the paper).

    Parameters
    ----------
    z : dense array, Tucker tensor of larger rank, or sparse plus Tucker
    rank : target multilinear rank
    start : factors near the answer, to start iterations from

    Examples
    --------
    >>> z = np.random.default_rng(0).standard_normal((6, 7, 8))
    >>> thosvd(z, 2)
    Tucker(shape=(6, 7, 8), rank=(2, 2, 2), dtype=float64)
    """
    rank = as_rank(rank, z.shape)
    if isinstance(z, Tucker):
        return _truncate_tucker(z, rank, thosvd)
    starts = (None,) * len(rank) if start is None else start
    factors = tuple(_leading_factor(z, k, r, starts[k]) for k, r in enumerate(rank))
    if isinstance(z, SparsePlusTucker):
        return Tucker(z.project(factors), factors)
    return Tucker(multi_mode_product(z, factors, adjoint=True), factors)


def sthosvd(
    z: Array | Tucker | SparsePlusTucker,
    rank: int | Sequence[int],
    *,
    order: Sequence[int] | None = None,
    start: Sequence[Array] | None = None,
) -> Tucker:
    """Compute a sequentially truncated HOSVD (Algorithm 2 of the paper).

    Parameters
    ----------
    z : dense array, Tucker tensor of larger rank, or sparse plus Tucker
    rank : target multilinear rank
    order : processing order of the modes; by ascending rank by default
    start : factors near the answer, to start iterations from

    Examples
    --------
    >>> z = np.random.default_rng(0).standard_normal((6, 7, 8))
    >>> sthosvd(z, (2, 3, 4), order=(2, 0, 1))
    Tucker(shape=(6, 7, 8), rank=(2, 3, 4), dtype=float64)
    """
    rank = as_rank(rank, z.shape)
    order = as_order(order, rank)
    if isinstance(z, Tucker):
        return _truncate_tucker(z, rank, lambda core, r: sthosvd(core, r, order=order))
    factors: dict[int, Array] = {}
    if isinstance(z, SparsePlusTucker):
        first = order[0]
        guess = None if start is None else start[first]
        factors[first] = _leading_factor(z, first, rank[first], guess)
        z = z.contract(first, factors[first])
        order = order[1:]
    core, others = truncate_modes(z, rank, order, start)
    factors |= others
    return Tucker(core, tuple(factors[k] for k in range(len(rank))))


def _truncate_tucker(
    z: Tucker, rank: tuple[int, ...], truncate: Callable[[Array, tuple[int, ...]], Tucker]
) -> Tucker:
    """Truncate the core of the orthonormal form: the rest is an isometry."""
    z = z.orthonormal()
    if any(r > s for r, s in zip(rank, z.rank, strict=True)):
        raise InputError(
            f"rank must not exceed the rank of the Tucker tensor, got {rank} for {z.rank}"
        )
    small = truncate(z.core, rank)
    factors = tuple(u @ w for u, w in zip(z.factors, small.factors, strict=True))
    return replace(small, factors=factors)
