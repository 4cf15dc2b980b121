"""Run the cells of an experiment and append what came out to a file of JSON lines.

A cell is a dict of settings that JSON can represent. Cells that are in the file are skipped, so an
interrupted run can be continued; cells that failed are run again. Timed cells run one at a time
with all cores, the others in a pool of processes with one thread each.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from threadpoolctl import threadpool_limits

from tensormend.core import kernels
from tensormend.research import records
from tensormend.research.custom import is_custom, takes_step
from tensormend.research.progress import Progress
from tensormend.research.records import (
    Record,
    append_record,
    describe_machine,
    read_records,
    store_records,
    to_plain,
)
from tensormend.research.summary import Claim

__all__ = [
    "Experiment",
    "Settings",
    "Summary",
    "load_records",
    "run_cells",
    "run_experiment",
]

Settings = dict[str, Any]

DIGITS = 6  # significant digits of the numbers recorded


@dataclass(frozen=True)
class Experiment:
    """A grid of cells, and how one of them is run.

    Attributes
    ----------
    name : str
        The name on the command line and of the files.
    title : str
        What it shows, in a few words.
    grid : callable
        Yields the settings of every cell of a preset. A cell without a ``seed`` gets one that is
        derived from its settings.
    run : callable
        Computes the results of a cell from its settings, the seed among them.
    describe : callable
        Turns records into the facts of the page, by name.
    timed : bool
        Whether times matter, so that nothing may run beside a cell.
    paired : tuple of str, default=()
        Settings that do not enter the seed, so that cells that differ in these alone (the methods
        to compare, the repeats of a timing) see the same random problem.
    packages : tuple of str, default=()
        Packages whose versions are recorded with the machine.
    claims : callable
        Turns records into the claims of the paper that they bear on; by default there are none.
    seed_name : str, optional
        What enters the seeds instead of the name, for an experiment that has been renamed since its
        records were made.
    takes_solvers : bool, default=False
        Whether solvers of users can enter it: on the problems of SM-QRGD with the kernels.
    """

    name: str
    title: str
    grid: Callable[[str], Iterable[Settings]]
    run: Callable[[Settings], Mapping[str, Any]]
    describe: Callable[[Sequence[Record]], Mapping[str, str]]
    timed: bool
    paired: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    claims: Callable[[Sequence[Record]], Sequence[Claim]] = lambda _: ()
    seed_name: str | None = None
    takes_solvers: bool = False

    def cells(self, preset: str, solvers: Sequence[str] = ()) -> list[Settings]:
        """Return the settings of every cell with its seed.

        Solvers of users follow SM-QRGD wherever it runs with the kernels, on the same problem. One
        without a choice of step runs once, where the others take the normalized step.
        """
        out: list[Settings] = []
        cells = [{**settings, "seed": self._seed(settings)} for settings in self.grid(preset)]
        steps = {cell.get("step") for cell in cells}
        for cell in cells:
            out.append(cell)
            is_fast = cell.get("implementation", "kernels") == "kernels"
            if self.takes_solvers and is_fast and cell.get("method") == "sm-qrgd":
                is_shared = len(steps) == 1 or cell.get("step") != "constant"
                chosen = [name for name in solvers if is_shared or takes_step(name)]
                out.extend({**cell, "method": name} for name in chosen)
        return out

    def _seed(self, settings: Settings) -> int:
        if "seed" in settings:
            return int(settings["seed"])
        own = {key: value for key, value in settings.items() if key not in self.paired}
        name = self.name if self.seed_name is None else self.seed_name
        digest = hashlib.sha256(f"{name} {_key(own)}".encode()).digest()
        return int.from_bytes(digest[:6], "big")


@dataclass(frozen=True)
class Summary:
    """What a run did: cells run, cells skipped, and the failures as sentences."""

    n_run: int
    n_skipped: int
    failures: tuple[str, ...]


def run_experiment(
    experiment: Experiment,
    preset: str,
    folder: Path,
    *,
    stream: TextIO,
    wanted: Callable[[Settings], bool] = lambda _: True,
    again: Callable[[Settings], bool] = lambda _: False,
    processes: int | None = None,
    solvers: Sequence[str] = (),
) -> Summary:
    """Run the cells that are missing from the file of an experiment, and append them to it.

    Parameters
    ----------
    experiment : Experiment
    preset : str
        Name of a set of cells, such as ``"smoke"``.
    folder : Path
        Folder of the file, which is named after the experiment.
    stream : text file
        Where progress is shown.
    wanted : callable, optional
        Tells from its settings whether a cell belongs to this run. All cells by default.
    again : callable, optional
        Tells whether a cell is run even where there is a record of it. None by default.
    processes : int, optional
        Number of untimed cells to run side by side. Default: all cores.
    solvers : sequence of str, default=()
        Solvers of users that enter the experiment, as ``module:Class``.

    Returns
    -------
    Summary
    """
    path = folder / f"{experiment.name}.jsonl"
    there = {_key(record["settings"]) for record in load_records(experiment.name, preset, folder)}
    cells = {_key(settings): settings for settings in experiment.cells(preset, solvers)}
    positions = _positions(cells.values())
    chosen = {key: settings for key, settings in cells.items() if wanted(settings)}
    missing = [s for key, s in chosen.items() if key not in there or again(s)]
    processes = 1 if experiment.timed else min(kernels.thread_count(processes), len(missing))
    machine = _describe_run(experiment, processes)
    progress = Progress(experiment.name, len(missing), stream)
    failures = []
    for settings, outcome in run_cells(experiment, missing, processes):
        if "failed" in outcome:
            failures.append(f"{experiment.name} {_key(settings)}: {outcome['failed']}")
        head = {"experiment": experiment.name, "preset": preset, "cell": positions[_key(settings)]}
        append_record(path, {**head, "settings": settings, **outcome, "machine": machine})
        progress.advance()
    if path.exists() and path.stat().st_size > records.LARGE:
        store_records([path.with_suffix(".jsonl.gz"), path], path)
        path.unlink()
    return Summary(len(missing), len(chosen) - len(missing), tuple(failures))


def _positions(cells: Iterable[Settings]) -> dict[str, int]:
    """Return the place of every cell among the records, that of SM-QRGD for solvers of users."""
    positions: dict[str, int] = {}
    count = 0
    for settings in cells:
        count += not is_custom(settings.get("method", ""))
        positions[_key(settings)] = count - 1
    return positions


def run_cells(
    experiment: Experiment, cells: Sequence[Settings], processes: int
) -> Iterator[tuple[Settings, Record]]:
    """Yield every cell with its outcome as it ends; an exception in a cell is an outcome too."""
    if processes <= 1:
        for settings in cells:
            with _blas_threads(experiment.timed):
                outcome = _attempt(experiment.run, settings)
            yield settings, outcome
        return
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        processes, mp_context=multiprocessing.get_context("spawn"), initializer=_prepare_worker
    )
    try:
        futures = {pool.submit(_attempt, experiment.run, settings): settings for settings in cells}
        for future in as_completed(futures):
            yield futures[future], future.result()
        pool.shutdown()
    except BaseException:
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()  # rather than wait for cells that may take minutes
        pool.shutdown(wait=True, cancel_futures=True)
        raise


def _blas_threads(timed: bool) -> threadpool_limits:
    """Leave the threads of BLAS as they are where times are taken; allow one thread elsewhere."""
    return threadpool_limits(limits=None if timed else 1, user_api="blas")


def _prepare_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends the workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _blas_threads(timed=False)


def _end_with_parent() -> None:
    """Exit when the parent has ended: if it was killed, it could not end the workers."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _attempt(run: Callable[[Settings], Mapping[str, Any]], settings: Settings) -> Record:
    clock = time.perf_counter()
    try:
        results = _rounded(to_plain(run(settings)))
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"}
    return {"results": results, "seconds": round(time.perf_counter() - clock, 3)}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _describe_run(experiment: Experiment, processes: int) -> dict[str, Any]:
    with _blas_threads(experiment.timed):
        machine = describe_machine(experiment.packages)
    if not experiment.timed:
        machine.update(threads=1, blas_threads=1)
    return {**machine, "processes": processes}


def load_records(
    name: str, preset: str, folder: Path, *, with_failures: bool = False
) -> list[Record]:
    """Read what an experiment found with a preset, in the order of its grid.

    Parameters
    ----------
    name : str
        Name of the experiment.
    preset : str
        The set of cells.
    folder : Path
        Folder of the file, which may be compressed.
    with_failures : bool, default=False
        Whether cells that failed are included.

    Returns
    -------
    list of dict
        One record a cell; of a cell that was run twice the last.
    """
    found: dict[str, Record] = {}
    for path in (folder / f"{name}.jsonl.gz", folder / f"{name}.jsonl"):
        if path.exists():
            for record in read_records(path):
                if record["preset"] == preset:
                    found[_key(record["settings"])] = record
    chosen = [record for record in found.values() if with_failures or "failed" not in record]
    return sorted(chosen, key=lambda record: int(record["cell"]))


def _key(settings: Mapping[str, Any]) -> str:
    return json.dumps(to_plain(settings), sort_keys=True)
