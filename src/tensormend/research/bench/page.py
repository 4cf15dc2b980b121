"""The page of the benchmark: prose from ``prose/``, tables and pictures from the records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.core.text import format_shape
from tensormend.plotting import save_curves, save_growth
from tensormend.research.bench import tables
from tensormend.research.bench.bars import check_bars
from tensormend.research.bench.findings import Findings
from tensormend.research.bench.ranks import FIBRES
from tensormend.research.bench.scaling import fit_exponent
from tensormend.research.custom import label_method
from tensormend.research.pages import Section, link, make_table, show_bars, show_picture, write_page
from tensormend.research.records import Record, read_records, store_records

__all__ = ["write_performance"]


def write_performance(records: Path, page: Path, *, keep_records: bool = False) -> None:
    """Write the page, and its pictures into a folder beside it of the same name.

    Parameters
    ----------
    records : Path
        File of records, plain or compressed.
    page : Path
        The page to write.
    keep_records : bool, default=False
        Whether the folder gets a copy of the records too, compressed where they are large, from
        which the page can be drawn again.
    """
    findings = Findings(read_records(records))
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    source = records.name
    if keep_records:
        source = link(store_records([records], folder / "bench.jsonl"), page)
    pictures = {name: link(path, page) for name, path in _draw_pictures(findings, folder).items()}
    write_page(page, "tensormend.research.bench", _make_sections(findings, pictures, source))


# pictures


def _draw_pictures(findings: Findings, folder: Path) -> dict[str, Path]:
    """Draw what the records hold; return the pictures by name."""
    drawn = {}
    for case in findings.case_names("races"):
        curves = _collect_curves(findings, case)
        if curves:
            accuracy = findings.entries("races", case)[0].case.accuracy
            drawn[case] = folder / f"race-{case}.png"
            title = _describe_case(findings, case)
            save_curves(drawn[case], curves, title=title, accuracy=accuracy)
    series = tables.growth_series(findings)
    if series:
        fitted = {
            name: {
                what: (x, y, fit_exponent(x, y)[0] if len(x) > 2 else None)
                for what, (x, y) in lines.items()
            }
            for name, lines in series.items()
        }
        drawn["scaling"] = folder / "scaling.png"
        save_growth(drawn["scaling"], fitted)
    return drawn


def _collect_curves(findings: Findings, case: str) -> list[tuple[str, str, Any]]:
    curves = []
    for entry in findings.entries("races", case):
        points = [p for p in entry.median_run.get("curve", []) if None not in p and p[1] > 0]
        if points:
            label = label_method(entry.contestant)
            label += "" if entry.seconds is not None else f" ({entry.outcome})"
            curves.append((label, entry.family, np.array(points)))
    return curves


def _describe_case(findings: Findings, case: str) -> str:
    drawn = findings.entries("races", case)[0].case
    shape = format_shape(drawn.shape)
    return f"{shape}, rank {drawn.rank}, {100 * drawn.ratio:g}% of the entries observed"


# sections


def _make_sections(findings: Findings, pictures: dict[str, str], source: str) -> Iterator[Section]:
    bars = show_bars(check_bars(findings))
    yield "intro", {"source": source, "sections": _show_sections(findings), "bars": bars}
    if findings.case_names("races"):
        yield from _make_races(findings, pictures)
    if findings.of("passes"):
        yield "passes", {"table": tables.show_passes(findings)}
    if findings.of("run", "grid"):
        yield "grid", {"table": tables.show_grid(findings)}
    if findings.of("few"):
        yield "few", {"table": tables.show_few(findings)}
    if findings.of("growth") or findings.of("run", "scaling"):
        table = f"\n\n{tables.show_growth(findings)}" if findings.of("growth") else ""
        picture = show_picture("Seconds against what grows", pictures.get("scaling"))
        yield "growth", {"table": table, "picture": picture}
    if findings.of("run", "scaling"):
        yield "huge", {"table": tables.show_huge(findings)}
    if findings.of("ranks"):
        yield from _make_ranks(findings)


def _show_sections(findings: Findings) -> str:
    rows = []
    for record in _latest_sections(findings):
        machine = record["machine"]
        shown = ", ".join(record["cases"]) or "all"
        software = f"tensormend {machine['tensormend']}, Python {machine['python']}"
        software += f", NumPy {machine['numpy']}, SciPy {machine['scipy']}"
        facts = (record["section"], shown, record["started"], record["repeats"])
        rows.append((*facts, f"{machine['machine']}, {machine['threads']} threads", software))
    return make_table(["section", "cases", "started", "`--repeats`", "machine", "software"], rows)


def _latest_sections(findings: Findings) -> list[Record]:
    latest = {
        (record["section"], tuple(record["cases"])): record for record in findings.of("section")
    }
    return list(latest.values())


def _make_races(findings: Findings, pictures: dict[str, str]) -> Iterator[Section]:
    warm = {run["case"]["name"] for run in findings.of("run", "races") if run.get("is_warm")}
    words = (
        f"\nIn {', '.join(sorted(warm))} a run of less than a second was repeated at once and\n"
        "the second is timed, because a process that has waited finds its caches cold."
    )
    yield "races", {"warm": words if warm else ""}
    for case in findings.case_names("races"):
        facts = {"title": _describe_case(findings, case), "case": case}
        picture = show_picture(f"Error against seconds, {case}", pictures.get(case))
        yield "race", {**facts, "table": tables.show_races(findings, case), "picture": picture}
    yield "contestants", {"table": tables.show_contestants(findings)}


def _make_ranks(findings: Findings) -> Iterator[Section]:
    fibres = [
        f"{name.capitalize()} fibres have {n} entries each, in a tensor of {format_shape(shape)}."
        for name, (shape, n) in FIBRES.items()
    ]
    yield "ranks", {"fibres": "\n".join(fibres)}
    records = findings.of("ranks")
    for name in dict.fromkeys(n for record in records for n in record["times"]["ours"]):
        yield "rank", {"name": name, "table": tables.show_ranks(findings, name)}
    others = list(dict.fromkeys(record["other"] for record in records if "other" in record))
    if others:
        yield "builds", {"other": " or ".join(others), "table": tables.show_builds(findings)}
