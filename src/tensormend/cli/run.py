"""A run of ``tensormend complete``: read a file, complete it, write the outputs."""

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
    load_options : dict
        Options of `load`.
    rank : "auto", int or tuple of int
        Rank of the model.
    settings : dict
        Keyword arguments of `complete`, with the modes of ``center`` and ``standardize`` as typed.
    outputs : Outputs
        The files to write.
    checkpoint : Path or None
        Folder of the checkpoint.
    checkpoint_interval : float or None
        Seconds between saves of the checkpoint.
    """

    source: Path
    load_options: dict[str, Any]
    rank: Any
    settings: dict[str, Any]
    outputs: Outputs
    checkpoint: Path | None = None
    checkpoint_interval: float | None = None

    def execute(self, *, resume: bool, quiet: bool) -> Outcome:
        """Check the options, read the file, complete it, and write the outputs."""
        check_source(self.source)
        self.outputs.check(self.source, self.load_options.get("observed"))
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
            data = tm.load(self.source, **self.load_options, **given(memory_limit=memory_limit))
            self.outputs.check_size(data, memory_limit)
            self.outputs.check_content(data, self.source)
            settings = self._resolve(data.dims)
            code = write_code(self.source, self.load_options, self.rank, settings, self.outputs)

            def watch(state: CompletionProgress) -> bool:
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
        return Outcome(self, result, signals.caught, tuple(warnings), code)

    def _make_checkpoint(self) -> Path | Checkpoint | None:
        """Return the checkpoint in the form that `complete` takes."""
        if self.checkpoint is None or self.checkpoint_interval is None:
            return self.checkpoint
        from tensormend import Checkpoint

        return Checkpoint(self.checkpoint, every=1, seconds=self.checkpoint_interval)

    def _resolve(self, dims: tuple[str, ...]) -> dict[str, Any]:
        """Return the settings in the form that `complete` takes, with modes as numbers."""
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
    """The outcome of a run.

    Attributes
    ----------
    run : Run
        The run.
    result : Completion
        Its result.
    caught : signal.Signals or None
        The signal that stopped it.
    warnings : tuple of str
        The warnings that were shown.
    code : str
        Python code equivalent to the command.
    """

    run: Run
    result: Completion
    caught: signal.Signals | None
    warnings: tuple[str, ...]
    code: str

    def report(self, *, json: bool, quiet: bool) -> None:
        """Print the summary or the JSON record, and how to continue an interrupted run."""
        run, paths = self.run, self.run.outputs.paths
        stopped = None if self.caught is None else self.caught.name
        if json:
            show_json(
                make_record(
                    self.result,
                    run.source,
                    paths,
                    stopped=stopped,
                    checkpoint=run.checkpoint,
                    warnings=self.warnings,
                    code=self.code,
                )
            )
        elif not quiet:
            show(describe(self.result, run.source, paths, stopped))
        if self.caught is not None and not quiet:
            how = "a run with --checkpoint FOLDER can be continued"
            if run.checkpoint is not None:
                how = "continue with the same command and --resume --force"
            name = SIGNAL_NAMES[self.caught]
            say(f"interrupted by {name}; the best result so far is written; {how}")

    def exit_code(self, *, fail_if_unreliable: bool) -> int:
        """Return the exit code of the command."""
        if self.caught is not None:
            return INTERRUPTED + self.caught
        is_unreliable = self.result.trust.verdict.name == "UNRELIABLE"
        return UNRELIABLE if fail_if_unreliable and is_unreliable else 0
