"""What the worker processes of the benchmark do."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Sequence
from typing import Any

from tensormend.research.bench import passes, ranks
from tensormend.research.bench.cases import Given, load_problem
from tensormend.research.bench.contestants import find_contestant
from tensormend.research.bench.timed_run import TimedRun
from tensormend.research.records import find_versions

__all__ = ["TASKS", "find_missing"]

SHORT = 1.0  # seconds of a run that is done twice


def _do_run(
    memory: dict[str, Any],
    name: str,
    problem: str,
    accuracy: float,
    budget: float,
    is_timed: bool = True,
) -> dict[str, Any]:
    """Run a contestant; a short run whose time matters is done twice, and the second counts.

    While others had their turn the process lost its caches, and perhaps memory to the system;
    getting these back can take longer than the run.
    """
    given = _load(memory, problem)
    for is_warm in (False, True) if is_timed else (False,):
        timed = TimedRun(given, accuracy, budget, memory.setdefault(f"memory of {name}", {}))
        find_contestant(name).run(timed)
        record = {**timed.as_record(), "is_warm": is_warm}
        if record.get("seconds", math.inf) > SHORT:
            break
    return record


def _do_passes(
    memory: dict[str, Any], problem: str, threads: int, repeats: int, solvers: Sequence[str]
) -> dict[str, Any]:
    times, n_bytes = passes.time_passes(_load(memory, problem), threads, repeats, solvers)
    return {"times": times, "read_bytes": n_bytes}


def _do_ranks(memory: dict[str, Any], **options: Any) -> dict[str, Any]:
    del memory
    return ranks.time_ranks(**options)


def _do_look(memory: dict[str, Any], modules: Sequence[Sequence[str]]) -> dict[str, Any]:
    del memory
    packages = [package for _, package in modules]
    return {"missing": find_missing(modules), "versions": find_versions(packages)}


def _load(memory: dict[str, Any], problem: str) -> Given:
    """Load a problem unless it is the one at hand; what was found out about another is dropped."""
    if memory.get("problem") != problem:
        memory.clear()
        memory.update(problem=problem, given=load_problem(problem))
    given: Given = memory["given"]
    return given


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "run": _do_run,
    "passes": _do_passes,
    "ranks": _do_ranks,
    "look": _do_look,
}


def find_missing(modules: Sequence[Sequence[str]]) -> list[str]:
    """Return the packages, of pairs of module and package, that are not installed here."""
    return [package for module, package in modules if importlib.util.find_spec(module) is None]
