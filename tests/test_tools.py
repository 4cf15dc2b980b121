"""The development environment: what is locked, what is installed, what is built."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import environment
import test_cpus

pytestmark = pytest.mark.checkout

EXTRAS = ("bench", "dev", "docs", "realdata", "wheel", "workflows")
LOCKS = (environment.LOCK, environment.ROOT / "requirements-riemopt.lock")


def name_of(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None
    return found[0].lower().replace("_", "-")


def read_names(path: Path) -> set[str]:
    lines = path.read_text().splitlines()
    return {name_of(line) for line in lines if line and not line.startswith("#")}


def test_extras_are_expanded_to_requirements() -> None:
    found = {name_of(requirement) for requirement in environment.list_requirements(["files"])}
    assert {"numpy", "h5py", "pillow", "xarray", "zarr"} <= found
    assert "tensormend" not in found
    assert "pytest" not in found


def test_the_build_needs_no_package_of_the_run() -> None:
    found = {name_of(requirement) for requirement in environment.list_requirements(["build"])}
    assert found == {"scikit-build-core", "nanobind", "cmake", "ninja"}


def test_an_extra_that_is_not_there_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"extras are build, plot.*got none"):
        environment.list_requirements(["none"])


def test_the_lock_has_every_requirement() -> None:
    wanted = {name_of(r) for r in environment.list_requirements(["build", *EXTRAS])}
    assert wanted - read_names(LOCKS[0]) == {"torch"}
    wanted = {name_of(r) for r in environment.list_requirements(["riemopt"])}
    assert wanted - read_names(LOCKS[1]) == {"torch"}


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_a_lock_has_exact_versions_and_no_address(path: Path) -> None:
    for line in path.read_text().splitlines():
        assert re.fullmatch(r"#.*|[a-z0-9.-]+==[^ /:]+( ; [^/:]*)?", line), line


def test_what_is_not_to_be_had_as_locked_comes_as_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0 if check else 1)

    monkeypatch.setattr(subprocess, "run", run)
    environment.install(["build"], "locked", tmp_path / "some.lock")
    locked, free = commands
    assert "--constraint" in locked
    assert "--constraint" not in free
    assert free[-4:] == locked[-4:] == environment.list_requirements(["build"])
    assert "the versions of some.lock cannot be had here" in capsys.readouterr().out


def test_a_processor_runs_core_types_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[tuple[str, str]] = []
    monkeypatch.setattr(test_cpus, "find_flags", lambda: {"pni", "sse4_2"})
    monkeypatch.setattr(test_cpus, "run_as", lambda core, kernels: runs.append((core, kernels)))
    monkeypatch.setattr(sys, "argv", ["test_cpus.py"])
    test_cpus.main()
    assert runs == [("Prescott", "baseline"), ("Nehalem", "baseline")]
    monkeypatch.setattr(sys, "argv", ["test_cpus.py", "Z80"])
    with pytest.raises(SystemExit, match="got Z80"):
        test_cpus.main()
