"""The options of the commands, each with its help; commands that share one mean the same by it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tensormend.cli.parse import (
    parse_bounds,
    parse_bytes,
    parse_center,
    parse_names,
    parse_rank,
    parse_seconds,
)

DATA, MODEL, OUTPUT, RUN = "What is known", "The model", "What is written", "The run"
METHODS = "auto, sm-qrgd, rgd, rbb, rcg, rgn, scaledgd, sempiht, tiht, shrink"


def _option(*names: str, help: str, panel: str | None = None, **settings: Any) -> Any:  # noqa: A002
    return typer.Option(*names, help=help, rich_help_panel=panel, **settings)


Source = Annotated[
    Path,
    typer.Argument(metavar="IN", help="A file with holes; tensormend formats lists the kinds."),
]
Target = Annotated[
    Path, typer.Argument(metavar="OUT", help="File to write, in the format its name ends in.")
]

# what is known

Variable = Annotated[
    str | None,
    _option(
        help="Array, dataset or column to take, where there are several.",
        metavar="NAME",
        panel=DATA,
    ),
]
Modes = Annotated[
    Any,
    _option(
        help="Columns of a table that hold the labels of the modes.",
        metavar="A,B,C",
        parser=parse_names,
        panel=DATA,
    ),
]
Missing = Annotated[
    float | None,
    _option(help="A value that stands for unknown, beside NaN.", metavar="VALUE", panel=DATA),
]
Mask = Annotated[
    Path | None,
    _option(
        help="A file with an array of the same shape, 0 where unknown.", metavar="FILE", panel=DATA
    ),
]

# the model

RankOption = Annotated[
    Any,
    _option(
        help="auto (chosen by held-out entries), one number, or one per mode.",
        metavar="RANK",
        parser=parse_rank,
        panel=MODEL,
    ),
]
Method = Annotated[
    str,
    _option(
        help=f"With rank auto: auto, shrink or rank. With a rank: {METHODS}.",
        metavar="NAME",
        panel=MODEL,
    ),
]
Holdout = Annotated[
    float | None,
    _option(
        help="Share of the known entries to judge by. Default: 0.1 with rank auto, else none.",
        metavar="SHARE",
        panel=MODEL,
    ),
]
Center = Annotated[
    Any,
    _option(
        help="Means to take out first: auto, none, mean (of all), all (of every slice too), or "
        "modes, by name or number, whose slices have means.",
        metavar="WHICH",
        parser=parse_center,
        panel=MODEL,
    ),
]
Scale = Annotated[
    str | None,
    _option(
        help="Mode, by name or number, whose slices are divided by their standard deviation.",
        metavar="MODE",
        panel=MODEL,
    ),
]
Log = Annotated[
    bool, _option("--log", help="Fit log(1 + value), for counts over many sizes.", panel=MODEL)
]
Clip = Annotated[
    Any,
    _option(
        help="Least and largest value that may be filled in; 0, for a lower bound alone.",
        metavar="LO,HI",
        parser=parse_bounds,
        panel=MODEL,
    ),
]
Tol = Annotated[
    float | None,
    _option(help="With a rank: relative residual to stop at.", metavar="NUMBER", panel=MODEL),
]
MaxIter = Annotated[
    int | None,
    _option(help="With a rank: iterations to stop after.", metavar="NUMBER", panel=MODEL),
]

# what is written

Out = Annotated[
    Path | None,
    _option(
        "--out",
        "-o",
        help="The completed data, in the format its name ends in.",
        metavar="OUT",
        panel=OUTPUT,
    ),
]
ModelFile = Annotated[
    Path | None,
    _option(
        "--model",
        help="The Tucker model; alone, without -o, for a tensor too large to write out.",
        metavar="FILE.npz",
        panel=OUTPUT,
    ),
]
Report = Annotated[
    Path | None,
    _option(help="A page about the run, to open in a browser.", metavar="PAGE.html", panel=OUTPUT),
]
ModelOnly = Annotated[
    bool,
    _option(
        "--model-only",
        help="Write the model everywhere; else known values stay as they are.",
        panel=OUTPUT,
    ),
]
Force = Annotated[
    bool,
    _option(
        "--force",
        "-f",
        help="Replace files that are there.",
        panel=OUTPUT,
    ),
]
Json = Annotated[
    bool, _option("--json", help="Print one JSON object instead of the summary.", panel=OUTPUT)
]
Quiet = Annotated[
    bool,
    _option(
        "--quiet", "-q", help="Print no progress, notes or summary; only errors.", panel=OUTPUT
    ),
]

# the run

CheckpointOption = Annotated[
    Path | None,
    _option(
        "--checkpoint",
        help="Keep what is needed to go on after a crash in this folder.",
        metavar="FOLDER",
        panel=RUN,
    ),
]
SaveEvery = Annotated[
    Any,
    _option(
        help="Time between saves of the checkpoint. Default: 5 seconds.",
        metavar="TIME",
        parser=parse_seconds,
        panel=RUN,
    ),
]
Resume = Annotated[
    bool,
    _option("--resume", help="Go on from the checkpoint, if there is one by now.", panel=RUN),
]
TimeLimit = Annotated[
    Any,
    _option(
        help="Return what there is after so long: 90 (seconds), 10m, 2h.",
        metavar="TIME",
        parser=parse_seconds,
        panel=RUN,
    ),
]
MemoryLimit = Annotated[
    Any,
    _option(
        help="Refuse a run that would take more: 500M, 4G. Default: what is free.",
        metavar="SIZE",
        parser=parse_bytes,
        panel=RUN,
    ),
]
Threads = Annotated[
    int | None, _option(help="Threads to use. Default: all cores.", metavar="N", min=1, panel=RUN)
]
Seed = Annotated[
    int,
    _option(
        help="Seed of all randomness; the same seed, the same file on one machine.",
        metavar="N",
        min=0,
        panel=RUN,
    ),
]
Strict = Annotated[
    bool,
    _option(
        "--strict", help="Exit with code 3 if the data do not determine the tensor.", panel=RUN
    ),
]
