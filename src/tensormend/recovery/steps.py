"""Step sizes: constant, and the normalized step of the paper."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from tensormend.core.algebra import check_number
from tensormend.errors import InputError

ROUNDING = 100  # a projection below this many eps of what was projected is rounding

__all__ = [
    "ConstantStep",
    "NormalizedStep",
    "StepRule",
    "as_step",
    "backtrack",
    "exact_step",
    "rounding_level",
]


class StepRule(Protocol):
    """A rule for the step along a direction ``d``.

    ``squared_norm()`` returns ``||d||^2``, ``measured_squared_norm()`` returns ``||A(d)||^2``; they
    are computed only if called. A direction with a norm of at most ``rounding`` is rounding error.
    """

    def __call__(
        self,
        squared_norm: Callable[[], float],
        measured_squared_norm: Callable[[], float],
        rounding: float,
    ) -> float:
        """Return the step size."""
        ...


@dataclass(frozen=True)
class ConstantStep:
    """The same step in every iteration, 1 in the paper.

    Parameters
    ----------
    value : float, default=1.0
        The step size, positive.

    Raises
    ------
    InputError
        If the step is not a positive number.
    """

    value: float = 1.0

    def __post_init__(self) -> None:
        check_number(
            "a constant step", self.value, "a positive number", lambda value: 0 < value < math.inf
        )

    def __call__(
        self,
        squared_norm: Callable[[], float],
        measured_squared_norm: Callable[[], float],
        rounding: float,
    ) -> float:
        """Return the value."""
        del squared_norm, measured_squared_norm, rounding
        return float(self.value)


@dataclass(frozen=True)
class NormalizedStep:
    """The exact minimizer along the direction: ``||d||^2 / ||A(d)||^2``.

    The direction is ``P(G)`` in the tangent space of the method, ``F(G)`` for hard thresholding.
    """

    def __call__(
        self,
        squared_norm: Callable[[], float],
        measured_squared_norm: Callable[[], float],
        rounding: float,
    ) -> float:
        """Return the ratio, or 1 where the direction is rounding or the operator is blind to it."""
        return exact_step(squared_norm(), measured_squared_norm(), rounding)


def exact_step(slope: float, measured_squared_norm: float, rounding: float) -> float:
    """Compute the step ``slope / measured_squared_norm`` that minimizes the loss along a direction.

    Where the direction is rounding, or the operator is blind to it, the ratio means nothing and 1
    is returned.

    Parameters
    ----------
    slope : float
        Inner product of the direction with the negative gradient.
    measured_squared_norm : float
        ``||A(d)||^2`` of the direction.
    rounding : float
        Norm up to which the direction is rounding.

    Returns
    -------
    float
        Step size.
    """
    return (
        slope / measured_squared_norm if measured_squared_norm > 0 and slope > rounding**2 else 1.0
    )


class Evaluated(Protocol):
    """A point whose loss is known."""

    @property
    def loss(self) -> float:
        """Its loss."""


E = TypeVar("E", bound=Evaluated)


def backtrack(
    evaluate: Callable[[float], E], step: float, limit: float, *, max_trials: int, factor: float
) -> E:
    """Shorten a step until the loss does not exceed a limit.

    Parameters
    ----------
    evaluate : callable
        Returns the point at a step size.
    step : float
        First step size.
    limit : float
        Largest loss allowed; NaN, which the loop looks for itself, passes.
    max_trials : int
        Number of step sizes tried.
    factor : float
        What the step is divided by each time.

    Returns
    -------
    E
        The first point whose loss is allowed, or the last one tried.
    """
    for _ in range(max_trials):
        point = evaluate(step)
        if not point.loss > limit:
            break
        step /= factor
    return point


def rounding_level(gradient_norm: float, dtype: Any) -> float:
    """Compute the norm up to which a projection of a gradient is rounding.

    Parameters
    ----------
    gradient_norm : float
        Norm of the gradient before the projection.
    dtype : dtype
        Data type that it was computed in.

    Returns
    -------
    float
        Norm up to which the projection is rounding.
    """
    return ROUNDING * float(np.finfo(dtype).eps) * gradient_norm


def as_step(step: str | float | StepRule) -> StepRule:
    """Make a rule of ``"constant"`` (1), ``"normalized"``, a number, or a rule.

    Parameters
    ----------
    step : str or float or StepRule
        ``"constant"``, ``"normalized"``, a positive number, or a step rule.

    Returns
    -------
    StepRule
        Step rule.

    Raises
    ------
    InputError
        If there is no such rule.
    """
    if isinstance(step, str):
        rules: dict[str, StepRule] = {"constant": ConstantStep(), "normalized": NormalizedStep()}
        if step not in rules:
            raise InputError(
                f"step must be one of {', '.join(map(repr, rules))} or a positive number, "
                f"got {step!r}"
            )
        return rules[step]
    if isinstance(step, int | float | np.number) and not isinstance(step, bool):
        return ConstantStep(float(step))
    if callable(step) and not isinstance(step, type):
        return step
    raise InputError(
        f"step must be 'constant', 'normalized', a positive number or a step rule, got {step!r}"
    )
