"""Solvers of users in the experiments and the benchmark, named ``module:Class``."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tensormend.errors import InputError
from tensormend.operators import Sampling
from tensormend.recovery.contract import Stepped
from tensormend.recovery.loop import solve
from tensormend.recovery.problem import Problem
from tensormend.recovery.registry import METHODS, PARTS, make_solver
from tensormend.recovery.steps import as_step
from tensormend.recovery.stopping import StoppingCriteria
from tensormend.research.records import Record
from tensormend.simulate import random_tucker, sample_indices

__all__ = [
    "check_custom",
    "is_custom",
    "label_method",
    "label_methods",
    "load_custom",
    "make_method",
    "takes_step",
]


def is_custom(name: str) -> bool:
    """Whether a method is a solver of the user rather than one of the registry."""
    return ":" in name


def label_method(name: str) -> str:
    """Return what tables and figures call a method.

    Examples
    --------
    >>> label_method("rgd"), label_method("mypackage.solvers:Fast")
    ('rgd', 'Fast')
    """
    return name.rpartition(":")[2]


def label_methods(records: Iterable[Record]) -> dict[str, str]:
    """Return what figures call the methods of records, by name."""
    names = dict.fromkeys(record["settings"]["method"] for record in records)
    return {name: label_method(name) for name in names}


def load_custom(name: str) -> Any:
    """Import a class, or a function without arguments, and return the solver that it makes.

    The current folder is searched too, as ``python -m`` does.

    Raises
    ------
    InputError
        If there is no such class, or it makes no solver.
    """
    module, _, attribute = name.partition(":")
    if not module or not attribute.isidentifier():
        raise InputError(
            f"--solver must be MODULE:CLASS, got {name!r}; for example mypackage.solvers:MySolver"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        make = getattr(import_module(module), attribute)
    except ImportError as error:
        raise InputError(
            f"the module of --solver {name} must be importable from this folder or the "
            f"environment, got {type(error).__name__}: {error}; check the name, or install it"
        ) from error
    except AttributeError as error:
        raise InputError(
            f"--solver {name} must name a class or function of the module, which has no "
            f"{attribute}; check the name"
        ) from error
    try:
        solver = make()
    except TypeError as error:
        raise InputError(
            f"{attribute} of --solver {name} must need no arguments, got TypeError: {error}; give "
            "them defaults, or name a function that returns the solver"
        ) from error
    missing = [part for part in PARTS if not hasattr(solver, part)]
    if missing:
        raise InputError(
            f"--solver {name} must make a solver, got a {type(solver).__name__} without "
            f"{', '.join(missing)}; see tensormend.testing.check_solver"
        )
    return solver


def check_custom(names: Sequence[str]) -> None:
    """Load solvers and let each take two iterations on a small problem, with each of its steps.

    Raises
    ------
    InputError
        If one cannot be loaded, or fails there, or two would have the same name in tables.
    """
    taken = set(METHODS)
    for name in names:
        _try_custom(name)
        if label_method(name) in taken:
            raise InputError(
                f"--solver {name} must have a name of its own in tables and figures, got "
                f"{label_method(name)}, which is taken; import it under another name"
            )
        taken.add(label_method(name))


def _try_custom(name: str) -> None:
    load_custom(name)
    truth = random_tucker((8, 9, 10), 2, rng=0)
    operator = Sampling(truth.shape, sample_indices(truth.shape, 0.6, rng=1))
    problem = Problem(operator, operator.forward(truth), truth.rank)
    for step in ("constant", "normalized") if takes_step(name) else (None,):
        solver = make_method(name, step=step)
        try:
            solve(problem, solver, stop=StoppingCriteria(max_iter=2))
        except Exception as error:
            raise InputError(
                f"--solver {name} must solve a small problem first, got {type(error).__name__}: "
                f"{error}; tensormend.testing.check_solver tells more"
            ) from error


def takes_step(name: str) -> bool:
    """Whether a method has a choice of step: a dataclass with a field ``step_rule``."""
    solver = make_method(name)
    return isinstance(solver, Stepped) and dataclasses.is_dataclass(solver)


def make_method(name: str, *, step: str | None = None, **options: Any) -> Any:
    """Make the solver of a name: one of the registry, or one of the user.

    Parameters
    ----------
    name : str
        Name of the registry, or ``module:Class``.
    step : str, optional
        Step rule. A solver of the user without a choice of step keeps its own.
    **options
        Other fields of a solver of the registry.

    Returns
    -------
    object
        Solver.
    """
    chosen: Mapping[str, Any] = {} if step is None else {"step_rule": as_step(step)}
    if name in METHODS or not is_custom(name):
        return make_solver(name, **chosen, **options)
    solver = load_custom(name)
    return dataclasses.replace(solver, **chosen) if chosen and takes_step(name) else solver
