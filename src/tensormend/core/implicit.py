"""Tensors that are never formed: what truncation and shrinkage need of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tensormend.core.algebra import (
    DEFAULT_MEMORY_LIMIT,
    Array,
    check_memory,
    gaussian,
    is_inexact,
    matricize,
    mode_product,
    norm,
)
from tensormend.core.linalg import tall_qr
from tensormend.core.subspaces import leading_subspace
from tensormend.core.tucker import Tucker
from tensormend.errors import InputError

__all__ = [
    "DenseTensor",
    "ImplicitTensor",
    "TensorSum",
    "as_implicit",
    "compress_modes",
    "exact_core",
    "extrapolate",
    "leading_basis",
    "panel",
    "project",
    "tensor_norm",
    "tucker_products",
]

SKETCH_SIZE = 2**22  # numbers of a sketch from which a singular subspace is estimated
SURPLUS = 10  # columns of a sketch beyond twice the rank
NORM_SIZE = 8  # columns per mode of a sketch from which a norm is estimated


@runtime_checkable
class ImplicitTensor(Protocol):
    """A tensor known by its products: an array, a Tucker tensor, a sum of such, or another kind.

    A class may also give these methods. Where it does not, functions of this module do, more slowly
    or less exactly: `tensor_norm` in place of ``norm``, and for the others the function of that
    name, of which `exact_core` returns None.

    * ``leading_basis(mode, rank, *, init=None, tol=None)``: orthonormal basis of the leading left
      singular subspace of an unfolding. ``init`` is a basis near it; ``tol`` allows few digits.
    * ``project(factors)``: the array ``z ×_k U_k^H`` over all modes at once.
    * ``exact_core()``: an array and orthonormal bases, or None in place of these, whose mode
      products are equal to the tensor.
    * ``norm()``: the Frobenius norm.
    * ``extrapolate(previous, momentum)``: ``z + momentum * (z - previous)``, both of this
      class.
    * ``panel(mode, q)``: ``M^T conj(q)`` of the unfolding ``M``, columns in C order.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the entries."""

    def compress(self, mode: int, q: Array) -> ImplicitTensor:
        """Return the mode product with ``q^H``.

        Parameters
        ----------
        mode : int
            Mode, counted from 0.
        q : ndarray of shape (n_mode, r)
            Matrix with one row for every index of the mode.

        Returns
        -------
        ImplicitTensor
            The product, whose size along the mode is ``r``.
        """
        ...

    def todense(self, memory_limit: float | None = DEFAULT_MEMORY_LIMIT) -> Array:
        """Form the array; called once modes have been compressed.

        Parameters
        ----------
        memory_limit : float or None, default=DEFAULT_MEMORY_LIMIT
            Largest size of the dense array in bytes, ``None`` for no limit; a larger one is
            refused.

        Returns
        -------
        ndarray
            All entries of the tensor.
        """
        ...


@dataclass(frozen=True, eq=False)
class DenseTensor:
    """An array as an `ImplicitTensor`.

    Parameters
    ----------
    array : array_like
        The entries. Integers, booleans and floating-point numbers of other precisions are converted
        to float64 or complex128.
    threads : int, default=1
        Threads of large products.

    Raises
    ------
    InputError
        If the array is not numeric.
    """

    array: Array
    threads: int = 1

    def __post_init__(self) -> None:
        array = np.asarray(self.array)
        if not is_inexact(array.dtype):
            if array.dtype.kind not in "biufc":
                raise InputError(
                    f"a tensor must be a numeric array, got data type {array.dtype}; convert it "
                    "with astype(float)"
                )
            # also another byte order
            dtype = np.result_type(array.dtype)
            if not is_inexact(dtype):
                dtype = np.dtype(np.complex128 if dtype.kind == "c" else np.float64)
            array = array.astype(dtype)
        if array is not self.array:
            object.__setattr__(self, "array", array)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the entries."""
        return self.array.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.array, dtype=dtype, copy=copy)

    def compress(self, mode: int, q: Array) -> DenseTensor:
        """Return the mode product with ``q^H``."""
        return DenseTensor(mode_product(self.array, q.conj().T, mode), self.threads)

    def todense(self, memory_limit: float | None = DEFAULT_MEMORY_LIMIT) -> Array:
        """Return the array, which is there already."""
        del memory_limit
        return self.array

    def leading_basis(
        self, mode: int, rank: int, *, init: Array | None = None, tol: float | None = None
    ) -> Array:
        """Compute the leading left singular vectors of an unfolding.

        Parameters
        ----------
        mode : int
            Mode of the unfolding, counted from 0.
        rank : int
            Number of singular vectors.
        init : ndarray, optional
            Basis to begin a subspace iteration with, where one is used.
        tol : float, optional
            Not used: the vectors of a dense tensor are exact.

        Returns
        -------
        ndarray of shape (n_mode, rank)
            Orthonormal basis of the leading left singular subspace.
        """
        del tol
        matrix = np.moveaxis(self.array, mode, 0).reshape(self.shape[mode], -1)
        return leading_subspace(matrix, rank, init, self.threads)

    def exact_core(self) -> tuple[Array, None]:
        """Return the array, for which no bases are needed.

        Returns
        -------
        tuple of (ndarray, None)
            The array, for which no bases are needed.
        """
        return self.array, None

    def norm(self) -> float:
        """Compute the Frobenius norm.

        Returns
        -------
        float
            The Frobenius norm.
        """
        return norm(self.array)

    def extrapolate(self, previous: DenseTensor, momentum: float) -> DenseTensor:
        """Return ``self + momentum * (self - previous)``.

        Parameters
        ----------
        previous : DenseTensor
            The tensor of the iteration before.
        momentum : float
            Weight of the difference.

        Returns
        -------
        DenseTensor
            ``self + momentum * (self - previous)``.
        """
        return DenseTensor(self.array + momentum * (self.array - previous.array), self.threads)

    def panel(self, mode: int, q: Array) -> Array:
        """Multiply the transposed unfolding ``M`` by ``conj(q)``.

        Parameters
        ----------
        mode : int
            Mode of the unfolding, counted from 0.
        q : ndarray of shape (n_mode, r)
            Basis of a subspace of that mode.

        Returns
        -------
        ndarray of shape (prod of other sizes, r)
            ``M^T conj(q)``, the other modes in C order along its rows.
        """
        rows = np.moveaxis(self.array, mode, -1).reshape(-1, self.shape[mode])
        return np.asarray(rows @ q.conj())


@dataclass(frozen=True, eq=False)
class TensorSum:
    """A weighted sum of implicit tensors of one shape, kept apart.

    Parameters
    ----------
    terms : sequence of ImplicitTensor
        The terms.
    weights : sequence of float, optional
        One weight per term; all 1 by default.

    Raises
    ------
    InputError
        If there are no terms, if their shapes differ, or if there is not one weight per term.

    Examples
    --------
    >>> z = TensorSum([DenseTensor(np.ones((2, 3))), DenseTensor(np.eye(2, 3))], [1.0, 2.0])
    >>> z.todense()
    array([[3., 1., 1.],
           [1., 3., 1.]])
    """

    terms: Sequence[ImplicitTensor]
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if not self.terms or len({term.shape for term in self.terms}) > 1:
            raise InputError(
                "a sum needs one or more tensors of one shape, got shapes "
                f"{[term.shape for term in self.terms]}"
            )
        if self.weights is not None and len(self.weights) != len(self.terms):
            raise InputError(
                f"a sum needs one weight per term, got {len(self.weights)} weights for "
                f"{len(self.terms)} terms"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes."""
        return self.terms[0].shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the entries."""
        return np.result_type(*(term.dtype for term in self.terms))

    def compress(self, mode: int, q: Array) -> TensorSum:
        """Compress every term."""
        return TensorSum([term.compress(mode, q) for term in self.terms], self.weights)

    def todense(self, memory_limit: float | None = DEFAULT_MEMORY_LIMIT) -> Array:
        """Form the sum."""
        check_memory(self.shape, self.dtype, memory_limit, "the dense tensor")
        return self._add([term.todense(memory_limit) for term in self.terms])

    def project(self, factors: Sequence[Array]) -> Array:
        """Project every term.

        Parameters
        ----------
        factors : sequence of ndarray
            One matrix per mode, of shape ``(n_k, r_k)``.

        Returns
        -------
        ndarray of shape (r_1, ..., r_d)
            The sum times ``U_k^H`` along every mode.
        """
        return self._add([project(term, factors) for term in self.terms])

    def _add(self, parts: list[Array]) -> Array:
        weights = (1.0,) * len(parts) if self.weights is None else self.weights
        out = weights[0] * parts[0]
        for weight, part in zip(weights[1:], parts[1:], strict=True):
            out = out + weight * part
        return out


def as_implicit(z: Any) -> ImplicitTensor:
    """Return an implicit tensor as it is, anything else as a `DenseTensor`."""
    return z if isinstance(z, ImplicitTensor) else DenseTensor(z)


def compress_modes(
    z: ImplicitTensor, factors: Sequence[Array | None], *, skip: int | None = None
) -> ImplicitTensor:
    """Compress all modes that have a factor, those first that shrink the tensor most."""
    chosen = [
        (u.shape[1] / u.shape[0], k, u)
        for k, u in enumerate(factors)
        if u is not None and k != skip
    ]
    for _, k, u in sorted(chosen, key=lambda item: item[0]):
        z = z.compress(k, u)
    return z


def project(z: ImplicitTensor, factors: Sequence[Array]) -> Array:
    """Core ``z ×_k U_k^H`` over all modes."""
    own = getattr(z, "project", None)
    out: Array = compress_modes(z, factors).todense() if own is None else own(factors)
    return out


def tucker_products(z: ImplicitTensor, x: Tucker) -> tuple[Array, tuple[Array, ...]]:
    """Products of a tensor with core and factors of ``x``, for any factors.

    Returns ``z ×_j U_j^H`` and for every mode ``M_k(z ×_{j≠k} U_j^H) M_k(C)^H``: for
    ``z = A*(y - A(x))`` minus the gradients of the loss.
    """
    # the products of all modes but the first share their largest part
    head = z.compress(0, x.factors[0])
    rest: tuple[Array | None, ...] = (None, *x.factors[1:])
    parts = [compress_modes(z, rest).todense()]
    parts += [compress_modes(head, rest, skip=k).todense() for k in range(1, x.ndim)]
    factors = tuple(
        matricize(part, k) @ matricize(x.core, k).conj().T for k, part in enumerate(parts)
    )
    return mode_product(parts[0], x.factors[0].conj().T, 0), factors


def exact_core(z: ImplicitTensor) -> tuple[Array, tuple[Array, ...] | None] | None:
    """Return an array and orthonormal bases whose product is the tensor, or None."""
    own = getattr(z, "exact_core", None)
    return None if own is None else own()


def extrapolate(z: ImplicitTensor, previous: ImplicitTensor, momentum: float) -> ImplicitTensor:
    """Return ``z + momentum * (z - previous)``."""
    own = getattr(z, "extrapolate", None)
    if own is None or type(z) is not type(previous):
        return TensorSum([z, previous], [1 + momentum, -momentum])
    out: ImplicitTensor = own(previous, momentum)
    return out


def leading_basis(
    z: ImplicitTensor,
    mode: int,
    rank: int,
    *,
    init: Array | None = None,
    tol: float | None = None,
) -> Array:
    """Orthonormal basis of the leading left singular subspace of an unfolding.

    Parameters
    ----------
    z : ImplicitTensor
        The tensor.
    mode : int
        Mode of the unfolding.
    rank : int
        Dimension of the subspace.
    init : ndarray, optional
        Basis near the answer, to start iterations from.
    tol : float, optional
        Angle up to which the subspace need not be resolved; by default it is resolved as well as
        the method allows.

    Notes
    -----
    Of a tensor without a method ``leading_basis`` the other modes are compressed by random
    orthonormal matrices, as far as needed for a sketch of about four million numbers. The basis is
    exact where the whole tensor is no larger than that.
    """
    own = getattr(z, "leading_basis", None)
    if own is not None:
        basis: Array = own(mode, rank, init=init, tol=tol)
        return basis
    sizes = _sketch_sizes(z.shape, mode, max(SKETCH_SIZE // z.shape[mode], 2 * rank + SURPLUS))
    sketch = _sketch(z, sizes).todense()
    return leading_subspace(np.moveaxis(sketch, mode, 0).reshape(z.shape[mode], -1), rank, init)


def panel(z: ImplicitTensor, mode: int, q: Array) -> Array:
    """Compute ``M^T conj(q)`` of the unfolding ``M``, the other modes in C order along its rows."""
    own = getattr(z, "panel", None)
    if own is None:
        return np.moveaxis(z.compress(mode, q).todense(), mode, -1).reshape(-1, q.shape[1])
    out: Array = own(mode, q)
    return out


def tensor_norm(z: ImplicitTensor) -> float:
    """Compute the Frobenius norm.

    Of a tensor without a method ``norm`` an estimate, from a random sketch.
    """
    own = getattr(z, "norm", None)
    if own is not None:
        return float(own())
    sizes = [min(n, NORM_SIZE) for n in z.shape]
    kept = math.prod(sizes) / math.prod(z.shape)  # mean of the part of the square that is kept
    return norm(_sketch(z, sizes).todense()) / math.sqrt(kept)


def _sketch_sizes(shape: Sequence[int], mode: int, n_columns: int) -> list[int]:
    """Lower the largest sizes of the other modes until their product is about ``n_columns``."""
    sizes, left = list(shape), float(n_columns)
    others = sorted((k for k in range(len(shape)) if k != mode), key=lambda k: shape[k])
    for i, k in enumerate(others):
        sizes[k] = min(shape[k], math.ceil(left ** (1 / (len(others) - i))))
        left = max(1.0, left / sizes[k])
    return sizes


def _sketch(z: ImplicitTensor, sizes: Sequence[int]) -> ImplicitTensor:
    """Compress modes to given sizes by random orthonormal matrices, the same in every call."""
    rng = np.random.default_rng(0)
    for k, (n, size) in enumerate(zip(z.shape, sizes, strict=True)):
        if size < n:
            z = z.compress(k, tall_qr(gaussian((n, size), rng, z.dtype))[0])
    return z
