"""Random problems from a seed, as in the experiments of the paper."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from tensormend.core.algebra import (
    Array,
    as_rank,
    as_shape,
    check_count,
    check_number,
    gaussian,
    normalize_mode,
)
from tensormend.core.truncate import thosvd
from tensormend.core.tucker import Tucker
from tensormend.errors import InputError

__all__ = [
    "add_noise",
    "conditioned_tucker",
    "gaussian_tucker",
    "noise_level",
    "random_tucker",
    "sample_fibres",
    "sample_indices",
]

Seed = int | np.random.Generator | None


def gaussian_tucker(
    shape: Sequence[int], rank: int | Sequence[int], *, rng: Seed = None, dtype: Any = np.float64
) -> Tucker:
    """Truncate a Gaussian tensor by T-HOSVD: the paper's random tensor. Forms ``prod(shape)``.

    Parameters
    ----------
    shape : sequence of int
        Sizes of the modes.
    rank : int or sequence of int
        Multilinear rank, one int per mode or one for all modes.
    rng : int or Generator, optional
        Generator, or seed of one.
    dtype : dtype, default=float64
        Data type of the result.

    Returns
    -------
    Tucker
        Tensor with orthonormal factors.
    """
    shape = as_shape(shape)
    return thosvd(gaussian(shape, np.random.default_rng(rng), dtype), as_rank(rank, shape))


def random_tucker(
    shape: Sequence[int], rank: int | Sequence[int], *, rng: Seed = None, dtype: Any = np.float64
) -> Tucker:
    """Draw a Gaussian core and uniformly distributed orthonormal factors.

    The factors of `gaussian_tucker` are uniformly distributed too, and for sizes far above the
    ranks its core is nearly as well conditioned as a Gaussian one.

    Parameters
    ----------
    shape : sequence of int
        Sizes of the modes.
    rank : int or sequence of int
        Multilinear rank, one int per mode or one for all modes.
    rng : int or Generator, optional
        Generator, or seed of one.
    dtype : dtype, default=float64
        Data type of the result.

    Returns
    -------
    Tucker
        Tensor with orthonormal factors.
    """
    shape = as_shape(shape)
    rank, rng = as_rank(rank, shape), np.random.default_rng(rng)
    core = gaussian(rank, rng, dtype)
    return Tucker(core, _uniform_factors(shape, rank, rng, dtype))


def _uniform_factors(
    shape: Sequence[int], rank: Sequence[int], rng: np.random.Generator, dtype: Any
) -> tuple[Array, ...]:
    factors = []
    for n, r in zip(shape, rank, strict=True):
        q, triangle = np.linalg.qr(gaussian((n, r), rng, dtype))
        diagonal = np.diagonal(triangle)
        factors.append(q * (diagonal / np.abs(diagonal)))  # QR fixes signs; uniform has them free
    return tuple(factors)


def conditioned_tucker(
    shape: Sequence[int], rank: int, condition: float, *, rng: Seed = None, dtype: Any = np.float64
) -> Tucker:
    """Draw a tensor of order 3 with a given condition number in mode 1.

    The core is ``S[j] = sigma[j_1] / sqrt(r)`` where ``j_0 + j_1 + j_2`` (each from 1, as the
    paper counts) is divisible by ``r``, and 0 elsewhere, with ``sigma`` equispaced from 1 to
    ``1 / condition``. Modes 0 and 2 then have condition number 1.

    Parameters
    ----------
    shape : sequence of int
        Sizes of the modes.
    rank : int
        Rank in every mode.
    condition : float
        Condition number of the unfolding along mode 1.
    rng : int or Generator, optional
        Generator, or seed of one.
    dtype : dtype, default=float64
        Data type of the result.

    Returns
    -------
    Tucker
        Tensor with orthonormal factors.

    Raises
    ------
    InputError
        If the tensor is not of order 3, or has rank 1 and a condition number other than 1.
    """
    shape = as_shape(shape)
    if len(shape) != 3:
        raise InputError(f"the conditioning experiment has tensors of order 3, got shape {shape}")
    check_count("rank", rank, 1)
    ranks, rng = as_rank(rank, shape), np.random.default_rng(rng)
    requirement = "1, since the rank is 1" if rank == 1 else "a finite number, 1 or more"
    largest = 1 if rank == 1 else sys.float_info.max
    check_number("condition", condition, requirement, lambda number: 1 <= number <= largest)
    sigma = np.linspace(1, 1 / condition, rank)
    j = np.arange(1, rank + 1)
    support = (j[:, None, None] + j[None, :, None] + j[None, None, :]) % rank == 0
    core = np.where(support, sigma[None, :, None] / math.sqrt(rank), 0.0)
    return Tucker(core.astype(dtype), _uniform_factors(shape, ranks, rng, dtype))


def sample_indices(shape: Sequence[int], amount: float | int, *, rng: Seed = None) -> Array:
    """Draw distinct indices uniformly at random, sorted in C order, as an ``m x d`` array.

    ``amount`` is a fraction of all entries if it is a float, a count if it is an int. Memory is
    proportional to the number of indices drawn, not to the number of entries.

    Parameters
    ----------
    shape : sequence of int
        Sizes of the modes.
    amount : float or int
        Fraction of the entries if it is a float, number of entries if it is an int.
    rng : int or Generator, optional
        Generator, or seed of one.

    Returns
    -------
    ndarray
        Integer array of shape ``(m, d)``, rows in C order.

    Raises
    ------
    InputError
        If the amount is not between one entry and all of them.
    """
    shape = as_shape(shape)
    total = math.prod(shape)
    amount = float(amount) if isinstance(amount, float | np.floating) else int(amount)
    wanted = amount * total if isinstance(amount, float) else amount
    size = round(wanted) if math.isfinite(wanted) else 0
    if not 1 <= size <= total:
        raise InputError(
            f"amount must be a fraction between 0 and 1 or a count between 1 and {total}, "
            f"got {amount}"
        )
    generator = np.random.default_rng(rng)
    if total > np.iinfo(np.int64).max:
        return _sample_rows(shape, size, generator)
    flat = _sample_flat(total, size, generator)
    out = np.empty((size, len(shape)), dtype=np.int32 if max(shape) < 2**31 else np.int64)
    for k in reversed(range(len(shape))):
        flat, out[:, k] = np.divmod(flat, shape[k])
    return out


def sample_fibres(
    shape: Sequence[int], amount: float | int, mode: int, *, rng: Seed = None
) -> Array:
    """Draw whole fibres along a mode, uniformly at random; return indices as `sample_indices`.

    ``amount`` is a fraction of the fibres, or a count of them.

    Parameters
    ----------
    shape : sequence of int
        Sizes of the modes.
    amount : float or int
        Fraction of the fibres if it is a float, number of fibres if it is an int.
    mode : int
        Mode along which the fibres run.
    rng : int or Generator, optional
        Generator, or seed of one.

    Returns
    -------
    ndarray
        Integer array of shape ``(m, d)``, rows in C order.

    Examples
    --------
    >>> sample_fibres((4, 2, 3), 1, mode=1, rng=0)
    array([[3, 0, 1],
           [3, 1, 1]], dtype=int32)
    """
    shape = as_shape(shape)
    mode = normalize_mode(mode, len(shape))
    others = [n for k, n in enumerate(shape) if k != mode]
    if len(others) == 1:
        others.append(1)  # a matrix has vectors for fibres
    fibres = sample_indices(others, amount, rng=rng)[:, : len(shape) - 1]
    rows = np.repeat(fibres, shape[mode], axis=0)
    along = np.tile(np.arange(shape[mode], dtype=rows.dtype), len(fibres))
    indices = np.insert(rows, mode, along, axis=1)
    return np.asarray(indices[np.lexsort(indices.T[::-1])])


def _sample_rows(shape: tuple[int, ...], size: int, rng: np.random.Generator) -> Array:
    """Do as `_sample_flat` where entries cannot be numbered by 64 bits; repeats are rare there."""
    rows = np.empty((0, len(shape)), dtype=np.int64)
    while len(rows) < size:
        fresh = np.stack([rng.integers(0, n, size - len(rows)) for n in shape], axis=1)
        rows = np.unique(np.concatenate([rows, fresh]), axis=0)
    return rows


def _sample_flat(total: int, size: int, rng: np.random.Generator) -> Array:
    """Distinct numbers below ``total``, sorted; any set of that size is equally likely.

    Distinct values of independent draws are exchangeable, so stopping at a number of them, or
    cutting a surplus at random, leaves a uniform subset.
    """
    if size > total // 8:
        rare = min(size, total - size)
        chosen = np.zeros(total, dtype=bool)  # a byte an entry, in proportion to the size
        while rare > 0:
            fresh = _sort_distinct(rng.integers(0, total, rare))
            fresh = fresh[~chosen[fresh]]
            chosen[fresh] = True
            rare -= len(fresh)
        return np.flatnonzero(chosen if 2 * size <= total else ~chosen)
    flat = np.empty(0, dtype=np.int64)
    while len(flat) < size:
        missing = size - len(flat)
        fresh = rng.integers(0, total, missing + missing // 8 + 16)
        flat = _sort_distinct(np.concatenate([flat, fresh]) if len(flat) else fresh)
    if len(flat) > size:
        keep = np.ones(len(flat), dtype=bool)
        keep[rng.choice(len(flat), len(flat) - size, replace=False)] = False
        flat = flat[keep]
    return flat


def _sort_distinct(numbers: Array) -> Array:
    """Return the distinct numbers in order; sorts in place, far faster than a hash table."""
    numbers.sort()
    is_first = np.empty(len(numbers), dtype=bool)
    is_first[:1] = True
    np.not_equal(numbers[1:], numbers[:-1], out=is_first[1:])
    return numbers if is_first.all() else numbers[is_first]


def noise_level(x: Tucker, snr: float) -> float:
    """Return the standard deviation of the noise at a signal-to-noise ratio in dB.

    The paper's ratio is ``10 log10(||T||^2 / (prod(n) sigma^2))``.

    Parameters
    ----------
    x : Tucker
        Tensor without noise.
    snr : float
        Signal-to-noise ratio in dB.

    Returns
    -------
    float
        Standard deviation of the noise.
    """
    return x.norm() / math.sqrt(math.prod(x.shape)) * 10 ** (-snr / 20)


def add_noise(y: Array, sigma: float, *, rng: Seed = None) -> Array:
    """Add Gaussian noise of a standard deviation to measurements.

    Parameters
    ----------
    y : ndarray
        Measurements without noise.
    sigma : float
        Standard deviation of the noise.
    rng : int or Generator, optional
        Generator, or seed of one.

    Returns
    -------
    ndarray
        Measurements with noise; integers become float64.
    """
    y = np.asarray(y)
    y = y if y.dtype.kind in "fc" else y.astype(np.float64)
    draw = gaussian(y.shape, np.random.default_rng(rng), y.dtype)
    weight = sigma / math.sqrt(2) if y.dtype.kind == "c" else sigma
    return np.asarray(y + weight * draw, dtype=y.dtype)
