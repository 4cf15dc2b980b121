"""The front door for data with holes."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from tensormend.algebra import Array, as_rank
from tensormend.choose import (
    DENSE_COPIES,
    PLAIN,
    Choice,
    Entries,
    Trial,
    choose_model,
    generous_rank,
    iteration_seconds,
    make_problem,
    works_densely,
)
from tensormend.completion import Completion, Judged
from tensormend.cost import Cost, check_cost, dense_cost, estimate_cost
from tensormend.errors import DataWarning, InputError, warn_user
from tensormend.fibres import Fibres, check_indices
from tensormend.holdout import MAX_FOLDS, Fold, draw_folds
from tensormend.known import Known, read_known
from tensormend.operators import Sampling
from tensormend.preprocess import Fitted, Preprocessing
from tensormend.recover import recover
from tensormend.result import Result, Row, Status, Trace
from tensormend.solve import solve
from tensormend.solvers.shrink import effective_freedom
from tensormend.stopping import Stop
from tensormend.tucker import Tucker

__all__ = ["complete", "estimate"]

SEARCH_SHARE, FIT_SHARE = 0.7, 0.9  # of the time limit, by when the search and the fit end
FIT_ROUNDS = 5  # from the fit that was judged to that to all entries; many more would overfit
N_ITERATIONS = 150  # of shrinkage: about 40 in a fold and as many to balance it, and the fit
FOLD_BYTES = 40  # of an entry, in the set-up of a fold
N_JUDGED = 100_000  # entries that tell the error of a fit well enough
SEARCHES = ("auto", "shrink", "rank")


def complete(
    data: Any,
    rank: Literal["auto"] | int | Sequence[int] = "auto",
    *,
    mask: Any = None,
    indices: Any = None,
    shape: Sequence[int] | None = None,
    modes: Sequence[Hashable] | None = None,
    value: Hashable | None = None,
    method: Any = "auto",
    center: Literal["auto"] | bool | Sequence[int] = "auto",
    scale: int | None = None,
    log: bool = False,
    clip: tuple[float | None, float | None] | None = None,
    holdout: float | tuple[Any, Any] | None = None,
    max_seconds: float | None = None,
    memory_limit: float | None = None,
    rng: int | np.random.Generator | None = None,
    threads: int | None = None,
    progress: Callable[[Trial], None] | None = None,
    **options: Any,
) -> Completion:
    """Fill the holes of a tensor, with a model chosen on held-out entries or of a given rank.

    Parameters
    ----------
    data : an array or ``xarray.DataArray`` with NaN where unknown, or with ``mask``; a
        ``numpy.ma`` array, masked where unknown; a vector of values with ``indices`` and
        ``shape``; a pandas Series with a MultiIndex or a long DataFrame, rows left out or NaN
        where unknown; a ``sparse.COO``, whose stored entries are known; a `TensorData`, as `load`
        returns them
    rank : ``"auto"``: some known entries are held out, shrinkage of every strength and, for data
        that are nearly of low rank, ranks are tried on them (see `choose_model` for the rule), and
        the best is fitted to all entries. Else the multilinear rank, one int per mode or one for
        all
    mask : boolean array, true where ``data`` is known; NaN may stand where it is false
    indices : ``m x d`` integers, the places of the values
    shape : shape of the tensor, with ``indices``
    modes, value : columns of a DataFrame that hold the labels of each mode and the values; by
        default the last column holds the values and all others labels
    method : for ``rank="auto"``, ``"auto"``, ``"shrink"`` or ``"rank"``: which models to try; for
        a given rank a method of `recover`
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
    max_seconds : time limit; what there is by then is returned
    memory_limit : bytes that the run may take; by default what the machine has free. A run that
        would take more is refused before it starts; `estimate` tells what it takes
    rng : generator or seed for the held-out entries and the random start
    threads : threads of the kernels, all cores by default
    progress : called with every `Trial` of the search
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
    >>> truth = tm.simulate.random_tucker((20, 20, 20), 2, rng=0).dense()
    >>> data = np.where(np.random.default_rng(1).random(truth.shape) < 0.4, truth, np.nan)
    >>> result = tm.complete(data, rng=0)
    >>> bool(np.allclose(result.data, truth)), result.x.rank, result.trust.verdict.name
    (True, (2, 2, 2), 'WELL_DETERMINED')
    """
    clock = time.perf_counter()
    unknown = sorted(set(options) - set(inspect.signature(recover).parameters))
    if unknown:
        raise TypeError(f"complete has no option {', '.join(unknown)}; see the options of recover")
    known = read_known(data, mask=mask, indices=indices, shape=shape, modes=modes, value=value)
    preprocessing = Preprocessing(log=log, scale=scale, clip=clip)
    rng = np.random.default_rng(rng)
    if isinstance(rank, str):
        share = _check_search(rank, method, holdout, max_seconds, options)
        check_cost(_search_cost(known, threads), memory_limit)
        limit = math.inf if max_seconds is None else max_seconds
        places = check_indices(known.indices, known.shape).astype(np.int64, copy=False)
        choice = choose_model(
            Entries(places, known.values, known.shape),
            preprocessing=preprocessing,
            method=method,
            center=center,
            holdout=share,
            max_seconds=SEARCH_SHARE * limit,
            rng=rng,
            threads=threads,
            progress=progress,
        )
        return _fit_choice(known, choice, preprocessing, clock, limit, rng, threads)
    rank = as_rank(rank, known.shape)
    check_cost(_rank_cost(known, rank, method, threads), memory_limit)
    preprocessing = replace(preprocessing, center=False if center == "auto" else center)
    settings = {"method": method, "max_seconds": max_seconds, "threads": threads, **options}
    return _fit_rank(known, rank, preprocessing, holdout, rng, settings)


def estimate(
    data: Any,
    rank: Literal["auto"] | int | Sequence[int] = "auto",
    *,
    mask: Any = None,
    indices: Any = None,
    shape: Sequence[int] | None = None,
    modes: Sequence[Hashable] | None = None,
    value: Hashable | None = None,
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
    >>> cost = tm.estimate(data, rank=5)
    >>> bool(2**20 < cost.bytes < 2**28), bool(0 < cost.seconds < 60)
    (True, True)
    """
    known = read_known(data, mask=mask, indices=indices, shape=shape, modes=modes, value=value)
    if isinstance(rank, str):
        _check_search(rank, method, None, None, {})
        return _search_cost(known, threads)
    return _rank_cost(known, as_rank(rank, known.shape), method, threads)


def _rank_cost(known: Known, rank: tuple[int, ...], method: Any, threads: int | None) -> Cost:
    name = method if isinstance(method, str) else getattr(method, "name", "auto")
    size, dtype = len(known.values), known.values.dtype
    return estimate_cost(known.shape, rank, size, dtype, method=name, threads=threads)


def _search_cost(known: Known, threads: int | None) -> Cost:
    """Cost of the path of shrinkage, which takes more than ranks do."""
    size, dtype = len(known.values), known.values.dtype
    is_dense = works_densely(known.shape, size, dtype)
    seconds = iteration_seconds(known.shape, size)[0 if is_dense else 1]
    rank = (1,) * len(known.shape) if is_dense else generous_rank(known.shape, size)
    cost = estimate_cost(known.shape, rank, size, dtype, threads=threads)
    whole = dense_cost(known.shape, dtype, copies=DENSE_COPIES if is_dense else 0)
    folds = MAX_FOLDS * size * FOLD_BYTES
    return replace(
        cost,
        bytes=cost.bytes + whole.bytes + folds,
        work=1e9 * N_ITERATIONS * seconds,
        advice="take a part of the data, give them in single precision, or give a rank",
    )


# a chosen model


def _check_search(
    rank: str, method: Any, holdout: Any, max_seconds: Any, options: dict[str, Any]
) -> float:
    """Refuse what does not go with a search, and return the share to hold out."""
    if rank != "auto":
        raise InputError(f"rank must be 'auto', one int or one per mode, got {rank!r}")
    if method not in SEARCHES:
        raise InputError(
            f"with rank='auto' the method must be one of {', '.join(SEARCHES)}, got {method!r}; "
            "give a rank to choose another method"
        )
    if options:
        raise InputError(
            f"{', '.join(sorted(options))} needs a rank; give one, or leave the option out"
        )
    is_number = isinstance(max_seconds, int | float | np.number)
    if max_seconds is not None and not (is_number and max_seconds > 0):
        raise InputError(f"max_seconds must be a positive number, got {max_seconds!r}")
    share = 0.1 if holdout is None else holdout
    if not isinstance(share, float | np.floating) or not 0 < share <= 0.5:
        raise InputError(
            "with rank='auto' holdout must be a share of the known entries, above 0 and at most "
            f"0.5, got {holdout!r}"
        )
    return float(share)


def _fit_choice(
    known: Known,
    choice: Choice,
    preprocessing: Preprocessing,
    clock: float,
    limit: float,
    rng: np.random.Generator,
    threads: int | None,
) -> Completion:
    """Fit the chosen model to all entries, from the fit that was judged."""
    trial = choice.trial
    modes = False if trial.center is None else trial.center
    fitted = replace(preprocessing, center=modes).fit(known.indices, known.values, known.shape)
    values = fitted.apply(known.indices, known.values)
    left = max(FIT_SHARE * limit - (time.perf_counter() - clock), 0.0)
    stop_at = None if math.isinf(limit) else left
    if not values.any():
        result, freedom = _nothing_to_fit(choice.x), 0.0
    elif trial.method == "shrink":
        _warn_about_unseen(known)
        problem = make_problem(Entries(known.indices, values, known.shape), threads)
        solver = replace(
            PLAIN,
            strength=trial.strength,
            first=trial.strength,
            rounds=FIT_ROUNDS,
            balance=trial.balance,
        )
        stop = Stop(tol=0, tol_change=0, patience=solver.n_path + 1, max_seconds=stop_at)
        result = solve(problem, solver, choice.x, stop=stop)
        if time.perf_counter() - clock < FIT_SHARE * limit:
            freedom = effective_freedom(problem, result.x, solver, rng)
        else:  # no time to estimate them: what the directions and the data allow
            freedom = min(float(math.prod(result.x.rank)), len(values) / 2)
    else:
        sampling = _KnownSampling(known, known.indices, dtype=values.dtype, threads=threads)
        result = recover(
            sampling, values, trial.rank, start=choice.x, max_seconds=stop_at, tol=1e-9
        )
        freedom = float(result.x.n_parameters)
    judged = Judged(
        choice.held,
        choice.predicted,
        freedom,
        choice.groups,
        choice.folds,
        shrunken=trial.method == "shrink",
    )
    return Completion.from_result(
        replace(
            result,
            seconds=time.perf_counter() - clock,
            notes=(_describe(choice), *choice.notes, *result.notes),
        ),
        known=known,
        fitted=fitted,
        path=choice.path,
        judged=judged,
    )


def _warn_about_unseen(known: Known) -> None:
    """Name the slices without any entry."""
    for k, n in enumerate(known.shape):
        unseen = np.flatnonzero(np.bincount(known.indices[:, k], minlength=n) == 0)
        if len(unseen):
            mode, places = known.kind.describe(k, unseen[:5].tolist())
            more = ", ..." if len(unseen) > 5 else ""
            warn_user(
                f"{mode} has no observation at all at {places}{more} ({len(unseen)} of {n}); "
                "what is filled in there is little more than a mean",
                DataWarning,
            )


def _nothing_to_fit(x: Tucker) -> Result:
    """Return zero, where the means have taken everything out of the data."""
    row = Row(0.0, 0.0, 0.0)
    message = f"{Status.CONVERGED.value} (The data are their means.)"
    return Result(x * 0.0, Status.CONVERGED, message, 0, 0.0, 0.0, Trace((row,)), "shrink")


def _describe(choice: Choice) -> str:
    """Say what was chosen, in a sentence."""
    trial = choice.trial
    if trial.method == "rank":
        what = f"rank {trial.rank}"
    else:
        taken = "nothing" if trial.center is None else "the grand mean"
        if trial.center:
            taken += f" and effects of modes {', '.join(map(str, trial.center))}"
        what = f"shrinkage of strength {trial.strength:.2g}"
        if trial.balance is not None and set(trial.balance) != {1.0}:
            what += f" times {', '.join(f'{factor:g}' for factor in trial.balance)} in the modes"
        what += f", {taken} taken out"
    way = (
        "one by one"
        if choice.pattern.mode is None
        else f"by fibres along mode {choice.pattern.mode}"
    )
    return (
        f"{what}: the best of {len(choice.path)} models on {len(choice.held)} entries held out "
        f"{way}, error {trial.error:.3g}"
    )


# a given rank


def _fit_rank(
    known: Known,
    rank: tuple[int, ...],
    preprocessing: Preprocessing,
    holdout: Any,
    rng: np.random.Generator,
    settings: dict[str, Any],
) -> Completion:
    places, values = known.indices, known.values
    fold: Fold | None = None
    others: tuple[Array, Array] | None = None
    if isinstance(holdout, tuple) and len(holdout) == 2:
        held = check_indices(np.asarray(holdout[0]), known.shape).astype(np.int64)
        others = held, np.asarray(holdout[1])
    elif holdout is not None:
        fold = _choose_holdout(known, holdout, rng)
        kept = fold.kept(len(values))
        places, values = places[kept], values[kept]
    fitted = preprocessing.fit(places, values, known.shape)
    kind = {"dtype": values.dtype, "threads": settings["threads"]}
    operator = _KnownSampling(known, places, **kind)  # refuses places that are not there
    if others is not None:
        _warn_about_overlap(known, others[0])
    elif fold is not None:
        others = known.indices[fold.held], known.values[fold.held]
    settings.setdefault("start", "corrected")
    result = recover(
        operator,
        values if fitted.is_identity else fitted.apply(places, values),
        rank,
        holdout=_held_out(known, others, fitted, kind),
        rng=rng,
        **settings,
    )
    freedom = float(result.x.n_parameters)
    if fold is not None:
        judged = Judged(fold.held, None, freedom, fold.clusters)
    elif others is not None:
        judged = Judged(np.zeros(0, dtype=np.int64), None, freedom, others=others)
    else:
        judged = Judged(_sample(len(known.values), rng), None, freedom, seen=True)
    return Completion.from_result(result, known=known, fitted=fitted, judged=judged)


def _held_out(
    known: Known, others: tuple[Array, Array] | None, fitted: Fitted, kind: dict[str, Any]
) -> tuple[Sampling, Array] | None:
    """Return the held-out entries as an operator and values, where there are any."""
    if others is None:
        return None
    places, values = others
    operator = Sampling(known.shape, places, **kind)
    return operator, values if fitted.is_identity else fitted.apply(places, values)


def _sample(size: int, rng: np.random.Generator) -> Array:
    if size <= N_JUDGED:
        return np.arange(size)
    return np.sort(rng.choice(size, N_JUDGED, replace=False))


class _KnownSampling(Sampling):
    """Sampling that calls modes and places by the names they have in the data."""

    def __init__(self, known: Known, places: Array, **settings: Any) -> None:
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


def _choose_holdout(known: Known, share: Any, rng: np.random.Generator) -> Fold:
    """Hold out a share of the entries, as the holes are."""
    size = len(known.values)
    is_share = isinstance(share, float | np.floating) and 0 < share < 1
    count = round(size * float(share)) if is_share else 0
    if not 0 < count < size:
        raise InputError(
            f"holdout must be a share of the {size} known entries, between 0 and 1 and leaving "
            f"some on both sides, or a pair of indices and values, got {share!r}"
        )
    places = check_indices(known.indices, known.shape).astype(np.int64, copy=False)
    Fibres.build(known.shape, places)  # refuses a repeat, which could lie on both sides
    folds = draw_folds(places, known.shape, rng, share=float(share), n_folds=1)
    if not folds:
        raise InputError(
            f"no entry can be held out of {size}: every slice needs one that is left; leave "
            "holdout out"
        )
    return folds[0]
