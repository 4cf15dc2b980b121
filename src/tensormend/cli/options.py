"""Options of several commands, with the same meaning and help in all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tensormend.cli.parse import (
    parse_bounds,
    parse_bytes,
    parse_center,
    parse_names,
    parse_rank,
    parse_seconds,
)
from tensormend.recovery.registry import METHODS

DATA, MODEL, OUTPUT, RUN = "Data", "Model", "Output", "Run"


def _option(*names: str, help: str, panel: str | None = None, **settings: Any) -> Any:  # noqa: A002
    return typer.Option(*names, help=help, rich_help_panel=panel, **settings)


Source = Annotated[
    Path,
    typer.Argument(
        metavar="IN", help="File with missing entries; see tensormend formats for the formats."
    ),
]
Target = Annotated[
    Path, typer.Argument(metavar="OUT", help="File to write; its suffix sets the format.")
]

# data

Variable = Annotated[
    str | None,
    _option(
        help="Array, dataset or column to read, where the file has several.",
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
NaValue = Annotated[
    float | None,
    _option(
        help="A value that marks missing entries, in addition to NaN.", metavar="VALUE", panel=DATA
    ),
]
Observed = Annotated[
    Path | None,
    _option(
        help="File with an array of the same shape that is 0 at missing entries.",
        metavar="FILE",
        panel=DATA,
    ),
]

# model

RankOption = Annotated[
    Any,
    _option(
        help="auto (selected by validation), one number, or one per mode.",
        metavar="RANK",
        parser=parse_rank,
        panel=MODEL,
    ),
]
Model = Annotated[
    Literal["auto", "shrinkage", "tucker"],
    _option(
        help="With --rank auto, the models to compare: shrinkage, tucker (of increasing rank), or "
        "auto for both.",
        metavar="NAME",
        panel=MODEL,
    ),
]
Method = Annotated[
    str,
    _option(
        help=f"With a given rank, the algorithm: {', '.join(METHODS)}.", metavar="NAME", panel=MODEL
    ),
]
ValidationFraction = Annotated[
    float | None,
    _option(
        help="Fraction of the observed entries to hold out for validation. Default: 0.1 with "
        "--rank auto, otherwise none.",
        metavar="FRACTION",
        panel=MODEL,
    ),
]
Center = Annotated[
    Any,
    _option(
        help="Means to subtract before the fit: auto, none, mean (of all entries), all (of the "
        "slices of every mode), or modes by name or number.",
        metavar="WHICH",
        parser=parse_center,
        panel=MODEL,
    ),
]
Standardize = Annotated[
    str | None,
    _option(
        help="Mode, by name or number, whose slices are divided by their standard deviation.",
        metavar="MODE",
        panel=MODEL,
    ),
]
Transform = Annotated[
    Literal["log1p"] | None,
    _option(
        help="Transform of the values before the fit: log1p fits log(1 + value).",
        metavar="NAME",
        panel=MODEL,
    ),
]
Clip = Annotated[
    Any,
    _option(
        help="Lower and upper bound of the estimated values; 0, sets a lower bound only.",
        metavar="LO,HI",
        parser=parse_bounds,
        panel=MODEL,
    ),
]
Tol = Annotated[
    float | None,
    _option(
        help="With a given rank: relative residual at which to stop.", metavar="NUMBER", panel=MODEL
    ),
]
MaxIter = Annotated[
    int | None,
    _option(help="With a given rank: maximum number of iterations.", metavar="NUMBER", panel=MODEL),
]

# output

Out = Annotated[
    Path | None,
    _option(
        "--out",
        "-o",
        help="Write the completed data; the suffix sets the format.",
        metavar="OUT",
        panel=OUTPUT,
    ),
]
SaveModel = Annotated[
    Path | None,
    _option(
        help="Write the fitted model; enough for a tensor that is too large for -o.",
        metavar="FILE.npz",
        panel=OUTPUT,
    ),
]
Report = Annotated[
    Path | None,
    _option(help="Write an HTML report.", metavar="FILE.html", panel=OUTPUT),
]
ReplaceObserved = Annotated[
    bool,
    _option(
        "--replace-observed",
        help="Write fitted values at all entries; by default observed values are kept.",
        panel=OUTPUT,
    ),
]
Force = Annotated[
    bool,
    _option("--force", "-f", help="Overwrite existing files.", panel=OUTPUT),
]
Json = Annotated[
    bool, _option("--json", help="Print one JSON object instead of the summary.", panel=OUTPUT)
]
Quiet = Annotated[
    bool,
    _option(
        "--quiet", "-q", help="Print no progress, notes or summary, only errors.", panel=OUTPUT
    ),
]

# run

CheckpointOption = Annotated[
    Path | None,
    _option(
        "--checkpoint",
        help="Save the state of the run in this folder, for --resume.",
        metavar="FOLDER",
        panel=RUN,
    ),
]
CheckpointInterval = Annotated[
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
    _option(
        "--resume", help="Continue from the checkpoint; start anew if there is none.", panel=RUN
    ),
]
TimeLimit = Annotated[
    Any,
    _option(
        help="Stop after this time with the best result so far: 90 (seconds), 10m, 2h.",
        metavar="TIME",
        parser=parse_seconds,
        panel=RUN,
    ),
]
MemoryLimit = Annotated[
    Any,
    _option(
        help="Refuse a run that needs more memory: 500M, 4G. Default: the free memory.",
        metavar="SIZE",
        parser=parse_bytes,
        panel=RUN,
    ),
]
Threads = Annotated[
    int | None,
    _option(help="Number of threads. Default: all cores.", metavar="N", min=1, panel=RUN),
]
Seed = Annotated[
    int,
    _option(
        help="Seed of the random numbers; equal seeds give equal files on one machine.",
        metavar="N",
        min=0,
        panel=RUN,
    ),
]
FailIfUnreliable = Annotated[
    bool,
    _option(
        "--fail-if-unreliable",
        help="Exit with code 3 if the verdict is unreliable.",
        panel=RUN,
    ),
]
