"""A folder that remembers what a long computation has done, so that it can go on after any end."""

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
WHAT, N_ITER = "what", "n_iter"  # arrays that say which step a file belongs to, and its length
LONGEST = 40  # characters of a setting that a message shows
WORTH_KEEPING = 0.1  # seconds: what took less is done again rather than saved


@dataclass(frozen=True)
class Part:
    """One step of a computation, with a file for its outcome and one for the way there.

    Files that belong to another step, ``what`` in words, count as none: on another machine, whose
    rounding is another, a close choice may fall otherwise, and steps come in another order.
    """

    what: str
    done: Path | None
    running: Path | None
    saves: Checkpoint | None
    started: float = field(default_factory=time.perf_counter)

    def outcome(self) -> tuple[dict[str, Array], int] | None:
        """Return what was saved when the part was done and its iterations, or ``None``."""
        if self.done is None or not self.done.exists():
            return None
        arrays = _load(self.done, "part")
        n_iter = int(arrays.pop(N_ITER, 0))
        return (arrays, n_iter) if str(arrays.pop(WHAT, "")) == self.what else None

    def finish(self, arrays: Mapping[str, Array], n_iter: int) -> None:
        """Save the outcome and the number of iterations, if it took long enough to be worth it."""
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
        """Return where and how often a run within the part is saved."""
        if self.running is None or self.saves is None:
            return None

        def labelled() -> dict[str, Array]:
            return {**({} if extra is None else extra()), WHAT: np.array(self.what)}

        return replace(self.saves, path=self.running, extra=labelled)

    @property
    def can_resume(self) -> bool:
        """Whether there is a checkpoint to continue from, because the part was cut short."""
        if self.running is None or not self.running.exists():
            return False
        return str(read_extra(self.running).get(WHAT, "")) == self.what

    @property
    def n_iter(self) -> int:
        """Iterations that the run to continue had made."""
        return read_n_iter(self.running) if self.running and self.can_resume else 0

    @property
    def spent(self) -> float:
        """Seconds that the run to go on from had taken."""
        return read_seconds(self.running) if self.running and self.can_resume else 0.0

    def extra(self) -> dict[str, Array]:
        """Return what else was saved with the checkpoint to go on from."""
        arrays = read_extra(self.running) if self.running and self.can_resume else {}
        arrays.pop(WHAT, None)
        return arrays


@dataclass
class Journal:
    """Steps of a computation that is the same every time, numbered as they come.

    A step that is on file is not done again; one that was cut short goes on from its checkpoint.
    Without a folder nothing is remembered. One run at a time may have a folder. A run that
    fails before anything was saved leaves nothing behind.
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
        """Leave the folder to others; a run that has failed at once leaves none."""
        if self.lock is not None:
            self.lock.close()
        if self.folder is not None and self.is_new and failed and not _parts(self.folder):
            _remove(self.folder)

    def part(self, what: str) -> Part:
        """Return the next step, which is told from others by what it is in words."""
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
            Folder, created if it does not exist, and how often to save; ``None`` for no journal.
        signature : mapping of str to str
            What the computation depends on.
        rng : int, Generator or None
            Seed or generator; ``None`` with ``resume`` takes that of the journal.
        resume : bool
            Continue a journal that exists; if there is none, begin.

        Notes
        -----
        The folder belongs to the journal until it is closed, as by a ``with`` block.
        """
        if checkpoint is None:
            if resume:
                raise InputError("resume needs a checkpoint to continue; give checkpoint=")
            return cls(), np.random.default_rng(rng)
        place = check_folder(checkpoint.path)
        if place.exists() and not place.is_dir():
            raise InputError(f"a checkpoint must be a folder, got the file {place}; choose another")
        head = place / HEAD
        if head.exists() and not resume:
            raise CheckpointError(
                f"{place} holds the checkpoint of another run; resume it, or remove it first"
            )
        try:
            place.mkdir(exist_ok=True)
            lock = hold(place / LOCK)
        except BlockingIOError as error:
            raise CheckpointError(
                f"{place} is in use by another run; wait for its end, or choose another folder"
            ) from error
        except OSError as error:
            raise _cannot_write(place, error) from error
        journal = cls(place, checkpoint, lock=lock, is_new=not head.exists())
        try:
            for left in place.glob(".*.npz.*.part"):  # of a run that was killed while it saved
                left.unlink(missing_ok=True)
            start = _begin if journal.is_new else _go_on
            return journal, start(head, signature, rng)
        except BaseException:
            journal.close(failed=True)
            raise


def _cannot_write(folder: Path, error: OSError) -> InputError:
    return InputError(
        f"a checkpoint must be a folder that can be written to, got {folder} ({error.strerror}); "
        "choose another"
    )


def _parts(folder: Path) -> list[Path]:
    return list(folder.glob("[0-9]*.npz"))


def _remove(folder: Path) -> None:
    """Take away a journal that nothing was written in, and the folder if nothing else is there."""
    for name in (HEAD, LOCK):
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def _begin(
    head: Path, signature: Mapping[str, str], rng: int | np.random.Generator | None
) -> np.random.Generator:
    """Write down which run a journal belongs to."""
    if _parts(head.parent):
        raise CheckpointError(
            f"the checkpoint {head.parent} has lost its file {head.name}, which says whose it is; "
            "remove it to start"
        )
    generator = np.random.default_rng(rng)
    state = np.array(_state_of(generator))
    try:
        save_arrays(head, "run", {"signature": np.array(json.dumps(dict(signature))), "rng": state})
    except OSError as error:
        raise _cannot_write(head.parent, error) from error
    return generator


def _go_on(
    head: Path, signature: Mapping[str, str], rng: int | np.random.Generator | None
) -> np.random.Generator:
    """Check that a journal belongs to this run, and take its generator."""
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
    """Say in which ways a run is another than that of a journal; values only where short."""
    try:
        before = dict(json.loads(found))
    except (TypeError, ValueError):
        return ["another version of tensormend made it"]
    out = []
    for name in {**before, **signature}:
        both = before.get(name, "None"), signature.get(name, "None")
        old, new = ("not given" if value == "None" else value for value in both)
        if old == new:
            continue
        if name == "data":
            out.append("the known entries differ")
        elif max(len(old), len(new)) > LONGEST:
            out.append(f"{name} differs")
        else:
            out.append(f"{name} was {old} and is {new} now")
    return out


def _state_of(generator: np.random.Generator) -> str:
    """Write the state of a generator down; kinds whose state holds arrays write these as lists."""
    return json.dumps(generator.bit_generator.state, default=np.ndarray.tolist)


def _load(path: Path, kind: str) -> dict[str, Array]:
    try:
        return load_arrays(path, kind)
    except InputError as error:
        raise CheckpointError(f"{error}; remove the checkpoint {path.parent} to start") from error
