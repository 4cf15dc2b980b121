"""`complete` and `estimate_cost`."""

from __future__ import annotations

import inspect
import math
import os
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from tensormend.completion.chosen import (
    SEARCH_SHARE,
    check_rank_model,
    check_search,
    fit_choice,
    search_cost,
)
from tensormend.completion.cost import Cost, check_cost
from tensormend.completion.given import fit_rank, rank_cost
from tensormend.completion.journal import Journal
from tensormend.completion.preprocessing import Preprocessing
from tensormend.completion.result import Completion
from tensormend.completion.run import Run, sign
from tensormend.completion.selection import CompletionProgress, Watch, choose_model
from tensormend.core.algebra import as_rank
from tensormend.core.fibres import check_indices
from tensormend.data.observations import Observations, as_observations
from tensormend.recovery.entry import recover

__all__ = ["complete", "estimate_cost"]

RECOVER_OPTIONS = frozenset(inspect.signature(recover).parameters)


def complete(
    data: Any,
    rank: Literal["auto"] | int | Sequence[int] = "auto",
    *,
    observed: Any = None,
    indices: Any = None,
    shape: Sequence[int] | None = None,
    modes: Sequence[Hashable] | None = None,
    value_column: Hashable | None = None,
    model: Literal["auto", "shrinkage", "tucker"] = "auto",
    method: Any = "auto",
    center: Literal["auto"] | bool | Sequence[int] = "auto",
    scale: int | None = None,
    log: bool = False,
    clip: tuple[float | None, float | None] | None = None,
    holdout: float | tuple[Any, Any] | None = None,
    time_limit: float | None = None,
    memory_limit: float | None = None,
    rng: int | np.random.Generator | None = None,
    threads: int | None = None,
    progress: Callable[[CompletionProgress], bool | None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    save_every: float = 5.0,
    **options: Any,
) -> Completion:
    """Fill the holes of a tensor, with a model chosen on held-out entries or of a given rank.

    Parameters
    ----------
    data : an array or ``xarray.DataArray`` with NaN where unknown, or with ``observed``; a
        ``numpy.ma`` array, masked where unknown; a vector of values with ``indices`` and
        ``shape``; a pandas Series with a MultiIndex or a long DataFrame, rows left out or NaN
        where unknown; a ``sparse.COO``, whose stored entries are known; a `TensorData`, as `load`
        returns them
    rank : ``"auto"``: some known entries are held out, shrinkage of every strength and, for data
        that are nearly of low rank, ranks are tried on them (see `choose_model` for the rule), and
        the best is fitted to all entries. Else the multilinear rank, one int per mode or one for
        all (less where a mode has less room)
    observed : boolean array, true where ``data`` is observed; NaN may stand where it is false
    indices : ``m x d`` integers, the places of the values
    shape : shape of the tensor, with ``indices``
    modes, value_column : columns of a DataFrame that hold the labels of each mode and the values;
        by default the last column holds the values and all others labels
    model : with ``rank="auto"``, which models to compare: ``"shrinkage"`` of all unfoldings,
        ``"tucker"`` tensors of increasing rank, or ``"auto"`` for both
    method : the algorithm for a given rank, as for `recover`
    center : take the grand mean (``()``), the effects of the slices of some modes as well, or of
        all (``True``), out of the values before the fit; ``"auto"``: for ``rank="auto"`` the grand
        mean, and where whole fibres are missing the effects too if they help; for a given rank
        nothing, because means change the rank
    scale : a mode whose slices are divided by their standard deviation
    log : fit ``log1p`` of the values, for counts over many sizes
    clip : least and largest value that may be filled in, ``None`` for no bound on a side
    holdout : share of the known entries to hold out, 0.1 by default for ``rank="auto"``. For a
        given rank they are kept from the fit (none by default); a pair of indices and values is
        taken too
    time_limit : time limit; what there is by then is returned
    memory_limit : bytes that the run may take; by default what the machine has free. A run that
        would take more is refused before it starts; `estimate_cost` tells what it takes
    rng : generator or seed for the held-out entries and the random start
    threads : threads of the kernels, all cores by default
    progress : called with a `CompletionProgress` after every iteration and every model that
        was judged; a true return value ends the run with the best there is
    checkpoint : a folder to remember the run in, so that it can go on after any end; one run at a
        time may use it
    resume : go on with the run in that folder, to the same result as if it had never ended: bit
        for bit on the same machine, to rounding on one with another processor or other libraries.
        The time limit counts anew and may be another, as may ``threads``; all else is as it was
    save_every : seconds between saves
    options : for a given rank, as for `recover`

    Returns
    -------
    Completion
        a result as from `recover`, with the completed ``data`` in the kind that came in, how far
        to trust it (``trust``), the models tried (``path``), the labelled ``factors``, and parts
        of the data by place (``at``, brackets) and label (``sel``).

    Examples
    --------
    >>> import tensormend as tm
    >>> truth = tm.simulate.random_tucker((20, 20, 20), 2, rng=0).todense()
    >>> data = np.where(np.random.default_rng(1).random(truth.shape) < 0.4, truth, np.nan)
    >>> result = tm.complete(data, rng=0)
    >>> bool(np.allclose(result.data, truth)), result.x.rank, result.trust.verdict.name
    (True, (2, 2, 2), 'RELIABLE')
    """
    clock = time.perf_counter()
    unknown = sorted(set(options) - RECOVER_OPTIONS)
    if unknown:
        raise TypeError(f"complete has no option {', '.join(unknown)}; see the options of recover")
    known = as_observations(
        data,
        observed=observed,
        indices=indices,
        shape=shape,
        modes=modes,
        value_column=value_column,
    )
    preprocessing = Preprocessing(log=log, scale=scale, clip=clip)
    watch = Watch(progress, started=clock)

    def begin(settings: dict[str, Any]) -> tuple[Journal, np.random.Generator]:
        signature = {} if checkpoint is None else sign(known, preprocessing, settings)
        return Journal.open(checkpoint, signature, rng, resume=resume, every=save_every)

    if isinstance(rank, str):
        share = check_search(rank, model, method, holdout, time_limit, options)
        check_cost(search_cost(known, threads), memory_limit)
        journal, rng = begin({"model": model, "center": center, "holdout": share})
        limit = math.inf if time_limit is None else time_limit
        places = check_indices(known.indices, known.shape).astype(np.int64, copy=False)
        with journal:
            choice = choose_model(
                Observations(places, known.values, known.shape),
                preprocessing=preprocessing,
                model=model,
                center=center,
                holdout=share,
                time_limit=SEARCH_SHARE * limit,
                rng=rng,
                threads=threads,
                watch=watch,
                journal=journal,
                mode_names=tuple(
                    known.container.describe(k, ())[0] for k in range(len(known.shape))
                ),
            )
            # the fit to a search that was cut short is not the one that a resumed run comes to
            pages = Journal() if choice.is_cut_short else journal
            part = pages.part(f"fit of {choice.model}")
            run = Run(known, preprocessing, rng, watch, part, threads)
            return fit_choice(run, choice, limit)
    check_rank_model(model)
    rank = as_rank(rank, known.shape)
    check_cost(rank_cost(known, rank, method, threads), memory_limit)
    preprocessing = replace(preprocessing, center=False if center == "auto" else center)
    settings = {"method": method, **options}
    decisive = {name: value for name, value in settings.items() if name != "callback"}
    journal, rng = begin({"rank": rank, "holdout": holdout, **decisive})
    with journal:
        run = Run(known, preprocessing, rng, watch, journal.part(f"fit of rank {rank}"), threads)
        return fit_rank(run, rank, holdout, {"time_limit": time_limit, **settings})


def estimate_cost(
    data: Any,
    rank: Literal["auto"] | int | Sequence[int] = "auto",
    *,
    observed: Any = None,
    indices: Any = None,
    shape: Sequence[int] | None = None,
    modes: Sequence[Hashable] | None = None,
    value_column: Hashable | None = None,
    model: Literal["auto", "shrinkage", "tucker"] = "auto",
    method: Any = "auto",
    threads: int | None = None,
) -> Cost:
    """Tell the memory and time that `complete` will take, before it is called.

    Parameters as for `complete`. The memory is counted. The time is modelled, for one or two folds
    of a search: a guide, not a promise. Small data with whole fibres missing, which take up to five
    folds, and hypersparse data take longer.

    Examples
    --------
    >>> import tensormend as tm
    >>> data = np.where(np.random.default_rng(0).random((50, 60, 70)) < 0.3, 1.0, np.nan)
    >>> cost = tm.estimate_cost(data, rank=5)
    >>> bool(2**20 < cost.bytes < 2**28), bool(0 < cost.seconds < 60)
    (True, True)
    """
    known = as_observations(
        data,
        observed=observed,
        indices=indices,
        shape=shape,
        modes=modes,
        value_column=value_column,
    )
    if isinstance(rank, str):
        check_search(rank, model, method, None, None, {})
        return search_cost(known, threads)
    check_rank_model(model)
    return rank_cost(known, as_rank(rank, known.shape), method, threads)
