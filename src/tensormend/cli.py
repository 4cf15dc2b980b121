"""The command line: parse, call, write, exit."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

import tensormend as tm
from tensormend.algebra import Array
from tensormend.bench.contestants import list_names
from tensormend.bench.page import write_page
from tensormend.bench.runner import BUDGET, Runner
from tensormend.bench.suite import SECTIONS, SUITES, run_suite
from tensormend.datasets import load_indian_pines
from tensormend.errors import InputError, TensormendError
from tensormend.experiments.catalogue import EXPERIMENTS
from tensormend.experiments.report import write_report
from tensormend.experiments.runner import SCALES, load_records, run_experiment
from tensormend.plots import require_matplotlib, save_completion, save_reproduction
from tensormend.records import describe_machine

__all__ = ["main"]

DEAD = 0.1  # share of the image columns lost in each band
SHOWN_FAILURES = 5
SHOWN_BAND, SHOWN_PIXEL = 24, (45, 50)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the ``tensormend`` command and return its exit code."""
    parser = _make_parser()
    arguments = parser.parse_args(argv)
    try:
        if arguments.command == "demo":
            _run_demo(arguments)
        elif arguments.command == "bench":
            _run_bench(arguments)
        elif arguments.command == "reproduce":
            return _run_reproduce(arguments)
        else:
            parser.print_help()
    except TensormendError as error:
        sys.stderr.write(f"tensormend: {' '.join(str(error).split())}\n")
        return 2
    return 0


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tensormend",
        description="Recover low-rank tensors from incomplete, compressed or noisy measurements.",
    )
    parser.add_argument("--version", action="version", version=f"tensormend {tm.__version__}")
    commands = parser.add_subparsers(dest="command", title="commands")
    demo = commands.add_parser(
        "demo",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        help="hide most of a hyperspectral image, recover it, and draw both",
        description="Hide most of a real hyperspectral image, recover it from the rest, print the "
        "error on the hidden entries and draw the image before and after.",
    )
    demo.add_argument("--out", type=Path, default=Path("demo-output"), help="folder to write to")
    demo.add_argument(
        "--rank", type=_parse_rank, default="auto", help="auto, one number, or one per mode"
    )
    demo.add_argument("--ratio", type=float, default=0.2, help="share of the entries to sample")
    demo.add_argument("--seed", type=int, default=0, help="seed of what is hidden")
    _add_bench(commands)
    _add_reproduce(commands)
    return parser


BENCH_EXAMPLES = """
examples:
  tensormend bench                                 a look, in about a minute
  tensormend bench --suite full --write docs/performance.md
  tensormend bench --suite full --only scaling     how cost grows
  tensormend bench --suite full --only n100 --methods rcg "dense rgd"
  tensormend bench --redraw bench-output/bench.jsonl
"""


def _add_bench(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    bench = commands.add_parser(
        "bench",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        help="time our methods beside their peers, and the kernels beside a plain read",
        description="Run our methods, dense NumPy versions of the paper's and the peers that are\n"
        "installed on the same problems, in turns; write records, a page and pictures.",
        epilog=BENCH_EXAMPLES,
    )
    bench.add_argument("--suite", choices=list(SUITES), default="quick", help="quick by default")
    bench.add_argument(
        "--out", type=Path, default=Path("bench-output"), help="folder to write to: bench-output"
    )
    bench.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="NAME",
        help=f"sections ({', '.join(SECTIONS)}) or cases; records of the others are kept",
    )
    bench.add_argument(
        "--methods",
        nargs="+",
        default=[],
        metavar="NAME",
        help=f"contestants: {'; '.join(list_names())}",
    )
    bench.add_argument("--repeats", type=int, default=None, help="runs of each contestant")
    bench.add_argument("--budget", type=float, default=BUDGET, help="seconds a run may take")
    bench.add_argument("--no-peers", action="store_true", help="leave other packages out")
    bench.add_argument(
        "--peer-python",
        metavar="PATH",
        help="a Python with tensormend and the peers that this one does not have",
    )
    bench.add_argument("--write", type=Path, metavar="PAGE", help="write the page here as well")
    bench.add_argument(
        "--redraw", type=Path, metavar="RECORDS", help="run nothing, draw the page of these records"
    )


def _add_reproduce(commands: Any) -> None:
    reproduce = commands.add_parser(
        "reproduce",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        help="run the experiments of the paper and draw their figures",
        description="Run the experiments of the paper's section 4, keep the results as JSON lines "
        "and draw the figures from these. A run that was interrupted goes on where it stopped.",
    )
    reproduce.add_argument(
        "name",
        choices=[*EXPERIMENTS, "all"],
        metavar="NAME",
        help=f"{', '.join(EXPERIMENTS)} or all",
    )
    reproduce.add_argument(
        "--scale", choices=SCALES, default="smoke", help="minutes at small sizes, or the paper's"
    )
    reproduce.add_argument(
        "--out", type=Path, default=Path("reproduction-output"), help="folder to write to"
    )
    reproduce.add_argument(
        "--redraw", action="store_true", help="draw from the records that are there, run nothing"
    )
    reproduce.add_argument(
        "--write",
        type=Path,
        metavar="FILE",
        help="write the page on all experiments from the records",
    )


def _parse_rank(text: str) -> Literal["auto"] | int | tuple[int, ...]:
    if text == "auto":
        return "auto"
    try:
        rank = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected auto, a number such as 8 or one per mode such as 20,20,3, got {text!r}"
        ) from None
    return rank[0] if len(rank) == 1 else rank


# the benchmark


def _run_bench(arguments: argparse.Namespace) -> None:
    require_matplotlib()  # before the work, not after it
    repeats = arguments.repeats
    if repeats is None:
        repeats = 3 if arguments.suite == "quick" else 5
    if repeats < 1:
        raise InputError(f"--repeats must be 1 or more, got {repeats}")
    if not arguments.budget > 0:
        raise InputError(f"--budget must be a positive number of seconds, got {arguments.budget}")
    folder = _make_folder(arguments.out)
    records = folder / "bench.jsonl" if arguments.redraw is None else arguments.redraw
    if arguments.redraw is None:
        runner = Runner(
            records,
            repeats=repeats,
            budget=arguments.budget,
            peer_python=arguments.peer_python,
            note=_note,
        )
        run_suite(
            runner,
            arguments.suite,
            machine=describe_machine(tm.__version__),
            only=arguments.only,
            methods=arguments.methods,
            with_peers=not arguments.no_peers,
        )
    elif not records.is_file():
        raise InputError(f"--redraw takes a file of records, got {records}, which is not there")
    page = folder / "performance.md"
    write_page(records, page)
    sys.stdout.write(f"records    {records}\npage       {page}\n")
    if arguments.write is not None:
        write_page(records, arguments.write, keep_records=True)
        sys.stdout.write(f"written    {arguments.write}\n")


def _note(line: str) -> None:
    sys.stderr.write(line + "\n")


# the experiments of the paper


def _run_reproduce(arguments: argparse.Namespace) -> int:
    require_matplotlib()  # before the work, not after it
    folder = _make_folder(arguments.out)
    failures: list[str] = []
    for name in EXPERIMENTS if arguments.name == "all" else (arguments.name,):
        if not arguments.redraw:
            try:
                summary = run_experiment(
                    EXPERIMENTS[name], arguments.scale, folder, stream=sys.stderr
                )
            except KeyboardInterrupt:
                sys.stderr.write("\ntensormend: stopped; the same command goes on from here\n")
                return 130
            failures += summary.failures
            sys.stdout.write(f"{name}: {summary.n_run} cells run, {summary.n_skipped} were there\n")
        records = load_records(name, arguments.scale, folder)
        if not records:
            sys.stdout.write(f"{name}: no records of scale {arguments.scale} in {folder}\n")
            continue
        for path in save_reproduction(name, records, folder):
            sys.stdout.write(f"{name}: {path}\n")
    if arguments.write is not None:
        write_report(arguments.write, folder, arguments.scale)
        sys.stdout.write(f"page: {arguments.write}\n")
    for failure in failures[:SHOWN_FAILURES]:
        sys.stderr.write(f"tensormend: failed: {failure}\n")
    if len(failures) > SHOWN_FAILURES:
        rest = len(failures) - SHOWN_FAILURES
        sys.stderr.write(f"tensormend: {rest} more failed; the records in {folder} name them\n")
    return 1 if failures else 0


# the demo


def _run_demo(arguments: argparse.Namespace) -> None:
    require_matplotlib()  # before the work, not after it
    folder = _make_folder(arguments.out)
    pines = load_indian_pines()
    observed = _choose_observed(pines.cube.shape, arguments.ratio, arguments.seed)
    result = tm.complete(pines.cube, arguments.rank, mask=observed, rng=arguments.seed)
    recovered = result.model
    picture = folder / "indian-pines.png"
    save_completion(
        picture,
        pines.cube,
        observed,
        recovered,
        band=SHOWN_BAND,
        pixel=SHOWN_PIXEL,
        bands=pines.bands,
    )
    means = _band_means(pines.cube, observed)
    sys.stdout.write(_describe(pines.cube, observed, means, recovered, result))
    sys.stdout.write(f"picture    {picture}\n")


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"--out must be a folder that can be written to, got {folder} ({error.strerror})"
        ) from error
    return folder


def _choose_observed(shape: tuple[int, ...], ratio: float, seed: int) -> Array:
    """Sample entries at random, then lose whole image columns, other ones in each band."""
    if not 0 < ratio <= 1:
        raise InputError(f"--ratio must be above 0 and at most 1, got {ratio}")
    if seed < 0:
        raise InputError(f"--seed must be 0 or more, got {seed}")
    rng = np.random.default_rng(seed)
    observed = rng.random(shape) < ratio
    observed &= rng.random(shape[1:]) >= DEAD
    if not observed.any(axis=(0, 1)).all():
        raise InputError(f"--ratio {ratio} leaves a band without any entry; raise it")
    return observed


def _band_means(cube: Array, observed: Array) -> Array:
    return np.asarray(np.mean(cube, axis=(0, 1), where=observed))


def _describe(
    cube: Array, observed: Array, means: Array, recovered: Array, result: tm.Completion
) -> str:
    def error(image: Array, where: Array) -> str:
        truth = cube[where]
        misfit = np.linalg.norm(np.broadcast_to(image, cube.shape)[where] - truth)
        return f"{misfit / np.linalg.norm(truth):.2%}"

    def times(numbers: Sequence[int]) -> str:
        return " x ".join(map(str, numbers))

    hidden = ~observed
    chosen = result.notes[0] if result.path else f"rank {times(result.x.rank)}, {result.method}"
    what = textwrap.wrap(chosen, 80)
    seen = f"{observed.mean():.1%} of {observed.size} entries"
    lines = [
        "Indian Pines hyperspectral image, rows x columns x bands",
        "",
        f"shape      {times(cube.shape)}",
        f"observed   {seen}; in each band about one column in ten is lost whole",
        f"model      {what[0]}",
        *(f"           {line}" for line in what[1:]),
        f"seconds    {result.seconds:.2f}",
        f"expected   {result.trust.relative_error:.2%} error where hidden, by entries held out",
        f"verdict    {result.trust.verdict.value}",
        "",
        f"{'relative error':<27}{'band means':>10}{'recovered':>12}",
        f"{'observed entries':<27}{error(means, observed):>10}{error(recovered, observed):>12}",
        f"{'hidden entries':<27}{error(means, hidden):>10}{error(recovered, hidden):>12}",
        "",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
