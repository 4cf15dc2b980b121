"""TensorLy's Tucker decomposition with a mask, from the best init we know for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tensormend.core.algebra import Array, matricize, multi_mode_product
from tensormend.errors import require

__all__ = ["masked_tucker"]

TOLERANCES = (1e-4, 1e-6)  # the default of TensorLy, and one at which it has settled
MAX_ITER = 100  # the default of TensorLy, for each tolerance


def masked_tucker(data: Array, filled: Array, rank: Sequence[int]) -> Iterator[Array]:
    """Complete a tensor, NaN where missing, by ``tensorly.decomposition.tucker`` with ``mask=``.

    It is initialized by the leading singular vectors of ``filled``, the data with missing entries
    filled in some simple way; TensorLy's own init is slower and no better. The result at its
    default tolerance is yielded first, and then that of further iterations from there:
    sometimes the one is better, sometimes the other.
    """
    tucker = require("tensorly.decomposition", "realdata", "masked Tucker").tucker

    mask = (~np.isnan(data)).astype(float)
    factors = []
    for mode, r in enumerate(rank):
        unfolded = matricize(filled, mode)
        factors.append(np.linalg.eigh(unfolded @ unfolded.T)[1][:, ::-1][:, :r].copy())
    answer: Any = (multi_mode_product(filled, factors, adjoint=True), factors)
    for tol in TOLERANCES:
        core, factors = tucker(
            filled, list(rank), n_iter_max=MAX_ITER, init=answer, tol=tol, mask=mask
        )
        answer = (core, list(factors))
        yield multi_mode_product(np.asarray(core), [np.asarray(u) for u in factors])
