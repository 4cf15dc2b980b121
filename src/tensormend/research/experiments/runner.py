"""Run the cells of an experiment, each with its own seed, and keep what came out as JSON lines.

A cell is a dict of settings that JSON can hold. Cells that are in the file are skipped, so an
interrupted run goes on; cells that failed are tried again. Timed cells run one at a time with all
cores to themselves, the others side by side with one thread each.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.metadata
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
from typing import Any, Literal, TextIO

from threadpoolctl import threadpool_info, threadpool_limits

from tensormend.core import kernels
from tensormend.core.storage import atomic_write
from tensormend.research.experiments.progress import Progress
from tensormend.research.records import append_record, describe_machine, read_records, to_plain

__all__ = [
    "PRESETS",
    "Experiment",
    "Preset",
    "Record",
    "Settings",
    "Summary",
    "load_records",
    "run_cells",
    "run_experiment",
]

Preset = Literal["smoke", "paper"]
Settings = dict[str, Any]
Record = dict[str, Any]
PRESETS: tuple[Preset, ...] = ("smoke", "paper")

DIGITS = 6  # of the numbers kept
LARGE = 200_000  # bytes beyond which a finished file is compressed


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper.

    Parameters
    ----------
    name : the word for the command line and the files
    title : what it shows, in a few words
    grid : the settings of every cell of a preset, without seeds
    run : computes the results of a cell from its settings, the seed among them
    describe : turns records into the numbers and sentences of the report, by name
    timed : whether times matter, so that nothing may run beside a cell
    paired : settings that do not enter the seed, so that the cells that differ in these alone
        (the methods to compare, the repeats of a timing) see the same random problem
    """

    name: str
    title: str
    grid: Callable[[Preset], Iterable[Settings]]
    run: Callable[[Settings], Mapping[str, Any]]
    describe: Callable[[Sequence[Record]], Mapping[str, str]]
    timed: bool
    paired: tuple[str, ...] = ()

    def cells(self, preset: Preset) -> list[Settings]:
        """Return the settings of every cell with its seed."""
        return [{**settings, "seed": self._seed(settings)} for settings in self.grid(preset)]

    def _seed(self, settings: Settings) -> int:
        own = {key: value for key, value in settings.items() if key not in self.paired}
        digest = hashlib.sha256(f"{self.name} {_key(own)}".encode()).digest()
        return int.from_bytes(digest[:6], "big")


@dataclass(frozen=True)
class Summary:
    """What a run did: cells run, cells that were there, and the failures as sentences."""

    n_run: int
    n_skipped: int
    failures: tuple[str, ...]


def run_experiment(
    experiment: Experiment,
    preset: Preset,
    folder: Path,
    *,
    stream: TextIO,
    processes: int | None = None,
) -> Summary:
    """Run the cells that are missing from the file of an experiment, and append them to it.

    ``processes`` is the number of untimed cells to run side by side, all cores by default.
    """
    path = folder / f"{experiment.name}.jsonl"
    there = {_key(record["settings"]) for record in load_records(experiment.name, preset, folder)}
    cells = experiment.cells(preset)
    missing = [settings for settings in cells if _key(settings) not in there]
    processes = 1 if experiment.timed else min(kernels.thread_count(processes), len(missing))
    places = {_key(settings): place for place, settings in enumerate(cells)}
    machine = _describe_run(experiment.timed, processes)
    progress = Progress(experiment.name, len(missing), stream)
    failures = []
    for settings, outcome in run_cells(experiment, missing, processes):
        if "failed" in outcome:
            failures.append(f"{experiment.name} {_key(settings)}: {outcome['failed']}")
        head = {"experiment": experiment.name, "preset": preset, "cell": places[_key(settings)]}
        append_record(path, {**head, "settings": settings, **outcome, "machine": machine})
        progress.advance()
    _compress(path)
    return Summary(len(missing), len(cells) - len(missing), tuple(failures))


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
            worker.terminate()  # a cell may take minutes, and an interrupt should not
        pool.shutdown(wait=True, cancel_futures=True)
        raise


def _blas_threads(timed: bool) -> threadpool_limits:
    """Leave BLAS as the environment sets it while times are taken, and else give it one thread."""
    return threadpool_limits(limits=None if timed else 1, user_api="blas")


def _prepare_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends the workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _blas_threads(timed=False)


def _end_with_parent() -> None:
    """Leave when the parent is gone: killed, it cannot end the workers any more."""
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


def _describe_run(timed: bool, processes: int) -> dict[str, Any]:
    machine = describe_machine(importlib.metadata.version("tensormend"))
    with _blas_threads(timed):
        pools = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    alone = {"blas_threads": max(pools, default=1), "processes": 1}
    beside = {"threads": 1, "blas_threads": 1, "processes": processes}
    return {**machine, **(alone if timed else beside)}


# files


def load_records(name: str, preset: Preset, folder: Path) -> list[Record]:
    """Read what an experiment found with a preset, in the order of its grid.

    Of a cell that was run twice the last counts. Failed cells are left out.
    """
    found: dict[str, Record] = {}
    for path in (folder / f"{name}.jsonl.gz", folder / f"{name}.jsonl"):
        if path.exists():
            for record in read_records(path):
                if record["preset"] == preset:
                    found[_key(record["settings"])] = record
    whole = [record for record in found.values() if "failed" not in record]
    return sorted(whole, key=lambda record: int(record["cell"]))


def _compress(path: Path) -> None:
    """Move a large file into its compressed twin."""
    if not path.exists() or path.stat().st_size <= LARGE:
        return
    packed = path.with_suffix(".jsonl.gz")
    before = gzip.decompress(packed.read_bytes()) if packed.exists() else b""
    with atomic_write(packed) as file:
        file.write(gzip.compress(before + path.read_bytes(), mtime=0))
    path.unlink()


def _key(settings: Mapping[str, Any]) -> str:
    return json.dumps(to_plain(settings), sort_keys=True)
