"""A process for each contestant: it does one task at a time and waits between its turns.

Parent and child speak in JSON lines. The child's memory is its own, a crash or an endless run is
an outcome like any other, and a worker may be run by another Python that has tensormend too.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import math
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any

from tensormend.core import kernels
from tensormend.research.bench import passes, ranks
from tensormend.research.bench.cases import Given, load_problem
from tensormend.research.bench.contestants import find_contestant
from tensormend.research.bench.course import Course

__all__ = ["Worker", "find_missing", "find_versions"]

SHORT = 1.0  # seconds of a run that is done twice
TAIL = 300  # characters of what a dead worker said last


# in the parent


class Worker:
    """A child process that does tasks, one after the other."""

    def __init__(self, python: str = sys.executable, threads: int | None = None) -> None:
        count = str(kernels.thread_count(threads))
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(  # noqa: S603
            [python, "-m", "tensormend.research.bench.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **dict.fromkeys(names, count)},
        )
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        """Pass answers on, and an empty one when there will be no more."""
        if self._process.stdout is not None:
            for line in self._process.stdout:
                self._answers.put(line)
        self._answers.put(b"")

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._listener.join()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            if pipe is not None and not pipe.closed:
                with suppress(BrokenPipeError):  # what was meant for a process that is no more
                    pipe.close()

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def ask(self, task: str, timeout: float, **options: Any) -> dict[str, Any]:
        """Have a task done; a crash or a timeout is an answer with that ``outcome``."""
        if self._process.stdin is None:
            raise TypeError("a worker with pipes expected, got one without")
        try:
            self._process.stdin.write((json.dumps({"task": task, **options}) + "\n").encode())
            self._process.stdin.flush()
            line = self._answers.get(timeout=timeout)
        except BrokenPipeError:
            line = b""
        except queue.Empty:
            self._process.kill()
            return {"outcome": "timed out", "message": f"no answer in {timeout:.0f} s"}
        return json.loads(line) if line else self._bury()

    def _bury(self) -> dict[str, Any]:
        code = self._process.wait()
        self._errors.seek(0)
        words = self._errors.read().decode(errors="replace").strip()[-TAIL:]
        return {"outcome": "crashed", "message": f"ended with code {code}: {words}"}


# in the child


def main() -> None:
    """Do what standard input asks until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not come between the answers
    logging.disable(logging.WARNING)
    memory: dict[str, Any] = {}
    for line in sys.stdin:
        options = json.loads(line)
        try:
            answer = TASKS[options.pop("task")](memory, **options)
        except Exception as error:
            answer = {"outcome": "crashed", "message": f"{type(error).__name__}: {error}"}
        answer["peak_bytes"] = peak_memory()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


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
        course = Course(given, accuracy, budget, memory.setdefault(f"course of {name}", {}))
        find_contestant(name).run(course)
        record = {**course.as_record(), "is_warm": is_warm}
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
    return {"missing": find_missing(modules), "versions": find_versions(modules)}


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


def find_versions(modules: Sequence[Sequence[str]]) -> dict[str, str]:
    """Return the versions of the packages that are installed here."""
    found = {}
    for _, package in modules:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def peak_memory() -> int:
    """Return the largest size this process has had in memory, in bytes.

    On Linux ``ru_maxrss`` of a child begins with that of its parent, so the kernel's own mark of
    this process is read where there is one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    main()
