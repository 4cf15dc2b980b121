"""What a method is: a solver, and the state that it carries from one iteration to the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

from tensormend.core.algebra import Array
from tensormend.core.tucker import Tucker
from tensormend.recovery.problem import Problem

__all__ = ["Ordered", "Solver", "State"]


class State(Protocol):
    """What a solver carries from one iteration to the next: a value, never changed in place.

    The iterate comes evaluated, so that its residual is computed once, and has orthonormal
    factors. A state may also have ``notes`` for the result, and a true ``is_finished`` ends the
    run.
    """

    @property
    def x(self) -> Tucker:
        """The iterate."""

    @property
    def loss(self) -> float:
        """``||A(x) - y||^2 / 2`` of the iterate."""

    @property
    def step_size(self) -> float:
        """The step that led here; NaN for the start."""


S = TypeVar("S", bound=State)


class Solver(Protocol[S]):
    """A method: a frozen record of settings with a name and pure functions."""

    name: ClassVar[str]

    def init(self, problem: Problem, x0: Tucker | None) -> S:
        """Return the state at a start; ``None`` is the method's own spectral start."""
        ...

    def step(self, problem: Problem, state: S) -> S:
        """Return the state after one iteration; the argument is left as it is."""
        ...

    def save(self, state: S) -> dict[str, Array]:
        """Return the arrays that determine a state."""
        ...

    def load(self, problem: Problem, arrays: Mapping[str, Array]) -> S:
        """Return the state that `save` was given, on one machine bit for bit."""
        ...


@runtime_checkable
class Ordered(Protocol):
    """A solver that takes the modes in an order: sampled entries are stored along the first."""

    def modes(self, problem: Problem) -> tuple[int, ...]:
        """Return the processing order of the modes."""
        ...
