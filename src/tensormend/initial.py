"""Starting points that do not depend on the method.

The paper's spectral start ``H(A* y)`` belongs to each method, which has its own ``H``: a solver
takes it when it is given no start.
"""

from __future__ import annotations

import numpy as np

from tensormend.algebra import Array
from tensormend.problem import Problem
from tensormend.truncate import SparsePlusTucker, leading_eigenvectors, thosvd
from tensormend.tucker import Tucker

# The eigenvectors of sampled data are estimates, and noise beyond a tenth: more sweeps cost more
# than the iterations they save.
START_TOL, START_SWEEPS = 0.1, 8

__all__ = ["corrected_start", "random_start"]


def corrected_start(problem: Problem) -> Tucker:
    """Diagonally corrected spectral start, scaled to fit the measurements best.

    For entries sampled with ratio ``p`` from ``T``, the mean of the Gram matrix of an unfolding of
    ``A* y`` is ``p^2 M M^H`` off the diagonal but ``p M M^H`` on it. Multiplying the diagonal by
    ``p`` removes the excess, which matters when few entries are seen. Measurements by matrices of
    independent entries add a multiple of the identity instead, which leaves the eigenvectors
    alone, so there the factors are those of the plain spectral start.
    """
    back = problem.operator.shifted(None, 1.0, problem.y)
    if isinstance(back, SparsePlusTucker):
        ratio = problem.operator.size / np.prod(problem.shape, dtype=float)
        factors = tuple(
            leading_eigenvectors(
                back.gram(k, shrink=float(ratio)),
                problem.shape[k],
                r,
                dtype=back.dtype,
                tol=START_TOL,
                max_sweeps=START_SWEEPS,
            )[0]
            for k, r in enumerate(problem.rank)
        )
        x = Tucker(back.project(factors), factors)
    else:
        x = thosvd(back, problem.rank)
    seen = problem.operator.forward(x)
    energy = float(np.linalg.norm(seen)) ** 2
    return x * float(np.vdot(seen, problem.y).real / energy) if energy > 0 else x


def random_start(problem: Problem, rng: int | np.random.Generator | None = None) -> Tucker:
    """Gaussian start whose measurements have the norm of ``y``.

    Drawn from a stream of its own, so that a problem simulated from the same seed is independent.
    """
    rng = np.random.default_rng(rng).spawn(1)[0]

    def draw(*shape: int) -> Array:
        z = rng.standard_normal(shape)
        if problem.dtype.kind == "c":
            z = z + 1j * rng.standard_normal(shape)
        return z.astype(problem.dtype)

    panels = [draw(n, r) for n, r in zip(problem.shape, problem.rank, strict=True)]
    x = Tucker(draw(*problem.rank), tuple(np.linalg.qr(u)[0] for u in panels))
    seen = float(np.linalg.norm(problem.operator.forward(x)))
    return x * (problem.y_norm / seen) if seen > 0 else x
