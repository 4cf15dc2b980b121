"""TensorLy's Tucker decomposition with a mask, at the best rank of a grid."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator

import numpy as np

from realdata.simple import fibre_mean
from tensormend.algebra import Array, matricize, multi_mode_product
from tensormend.errors import MissingDependencyError

__all__ = ["masked_tucker", "rank_grid"]


def rank_grid(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the ranks to try: the same in all modes, and the same share of all modes.

    >>> list(rank_grid((60, 40, 4)))[:2]
    [(2, 2, 2), (5, 5, 4)]
    """
    ranks = [tuple(min(r, n) for n in shape) for r in (2, 5, 10, 20)]
    ranks += [tuple(math.ceil(share * n) for n in shape) for share in (0.1, 0.2, 0.4)]
    yield from dict.fromkeys(ranks)


def masked_tucker(
    data: Array, rank: tuple[int, ...], *, tol: float = 1e-6, max_iter: int = 100
) -> Array:
    """Complete a tensor, NaN where unknown, by ``tensorly.decomposition.tucker`` with ``mask=``.

    It starts from the leading singular vectors of the data with their holes filled by fibre means,
    which is better than the start that TensorLy makes of the same, and faster.
    """
    if importlib.util.find_spec("tensorly") is None:
        raise MissingDependencyError(
            "tensorly is needed for masked Tucker, and is not installed; "
            "pip install tensormend[realdata]"
        )
    from tensorly.decomposition import tucker
    from tensorly.tenalg import multi_mode_dot

    known = ~np.isnan(data)
    filled = fibre_mean(data)
    factors = []
    for mode, r in enumerate(rank):
        unfolded = matricize(filled, mode)
        factors.append(np.linalg.eigh(unfolded @ unfolded.T)[1][:, ::-1][:, :r].copy())
    core = multi_mode_product(filled, [u.T for u in factors])
    start = (core, factors)
    core, factors = tucker(
        filled, rank, n_iter_max=max_iter, init=start, tol=tol, mask=known.astype(float)
    )
    return np.asarray(multi_mode_dot(core, factors))
