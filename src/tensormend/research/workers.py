"""Worker processes: each does one task at a time and waits between them.

Parent and child exchange JSON lines. The memory of a child is its own, a crash or an endless run
is an outcome like any other, and a worker may be run by another Python that has tensormend too.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import queue
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from tensormend.core import kernels

__all__ = ["Worker"]

TAIL = 300  # characters shown of the last messages of a worker that ended


# in the parent


class Worker:
    """A child process that does tasks, one after the other.

    Parameters
    ----------
    tasks : str
        Module whose ``TASKS`` has the functions of the child by name. Each is called with a dict,
        which is kept between the tasks of a worker, and the options of the task.
    python : str, optional
        The interpreter. Default: that of this process.
    threads : int, optional
        Threads of linear algebra. Default: all cores.
    """

    def __init__(
        self, tasks: str, python: str = sys.executable, threads: int | None = None
    ) -> None:
        count = str(kernels.thread_count(threads))
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(  # noqa: S603
            [python, "-m", "tensormend.research.workers", tasks],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **dict.fromkeys(names, count)},
        )
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        """Put answers into the queue, and an empty one when there will be no more."""
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
                with suppress(BrokenPipeError):  # of input that the process did not read
                    pipe.close()

    @property
    def is_alive(self) -> bool:
        """Whether it accepts tasks."""
        return self._process.poll() is None

    def ask(self, task: str, timeout: float, **options: Any) -> dict[str, Any]:
        """Do a task; a crash or a timeout is an answer with that ``outcome``."""
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
        return json.loads(line) if line else self._describe_end()

    def _describe_end(self) -> dict[str, Any]:
        code = self._process.wait()
        self._errors.seek(0)
        words = self._errors.read().decode(errors="replace").strip()[-TAIL:]
        return {"outcome": "crashed", "message": f"ended with code {code}: {words}"}


# in the child


def main() -> None:
    """Do the tasks that standard input names until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries must not mix with the answers
    tasks = importlib.import_module(sys.argv[1]).TASKS
    logging.disable(logging.WARNING)
    memory: dict[str, Any] = {}
    for line in sys.stdin:
        options = json.loads(line)
        try:
            answer = tasks[options.pop("task")](memory, **options)
        except Exception as error:
            answer = {"outcome": "crashed", "message": f"{type(error).__name__}: {error}"}
        answer["peak_bytes"] = peak_memory()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


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
