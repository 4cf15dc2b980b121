"""Checks of what `recover` is given, and warnings about what data cannot determine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensormend.core.algebra import Array, norm
from tensormend.core.tucker import Tucker, degrees_of_freedom
from tensormend.errors import DataWarning, InputError, warn_user
from tensormend.operators import Operator
from tensormend.recovery.contract import Solver, traits_of
from tensormend.recovery.problem import Problem

__all__ = ["check_truth", "check_validation_data", "warn_about_data", "warn_about_unobserved"]

N_NAMED = 5  # slices that a warning names


def check_truth(truth: Tucker | Array | None, problem: Problem) -> Tucker | Array | None:
    """Return the true tensor, or say what is wrong with it."""
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


def check_validation_data(validation_data: tuple[Operator, Array] | None, problem: Problem) -> None:
    """Refuse what is not an operator and its measurements."""
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


def warn_about_data(problem: Problem, solver: Solver[Any]) -> None:
    """Say what the measurements cannot determine."""
    needed = degrees_of_freedom(problem.shape, problem.rank)
    if problem.operator.n_measurements < needed and not traits_of(solver).allows_underdetermined:
        warn_user(
            f"{problem.operator.n_measurements} measurements cannot determine a tensor of shape "
            f"{problem.shape} and rank {problem.rank}, which has {needed} degrees of freedom; "
            "lower the rank or measure more",
            DataWarning,
        )
    unmeasured = [problem.operator.unmeasured(k) for k in range(len(problem.shape))]
    warn_about_unobserved(problem.shape, unmeasured, problem.operator.describe, "arbitrary")


def warn_about_unobserved(
    shape: Sequence[int],
    unobserved: Sequence[Array],
    describe: Callable[[int, Sequence[int]], tuple[str, str]],
    what: str,
) -> None:
    """Name the slices of each mode without any observation, and what is filled in there."""
    for k, (n, empty) in enumerate(zip(shape, unobserved, strict=True)):
        if len(empty):
            mode, shown = describe(k, empty[:N_NAMED].tolist())
            more = ", ..." if len(empty) > N_NAMED else ""
            warn_user(
                f"{mode} has no observation at all at {shown}{more} ({len(empty)} of {n}); "
                f"what is filled in there is {what}",
                DataWarning,
            )
