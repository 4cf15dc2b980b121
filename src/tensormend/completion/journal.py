"""Checkpoints of a completion: a folder with the outcomes of its steps, to resume it from."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np

from tensormend.core.algebra import Array
from tensormend.core.storage import check_folder, hold, load_arrays, save_arrays
from tensormend.errors import CheckpointError, InputError
from tensormend.recovery.checkpoint import (
    Checkpoint,
    read_extra,
    read_n_iter,
    read_seconds,
    warn_unsaved,
)

__all__ = ["Journal", "Part"]

HEAD, LOCK = "run.npz", "lock"
WHAT, N_ITER = "what", "n_iter"  # arrays with the step of a file and its number of iterations
LONGEST = 40  # characters of a setting in a message
WORTH_KEEPING = 0.1  # seconds; shorter steps are repeated rather than saved


@dataclass(frozen=True)
class Part:
    """One step of a computation, with a file for its outcome and one for its checkpoint.

    Files of another step are ignored: on another machine rounding may change a close selection,
    and with it the order of the steps.

    Attributes
    ----------
    what : str
        Description of the step, which tells it from others.
    done : Path or None
        File of the outcome; ``None`` if nothing is saved.
    running : Path or None
        File of the checkpoint while the step runs.
    saves : Checkpoint or None
        Intervals between saves.
    started : float
        Time of `time.perf_counter` at which the step started.
    """

    what: str
    done: Path | None
    running: Path | None
    saves: Checkpoint | None
    started: float = field(default_factory=time.perf_counter)

    def outcome(self) -> tuple[dict[str, Array], int] | None:
        """Return the saved outcome and its number of iterations; ``None`` if there is none."""
        if self.done is None or not self.done.exists():
            return None
        arrays = _load(self.done, "part")
        n_iter = int(arrays.pop(N_ITER, 0))
        return (arrays, n_iter) if str(arrays.pop(WHAT, "")) == self.what else None

    def finish(self, arrays: Mapping[str, Array], n_iter: int) -> None:
        """Save the outcome and the number of iterations, unless the step was short."""
        if self.done is None or self.running is None or self.saves is None:
            return
        if time.perf_counter() - self.started >= min(WORTH_KEEPING, self.saves.seconds):
            labels = {WHAT: np.array(self.what), N_ITER: np.array(n_iter)}
            try:
                save_arrays(self.done, "part", {**arrays, **labels})
            except (OSError, InputError) as error:
                warn_unsaved(self.done, error)
                return
        self.running.unlink(missing_ok=True)

    def checkpoint(
        self, extra: Callable[[], Mapping[str, Array]] | None = None
    ) -> Checkpoint | None:
        """Return the checkpoint of a fit in this step, with more arrays to save."""
        if self.running is None or self.saves is None:
            return None

        def labelled() -> dict[str, Array]:
            return {**({} if extra is None else extra()), WHAT: np.array(self.what)}

        return replace(self.saves, path=self.running, extra=labelled)

    @property
    def can_resume(self) -> bool:
        """Whether there is a checkpoint of this step to continue from."""
        if self.running is None or not self.running.exists():
            return False
        return str(read_extra(self.running).get(WHAT, "")) == self.what

    @property
    def n_iter(self) -> int:
        """Number of iterations in the checkpoint to continue from."""
        return read_n_iter(self.running) if self.running and self.can_resume else 0

    @property
    def spent(self) -> float:
        """Seconds that the checkpoint to continue from has counted."""
        return read_seconds(self.running) if self.running and self.can_resume else 0.0

    def extra(self) -> dict[str, Array]:
        """Return the other arrays in the checkpoint to continue from."""
        arrays = read_extra(self.running) if self.running and self.can_resume else {}
        arrays.pop(WHAT, None)
        return arrays


@dataclass
class Journal:
    """The saved steps of a deterministic computation, numbered in order.

    A step whose outcome is saved is not repeated, and one that was interrupted continues from its
    checkpoint. A folder is locked by one run at a time. A run that fails before anything was
    saved removes its folder.

    Attributes
    ----------
    folder : Path or None
        The folder; ``None`` if nothing is saved.
    saves : Checkpoint or None
        Intervals between saves.
    n_parts : int
        Number of steps so far.
    lock : file or None
        The open lock file.
    is_new : bool
        Whether the folder held no run before.
    """

    folder: Path | None = None
    saves: Checkpoint | None = None
    n_parts: int = 0
    lock: BinaryIO | None = None
    is_new: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(failed=error is not None)

    def close(self, *, failed: bool) -> None:
        """Release the folder, and remove it if a new run failed before anything was saved."""
        if self.lock is not None:
            self.lock.close()
        if self.folder is not None and self.is_new and failed and not _parts(self.folder):
            _remove(self.folder)

    def part(self, what: str) -> Part:
        """Return the next step, with a description that tells it from others."""
        self.n_parts += 1
        if self.folder is None:
            return Part(what, None, None, None)
        stem = self.folder / f"{self.n_parts:05d}"
        return Part(what, stem.with_suffix(".npz"), stem.with_suffix(".running.npz"), self.saves)

    @classmethod
    def open(
        cls,
        checkpoint: Checkpoint | None,
        signature: Mapping[str, str],
        rng: int | np.random.Generator | None,
        *,
        resume: bool,
    ) -> tuple[Journal, np.random.Generator]:
        """Begin a journal or continue one; return it with the generator of the run.

        Parameters
        ----------
        checkpoint : Checkpoint or None
            Folder, created if it does not exist, and intervals; ``None`` to save nothing.
        signature : mapping of str to str
            What the computation depends on.
        rng : int, numpy.random.Generator or None
            Seed or generator; ``None`` with ``resume`` takes the saved one.
        resume : bool
            Whether to continue the run in the folder, if there is one.

        Returns
        -------
        Journal
            The journal, to be closed by a ``with`` block.
        numpy.random.Generator
            Generator of the run.

        Raises
        ------
        InputError
            If the folder cannot be written to, or ``resume`` is given without a checkpoint.
        CheckpointError
            If the folder holds another run, or is in use.
        """
        if checkpoint is None:
            if resume:
                raise InputError("resume=True needs a checkpoint, got None; give checkpoint=")
            return cls(), np.random.default_rng(rng)
        folder = check_folder(checkpoint.path)
        if folder.exists() and not folder.is_dir():
            raise InputError(f"checkpoint must be a folder, got the file {folder}; choose another")
        head = folder / HEAD
        if head.exists() and not resume:
            raise CheckpointError(
                f"{folder} holds the checkpoint of another run; resume it, or remove it first"
            )
        try:
            folder.mkdir(exist_ok=True)
            lock = hold(folder / LOCK)
        except BlockingIOError as error:
            raise CheckpointError(
                f"{folder} is in use by another run; wait for its end, or choose another folder"
            ) from error
        except OSError as error:
            raise _cannot_write(folder, error) from error
        journal = cls(folder, checkpoint, lock=lock, is_new=not head.exists())
        try:
            for temporary in folder.glob(".*.npz.*.part"):  # of a run killed during a save
                temporary.unlink(missing_ok=True)
            make_generator = _begin if journal.is_new else _continue
            return journal, make_generator(head, signature, rng)
        except BaseException:
            journal.close(failed=True)
            raise


def _cannot_write(folder: Path, error: OSError) -> InputError:
    return InputError(
        f"checkpoint must be a folder that can be written to, got {folder} ({error.strerror}); "
        "choose another"
    )


def _parts(folder: Path) -> list[Path]:
    return list(folder.glob("[0-9]*.npz"))


def _remove(folder: Path) -> None:
    """Remove the files of an empty journal, and its folder unless it holds other files."""
    for name in (HEAD, LOCK):
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def _begin(
    head: Path, signature: Mapping[str, str], rng: int | np.random.Generator | None
) -> np.random.Generator:
    """Write which run a journal belongs to, and return its generator."""
    if _parts(head.parent):
        raise CheckpointError(
            f"the checkpoint {head.parent} has lost its file {head.name}, which identifies its "
            "run; remove it to start anew"
        )
    generator = np.random.default_rng(rng)
    state = np.array(_state_of(generator))
    try:
        save_arrays(head, "run", {"signature": np.array(json.dumps(dict(signature))), "rng": state})
    except OSError as error:
        raise _cannot_write(head.parent, error) from error
    return generator


def _continue(
    head: Path, signature: Mapping[str, str], rng: int | np.random.Generator | None
) -> np.random.Generator:
    """Check that a journal belongs to this run, and return its generator."""
    arrays = _load(head, "run")
    differences = _compare(str(arrays.get("signature")), signature)
    if differences:
        raise CheckpointError(
            f"the checkpoint {head.parent} belongs to another run: {', '.join(differences)}; "
            "resume with the same data and options, or remove it"
        )
    generator = np.random.default_rng(rng)
    state = str(arrays["rng"])
    if rng is None:
        saved: dict[str, Any] = json.loads(state)
        if saved["bit_generator"] != generator.bit_generator.state["bit_generator"]:
            raise CheckpointError(
                f"the checkpoint {head.parent} was made with a generator of kind "
                f"{saved['bit_generator']}; resume with that one as rng"
            )
        generator.bit_generator.state = saved
    elif _state_of(generator) != state:
        raise CheckpointError(
            f"the checkpoint {head.parent} was made with another rng; resume with the same seed"
        )
    return generator


def _compare(found: str, signature: Mapping[str, str]) -> list[str]:
    """Describe how a run differs from that of a journal; only short values are shown."""
    try:
        before = dict(json.loads(found))
    except (TypeError, ValueError):
        return ["it was written by another version of tensormend"]
    out = []
    for name in {**before, **signature}:
        both = before.get(name, "None"), signature.get(name, "None")
        old, new = ("not given" if value == "None" else value for value in both)
        if old == new:
            continue
        if name == "data":
            out.append("the observed entries differ")
        elif max(len(old), len(new)) > LONGEST:
            out.append(f"{name} differs")
        else:
            out.append(f"{name} was {old} and is {new} now")
    return out


def _state_of(generator: np.random.Generator) -> str:
    """Return the state of a generator as JSON, arrays as lists."""
    return json.dumps(generator.bit_generator.state, default=np.ndarray.tolist)


def _load(path: Path, kind: str) -> dict[str, Array]:
    try:
        return load_arrays(path, kind)
    except InputError as error:
        raise CheckpointError(
            f"{error}; remove the checkpoint {path.parent} to start anew"
        ) from error
