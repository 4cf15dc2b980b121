"""The paper's four methods with dense arrays, written for speed in NumPy.

The iterates are those of `tensormend.research.experiments.dense` to rounding; only the way to
compute them differs. Arrays of the size of the tensor are allocated once and changed in place, only
observed entries are visited where only they change, leading subspaces come from Gram matrices where
the singular values allow it, the iterate enters its own projection as it is (Lemma 3.1 of the
paper), and RGD shares the contractions that its parts have in common, unless it is asked not to.
These are the dense contestants of the benchmark, and of the figures of the paper. Truncations begin
anew in every iteration, without the bases of the one before.

The array of an `Iterate` is overwritten by the next iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tensormend.core.algebra import Array, as_rank, mode_product, multi_mode_product, normalize_mode
from tensormend.core.linalg import eigh, svd, tall_qr
from tensormend.core.truncate import as_order
from tensormend.research.experiments import dense
from tensormend.research.experiments.dense import Iterate, StepName

__all__ = ["rgd", "sempiht", "smqrgd", "tiht"]

EVEN = 1e-4  # eigenvalue kept, beside the largest, from which on a Gram matrix is accurate enough
ROUNDING = 1e-14  # by so much rows may differ from orthonormal

Factors = tuple[Array, ...]
Truncation = Callable[[Array], tuple[Array, Factors]]


class Samples:
    """The observed entries of an array, and what is done with them in place.

    Parameters
    ----------
    data : ndarray
        The array; other entries are ignored.
    mask : ndarray of bool
        Which entries are observed.
    """

    def __init__(self, data: Array, mask: Array) -> None:
        self.indices = np.flatnonzero(mask)
        self.values = data.reshape(-1)[self.indices]
        self.gradient = np.zeros(data.shape)
        self._residual = np.empty_like(self.values)

    def fill(self, x: Array) -> Array:
        """Overwrite the observed entries: ``x <- x + A*(y - A(x))``."""
        x.reshape(-1)[self.indices] = self.values
        return x

    def residual(self, x: Array) -> Array:
        """Return ``G = A*(y - A(x))``, an array that is overwritten next time."""
        found = self._residual
        np.take(x.reshape(-1), self.indices, out=found, mode="clip")
        np.subtract(self.values, found, out=found)
        self.gradient.reshape(-1)[self.indices] = found
        return self.gradient

    def move(self, x: Array, step_size: float) -> Array:
        """Add ``step_size`` times the last residual to ``x``."""
        x.reshape(-1)[self.indices] += step_size * self._residual
        return x

    def squared_norm(self, x: Array) -> float:
        """Compute ``||A(x)||^2``."""
        found = x.reshape(-1)[self.indices]
        return float(found @ found)


def exact_step(square: float, measured: float) -> float:
    """``||D||^2 / ||A(D)||^2``, or 1 where the operator maps the direction to zero."""
    return square / measured if measured > 0 else 1.0


# hard thresholding


def tiht(
    data: Array, mask: Array, rank: int | Sequence[int], *, step: StepName = "normalized"
) -> Iterator[Iterate]:
    """Run TIHT: CIHT with the constant step, NIHT with the normalized one.

    Examples
    --------
    >>> from itertools import islice
    >>> data = np.ones((4, 5, 6))
    >>> for iterate in islice(tiht(data, data > 0, 1), 3):
    ...     found = iterate.x.copy()
    >>> bool(np.allclose(found, data))
    True
    """
    rank = as_rank(rank, data.shape)

    def truncate(z: Array) -> tuple[Array, Factors]:
        factors = tuple(leading_vectors(z, k, r) for k, r in enumerate(rank))
        return multi_mode_product(z, factors, adjoint=True), factors

    return threshold(Samples(data, mask), truncate, step)


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

    def truncate(z: Array) -> tuple[Array, Factors]:
        core, found = truncate_modes(z, rank, modes)
        return core, tuple(found[k] for k in range(data.ndim))

    return threshold(Samples(data, mask), truncate, step)


def threshold(samples: Samples, truncate: Truncation, step: StepName) -> Iterator[Iterate]:
    """Alternate gradient steps and truncations, without end."""
    x = samples.fill(np.zeros_like(samples.gradient))
    spare = np.empty_like(x)
    alpha = np.nan
    while True:
        core, factors = truncate(x)
        form(core, factors, x)
        yield Iterate(x, alpha)
        if step == "constant":
            alpha = 1.0
            samples.fill(x)
        else:
            small = multi_mode_product(samples.residual(x), factors, adjoint=True)
            measured = samples.squared_norm(form(small, factors, spare))
            alpha = exact_step(float(np.vdot(small, small)), measured)
            samples.move(x, alpha)


def leading_vectors(z: Array, mode: int, rank: int) -> Array:
    """Leading left singular vectors of an unfolding, from its Gram matrix if that is accurate."""
    if z.shape[mode] ** 2 >= z.size:  # no more columns than rows
        left: Array = svd(dense.unfold(z, mode), full_matrices=False)[0][:, :rank]
        return left
    values, vectors = eigh(gram_matrix(z, mode))
    if values[-rank] >= EVEN * values[-1]:
        return np.ascontiguousarray(vectors[:, : -rank - 1 : -1])
    return dense.leading_vectors(dense.unfold(z, mode), rank)


def gram_matrix(z: Array, mode: int) -> Array:
    """Multiply an unfolding by its transpose, without copying the array."""
    n = z.shape[mode]
    blocks = z.reshape(-1, n, int(np.prod(z.shape[mode + 1 :])))
    if blocks.shape[2] == 1:
        matrix = blocks.reshape(-1, n)
        return matrix.T @ matrix
    out, spare = np.zeros((n, n)), np.empty((n, n))
    for block in blocks:
        np.matmul(block, block.T, out=spare)
        out += spare
    return out


def truncate_modes(
    z: Array, rank: Sequence[int], modes: Sequence[int]
) -> tuple[Array, dict[int, Array]]:
    """Truncate modes one after the other, as ST-HOSVD does."""
    factors = {}
    for k in modes:
        factors[k] = leading_vectors(z, k, rank[k])
        z = mode_product(z, factors[k].T, k)
    return z, factors


def form(core: Array, factors: Factors, out: Array) -> Array:
    """Write the entries of a Tucker tensor to an array."""
    panel = multi_mode_product(core, (None, *factors[1:])).reshape(len(core), -1)
    np.matmul(factors[0], panel, out=out.reshape(len(out), -1))
    return out


# Riemannian gradient descent


def rgd(
    data: Array,
    mask: Array,
    rank: int | Sequence[int],
    *,
    step: StepName = "normalized",
    shared: bool = True,
) -> Iterator[Iterate]:
    """Run Riemannian gradient descent with T-HOSVD.

    Without ``shared`` every contraction begins from the whole array, as the paper counts it.
    """
    rank = as_rank(rank, data.shape)
    contract = dense.contract_shared if shared else dense.contract
    samples = Samples(data, mask)
    x = samples.fill(np.zeros(data.shape))
    spare = np.empty_like(x)
    factors = tuple(leading_vectors(x, k, r) for k, r in enumerate(rank))
    core = multi_mode_product(x, factors, adjoint=True)
    form(core, factors, x)
    alpha = np.nan
    first = tuple(slice(0, r) for r in rank)
    while True:
        yield Iterate(x, alpha)
        point = dense.State(x, core, factors)
        if step == "constant":
            alpha = 1.0
            wide, widened = dense.tangent_projection(samples.fill(x), point, contract)
        else:
            wide, widened = dense.tangent_projection(samples.residual(x), point, contract)
            bases, triangles = qr_of_all(widened)
            small = multi_mode_product(wide, triangles)
            measured = samples.squared_norm(form(small, bases, spare))
            alpha = exact_step(float(np.vdot(small, small)), measured)
            # X + alpha P(G): X is in its own tangent space, along its own factors
            middle = core + alpha * wide[first]
            widened = tuple(
                np.hstack([u[:, :r], alpha * u[:, r:]]) for u, r in zip(widened, rank, strict=True)
            )
            wide[first] = middle
        bases, triangles = qr_of_all(widened)
        small = multi_mode_product(wide, triangles)
        turns = dense.hosvd_factors(small, rank)
        core = multi_mode_product(small, turns, adjoint=True)
        factors = tuple(q @ w for q, w in zip(bases, turns, strict=True))
        form(core, factors, x)


def qr_of_all(matrices: Sequence[Array]) -> tuple[Factors, Factors]:
    """QR decompositions: the orthonormal factors, and the triangles."""
    pairs = [np.linalg.qr(matrix) for matrix in matrices]
    return tuple(q for q, _ in pairs), tuple(triangle for _, triangle in pairs)


# SM-QRGD


def smqrgd(
    data: Array,
    mask: Array,
    rank: int | Sequence[int],
    *,
    step: StepName = "normalized",
    tangent_mode: int = 0,
    mode_order: Sequence[int] | None = None,
) -> Iterator[Iterate]:
    """Run SM-QRGD (Algorithm 3), with the options of the line-by-line version."""
    rank = as_rank(rank, data.shape)
    mode = normalize_mode(tangent_mode, data.ndim)
    modes = as_order(mode_order, rank)
    if mode_order is None:
        modes = (mode, *(k for k in modes if k != mode))
    mode, *others = modes
    samples = Samples(data, mask)
    x = samples.fill(np.zeros(data.shape))
    spare = np.empty_like(x)
    left = leading_vectors(x, mode, rank[mode])
    q, triangle = tall_qr(across_mode(x, left, mode).T)
    turn, s, vh = svd(triangle.T)
    left, rows = left @ turn, vh @ q.T
    alpha = np.nan
    while True:
        base = truncate_rows(s[:, None] * rows, data.shape, rank, mode, others)
        expand_mode(left, base, mode, x)
        yield Iterate(x, alpha)
        z = samples.fill(x) if step == "constant" else samples.residual(x)
        across, along = across_mode(z, left, mode), along_mode(z, rows, mode)
        along -= left @ (left.T @ along)
        if step == "constant":
            alpha, moved = 1.0, across
        else:
            # P(G) by one product of stacked factors
            expand_mode(np.hstack([left, along]), np.vstack([across, rows]), mode, spare)
            square = float(np.vdot(across, across) + np.vdot(along, along))
            alpha = exact_step(square, samples.squared_norm(spare))
            moved, along = base + alpha * across, alpha * along
        left, s, rows = truncate_sum(left, moved, along, rows)


def across_mode(z: Array, left: Array, mode: int) -> Array:
    """``U^T M``, of size ``r x N``, for the unfolding ``M`` along a mode."""
    small = mode_product(z, left.T, mode)
    return np.ascontiguousarray(np.moveaxis(small, mode, 0)).reshape(left.shape[1], -1)


def along_mode(z: Array, rows: Array, mode: int) -> Array:
    """``M V^T``, of size ``n x r``, for the unfolding ``M`` along a mode."""
    n = z.shape[mode]
    before, after = z.shape[:mode], z.shape[mode + 1 :]
    if not before:
        return z.reshape(n, -1) @ rows.T
    if not after:
        return z.reshape(-1, n).T @ rows.T
    blocks = rows.reshape(len(rows), int(np.prod(before)), -1)
    found = np.matmul(z.reshape(blocks.shape[1], n, -1), blocks.transpose(1, 2, 0))
    out: Array = found.sum(axis=0)
    return out


def expand_mode(left: Array, rows: Array, mode: int, out: Array) -> None:
    """Write the tensor whose unfolding along a mode is ``left rows``."""
    n, before = out.shape[mode], int(np.prod(out.shape[:mode]))
    if before == 1:
        np.matmul(left, rows, out=out.reshape(n, -1))
    elif mode == out.ndim - 1:
        np.matmul(rows.T, left.T, out=out.reshape(-1, n))
    else:
        blocks = rows.reshape(len(rows), before, -1).transpose(1, 0, 2)
        np.matmul(left, blocks, out=out.reshape(before, n, -1))


def truncate_sum(
    left: Array, moved: Array, along: Array, rows: Array
) -> tuple[Array, Array, Array]:
    """Leading singular vectors and values of ``U moved + along V``, as in the paper's appendix.

    ``left`` and ``rows`` are ``U`` and ``V``, and ``U^T along = 0``. The eigenvectors of the Gram
    matrix, of size ``2r``, are used where the singular values are even enough.
    """
    r = len(rows)
    q1, r1 = dense_complement(left, along)
    mixed = moved @ rows.T @ r1.T
    values, vectors = eigh(np.block([[moved @ moved.T, mixed], [mixed.T, r1 @ r1.T]]))
    if values[-r] >= EVEN * values[-1]:
        s, turn = np.sqrt(values[: -r - 1 : -1]), vectors[:, : -r - 1 : -1]
        new = (turn[:r].T / s[:, None]) @ moved + (turn[r:].T @ r1 / s[:, None]) @ rows
        gram = new @ new.T
        if np.abs(gram - np.eye(r)).max() > ROUNDING:
            root = np.linalg.cholesky(gram)
            more, s, vh = svd(s[:, None] * root)
            turn, new = turn @ more, vh @ np.linalg.solve(root, new)
    else:
        middle = moved @ rows.T
        q2, r2 = dense_complement(rows.T, (moved - middle @ rows).T)
        corner = np.zeros((len(r1), len(r2)))
        turn, s, vh = svd(np.block([[middle, r2.T], [r1, corner]]))
        turn, s, new = turn[:, :r], s[:r], vh[:r, :r] @ rows + vh[:r, r:] @ q2.T
    return np.hstack([left, q1]) @ turn, s, new


def dense_complement(basis: Array, panel: Array) -> tuple[Array, Array]:
    """QR decomposition of a panel that is orthogonal to a basis, as far as rounding allows."""
    width = min(panel.shape[1], len(basis) - basis.shape[1])
    q = np.linalg.qr(np.hstack([basis, panel]))[0][:, basis.shape[1] :][:, :width]
    return q, q.T @ panel


def truncate_rows(
    rows: Array, shape: Sequence[int], rank: Sequence[int], mode: int, others: Sequence[int]
) -> Array:
    """Truncate the other modes of the tensor with this unfolding, and return its unfolding."""
    sizes = [n for k, n in enumerate(shape) if k != mode]
    axes = {k: i + 1 for i, k in enumerate(k for k in range(len(shape)) if k != mode)}
    ranks = [len(rows), *(rank[k] for k in axes)]
    core, factors = truncate_modes(rows.reshape(-1, *sizes), ranks, [axes[k] for k in others])
    found = (None, *(factors[i] for i in axes.values()))
    return multi_mode_product(core, found).reshape(len(rows), -1)
