"""The table of methods: one line each, from which names, choices, help and docs are made.

Reading the table imports no solver, so that the command line can show it at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from tensormend.errors import InputError

__all__ = ["METHODS", "PARTS", "Method", "as_solver", "make_solver", "method_table"]


@dataclass(frozen=True)
class Method:
    """A line of the table.

    Attributes
    ----------
    name : str
        Name that `recover` and `complete` take.
    path : str
        Module in ``tensormend.recovery.solvers`` and class in it, with a dot between.
    description : str
        What the method is.
    use : str
        When to use it.
    parts : mapping of str to str
        Methods that it is made of: names of arguments, and of the methods to pass.
    """

    name: str
    path: str
    description: str
    use: str
    parts: Mapping[str, str] = field(default_factory=dict)

    @property
    def class_name(self) -> str:
        """Name of the class."""
        return self.path.split(".")[1]

    def load(self) -> Any:
        """Import and return the class."""
        module, name = self.path.split(".")
        return getattr(import_module(f"tensormend.recovery.solvers.{module}"), name)


# fmt: off
_TABLE = (
    Method("auto", "auto.Auto", "Gauss-Newton or conjugate gradients by rule, with restarts, and the other of the two if one makes no progress", "the default; `result.notes` tells what it did", {"newton": "rgn", "gradients": "rcg"}),  # noqa: E501
    Method("rgn", "rgn.RGN", "Riemannian Gauss-Newton, inner conjugate gradients", "few samples, high accuracy: a handful of iterations, each with several passes"),  # noqa: E501
    Method("rcg", "rcg.RCG", "Riemannian conjugate gradients, exact line search on the tangent space", "few samples: fewer iterations than RGD"),  # noqa: E501
    Method("rbb", "rbb.RBB", "gradient descent with Barzilai-Borwein steps", "one pass an iteration; the loss may rise for a while"),  # noqa: E501
    Method("rgd", "rgd.RGD", "Riemannian gradient descent on the tensors of fixed Tucker rank", "simple and steady; fewer iterations than SM-QRGD where few entries are observed"),  # noqa: E501
    Method("scaledgd", "scaledgd.ScaledGD", "scaled gradient descent on core and factors", "for comparison"),  # noqa: E501
    Method("sm-qrgd", "smqrgd.SMQRGD", "the paper's method: the tangent space of one unfolding, then ST-HOSVD", "many samples or dense operators; to reproduce the paper"),  # noqa: E501
    Method("sempiht", "iht.SeMPIHT", "sequentially truncated iterative hard thresholding", "for comparison"),  # noqa: E501
    Method("tiht", "iht.TIHT", "iterative hard thresholding with T-HOSVD", "for comparison"),
    Method("shrink", "shrink.Shrink", "no truncation at a rank: every singular direction is reduced according to its singular value", "data that are not of low rank; the rank limits the directions"),  # noqa: E501
)
# fmt: on

PARTS = ("name", "init", "step", "save", "load")  # what every solver has

METHODS: dict[str, Method] = {method.name: method for method in _TABLE}
"""Methods by name."""


def make_solver(name: str, **options: Any) -> Any:
    """Make the solver of a name.

    Parameters
    ----------
    name : str
        A name of `METHODS`.
    **options
        Fields of the solver.

    Returns
    -------
    object
        Solver.

    Raises
    ------
    InputError
        If there is no method of that name.

    Examples
    --------
    >>> make_solver("sm-qrgd", tangent_mode=0).name
    'sm-qrgd'
    """
    if not isinstance(name, str) or name not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, or a solver, got {name!r}")
    method = METHODS[name]
    parts = {argument: make_solver(part) for argument, part in method.parts.items()}
    return method.load()(**{**parts, **options})


def as_solver(method: Any) -> Any:
    """Return the solver of a name with its default settings, and a solver as it is.

    Raises
    ------
    InputError
        If it is neither.
    """
    if isinstance(method, str):
        return make_solver(method)
    if isinstance(method, type) or not all(hasattr(method, part) for part in PARTS):
        raise InputError(
            f"method must be one of {', '.join(METHODS)}, or a solver such as "
            f"tensormend.solvers.{METHODS['sm-qrgd'].class_name}(), got {method!r}"
        )
    return method


def method_table() -> str:
    """Return the table of methods as Markdown, for the documentation."""
    lines = ["| `method=` | what it is | when |", "|---|---|---|"]
    lines += [f'| `"{m.name}"` | {m.description} | {m.use} |' for m in _TABLE]
    return "\n".join(lines) + "\n"
