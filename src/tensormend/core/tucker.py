"""Tensors in Tucker format: a core and one factor matrix per mode."""

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
ROUNDING = 32  # machine epsilons by which U^H U may differ from the identity
CORE_CUTOFF = (
    1e-10  # smaller singular values of the core, relative to the largest, are not inverted
)
SMALL_BYTES = 2**28  # largest dense tensor that is formed to read entries from it


@dataclass(frozen=True, eq=False)
class Tucker:
    """A tensor ``C ×_0 U_0 ×_1 ... ×_{d-1} U_{d-1}`` in factored form.

    Parameters
    ----------
    core : array_like of shape (r_0, ..., r_{d-1})
        The core ``C``, of order 2 or more.
    factors : sequence of array_like
        The factors ``U_k``, one ``n_k x r_k`` matrix per mode; their columns need not be
        orthonormal.

    Raises
    ------
    InputError
        If the shapes of core and factors do not match, or if they are not numeric.

    See Also
    --------
    thosvd : Approximation of an array in this format.
    sthosvd : The same, one mode after the other.

    Notes
    -----
    Entry ``(i_0, ..., i_{d-1})`` is the sum over all ``j`` of
    ``C[j_0, ..., j_{d-1}] U_0[i_0, j_0] ... U_{d-1}[i_{d-1}, j_{d-1}]``. Core and factors are
    converted to one floating or complex data type. Tensors can be added, subtracted, and multiplied
    or divided by scalars; the ranks of a sum add up. Indexing with integers and slices returns
    dense values; ``np.asarray(x)`` is ``x.todense()``.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormend import Tucker
    >>> rng = np.random.default_rng(0)
    >>> x = Tucker(rng.standard_normal((2, 2, 2)), [rng.standard_normal((n, 2)) for n in (4, 5, 6)])
    >>> x.shape, x.rank
    ((4, 5, 6), (2, 2, 2))
    >>> bool(np.allclose(x[3, :, 5], x.todense()[3, :, 5]))
    True
    >>> (x + 2 * x).rank
    (4, 4, 4)
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
                    raise InputError(
                        f"core and factors must be numeric arrays, got data type {part.dtype}; "
                        "convert them with astype(float)"
                    )
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
        """Shape of the core, an upper bound of the multilinear rank."""
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
            Floating or complex data type of the result.

        Returns
        -------
        Tucker
            The tensor in that data type.
        """
        return Tucker(self.core.astype(dtype), tuple(u.astype(dtype) for u in self.factors))

    # dense values

    def entries(self, indices: Any) -> Array:
        """Evaluate some entries of the tensor.

        Parameters
        ----------
        indices : array_like of int, shape (m, d) or (d,)
            One row of indices per entry, counted from 0; a single index tuple is one row.

        Returns
        -------
        ndarray of shape (m,)
            One value per row of ``indices``.

        Raises
        ------
        InputError
            If an index is not an integer or out of range.

        Notes
        -----
        The cost is ``O(m prod(r))``, in blocks of bounded memory. Where forming a small dense
        tensor is cheaper, the entries are read from that.

        Examples
        --------
        >>> x = Tucker(np.full((1, 1), 2.0), [np.array([[1.0], [2.0]]), np.array([[3.0], [5.0]])])
        >>> x.entries([[0, 0], [1, 1]])
        array([ 6., 20.])
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
        """Return dense values; integers, slices and an ellipsis work as for NumPy arrays."""
        keys = expand_key(key, self.shape, "x.entries(indices)")
        out = self.block([slice(k, k + 1) if isinstance(k, int) else k for k in keys])
        out = np.squeeze(out, axis=tuple(k for k, part in enumerate(keys) if isinstance(part, int)))
        return out if out.ndim else out[()]

    def block(
        self, rows: Sequence[slice | Array], memory_limit: float | None = DEFAULT_MEMORY_LIMIT
    ) -> Array:
        """Return the dense values at all combinations of given indices of every mode.

        Parameters
        ----------
        rows : sequence of slice or ndarray of int
            Per mode, a slice or a vector of indices.
        memory_limit : float or None, default=DEFAULT_MEMORY_LIMIT
            Largest size of the dense array in bytes, None for no limit; a larger one raises
            `MemoryLimitError`.

        Returns
        -------
        ndarray
            Dense array with one row per index in every mode, as with `numpy.ix_`.

        Examples
        --------
        >>> x = Tucker(np.full((1, 1), 2.0), [np.array([[1.0], [2.0]]), np.array([[3.0], [5.0]])])
        >>> x.block([slice(None), np.array([1])])
        array([[10.],
               [20.]])
        """
        factors = [u[part] for u, part in zip(self.factors, rows, strict=True)]
        sizes = tuple(len(u) for u in factors)
        check_memory(sizes, self.dtype, memory_limit, "the slice")
        if 0 in sizes:
            return np.empty(sizes, dtype=self.dtype)
        return multi_mode_product(self.core, factors)

    def todense(self, memory_limit: float | None = DEFAULT_MEMORY_LIMIT) -> Array:
        """Form the dense array.

        Parameters
        ----------
        memory_limit : float or None, default=DEFAULT_MEMORY_LIMIT
            Largest size of the array in bytes, None for no limit; a larger one raises
            `MemoryLimitError`.

        Returns
        -------
        ndarray
            All entries of the tensor.
        """
        check_memory(self.shape, self.dtype, memory_limit, "the dense tensor")
        return multi_mode_product(self.core, self.factors)

    def compress(self, mode: int, q: Array) -> Tucker:
        """Return the mode product with ``q^H``.

        Parameters
        ----------
        mode : int
            Mode, counted from 0; negative modes count from the last.
        q : ndarray of shape (n_mode, r)
            Matrix with one row for every index of the mode.

        Returns
        -------
        Tucker
            The product, whose size along the mode is ``r``.
        """
        mode = normalize_mode(mode, self.ndim)
        small = q.conj().T @ self.factors[mode]
        return Tucker(self.core, (*self.factors[:mode], small, *self.factors[mode + 1 :]))

    def exact_core(self) -> tuple[Array, tuple[Array, ...]]:
        """Return an array and orthonormal bases whose product is the tensor.

        Returns
        -------
        core : ndarray
            Core of the orthonormal form.
        factors : tuple of ndarray
            Its factors, with orthonormal columns.
        """
        x = self.orthonormal()
        return x.core, x.factors

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError(
                "the dense array of a Tucker tensor cannot be a view, got copy=False; "
                "use np.asarray(x)"
            )
        return self.todense().astype(self.dtype if dtype is None else dtype, copy=False)

    # algebra in factored form

    def inner(self, other: Tucker) -> Any:
        """Compute the inner product ``sum(conj(self) * other)`` in factored form.

        Parameters
        ----------
        other : Tucker
            Tensor of the same shape.

        Returns
        -------
        float or complex
            The inner product, complex if one of the tensors is.
        """
        self._check_same_shape(other)
        overlaps = [u.conj().T @ w for u, w in zip(self.factors, other.factors, strict=True)]
        return inner(self.core, multi_mode_product(other.core, overlaps))

    def norm(self) -> float:
        """Compute the Frobenius norm in factored form.

        Returns
        -------
        float
            Square root of the sum of squared absolute values.
        """
        return norm(self.orthonormal().core)

    def distance(self, other: Tucker | Array) -> float:
        """Compute the Frobenius norm of the difference.

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

        Notes
        -----
        Both tensors are expressed in one orthonormal basis per mode before they are subtracted.
        Unlike ``||a||^2 - 2 <a, b> + ||b||^2`` this is accurate for differences far below
        ``sqrt(eps)`` times the norm. For a dense ``other`` the dense tensor is formed.
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
        """Return the same tensor with factors whose columns are orthonormal.

        Returns
        -------
        Tucker
            The same tensor. A factor with more columns than rows becomes square, and the core
            shrinks accordingly.

        Examples
        --------
        >>> x = Tucker(np.ones((1, 1)), [np.full((4, 1), 3.0), np.ones((2, 1))])
        >>> x.is_orthonormal(), x.orthonormal().is_orthonormal()
        (False, True)
        """
        bases, triangles = zip(*(tall_qr(u) for u in self.factors), strict=True)
        return Tucker(multi_mode_product(self.core, triangles), bases)

    def is_orthonormal(self) -> bool:
        """Tell whether the columns of every factor are orthonormal, up to rounding.

        Returns
        -------
        bool
            Whether ``U_k^H U_k`` is the identity for every mode ``k``, up to rounding.
        """
        limit = ROUNDING * float(np.finfo(self.dtype).eps)
        grams = (u.conj().T @ u for u in self.factors)
        return all(bool(np.abs(g - np.eye(len(g))).max() <= limit) for g in grams)

    @cached_property
    def _core_vectors(self) -> list[tuple[Array, Array]]:
        """Left singular vectors and singular values of the unfoldings of the core."""
        unfoldings = (matricize(self.core, k) for k in range(self.ndim))
        return [svd(matrix, full_matrices=False)[:2] for matrix in unfoldings]

    @cached_property
    def core_roots(self) -> list[Array]:
        """Matrices ``L_k`` with ``L_k L_k^H = M_k(C) M_k(C)^H``, one per mode.

        They are computed from singular value decompositions of the unfoldings, as the product
        would square the condition number.
        """
        return [left * s for left, s in self._core_vectors]

    @cached_property
    def core_inverses(self) -> list[Array]:
        """Pseudoinverses of ``M_k(C) M_k(C)^H``, one per mode; tiny singular values are dropped."""
        inverses = []
        for left, s in self._core_vectors:
            weights = np.zeros_like(s)
            is_kept = s > max(CORE_CUTOFF, 100 * float(np.finfo(s.dtype).eps)) * s[0]
            weights[is_kept] = s[is_kept] ** -2.0
            inverses.append((left * weights) @ left.conj().T)
        return inverses

    def singular_values(self, mode: int) -> Array:
        """Compute the singular values of the unfolding along a mode.

        Parameters
        ----------
        mode : int
            Mode of the unfolding, counted from 0; negative modes count from the last.

        Returns
        -------
        ndarray
            Singular values in descending order, at most ``rank[mode]``; all others are zero.
        """
        mode = normalize_mode(mode, self.ndim)
        core = matricize(self.orthonormal().core, mode)
        return np.linalg.svd(core, compute_uv=False)[: self.rank[mode]]

    def multilinear_rank(self, tol: float | None = None) -> tuple[int, ...]:
        """Compute the numerical rank of every unfolding.

        Parameters
        ----------
        tol : float, optional
            Singular values up to ``tol`` times the largest count as zero; by default
            ``max(shape)`` times the machine epsilon.

        Returns
        -------
        tuple of int
            Numerical rank of every unfolding.

        Examples
        --------
        >>> x = Tucker(np.ones((2, 2)), [np.eye(3, 2), np.eye(4, 2)])
        >>> x.rank, x.multilinear_rank()
        ((2, 2), (1, 1))
        """
        ranks = []
        for k in range(self.ndim):
            s = self.singular_values(k)
            floor = max(self.shape) * float(np.finfo(self.dtype).eps) if tol is None else tol
            ranks.append(int(np.sum(s > floor * s[0])) if s[0] > 0 else 0)
        return tuple(ranks)

    def transpose(self, modes: Sequence[int]) -> Tucker:
        """Reorder the modes, as `numpy.transpose` does.

        Parameters
        ----------
        modes : sequence of int
            Mode ``k`` of the result is mode ``modes[k]`` of this tensor.

        Returns
        -------
        Tucker
            The tensor with its modes in that order.

        Raises
        ------
        InputError
            If a mode is missing or named twice.

        Examples
        --------
        >>> x = Tucker(np.ones((1, 1, 1)), [np.ones((n, 1)) for n in (4, 5, 6)])
        >>> x.transpose((2, 0, 1)).shape
        (6, 4, 5)
        """
        order = tuple(normalize_mode(k, self.ndim) for k in modes)
        if sorted(order) != list(range(self.ndim)):
            raise InputError(
                f"modes must name each of {self.ndim} modes once, got {tuple(modes)}; for example "
                f"{tuple(reversed(range(self.ndim)))}"
            )
        return Tucker(self.core.transpose(order), tuple(self.factors[k] for k in order))

    def _check_same_shape(self, other: Tucker) -> None:
        if self.shape != other.shape:
            raise InputError(
                f"both tensors must have one shape, got {self.shape} and {other.shape}"
            )

    # files

    def as_arrays(self) -> dict[str, Array]:
        """Return core and factors as a dictionary of arrays.

        Returns
        -------
        dict of str to ndarray
            Arrays named ``core``, ``factor_0``, ``factor_1``, ...
        """
        return {"core": self.core, **{f"factor_{k}": u for k, u in enumerate(self.factors)}}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Tucker:
        """Make a tensor from the arrays that `as_arrays` returns.

        Parameters
        ----------
        arrays : mapping of str to ndarray
            Arrays named ``core``, ``factor_0``, ``factor_1``, ...; others are ignored.

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
                "a Tucker tensor needs arrays named core, factor_0, factor_1, ..., one factor per "
                f"mode, got {', '.join(arrays) or 'none'}; add {error}"
            ) from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write core and factors to an ``.npz`` file.

        Parameters
        ----------
        path : str or PathLike
            File to write; it is replaced atomically.

        Examples
        --------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> x = Tucker(np.ones((1, 1)), [np.ones((2, 1)), np.ones((3, 1))])
        >>> with TemporaryDirectory() as folder:
        ...     x.save(Path(folder) / "x.npz")
        ...     Tucker.load(Path(folder) / "x.npz")
        Tucker(shape=(2, 3), rank=(1, 1), dtype=float64)
        """
        save_arrays(path, "Tucker tensor", self.as_arrays())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tucker:
        """Read a tensor written by `save`.

        Parameters
        ----------
        path : str or PathLike
            File to read.

        Returns
        -------
        Tucker
            The tensor.
        """
        return cls.from_arrays(load_arrays(path, "Tucker tensor"))

    @property
    def n_parameters(self) -> int:
        """Degrees of freedom of a tensor of this shape and rank, ``prod(r) + sum(r (n - r))``."""
        return degrees_of_freedom(self.shape, self.rank)


def expand_key(key: Any, shape: Sequence[int], scattered: str) -> tuple[int | slice, ...]:
    """Expand a key of integers, slices and an ellipsis to one part per mode, integers from 0.

    Error messages recommend ``scattered`` for scattered entries.
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
    """Return the dimension of the manifold of tensors of a multilinear rank.

    Parameters
    ----------
    shape : sequence of int
        Sizes ``n`` of the modes.
    rank : sequence of int
        Multilinear rank ``r``.

    Returns
    -------
    int
        ``prod(r) + sum(r (n - r))``.

    Examples
    --------
    >>> degrees_of_freedom((100, 100, 100), (5, 5, 5))
    1550
    """
    return math.prod(rank) + sum(r * (n - r) for n, r in zip(shape, rank, strict=True))
