"""The page of a benchmark: tables and pictures, all drawn from the records."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.core.storage import atomic_write
from tensormend.plotting import save_curves, save_growth
from tensormend.research.bench import table
from tensormend.research.bench.ranks import FIBRES
from tensormend.research.bench.scaling import fit_exponent
from tensormend.research.bench.summary import Findings, Record
from tensormend.research.records import read_records

__all__ = ["write_page"]

LARGE = 200_000  # bytes of records above which a page keeps them compressed


def write_page(records: Path, page: Path, *, keep_records: bool = False) -> None:
    """Write a Markdown page, and its pictures into a folder beside it of the same name.

    With ``keep_records`` the folder gets a copy of the records too, compressed where they are
    large; the page can be drawn again from that.
    """
    findings = Findings(read_records(records))
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    pictures = _draw_pictures(findings, folder)
    source = records.name
    if keep_records:
        source = f"{folder.name}/{_copy_records(records, folder).name}"
    text = "\n".join(_write_sections(findings, pictures, source)) + "\n"
    with atomic_write(page) as file:
        file.write(text.encode())


def _copy_records(records: Path, folder: Path) -> Path:
    raw = records.read_bytes()
    raw = gzip.decompress(raw) if records.suffix == ".gz" else raw
    is_large = len(raw) > LARGE
    target = folder / ("bench.jsonl.gz" if is_large else "bench.jsonl")
    with atomic_write(target) as file:
        file.write(gzip.compress(raw, mtime=0) if is_large else raw)
    return target


# pictures


def _draw_pictures(findings: Findings, folder: Path) -> dict[str, str]:
    """Draw what the records hold; return the paths of the pictures relative to the page."""
    drawn = {}
    for case in findings.case_names("races"):
        curves = _collect_curves(findings, case)
        if curves:
            accuracy = findings.entries("races", case)[0].case.accuracy
            name = f"race-{case}.png"
            title = _describe_case(findings, case)
            save_curves(folder / name, curves, title=title, accuracy=accuracy)
            drawn[case] = f"{folder.name}/{name}"
    series = table.growth_series(findings)
    if series:
        fitted = {
            name: {
                what: (x, y, fit_exponent(x, y) if len(x) > 1 else None)
                for what, (x, y) in lines.items()
            }
            for name, lines in series.items()
        }
        save_growth(folder / "scaling.png", fitted)
        drawn["scaling"] = f"{folder.name}/scaling.png"
    return drawn


def _collect_curves(findings: Findings, case: str) -> list[tuple[str, str, Any]]:
    curves = []
    for entry in findings.entries("races", case):
        points = [p for p in entry.median_run.get("curve", []) if None not in p and p[1] > 0]
        if points:
            label = entry.contestant
            label += "" if entry.seconds is not None else f" ({entry.outcome})"
            curves.append((label, entry.family, np.array(points)))
    return curves


def _describe_case(findings: Findings, case: str) -> str:
    drawn = findings.entries("races", case)[0].case
    shape = " x ".join(map(str, drawn.shape))
    return f"{shape}, rank {drawn.rank}, {100 * drawn.ratio:g}% of the entries seen"


# words


def _write_sections(findings: Findings, pictures: dict[str, str], source: str) -> Iterable[str]:
    yield from _write_head(findings, source)
    yield from ["", "## Bars", "", "Computed from the records of this page.", ""]
    yield from table.show_bars(findings)
    if findings.case_names("races"):
        yield from _write_races(findings, pictures)
    if findings.of("passes"):
        yield from _write_passes(findings)
    if findings.of("run", "grid"):
        yield from ["", "## `auto` beside our other methods", ""]
        yield "Seconds to a true relative error of 1e-10, medians, random cubic tensors. The first"
        yield "column has `n`, the rank and the share of the entries seen; `ill` is for a condition"
        yield "number of 100."
        yield from ["", *table.show_grid(findings)]
    if findings.of("few"):
        yield from ["", "## How few entries are enough", ""]
        yield "Cubic tensors with n = 100; recovered means a true relative error of at most 1e-5."
        yield "A share of the entries is enough where 4 of 5 random tensors are recovered."
        yield from ["", *table.show_few(findings)]
    if findings.of("growth") or findings.of("run", "scaling"):
        yield from _write_growth(findings, pictures)
    if findings.of("ranks"):
        yield from _write_ranks(findings)


def _write_head(findings: Findings, source: str) -> Iterable[str]:
    yield "# Performance"
    yield ""
    yield "Written by `tensormend bench`; every number, table and picture comes from its records"
    yield f"(`{source}`), and `tensormend bench --redraw` makes them again from these. What carries"
    yield "over to another machine is the ratios."
    yield ""
    rows = []
    for record in _latest_sections(findings):
        machine = record["machine"]
        shown = ", ".join(record["cases"]) or "all"
        software = f"tensormend {machine['tensormend']}, Python {machine['python']}"
        software += f", NumPy {machine['numpy']}, SciPy {machine['scipy']}"
        facts = (record["section"], shown, record["started"], record["repeats"])
        rows.append((*facts, f"{machine['machine']}, {machine['threads']} threads", software))
    head = ["section", "cases", "started", "`--repeats`", "machine", "software"]
    yield from table.make_table(head, rows)


def _latest_sections(findings: Findings) -> list[Record]:
    latest = {
        (record["section"], tuple(record["cases"])): record for record in findings.of("section")
    }
    return list(latest.values())


def _write_races(findings: Findings, pictures: dict[str, str]) -> Iterable[str]:
    yield from ["", "## Races", ""]
    yield "Seconds to the true relative error that the picture shows as a line, initialization"
    yield "included; looks at the error are kept off the clock. Contestants take turns, in another"
    yield "order every round, each in a process of its own with all threads, and medians are shown."
    yield "A contestant that misses the accuracy is not timed."
    warm = {run["case"]["name"] for run in findings.of("run", "races") if run.get("is_warm")}
    if warm:
        yield f"In {', '.join(sorted(warm))} a run of less than a second was made twice in a row"
        yield "and the second counts: a process that waited for its turn has lost its caches."
    for case in findings.case_names("races"):
        yield from ["", f"### {_describe_case(findings, case)} (`{case}`)", ""]
        yield from table.show_races(findings, case)
        if case in pictures:
            yield from ["", f"![Error against seconds, {case}]({pictures[case]})"]
    yield from ["", "### Who took part", ""]
    yield from table.show_contestants(findings)


def _write_passes(findings: Findings) -> Iterable[str]:
    yield from ["", "## Beside a plain read", ""]
    yield "Seconds of a pass over the entries, and of a whole iteration, as multiples of a threaded"
    yield "read of the values and the lead-mode indices, measured in turns; medians."
    yield from ["", *table.show_passes(findings)]


def _write_ranks(findings: Findings) -> Iterable[str]:
    yield from ["", "## Passes by rank", ""]
    yield "Nanoseconds an entry on one thread, medians, ranks equal in all modes."
    for name, (shape, n) in FIBRES.items():
        size = " x ".join(map(str, shape))
        yield f"{name.capitalize()} fibres have {n} entries each, in a tensor of {size}."
    names = dict.fromkeys(n for record in findings.of("ranks") for n in record["times"]["ours"])
    for name in names:
        yield from ["", f"### {name}", "", *table.show_ranks(findings, name)]
    if any("theirs" in record["times"] for record in findings.of("ranks")):
        yield from ["", "### Beside another build of the kernels", ""]
        yield "Our time over that of the other build, timed in turns; medians over the repeats."
        yield from ["", *table.show_builds(findings)]


def _write_growth(findings: Findings, pictures: dict[str, str]) -> Iterable[str]:
    yield from ["", "## How cost grows", ""]
    yield "One thing varies at a time around 200 x 200 x 200, rank 5, 5% of the entries seen: the"
    yield "entries; the size, with the samples per degree of freedom kept; the rank; the order,"
    yield "with 400,000 of about 8 million entries at rank 3; the threads, on 400 x 400 x 400. The"
    yield "numbers are slopes of straight lines through the logarithms."
    if findings.of("growth"):
        yield from ["", *table.show_growth(findings)]
    if "scaling" in pictures:
        yield from ["", f"![Seconds against what grows]({pictures['scaling']})"]
    if findings.of("run", "scaling"):
        yield from ["", "### A tensor of eight billion entries", ""]
        yield from table.show_huge(findings)
