"""The front door for data with holes."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from tensormend.algebra import Array, as_rank
from tensormend.completion import Completion
from tensormend.errors import DataWarning, InputError, warn_user
from tensormend.fibres import Fibres, check_indices
from tensormend.known import Known, read_known
from tensormend.operators import Operator, Sampling
from tensormend.recover import recover
from tensormend.tucker import Tucker

__all__ = ["complete"]


def complete(
    data: Any,
    rank: int | Sequence[int],
    *,
    mask: Any = None,
    indices: Any = None,
    shape: Sequence[int] | None = None,
    modes: Sequence[Hashable] | None = None,
    value: Hashable | None = None,
    start: str | Tucker | None = "corrected",
    holdout: float | tuple[Any, Any] | None = None,
    rng: int | np.random.Generator | None = None,
    **options: Any,
) -> Completion:
    """Fill the holes of a tensor of low multilinear rank.

    Parameters
    ----------
    data : an array or ``xarray.DataArray`` with NaN where unknown, or with ``mask``; a
        ``numpy.ma`` array, masked where unknown; a vector of values with ``indices`` and
        ``shape``; a pandas Series with a MultiIndex or a long DataFrame, rows left out or NaN
        where unknown; a ``sparse.COO``, whose stored entries are known
    rank : multilinear rank, one int per mode or one for all
    mask : boolean array, true where ``data`` is known; NaN may stand where it is false
    indices : ``m x d`` integers, the places of the values
    shape : shape of the tensor, with ``indices``
    modes, value : columns of a DataFrame that hold the labels of each mode and the values; by
        default the last column holds the values and all others labels
    start : ``"corrected"``, which needs fewer known entries than the paper's ``"spectral"``;
        ``"random"``, or a tensor
    holdout : share of the known entries to keep from the solver and measure the error on, or a
        pair of indices and values
    rng : generator or seed for the held-out entries and the random start
    options : as for `recover`

    Returns
    -------
    Completion
        a result as from `recover`, with the completed ``data`` in the kind that came in, the
        labelled ``factors``, and parts of the data by place (``at``, brackets) and label (``sel``).

    Examples
    --------
    >>> import tensormend as tm
    >>> truth = tm.simulate.random_tucker((20, 20, 20), 2, rng=0).dense()
    >>> data = np.where(np.random.default_rng(1).random(truth.shape) < 0.4, truth, np.nan)
    >>> result = tm.complete(data, rank=2, tol=1e-9)
    >>> bool(np.allclose(result.data, truth))
    True
    """
    unknown = sorted(set(options) - set(inspect.signature(recover).parameters))
    if unknown:
        raise TypeError(f"complete has no option {', '.join(unknown)}; see the options of recover")
    known = read_known(data, mask=mask, indices=indices, shape=shape, modes=modes, value=value)
    rank = as_rank(rank, known.shape)
    rng = np.random.default_rng(rng)
    places, values = known.indices, known.values
    settings: dict[str, Any] = {"dtype": values.dtype, "threads": options.get("threads")}
    kept_out: tuple[Operator, Array] | None = None
    held: Array | None = None
    if isinstance(holdout, tuple) and len(holdout) == 2:
        held = check_indices(np.asarray(holdout[0]), known.shape)
        kept_out = (Sampling(known.shape, held, **settings), np.asarray(holdout[1]))
    elif holdout is not None:
        chosen = _choose_holdout(known, holdout, rng)
        kept_out = (Sampling(known.shape, places[chosen], **settings), values[chosen])
        places, values = places[~chosen], values[~chosen]
    operator = _KnownSampling(known, places, settings)  # refuses places that are not there
    if held is not None:
        _warn_about_overlap(known, held)
    result = recover(operator, values, rank, start=start, holdout=kept_out, rng=rng, **options)
    return Completion.from_result(result, known)


class _KnownSampling(Sampling):
    """Sampling that calls modes and places by the names they have in the data."""

    def __init__(self, known: Known, places: Array, settings: dict[str, Any]) -> None:
        super().__init__(known.shape, places, **settings)
        self._kind = known.kind

    def describe(self, mode: int, places: Sequence[int]) -> tuple[str, str]:
        """Name a mode and some of its places, for a message."""
        return self._kind.describe(mode, places)


def _warn_about_overlap(known: Known, held: Array) -> None:
    repeated = int(np.sum(known.find(held) >= 0))
    if repeated:
        warn_user(
            f"{repeated} held-out entries are also known to the solver, so the "
            "held-out error is too small; leave them out of one of the two",
            DataWarning,
        )


def _choose_holdout(known: Known, share: Any, rng: np.random.Generator) -> Array:
    size = len(known.values)
    is_share = isinstance(share, float | np.floating) and 0 < share < 1
    count = round(size * float(share)) if is_share else 0
    if not 0 < count < size:
        raise InputError(
            f"holdout must be a share of the {size} known entries, between 0 and 1 and leaving "
            f"some on both sides, or a pair of indices and values, got {share!r}"
        )
    Fibres.build(known.shape, known.indices)  # refuses a repeat, which could lie on both sides
    chosen = np.zeros(size, dtype=bool)
    chosen[rng.permutation(size)[:count]] = True
    return chosen
