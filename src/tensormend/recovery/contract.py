"""What a method is: a solver, what it declares, and the state it carries between iterations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, TypeVar, runtime_checkable

from tensormend.core.algebra import Array
from tensormend.core.tucker import Tucker
from tensormend.recovery.problem import Problem
from tensormend.recovery.steps import StepRule

__all__ = [
    "IterationCost",
    "Ordered",
    "Sizes",
    "Solver",
    "State",
    "Stepped",
    "Targeted",
    "Traits",
    "cost_of",
    "traits_of",
]


class State(Protocol):
    """What a solver carries from one iteration to the next: a value, never changed in place.

    The iterate comes evaluated, so that its residual is computed once, and has orthonormal
    factors. A state may also have ``notes`` for the result; a true ``is_finished`` ends the run;
    while ``is_exploring`` is true the solver works elsewhere, and ``x`` is the best point so far,
    which no tolerance is then applied to.
    """

    @property
    def x(self) -> Tucker:
        """The iterate."""

    @property
    def loss(self) -> float:
        """``||A(x) - y||^2 / 2`` of the iterate."""

    @property
    def step_size(self) -> float:
        """The step that led here; NaN for the initial point."""


S = TypeVar("S", bound=State)


class Solver(Protocol[S]):
    """A method: a frozen record of settings with a name and pure functions.

    What else the entry points need to know, a solver may declare: ``traits`` (see `Traits`),
    a step rule (`Stepped`), an order of the modes (`Ordered`), a target (`Targeted`), and
    ``cost(sizes)``, an `IterationCost`. Without these it has the defaults.
    """

    name: ClassVar[str]

    def init(self, problem: Problem, x0: Tucker | None) -> S:
        """Return the state at an initial point; ``None`` is the method's own.

        Parameters
        ----------
        problem : Problem
            Operator, measurements and rank of the problem to solve.
        x0 : Tucker or None
            Initial tensor; ``None`` for the initialization of the method itself.

        Returns
        -------
        State
            State at the initial tensor.
        """
        ...

    def step(self, problem: Problem, state: S) -> S:
        """Return the state after one iteration; the argument is left as it is.

        Parameters
        ----------
        problem : Problem
            Operator, measurements and rank of the problem to solve.
        state : State
            State of the solver; it is not modified.

        Returns
        -------
        State
            State after the iteration.
        """
        ...

    def save(self, state: S) -> dict[str, Array]:
        """Return the arrays that determine a state.

        Parameters
        ----------
        state : State
            State of the solver; it is not modified.

        Returns
        -------
        dict of str to ndarray
            Arrays by name.
        """
        ...

    def load(self, problem: Problem, arrays: Mapping[str, Array]) -> S:
        """Return the state that `save` was given, on one machine bit for bit.

        Parameters
        ----------
        problem : Problem
            Operator, measurements and rank of the problem to solve.
        arrays : mapping of str to ndarray
            Arrays as `save` returned them.

        Returns
        -------
        State
            State of the solver.
        """
        ...


@dataclass(frozen=True)
class Traits:
    """What a method declares about itself, as the class attribute ``traits``.

    Attributes
    ----------
    default_init : {"spectral", "corrected"}, default="spectral"
        The initial point that ``init(problem, None)`` makes.
    allows_underdetermined : bool, default=False
        Whether the method is meant for fewer measurements than degrees of freedom, because it
        regularizes; for the others `recover` warns.
    """

    default_init: str = "spectral"
    allows_underdetermined: bool = False


class Sizes(Protocol):
    """Sizes of a problem, all that an order of the modes and a cost depend on."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""

    @property
    def rank(self) -> tuple[int, ...]:
        """Multilinear rank."""

    @property
    def n_measurements(self) -> int:
        """Number of measurements."""


@dataclass(frozen=True)
class IterationCost:
    """What an iteration holds beside the measurements.

    Attributes
    ----------
    rank : tuple of int
        Largest rank that iterates, also auxiliary ones, may have.
    n_factor_sets : int, default=13
        Sets of factors of that rank held at a time: the iterate, its gradient, directions and
        the panels of a retraction.
    n_panels : int, default=0
        Arrays with one row for every fibre of the whole tensor along the first mode of the order.
    n_residuals : int, default=0
        Arrays with one number for every measurement.
    needs_every_mode : bool, default=False
        Whether sampled entries must be sorted along every mode in all cases, even where the
        initial estimate needs only one order.
    """

    rank: tuple[int, ...]
    n_factor_sets: int = 13
    n_panels: int = 0
    n_residuals: int = 0
    needs_every_mode: bool = False


@runtime_checkable
class Ordered(Protocol):
    """A solver that takes the modes in an order: sampled entries are stored along the first."""

    def modes(self, sizes: Sizes) -> tuple[int, ...]:
        """Return the processing order of the modes."""
        ...


@runtime_checkable
class Stepped(Protocol):
    """A solver that has a choice of step."""

    step_rule: StepRule


@runtime_checkable
class Targeted(Protocol):
    """A solver that saves work if it knows which relative residual is to be reached."""

    def with_target(self, target: float) -> Self:
        """Return the solver for a target; 0 is to go as far as possible."""
        ...


def traits_of(solver: Any) -> Traits:
    """Return what a solver, or its class, declares."""
    traits: Traits = getattr(solver, "traits", Traits())
    return traits


def cost_of(solver: Any, sizes: Sizes) -> IterationCost:
    """Return the cost of an iteration that a solver declares."""
    cost: IterationCost = (
        solver.cost(sizes) if hasattr(solver, "cost") else IterationCost(sizes.rank)
    )
    return cost
