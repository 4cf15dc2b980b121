"""Run the benchmark: contestants take turns, and every outcome is recorded at once.

The cells are not those of a grid that can be run in any order and continued later: contestants are
compared in rounds, a contestant that misses the accuracy or takes long is not asked again, and a
section is measured as a whole. Hence `tensormend.research.runner` is not used here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.core import kernels
from tensormend.errors import InputError
from tensormend.research.bench import tasks
from tensormend.research.bench.cases import Case, save_problem
from tensormend.research.bench.contestants import find_contestant
from tensormend.research.bench.ranks import DTYPES, FIBRES
from tensormend.research.bench.tasks import find_missing
from tensormend.research.bench.timed_run import Contestant
from tensormend.research.records import append_record, find_versions
from tensormend.research.workers import Worker

__all__ = ["Benchmark", "race", "time_import", "time_passes", "time_ranks"]

BUDGET = 120.0  # seconds of a run
LONG = 45.0  # seconds of runs after which a contestant is not asked to repeat
PATIENCE = 4  # budgets that a worker may take, what it does off the clock included
REST = 0.5  # seconds for the threads of other packages to stop spinning
ROUNDS = 4  # in which thread counts take turns
PASSES = ("rgd", "rgd, constant", "rcg", "sm-qrgd", "sm-qrgd, constant")


@dataclass
class Benchmark:
    """Where a benchmark writes, and how it runs.

    Attributes
    ----------
    records : Path
        The file of JSON lines to append to.
    repeats : int, default=5
        Runs of each contestant, fewer where they are long.
    budget : float, default=120
        Seconds that a run may take.
    peer_python : str, optional
        A Python interpreter that has the peers that this one does not have.
    threads : int, optional
        Threads of linear algebra in each worker. Default: all cores.
    against : str, optional
        Other kernels to be timed beside ours, as `load_kernels` takes them.
    note : callable, optional
        Called with a line of text about every outcome.
    """

    records: Path
    repeats: int = 5
    budget: float = BUDGET
    peer_python: str | None = None
    threads: int | None = None
    against: str | None = None
    note: Callable[[str], None] = lambda _: None
    _homes: dict[str, tuple[str | None, str]] = field(default_factory=dict)

    def write(self, kind: str, section: str, **facts: Any) -> None:
        """Append a record."""
        append_record(self.records, {"kind": kind, "section": section, **facts})

    def start(self, python: str = sys.executable, threads: int | None = None) -> Worker:
        """Start a worker process."""
        return Worker(tasks.__name__, python, threads)

    def ask(self, worker: Worker, task: str, **options: Any) -> dict[str, Any]:
        """Have a worker do a task, in the time that this benchmark allows."""
        return worker.ask(task, PATIENCE * self.budget + 60, **options)

    def find_home(self, contestant: Contestant) -> tuple[str | None, str]:
        """Return the Python that can run a contestant, or none, and its packages in words."""
        if contestant.name not in self._homes:
            self._homes[contestant.name] = self._look(contestant)
        return self._homes[contestant.name]

    def _look(self, contestant: Contestant) -> tuple[str | None, str]:
        modules = contestant.modules
        missing = find_missing(modules)
        if not missing:
            return sys.executable, _in_words(find_versions([package for _, package in modules]))
        if self.peer_python is not None:
            with self.start(self.peer_python) as worker:
                answer = self.ask(worker, "look", modules=modules)
            if "missing" not in answer:
                return None, f"not to be had from {self.peer_python}: {answer['message']}"
            missing = answer["missing"]
            if not missing:
                return self.peer_python, _in_words(answer["versions"])
        return None, f"not installed: {', '.join(missing)}; pip install 'tensormend[bench]'"

    @contextmanager
    def problem(self, case: Case) -> Iterator[Path]:
        """Draw a problem into a temporary folder."""
        with tempfile.TemporaryDirectory(prefix="tensormend-bench-") as folder:
            yield save_problem(case, Path(folder))


def _in_words(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items())


def race(
    bench: Benchmark,
    section: str,
    cases: Sequence[Case],
    names: Sequence[str],
    *,
    keep_curves: bool = True,
) -> None:
    """Let contestants take turns on every case; each has a process of its own."""
    workers: dict[str, Worker] = {}
    try:
        for name in names:
            contestant = find_contestant(name)
            python, words = bench.find_home(contestant)
            facts = {"contestant": name, "family": contestant.family}
            about = {"about": contestant.about, "versions": words}
            bench.write("contestant", section, **facts, **about, is_installed=python is not None)
            if python is None:
                bench.note(f"{section}: {name} is {words}")
                for case in cases:
                    absent = {"outcome": "absent", "message": words}
                    bench.write("run", section, case=case.as_record(), **facts, **absent)
            else:
                workers[name] = bench.start(python, bench.threads)
        for case in cases:
            with bench.problem(case) as problem:
                _take_turns(bench, section, case, problem, workers, keep_curves)
    finally:
        for worker in workers.values():
            worker.close()


def _take_turns(
    bench: Benchmark,
    section: str,
    case: Case,
    problem: Path,
    workers: dict[str, Worker],
    keep_curves: bool,
) -> None:
    spent = dict.fromkeys(workers, 0.0)
    rng = np.random.default_rng(0)
    for repeat in range(bench.repeats):
        # in another order every time, lest one always comes after a slow neighbour
        for name in rng.permutation(list(spent)).tolist():
            if spent[name] > LONG:
                continue
            answer = bench.ask(
                workers[name],
                "run",
                name=name,
                problem=str(problem),
                accuracy=case.accuracy,
                budget=bench.budget,
            )
            if not keep_curves:
                answer.pop("curve", None)
            family = find_contestant(name).family
            if family != "ours":
                time.sleep(REST)
            facts = {"contestant": name, "family": family, "repeat": repeat}
            bench.write("run", section, case=case.as_record(), **facts, **answer)
            bench.note(f"{section}: {case.name}: {name}: {describe(answer)}")
            spent[name] += answer.get("seconds", 0.0)
            if answer["outcome"] != "reached":
                del spent[name]  # what missed once is not timed, so it need not be repeated
            if not workers[name].is_alive:
                workers[name].close()
                python, _ = bench.find_home(find_contestant(name))
                workers[name] = bench.start(python or sys.executable, bench.threads)


def describe(answer: dict[str, Any]) -> str:
    """Put what came of a run in words."""
    if answer["outcome"] == "reached":
        return f"{answer['seconds']:.3g} s"
    if answer["outcome"] == "missed":
        return f"missed the accuracy ({answer['message']})"
    return f"{answer['outcome']} ({answer.get('message', '')})"


def time_passes(bench: Benchmark, section: str, cases: Sequence[Case], repeats: int = 20) -> None:
    """Time the kernels beside a plain read, with one thread, two and all, in turns."""
    n_cores = kernels.thread_count(None)
    for case in cases:
        with bench.problem(case) as problem, ExitStack() as stack:
            counts = sorted({1, min(2, n_cores), n_cores})
            workers = {threads: stack.enter_context(bench.start()) for threads in counts}
            answers: dict[int, list[dict[str, Any]]] = {threads: [] for threads in counts}
            for _ in range(ROUNDS):
                for threads, worker in workers.items():
                    facts = {"problem": str(problem), "threads": threads, "solvers": PASSES}
                    per_round = -(-repeats // ROUNDS)
                    answers[threads].append(bench.ask(worker, "passes", repeats=per_round, **facts))
            for threads in counts:
                answer = _join_rounds(answers[threads])
                bench.write("passes", section, case=case.as_record(), threads=threads, **answer)
                bench.note(f"{section}: {case.name}, threads: {threads}")


def time_ranks(
    bench: Benchmark, section: str, ranks: Sequence[int], passes: Sequence[str], repeats: int
) -> None:
    """Time passes by rank, type of values and length of the fibres, on one thread."""
    with bench.start(threads=1) as worker:
        for fibres in FIBRES:
            for dtype in DTYPES:
                for rank in ranks:
                    case = {"rank": rank, "dtype": dtype, "fibres": fibres}
                    settings = {"repeats": repeats, "passes": passes, "against": bench.against}
                    answer = bench.ask(worker, "ranks", **case, **settings)
                    if "times" not in answer:
                        raise InputError(f"passes by rank cannot be timed: {answer['message']}")
                    bench.write("ranks", section, **case, **answer)
                bench.note(f"{section}: {dtype}, {fibres} fibres")


def _join_rounds(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Put the times of several rounds into one answer, or return the first that failed."""
    failed = next((answer for answer in answers if "times" not in answer), None)
    if failed is not None:
        return failed
    names = answers[0]["times"]
    times = {name: [t for answer in answers for t in answer["times"][name]] for name in names}
    return {**answers[0], "times": times}


def time_import(bench: Benchmark, section: str, repeats: int = 9) -> None:
    """Time ``import tensormend``, NumPy included, in fresh interpreters.

    From bytecode, as an installed package has it: a first import, which is not timed, leaves it in
    a folder that the others read it from, whatever the settings of Python here.
    """
    code = (
        "import time; clock = time.perf_counter(); import tensormend; "
        "import sys; sys.stdout.write(str(time.perf_counter() - clock))"
    )
    seconds = []
    with tempfile.TemporaryDirectory(prefix="tensormend-bench-") as folder:
        env = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        for _ in range(repeats + 1):
            done = subprocess.run(  # noqa: S603
                [sys.executable, "-c", code], capture_output=True, check=True, text=True, env=env
            )
            seconds.append(float(done.stdout))
    del seconds[0]
    bench.write("import", section, seconds=seconds)
    bench.note(f"{section}: {sorted(seconds)[len(seconds) // 2]:.3f} s")
