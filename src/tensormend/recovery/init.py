"""Initial estimates that do not depend on the method.

The paper's spectral initial point ``H(A* y)`` belongs to each method of the paper, which has its
own ``H``: a solver makes it when it is given none.
"""

from __future__ import annotations

import numpy as np

from tensormend.core.algebra import gaussian, norm
from tensormend.core.tucker import Tucker
from tensormend.recovery.problem import Problem

__all__ = ["corrected_init", "random_init", "spectral_init"]


def corrected_init(problem: Problem) -> Tucker:
    """Return the operator's own estimate, scaled to fit the measurements best.

    For sampled entries the factors are corrected for the diagonal of the Gram matrices, see
    `Sampling.initial_estimate`. Measurements by matrices of independent entries add a multiple of
    the identity to these, which leaves the eigenvectors alone, so there, and for operators in
    general, the factors are those of the spectral initial point.

    Parameters
    ----------
    problem : Problem
        Operator, measurements and rank of the problem to solve.

    Returns
    -------
    Tucker
        Initial tensor.
    """
    return problem.operator.initial_estimate(problem.y, problem.rank)


def spectral_init(problem: Problem) -> Tucker:
    """Compute the paper's ``H_r(A* y)`` with T-HOSVD, for methods whose own is another.

    Parameters
    ----------
    problem : Problem
        Operator, measurements and rank of the problem to solve.

    Returns
    -------
    Tucker
        Initial tensor.
    """
    return problem.initial_point(None)


def random_init(problem: Problem, rng: int | np.random.Generator | None = None) -> Tucker:
    """Gaussian initial point whose measurements have the norm of ``y``.

    Drawn from a stream of its own, so that a problem simulated from the same seed is independent.

    Parameters
    ----------
    problem : Problem
        Operator, measurements and rank of the problem to solve.
    rng : int or Generator, optional
        Generator, or seed of one.

    Returns
    -------
    Tucker
        Initial tensor.
    """
    rng = np.random.default_rng(rng).spawn(1)[0]
    sizes = zip(problem.shape, problem.rank, strict=True)
    panels = [gaussian(size, rng, problem.dtype) for size in sizes]
    core = gaussian(problem.rank, rng, problem.dtype)
    x = Tucker(core, tuple(np.linalg.qr(u)[0] for u in panels))
    size = norm(problem.operator.forward_tucker(x))
    return x * (problem.y_norm / size) if size > 0 else x
