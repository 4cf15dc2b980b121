"""The page of the study: prose from ``prose/``, tables and a picture from the records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tensormend.core.text import format_shape
from tensormend.plotting import save_ratios
from tensormend.research.pages import (
    Section,
    link,
    make_table,
    shorten_path,
    show_picture,
    write_page,
)
from tensormend.research.realdata.contestants import CONTESTANTS, OURS
from tensormend.research.realdata.findings import NUCLEAR, Cell, Findings
from tensormend.research.records import Record
from tensormend.research.runner import Experiment, load_records

__all__ = ["write_study"]

SCORES = {"rmse": "RMSE", "mape": "MAPE (%)", "psnr": "PSNR (dB)", "seconds": "seconds"}


def write_study(experiment: Experiment, page: Path, folder: Path, preset: str) -> None:
    """Write the page from the records in a folder; the picture goes into that folder."""
    records = load_records(experiment.name, preset, folder, with_failures=True)
    findings = Findings.of(records)
    picture = folder / "ratios.png"
    peers = [name for name in CONTESTANTS if name != OURS]
    series = {peer: _name_cells(findings.ratios([peer])) for peer in peers}
    has_picture = save_ratios(picture, series, list(_name_cells(findings.ratios(peers))))
    source = next(
        (path for path in folder.glob(f"{experiment.name}.jsonl*")),
        folder / f"{experiment.name}.jsonl",
    )
    facts = {
        **experiment.describe(records),
        "folder": shorten_path(folder),
        "target": shorten_path(page),
        "source": link(source, page),
        "picture": show_picture(
            "RMSE of tensormend over that of each peer, by cell",
            link(picture, page) if has_picture else None,
        ),
    }
    sections = [("intro", facts), *_make_sections(findings)]
    write_page(page, "tensormend.research.realdata", sections)


def _name_cells(ratios: dict[Cell, float]) -> dict[str, float]:
    return {" ".join(cell): ratio for cell, ratio in ratios.items()}


def _make_sections(findings: Findings) -> Iterator[Section]:
    yield "losses", {"table": _show_losses(findings)}
    names = [name for name in findings.datasets if findings.losses(name)]
    for name in names:
        yield "dataset", _describe_dataset(findings, name)
    yield "contestants", {}
    facts = [(name, findings.datasets[name]) for name in names]
    rows = [(name, fact["source"], fact["licence"]) for name, fact in facts]
    yield "sources", {"table": make_table(["data", "source", "licence"], rows)}


def _show_losses(findings: Findings) -> str:
    """Return a table of the cells in which a peer has the smaller error."""
    rows = []
    for cell in findings.cells:
        mine = findings.value(cell, OURS)
        for peer in CONTESTANTS:
            theirs = findings.value(cell, peer)
            if peer != OURS and mine is not None and theirs is not None and theirs < mine:
                rows.append((*cell, peer, f"{theirs:.4g}", f"{mine:.4g}", f"{mine / theirs:.3f}"))
    if not rows:
        return "In no cell of these tables."
    table = make_table(["data", "lost", "peer", "its RMSE", "our RMSE", "ratio"], rows)
    return f"Every cell in which a peer has the smaller RMSE.\n\n{table}"


def _describe_dataset(findings: Findings, name: str) -> dict[str, str]:
    facts = findings.datasets[name]
    scores = []
    for what, title in SCORES.items():
        rows = [_score_row(findings, (name, loss), what) for loss in findings.losses(name)]
        if any(cell for row in rows for cell in row[1:]):
            scores.append(make_table([title, *CONTESTANTS], rows))
    chosen = ["TensorLy", *NUCLEAR, OURS]
    rows = [
        [loss, *(_show_parameters(findings.runs.get((name, loss, who)), who) for who in chosen)]
        for loss in findings.losses(name)
    ]
    return {
        "name": name,
        "title": f"{facts['title'][0].upper()}{facts['title'][1:]}",
        "size": format_shape(facts["shape"]),
        "modes": " x ".join(facts["modes"]),
        "made": facts["made"],
        "fibre": facts["fibre"],
        "scores": "\n\n".join(scores),
        "parameters": make_table(["lost", *chosen], rows),
    }


def _score_row(findings: Findings, cell: Cell, what: str) -> list[str]:
    values = {name: findings.value(cell, name, what) for name in CONTESTANTS}
    measured = [value for value in values.values() if value is not None]
    best = (max if what == "psnr" else min)(measured, default=None)
    row = [cell[1]]
    for name, value in values.items():
        if value is None:
            has_failed = "failed" in findings.runs.get((*cell, name), {})
            row.append("failed" if has_failed and what == "rmse" else "")
            continue
        shown = f"{value:.2f}" if what in ("mape", "psnr") else f"{value:.3g}"
        if what == "rmse":
            shown = f"{value:.4g}"
        is_best = value == best and what != "seconds"
        row.append(f"**{shown}**" if is_best else shown)
    return row


def _show_parameters(run: Record | None, name: str) -> str:
    if run is None or "failed" in run:
        return ""
    results = run["results"]
    words = [f"{key} {_show(value)}" for key, value in results["parameters"].items()]
    if name == OURS:  # its seconds are of the search, its iterations of the last fit
        return ", ".join(words)
    words.append(f"{results['fit_seconds']:.3g} s")
    if results["n_iter"] is not None:
        ending = "" if results["converged"] else ", not settled"
        words.append(f"{results['n_iter']} iterations{ending}")
    return ", ".join(words)


def _show(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return format_shape(value) if isinstance(value, list) else str(value)
