"""Solvers of users in the experiments and the benchmark: `--solver module:Class`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tensormend.cli import main
from tensormend.errors import InputError
from tensormend.recovery.steps import ConstantStep
from tensormend.research.bench.cases import GRID
from tensormend.research.bench.findings import Findings
from tensormend.research.custom import check_custom, make_method, takes_step
from tensormend.research.experiments.catalogue import EXPERIMENTS
from tensormend.research.records import read_records
from tensormend.research.runner import Settings, load_records

SOLVERS = '''
"""Solvers of a user."""

from dataclasses import dataclass, field
from typing import ClassVar

from tensormend.recovery.solvers import RCG, RGD
from tensormend.recovery.steps import NormalizedStep


class Slow(RGD):
    """Takes half the step of RGD."""

    name: ClassVar[str] = "slow"


class Fixed(RCG):
    """Has no choice of step."""

    name: ClassVar[str] = "fixed"


class Broken(RCG):
    name: ClassVar[str] = "broken"

    def step(self, problem, state):
        raise ZeroDivisionError("no step today")


class Needy:
    def __init__(self, size):
        self.size = size


class rgd(RCG):
    name: ClassVar[str] = "rgd"


word = "nothing to call"
'''
EXPECTED = {
    "rcg": "must be MODULE:CLASS, got 'rcg'",
    ":Slow": "must be MODULE:CLASS",
    "absent_solvers:Slow": "must be importable from this folder or the environment",
    "user_solvers:Absent": "must name a class or function of the module, which has no Absent",
    "user_solvers:Needy": "must need no arguments",
    "user_solvers:word": "must need no arguments",
    "user_solvers:dataclass": "must make a solver, got a function without name, init, step",
    "user_solvers:Broken": "ZeroDivisionError: no step today",
    "user_solvers:rgd": "a name of its own in tables and figures, got rgd, which is taken",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Work in a folder with a module of solvers."""
    (tmp_path / "user_solvers.py").write_text(SOLVERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("user_solvers", None)


@pytest.mark.parametrize("name", EXPECTED)
def test_what_is_no_solver_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(InputError, match="--solver") as caught:
        check_custom([name])
    assert EXPECTED[name] in str(caught.value)


def test_the_step_of_the_experiment_is_used_where_there_is_a_choice() -> None:
    check_custom(["user_solvers:Slow", "user_solvers:Fixed"])
    assert takes_step("user_solvers:Slow")
    assert not takes_step("user_solvers:Fixed")
    solver = make_method("user_solvers:Slow", step="constant")
    assert solver.name == "slow"
    assert isinstance(solver.step_rule, ConstantStep)
    assert make_method("user_solvers:Fixed", step="constant").name == "fixed"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_solvers_get_the_problems_of_sm_qrgd(name: str) -> None:
    experiment = EXPERIMENTS[name]
    solvers = ["user_solvers:Slow", "user_solvers:Fixed"]
    plain = experiment.cells("paper")
    cells = experiment.cells("paper", solvers)
    added = [cell for cell in cells if cell.get("method") in solvers]
    assert [cell for cell in cells if cell not in added] == plain
    assert bool(added) == experiment.takes_solvers
    for cell in added:
        assert {**cell, "method": "sm-qrgd"} in plain  # the seed too
        assert cell.get("implementation", "kernels") == "kernels"
    steps = {cell.get("step") for cell in plain if cell.get("method") == "sm-qrgd"}
    own = {cell.get("step") for cell in added if cell["method"] == "user_solvers:Fixed"}
    assert own == (steps - {"constant"} if len(steps) > 1 else steps) or not added


def choose_cells(settings: Settings) -> bool:
    """Choose a few cells of every experiment that takes solvers."""
    chosen: dict[str, Any] = {"repeat": 0, "implementation": "kernels"}
    return all(settings.get(key, value) == value for key, value in chosen.items())


@pytest.mark.parametrize("name", [n for n, e in EXPERIMENTS.items() if e.takes_solvers])
def test_a_solver_enters_an_experiment_with_its_line(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = EXPERIMENTS[name]
    few = 4 if name == "phase" else 8

    def grid(preset: str) -> Iterator[Settings]:
        cells = [cell for cell in experiment.grid(preset) if choose_cells(cell)]
        by_method: dict[str, int] = {}
        for cell in cells:
            by_method[cell["method"]] = by_method.get(cell["method"], 0) + 1
            if by_method[cell["method"]] <= few and cell.get("trials", 1) <= 50:
                yield cell

    monkeypatch.setitem(EXPERIMENTS, name, replace(experiment, grid=grid))
    call = ["reproduce", name, "--out", "out", "--solver", "user_solvers:Slow"]
    assert main([*call, "--write", "page.md"]) == 0, capsys.readouterr().err
    records = load_records(name, "smoke", folder / "out")
    own = [record for record in records if record["settings"]["method"] == "user_solvers:Slow"]
    assert own
    assert (folder / "out" / f"{name}.png").stat().st_size > 10_000
    facts = EXPERIMENTS[name].describe(records)
    tables = " ".join(facts.values())
    assert "Slow" in tables
    assert "user_solvers" not in tables
    paper = [record for record in records if record not in own]
    assert experiment.claims(records) == experiment.claims(paper)  # these are the paper's
    assert main([*call, "--solver", "user_solvers:Fixed"]) == 0
    assert f"{name}: 0 cells" not in capsys.readouterr().out


def test_an_experiment_that_compares_nothing_takes_no_solver(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    call = ["reproduce", "table1", "--out", "out", "--solver", "user_solvers:Slow"]
    assert main(call) == 2
    assert "--solver goes with phase, noise, condition, comparison" in capsys.readouterr().err
    assert not (folder / "out").exists()


def test_a_solver_takes_part_in_the_races(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cell = GRID[0].name
    call = ["bench", "--out", "out", "--repeats", "1", "--method", "rcg", "--write", "page.md"]
    names = ["--only", "n50", "--solver", "user_solvers:Slow", "--solver", "user_solvers:Fixed"]
    assert main([*call, *names]) == 0, capsys.readouterr().err
    found = Findings(read_records(folder / "out" / "bench.jsonl"))
    runs = {run["contestant"]: run for run in found.of("run")}
    assert list(dict.fromkeys(e.contestant for e in found.entries("races"))) == [
        "rcg",
        "user_solvers:Slow",
        "user_solvers:Fixed",
    ]
    assert {run["outcome"] for run in runs.values()} == {"reached"}
    page = (folder / "page.md").read_text("utf-8")
    assert "| Slow | " in page
    assert "| Slow | --solver user_solvers:Slow | tensormend |" in page
    assert main([*call, "--only", "grid", "--only", cell, "--solver", "user_solvers:Fixed"]) == 0
    page = (folder / "page.md").read_text("utf-8")
    assert "| cell | rcg | Fixed | " in page


def test_a_wrong_solver_ends_the_benchmark_before_it_begins(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "--out", "out", "--solver", "user_solvers:Broken"]) == 2
    assert "no step today" in capsys.readouterr().err
    assert not (folder / "out").exists()
