"""The Tucker value: a tensor kept as a core and one factor matrix per mode."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tensormend.core.algebra import (
    DEFAULT_MEMORY_LIMIT,
    Array,
    check_memory,
    inner,
    is_inexact,
    matricize,
    multi_mode_product,
    norm,
    normalize_mode,
)
from tensormend.core.fibres import check_indices
from tensormend.core.linalg import svd, tall_qr
from tensormend.core.storage import load_arrays, save_arrays
from tensormend.errors import InputError

__all__ = ["Tucker", "degrees_of_freedom", "expand_key"]

CHUNK_BYTES = 2**25  # working memory of one block of entries
ROUNDING = 32  # roundings that a product of matrices with orthonormal columns may have
CORE_CUTOFF = 1e-10  # core directions below this fraction of the largest carry no gradient
SMALL_BYTES = 2**28  # up to which the whole tensor may be formed for its entries


@dataclass(frozen=True, eq=False)
class Tucker:
    """A tensor ``C ×_0 U_0 ×_1 ... ×_{d-1} U_{d-1}`` in factored form.

    Parameters
    ----------
    core : ndarray
        Array of shape ``(r_0, ..., r_{d-1})``.
    factors : tuple of ndarray
        One matrix ``n_k x r_k`` per mode, not necessarily orthonormal.

    Raises
    ------
    InputError
        If core and factors do not fit each other, or hold no numbers.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = Tucker(rng.standard_normal((2, 2, 2)), [rng.standard_normal((n, 2)) for n in (4, 5, 6)])
    >>> x.shape, x.rank
    ((4, 5, 6), (2, 2, 2))
    >>> bool(np.allclose(x[3, :, 5], x.todense()[3, :, 5]))
    True
    """

    core: Array
    factors: tuple[Array, ...]

    __array_ufunc__ = None  # NumPy scalars leave arithmetic to this class

    def __post_init__(self) -> None:
        core = np.asarray(self.core)
        factors = tuple(np.asarray(u) for u in self.factors)
        if core.ndim < 2 or core.size == 0 or len(factors) != core.ndim:
            raise InputError(
                f"a Tucker tensor needs a core of order 2 or more that is not empty, and one "
                f"factor per mode, got a core of shape {core.shape} and {len(factors)} factors"
            )
        for k, u in enumerate(factors):
            if u.ndim != 2 or u.shape[1] != core.shape[k] or u.shape[0] < 1:
                raise InputError(
                    f"factor {k} must be a matrix with {core.shape[k]} columns, as the core has in "
                    f"that mode, got shape {u.shape}"
                )
        dtype = core.dtype
        if not is_inexact(dtype) or any(u.dtype != dtype for u in factors):
            for part in (core, *factors):
                if part.dtype.kind not in "biufc":
                    raise InputError(f"core and factors must hold numbers, got {part.dtype}")
            dtype = np.result_type(core, *factors)
            if not is_inexact(dtype):
                dtype = np.dtype(np.complex128 if dtype.kind == "c" else np.float64)
        # one memory layout: equal tensors give equal bits in every later product
        object.__setattr__(self, "core", np.ascontiguousarray(core, dtype=dtype))
        contiguous = tuple(np.ascontiguousarray(u, dtype=dtype) for u in factors)
        object.__setattr__(self, "factors", contiguous)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes."""
        return tuple(u.shape[0] for u in self.factors)

    @property
    def rank(self) -> tuple[int, ...]:
        """Shape of the core: an upper bound of the multilinear rank."""
        return self.core.shape

    @property
    def ndim(self) -> int:
        """Number of modes."""
        return self.core.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of core and factors."""
        return self.core.dtype

    def __repr__(self) -> str:
        return f"Tucker(shape={self.shape}, rank={self.rank}, dtype={self.dtype})"

    def astype(self, dtype: Any) -> Tucker:
        """Convert core and factors to another data type.

        Parameters
        ----------
        dtype : dtype
            Data type of the result.

        Returns
        -------
        Tucker
            The tensor in that data type.
        """
        return Tucker(self.core.astype(dtype), tuple(u.astype(dtype) for u in self.factors))

    # entries, slices, the whole

    def entries(self, indices: Any) -> Array:
        """Evaluate entries at an ``m x d`` array of indices (one index tuple counts as one row).

        Costs ``O(m prod(r))`` and a fixed amount of working memory; where that is more than the
        whole tensor costs, and this is small, the entries are taken from the whole.

        Parameters
        ----------
        indices : array_like
            Integer array of shape ``(m, d)``, one row of indices per entry.

        Returns
        -------
        ndarray
            One value per row of ``indices``.
        """
        indices = check_indices(np.atleast_2d(np.asarray(indices)), self.shape)
        total = math.prod(self.shape)
        if (
            total * self.dtype.itemsize <= SMALL_BYTES
            and total * sum(self.rank) < len(indices) * self.core.size
        ):
            return np.asarray(self.todense()[tuple(indices.T)])
        values = np.empty(len(indices), dtype=self.dtype)
        width = self.core.size * self.dtype.itemsize
        block = max(1, CHUNK_BYTES // width)
        for first in range(0, len(indices), block):
            rows = indices[first : first + block]
            part = self.factors[0][rows[:, 0]] @ self.core.reshape(self.rank[0], -1)
            for k in range(1, self.ndim):
                part = part.reshape(len(rows), self.rank[k], -1)
                part = np.einsum("na,nab->nb", self.factors[k][rows[:, k]], part)
            values[first : first + block] = part[:, 0]
        return values

    def __getitem__(self, key: Any) -> Any:
        """Dense values of a slice, from integers, slices and an ellipsis, as NumPy has them."""
        keys = expand_key(key, self.shape, "x.entries(indices)")
        out = self.block([slice(k, k + 1) if isinstance(k, int) else k for k in keys])
        out = np.squeeze(out, axis=tuple(k for k, part in enumerate(keys) if isinstance(part, int)))
        return out if out.ndim else out[()]

    def block(
        self, rows: Sequence[slice | Array], memory_limit: float | None = DEFAULT_MEMORY_LIMIT
    ) -> Array:
        """Dense values of a block, from one slice or vector of indices per mode.

        Parameters
        ----------
        rows : sequence of slice or ndarray
            Per mode, a slice or a vector of indices.
        memory_limit : float or None, default=DEFAULT_MEMORY_LIMIT
            Largest size of the dense array in bytes, ``None`` for no limit; a larger one is
            refused.

        Returns
        -------
        ndarray
            Dense array of the block.
        """
        factors = [u[part] for u, part in zip(self.factors, rows, strict=True)]
        sizes = tuple(len(u) for u in factors)
        check_memory(sizes, self.dtype, memory_limit, "the slice")
        if 0 in sizes:
            return np.empty(sizes, dtype=self.dtype)
        return multi_mode_product(self.core, factors)

    def todense(self, memory_limit: float | None = DEFAULT_MEMORY_LIMIT) -> Array:
        """Form the whole array, or refuse if it would take more bytes than the limit."""
        check_memory(self.shape, self.dtype, memory_limit, "the dense tensor")
        return multi_mode_product(self.core, self.factors)

    def compress(self, mode: int, q: Array) -> Tucker:
        """Return the mode product with ``q^H``."""
        mode = normalize_mode(mode, self.ndim)
        small = q.conj().T @ self.factors[mode]
        return Tucker(self.core, (*self.factors[:mode], small, *self.factors[mode + 1 :]))

    def exact_core(self) -> tuple[Array, tuple[Array, ...]]:
        """Return core and factors of the orthonormal form.

        Returns
        -------
        tuple of (ndarray, tuple of ndarray)
            Core and factors of the orthonormal form.
        """
        x = self.orthonormal()
        return x.core, x.factors

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("a Tucker tensor has no dense array to share; it must be made")
        return self.todense().astype(self.dtype if dtype is None else dtype, copy=False)

    # algebra in factored form

    def inner(self, other: Tucker) -> Any:
        """Compute ``sum(conj(self) * other)`` without forming either tensor.

        Parameters
        ----------
        other : Tucker
            Tensor of the same shape.

        Returns
        -------
        float or complex
            ``sum(conj(self) * other)``, complex for complex tensors.
        """
        self._check_same_shape(other)
        overlaps = [u.conj().T @ w for u, w in zip(self.factors, other.factors, strict=True)]
        return inner(self.core, multi_mode_product(other.core, overlaps))

    def norm(self) -> float:
        """Compute the Frobenius norm without forming the tensor.

        Returns
        -------
        float
            Frobenius norm.
        """
        return norm(self.orthonormal().core)

    def distance(self, other: Tucker | Array) -> float:
        """Compute the Frobenius norm of the difference, free of cancellation.

        Both tensors are written in one orthonormal basis per mode, so a difference far below
        ``sqrt(eps)`` of either norm still comes out right.

        Parameters
        ----------
        other : Tucker or ndarray
            Tensor of the same shape, in factored form or dense.

        Returns
        -------
        float
            ``||self - other||``.

        Raises
        ------
        InputError
            If the shapes differ.
        """
        if not isinstance(other, Tucker):
            other = np.asarray(other)
            if other.shape != self.shape:
                raise InputError(
                    f"both tensors must have one shape, got {self.shape} and {other.shape}"
                )
            return norm(self.todense() - other)
        self._check_same_shape(other)
        mine: list[Array] = []
        theirs: list[Array] = []
        for u, w in zip(self.factors, other.factors, strict=True):
            triangle = np.asarray(np.linalg.qr(np.hstack([u, w]), mode="r"))
            mine.append(triangle[:, : u.shape[1]])
            theirs.append(triangle[:, u.shape[1] :])
        return norm(multi_mode_product(self.core, mine) - multi_mode_product(other.core, theirs))

    def __add__(self, other: Tucker) -> Tucker:
        if not isinstance(other, Tucker):
            return NotImplemented
        self._check_same_shape(other)
        core = np.zeros(
            tuple(r + s for r, s in zip(self.rank, other.rank, strict=True)),
            dtype=np.result_type(self.dtype, other.dtype),
        )
        core[tuple(slice(0, r) for r in self.rank)] = self.core
        core[tuple(slice(r, None) for r in self.rank)] = other.core
        return Tucker(core, tuple(map(np.hstack, zip(self.factors, other.factors, strict=True))))

    def __mul__(self, scalar: Any) -> Tucker:
        if not np.isscalar(scalar):
            return NotImplemented
        return Tucker(self.core * scalar, self.factors)

    __rmul__ = __mul__

    def __truediv__(self, scalar: Any) -> Tucker:
        if not np.isscalar(scalar):
            return NotImplemented
        return Tucker(self.core / scalar, self.factors)

    def __neg__(self) -> Tucker:
        return Tucker(-self.core, self.factors)

    def __sub__(self, other: Tucker) -> Tucker:
        if not isinstance(other, Tucker):
            return NotImplemented
        return self + (-other)

    def orthonormal(self) -> Tucker:
        """Return the same tensor with orthonormal factors.

        A factor with more columns than rows loses the surplus, and the core with it.

        Returns
        -------
        Tucker
            The same tensor in orthonormal form.
        """
        bases, triangles = zip(*(tall_qr(u) for u in self.factors), strict=True)
        return Tucker(multi_mode_product(self.core, triangles), bases)

    def is_orthonormal(self) -> bool:
        """Tell whether the columns of every factor are orthonormal, up to some roundings.

        Returns
        -------
        bool
            Whether ``U_k^H U_k`` is the identity for every factor, up to rounding.
        """
        limit = ROUNDING * float(np.finfo(self.dtype).eps)
        grams = (u.conj().T @ u for u in self.factors)
        return all(bool(np.abs(g - np.eye(len(g))).max() <= limit) for g in grams)

    @cached_property
    def _core_vectors(self) -> list[tuple[Array, Array]]:
        """Left singular vectors and singular values of the core along every mode."""
        unfoldings = (matricize(self.core, k) for k in range(self.ndim))
        return [svd(matrix, full_matrices=False)[:2] for matrix in unfoldings]

    @cached_property
    def core_roots(self) -> list[Array]:
        """Compute ``L`` with ``L L^H = M_k(C) M_k(C)^H`` for every mode.

        Not from the product, which would square the condition number.
        """
        return [left * s for left, s in self._core_vectors]

    @cached_property
    def core_inverses(self) -> list[Array]:
        """Invert ``M_k(C) M_k(C)^H`` for every mode, without its numerical null space."""
        inverses = []
        for left, s in self._core_vectors:
            weights = np.zeros_like(s)
            solid = s > max(CORE_CUTOFF, 100 * float(np.finfo(s.dtype).eps)) * s[0]
            weights[solid] = s[solid] ** -2.0
            inverses.append((left * weights) @ left.conj().T)
        return inverses

    def singular_values(self, mode: int) -> Array:
        """Compute the singular values of the unfolding along a mode, at most ``r_mode`` of them.

        Parameters
        ----------
        mode : int
            Mode of the unfolding.

        Returns
        -------
        ndarray
            Singular values in descending order.
        """
        mode = normalize_mode(mode, self.ndim)
        core = matricize(self.orthonormal().core, mode)
        return np.linalg.svd(core, compute_uv=False)[: self.rank[mode]]

    def multilinear_rank(self, tol: float | None = None) -> tuple[int, ...]:
        """Compute the numerical multilinear rank.

        Parameters
        ----------
        tol : float, optional
            Tolerance relative to the largest singular value; by default ``max(shape)`` times the
            machine epsilon.

        Returns
        -------
        tuple of int
            Numerical rank of every unfolding.
        """
        ranks = []
        for k in range(self.ndim):
            s = self.singular_values(k)
            floor = max(self.shape) * float(np.finfo(self.dtype).eps) if tol is None else tol
            ranks.append(int(np.sum(s > floor * s[0])) if s[0] > 0 else 0)
        return tuple(ranks)

    def transpose(self, modes: Sequence[int]) -> Tucker:
        """Reorder the modes: mode ``k`` of the result is mode ``modes[k]`` of this tensor.

        Parameters
        ----------
        modes : sequence of int
            Mode of this tensor for every mode of the result.

        Returns
        -------
        Tucker
            The tensor with its modes in that order.

        Raises
        ------
        InputError
            If a mode is missing or named twice.
        """
        order = tuple(normalize_mode(k, self.ndim) for k in modes)
        if sorted(order) != list(range(self.ndim)):
            raise InputError(f"modes must name each of {self.ndim} modes once, got {tuple(modes)}")
        return Tucker(self.core.transpose(order), tuple(self.factors[k] for k in order))

    def _check_same_shape(self, other: Tucker) -> None:
        if self.shape != other.shape:
            raise InputError(
                f"both tensors must have one shape, got {self.shape} and {other.shape}"
            )

    # files

    def as_arrays(self) -> dict[str, Array]:
        """Return core and factors by name.

        Returns
        -------
        dict of str to ndarray
            ``core`` and ``factor_0``, ``factor_1``, ...
        """
        return {"core": self.core, **{f"factor_{k}": u for k, u in enumerate(self.factors)}}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Tucker:
        """Return the tensor of which `as_arrays` was made.

        Parameters
        ----------
        arrays : mapping of str to ndarray
            Arrays as `as_arrays` returns them.

        Returns
        -------
        Tucker
            The tensor.

        Raises
        ------
        InputError
            If an array is missing.
        """
        try:
            core = arrays["core"]
            return cls(core, tuple(arrays[f"factor_{k}"] for k in range(core.ndim)))
        except KeyError as error:
            raise InputError(
                f"a Tucker tensor needs a core and one factor per mode, misses {error}"
            ) from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write core and factors to an ``.npz`` file, atomically.

        Parameters
        ----------
        path : str or PathLike
            File to write, atomically.
        """
        save_arrays(path, "Tucker tensor", self.as_arrays())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tucker:
        """Read a tensor written by `save`.

        Parameters
        ----------
        path : str or PathLike
            File that `save` wrote.

        Returns
        -------
        Tucker
            The tensor.
        """
        return cls.from_arrays(load_arrays(path, "Tucker tensor"))

    @property
    def n_parameters(self) -> int:
        """Degrees of freedom of a tensor of this shape and rank."""
        return degrees_of_freedom(self.shape, self.rank)


def expand_key(key: Any, shape: Sequence[int], scattered: str) -> tuple[int | slice, ...]:
    """Bring a key of integers, slices and an ellipsis to one part per mode, integers from 0 on.

    ``scattered`` is what a refusal tells to use for scattered entries.
    """
    keys = key if isinstance(key, tuple) else (key,)
    for part in keys:
        if part is not Ellipsis and (
            isinstance(part, bool) or not isinstance(part, slice | int | np.integer)
        ):
            raise InputError(
                f"slices take integers, slices and an ellipsis, got {type(part).__name__}; "
                f"use {scattered} for scattered entries"
            )
    n_ellipses = sum(part is Ellipsis for part in keys)
    if len(keys) - n_ellipses > len(shape) or n_ellipses > 1:
        raise IndexError(f"too many indices for a tensor with {len(shape)} modes: {key}")
    if not n_ellipses:
        keys = (*keys, Ellipsis)
    at = keys.index(Ellipsis)
    keys = (*keys[:at], *(slice(None),) * (len(shape) - len(keys) + 1), *keys[at + 1 :])
    for k, (part, n) in enumerate(zip(keys, shape, strict=True)):
        if not isinstance(part, slice) and not -n <= part < n:
            raise IndexError(f"index {part} is out of bounds for mode {k} of size {n}")
    return tuple(
        part if isinstance(part, slice) else int(part) % n
        for part, n in zip(keys, shape, strict=True)
    )


def degrees_of_freedom(shape: Sequence[int], rank: Sequence[int]) -> int:
    """Dimension of the manifold of tensors of a multilinear rank: ``prod(r) + sum(r (n - r))``.

    Examples
    --------
    >>> degrees_of_freedom((100, 100, 100), (5, 5, 5))
    1550
    """
    return math.prod(rank) + sum(r * (n - r) for n, r in zip(shape, rank, strict=True))
