"""The paper's theory: constants and bounds of both theorems, and the isometry they rest on.

The paper's first mode is mode 0 here. ``ric`` is the first-mode restricted isometry constant
``R_{3 r_1}`` of the operator, ``rank`` is ``r_1``, ``condition`` is ``kappa_1`` and ``order`` is
``d``. For another tangent mode, the rank and condition number of that mode are used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tensormend.core.algebra import Array, gaussian, norm, normalize_mode
from tensormend.core.subspaces import leading_subspace
from tensormend.core.tucker import Tucker
from tensormend.errors import InputError
from tensormend.operators import Operator

__all__ = [
    "IsometryEstimate",
    "condition_number",
    "contraction",
    "error_bound",
    "estimate_isometry",
    "sufficient_isometry",
]

Step = Literal["constant", "normalized"]


def _check_step(step: str) -> None:
    if step not in ("constant", "normalized"):
        raise InputError(
            f"step must be 'constant' (the paper's first theorem) or 'normalized' (its second), "
            f"got {step!r}"
        )


def _check_tensor(rank: int, condition: float, order: int) -> None:
    if rank < 1 or not condition >= 1 or order < 2:
        raise InputError(
            f"rank must be 1 or more, condition 1 or more and order 2 or more, got {rank}, "
            f"{condition} and {order}"
        )


def condition_number(x: Tucker | Array, mode: int, rank: int | None = None) -> float:
    """Compute the condition number ``sigma_1 / sigma_r`` of the unfolding along a mode.

    ``rank`` is the number of singular values that count: for a `Tucker` all it has, for an array
    those above rounding.

    Parameters
    ----------
    x : Tucker or ndarray
        Tensor.
    mode : int
        Mode of the unfolding.
    rank : int, optional
        Number of singular values that count; by default all of a `Tucker`, and those above rounding
        of an array.

    Returns
    -------
    float
        Condition number, infinite for a zero singular value.

    Raises
    ------
    InputError
        If the tensor has fewer singular values than ``rank``.

    Examples
    --------
    >>> condition_number(np.diag([4.0, 2.0, 0.0]), 0)
    2.0
    """
    if isinstance(x, Tucker):
        s = x.singular_values(mode)
    else:
        matrix = np.moveaxis(x, normalize_mode(mode, x.ndim), 0).reshape(x.shape[mode], -1)
        s = np.linalg.svd(matrix, compute_uv=False)
        s = s[s > max(matrix.shape) * np.finfo(x.dtype).eps * s[0]]
    if rank is not None:
        if not 1 <= rank <= len(s):
            raise InputError(f"rank must lie between 1 and {len(s)} in mode {mode}, got {rank}")
        s = s[:rank]
    if len(s) == 0 or s[-1] == 0:
        return math.inf
    return float(s[0] / s[-1])


def contraction(step: Step, ric: float, rank: int, condition: float, order: int) -> float:
    """Compute the contraction factor: ``gamma_1`` (constant step 1) or ``gamma_2`` (normalized).

    ``gamma_1 = R (8 sqrt(r) kappa ((sqrt(d-1) + 1)(R + 2) + R) + sqrt(d) + 3)`` and
    ``gamma_2 = 2R / (1-R) (4 sqrt(r) kappa (2 (sqrt(d-1) + 1) + R) + sqrt(d) + 2)``.

    Parameters
    ----------
    step : {'constant', 'normalized'}
        Step rule.
    ric : float
        Restricted isometry constant ``R_{3 r_1}``.
    rank : int
        Rank ``r_1`` of the first mode.
    condition : float
        Condition number ``kappa_1`` of the first unfolding.
    order : int
        Order of the tensor, its number of modes.

    Returns
    -------
    float
        Contraction factor; the iteration converges where it is below 1.

    Raises
    ------
    InputError
        If ``ric`` is not in ``[0, 1)``, or another argument is out of its range.

    Examples
    --------
    >>> round(contraction("constant", 0.01, 1, 1.0, 2), 4)
    0.3665
    """
    _check_step(step)
    if not 0 <= ric < 1:
        raise InputError(f"a restricted isometry constant lies in [0, 1), got {ric}")
    _check_tensor(rank, condition, order)
    a, b = math.sqrt(rank) * condition, math.sqrt(order - 1) + 1
    if step == "constant":
        return ric * (8 * a * (b * (ric + 2) + ric) + math.sqrt(order) + 3)
    return 2 * ric / (1 - ric) * (4 * a * (2 * b + ric) + math.sqrt(order) + 2)


def sufficient_isometry(step: Step, rank: int, condition: float, order: int) -> float:
    """Compute the bound on ``R_{3 r_1}`` below which the theorem guarantees recovery.

    ``min(1/2, 1 / ((20 sqrt(d-1) + 24) sqrt(r) kappa + sqrt(d) + 3))`` for the constant step and
    ``min(1/2, 1 / ((32 sqrt(d-1) + 40) sqrt(r) kappa + 4 sqrt(d) + 8))`` for the normalized one.

    Parameters
    ----------
    step : {'constant', 'normalized'}
        Step rule.
    rank : int
        Rank ``r_1`` of the first mode.
    condition : float
        Condition number ``kappa_1`` of the first unfolding.
    order : int
        Order of the tensor, its number of modes.

    Returns
    -------
    float
        Largest sufficient restricted isometry constant.

    Raises
    ------
    InputError
        If an argument is out of its range.
    """
    _check_step(step)
    _check_tensor(rank, condition, order)
    a, b = math.sqrt(rank) * condition, math.sqrt(order - 1)
    if step == "constant":
        return min(0.5, 1 / ((20 * b + 24) * a + math.sqrt(order) + 3))
    return min(0.5, 1 / ((32 * b + 40) * a + 4 * math.sqrt(order) + 8))


def error_bound(
    step: Step, n_iter: int, ric: float, rank: int, condition: float, order: int
) -> float:
    """Compute the bound on ``||X^k - T|| / ||T||`` after ``k = n_iter`` iterations.

    ``(sqrt(d) + 1)(5/2 sqrt(d-1) + 3) gamma_1^(k-1)`` or
    ``(sqrt(d) + 1)(8 sqrt(d-1) + 10) gamma_2^(k-1)``. For the initial estimate, ``k = 0``,
    it is that of the lemma on spectral initialization in the paper, ``2 (sqrt(d-1) + 1) R``.

    Parameters
    ----------
    step : {'constant', 'normalized'}
        Step rule.
    n_iter : int
        Number of iterations.
    ric : float
        Restricted isometry constant ``R_{3 r_1}``.
    rank : int
        Rank ``r_1`` of the first mode.
    condition : float
        Condition number ``kappa_1`` of the first unfolding.
    order : int
        Order of the tensor, its number of modes.

    Returns
    -------
    float
        Bound on the relative error, infinite where it overflows.

    Raises
    ------
    InputError
        If an argument is out of its range.
    """
    if n_iter < 0:
        raise InputError(f"n_iter must be 0 or more, got {n_iter}")
    gamma = contraction(step, ric, rank, condition, order)
    b = math.sqrt(order - 1)
    if n_iter == 0:
        return 2 * (b + 1) * ric
    front = 2.5 * b + 3 if step == "constant" else 8 * b + 10
    try:
        return (math.sqrt(order) + 1) * front * gamma ** (n_iter - 1)
    except OverflowError:  # outside the condition the bound grows beyond all numbers
        return math.inf


@dataclass(frozen=True)
class IsometryEstimate:
    """What test tensors of a mode rank show of an operator.

    ``lower`` and ``upper`` are the smallest and largest ``||A(Z)||^2 / ||Z||^2`` met; the
    restricted isometry constant is at least ``value``.

    Parameters
    ----------
    lower : float
        Smallest ratio ``||A(Z)||^2 / ||Z||^2`` found.
    upper : float
        Largest ratio found.
    """

    lower: float
    upper: float

    @property
    def value(self) -> float:
        """Lower bound of the restricted isometry constant."""
        return max(1 - self.lower, self.upper - 1)


def estimate_isometry(
    operator: Operator,
    rank: int,
    *,
    mode: int = 0,
    n_random: int = 20,
    n_inits: int = 2,
    n_iter: int = 100,
    rng: int | np.random.Generator | None = None,
) -> IsometryEstimate:
    """Estimate from below the restricted isometry constant of a mode rank.

    Random tensors ``Z`` with ``rank(M_mode(Z)) <= rank`` come first; then the ratio
    ``||A(Z)||^2 / ||Z||^2`` is driven up and down by power iterations on ``A*A`` and on
    ``c I - A*A``, each followed by a truncation to the rank. Every tensor met is a witness, so the
    result is a true lower bound however far the iterations got. Where the rank is the full size
    of the mode the iterations converge to the extreme eigenvalues of ``A*A``.

    Works on dense tensors, so it is for moderate sizes.

    Parameters
    ----------
    operator : Operator
        Measurement operator.
    rank : int
        Rank of the unfolding along ``mode``.
    mode : int, default=0
        Mode whose rank is bounded.
    n_random : int, default=20
        Number of random tensors.
    n_inits : int, default=2
        Number of random initial tensors of the power iterations, for each end of the spectrum.
    n_iter : int, default=100
        Number of power iterations from each initial tensor.
    rng : int or Generator, optional
        Generator, or seed of one.

    Returns
    -------
    IsometryEstimate
        Extreme ratios that were found.

    Raises
    ------
    InputError
        If ``rank`` is not between 1 and the size of the mode.
    """
    mode = normalize_mode(mode, len(operator.tensor_shape))
    if not 1 <= rank <= operator.tensor_shape[mode]:
        raise InputError(
            f"rank must lie between 1 and {operator.tensor_shape[mode]}, the size of mode {mode}, "
            f"got {rank}"
        )
    generator = np.random.default_rng(rng)
    ratios: list[float] = []

    def restrict(z: Array) -> Array:
        if rank < operator.tensor_shape[mode]:
            matrix = np.moveaxis(z, mode, 0).reshape(operator.tensor_shape[mode], -1)
            u = leading_subspace(matrix, rank)
            folded = (u @ (u.conj().T @ matrix)).reshape(np.moveaxis(z, mode, 0).shape)
            z = np.moveaxis(folded, 0, mode)
        return z / norm(z)

    def draw() -> Array:
        return restrict(gaussian(operator.tensor_shape, generator, operator.tensor_dtype))

    def visit(z: Array) -> Array:
        measured = operator.forward(z)
        ratios.append(norm(measured) ** 2)
        return operator.adjoint(measured)

    for _ in range(n_random):
        visit(draw())
    for _ in range(n_inits):
        z = draw()
        for _ in range(n_iter):
            image = visit(z)
            if norm(image) == 0:
                break
            z = restrict(image)
        visit(z)
    top = max(ratios)
    for _ in range(n_inits):
        z = draw()
        for _ in range(n_iter):
            image = top * z - visit(z)
            if norm(image) == 0:
                break
            z = restrict(image)
        visit(z)
    return IsometryEstimate(min(ratios), max(ratios))
