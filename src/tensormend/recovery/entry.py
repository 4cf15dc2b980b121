"""The front door for measurements of any kind."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from tensormend.core.algebra import Array, as_rank, norm
from tensormend.core.fibres import choose_modes
from tensormend.core.tucker import Tucker, degrees_of_freedom
from tensormend.errors import DataWarning, InputError, warn_user
from tensormend.operators import Operator, Sampling
from tensormend.recovery.checkpoint import Checkpoint
from tensormend.recovery.contract import Ordered, Solver
from tensormend.recovery.init import corrected_init, random_init, spectral_init
from tensormend.recovery.loop import Callback, Init, solve
from tensormend.recovery.problem import Problem
from tensormend.recovery.result import Result
from tensormend.recovery.solvers import (
    RBB,
    RCG,
    RGD,
    RGN,
    SMQRGD,
    TIHT,
    Auto,
    ScaledGD,
    SeMPIHT,
    Shrink,
)
from tensormend.recovery.steps import StepRule, as_step
from tensormend.recovery.stopping import StoppingCriteria

__all__ = ["METHODS", "recover", "warn_about_unseen"]

METHODS: dict[str, Any] = {
    cls.name: cls for cls in (Auto, SMQRGD, RGD, SeMPIHT, TIHT, RBB, RCG, RGN, ScaledGD, Shrink)
}
"""Solver classes by the name that `recover` and `complete` take."""

INITS = ("spectral", "corrected", "random")
N_NAMED = 5  # slices that a warning names


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
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    resume: bool = False,
    rng: int | np.random.Generator | None = None,
    threads: int | None = None,
    measurement_dtype: Any = None,
) -> Result:
    """Recover a tensor of low multilinear rank from ``y = A(T) + noise``.

    Parameters
    ----------
    operator : the measurement operator ``A``
    y : the measurements, one per row of the operator
    rank : multilinear rank, one int per mode or one for all (less where a mode has less room)
    method : ``"auto"`` (see `Auto` for its rule), ``"rgd"``, ``"rbb"``, ``"rcg"``,
        ``"rgn"``, ``"scaledgd"``, ``"sm-qrgd"``, ``"sempiht"``, ``"tiht"``, ``"shrink"`` (no cut at
        the rank but shrinkage within it, see `Shrink`), or a solver
    step : ``"normalized"`` (the default), ``"constant"`` (1), a number for another constant, or a
        step rule, for the methods that have a choice
    init : ``"spectral"`` (the paper's ``H(A* y)``), ``"corrected"``, ``"random"``, or a tensor;
        by default the method's own, which is the corrected one for ``"auto"`` and the paper's for
        the others
    tol, xtol, truth_tol, min_delta, patience, max_iter, time_limit : when to stop, see
        `StoppingCriteria`
    truth : the true tensor, if known, for the error column of the history and ``truth_tol``
    validation_data : an operator and measurements kept from the solver, for the history
    callback : called with an `Iteration` after every iteration; returning true ends the run
    checkpoint : a path to save the run to, every 10 iterations and at the end, or a `Checkpoint`
    resume : continue from the checkpoint, if its file exists, with the other arguments as they
        were: bit for bit on the machine that saved it, to rounding on another, which the notes
        then say
    rng : generator or seed of the random initial point
    threads : threads of the kernels, all cores by default
    measurement_dtype : data type to round the measurements to, as ``numpy.float32`` for float64,
        while iterates and sums keep theirs, and indices take 16 bits where they fit: half the
        memory, for data that are not exact to seven digits anyway

    Returns
    -------
    Result
        with ``x``, ``status``, ``success``, ``message``, ``n_iter``, ``seconds``, ``loss``,
        ``history`` and ``notes``.

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
    if not isinstance(operator, Operator):
        raise InputError(
            f"operator must be a tensormend Operator, got {type(operator).__name__}; "
            "wrap a matrix as tensormend.MatrixOperator(matrix, shape)"
        )
    problem = Problem(operator, y, as_rank(rank, operator.tensor_shape))
    stop = StoppingCriteria(tol, xtol, truth_tol, min_delta, patience, max_iter, time_limit)
    solver = _make_solver(method, step, problem, stop)
    x0 = _make_init(init, solver, problem, rng)
    truth = _check_truth(truth, problem)
    _check_validation_data(validation_data, problem)
    _warn_about_data(problem, solver)
    problem = problem.arranged(_arrangement(solver, problem), threads)
    if measurement_dtype is not None:
        problem = problem.with_measurement_dtype(measurement_dtype)
    return solve(
        problem,
        solver,
        x0,
        stop=stop,
        truth=truth,
        validation_data=validation_data,
        callback=callback,
        checkpoint=_as_checkpoint(checkpoint),
        resume=resume,
        spent=time.perf_counter() - clock,
    )


# settings


def _make_solver(
    method: str | Solver[Any],
    step: str | float | StepRule | None,
    problem: Problem,
    stop: StoppingCriteria,
) -> Solver[Any]:
    if not isinstance(method, str):
        if isinstance(method, type) or not hasattr(method, "init"):
            raise InputError(
                f"method must be one of {', '.join(METHODS)}, or a solver such as SMQRGD(), got "
                f"{method!r}"
            )
        if step is not None:
            raise InputError("step belongs to the solver; set it there")
        return method
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, or a solver, got {method!r}")
    options: dict[str, Any] = {}
    if step is not None:
        options["step_rule"] = as_step(step)
    allowed = {f.name for f in fields(METHODS[method])}
    if not options.keys() <= allowed:
        raise InputError(
            f"method {method!r} has no choice of step; leave it out, or name a method that has it"
        )
    # what is to be reached; where the true error decides, the residual must not
    target = stop.tol if stop.truth_tol is None else 0.0
    if METHODS[method] is Auto:
        return Auto(RGN(target=target), RCG())
    if METHODS[method] is RGN:
        options["target"] = target
    solver: Solver[Any] = METHODS[method](**options)
    if isinstance(solver, Ordered):
        solver.modes(problem)  # refuses what does not fit
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
    if init == "corrected":
        return None if isinstance(solver, Auto) else corrected_init
    if init == "random":
        return lambda inside: random_init(inside, rng)
    return spectral_init if isinstance(solver, Auto) else None


def _check_truth(truth: Tucker | Array | None, problem: Problem) -> Tucker | Array | None:
    if truth is None:
        return None
    if not isinstance(truth, Tucker):
        truth = np.asarray(truth)
    if truth.shape != problem.shape:
        raise InputError(f"truth must have shape {problem.shape}, got {truth.shape}")
    size = truth.norm() if isinstance(truth, Tucker) else norm(truth)
    if not (np.isfinite(size) and size > 0):
        raise InputError("truth must be finite and not all zero, or left out")
    return truth


def _check_validation_data(
    validation_data: tuple[Operator, Array] | None, problem: Problem
) -> None:
    if validation_data is None:
        return
    if (
        not isinstance(validation_data, tuple)
        or len(validation_data) != 2
        or not isinstance(validation_data[0], Operator)
    ):
        raise InputError(
            "validation_data must be a pair of an operator and its measurements, got "
            f"{validation_data!r}; "
            "complete also takes a fraction of the observed entries"
        )
    operator, y = validation_data
    if operator.tensor_shape != problem.shape or np.shape(y) != (operator.n_measurements,):
        raise InputError(
            f"validation_data must be an operator on tensors of shape {problem.shape} and its "
            f"measurements, got shape {operator.tensor_shape} and {np.shape(y)} measurements"
        )
    if not (np.isfinite(y).all() and np.any(y)):
        raise InputError("held-out measurements must be finite and not all zero")


def _warn_about_data(problem: Problem, solver: Solver[Any]) -> None:
    """Say what the measurements cannot determine."""
    needed = degrees_of_freedom(problem.shape, problem.rank)
    if problem.operator.n_measurements < needed and not isinstance(solver, Shrink):
        warn_user(
            f"{problem.operator.n_measurements} measurements cannot determine a tensor of shape "
            f"{problem.shape} and rank {problem.rank}, which has {needed} degrees of freedom; "
            "lower the rank or measure more",
            DataWarning,
        )
    if not isinstance(problem.operator, Sampling):
        return
    unseen = [problem.operator.fibres.unseen(k) for k in range(len(problem.shape))]
    warn_about_unseen(problem.shape, unseen, problem.operator.describe, "arbitrary")


def warn_about_unseen(
    shape: Sequence[int],
    unseen: Sequence[Array],
    describe: Callable[[int, Sequence[int]], tuple[str, str]],
    what: str,
) -> None:
    """Name the slices of each mode without any observation, and what is filled in there."""
    for k, (n, empty) in enumerate(zip(shape, unseen, strict=True)):
        if len(empty):
            mode, shown = describe(k, empty[:N_NAMED].tolist())
            more = ", ..." if len(empty) > N_NAMED else ""
            warn_user(
                f"{mode} has no observation at all at {shown}{more} ({len(empty)} of {n}); "
                f"what is filled in there is {what}",
                DataWarning,
            )
