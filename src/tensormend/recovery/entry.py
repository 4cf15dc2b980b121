"""The entry point for measurements of any kind."""

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
from tensormend.operators import Operator, Sampling
from tensormend.operators.base import check_contract
from tensormend.recovery.checkpoint import Checkpoint
from tensormend.recovery.checks import check_truth, check_validation_data, warn_about_data
from tensormend.recovery.contract import Ordered, Solver, Stepped, Targeted, traits_of
from tensormend.recovery.init import corrected_init, random_init, spectral_init
from tensormend.recovery.loop import Callback, Init, Iteration, solve
from tensormend.recovery.problem import Problem
from tensormend.recovery.registry import METHODS, make_solver
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
    y : array of shape (n_measurements,)
        The measurements.
    rank : int or sequence of int
        Multilinear rank, one int per mode or one for all (less where a mode is smaller).
    method : str or Solver, default="auto"
        ``"auto"``, ``"rgn"``, ``"rcg"``, ``"rbb"``, ``"rgd"``, ``"scaledgd"``, ``"sm-qrgd"``,
        ``"sempiht"``, ``"tiht"``, ``"shrink"``, or a solver of ``tensormend.solvers``.
    step : {"normalized", "constant"}, float or StepRule, optional
        Step of the methods that have a choice: ``"normalized"`` (the default), ``"constant"``
        (1), a number for another constant, or a rule.
    init : {"spectral", "corrected", "random"} or Tucker, optional
        Initial point: the paper's ``H(A* y)``, the diagonally corrected one, a random one, or a
        tensor; by default the method's own, which is the corrected one for ``"auto"`` and the
        paper's for the others.
    tol, xtol, truth_tol, min_delta, patience, max_iter, time_limit
        When to stop, see `StoppingCriteria`.
    truth : Tucker or array, optional
        The true tensor, if known, for the error in the history and ``truth_tol``.
    validation_data : tuple of Operator and array, optional
        An operator and measurements that the solver does not see, for the history.
    callback : callable, optional
        Called with an `Iteration` after every iteration; ends the run by returning true. The BLAS
        threads and ``numpy.errstate`` are then those of the caller.
    progress : bool, default=False
        Show a progress bar on stderr.
    checkpoint : path or Checkpoint, optional
        A file to save the run to, every 10 iterations and at the end, or a `Checkpoint`.
    resume : bool, default=False
        Continue from the checkpoint, if its file exists, with the other arguments as they were:
        bit for bit on the machine that saved it, to rounding on another, which the notes then
        say.
    rng : int or numpy.random.Generator, optional
        Seed or generator of the random initial point.
    threads : int, optional
        Threads of the kernels, all cores by default.
    measurement_dtype : data type, optional
        Type to round the measurements to, as ``numpy.float32`` for float64, while iterates and
        sums keep theirs and indices take 16 bits where they fit: half the memory, for data that
        are not exact to seven digits anyway.

    Returns
    -------
    Result
        With ``x``, ``status``, ``success``, ``message``, ``n_iter``, ``seconds``, ``loss``,
        ``history`` and ``notes``. ``success`` means that a stopping criterion was met (residual,
        relative change, end of the path), not that missing entries are accurate.

    Raises
    ------
    InputError
        If an argument cannot be used.
    CheckpointError
        If the checkpoint belongs to another run.

    Examples
    --------
    >>> import tensormend as tm
    >>> truth = tm.simulate.random_tucker((20, 30, 40), 2, rng=0)
    >>> operator = tm.Sampling((20, 30, 40), tm.simulate.sample_indices((20, 30, 40), 0.3, rng=1))
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
    if not isinstance(method, str):
        if isinstance(method, type) or not hasattr(method, "init"):
            raise InputError(
                f"method must be one of {', '.join(METHODS)}, or a solver such as "
                f"tensormend.solvers.{METHODS['sm-qrgd'].class_name}(), got {method!r}"
            )
        if step is not None:
            raise InputError("step belongs to the solver; set it there")
        return method
    solver: Solver[Any] = make_solver(method)
    if step is not None:
        rule = as_step(step)
        if not isinstance(solver, Stepped):
            raise InputError(
                f"method {method!r} has no choice of step; leave it out, or name a method that "
                "has it"
            )
        solver = replace(solver, step_rule=rule)  # type: ignore[type-var]
    if isinstance(solver, Targeted):
        # where the true error decides, the residual must not
        return solver.with_target(stop.tol if stop.truth_tol is None else 0.0)
    return solver


def _arrangement(solver: Solver[Any], problem: Problem) -> tuple[int, ...]:
    """Choose the tree order in which sampled entries are stored, the lead mode last."""
    if isinstance(solver, Ordered):
        lead, *others = solver.modes(problem)
        return (*sorted(others), lead)
    operator = problem.operator
    stored = operator.fibres.modes if isinstance(operator, Sampling) else None
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
