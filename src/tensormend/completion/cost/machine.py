"""How much memory the machine has left for this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["available_memory"]


def available_memory(root: str | os.PathLike[str] = "/") -> int | None:
    """Return the bytes that this process may still take, or ``None`` where that is not known.

    On Linux the least of what the system has available and what the control groups of the process
    leave, which is what containers and batch systems limit. Elsewhere it is not known.
    """
    found = [*_from_meminfo(Path(root)), *_from_cgroups(Path(root))]
    if not found and hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        found = [os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    return max(0, min(found)) if found else None


def _from_meminfo(root: Path) -> Iterator[int]:
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) * 1024


def _from_cgroups(root: Path) -> Iterator[int]:
    """Yield what each group of the process leaves: its limit less what it cannot give back."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2
            base, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            base = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        here = base / path.lstrip("/")
        for group in (here, *(parent for parent in here.parents if parent.is_relative_to(base))):
            yield from _room_in(group, *names)


def _room_in(group: Path, limit_file: str, usage_file: str, cache_name: str) -> Iterator[int]:
    limit, usage = _read(group / limit_file).strip(), _read(group / usage_file).strip()
    if not (limit.isdigit() and usage.isdigit()):
        return  # no such group, or no limit ("max")
    cached = 0  # pages of files that the system drops when asked for memory
    for line in _read(group / "memory.stat").splitlines():
        name, _, number = line.partition(" ")
        if name == cache_name:
            cached = int(number)
    yield int(limit) - max(0, int(usage) - cached)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
