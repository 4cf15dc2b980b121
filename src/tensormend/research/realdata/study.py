"""The study as an experiment: data sets, ways to lose entries, and contestants."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.research.realdata.contestants import CONTESTANTS, Answer, Task
from tensormend.research.realdata.datasets import NAMES, Dataset, load
from tensormend.research.realdata.findings import describe
from tensormend.research.realdata.losses import LOSSES, drop, score
from tensormend.research.runner import Experiment, Settings

__all__ = ["PRESETS", "make_experiment"]

PRESETS = ("smoke", "full")
SMOKE = "hyperspectral"  # a data set that needs no other package

Contestants = Mapping[str, Callable[[Task], Answer]]


def make_experiment(
    contestants: Contestants = CONTESTANTS, *, folder: Path | None = None, seed: int = 0
) -> Experiment:
    """Return the study as an experiment.

    Parameters
    ----------
    contestants : mapping, optional
        Who takes part, by name.
    folder : Path, optional
        Folder of the traffic data.
    seed : int, default=0
        Seed of the lost entries.

    Returns
    -------
    Experiment
    """
    return Experiment(
        "real-data",
        "Real data",
        functools.partial(_grid, contestants=contestants, seed=seed),
        functools.partial(_run, contestants=contestants, folder=folder),
        describe,
        timed=True,
        packages=("tensorly",),
    )


def _grid(preset: str, contestants: Contestants, seed: int) -> Iterator[Settings]:
    """Yield, for every data set, a cell that describes it, and a cell for every completion."""
    for name in (SMOKE,) if preset == "smoke" else NAMES:
        yield {"dataset": name, "seed": seed}
        for loss in LOSSES[:1] if preset == "smoke" else LOSSES:
            for contestant in contestants:
                where = {"dataset": name, "loss": loss.name}
                yield {**where, "contestant": contestant, "seed": seed}


def _run(settings: Settings, contestants: Contestants, folder: Path | None) -> dict[str, Any]:
    dataset = _load(settings["dataset"], folder)
    if "contestant" not in settings:
        return _describe_dataset(dataset)
    task = _draw(dataset, settings["loss"], settings["seed"])
    return _complete(contestants[settings["contestant"]], task)


@functools.lru_cache(maxsize=1)
def _load(name: str, folder: Path | None) -> Dataset:
    return load(name, folder)


@functools.lru_cache(maxsize=1)
def _draw(dataset: Dataset, name: str, seed: int) -> Task:
    """Lose entries; the same ones for all contestants."""
    position = next(k for k, loss in enumerate(LOSSES) if loss.name == name)
    rng = np.random.default_rng([seed, list(NAMES).index(dataset.name), position])
    loss = LOSSES[position]
    data, scored = drop(dataset, loss.pattern, loss.fraction, rng)
    return Task(dataset, loss, data, scored, seed)


def _complete(run: Callable[[Task], Answer], task: Task) -> dict[str, Any]:
    """Run a contestant on a copy of the data, and score it."""
    own = replace(task, data=task.data.copy())
    begin = time.perf_counter()
    answer = run(own)
    seconds = time.perf_counter() - begin
    scores = score(task.dataset, answer.filled, task.scored)
    if not np.isfinite(scores.rmse):
        raise ArithmeticError("the completed tensor is not finite")
    return {
        **asdict(scores),
        "seconds": seconds,
        "fit_seconds": seconds if answer.fit_seconds is None else answer.fit_seconds,
        "parameters": dict(answer.parameters),
        "n_iter": answer.n_iter,
        "converged": answer.converged,
    }


def _describe_dataset(dataset: Dataset) -> dict[str, Any]:
    """Return what the page says about a data set."""
    facts = asdict(dataset)
    values = facts.pop("values")
    missing = float(np.isnan(values).mean())
    shape = {"shape": values.shape, "missing_fraction": missing, "is_large": dataset.is_large}
    return {**facts, **shape}
