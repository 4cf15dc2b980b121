"""A run of ``complete``: read, complete, write, and its outcome."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensormend.cli.exits import INTERRUPTED, UNRELIABLE
from tensormend.cli.outputs import Outputs, check_source
from tensormend.cli.progress import follow
from tensormend.cli.settings import check_checkpoint, find_mode, given, short_warnings, write_code
from tensormend.cli.signals import Signals
from tensormend.cli.summary import describe, make_record
from tensormend.cli.words import say, show, show_json

if TYPE_CHECKING:
    from tensormend import Checkpoint, Completion, CompletionProgress

__all__ = ["Outcome", "Run"]

SIGNAL_NAMES = {signal.SIGINT: "Ctrl-C (SIGINT)", signal.SIGTERM: "SIGTERM"}


@dataclass(frozen=True)
class Run:
    """The input, settings and outputs of a run.

    Attributes
    ----------
    source : Path
        The file with missing entries.
    where : dict
        Options of `load`.
    rank : "auto", int or tuple of int
        The rank.
    settings : dict
        Keywords of `complete`; ``center`` and ``standardize`` as they were typed.
    outputs : Outputs
        The files to write.
    checkpoint : Path or None
        Folder of the checkpoint.
    checkpoint_interval : float or None
        Seconds between saves of the checkpoint.
    """

    source: Path
    where: dict[str, Any]
    rank: Any
    settings: dict[str, Any]
    outputs: Outputs
    checkpoint: Path | None = None
    checkpoint_interval: float | None = None

    def execute(self, *, resume: bool, quiet: bool) -> Outcome:
        """Check the request, read the file, complete it, write the outputs."""
        check_source(self.source)
        self.outputs.check(self.source, self.where.get("observed"))
        remark = check_checkpoint(self.checkpoint, resume=resume)
        limit, memory_limit = self.settings.get("time_limit"), self.settings.get("memory_limit")
        with (
            follow(quiet=quiet, limit=limit) as view,
            Signals(view.note) as signals,
            short_warnings(view.note) as warnings,
        ):
            import tensormend as tm

            if remark:
                view.note(remark)
            view.begin(f"reading {self.source.name}")
            data = tm.load(self.source, **self.where, **given(memory_limit=memory_limit))
            self.outputs.check_size(data, memory_limit)
            self.outputs.check_content(data, self.source)
            settings = self._resolve(data.dims)
            code = write_code(self.source, self.where, self.rank, settings, self.outputs)

            n_iter = 0

            def watch(state: CompletionProgress) -> bool:
                nonlocal n_iter
                n_iter = state.n_iter
                view.show(state)
                return signals.caught is not None

            with signals.deferred():
                result = tm.complete(
                    data,
                    self.rank,
                    callback=watch,
                    checkpoint=self._make_checkpoint(),
                    resume=resume,
                    **settings,
                )
                view.begin("assessing and writing")
                self.outputs.write(result, limit=memory_limit, source=self.source.name, code=code)
        return Outcome(
            self, result, max(n_iter, result.n_iter), signals.caught, tuple(warnings), code
        )

    def _make_checkpoint(self) -> Path | Checkpoint | None:
        """Return the checkpoint as the library takes it."""
        if self.checkpoint is None or self.checkpoint_interval is None:
            return self.checkpoint
        from tensormend import Checkpoint

        return Checkpoint(self.checkpoint, every=1, seconds=self.checkpoint_interval)

    def _resolve(self, dims: tuple[str, ...]) -> dict[str, Any]:
        """Return the settings as the library takes them, modes by number."""
        settings = dict(self.settings)
        if "standardize" in settings:
            settings["standardize"] = find_mode(settings["standardize"], dims)
        center = settings.get("center")
        if isinstance(center, tuple):
            settings["center"] = tuple(find_mode(mode, dims) for mode in center)
        elif center == "none":
            settings["center"] = None
        return settings


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run; ``n_iter`` counts the iterations of all its fits."""

    run: Run
    result: Completion
    n_iter: int
    caught: signal.Signals | None
    warnings: tuple[str, ...]
    code: str

    def report(self, *, json: bool, quiet: bool) -> None:
        """Print a summary or a record, and how to continue a run that was interrupted."""
        run, paths = self.run, self.run.outputs.paths
        stopped = None if self.caught is None else self.caught.name
        if json:
            show_json(
                make_record(
                    self.result,
                    run.source,
                    paths,
                    n_iter=self.n_iter,
                    stopped=stopped,
                    checkpoint=run.checkpoint,
                    warnings=self.warnings,
                    code=self.code,
                )
            )
        elif not quiet:
            show(describe(self.result, run.source, paths, self.n_iter, stopped))
        if self.caught is not None and not quiet:
            how = "a run with --checkpoint FOLDER can be continued"
            if run.checkpoint is not None:
                how = "continue with the same command and --resume --force"
            name = SIGNAL_NAMES[self.caught]
            say(f"interrupted by {name}; the best result so far is written; {how}")

    def exit_code(self, *, fail_if_unreliable: bool) -> int:
        """Return the exit code."""
        if self.caught is not None:
            return INTERRUPTED + self.caught
        is_unreliable = self.result.trust.verdict.name == "UNRELIABLE"
        return UNRELIABLE if fail_if_unreliable and is_unreliable else 0
