"""``tensormend bench``: compare run times with those of other packages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tensormend.cli.outputs import make_folder
from tensormend.cli.parse import parse_seconds
from tensormend.cli.words import put
from tensormend.errors import InputError

__all__ = ["EXAMPLES", "bench"]

EXAMPLES = (
    "tensormend bench --only n50 --method rcg --method sm-qrgd --repeats 1",
    "tensormend bench --redraw bench-output/bench.jsonl --out again",
)
SECTIONS = ("races", "passes", "ranks", "grid", "few", "import", "scaling")


def bench(
    suite: Annotated[
        Literal["quick", "full"],
        typer.Option(metavar="NAME", help="quick (about a minute) or full."),
    ] = "quick",
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder to write to.")] = Path(
        "bench-output"
    ),
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"A section ({', '.join(SECTIONS)}) or a case; may be repeated. Records of the "
            "others are kept.",
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Method or package to run, such as rcg, 'dense rgd' or 'pymanopt CG'; may be "
            "repeated.",
        ),
    ] = None,
    solver: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE:CLASS",
            help="Your own solver, which takes part in every race of methods; may be repeated.",
        ),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Runs of each method, fewer if a run is long. Default: 3 for quick, 15 for full.",
        ),
    ] = None,
    time_limit: Annotated[
        Any,
        typer.Option(
            metavar="TIME", parser=parse_seconds, help="Time limit of a run: 90 (seconds), 10m, 2h."
        ),
    ] = "120",
    no_peers: Annotated[bool, typer.Option("--no-peers", help="Run no other packages.")] = False,
    peer_python: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Python interpreter with tensormend and packages that are not installed here.",
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Another build of the compiled kernels (_native*.so), or an instruction set "
            "(avx2) of this one; the passes by rank (--only ranks) are timed with both, "
            "alternating.",
        ),
    ] = None,
    write: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the page to this file.")
    ] = None,
    redraw: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Run nothing; write the page from these records."),
    ] = None,
) -> None:
    """Compare run times with those of other packages.

    Runs the methods of tensormend, dense NumPy versions of the methods of the paper, and other
    installed packages on the same problems, alternating, and compares the kernels with a pass over
    the same memory. Writes records, a page and figures.
    """
    from tensormend.plotting import require_matplotlib
    from tensormend.research.bench.page import write_performance
    from tensormend.research.bench.suite import run_suite
    from tensormend.research.bench.turns import Benchmark
    from tensormend.research.custom import check_custom

    require_matplotlib()  # fail early
    check_custom(solver or [])
    repeats = {"quick": 3, "full": 15}[suite] if repeats is None else repeats
    if repeats < 1:
        raise InputError(f"--repeats must be 1 or more, got {repeats}; for example --repeats 3")
    folder = make_folder(out)
    records = folder / "bench.jsonl" if redraw is None else redraw
    if redraw is None:
        settings = Benchmark(
            records,
            repeats=repeats,
            budget=time_limit,
            peer_python=peer_python,
            against=None
            if against is None
            else str(against.resolve() if against.exists() else against),
            note=_note,
        )
        run_suite(
            settings,
            suite,
            only=only or [],
            methods=method or [],
            solvers=solver or [],
            with_peers=not no_peers,
        )
    elif not records.is_file():
        raise InputError(
            f"--redraw must be an existing file of records, got {records}; check the name"
        )
    page = folder / "performance.md"
    write_performance(records, page)
    put(f"records    {records}\npage       {page}\n")
    if write is not None:
        write_performance(records, write, keep_records=True)
        put(f"written    {write}\n")


def _note(line: str) -> None:
    sys.stderr.write(line + "\n")
