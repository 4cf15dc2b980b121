"""The page on the reproduction: prose from ``prose/``, numbers and verdicts from the records."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from string import Template

from tensormend.core.storage import atomic_write
from tensormend.research.experiments.catalogue import EXPERIMENTS
from tensormend.research.experiments.runner import Preset, Record, load_records

__all__ = ["write_report"]


def write_report(target: Path, folder: Path, preset: Preset) -> None:
    """Write the page from the records in a folder; an experiment without any is named as such."""
    where = Path(os.path.relpath(folder, target.parent)).as_posix()
    found = {name: load_records(name, preset, folder) for name in EXPERIMENTS}
    parts = [_fill("intro", {**_introduce(found), **_places(target, folder), "preset": preset})]
    for name, records in found.items():
        if records:
            facts = EXPERIMENTS[name].describe(records)
            parts.append(_fill(name, {**facts, "figure": f"{where}/{name}.png"}))
        else:
            title = EXPERIMENTS[name].title
            parts.append(f"## {title}\n\nNot run yet: `tensormend reproduce {name}`.\n")
    with atomic_write(target) as file:
        file.write("\n".join(parts).encode())


def _fill(name: str, facts: Mapping[str, str]) -> str:
    source = resources.files("tensormend.research.experiments") / "prose" / f"{name}.md"
    return Template(source.read_text("utf-8")).substitute(facts)


def _places(target: Path, folder: Path) -> dict[str, str]:
    return {"folder": _shorten(folder), "target": _shorten(target)}


def _shorten(path: Path) -> str:
    """Name a path from the working folder where it lies inside, else by its last part."""
    full, here = path.resolve(), Path.cwd()
    return (full.relative_to(here) if full.is_relative_to(here) else Path(full.name)).as_posix()


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
