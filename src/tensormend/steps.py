"""Step sizes: constant, and the normalized step of the paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tensormend.algebra import Array
from tensormend.errors import InputError

ROUNDING = 100  # a projection below this many eps of what was projected is rounding

__all__ = ["ConstantStep", "NormalizedStep", "StepRule", "as_step", "exact_step", "is_rounding"]


class StepRule(Protocol):
    """A rule for the step along a direction ``d``.

    ``squared_norm()`` is ``||d||^2`` and ``measure()`` is ``A(d)``; both are computed only if
    called. ``scale`` is the norm of the gradient of which ``d`` is a projection.
    """

    def __call__(
        self, squared_norm: Callable[[], float], measure: Callable[[], Array], scale: float
    ) -> float:
        """Return the step size."""
        ...


@dataclass(frozen=True)
class ConstantStep:
    """The same step in every iteration, 1 in the paper."""

    value: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.value) and self.value > 0):
            raise InputError(f"a constant step must be a positive number, got {self.value}")

    def __call__(
        self, squared_norm: Callable[[], float], measure: Callable[[], Array], scale: float
    ) -> float:
        """Return the value."""
        del squared_norm, measure, scale
        return float(self.value)


@dataclass(frozen=True)
class NormalizedStep:
    """The exact minimizer along the direction: ``||d||^2 / ||A(d)||^2``.

    The direction is ``P(G)`` in the tangent space of the method, ``F(G)`` for hard thresholding.
    """

    def __call__(
        self, squared_norm: Callable[[], float], measure: Callable[[], Array], scale: float
    ) -> float:
        """Return the ratio, or 1 where the direction is rounding or the operator is blind to it."""
        return exact_step(squared_norm(), measure(), scale)


def exact_step(slope: float, seen: Array, scale: float) -> float:
    """Minimizer ``slope / ||seen||^2`` along a direction, ``slope`` its product with the gradient.

    Where the direction is rounding beside the gradient of norm ``scale``, or the operator is blind
    to it, the ratio means nothing and 1 is returned.
    """
    square = float(np.linalg.norm(seen)) ** 2
    return slope / square if square > 0 and not is_rounding(slope, scale, seen.dtype) else 1.0


def is_rounding(square: float, scale: float, dtype: Any) -> bool:
    """Tell whether a squared norm is rounding beside the norm of what was projected."""
    return square <= (ROUNDING * float(np.finfo(dtype).eps) * scale) ** 2


def as_step(step: str | float | StepRule) -> StepRule:
    """Make a rule of ``"constant"`` (1), ``"normalized"``, a number, or a rule."""
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
    if callable(step):
        return step
    raise InputError(
        f"step must be 'constant', 'normalized', a positive number or a step rule, got {step!r}"
    )
