"""Sampled entries plus a Tucker tensor, kept apart."""

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
    Array,
    check_memory,
    multi_mode_product,
    norm,
    normalize_mode,
    squared_norm,
)
from tensormend.core.fibres import Fibres
from tensormend.core.implicit import DenseTensor
from tensormend.core.linalg import eigh
from tensormend.core.subspaces import block_size, leading_eigenvectors
from tensormend.core.threads import map_threads
from tensormend.core.tucker import Tucker
from tensormend.errors import InputError

__all__ = ["SparsePlusTucker", "fibre_gram"]

LOOSE_SWEEPS = 4  # sweeps at most where few digits are asked for

# Nanoseconds of the ways to a leading subspace, measured on one thread: for an entry and a column
# of the block (which has so many more), those of a whole block iteration, from no or from a known
# basis; for an entry and a column, those of the whole Gram matrix by one pass with many columns;
# for an entry, a multiply-add and a call, those of the same by dense products of fibres, half as
# much again because they gain less from further threads; for the square and the cube of the size,
# those of all eigenvectors, and how many times as long complex ones take.
ITERATION, WARM_ITERATION, MORE_COLUMNS = 12.0, 4.5, 4
COLUMN = 0.58
FIBRE_ENTRY, FIBRE_PRODUCT, FIBRE_CALL = 18.0, 0.055, 1e6
EIGEN_SQUARE, EIGEN_CUBE, EIGEN_COMPLEX = 50.0, 0.08, 3.0
MAX_WHOLE = 512  # size up to which all eigenvectors may be computed
BLOCK_ENTRIES = 2**17  # entries of dense fibres at a time, to remain in cache
N_PARTS = 4  # partial sums, the same for every number of threads; each a matrix in memory


@dataclass(frozen=True, eq=False)
class SparsePlusTucker:
    """The sum of sampled entries (zero elsewhere) and a Tucker tensor, kept apart.

    Parameters
    ----------
    fibres : Fibres
        Where the entries are.
    values : ndarray
        The entries, in storage order.
    tucker : Tucker, optional
        The low-rank part, brought to orthonormal form; ``None`` for none.
    threads : int, default=1
        Threads of the kernels.
    dtype : dtype, optional
        Data type of sums, by default that of the entries, which may have half its bits.
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
        _, _, gradients, _ = kernels.tucker_gradient(
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
            squares = kernels.leaf_squared_norms(fibres.tree, values, n, self.threads)
            diagonal = ((shrink - 1) * squares)[:, None].astype(squares.dtype)

        def sparse(q: Array) -> Array:
            q = np.ascontiguousarray(q)
            out: Array = kernels.gram_pass(fibres.tree, values, q, self.threads)
            return out if diagonal is None else out + diagonal * q

        if self.tucker is None:
            return sparse
        low_rank = self._tucker_gram(mode)
        return lambda q: sparse(q) + low_rank(q)

    def _tucker_gram(self, mode: int) -> Callable[[Array], Array]:
        """Return the part of `gram` that the low-rank part enters."""
        x = self._low_rank()
        u, cross = x.factors[mode], self._cross[mode]
        core = np.moveaxis(x.core, mode, 0).reshape(u.shape[1], -1)
        small = core @ core.conj().T

        def apply(q: Array) -> Array:
            inside = u.conj().T @ q
            out: Array = cross @ inside + u @ (cross.conj().T @ q + small @ inside)
            return out

        return apply

    def leading_basis(
        self, mode: int, rank: int, *, init: Array | None = None, tol: float | None = None
    ) -> Array:
        """Compute leading left singular vectors by products with blocks."""
        n = self.shape[mode]
        if tol is not None:
            return leading_eigenvectors(
                self.gram(mode),
                n,
                rank,
                init=init,
                dtype=self.dtype,
                tol=tol,
                max_sweeps=LOOSE_SWEEPS,
            )[0]
        whole = self._whole_gram(mode, rank, ITERATION if init is None else WARM_ITERATION)
        if whole is not None:
            vectors = eigh((whole + whole.conj().T) / 2)[1]
            return np.ascontiguousarray(vectors[:, : -rank - 1 : -1], dtype=self.dtype)
        return leading_eigenvectors(self.gram(mode), n, rank, init=init, dtype=self.dtype)[0]

    def _whole_gram(self, mode: int, rank: int, iteration: float) -> Array | None:
        """Compute all of ``M M^H``, or ``None`` where products with blocks cost less."""
        n, n_entries = self.shape[mode], len(self.values)
        if n > MAX_WHOLE:
            return None
        fibres, _ = self.fibres.along(mode)
        eigen = EIGEN_SQUARE * n**2 + EIGEN_CUBE * n**3
        eigen *= EIGEN_COMPLEX if np.iscomplexobj(self.values) else 1.0
        by_blocks = n_entries * (block_size(n, rank) + MORE_COLUMNS) * iteration
        by_entries = n_entries * n * COLUMN
        by_fibres = FIBRE_CALL + n_entries * FIBRE_ENTRY + fibres.n_fibres * n * n * FIBRE_PRODUCT
        if by_blocks < min(by_entries, by_fibres) + eigen:
            return None
        unit = np.eye(n, dtype=self.dtype)
        if by_entries <= by_fibres:
            return self.gram(mode)(unit)
        whole = fibre_gram(*self._entries(mode), self.threads)
        return whole if self.tucker is None else whole + self._tucker_gram(mode)(unit)

    def compress(self, mode: int, q: Array) -> DenseTensor:
        """Mode product with ``q^H``: dense, with ``q.shape[1]`` in place of the mode's size."""
        mode = normalize_mode(mode, len(self.shape))
        others = self.shape[:mode] + self.shape[mode + 1 :]
        panel = self.panel(mode, q).reshape(*others, q.shape[1])
        return DenseTensor(np.moveaxis(panel, -1, mode))

    def panel(self, mode: int, q: Array) -> Array:
        """``M^T conj(q)`` for the unfolding ``M``, columns in C order."""
        mode = normalize_mode(mode, len(self.shape))
        others = self.shape[:mode] + self.shape[mode + 1 :]
        check_memory(
            (*others, q.shape[1]),
            self.dtype,
            DEFAULT_MEMORY_LIMIT,
            "the panel of ST-HOSVD",
            "use method='rgd' or 'auto', or thosvd",
        )
        fibres, values = self._entries(mode)
        panel: Array = kernels.fibre_products(
            fibres.tree,
            fibres.columns,
            values,
            np.ascontiguousarray(q),
            math.prod(others),
            self.threads,
        )
        if self.tucker is not None:
            panel += _tucker_panel(self.tucker, mode, q)
        return panel

    def norm(self) -> float:
        """Compute the Frobenius norm."""
        if self.tucker is None:
            return norm(self.values)
        f = self.fibres
        core, factors = self.tucker.core, self.tucker.factors
        below = kernels.tucker_values(
            f.tree,
            np.ascontiguousarray(core.transpose(f.modes)),
            [factors[k] for k in f.modes],
            self.threads,
        )
        square = squared_norm(core) + squared_norm(self.values + below) - squared_norm(below)
        return math.sqrt(max(square, 0.0))

    def extrapolate(self, previous: SparsePlusTucker, momentum: float) -> SparsePlusTucker:
        """Return ``self + momentum * (self - previous)`` where both have the same indices."""
        values = self.values + momentum * (self.values - previous.values)
        step = self._low_rank() - previous._low_rank()
        return replace(self, values=values, tucker=self._low_rank() + step * momentum)

    def project(self, factors: Sequence[Array]) -> Array:
        """Core ``self ×_k U_k^H`` over all modes, without any large array."""
        modes = self.fibres.modes
        zero = np.zeros(tuple(factors[k].shape[1] for k in modes), dtype=self.dtype)
        _, core, _, _ = kernels.tucker_gradient(
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


def fibre_gram(fibres: Fibres, values: Array, threads: int) -> Array:
    """Gram matrix ``M M^H`` of the unfolding along the leaf mode, by dense products of fibres.

    It is in double precision, and does not depend on the number of threads.
    """
    n, starts = fibres.shape[fibres.leaf_mode], fibres.tree.starts[-1]
    leaves, wide = fibres.tree.leaves, np.result_type(values.dtype, np.float64)
    n_rows = max(1, BLOCK_ENTRIES // n)
    blocks = range(0, fibres.n_fibres, n_rows)

    def add_up(part: int) -> Array:
        total, product = np.zeros((n, n), dtype=wide), np.empty((n, n), dtype=wide)
        dense = np.empty((n_rows, n), dtype=wide)
        for first in blocks[part::N_PARTS]:
            own = starts[first : first + n_rows + 1].astype(np.int64)
            rows, entries = dense[: len(own) - 1], slice(own[0], own[-1])
            rows[...] = 0
            where = np.repeat(np.arange(0, rows.size, n), np.diff(own)) + leaves[entries]
            rows.reshape(-1)[where] = values[entries]
            np.matmul(rows.T, rows.conj(), out=product)
            total += product
        return total

    out, *others = map_threads(add_up, range(N_PARTS), threads)
    for part in others:
        out += part
    return out


def _tucker_panel(x: Tucker, mode: int, q: Array) -> Array:
    """``M^T conj(q)`` for the unfolding ``M`` of a Tucker tensor, columns in C order."""
    factors = list(x.factors)
    factors[mode] = q.conj().T @ x.factors[mode]
    panel = np.moveaxis(multi_mode_product(x.core, factors), mode, -1)
    return np.ascontiguousarray(panel).reshape(-1, q.shape[1])
