"""The page on the reproduction: prose from ``prose/``, numbers and verdicts from the records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tensormend.research.experiments.catalogue import EXPERIMENTS
from tensormend.research.pages import Section, link, shorten_path, show_claims, write_page
from tensormend.research.records import Record
from tensormend.research.runner import load_records

__all__ = ["write_reproduction"]


def write_reproduction(page: Path, folder: Path, preset: str) -> None:
    """Write the page from the records in a folder; an experiment without any is named as such."""
    write_page(page, "tensormend.research.experiments", _make_sections(page, folder, preset))


def _make_sections(page: Path, folder: Path, preset: str) -> Iterator[Section]:
    found = {name: load_records(name, preset, folder) for name in EXPERIMENTS}
    claims = [
        claim for name, own in found.items() if own for claim in EXPERIMENTS[name].claims(own)
    ]
    where = {"folder": shorten_path(folder), "target": shorten_path(page), "preset": preset}
    summary = show_claims(claims) if claims else "No experiment was run."
    yield "intro", {**_introduce(found), **where, "claims": summary}
    for name, records in found.items():
        if records:
            figure = {"figure": f"{link(folder, page)}/{name}.png"}
            yield name, {**EXPERIMENTS[name].describe(records), **figure}
        else:
            yield "missing", {"title": EXPERIMENTS[name].title, "name": name}


def _introduce(found: Mapping[str, Sequence[Record]]) -> dict[str, str]:
    counts = ", ".join(f"{name} {len(records)}" for name, records in found.items() if records)
    machines = [record["machine"] for records in found.values() for record in records]
    if not machines:
        return {"counts": "none", "machine": "not known"}
    names = ("tensormend", "python", "numpy", "scipy")
    versions = ", ".join(f"{name} {_join(machines, name)}" for name in names)
    kind = _join(machines, "machine")
    cores = max(int(machine["threads"]) for machine in machines)
    return {"counts": counts, "machine": f"{kind}, {cores} cores; {versions}"}


def _join(machines: Sequence[Mapping[str, object]], name: str) -> str:
    return " and ".join(sorted({str(machine[name]) for machine in machines}))
