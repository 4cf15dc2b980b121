"""Starting points that do not depend on the method.

The paper's spectral initial point ``H(A* y)`` belongs to each method of the paper, which has its
own ``H``: a solver makes it when it is given none.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensormend.core.algebra import (
    DEFAULT_MEMORY_LIMIT,
    Array,
    gaussian,
    mode_product,
    norm,
    svd,
    tall_qr,
)
from tensormend.core.truncate import SparsePlusTucker, dense_gram, leading_eigenvectors, thosvd
from tensormend.core.tucker import Tucker, degrees_of_freedom
from tensormend.recovery.problem import Problem

# The eigenvectors of sampled data are estimates, and noise beyond a tenth: more sweeps cost more
# than the iterations they save.
INIT_TOL, INIT_SWEEPS = 0.1, 8

# From this many samples per degree of freedom on, the other modes are estimated after projection
# onto the lead factor, which needs the entries in one order only; from the second number on a few
# products with a block, of the rank and a few more columns, tell them well enough.
MANY_SAMPLES, PLENTY = 20, 100
SURPLUS, N_PRODUCTS = 3, 2

__all__ = ["corrected_init", "random_init", "spectral_init"]


def corrected_init(problem: Problem) -> Tucker:
    """Diagonally corrected spectral initial point, scaled to fit the measurements best.

    For entries sampled with ratio ``p`` from ``T``, the mean of the Gram matrix of an unfolding of
    ``A* y`` is ``p^2 M M^H`` off the diagonal but ``p M M^H`` on it. Multiplying the diagonal by
    ``p`` removes the excess, which matters when few entries are observed. Measurements by
    matrices of independent entries add a multiple of the identity instead, which leaves the
    eigenvectors alone, so there the factors are those of the plain spectral one.
    """
    back = problem.operator.shifted(None, 1.0, problem.y)
    if isinstance(back, SparsePlusTucker):
        ratio = problem.operator.n_measurements / float(np.prod(problem.shape, dtype=float))
        lead = back.fibres.leaf_mode
        panel = back.fibres.n_columns * problem.rank[lead]
        needed = degrees_of_freedom(problem.shape, problem.rank)
        is_small = panel * back.dtype.itemsize <= DEFAULT_MEMORY_LIMIT / 8  # it is copied twice
        if is_small and problem.operator.n_measurements >= max(MANY_SAMPLES * needed, panel / 4):
            x = _sequential_init(problem, back, ratio)
        else:
            grams = [back.gram(k, shrink=ratio) for k in range(len(problem.shape))]
            factors = tuple(_leading(problem, k, gram) for k, gram in enumerate(grams))
            x = Tucker(back.project(factors), factors)
    else:
        x = thosvd(back, problem.rank)
    # the core is A* y between the factors, so <A(x), y> = <x, A* y> is its squared norm
    energy = problem.operator.energy(x)
    return x * (norm(x.core) ** 2 / energy) if energy > 0 else x


def _sequential_init(problem: Problem, back: SparsePlusTucker, ratio: float) -> Tucker:
    """Estimate one factor after the other, each from what the ones before it left."""
    lead, needed = back.fibres.leaf_mode, degrees_of_freedom(problem.shape, problem.rank)
    find = _power_basis if problem.operator.n_measurements >= PLENTY * needed else _leading
    factors = {lead: find(problem, lead, back.gram(lead, shrink=ratio))}
    core = back.contract(lead, factors[lead])
    for k in range(len(problem.shape)):
        if k != lead:
            matrix = np.moveaxis(core, k, 0).reshape(problem.shape[k], -1)
            gram = dense_gram(matrix, back.threads, shrink=ratio)
            factors[k] = find(problem, k, gram)
            core = mode_product(core, factors[k].conj().T, k)
    return Tucker(core, tuple(factors[k] for k in range(len(problem.shape))))


def _power_basis(problem: Problem, mode: int, gram: Callable[[Array], Array]) -> Array:
    """Estimate leading eigenvectors by a few products with a block."""
    n, rank = problem.shape[mode], problem.rank[mode]
    block = gaussian((n, min(n, rank + SURPLUS)), np.random.default_rng(0), problem.dtype)
    for _ in range(N_PRODUCTS):
        block = gram(tall_qr(block)[0])
    return svd(block, full_matrices=False)[0][:, :rank]


def _leading(problem: Problem, mode: int, gram: Callable[[Array], Array]) -> Array:
    return leading_eigenvectors(
        gram,
        problem.shape[mode],
        problem.rank[mode],
        dtype=problem.dtype,
        tol=INIT_TOL,
        max_sweeps=INIT_SWEEPS,
    )[0]


def spectral_init(problem: Problem) -> Tucker:
    """Compute the paper's ``H_r(A* y)`` with T-HOSVD, for methods whose own is another."""
    return problem.initial_point(None)


def random_init(problem: Problem, rng: int | np.random.Generator | None = None) -> Tucker:
    """Gaussian initial point whose measurements have the norm of ``y``.

    Drawn from a stream of its own, so that a problem simulated from the same seed is independent.
    """
    rng = np.random.default_rng(rng).spawn(1)[0]
    sizes = zip(problem.shape, problem.rank, strict=True)
    panels = [gaussian(size, rng, problem.dtype) for size in sizes]
    core = gaussian(problem.rank, rng, problem.dtype)
    x = Tucker(core, tuple(np.linalg.qr(u)[0] for u in panels))
    size = norm(problem.operator.forward(x))
    return x * (problem.y_norm / size) if size > 0 else x
