"""``tensormend reproduce``: run the experiments of the paper and draw their figures."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from tensormend.cli.exits import FAILURE, INTERRUPTED
from tensormend.cli.outputs import make_folder
from tensormend.cli.words import put, say
from tensormend.errors import InputError

__all__ = ["EXAMPLES", "reproduce"]

EXAMPLES = (
    "tensormend reproduce table1",
    "tensormend reproduce table1 --redraw --write page.md",
)
Name = Literal[
    "illustration",
    "phase",
    "noise",
    "tangent_mode",
    "condition",
    "comparison",
    "beyond",
    "table1",
    "theorems",
    "all",
]
SHOWN_FAILURES = 5


def reproduce(
    name: Annotated[
        Name,
        typer.Argument(
            metavar="NAME",
            help="illustration, phase, noise, tangent_mode, condition, comparison, beyond, table1, "
            "theorems, or all.",
        ),
    ],
    preset: Annotated[
        Literal["smoke", "paper"],
        typer.Option(
            metavar="NAME", help="smoke: small sizes, minutes. paper: sizes of the paper, hours."
        ),
    ] = "smoke",
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder to write to.")] = Path(
        "reproduction-output"
    ),
    redraw: Annotated[
        bool,
        typer.Option("--redraw", help="Run nothing; draw the figures from existing records."),
    ] = False,
    write: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a page about all experiments from the records."),
    ] = None,
    solver: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE:CLASS",
            help="Your own solver, which enters the experiments that compare methods; may be "
            "repeated.",
        ),
    ] = None,
) -> None:
    """Run the experiments of the paper and draw their figures.

    Results are stored as JSON lines, from which the figures are drawn. An interrupted run is
    continued by the same command.
    """
    from tensormend.plotting import require_matplotlib
    from tensormend.research.custom import check_custom
    from tensormend.research.experiments.catalogue import EXPERIMENTS
    from tensormend.research.experiments.page import write_reproduction
    from tensormend.research.figures.reproduction import save_reproduction
    from tensormend.research.runner import load_records, run_experiment

    require_matplotlib()  # fail early
    solvers = solver or []
    takers = [each for each, experiment in EXPERIMENTS.items() if experiment.takes_solvers]
    if solvers and name not in (*takers, "all"):
        raise InputError(
            f"--solver goes with {', '.join(takers)} or all, got {name}, which compares no solvers"
        )
    check_custom(solvers)
    folder = make_folder(out)
    failures: list[str] = []
    for each in EXPERIMENTS if name == "all" else (name,):
        if not redraw:
            try:
                summary = run_experiment(
                    EXPERIMENTS[each], preset, folder, stream=sys.stderr, solvers=solvers
                )
            except KeyboardInterrupt:
                sys.stderr.write("\n")
                say("interrupted; run the same command again to continue")
                raise typer.Exit(INTERRUPTED + signal.SIGINT) from None
            failures += summary.failures
            put(f"{each}: {summary.n_run} cells run, {summary.n_skipped} already recorded\n")
        records = load_records(each, preset, folder)
        if not records:
            put(f"{each}: no records of preset {preset} in {folder}; run it without --redraw\n")
            continue
        for path in save_reproduction(each, records, folder):
            put(f"{each}: {path}\n")
    if write is not None:
        write_reproduction(write, folder, preset)
        put(f"page: {write}\n")
    _report_failures(failures, folder)
    raise typer.Exit(FAILURE if failures else 0)


def _report_failures(failures: Sequence[str], folder: Path) -> None:
    """Print the first failures, and the number of others."""
    for failure in failures[:SHOWN_FAILURES]:
        say(f"failed: {failure}")
    if len(failures) > SHOWN_FAILURES:
        rest = len(failures) - SHOWN_FAILURES
        say(f"{rest} more failed; they are listed in the records in {folder}")
