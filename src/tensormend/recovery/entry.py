"""The entry point `recover`, for measurements by any operator."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from tensormend.core.algebra import Array, as_rank
from tensormend.core.fibres import choose_modes
from tensormend.core.progress import progress_bar
from tensormend.core.tucker import Tucker
from tensormend.errors import InputError
from tensormend.operators import Operator
from tensormend.operators.base import check_contract
from tensormend.recovery.checkpoint import Checkpoint
from tensormend.recovery.checks import check_truth, check_validation_data, warn_about_data
from tensormend.recovery.contract import Ordered, Solver, Stepped, Targeted, traits_of
from tensormend.recovery.init import corrected_init, random_init, spectral_init
from tensormend.recovery.loop import Callback, Init, Iteration, solve
from tensormend.recovery.problem import Problem
from tensormend.recovery.registry import as_solver
from tensormend.recovery.result import Result
from tensormend.recovery.steps import StepRule, as_step
from tensormend.recovery.stopping import StoppingCriteria

__all__ = ["recover"]

INITS = ("spectral", "corrected", "random")


def recover(
    operator: Operator,
    y: Any,
    rank: int | Sequence[int],
    *,
    method: str | Solver[Any] = "auto",
    step: str | float | StepRule | None = None,
    init: str | Tucker | None = None,
    tol: float = 1e-6,
    xtol: float | None = None,
    truth_tol: float | None = None,
    min_delta: float = 1e-6,
    patience: int = 50,
    max_iter: int = 500,
    time_limit: float | None = None,
    truth: Tucker | Array | None = None,
    validation_data: tuple[Operator, Array] | None = None,
    callback: Callback | None = None,
    progress: bool = False,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    resume: bool = False,
    rng: int | np.random.Generator | None = None,
    threads: int | None = None,
    measurement_dtype: Any = None,
) -> Result:
    """Recover a tensor of low multilinear rank from ``y = A(T) + noise``.

    Parameters
    ----------
    operator : Operator
        The measurement operator ``A``.
    y : array_like of shape (n_measurements,)
        The measurements, real or complex, finite and not all zero.
    rank : int or sequence of int
        Multilinear rank of the tensor sought, one int per mode. A single int holds for all modes
        and is lowered where a mode is smaller.
    method : str or Solver, default="auto"
        The algorithm: ``"auto"``, ``"rgn"``, ``"rcg"``, ``"rbb"``, ``"rgd"``, ``"scaledgd"``,
        ``"sm-qrgd"``, ``"sempiht"``, ``"tiht"``, ``"shrink"``, or a solver such as those in
        ``tensormend.solvers``.
    step : {"normalized", "constant"}, float or StepRule, optional
        Step size of ``"rgd"``, ``"scaledgd"``, ``"sm-qrgd"``, ``"sempiht"`` and ``"tiht"``:
        ``"normalized"`` (the default), ``"constant"`` (1), a number for another constant, or a
        rule. A solver passed as `method` has its own.
    init : {"spectral", "corrected", "random"} or Tucker, optional
        Initial estimate: the truncation ``H_r(A* y)``, the same with factors corrected for the
        pattern of sampled entries, a random tensor, or a tensor of at least the rank. By default
        ``"corrected"`` for ``"auto"`` and ``"spectral"`` for the other methods.
    tol : float, default=1e-6
        Relative residual ``||A(x) - y|| / ||y||`` at which the run has converged.
    xtol : float, optional
        Relative change between iterates at which the run has converged, ``tol / 100`` by default.
    truth_tol : float, optional
        Relative error ``||x - truth|| / ||truth||`` at which the run has converged; needs `truth`.
    min_delta : float, default=1e-6
        The run has stalled if the best loss fell by less than this fraction within `patience`
        iterations.
    patience : int, default=50
        Number of iterations for `min_delta`.
    max_iter : int, default=500
        Maximum number of iterations.
    time_limit : float, optional
        Maximum wall-clock time in seconds, including preparation and, with `resume`, the time of
        the interrupted run.
    truth : Tucker or array_like, optional
        The true tensor, where it is known: its distance is recorded in the history.
    validation_data : tuple of Operator and ndarray, optional
        An operator and its measurements, not used by the fit: their relative residual is recorded
        in the history.
    callback : callable, optional
        Called with an `Iteration` after every iteration. Returning true ends the run.
    progress : bool, default=False
        Show a progress bar on stderr.
    checkpoint : str, PathLike or Checkpoint, optional
        File that the run is saved to every 10 iterations and at its end; a `Checkpoint` sets
        other intervals.
    resume : bool, default=False
        Continue from the file of `checkpoint`, if it exists. Operator, measurements, rank, method
        and step must be those of the interrupted run, and for ``"auto"`` and ``"rgn"`` also
        `tol`; limits may be raised.
    rng : int or numpy.random.Generator, optional
        Seed or generator for ``init="random"``.
    threads : int, optional
        Number of threads of the kernels; all cores by default.
    measurement_dtype : dtype, optional
        Data type to store the measurements in, such as ``numpy.float32`` for float64 data, which
        halves the memory. Measurements are rounded to it; iterates and sums keep their precision.

    Returns
    -------
    Result
        The recovered tensor ``x`` with ``status``, ``success``, ``message``, ``n_iter``,
        ``seconds``, ``loss``, ``history`` and ``notes``. ``success`` means that the run converged
        or came to the end of its regularization path, not that missing entries are accurate.

    Raises
    ------
    InputError
        If `operator` is not an `Operator`, an argument is out of range, shapes do not match,
        `truth_tol` is given without `truth`, or `resume` without `checkpoint`.
    CheckpointError
        If the checkpoint to resume cannot be read or belongs to another run.
    MemoryLimitError
        If an array that the method or the operator needs would be too large: ``"sm-qrgd"`` and
        ``"sempiht"`` need one row per fibre of the tensor.

    Warns
    -----
    DataWarning
        If there are fewer measurements than degrees of freedom, or slices without any
        observation.
    CheckpointWarning
        If a checkpoint cannot be saved; the run continues.

    See Also
    --------
    tensormend.complete : Fill in missing entries of an array or table, without giving a rank.
    tensormend.solve : Run a solver on a `Problem`.
    tensormend.StoppingCriteria : The stopping criteria in the order in which they are tested.

    Notes
    -----
    The methods minimize the loss ``||A(x) - y||^2 / 2`` over the tensors ``x`` of multilinear rank
    at most ``rank``; ``"shrink"`` adds a penalty on weak singular directions. Each class in
    ``tensormend.solvers`` has its formula and reference.

    On the machine that saved it, a resumed run equals an uninterrupted one bit for bit; on another
    machine it does up to rounding, and ``result.notes`` says so.

    While a solver computes, BLAS uses one thread in the whole process and NumPy does not warn of
    overflow and invalid values; a callback runs with the settings of the caller.

    Examples
    --------
    >>> import tensormend as tm
    >>> truth = tm.simulate.random_tucker((20, 30, 40), 2, rng=0)
    >>> operator = tm.Sampling(truth.shape, tm.simulate.sample_indices(truth.shape, 0.3, rng=1))
    >>> result = tm.recover(operator, operator.forward(truth), rank=2, method="sm-qrgd", tol=1e-9)
    >>> result.success, bool(result.x.distance(truth) < 1e-7 * truth.norm())
    (True, True)
    """
    clock = time.perf_counter()
    check_contract(operator)
    problem = Problem(operator, y, as_rank(rank, operator.tensor_shape))
    stop = StoppingCriteria(tol, xtol, truth_tol, min_delta, patience, max_iter, time_limit)
    solver = _make_solver(method, step, stop)
    x0 = _make_init(init, solver, problem, rng)
    truth = check_truth(truth, problem)
    check_validation_data(validation_data, problem)
    warn_about_data(problem, solver)
    problem = problem.arranged(_arrangement(solver, problem), threads)
    if measurement_dtype is not None:
        problem = problem.with_measurement_dtype(measurement_dtype)
    with progress_bar() if progress else nullcontext() as show:
        return solve(
            problem,
            solver,
            x0,
            stop=stop,
            truth=truth,
            validation_data=validation_data,
            callback=callback if show is None else _shown(callback, show, max_iter),
            checkpoint=_as_checkpoint(checkpoint),
            resume=resume,
            spent=time.perf_counter() - clock,
        )


def _shown(
    callback: Callback | None, show: Callable[[str, float, str], None], max_iter: int
) -> Callback:
    """Return a callback that moves the progress bar and calls the user's, if there is one."""

    def call(now: Iteration) -> bool | None:
        text = f"iteration {now.n_iter}, residual {now.record.residual:.3g}"
        show("fit", now.n_iter / max_iter, text)
        return None if callback is None else callback(now)

    return call


# settings


def _make_solver(
    method: str | Solver[Any],
    step: str | float | StepRule | None,
    stop: StoppingCriteria,
) -> Solver[Any]:
    solver: Solver[Any] = as_solver(method)
    if not isinstance(method, str):
        if step is not None:
            raise InputError(
                f"step must be None where method is a solver, got {step!r}; set the step rule of "
                "the solver"
            )
        return solver
    if step is not None:
        rule = as_step(step)
        if not isinstance(solver, Stepped):
            raise InputError(
                f"method {method!r} has no choice of step; leave it out, or name a method that "
                "has it"
            )
        solver = replace(solver, step_rule=rule)  # type: ignore[type-var]
    if isinstance(solver, Targeted):
        # with truth_tol the error ends the run, so no residual is small enough
        return solver.with_target(stop.tol if stop.truth_tol is None else 0.0)
    return solver


def _arrangement(solver: Solver[Any], problem: Problem) -> tuple[int, ...]:
    """Choose the order of the modes in which sampled entries are stored, the leaf mode last."""
    if isinstance(solver, Ordered):
        first, *others = solver.modes(problem)
        return (*sorted(others), first)
    operator = problem.operator
    stored = operator.storage_order
    return choose_modes(problem.shape, problem.rank, operator.n_measurements, stored)


def _as_checkpoint(
    checkpoint: str | os.PathLike[str] | Checkpoint | None,
) -> Checkpoint | None:
    if checkpoint is None or isinstance(checkpoint, Checkpoint):
        return checkpoint
    return Checkpoint(checkpoint)


def _make_init(
    init: str | Tucker | None,
    solver: Solver[Any],
    problem: Problem,
    rng: int | np.random.Generator | None,
) -> Tucker | Init | None:
    if init is None:
        return None
    if isinstance(init, Tucker):
        if init.shape != problem.shape or any(
            s < r for s, r in zip(init.rank, problem.rank, strict=True)
        ):
            raise InputError(
                f"init must have shape {problem.shape} and at least rank {problem.rank}, got {init}"
            )
        if init.dtype.kind == "c" and problem.dtype.kind != "c":
            raise InputError("a complex init needs complex measurements; take its real part")
        if not all(np.isfinite(array).all() for array in init.as_arrays().values()):
            raise InputError("init must be finite, got NaN or infinite numbers")
        return init.astype(problem.dtype)
    if not isinstance(init, str) or init not in INITS:
        raise InputError(f"init must be one of {', '.join(INITS)}, or a Tucker, got {init!r}")
    if init == traits_of(solver).default_init:
        return None
    if init == "random":
        return lambda inside: random_init(inside, rng)
    return corrected_init if init == "corrected" else spectral_init
