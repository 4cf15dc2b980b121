"""``tensormend inspect``: describe a file, and estimate which ranks can be recovered."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensormend.cli import options as o
from tensormend.cli.outputs import check_source
from tensormend.cli.parse import parse_seconds_or_zero
from tensormend.cli.settings import given, short_warnings
from tensormend.cli.words import count, say, show, show_json
from tensormend.core.text import format_bytes, format_seconds, format_shape

if TYPE_CHECKING:
    from tensormend import Inspection

__all__ = ["EXAMPLES", "inspect"]

FRACTION = 0.1  # of the observed entries, to be held out by the suggested command
TIME_FACTORS = (0.5, 3)  # range of measured run times, relative to the estimate

EXAMPLES = (
    "tensormend simulate speeds.npy --shape 30,30,30 --rank 3 --noise 0.05",
    "tensormend inspect speeds.npy",
    "tensormend inspect speeds.npy --na-value 0 --time-limit 0 --json",
)


def inspect(
    source: o.Source,
    variable: o.Variable = None,
    modes: o.Modes = None,
    na_value: o.NaValue = None,
    observed: o.Observed = None,
    time_limit: Annotated[
        Any,
        typer.Option(
            metavar="TIME",
            parser=parse_seconds_or_zero,
            help="Time limit of the trial fits, in seconds or as 1m; 0 for no trial fits.",
        ),
    ] = "3",
    memory_limit: o.MemoryLimit = None,
    threads: o.Threads = None,
    seed: o.Seed = 0,
    json: o.Json = False,
) -> None:
    """Describe a file, its pattern of missing entries, and what could be recovered from it.

    Trial fits of increasing rank, assessed on held-out entries, suggest a rank. Time and memory of
    a run are estimates.
    """
    check_source(source)
    load_options = given(variable=variable, modes=modes, na_value=na_value, observed=observed)
    with short_warnings(say):
        import tensormend as tm

        data = tm.load(source, **load_options, **given(memory_limit=memory_limit))
        found = tm.inspect(data, time_limit=time_limit, threads=threads, rng=seed)
    is_complete = found.n_observed == math.prod(found.shape)
    command = None if is_complete else _suggest(source, load_options)
    if json:
        show_json(_make_record(found, source, command))
    else:
        show(_describe(found, source, data.name, command))


def _suggest(source: Path, load_options: dict[str, Any]) -> str:
    """Return the command that completes the file."""
    name = str(source)
    words = ["tensormend", "complete", f"./{name}" if name.startswith("-") else name]
    for name, value in load_options.items():
        text = ",".join(value) if isinstance(value, tuple) else str(value)
        words += [f"--{name.replace('_', '-')}", text]
    return shlex.join([*words, "-o", f"filled{''.join(source.suffixes[-1:])}"])


def _describe(
    found: Inspection, source: Path, quantity: str, command: str | None
) -> Iterator[tuple[str, str]]:
    values = found.values
    yield "file", f"{source}{f', {quantity}' if quantity else ''}"
    yield "shape", f"{format_shape(found.shape)}, {found.dtype}"
    yield "observed", f"{found.n_observed} entries, {100 * found.observed_fraction:.3g}%"
    yield (
        "values",
        (
            f"{values.least:.4g} to {values.largest:.4g}, mean {values.mean:.4g}, "
            f"standard deviation {values.std:.4g}"
        ),
    )
    yield "missing", _describe_pattern(found)
    for k, mode in enumerate(found.modes):
        least, most = 100 * mode.least, 100 * mode.most
        text = f"{count(mode.size, 'slice')}, {least:.3g} to {most:.3g}% observed"
        if mode.n_empty_fibres:
            text += f", {count(mode.n_empty_fibres, 'fibre')} without observed entries"
        yield (f"mode {k}", text if mode.name == f"mode {k}" else f"{mode.name}: {text}")
        if mode.n_empty_slices:
            slices = count(mode.size, "slice")
            yield (
                "",
                f"no observed entry at {mode.empty_slices} ({mode.n_empty_slices} of {slices})",
            )
    yield from _describe_ranks(found)
    if command is None:
        yield (
            "complete",
            "no entry is missing; if some values mark missing entries, name them with --na-value "
            "or --observed",
        )
        return
    yield "cost", f"about {format_bytes(found.cost.bytes)} of memory; {_describe_time(found)}"
    yield "complete", command
    if found.best_rank is not None:
        options = f"--rank {_join(found.best_rank.rank)} --validation-fraction {FRACTION}"
        yield "or faster", f"{command} {options}"


def _describe_time(found: Inspection) -> str:
    """Describe the range of the run time; the cost is that of one fold."""
    least, most = (factor * found.n_folds * found.cost.seconds for factor in TIME_FACTORS)
    if most < 1:
        return "roughly under a second"
    first = "under a second" if least < 1 else format_seconds(least)
    return f"roughly {first} to {format_seconds(most)}"


def _describe_pattern(found: Inspection) -> str:
    if found.n_observed == math.prod(found.shape):
        return "none"
    pattern = found.pattern
    if pattern.mode is None:
        return "single entries, no pattern found"
    name = found.modes[pattern.mode].name
    return f"whole fibres along {name}, with {pattern.fraction:.0%} of the missing entries"


def _describe_ranks(found: Inspection) -> Iterator[tuple[str, str]]:
    """Describe the ranks with enough observed entries, and the trial fits that suggest one."""
    if not found.ranks:
        yield "recoverable", "no rank; even rank 1 has fewer than two entries per degree of freedom"
        return
    largest = found.ranks[-1]
    yield (
        "recoverable",
        (
            f"ranks up to about {_join(largest.rank)}, which leaves {largest.entries_each:.2g} "
            "entries per degree of freedom; a fit needs at least two"
        ),
    )
    tried = [trial for trial in found.ranks if not math.isnan(trial.error)]
    if found.best_rank is None or not tried:
        yield "rank", "no trial fits were made; --rank auto selects a model"
        return
    best = found.best_rank
    yield (
        "rank",
        f"{_join(best.rank)}: its relative error on held-out entries is {100 * best.error:.3g}%, "
        f"and no larger rank is clearly better; trial fits in {format_seconds(found.seconds)}:",
    )
    yield "", "; ".join(f"{_join(trial.rank)}: {100 * trial.error:.3g}%" for trial in tried)


def _join(rank: tuple[int, ...]) -> str:
    return str(rank[0]) if len(set(rank)) == 1 else ",".join(map(str, rank))


def _make_record(found: Inspection, source: Path, command: str | None) -> dict[str, Any]:
    best, cost = found.best_rank, found.cost
    return {
        "input": str(source),
        "shape": found.shape,
        "dtype": found.dtype,
        "n_observed": found.n_observed,
        "observed_fraction": found.observed_fraction,
        "values": asdict(found.values),
        "pattern": asdict(found.pattern),
        "modes": [asdict(mode) for mode in found.modes],
        "ranks": [asdict(trial) for trial in found.ranks],
        "largest_rank": found.largest_rank,
        "best_rank": None if best is None else best.rank,
        "estimated_memory": cost.bytes,
        "estimated_seconds": found.n_folds * cost.seconds,
        "n_folds": found.n_folds,
        "command": command,
    }
