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
SAVE_SECONDS = 5.0  # between saves, if the checkpoint is given as a path

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
    """Fill in the missing entries of a tensor.

    With ``rank="auto"`` the model is selected: a validation set that imitates the pattern of
    missing entries is held out, a regularization path and, where the error suggests exact low
    rank, increasing Tucker ranks are compared on it, and the selected model is refitted to all
    observed entries. With a given rank a Tucker tensor of that rank is fitted.

    Parameters
    ----------
    data : array_like, TensorData, DataArray, Series, DataFrame or sparse.COO
        The data, in one of these forms:

        * array or ``xarray.DataArray``: missing entries are NaN, or False in ``observed``;
        * ``numpy.ma`` array: missing entries are masked;
        * vector of values with ``indices`` and ``shape``;
        * pandas Series with a MultiIndex, or DataFrame in long form: missing entries are absent
          or NaN;
        * ``sparse.COO``: the stored entries are observed;
        * `TensorData`, as `load` returns it: missing entries are NaN, False in its
          ``observed``, or not listed in its ``indices``.
    rank : "auto", int or sequence of int, default="auto"
        Multilinear rank, one int per mode, or one for all modes (reduced where a mode is
        smaller). ``"auto"`` selects a model on held-out entries.
    observed : array_like of bool, default=None
        True where ``data`` is observed; same shape as ``data``. Values at other entries are
        ignored.
    indices : array_like of int of shape (m, d), default=None
        Indices of the values, if ``data`` is a vector of ``m`` values.
    shape : sequence of int, default=None
        Shape of the tensor. Required with ``indices``.
    modes : sequence of labels, default=None
        Columns of a DataFrame that hold the labels of the modes, in the order of the modes; by
        default all columns but that of the values.
    value_column : label, default=None
        Column of a DataFrame that holds the values; by default the last one.
    model : {"auto", "shrinkage", "tucker"}, default="auto"
        Models that ``rank="auto"`` compares: ``"shrinkage"`` of the singular values of all
        unfoldings, ``"tucker"`` tensors of increasing rank, or both.
    method : str or Solver, default="auto"
        Algorithm for a given rank: a name such as ``"rgn"`` or ``"sm-qrgd"``, or an instance of
        a class in ``tensormend.solvers``. `recover` lists the names.
    step : {"normalized", "constant"}, float or StepRule, default=None
        Step rule for a given rank, for the methods that have one; ``None`` is the default of
        the method.
    init : {"corrected", "spectral", "random"} or Tucker, default=None
        Initial estimate for a given rank; ``None`` is ``"corrected"``. A `Tucker` tensor is
        accepted only if values are neither transformed, centred nor standardized, because the
        fit is in other units otherwise.
    center : {"auto", "mean", "all"}, sequence of int or None, default="auto"
        What to subtract before the fit: the grand mean (``"mean"``), the grand mean and an
        effect for every slice of all modes (``"all"``) or of the modes given, or nothing
        (``None``). ``"auto"`` follows the model: nothing for a Tucker model, of selected or given
        rank; for shrinkage the grand mean and, if they lower the held-out error, effects. See the
        notes of `Preprocessing`.
    standardize : int, default=None
        Mode whose slices are divided by their standard deviations.
    transform : {"log1p"}, default=None
        Function applied to the values before the fit and inverted after it; ``"log1p"`` suits
        counts over several orders of magnitude.
    clip : pair of float or None, default=None
        Smallest and largest value that may be filled in, rounded to the data type of the values;
        ``None`` on a side is no bound.
    preprocessing : Preprocessing, default=None
        ``transform``, ``center``, ``standardize`` and ``clip`` in one object. They cannot be
        given beside it.
    validation_fraction : float, default=None
        Fraction of the observed entries to hold out. With ``rank="auto"`` at most 0.5, and
        ``None`` is 0.1. With a given rank held-out entries are not fitted, and ``None`` holds
        out nothing, so that the error of imputed values is not assessed.
    validation_data : pair of array_like, default=None
        Indices of shape ``(m, d)`` and ``m`` values of further entries, on which a fit of given
        rank is assessed. Not together with ``validation_fraction``.
    tol : float, default=1e-6
        Relative residual at which a fit of given rank stops.
    xtol : float, default=None
        Relative change of the iterates at which a fit of given rank stops; ``None`` is
        ``tol / 100``.
    min_delta : float, default=1e-6
        A fit of given rank stops if the best loss has decreased by less than this fraction over
        the last ``patience`` iterations.
    patience : int, default=50
        Number of iterations over which ``min_delta`` is measured.
    max_iter : int, default=500
        Maximum number of iterations of a fit of given rank.
    time_limit : float, default=None
        Limit of the run time in seconds. A search ends after 70% of it, and the best model so
        far is refitted; every fit stops in time. ``None`` is no limit.
    memory_limit : float, default=None
        Limit of the memory in bytes; ``None`` is the memory available. A run that needs more, by
        `estimate_cost`, is refused before it starts.
    rng : int or numpy.random.Generator, default=None
        Seed or generator of the held-out entries and of random initial estimates. Pass an int
        for reproducible results.
    threads : int, default=None
        Number of threads of the compiled kernels; ``None`` is all cores. The result does not
        depend on it.
    measurement_dtype : dtype, default=None
        Data type that the values are rounded to and stored in during a fit of given rank, such
        as ``numpy.float32`` to halve their memory; iterates keep the data type of the data.
    callback : callable or sequence of callables, default=None
        Called with a `CompletionProgress` after every iteration and every comparison of models.
        Returning true ends the search (the best model so far is then refitted) or, during the
        final fit, the fit.
    progress : bool, default=False
        Whether to show a progress bar on stderr, if it is a terminal.
    checkpoint : path or Checkpoint, default=None
        Folder to save the run in, created if it does not exist: every 5 seconds, or as often as
        a `Checkpoint` says. One run at a time may use a folder.
    resume : bool, default=False
        Whether to continue the run saved in ``checkpoint``; without one the run begins. All
        arguments must be the same, except ``time_limit``, which counts anew, and ``threads``.
        The result is identical to that of an uninterrupted run on the same machine, and equal to
        rounding on another.

    Returns
    -------
    Completion
        Result with the attributes

        * ``data``: the completed data, in the type that was given, observed entries unchanged;
          ``result[...]``, ``sel``, ``isel`` and ``entries`` evaluate parts of it;
        * ``trust``: estimated error of the imputed values and a verdict, see `Trust`;
        * ``trials`` and ``best_trial``: the models compared and the selected one, see `Trial`
          (empty and None with a given rank);
        * ``status``, ``success``, ``message``, ``rank`` and ``notes`` of the final fit;
        * ``fit``: the final fit, a `Result`; its ``x`` models the preprocessed values;
        * ``n_iter`` and ``seconds``: iterations of all fits, and the time of the whole run.

    Raises
    ------
    InputError
        If an argument is not valid, or cannot be used together with the others: options of a
        single fit (``method``, ``step``, ``init``, ``tol``, ``xtol``, ``min_delta``,
        ``patience``, ``max_iter``, ``measurement_dtype``, ``validation_data``) require a rank.
    MemoryLimitError
        If the run needs more memory than ``memory_limit``, or than is available.
    CheckpointError
        If ``checkpoint`` holds another run, or is in use.

    Warns
    -----
    DataWarning
        If slices have no observed entry, or there are fewer observed entries than degrees of
        freedom of a given rank.
    CheckpointWarning
        If a checkpoint cannot be saved; the run continues.

    See Also
    --------
    estimate_cost : Memory and time of a completion, before it is run.
    inspect : Describe data with missing entries, and try ranks.
    recover : Recover a tensor from any linear measurements.

    Notes
    -----
    The selection by ``rank="auto"`` has four steps.

    1. Entries are held out in the pattern of the missing ones: single entries, whole fibres, or
       both. Small data are split into several folds.
    2. Shrinkage of decreasing strength is fitted. The largest strength is selected whose held-out
       error exceeds the smallest by no more than the standard error of the difference, and by no
       more than 1%; then the strengths of single modes are adjusted.
    3. If the held-out error is small, the data may be of exactly low rank: Tucker ranks are
       increased from 1 as long as the held-out error decreases.
    4. The selected model is fitted to all observed entries.

    Errors in ``trust`` come from the predictions of step 2 or 3, which did not use the held-out
    entries.

    Examples
    --------
    >>> import tensormend as tm
    >>> truth = tm.simulate.random_tucker((20, 20, 20), 2, rng=0).todense()
    >>> data = np.where(np.random.default_rng(1).random(truth.shape) < 0.4, truth, np.nan)
    >>> result = tm.complete(data, rng=0)
    >>> bool(np.allclose(result.data, truth)), result.rank, result.trust.verdict.name
    (True, (2, 2, 2), 'RELIABLE')

    With a given rank, and a tenth of the observed entries held out:

    >>> result = tm.complete(data, rank=2, validation_fraction=0.1, rng=0)
    >>> result.status.name, bool(result.trust.relative_error < 1e-4)
    ('CONVERGED', True)
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
    """Estimate the memory and time that `complete` takes with the same arguments.

    Parameters
    ----------
    data : array_like, TensorData, DataArray, Series, DataFrame or sparse.COO
        The data, in any form that `complete` takes.
    rank : "auto", int or sequence of int, default="auto"
        Multilinear rank, one int per mode or one for all modes; ``"auto"`` estimates the cost of
        selecting a model.
    observed : array_like of bool, default=None
        True where ``data`` is observed.
    indices : array_like of int of shape (m, d), default=None
        Indices of the values, if ``data`` is a vector of ``m`` values.
    shape : sequence of int, default=None
        Shape of the tensor. Required with ``indices``.
    modes : sequence of labels, default=None
        Columns of a DataFrame that hold the labels of the modes; by default all columns but that
        of the values.
    value_column : label, default=None
        Column of a DataFrame that holds the values; by default the last one.
    model : {"auto", "shrinkage", "tucker"}, default="auto"
        Models that ``rank="auto"`` compares. The estimate is that of shrinkage, which costs
        more than Tucker ranks do.
    method : str or Solver, default="auto"
        Algorithm for a given rank, as for `recover`.
    threads : int, default=None
        Number of threads of the compiled kernels; ``None`` is all cores.

    Returns
    -------
    Cost
        Memory in ``bytes``, time in ``seconds``, and both in a sentence, ``str(cost)``.

    Raises
    ------
    InputError
        If the data or an argument are not valid.

    See Also
    --------
    complete : Its ``memory_limit`` is compared with this estimate.

    Notes
    -----
    Memory is counted array by array. Time is a model scaled by the measured speed of the
    machine, for one or two folds of a search; small data with whole fibres missing, which are
    split into up to five folds, and hypersparse data take longer.

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
    """Refuse options that cannot be used together."""
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
            f"rank must be 'auto', one int or one per mode, got {rank!r}; for example rank=5",
            parameter="rank",
        )
    changed = options.changed()
    if "method" in changed:
        raise InputError(
            f"method={options.method!r} needs a rank; give one, or use model= to choose what is "
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
            "checkpoint must have no extra= in complete, got one that has; leave it out"
        )
    return checkpoint
