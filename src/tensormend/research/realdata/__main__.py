"""Complete real data with missing entries, beside other methods, and write a page of the results.

Run with ``python -m tensormend.research.realdata``; the full study takes about half an hour on two
cores. Every result is recorded at once, and what has been run is not run again.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tensormend.errors import MissingDependencyError
from tensormend.plotting import require_matplotlib
from tensormend.research.realdata.contestants import CONTESTANTS, OURS, run_function
from tensormend.research.realdata.datasets import DATA, NAMES, load
from tensormend.research.realdata.losses import LOSSES
from tensormend.research.realdata.page import write_study
from tensormend.research.realdata.study import PRESETS, make_experiment
from tensormend.research.runner import Experiment, Settings, load_records, run_experiment


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tensormend.research.realdata", description=__doc__
    )
    losses = [loss.name for loss in LOSSES]
    many: Any = {"nargs": "+", "metavar": "NAME"}
    parser.add_argument("--preset", choices=PRESETS, default="full", help="smoke: one data set")
    parser.add_argument("--only", choices=NAMES, default=NAMES, help="data sets", **many)
    parser.add_argument("--losses", choices=losses, default=losses, help="lost entries", **many)
    parser.add_argument(
        "--methods", choices=CONTESTANTS, default=list(CONTESTANTS), help="contestants", **many
    )
    parser.add_argument(
        "--again",
        choices=CONTESTANTS,
        default=[],
        help="contestants to run even where there is a record",
        **many,
    )
    parser.add_argument("--data", type=Path, help=f"folder of the traffic data, or ${DATA}")
    parser.add_argument("--out", type=Path, default=Path("real-data-output"), help="folder")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="the page, by default in --out")
    parser.add_argument("--redraw", action="store_true", help="only write the page again")
    parser.add_argument("--seed", type=int, default=0, help="of the lost entries")
    parser.add_argument(
        "--ours",
        metavar="MODULE:FUNCTION",
        help="complete with this function, from data with NaN to completed data",
    )
    return parser.parse_args(arguments)


def find_datasets(names: Sequence[str], folder: Path | None) -> list[str]:
    """Return the data sets that can be loaded, and say what is missing for the others."""
    found = []
    for name in names:
        try:
            load(name, folder)
        except MissingDependencyError as error:
            sys.stderr.write(f"{name} is left out: {error}\n")
        else:
            found.append(name)
    return found


def run(experiment: Experiment, given: argparse.Namespace) -> tuple[str, ...]:
    """Run the cells that the command line chooses; return the failures as sentences."""
    in_preset = {settings["dataset"] for settings in experiment.cells(given.preset)}
    names = find_datasets([name for name in given.only if name in in_preset], given.data)

    def is_wanted(settings: Settings) -> bool:
        return (
            settings["dataset"] in names
            and settings.get("loss", given.losses[0]) in given.losses
            and settings.get("contestant", given.methods[0]) in given.methods
        )

    return run_experiment(
        experiment,
        given.preset,
        given.out,
        stream=sys.stderr,
        wanted=is_wanted,
        again=lambda settings: settings.get("contestant") in given.again,
    ).failures


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study and write its page; return 1 if a contestant failed, 2 without records."""
    given = parse(arguments)
    require_matplotlib()  # before the work, not after it
    contestants = {**CONTESTANTS}
    if given.ours:
        contestants[OURS] = run_function(given.ours)
    experiment = make_experiment(contestants, folder=given.data, seed=given.seed)
    given.out.mkdir(parents=True, exist_ok=True)
    failures = () if given.redraw else run(experiment, given)
    for failure in failures:
        sys.stderr.write(f"failed: {failure}\n")
    if not load_records(experiment.name, given.preset, given.out):
        sys.stderr.write(f"no records of preset {given.preset} in {given.out} to draw from\n")
        return 2
    page = given.write or given.out / "real-data.md"
    write_study(experiment, page, given.out, given.preset)
    sys.stdout.write(f"wrote {os.path.relpath(page)}\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
