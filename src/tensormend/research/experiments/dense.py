"""The paper's four methods for completion, with dense arrays.

TIHT, SeMPIHT, RGD and SM-QRGD follow section 2.2, Algorithm 3 and the complexity appendix line by
line, for a real array observed through a boolean mask (``A(X) = mask * X``). The solvers and
the dense methods of `fast_dense` are tested against them, and their flops are counted.

A method consists of a thresholding (``z -> next state``) and a step size, which `descend`
alternates. Modes count from 0. Unfoldings have their columns in C order over the other
modes, which changes no result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from tensormend.core.algebra import Array, as_rank, mode_product, multi_mode_product, normalize_mode
from tensormend.core.linalg import svd
from tensormend.core.truncate import as_order

__all__ = [
    "Iterate",
    "State",
    "contract",
    "contract_shared",
    "descend",
    "iht_step",
    "rgd",
    "rgd_step",
    "rgd_threshold",
    "sempiht",
    "smqrgd",
    "smqrgd_init",
    "smqrgd_step",
    "smqrgd_threshold",
    "sthosvd",
    "thosvd",
    "tiht",
]

StepName = Literal["constant", "normalized"]


class Iterate(NamedTuple):
    """The dense iterate ``X^k`` and the step size that led to it (NaN at the beginning)."""

    x: Array
    step_size: float


class State(NamedTuple):
    """``X = C ×_i U_i`` as a dense array with its core and factors.

    ``rows`` is ``V`` (``N x r``), the right singular vectors of the unfolding of X-hat along the
    tangent mode; only SM-QRGD has them. The left ones are the factor of that mode.
    """

    x: Array
    core: Array
    factors: tuple[Array, ...]
    rows: Array | None = None


Contract = Callable[[Array, Sequence[Array]], tuple[Array, list[Array]]]


def descend(
    data: Array,
    mask: Array,
    state: State,
    threshold: Callable[[Array, State], State],
    step_size: Callable[[Array, State], float] | None,
) -> Iterator[Iterate]:
    """Yield ``X^0, X^1, ...`` without end: ``X <- threshold(X + a G)``, ``G = A*(y - A(X))``.

    This is equation 2.1. Without ``step_size`` the step is the constant 1.
    """
    yield Iterate(state.x, np.nan)
    while True:
        g = np.where(mask, data - state.x, 0.0)
        alpha = 1.0 if step_size is None else step_size(g, state)
        state = threshold(state.x + alpha * g, state)
        yield Iterate(state.x, alpha)


def tiht(
    data: Array, mask: Array, rank: int | Sequence[int], *, step: StepName = "normalized"
) -> Iterator[Iterate]:
    """Run TIHT: CIHT with the constant step, NIHT with the normalized one.

    Examples
    --------
    >>> from itertools import islice
    >>> data = np.ones((4, 5, 6))
    >>> iterates = list(islice(tiht(data, data > 0, 1), 3))
    >>> bool(np.allclose(iterates[-1].x, data))
    True
    """
    rank = as_rank(rank, data.shape)
    return descend(
        data,
        mask,
        thosvd(np.where(mask, data, 0.0), rank),
        lambda z, _: thosvd(z, rank),
        None if step == "constant" else lambda g, state: iht_step(g, mask, state),
    )


def sempiht(
    data: Array,
    mask: Array,
    rank: int | Sequence[int],
    *,
    step: StepName = "normalized",
    mode_order: Sequence[int] | None = None,
) -> Iterator[Iterate]:
    """Run SeMPIHT; ``mode_order`` is that of ST-HOSVD, by ascending rank by default."""
    rank = as_rank(rank, data.shape)
    modes = as_order(mode_order, rank)
    return descend(
        data,
        mask,
        sthosvd(np.where(mask, data, 0.0), rank, modes),
        lambda z, _: sthosvd(z, rank, modes),
        None if step == "constant" else lambda g, state: iht_step(g, mask, state),
    )


def rgd(
    data: Array, mask: Array, rank: int | Sequence[int], *, step: StepName = "normalized"
) -> Iterator[Iterate]:
    """Run Riemannian gradient descent with T-HOSVD."""
    rank = as_rank(rank, data.shape)
    return descend(
        data,
        mask,
        thosvd(np.where(mask, data, 0.0), rank),
        rgd_threshold,
        None if step == "constant" else lambda g, state: rgd_step(g, mask, state),
    )


def smqrgd(
    data: Array,
    mask: Array,
    rank: int | Sequence[int],
    *,
    step: StepName = "normalized",
    tangent_mode: int = 0,
    mode_order: Sequence[int] | None = None,
) -> Iterator[Iterate]:
    """Run SM-QRGD (Algorithm 3).

    ``tangent_mode`` is the mode of the tangent space, and the others follow by ascending rank;
    ``mode_order`` gives the whole processing order instead, that mode first.
    """
    rank = as_rank(rank, data.shape)
    mode = normalize_mode(tangent_mode, data.ndim)
    modes = as_order(mode_order, rank)
    if mode_order is None:
        modes = (mode, *(k for k in modes if k != mode))
    return descend(
        data,
        mask,
        smqrgd_init(np.where(mask, data, 0.0), rank, modes),
        lambda z, state: smqrgd_threshold(z, state, modes),
        None if step == "constant" else lambda g, state: smqrgd_step(g, mask, state, modes[0]),
    )


def unfold(x: Array, mode: int) -> Array:
    """Unfold along a mode, columns in C order over the other modes."""
    return np.moveaxis(x, mode, 0).reshape(x.shape[mode], -1)


def fold(matrix: Array, mode: int, shape: Sequence[int]) -> Array:
    """Undo `unfold`; the size of the mode is the number of rows of the matrix."""
    others = [n for k, n in enumerate(shape) if k != mode]
    return np.moveaxis(matrix.reshape(-1, *others), 0, mode)


def leading_vectors(matrix: Array, rank: int) -> Array:
    """Leading left singular vectors: ``M^T = Q R``, then the SVD of the triangle ``R^T``."""
    triangle: Array = np.asanyarray(np.linalg.qr(matrix.T, mode="r"))
    return svd(triangle.T, full_matrices=False)[0][:, :rank]


def hosvd_factors(z: Array, rank: Sequence[int]) -> tuple[Array, ...]:
    """``U_i``: the leading left singular vectors of each unfolding (Algorithm 1)."""
    return tuple(leading_vectors(unfold(z, k), r) for k, r in enumerate(rank))


def thosvd(z: Array, rank: Sequence[int]) -> State:
    """Threshold by T-HOSVD (Algorithm 1): ``C = Z ×_i U_i^T``, ``X = C ×_i U_i``."""
    factors = hosvd_factors(z, rank)
    core = multi_mode_product(z, factors, adjoint=True)
    return State(multi_mode_product(core, factors), core, factors)


def sequential_factors(
    z: Array, rank: Sequence[int], modes: Sequence[int]
) -> tuple[Array, dict[int, Array]]:
    """Truncate modes one after the other: ``B <- B ×_k U_k^T`` (loop of Algorithm 2)."""
    factors = {}
    for k in modes:
        factors[k] = leading_vectors(unfold(z, k), rank[k])
        z = mode_product(z, factors[k].T, k)
    return z, factors


def sthosvd(z: Array, rank: Sequence[int], order: Sequence[int]) -> State:
    """Threshold by ST-HOSVD (Algorithm 2), the modes taken in the given order."""
    core, found = sequential_factors(z, rank, order)
    factors = tuple(found[k] for k in range(z.ndim))
    return State(multi_mode_product(core, factors), core, factors)


def exact_step(direction: Array, mask: Array) -> float:
    """``||D||^2 / ||A(D)||^2``, or 1 where the operator maps the direction to zero."""
    measured = float(np.sum((mask * direction) ** 2))
    return float(np.sum(direction**2)) / measured if measured > 0 else 1.0


def iht_step(g: Array, mask: Array, state: State) -> float:
    """Compute the normalized step of TIHT and SeMPIHT (equation 2.3).

    The direction is ``F(G) = G ×_i U_i U_i^T``: ``G ×_i U_i^T`` first, then back with ``U_i``,
    ``2 n^d r`` and lower terms.
    """
    small = multi_mode_product(g, state.factors, adjoint=True)
    return exact_step(multi_mode_product(small, state.factors), mask)


def contract(z: Array, factors: Sequence[Array]) -> tuple[Array, list[Array]]:
    """``Z ×_j U_j^T`` and ``Z ×_{j≠i} U_j^T`` for each ``i``, each from ``Z`` anew.

    ``(d+1) n^d r`` and lower terms.
    """
    parts = [multi_mode_product(z, factors, adjoint=True, skip=i) for i in range(z.ndim)]
    return multi_mode_product(z, factors, adjoint=True), parts


def contract_shared(z: Array, factors: Sequence[Array]) -> tuple[Array, list[Array]]:
    """Return the same as `contract`, with ``Z ×_0 U_0^T`` computed once for all that need it.

    ``2 n^d r`` and lower terms, in any order ``d``.
    """
    parts = [multi_mode_product(z, factors, adjoint=True, skip=0)]
    first = mode_product(z, factors[0].T, 0)
    rest = (None, *factors[1:])
    parts += [multi_mode_product(first, rest, adjoint=True, skip=i) for i in range(1, z.ndim)]
    return mode_product(parts[0], factors[0].T, 0), parts


def tangent_projection(
    z: Array, state: State, contract: Contract
) -> tuple[Array, tuple[Array, ...]]:
    """Project onto the tangent space (equation 2.4); a Tucker tensor of rank ``2 r``.

    ``D = Z ×_j U_j^T`` and ``V_i = (I - U_i U_i^T) M_i(Z ×_{j≠i} U_j^T) M_i(C)^+``. The core
    holds ``D`` in its first block and ``C`` in the ``d`` blocks next to it; the factors are
    ``[U_i V_i]``.
    """
    middle, parts = contract(z, state.factors)
    rank = state.core.shape
    core = np.zeros([2 * r for r in rank])
    first = tuple(slice(0, r) for r in rank)
    core[first] = middle
    factors = []
    for i, u in enumerate(state.factors):
        panel = unfold(parts[i], i)
        v = (panel - u @ (u.T @ panel)) @ np.linalg.pinv(unfold(state.core, i))
        factors.append(np.hstack([u, v]))
        core[(*first[:i], slice(rank[i], None), *first[i + 1 :])] = state.core
    return core, tuple(factors)


def rgd_threshold(z: Array, state: State, contract: Contract = contract) -> State:
    """``H_r(P(Z))``: T-HOSVD of the ``2r`` core of the projection, then the dense tensor.

    The contractions are ``(d+1) n^d r``, the dense tensor ``n^d r``.
    """
    core, factors = tangent_projection(z, state, contract)
    bases, triangles = zip(*(np.linalg.qr(u) for u in factors), strict=True)
    core = multi_mode_product(core, triangles)
    small = hosvd_factors(core, state.core.shape)
    core = multi_mode_product(core, small, adjoint=True)
    new = tuple(q @ w for q, w in zip(bases, small, strict=True))
    return State(multi_mode_product(core, new), core, new)


def rgd_step(g: Array, mask: Array, state: State, contract: Contract = contract) -> float:
    """Compute the normalized step of RGD: ``||P(G)||^2 / ||A(P(G))||^2``.

    The contractions are ``(d+1) n^d r``. ``A(P(G))`` then needs the entries of ``P(G)``, which
    has rank ``2 r``: another ``2 n^d r``.
    """
    core, factors = tangent_projection(g, state, contract)
    return exact_step(multi_mode_product(core, factors), mask)


def smqrgd_init(z: Array, rank: Sequence[int], order: Sequence[int]) -> State:
    """``X^0`` by ST-HOSVD, and singular vectors ``U``, ``V`` of the first mode's unfolding."""
    mode = order[0]
    left = leading_vectors(unfold(z, mode), rank[mode])
    rows, s, turn = svd(unfold(z, mode).T @ left, full_matrices=False)
    return _finish(left @ turn.T, s, rows, z.shape, rank, order)


def smqrgd_threshold(z: Array, state: State, order: Sequence[int]) -> State:
    """``ST-HOSVD(P(Z))`` and singular vectors of the unfolding of ``P(Z)``, as in the appendix.

    With ``Y_1 = (I - U U^T) M(Z) V = Q_1 R_1`` and ``Y_2 = (I - V V^T) M(Z)^T U = Q_2 R_2``,
    ``M(P(Z)) = [U Q_1] [[U^T M(Z) V, R_2^T], [R_1, 0]] [V Q_2]^T``: the SVD of the ``2r x 2r``
    matrix in the middle is that of the whole. ``M(Z) V``, ``M(Z)^T U`` and the dense tensor at
    the end are ``n^d r`` each.
    """
    mode, rank = order[0], state.core.shape
    u, v, r = state.factors[mode], _rows(state), rank[mode]
    across, along = unfold(z, mode).T @ u, unfold(z, mode) @ v
    middle = u.T @ along
    q1, r1 = np.linalg.qr(along - u @ middle)
    q2, r2 = np.linalg.qr(across - v @ middle.T)
    corner = np.zeros((r1.shape[0], r2.shape[0]))
    um, s, vmt = svd(np.block([[middle, r2.T], [r1, corner]]))
    left = np.hstack([u, q1]) @ um[:, :r]
    rows = np.hstack([v, q2]) @ vmt[:r].T
    return _finish(left, s[:r], rows, z.shape, rank, order)


def _finish(
    left: Array,
    s: Array,
    rows: Array,
    shape: Sequence[int],
    rank: Sequence[int],
    order: Sequence[int],
) -> State:
    """Truncate the other modes of ``B = M^{-1}(S V^T)`` and form the dense tensor."""
    mode, *others = order
    core, factors = sequential_factors(fold((rows * s).T, mode, shape), rank, others)
    factors[mode] = left
    ordered = tuple(factors[k] for k in range(len(shape)))
    return State(multi_mode_product(core, ordered), core, ordered, rows)


def _rows(state: State) -> Array:
    if state.rows is None:
        raise TypeError("a state of SM-QRGD with rows expected, got one without")
    return state.rows


def smqrgd_step(g: Array, mask: Array, state: State, mode: int) -> float:
    """Compute the normalized step of SM-QRGD (equation 3.3).

    ``P(G)`` is formed as in the appendix, ``P(M) = U U^T M + (M - U U^T M) V V^T``: four products
    of ``n^d r``.
    """
    u, v = state.factors[mode], _rows(state)
    matrix = unfold(g, mode)
    inside = u @ (u.T @ matrix)
    projected = inside + ((matrix - inside) @ v) @ v.T
    return exact_step(fold(projected, mode, g.shape), mask)
