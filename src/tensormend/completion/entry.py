"""`complete` and `estimate_cost`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Literal

import numpy as np

from tensormend.completion.automatic import automatic_cost, complete_automatically
from tensormend.completion.cost import Cost
from tensormend.completion.fixed_rank import FitOptions, complete_at_rank, rank_cost
from tensormend.completion.preprocessing import Center, Preprocessing
from tensormend.completion.result import Completion
from tensormend.completion.run import Run
from tensormend.completion.selection import CompletionProgress, Watch
from tensormend.core.algebra import as_rank
from tensormend.core.progress import progress_bar
from tensormend.core.tucker import Tucker
from tensormend.data.observations import as_observations
from tensormend.errors import InputError
from tensormend.recovery.checkpoint import Checkpoint
from tensormend.recovery.contract import Solver
from tensormend.recovery.steps import StepRule

__all__ = ["complete", "estimate_cost"]

MODELS = ("auto", "shrinkage", "tucker")
SAVE_SECONDS = 5.0  # between saves to a folder that is given by its path

CompletionCallback = Callable[[CompletionProgress], bool | None]
"""Called after every iteration and every comparison; a true return value ends the search or fit."""


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
    method: str | Solver[Any] = "auto",
    step: str | float | StepRule | None = None,
    init: str | Tucker | None = None,
    center: Center = "auto",
    standardize: int | None = None,
    transform: Literal["log1p"] | None = None,
    clip: tuple[float | None, float | None] | None = None,
    preprocessing: Preprocessing | None = None,
    validation_fraction: float | None = None,
    validation_data: tuple[Any, Any] | None = None,
    tol: float = 1e-6,
    xtol: float | None = None,
    min_delta: float = 1e-6,
    patience: int = 50,
    max_iter: int = 500,
    time_limit: float | None = None,
    memory_limit: float | None = None,
    rng: int | np.random.Generator | None = None,
    threads: int | None = None,
    measurement_dtype: Any = None,
    callback: CompletionCallback | Sequence[CompletionCallback] | None = None,
    progress: bool = False,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    resume: bool = False,
) -> Completion:
    """Fill in the missing entries of a tensor, by a selected model or one of given rank.

    By default a validation set that imitates the pattern of missing entries is held out. A
    regularization path and, where the error suggests exact low rank, increasing Tucker ranks are
    compared on it; the selected model is refitted to all observed entries.

    Parameters
    ----------
    data : array_like, DataArray, Series, DataFrame, sparse.COO or TensorData
        The data: an array or ``xarray.DataArray`` with NaN at missing entries, or with
        ``observed``; a ``numpy.ma`` array, masked at missing entries; a vector of values with
        ``indices`` and ``shape``; a pandas Series with a MultiIndex or a long DataFrame, missing
        entries absent or NaN; a ``sparse.COO``, whose stored entries are observed; a
        `TensorData`, as `load` returns it.
    rank : "auto", int or sequence of int, default="auto"
        Multilinear rank, one int per mode or one for all (reduced where a mode is smaller).
        ``"auto"`` compares models on held-out entries, see Notes.
    observed : array_like of bool, optional
        True where ``data`` is observed. Values at other entries, NaN among them, are ignored.
    indices : array_like of int, shape (m, d), optional
        Indices of the values in ``data``.
    shape : sequence of int, optional
        Shape of the tensor, with ``indices``.
    modes : sequence of labels, optional
        Columns of a DataFrame that hold the labels of each mode; by default all but the last.
    value_column : label, optional
        Column of a DataFrame that holds the values; by default the last.
    model : {"auto", "shrinkage", "tucker"}, default="auto"
        With ``rank="auto"``, the models to compare: shrinkage of the singular values of all
        unfoldings, Tucker tensors of increasing rank, or both.
    method : str or Solver, default="auto"
        Algorithm for a given rank, as in `recover`.
    step : str, float or StepRule, optional
        Step rule for a given rank, as in `recover`.
    init : {"corrected", "spectral", "random"} or Tucker, optional
        Initial point for a given rank, ``"corrected"`` by default. A tensor is in the units of
        the fit, so it is refused where values are transformed, centred or standardized.
    center : {"auto", "mean", "all"}, sequence of int, or None, default="auto"
        Subtract the grand mean (``"mean"``), with effects of the slices of all modes (``"all"``)
        or of some, or nothing (``None``). With ``"auto"`` the centring is selected with the model:
        for ``rank="auto"`` the grand mean is subtracted, and effects where whole fibres are
        missing and the held-out error is lower with them; for a given rank nothing is, because
        means change the rank.
    standardize : int, optional
        Mode whose slices are divided by their standard deviations.
    transform : {"log1p"}, optional
        Fit a function of the values; ``"log1p"`` is for counts over several orders of magnitude.
    clip : pair of float or None, optional
        Least and largest value that may be filled in, ``None`` for no bound on a side.
    preprocessing : Preprocessing, optional
        The four settings above in one object, in their place.
    validation_fraction : float, optional
        Fraction of the observed entries to hold out; 0.1 by default for ``rank="auto"``, and none
        for a given rank, where the held-out entries are not used in the fit.
    validation_data : pair of array_like, optional
        Indices, ``m x d``, and values of entries to compare a fit of given rank with.
    tol, xtol, min_delta, patience, max_iter : optional
        When a fit of given rank stops, see `StoppingCriteria`.
    time_limit : float, optional
        Seconds after which the best model so far is refitted and returned.
    memory_limit : float, optional
        Bytes that the run may take; by default the memory that is available. A run that would
        take more is refused before it starts; `estimate_cost` returns what it takes.
    rng : int or numpy.random.Generator, optional
        Seed or generator for the held-out entries and random initial points.
    threads : int, optional
        Threads of the kernels, all cores by default.
    measurement_dtype : dtype, optional
        Data type to store the values in during a fit of given rank, as in `recover`.
    callback : callable or sequence of callables, optional
        Each is called with a `CompletionProgress` after every iteration and every comparison.
        Returning true ends the search (the best model so far is then refitted) or, during the
        final fit, the fit.
    progress : bool, default=False
        Show a progress bar on stderr.
    checkpoint : path or Checkpoint, optional
        Folder to save the run in, every 5 seconds or as a `Checkpoint` says. One run at a time
        may use it.
    resume : bool, default=False
        Continue the run in that folder, if there is one. The result is the same as that of a run
        that was not interrupted: bit for bit on the same machine, to rounding on one with another
        processor or other libraries. The time limit counts anew and may differ, as may
        ``threads``; all other arguments must be the same.

    Returns
    -------
    Completion
        The completed ``data`` in the type that was given, an estimate of their error (``trust``),
        the models compared (``trials``), and the fit itself (``fit``).

    Raises
    ------
    InputError
        If an argument is not valid, or cannot be honoured together with the others.
    MemoryLimitError
        If the run would take more memory than there is.
    CheckpointError
        If a checkpoint belongs to another run.

    Notes
    -----
    For ``rank="auto"``: entries are held out in the pattern of the missing ones; shrinkage is
    followed from strong to weak, and the strongest is selected whose held-out error is above the
    least by at most the standard error of the difference and 1%; then the strength of single modes
    is adjusted. Where that error is small, Tucker ranks are compared as well, from 1 on. Options
    of a single fit (``method``, ``step``, ``init``, ``tol`` and the like) are refused then.

    Examples
    --------
    >>> import tensormend as tm
    >>> truth = tm.simulate.random_tucker((20, 20, 20), 2, rng=0).todense()
    >>> data = np.where(np.random.default_rng(1).random(truth.shape) < 0.4, truth, np.nan)
    >>> result = tm.complete(data, rng=0)
    >>> bool(np.allclose(result.data, truth)), result.rank, result.trust.verdict.name
    (True, (2, 2, 2), 'RELIABLE')
    """
    watch = Watch(_as_callbacks(callback), started=time.perf_counter())
    options = FitOptions(
        method, step, init, tol, xtol, min_delta, patience, max_iter, measurement_dtype
    )
    _check_options(rank, model, options, validation_fraction, validation_data)
    steps = {"transform": transform, "center": center, "standardize": standardize, "clip": clip}
    run = Run(
        as_observations(
            data,
            observed=observed,
            indices=indices,
            shape=shape,
            modes=modes,
            value_column=value_column,
        ),
        _as_preprocessing(preprocessing, steps),
        rng,
        threads,
        time_limit,
        memory_limit,
        watch,
        _as_checkpoint(checkpoint),
        resume,
    )
    with ExitStack() as stack:
        if progress:
            watch.show = stack.enter_context(progress_bar())
        if isinstance(rank, str):
            return complete_automatically(run, model, validation_fraction)
        size = as_rank(rank, run.observations.shape)
        return complete_at_rank(run, size, options, validation_fraction, validation_data)


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
    method: str | Solver[Any] = "auto",
    threads: int | None = None,
) -> Cost:
    """Estimate the memory and time that `complete` will take with the same arguments.

    Parameters
    ----------
    data, rank, observed, indices, shape, modes, value_column, model, method, threads
        As for `complete`.

    Returns
    -------
    Cost
        Memory is counted array by array. Time is modelled, for one or two folds of a search: a
        guide, not a promise. Small data with whole fibres missing, which take up to five folds,
        and hypersparse data take longer.

    Examples
    --------
    >>> import tensormend as tm
    >>> data = np.where(np.random.default_rng(0).random((50, 60, 70)) < 0.3, 1.0, np.nan)
    >>> cost = tm.estimate_cost(data, rank=5)
    >>> bool(2**20 < cost.bytes < 2**28), bool(0 < cost.seconds < 60)
    (True, True)
    """
    _check_options(rank, model, FitOptions(method), None, None)
    given = as_observations(
        data,
        observed=observed,
        indices=indices,
        shape=shape,
        modes=modes,
        value_column=value_column,
    )
    if isinstance(rank, str):
        return automatic_cost(given, threads)
    return rank_cost(given, as_rank(rank, given.shape), method, threads)


# checks


def _check_options(
    rank: Any, model: Any, options: FitOptions, fraction: Any, validation_data: Any
) -> None:
    """Refuse options that cannot be honoured together."""
    if model not in MODELS:
        raise InputError(
            f"model must be one of {', '.join(MODELS)}, got {model!r}; the algorithm for a given "
            "rank is method=",
            parameter="model",
        )
    if fraction is not None and validation_data is not None:
        raise InputError(
            "validation_fraction= and validation_data= cannot both be given; leave one out"
        )
    if not isinstance(rank, str):
        if model == "shrinkage":
            raise InputError(
                "model='shrinkage' finds its own rank; leave rank= out, or take method='shrink' "
                "for shrinkage within a given rank",
                parameter="model",
            )
        return
    if rank != "auto":
        raise InputError(
            f"rank must be 'auto', one int or one per mode, got {rank!r}", parameter="rank"
        )
    changed = options.changed()
    if "method" in changed:
        raise InputError(
            f"method={options.method!r} needs a rank; give one, or choose by model= what is "
            "compared",
            parameter="method",
        )
    if validation_data is not None:
        changed.append("validation_data")
    if changed:
        raise InputError(
            f"{', '.join(changed)} needs a rank; give one, or leave the option out",
            parameter=changed[0],
        )


def _as_preprocessing(given: Any, steps: Mapping[str, Any]) -> Preprocessing:
    if given is None:
        return Preprocessing(**steps)
    if not isinstance(given, Preprocessing):
        raise InputError(
            f"preprocessing must be a tensormend.Preprocessing, got {type(given).__name__}; for "
            "example Preprocessing(transform='log1p')"
        )
    both = [
        name
        for name, value in steps.items()
        if value is not None and not (isinstance(value, str) and value == "auto")
    ]
    if both:
        raise InputError(
            f"preprocessing= takes the place of {', '.join(both)}; give one or the other"
        )
    return given


def _as_callbacks(callback: Any) -> tuple[CompletionCallback, ...]:
    given = callback if isinstance(callback, Sequence) else [callback] * (callback is not None)
    for one in given:
        if not callable(one):
            raise InputError(
                f"callback must be a function of a CompletionProgress, or several, got {one!r}; "
                "progress=True shows a progress bar"
            )
    return tuple(given)


def _as_checkpoint(checkpoint: Any) -> Checkpoint | None:
    if checkpoint is None:
        return None
    if not isinstance(checkpoint, Checkpoint):
        return Checkpoint(checkpoint, every=1, seconds=SAVE_SECONDS)
    if checkpoint.extra is not None:
        raise InputError(
            "complete saves nothing but its own run, got a Checkpoint with extra=; leave it out"
        )
    return checkpoint
