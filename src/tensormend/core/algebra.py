"""Algebra of dense tensors: unfoldings, mode products, inner product, multilinear rank.

Modes count from 0, as NumPy's axes do; the paper counts them from 1.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensormend.core.text import format_bytes
from tensormend.errors import InputError, MemoryLimitError

__all__ = [
    "DEFAULT_MEMORY_LIMIT",
    "Array",
    "as_rank",
    "as_shape",
    "cap_rank",
    "check_count",
    "check_memory",
    "check_number",
    "gaussian",
    "inner",
    "is_inexact",
    "matricize",
    "mode_product",
    "multi_mode_product",
    "multilinear_rank",
    "norm",
    "normalize_mode",
    "power_of_two",
    "squared_norm",
    "tensorize",
]

SAFE_SQUARE = 1e-30  # squares beyond this or its inverse may come of some that lost digits
SUM_BLOCK = 2**16  # numbers of single precision that are widened at once, and stay in the cache

INEXACT = frozenset(map(np.dtype, ("float32", "float64", "complex64", "complex128")))
SINGLE = frozenset(map(np.dtype, ("float32", "complex64")))

Array = NDArray[Any]
"""A NumPy array of float32, float64, complex64 or complex128 numbers."""

DEFAULT_MEMORY_LIMIT = 4 * 2**30
"""Bytes a single dense array may take before it is refused (4 GiB)."""


def is_inexact(dtype: np.dtype[Any]) -> bool:
    """Tell whether a data type is one of the four that tensormend computes in.

    Parameters
    ----------
    dtype : dtype
        Data type to look up.

    Returns
    -------
    bool
        True for float32, float64, complex64 and complex128.
    """
    return dtype in INEXACT


def normalize_mode(mode: int, order: int) -> int:
    """Bring a mode, which may be negative, into ``range(order)``.

    Parameters
    ----------
    mode : int
        Mode; negative modes count from the last.
    order : int
        Order of the tensor, its number of modes.

    Returns
    -------
    int
        The same mode, from 0 on.

    Raises
    ------
    InputError
        If there is no such mode.
    """
    if not -order <= mode < order:
        raise InputError(
            f"mode must lie between {-order} and {order - 1} for a tensor of order {order}, "
            f"got {mode}"
        )
    return int(mode) % order


def _as_integers(values: Sequence[int], what: str) -> tuple[int, ...]:
    try:
        return tuple(operator.index(value) for value in values)
    except TypeError as error:
        raise InputError(f"{what} must be integers, got {values}; round it first") from error


def as_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Check a tensor shape: at least two modes, each of positive size.

    Parameters
    ----------
    shape : sequence of int
        Sizes of the modes.

    Returns
    -------
    tuple of int
        The shape as a tuple of int.

    Raises
    ------
    InputError
        If there are fewer than two modes, or one of them has no entries.
    """
    out = _as_integers(shape, "shape")
    if len(out) < 2 or min(out) < 1:
        raise InputError(
            f"shape must have at least two modes, each of size 1 or more, got {tuple(shape)}; "
            "reshape a vector to one column"
        )
    return out


def as_rank(rank: int | Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """Check a multilinear rank against a shape.

    A tensor of multilinear rank ``r`` exists exactly if ``1 <= r_k <= n_k`` and
    ``r_k <= prod(r_j for j != k)`` in every mode. One int stands for all modes, and is lowered
    to the largest possible rank in those that allow less.

    Parameters
    ----------
    rank : int or sequence of int
        Multilinear rank, one int per mode or one for all modes.
    shape : sequence of int
        Sizes of the modes.

    Returns
    -------
    tuple of int
        Multilinear rank, one int per mode.

    Raises
    ------
    InputError
        If no tensor of this shape has that rank.

    Examples
    --------
    >>> as_rank(2, (4, 5, 6)), as_rank(20, (300, 400, 3))
    ((2, 2, 2), (20, 20, 3))
    """
    shape = tuple(shape)
    if isinstance(rank, int | np.integer):
        out = (int(rank),) * len(shape)
        if 1 <= rank <= max(shape):
            out = cap_rank(out, shape)
    else:
        out = _as_integers(rank, "rank")
    if len(out) != len(shape):
        raise InputError(
            f"rank must be one int or one per mode ({len(shape)} modes), got {out}; "
            f"for example rank={(min(out, default=1),) * len(shape)}",
            parameter="rank",
        )
    for k, r in enumerate(out):
        if r < 1:
            raise InputError(f"rank must be 1 or more in every mode, got {r} in mode {k}")
    total = math.prod(out)
    for k, (r, n) in enumerate(zip(out, shape, strict=True)):
        if r > n:
            raise InputError(
                f"rank must not exceed the size of its mode, got rank {r} in mode {k} of size {n}; "
                f"use at most {n} there"
            )
        if r > total // r:
            raise InputError(
                f"rank in a mode must not exceed the product of the other ranks (no tensor has "
                f"such a rank), got {out}: {r} > {total // r} in mode {k}; "
                f"use at most {total // r} there or raise the others"
            )
    return out


def cap_rank(rank: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """Lower a rank to the largest one that exists below it, see `as_rank`.

    Parameters
    ----------
    rank : sequence of int
        Ranks, 1 or more.
    shape : sequence of int
        Sizes of the modes.

    Returns
    -------
    tuple of int
        No rank above the size of its mode, nor above the product of the other ranks.

    Notes
    -----
    One sweep is enough: a rank lowered to the product of the others is no smaller than any of them.

    Examples
    --------
    >>> cap_rank((9, 9, 9), (10, 3, 2))
    (6, 3, 2)
    """
    out = [min(r, n) for r, n in zip(rank, shape, strict=True)]
    for k, r in enumerate(out):
        out[k] = min(r, math.prod(out[:k] + out[k + 1 :]))
    return tuple(out)


def check_number(
    name: str,
    value: Any,
    requirement: str,
    is_valid: Callable[[float], bool],
    *,
    optional: bool = False,
) -> None:
    """Refuse a setting that is not a real number, or not in its range.

    Parameters
    ----------
    name : str
        Name of the setting, for the message.
    value : object
        The setting.
    requirement : str
        What is expected, for the message, such as ``"a positive number"``.
    is_valid : callable
        Whether a number is in the range; false for NaN.
    optional : bool, default=False
        Whether ``None`` is valid.

    Raises
    ------
    InputError
        If the value is a boolean, not a number, or not in the range.

    Examples
    --------
    >>> check_number("decay", 2.0, "a number between 0 and 1", lambda number: 0 < number < 1)
    Traceback (most recent call last):
    tensormend.errors.InputError: decay must be a number between 0 and 1, got 2.0
    """
    if value is None and optional:
        return
    is_number = isinstance(value, int | float | np.integer | np.floating)
    if not is_number or isinstance(value, bool) or not is_valid(value):
        ending = ", or None" if optional else ""
        raise InputError(f"{name} must be {requirement}{ending}, got {value!r}")


def check_count(name: str, value: Any, least: int) -> None:
    """Refuse a setting that is not an integer, or too small.

    Parameters
    ----------
    name : str
        Name of the setting, for the message.
    value : object
        The setting.
    least : int
        Smallest valid value.

    Raises
    ------
    InputError
        If the value is a boolean, not an integer, or below ``least``.
    """
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_integer or value < least:
        raise InputError(f"{name} must be an integer, {least} or more, got {value!r}")


def check_memory(
    shape: Sequence[int],
    dtype: Any,
    limit: float | None,
    what: str,
    advice: str = "ask for entries or slices instead, or raise the limit",
) -> None:
    """Refuse an array above the memory limit, before it is made.

    Parameters
    ----------
    shape : sequence of int
        Shape of the array.
    dtype : dtype
        Data type of the array.
    limit : float or None
        Largest size in bytes, ``None`` for no limit.
    what : str
        What the array is, for the error message.
    advice : str, default="ask for entries or slices instead, or raise the limit"
        What to do, for the error message.

    Raises
    ------
    MemoryLimitError
        If the array would be larger than the limit.
    """
    needed = math.prod(int(n) for n in shape) * np.dtype(dtype).itemsize
    if limit is not None and needed > limit:
        raise MemoryLimitError(
            f"{what} of shape {tuple(shape)} would take {format_bytes(needed)}, above the limit "
            f"of {format_bytes(limit)}; {advice}"
        )


def matricize(x: Array, mode: int) -> Array:
    """Unfold a tensor along a mode into a matrix of size ``n_mode x prod(other sizes)``.

    The columns are in the order of the paper (and of Kolda and Bader): entry
    ``(i_0, ..., i_{d-1})`` goes to row ``i_mode`` and column
    ``sum(i_l * J_l for l != mode)`` with ``J_l = prod(n_m for m < l, m != mode)``, so the
    earliest of the other indices runs fastest. (The paper prints the upper end of that product
    as ``k - 1``; ``l - 1`` is meant.)

    Parameters
    ----------
    x : ndarray
        Tensor.
    mode : int
        Mode whose index becomes the row.

    Returns
    -------
    ndarray
        Matrix of size ``n_mode x prod(other sizes)``.

    Examples
    --------
    >>> x = np.arange(24.0).reshape(2, 3, 4)
    >>> bool(matricize(x, 1)[2, 1 + 2 * 3] == x[1, 2, 3])
    True
    """
    mode = normalize_mode(mode, x.ndim)
    others = [k for k in range(x.ndim - 1, -1, -1) if k != mode]
    return x.transpose(mode, *others).reshape(x.shape[mode], -1)


def tensorize(matrix: Array, mode: int, shape: Sequence[int]) -> Array:
    """Fold a matrix back into a tensor: the inverse of `matricize`.

    Parameters
    ----------
    matrix : ndarray
        Unfolding along the mode.
    mode : int
        Mode whose index is the row.
    shape : sequence of int
        Shape of the tensor.

    Returns
    -------
    ndarray
        Tensor of that shape.

    Raises
    ------
    InputError
        If the matrix is no unfolding of a tensor of that shape.

    Examples
    --------
    >>> x = np.arange(24.0).reshape(2, 3, 4)
    >>> bool(np.array_equal(tensorize(matricize(x, 2), 2, (2, 3, 4)), x))
    True
    """
    shape = as_shape(shape)
    mode = normalize_mode(mode, len(shape))
    others = shape[:mode] + shape[mode + 1 :]
    expected = (shape[mode], math.prod(others))
    if matrix.shape != expected:
        raise InputError(
            f"matrix must have shape {expected} to fold along mode {mode} into {shape}, "
            f"got {matrix.shape}"
        )
    folded = np.reshape(matrix, (shape[mode], *others), order="F")
    return np.ascontiguousarray(np.moveaxis(folded, 0, mode))


def mode_product(x: Array, matrix: Array, mode: int) -> Array:
    """Multiply a tensor by a matrix along a mode: ``M_k(x ×_k A) = A M_k(x)``.

    Parameters
    ----------
    x : ndarray
        Tensor.
    matrix : ndarray
        Matrix with as many columns as the mode has entries.
    mode : int
        Mode to multiply.

    Returns
    -------
    ndarray
        Tensor whose mode has as many entries as the matrix has rows.

    Raises
    ------
    InputError
        If the number of columns is not the size of the mode.
    """
    mode = normalize_mode(mode, x.ndim)
    if matrix.ndim != 2 or matrix.shape[1] != x.shape[mode]:
        raise InputError(
            f"matrix must have {x.shape[mode]} columns to multiply mode {mode} of a tensor of "
            f"shape {x.shape}, got shape {matrix.shape}"
        )
    rows = matrix.shape[0]
    before, after = x.shape[:mode], x.shape[mode + 1 :]
    if math.prod(after) == 1:
        return (x.reshape(-1, x.shape[mode]) @ matrix.T).reshape(*before, rows, *after)
    stacked = matrix @ x.reshape(math.prod(before), x.shape[mode], -1)
    return stacked.reshape(*before, rows, *after)


def multi_mode_product(
    x: Array, matrices: Sequence[Array | None], *, adjoint: bool = False, skip: int | None = None
) -> Array:
    """Multiply a tensor by one matrix per mode, ``None`` (or ``skip``) leaving a mode as it is.

    With ``adjoint=True`` the conjugate transposes are used. The modes are taken so that the
    tensor shrinks first, which keeps the cost low.

    Parameters
    ----------
    x : ndarray
        Tensor.
    matrices : sequence of ndarray or None
        One matrix per mode; ``None`` leaves a mode as it is.
    adjoint : bool, default=False
        Whether to multiply by the conjugate transposes instead.
    skip : int, optional
        Mode to leave as it is.

    Returns
    -------
    ndarray
        The product.

    Raises
    ------
    InputError
        If there is not one matrix per mode.
    """
    if len(matrices) != x.ndim:
        raise InputError(f"one matrix per mode expected ({x.ndim} modes), got {len(matrices)}")
    skip = None if skip is None else normalize_mode(skip, x.ndim)
    chosen = [
        (m.shape[1] / m.shape[0] if adjoint else m.shape[0] / m.shape[1], k, m)
        for k, m in enumerate(matrices)
        if m is not None and k != skip
    ]
    for _, k, m in sorted(chosen, key=itemgetter(0)):
        x = mode_product(x, m.conj().T if adjoint else m, k)
    return x


def gaussian(shape: Sequence[int], rng: np.random.Generator, dtype: Any) -> Array:
    """Draw independent standard Gaussian numbers, for complex types in both parts.

    Parameters
    ----------
    shape : sequence of int
        Shape of the array.
    rng : Generator
        Generator to draw from.
    dtype : dtype
        Data type of the numbers.

    Returns
    -------
    ndarray
        Array of independent standard Gaussian numbers.
    """
    draw = rng.standard_normal(tuple(shape))
    if np.dtype(dtype).kind == "c":
        draw = draw + 1j * rng.standard_normal(tuple(shape))
    return draw.astype(dtype)


def inner(x: Array, y: Array) -> Any:
    """Compute the inner product ``sum(conj(x) * y)`` of dense tensors in double precision.

    Parameters
    ----------
    x : ndarray
        First tensor, which is conjugated.
    y : ndarray
        Second tensor, of the same shape.

    Returns
    -------
    float or complex
        ``sum(conj(x) * y)``, complex for complex tensors.

    Raises
    ------
    InputError
        If the shapes differ.
    """
    if x.shape != y.shape:
        raise InputError(f"both tensors must have one shape, got {x.shape} and {y.shape}")
    return _vdot(x.ravel(), y.ravel())


def squared_norm(x: Array) -> float:
    """Compute the squared Frobenius norm of a dense tensor in double precision.

    Parameters
    ----------
    x : ndarray
        Dense tensor.

    Returns
    -------
    float
        ``sum(abs(x)**2)``.
    """
    values = x.ravel(order="K")
    if values.dtype in SINGLE:
        values = values.view(np.float32)
    return float(_vdot(values, values).real)


def _vdot(x: Array, y: Array) -> Any:
    """Sum ``conj(x) * y`` of vectors, in double precision also where their numbers are single.

    BLAS sums single precision in an order that depends on the processor, and loses digits with
    the number of entries: four are left of the norm of some ten million.
    """
    if np.result_type(x, y) not in SINGLE:
        return np.vdot(x, y)
    wide = np.result_type(x, y, np.float64)
    total = wide.type(0)
    for start in range(0, x.size, SUM_BLOCK):
        left = x[start : start + SUM_BLOCK].astype(wide)
        right = left if y is x else y[start : start + SUM_BLOCK].astype(wide)
        total += np.vdot(left, right)
    return total


def norm(x: Array) -> float:
    """Compute the Frobenius norm of a dense tensor in double precision, without overflow.

    Parameters
    ----------
    x : ndarray
        Dense tensor.

    Returns
    -------
    float
        ``sqrt(sum(abs(x)**2))``.
    """
    square = squared_norm(x)
    if SAFE_SQUARE < square < 1 / SAFE_SQUARE or not x.size:
        return math.sqrt(square)
    largest = float(np.abs(x).max())
    if largest == 0 or not math.isfinite(largest):
        return largest
    return largest * math.sqrt(squared_norm(x / x.real.dtype.type(largest)))


def power_of_two(largest: float) -> float:
    """Return the largest power of two that is not above a number, 1 for zero.

    Dividing by it loses no bit, and squares of what is left neither overflow nor underflow.

    Parameters
    ----------
    largest : float
        A finite number that is not negative, such as the largest modulus of some values.

    Returns
    -------
    float
        The power of two.

    Examples
    --------
    >>> power_of_two(0.3), power_of_two(1000.0), power_of_two(0.0)
    (0.25, 512.0, 1.0)
    """
    # of a logarithm that is rounded up, the power may be twice as large
    return math.ldexp(1.0, math.frexp(largest)[1] - 1) if largest else 1.0


def multilinear_rank(x: Array, tol: float | None = None) -> tuple[int, ...]:
    """Compute the numerical rank of each unfolding.

    Parameters
    ----------
    x : ndarray
        Dense tensor.
    tol : float, optional
        Tolerance relative to the largest singular value; by default the longer side of the
        unfolding times the machine epsilon.

    Returns
    -------
    tuple of int
        Numerical rank of every unfolding.

    Examples
    --------
    >>> multilinear_rank(np.ones((3, 4, 5)))
    (1, 1, 1)
    """
    ranks = []
    for k in range(x.ndim):
        s = np.linalg.svd(matricize(x, k), compute_uv=False)
        floor = max(x.shape[k], x.size // x.shape[k]) * np.finfo(s.dtype).eps
        ranks.append(int(np.sum(s > (floor if tol is None else tol) * s[0])) if s[0] > 0 else 0)
    return tuple(ranks)
