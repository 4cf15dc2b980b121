"""Run contestants on data sets and write down at once what came out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

import tensormend as tm
from tensormend.errors import MissingDependencyError
from tensormend.research.realdata.contestants import Answer, Task
from tensormend.research.realdata.datasets import NAMES, Dataset, load
from tensormend.research.realdata.losses import CELLS, Cell, drop, score
from tensormend.research.records import append_record, describe_machine, read_records

__all__ = ["Runner"]


@dataclass(frozen=True)
class Runner:
    """Where a benchmark writes, and how it runs.

    Attributes
    ----------
    records : the file of JSON lines to append to
    contestants : who takes part, by name
    folder : where the traffic data are
    seed : of the lost entries
    again : contestants to run even where there is a record
    note : told what is going on, a line at a time
    """

    records: Path
    contestants: dict[str, Callable[[Task], Answer]]
    folder: Path | None = None
    seed: int = 0
    again: Sequence[str] = ()
    note: Callable[[str], None] = lambda _: None

    def run(self, names: Sequence[str] = NAMES, cells: Sequence[Cell] = CELLS) -> None:
        """Run what has no record yet; a later record of the same takes the place of an earlier."""
        done = self._find_done()
        self.records.parent.mkdir(parents=True, exist_ok=True)
        for name in names:
            try:
                dataset = load(name, self.folder)
            except MissingDependencyError as error:
                self.note(f"{name}: left out, {error}")
                continue
            append_record(self.records, describe(dataset))
            for cell in cells:
                self._run_cell(dataset, cell, done)

    def _find_done(self) -> set[tuple[str, str, str, int]]:
        """Return what has been run before and need not be run again."""
        if not self.records.exists():
            return set()
        return {
            (run["dataset"], run["cell"], run["contestant"], run["seed"])
            for run in read_records(self.records)
            if run["kind"] == "run"
            and run["outcome"] == "scored"
            and run["contestant"] not in self.again
        }

    def _run_cell(self, dataset: Dataset, cell: Cell, done: set[tuple[str, str, str, int]]) -> None:
        due = [
            name
            for name in self.contestants
            if (dataset.name, cell.name, name, self.seed) not in done
        ]
        if not due:
            return
        rng = np.random.default_rng([self.seed, list(NAMES).index(dataset.name), CELLS.index(cell)])
        data, scored = drop(dataset, cell.pattern, cell.share, rng)
        task = Task(dataset, cell, data, scored, self.seed)
        for name in due:
            found = attempt(self.contestants[name], task)
            facts = {"dataset": dataset.name, "cell": cell.name, "contestant": name}
            append_record(
                self.records,
                {"kind": "run", **facts, "seed": self.seed, **found, "machine": find_machine()},
            )
            self.note(f"{dataset.name}, {cell.name}: {name}: {in_words(found)}")


def attempt(run: Callable[[Task], Answer], task: Task) -> dict[str, Any]:
    """Run a contestant on a copy of the data and score it; an error is an outcome like others."""
    own = Task(task.dataset, task.cell, task.data.copy(), task.scored, task.seed)
    begin = time.perf_counter()
    try:
        answer = run(own)
        seconds = time.perf_counter() - begin
        scores = score(task.dataset, answer.filled, task.scored)
    except MissingDependencyError as error:
        return {"outcome": "absent", "message": str(error)}
    except Exception as error:
        return {"outcome": "failed", "message": f"{type(error).__name__}: {error}"}
    return {
        "outcome": "scored" if np.isfinite(scores.rmse) else "failed",
        "message": "" if np.isfinite(scores.rmse) else "the answer is not finite",
        **asdict(scores),
        "seconds": seconds,
        "fit_seconds": seconds if answer.fit_seconds is None else answer.fit_seconds,
        "settings": dict(answer.settings),
        "n_iter": answer.n_iter,
        "converged": answer.converged,
    }


def in_words(found: dict[str, Any]) -> str:
    """Put what came of a run in words."""
    if found["outcome"] != "scored":
        return f"{found['outcome']} ({found['message']})"
    return f"RMSE {found['rmse']:.4g} in {found['seconds']:.3g} s, {found['settings']}"


def describe(dataset: Dataset) -> dict[str, Any]:
    """Return the record of a data set: what the page says about it."""
    facts = asdict(dataset)
    values = facts.pop("values")
    return {
        **facts,
        "kind": "dataset",
        "shape": values.shape,
        "unknown": float(np.isnan(values).mean()),
        "is_large": dataset.is_large,
    }


def find_machine() -> dict[str, Any]:
    """Return the versions and the machine that a figure depends on."""
    machine = describe_machine(tm.__version__)
    pools = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    machine["blas_threads"] = max(pools, default=1)
    try:
        machine["tensorly"] = version("tensorly")
    except PackageNotFoundError:
        machine["tensorly"] = None
    return machine
