"""HaLRTC and LRTC-TNN: completion by nuclear norms of all unfoldings, by ADMM in NumPy.

HaLRTC: J. Liu, P. Musialski, P. Wonka, J. Ye (2013), Tensor completion for estimating missing
values in visual data, IEEE TPAMI 35, 208-220. LRTC-TNN: X. Chen, J. Yang, L. Sun (2020), A
nonconvex low-rank tensor completion model for spatiotemporal traffic data imputation,
Transportation Research Part C 117, 102673. Both minimize the mean over the modes of a norm of the
unfolding, subject to the observed entries: the nuclear norm, or the sum of the singular values
without the largest ones. They share their splitting, so here they share their code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensormend.core.algebra import Array

__all__ = ["Completed", "halrtc", "lrtc_tnn"]

GROWTH = 1.05  # of the penalty in every iteration, as in the authors' codes
MAX_PENALTY = 1e5  # times the initial one


@dataclass(frozen=True, eq=False)
class Completed:
    """A completed tensor, the number of iterations, and whether they were enough."""

    x: Array
    n_iter: int
    converged: bool


def halrtc(
    data: Array, *, threshold: float = 0.1, tol: float = 1e-4, max_iter: int = 300
) -> Completed:
    """Complete a tensor, NaN where missing, by the nuclear norms of its unfoldings.

    Parameters
    ----------
    threshold : float, default=0.1
        Threshold of singular values in the first iteration, relative to the norm of the observed
        entries; it sets the penalty ``rho`` of the paper to ``1 / (d threshold norm)``.
    tol : float, default=0.0001
        Stop when the change of the mean of the copies, and its distance to the observed entries,
        are below this, relative to the norm of the tensor.
    """
    return _complete(data, [0] * data.ndim, threshold, tol, max_iter)


def lrtc_tnn(
    data: Array,
    *,
    theta: float = 0.1,
    threshold: float = 0.1,
    tol: float = 1e-4,
    max_iter: int = 300,
) -> Completed:
    """Complete a tensor, NaN where missing, by truncated nuclear norms of its unfoldings.

    Parameters
    ----------
    theta : float, default=0.1
        Fraction of the singular values, the largest, that the norm leaves out.
    threshold : float, default=0.1
        As in `halrtc`.
    tol : float, default=0.0001
        As in `halrtc`.
    """
    short = [min(n, data.size // n) for n in data.shape]
    return _complete(data, [math.ceil(theta * n) for n in short], threshold, tol, max_iter)


def _complete(
    data: Array, n_free: Sequence[int], threshold: float, tol: float, max_iter: int
) -> Completed:
    """Run ADMM with a copy of the tensor for each mode, and duals divided by the penalty.

    At missing entries the duals sum to zero in every iteration, so the tensor is there the mean of
    the copies.
    """
    missing = np.isnan(data)
    x = np.where(missing, 0.0, data)
    tau = threshold * float(np.linalg.norm(x))
    last_tau = tau / MAX_PENALTY
    duals = [np.zeros_like(x) for _ in n_free]
    last, mean, work, copy = (np.zeros_like(x) for _ in range(4))  # no others are made in the loop
    for n_iter in range(1, max_iter + 1):
        mean.fill(0.0)
        for mode, (dual, free) in enumerate(zip(duals, n_free, strict=True)):
            shrink(np.add(x, dual, out=work), mode, tau, free, out=copy)
            mean += copy
            np.subtract(dual, copy, out=dual)
        mean /= len(duals)
        np.copyto(x, mean, where=missing)
        growth = GROWTH if tau > last_tau else 1.0
        for dual in duals:
            dual += x
            dual /= growth
        tau /= growth
        change = float(np.linalg.norm(np.subtract(mean, last, out=work)))
        gap = float(np.linalg.norm(np.subtract(mean, x, out=work)))
        if max(change, gap) < tol * float(np.linalg.norm(x)):
            return Completed(x, n_iter, True)
        last, mean = mean, last
    return Completed(x, max_iter, False)


def shrink(x: Array, mode: int, tau: float, n_free: int, *, out: Array) -> Array:
    """Lower the singular values of an unfolding by ``tau``, but for the ``n_free`` largest.

    The left singular vectors come from the Gram matrix, as in the authors' codes: the answer is the
    unfolding times a small matrix from the left.
    """
    n = x.shape[mode]
    parts = (math.prod(x.shape[:mode]), n, math.prod(x.shape[mode + 1 :]))
    block, result = x.reshape(parts), out.reshape(parts)  # the mode in the middle
    wide = np.moveaxis(block, 1, 0).reshape(n, -1)
    squares, vectors = np.linalg.eigh(wide @ wide.T)
    values = np.sqrt(np.maximum(squares[::-1], 0.0))
    weights = np.maximum(1.0 - tau / np.maximum(values, 1e-300), 0.0)
    weights[:n_free] = 1.0
    rank = int(np.count_nonzero(weights))
    u = vectors[:, ::-1][:, :rank]
    small = (u * weights[:rank]) @ u.T
    if parts[2] == 1:
        np.matmul(block[:, :, 0], small, out=result[:, :, 0])
    else:
        np.matmul(small, block, out=result)
    return out
