"""Experiments of the paper, small: cells, seeds, resuming, failures, figures, the page."""

from __future__ import annotations

import gzip
import io
import json
import multiprocessing
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensormend.cli import main
from tensormend.recovery.loop import solve
from tensormend.recovery.problem import Problem
from tensormend.recovery.registry import METHODS
from tensormend.recovery.result import Status
from tensormend.recovery.solvers import SMQRGD
from tensormend.recovery.stopping import StoppingCriteria
from tensormend.research import records as files
from tensormend.research import runner
from tensormend.research.experiments import (
    beyond,
    comparison,
    condition,
    illustration,
    page,
    phase,
    theorems,
    traces,
)
from tensormend.research.experiments.catalogue import EXPERIMENTS, PRESETS
from tensormend.research.figures.reproduction import FIGURES, save_reproduction
from tensormend.research.progress import Progress
from tensormend.research.records import append_record, read_records
from tensormend.research.runner import Experiment, Settings, load_records, run_experiment

ENDINGS = (Status.STALLED, Status.CONVERGED)
SAME_DIGITS = 1e-5  # relative; records keep six digits
SAME = 1e-8  # relative; two ways of rounding along a whole run


def toy(**options: Any) -> Experiment:
    """Return an experiment without mathematics, that runs in this process."""
    made: dict[str, Any] = {
        "name": "toy",
        "title": "Toy",
        "grid": lambda _: ({"a": a, "b": b} for a in range(3) for b in ("x", "y")),
        "run": lambda settings: {"value": settings["a"] / 3},
        "describe": lambda records: {"n": str(len(records))},
        "timed": True,
        "paired": ("b",),
        **options,
    }
    return Experiment(**made)


def run(experiment: Experiment, folder: Path, **options: Any) -> runner.Summary:
    return run_experiment(experiment, "smoke", folder, stream=io.StringIO(), **options)


def reduce_grid(experiment: Experiment) -> Experiment:
    """Leave out methods that are not registered, and half of the slowest experiment."""

    def grid(preset: str) -> Iterator[Settings]:
        for settings in experiment.grid(preset):
            is_registered = settings.get("method", "rgd") in METHODS
            if is_registered and (experiment.name != "phase" or settings["ratio"] in (0.03, 0.3)):
                yield settings

    return replace(experiment, grid=grid)


# the runner


def test_seeds_are_stable_and_differ_but_for_what_is_compared() -> None:
    cells = toy().cells("smoke")
    assert [cell["seed"] for cell in cells] == [cell["seed"] for cell in toy().cells("smoke")]
    seeds = {cell["a"]: cell["seed"] for cell in cells}
    assert len(set(seeds.values())) == 3
    assert all(cell["seed"] == seeds[cell["a"]] for cell in cells)
    # written down, so that a change of the rule is noticed: committed records depend on it
    assert toy().cells("smoke")[0]["seed"] == 265811999046154


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("preset", PRESETS)
def test_cells_are_plain_and_distinct(name: str, preset: str) -> None:
    cells = EXPERIMENTS[name].cells(preset)
    keys = [json.dumps(cell, sort_keys=True) for cell in cells]  # JSON holds them as they are
    assert len(set(keys)) == len(keys)
    assert [json.loads(key) for key in keys] == cells


def test_a_second_run_skips_what_is_there(tmp_path: Path) -> None:
    calls = []

    def count(settings: Settings) -> dict[str, float]:
        calls.append(settings)
        return {"value": 1.23456789}

    experiment = toy(run=count)
    assert run(experiment, tmp_path) == runner.Summary(6, 0, ())
    assert run(experiment, tmp_path) == runner.Summary(0, 6, ())
    assert len(calls) == 6
    record = load_records("toy", "smoke", tmp_path)[0]
    assert record["results"] == {"value": 1.23457}
    assert record["settings"] == experiment.cells("smoke")[0]
    assert record["machine"]["numpy"] == np.__version__
    assert not load_records("toy", "paper", tmp_path)


def test_an_interrupted_run_is_continued(tmp_path: Path) -> None:
    def stop_at_third(settings: Settings) -> dict[str, int]:
        if settings["a"] == 1 and settings["b"] == "y":
            raise KeyboardInterrupt
        return {"value": settings["a"]}

    with pytest.raises(KeyboardInterrupt):
        run(toy(run=stop_at_third), tmp_path)
    path = tmp_path / "toy.jsonl"
    with path.open("a") as file:
        file.write('{"experiment": "toy", "pre')  # as if the process had been killed while writing
    assert run(toy(), tmp_path) == runner.Summary(3, 3, ())
    found = load_records("toy", "smoke", tmp_path)
    assert [record["settings"] for record in found] == toy().cells("smoke")


ENDLESS = """
import os, sys, time
from pathlib import Path
from tensormend.research.runner import Experiment, run_experiment

def grid(preset):
    return [{"a": 0}, {"a": 1}]

def run(settings):
    os.write(1, b"running\\n")  # one write, so that two processes cannot mix their lines
    time.sleep(300)

if __name__ == "__main__":
    endless = Experiment("endless", "", grid, run, lambda records: {}, timed=False)
    run_experiment(endless, "smoke", Path(sys.argv[1]), stream=sys.stderr, processes=2)
"""


def test_workers_end_with_a_run_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS)
    with subprocess.Popen(  # noqa: S603
        [sys.executable, str(script), str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["running\n", "running\n"]
        process.kill()
        out, _ = process.communicate(timeout=60)  # the pipe closes when the last worker is gone
    assert out == ""


def test_a_failing_cell_is_recorded_and_tried_again(tmp_path: Path) -> None:
    def fail_at_two(settings: Settings) -> dict[str, int]:
        if settings["a"] == 2:
            raise ValueError("no such thing")
        return {"value": settings["a"]}

    summary = run(toy(run=fail_at_two), tmp_path)
    assert len(summary.failures) == 2
    assert "ValueError: no such thing" in summary.failures[0]
    assert len(load_records("toy", "smoke", tmp_path)) == 4
    failed = [r for r in read_records(tmp_path / "toy.jsonl") if "failed" in r]
    assert {record["failed"] for record in failed} == {"ValueError: no such thing"}
    assert run(toy(), tmp_path) == runner.Summary(2, 4, ())
    assert len(load_records("toy", "smoke", tmp_path)) == 6


def square(settings: Settings) -> dict[str, int]:
    if settings["a"] == 1:
        raise ValueError("one")
    return {"value": settings["a"] ** 2}


def test_untimed_cells_run_side_by_side(tmp_path: Path) -> None:
    summary = run(toy(run=square, timed=False), tmp_path, processes=2)
    assert len(summary.failures) == 2
    found = load_records("toy", "smoke", tmp_path)
    assert [record["results"]["value"] for record in found] == [0, 0, 4, 4]  # in order of the grid
    assert found[0]["machine"]["processes"] == 2
    assert found[0]["machine"]["threads"] == 1


def test_giving_up_a_pool_leaves_no_process_behind() -> None:
    before = set(multiprocessing.active_children())
    outcomes = runner.run_cells(toy(run=square, timed=False), toy().cells("smoke"), 2)
    next(outcomes)
    outcomes.close()  # type: ignore[attr-defined]
    assert set(multiprocessing.active_children()) <= before


def test_large_files_are_compressed_and_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LARGE", 100)
    half = toy(grid=lambda _: ({"a": a, "b": "x"} for a in range(2)))
    run(half, tmp_path)
    packed = tmp_path / "toy.jsonl.gz"
    assert [path.name for path in tmp_path.iterdir()] == [packed.name]
    assert run(toy(), tmp_path) == runner.Summary(4, 2, ())
    assert [path.name for path in tmp_path.iterdir()] == [packed.name]
    assert len(gzip.decompress(packed.read_bytes()).splitlines()) == 6
    assert len(load_records("toy", "smoke", tmp_path)) == 6


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere() -> None:
    for stream, count in ((Terminal(), 1), (io.StringIO(), 10)):
        progress = Progress("toy", 40, stream)
        for _ in range(40):
            progress.advance()
        assert stream.getvalue().count("\n") == count
        assert "s left" in stream.getvalue()
        assert "40/40 cells" in stream.getvalue().splitlines()[-1]


# the experiments


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run every experiment with its small preset once, the phase transition with fewer cells."""
    folder = tmp_path_factory.mktemp("smoke")
    for experiment in EXPERIMENTS.values():
        assert run(reduce_grid(experiment), folder, processes=1).failures == ()
    return folder


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_figures_are_drawn_from_records_alone(name: str, smoke: Path, tmp_path: Path) -> None:
    records = load_records(name, "smoke", smoke)
    written = save_reproduction(name, records, tmp_path)
    assert [path.name for path in written] == [f"{name}.png", f"{name}.svg"]
    image = pytest.importorskip("matplotlib.image").imread(written[0])
    assert min(image.shape[:2]) > 400
    assert image[:, :, :3].std() > 0.1  # not a blank page


def test_the_same_records_give_the_same_files(smoke: Path, tmp_path: Path) -> None:
    records = load_records("table1", "smoke", smoke)
    first = [path.read_bytes() for path in save_reproduction("table1", records, tmp_path)]
    assert first == [p.read_bytes() for p in save_reproduction("table1", records, tmp_path)]


def test_every_experiment_has_a_figure_and_prose() -> None:
    assert list(FIGURES) == list(EXPERIMENTS)
    prose = Path(page.__file__).parent / "prose"
    assert {path.stem for path in prose.iterdir()} == {"intro", "missing", *EXPERIMENTS}


def test_the_page_is_filled_in(smoke: Path, tmp_path: Path) -> None:
    target = tmp_path / "page.md"
    page.write_reproduction(target, smoke, "smoke")
    text = target.read_text("utf-8")
    assert "$" not in text
    assert text.count("**The paper**") == len(EXPERIMENTS) - 1  # one goes beyond it
    assert "condition numbers of the printed core as claimed" in text
    assert "No error exceeds its bound" in text
    assert "Outside the condition it still converges" in text
    assert "RGD, step size, d = 3: 6.00, paper 4" in text
    assert "| the flops of Table 1 | **holds in part** | NIHT, step size; " in text
    assert "Not everywhere: RGD, step size |" in text
    figures = re.findall(r"\]\((.*?\.png)\)", text)
    assert [Path(figure).stem for figure in figures] == list(EXPERIMENTS)
    assert all((tmp_path / figure).parent.resolve() == smoke.resolve() for figure in figures)


def test_claims_about_speed_are_counted_point_by_point() -> None:
    """SM-QRGD is the fastest but at rank 3, against RGD that shares contractions."""
    seconds = {"sm-qrgd": (2.0, 3.0), "rgd": (3.0, 2.0), "sempiht": (4.0, 9.0)}
    seconds["rgd-unshared"] = (5.0, 6.0)
    records: list[dict[str, Any]] = []
    for method, times in seconds.items():
        for rank, time in zip((2, 3), times, strict=True):
            settings = {"panel": "b", "n": 9, "rank": rank, "ratio": 0.3, "method": method}
            settings |= {"implementation": "dense", "step": "constant"}
            results = {"seconds": time, "reached": True, "trace": {"seconds": [0.0, time]}}
            records.append({"settings": settings, "results": results})
    records[1]["results"]["trace"]["seconds"][0] = 2.0  # the initial estimate of SM-QRGD, rank 3
    fastest, iterating, steady = comparison.claims(records)
    assert fastest.counts == {
        "dense, constant step": (1, 2),
        "dense, constant step, RGD sharing nothing": (2, 2),
    }
    assert fastest.verdict == "holds in part"
    assert iterating.verdict == "holds"
    assert steady.counts == {"dense, constant step": (1, 1)}
    assert steady.verdict == "holds"
    records[0]["results"]["reached"] = False  # who does not arrive is not the fastest
    assert comparison.claims(records)[0].verdict == "holds in part"
    assert comparison.claims(records)[0].counts["dense, constant step"] == (0, 2)


def test_the_illustration_is_to_scale(smoke: Path) -> None:
    """Distances between the exact points are those of the tensors, and Lemma 3.1 holds."""
    results = load_records("illustration", "smoke", smoke)[0]["results"]
    points = {name: np.asarray(where) for name, where in results["points"].items()}
    for pair, length in results["lengths"].items():
        start, end = pair.split()
        drawn = np.linalg.norm(points[start] - points[end])
        lost = max(results["lost"][start], results["lost"][end])
        assert drawn <= length * (1 + SAME_DIGITS)
        assert np.hypot(drawn, lost) == pytest.approx(length, rel=SAME_DIGITS)
    assert max(results["lost"][name] for name in illustration.EXACT) < 1e-14
    assert points["x"][2] == pytest.approx(0, abs=1e-14)  # in the drawn part of the tangent space
    assert results["lemma"] < 1e-14
    sheet = np.asarray(results["sheet"])
    heights = np.abs(sheet[..., 2])  # the sheet touches its tangent space at X-hat
    nearest = np.unravel_index(np.linalg.norm(sheet, axis=-1).argmin(), heights.shape)
    assert heights[nearest] < 0.02 * heights.max()


def test_the_illustrated_iteration_is_that_of_the_solver(smoke: Path) -> None:
    settings = load_records("illustration", "smoke", smoke)[0]["settings"]
    truth, operator, y = traces.draw_completion(
        settings["shape"], settings["rank"], settings["ratio"], settings["seed"]
    )
    points = illustration.iterate(np.asarray(operator.indices), y, truth.shape, settings["rank"])
    solver = SMQRGD(mode_order=(0, 1, 2))
    first, second = (
        solve(
            Problem(operator, y, truth.rank), solver, stop=StoppingCriteria(max_iter=n, tol=0)
        ).x.todense()
        for n in (0, 1)
    )
    np.testing.assert_allclose(points["x"], first, atol=1e-12)
    np.testing.assert_allclose(points["next_x"], second, atol=1e-12)


def test_the_fastest_methods_beyond_the_paper_are_named() -> None:
    times = {("sm-qrgd", "constant"): (1.0, 4.0), ("rgd", "normalized"): (2.0, 2.0)}
    times["auto", None] = (0.5, 3.9)  # type: ignore[index]
    records: list[dict[str, Any]] = []
    for (method, step), seconds in times.items():
        for rank, time in zip((2, 3), seconds, strict=True):
            settings = {"panel": "rank", "n": 9, "rank": rank, "ratio": 0.3, "method": method}
            settings |= {"implementation": "kernels", "step": step}
            trace = {"seconds": [0.25, time]}
            results = {"seconds": time, "reached": True, "n_iter": 7, "trace": trace}
            records.append({"settings": settings, "results": results})
    facts = beyond.describe(records)
    assert "| kernels | sm-qrgd | constant | 7; 1; 0.25 | 7; 4; 0.25 |" in facts["table_rank"]
    assert "| kernels | auto | own | 7; **0.5**; 0.25 | 7; 3.9; 0.25 |" in facts["table_rank"]
    assert facts["verdict_rank"].splitlines() == [
        "* kernels, methods of the paper: SM-QRGD fastest at rank 2; "
        "rank 3: 2 times the time of rgd.",
        "* kernels, all methods: SM-QRGD nowhere fastest; "
        "rank 2: 2 times the time of auto; rank 3: 2 times the time of rgd.",
    ]
    assert facts["table_order"] == "Not run."
    records[0]["results"]["reached"] = False
    assert "rank 2: did not arrive" in beyond.describe(records)["verdict_rank"]


def test_both_operators_of_a_point_see_the_same_tensor() -> None:
    cells = EXPERIMENTS["beyond"].cells("smoke")
    seeds = {cell["panel"]: cell["seed"] for cell in cells}
    assert seeds["sampling"] == seeds["gaussian"] != seeds["rank"]
    cell = next(cell for cell in cells if cell["panel"] == "sampling")
    draw = (cell["n"], cell["rank"], cell["ratio"], cell["seed"])
    sampled = traces.draw_again(*draw)[0]
    measured = beyond.draw_gaussian((cell["n"],) * 3, *draw[1:])[0]
    np.testing.assert_array_equal(sampled.todense(), measured.todense())


@pytest.mark.checkout
def test_the_committed_records_give_the_committed_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = Path(__file__).parents[2] / "docs"
    shutil.copytree(docs / "reproduction", tmp_path / "docs" / "reproduction")
    monkeypatch.chdir(tmp_path)
    target = Path("docs", "reproduction.md")
    page.write_reproduction(target, Path("docs", "reproduction"), "paper")
    assert target.read_text("utf-8") == (docs / "reproduction.md").read_text("utf-8")


@pytest.mark.checkout
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_committed_records_are_cells_of_the_grid(name: str) -> None:
    folder = Path(__file__).parents[2] / "docs" / "reproduction"
    cells = {json.dumps(cell, sort_keys=True) for cell in EXPERIMENTS[name].cells("paper")}
    records = load_records(name, "paper", folder)
    assert records
    assert {record["experiment"] for record in records} == {name}
    assert {json.dumps(record["settings"], sort_keys=True) for record in records} <= cells


def test_an_experiment_without_records_is_named(tmp_path: Path) -> None:
    target = tmp_path / "page.md"
    page.write_reproduction(target, tmp_path, "smoke")
    assert target.read_text("utf-8").count("Not run yet") == len(EXPERIMENTS)


@pytest.mark.parametrize("method", ["sm-qrgd", "sempiht", "rgd"])
@pytest.mark.parametrize("step", traces.STEPS)
def test_dense_methods_and_kernels_have_the_same_iterates(method: str, step: str) -> None:
    settings = {"method": method, "step": step, "tol": 1e-3, "max_iter": 100}
    problem = traces.draw_completion((14, 14, 14), (2, 3, 3), 0.5, 3)
    found = [
        traces.run_completion(*problem, {**settings, "implementation": name})
        for name in traces.IMPLEMENTATIONS
    ]
    assert found[0]["reached"]
    for column in ("error", "residual"):
        dense, kernels = (np.asarray(result["trace"][column]) for result in found)
        np.testing.assert_allclose(dense, kernels, rtol=SAME)
    assert all((np.diff(result["trace"]["seconds"]) > 0).all() for result in found)


def test_the_tangent_mode_of_the_settings_is_used() -> None:
    problem = traces.draw_completion((14, 14, 14), (2, 3, 4), 0.4, 3)
    base = {"method": "sm-qrgd", "step": "normalized", "tol": 0.0, "max_iter": 5}
    errors = {
        (name, modes): traces.run_completion(
            *problem, {**base, "implementation": name, "mode_order": list(modes)}
        )["trace"]["error"]
        for name in traces.IMPLEMENTATIONS
        for modes in ((0, 1, 2), (2, 0, 1))
    }
    for modes in ((0, 1, 2), (2, 0, 1)):
        np.testing.assert_allclose(errors["dense", modes], errors["kernels", modes], rtol=SAME)
    assert not np.allclose(errors["dense", (0, 1, 2)], errors["dense", (2, 0, 1)])


def _phase_record(rank: int, ratio: float, rate: float) -> dict[str, Any]:
    results = {"n_trials": 100, "n_successes": round(100 * rate), "n_limited": 0}
    return {"settings": {"rank": rank, "ratio": ratio}, "results": results}


def test_the_boundary_is_where_half_succeed() -> None:
    ratios = np.round(np.arange(1, 20) * 0.01, 2)
    records = [
        _phase_record(rank, float(ratio), np.clip((ratio - 0.02 * rank) / 0.02 + 0.5, 0, 1))
        for rank in (1, 2, 4)
        for ratio in ratios
    ]
    line = phase.fit_boundary(records)
    assert line is not None
    np.testing.assert_allclose(line.ratios, [0.02, 0.04, 0.08])
    np.testing.assert_allclose([line.slope, line.r_squared], [0.02, 1.0])
    assert phase.fit_boundary(records[: len(ratios)]) is None  # one rank makes no line


def test_a_part_of_the_phase_map_counts_how_its_trials_end(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"trials": 8, "max_iter": 50}
    monkeypatch.setattr(phase, "_run_trial", lambda *_: (50, Status.STOPPED))
    found = phase.run(settings)
    assert (found["n_trials"], found["n_successes"], found["n_limited"]) == (8, 0, 8)
    monkeypatch.setattr(phase, "_run_trial", lambda _, trial: (9, ENDINGS[trial != 1]))
    assert phase.run(settings) == {
        "n_trials": 8,
        "n_successes": 7,
        "n_limited": 0,
        "n_iter": 9.0,
    }


def test_parts_of_a_cell_add_up() -> None:
    records = [_phase_record(2, 0.1, rate) for rate in (0.25, 0.5)] + [_phase_record(3, 0.2, 1)]
    _, _, rates = phase.success_map(records)
    np.testing.assert_array_equal(rates, [[0.375, np.nan], [np.nan, 1]])


def test_a_run_that_fits_too_few_samples_is_no_matter_of_iterations() -> None:
    settings = {"method": "auto", "rank": 6, "ratio": 0.03, "n": 20, "max_iter": 200, "seed": 1}
    assert phase._run_trial(settings, 0)[1] is Status.STALLED  # 240 samples, 468 unknowns


def test_the_page_says_how_far_the_trials_have_come() -> None:
    records: list[dict[str, Any]] = [
        {"preset": "smoke", "settings": settings} for settings in phase.grid("smoke")
    ]
    whole = "60 cells of method, rank and ratio, with 4 trials each"
    assert phase.describe_grid(records) == whole
    some = [record for record in records if record["settings"]["method"] != "rcg"][:-1]
    assert phase.describe_grid(some) == (
        f"{whole}; so far sm-qrgd 4, rgd 4, sempiht 4, rcg 0, auto 2 to 4"
    )


def test_a_wrong_core_would_be_noticed(smoke: Path) -> None:
    records = load_records("condition", "smoke", smoke)
    assert "as claimed" in condition.check_formula(records)
    records[0]["results"]["condition_numbers"][2] = 1.1
    assert "NOT as claimed" in condition.check_formula(records)


def test_the_triangle_stands_for_a_gaussian_matrix() -> None:
    size, n, n_draws = 7, 3, 4000
    rng = np.random.default_rng(0)
    grams = np.stack(
        [(r := theorems.gaussian_triangle(size, n, rng)).T @ r for _ in range(n_draws)]
    )
    direct = rng.standard_normal((n_draws, size, n)) / np.sqrt(size)
    expected = np.swapaxes(direct, 1, 2) @ direct
    # mean and spread of a Wishart matrix; 4000 draws leave about 0.02
    np.testing.assert_allclose(grams.mean(axis=0), np.eye(n), atol=0.05)
    np.testing.assert_allclose(grams.std(axis=0), expected.std(axis=0), atol=0.05)
    assert theorems.gaussian_triangle(2, 5, rng).shape == (2, 5)


def test_a_broken_bound_would_be_noticed() -> None:
    found = {"error": [9.0, 0.5, 0.2, 1e-15], "bound": [0.1, 1.0, 0.1, 1e-16, 0.0]}
    assert theorems.count_above(found) == 1


# the command


def fail(settings: Settings) -> dict[str, Any]:
    raise KeyError(settings["seed"])


def test_the_command_runs_draws_and_continues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, target = tmp_path / "new" / "folder", tmp_path / "page.md"
    assert main(["reproduce", "table1", "--out", str(out), "--write", str(target)]) == 0
    assert "table1: 5 cells run, 0 already recorded" in capsys.readouterr().out
    names = {"table1.jsonl", "table1.png", "table1.svg"}
    assert {path.name for path in out.iterdir()} == names
    assert "## Table 1" in target.read_text("utf-8")
    assert main(["reproduce", "table1", "--out", str(out)]) == 0
    assert "table1: 0 cells run, 5 already recorded" in capsys.readouterr().out


def test_redraw_runs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = EXPERIMENTS["table1"]
    run(experiment, tmp_path)
    monkeypatch.setitem(EXPERIMENTS, "table1", replace(experiment, run=fail))
    assert main(["reproduce", "all", "--out", str(tmp_path), "--redraw"]) == 0
    printed = capsys.readouterr().out
    assert "phase: no records of preset smoke" in printed
    assert (tmp_path / "table1.svg").exists()
    assert "cells run" not in printed


def test_failures_make_exit_code_1_and_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXPERIMENTS, "noise", replace(EXPERIMENTS["noise"], run=fail))
    assert main(["reproduce", "noise", "--out", str(tmp_path)]) == 1
    streams = capsys.readouterr()
    assert "failed: noise" in streams.err
    assert "KeyError" in streams.err
    assert "noise: no records" in streams.out


def test_ctrl_c_stops_cleanly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: Settings) -> dict[str, Any]:
        raise KeyboardInterrupt

    monkeypatch.setitem(EXPERIMENTS, "noise", replace(EXPERIMENTS["noise"], run=interrupt))
    assert main(["reproduce", "noise", "--out", str(tmp_path)]) == 130
    assert "run the same command again" in capsys.readouterr().err


def test_missing_matplotlib_is_reported_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["reproduce", "noise", "--out", str(tmp_path / "never")]) == 2
    assert "pip install 'tensormend[plot]'" in capsys.readouterr().err
    assert not (tmp_path / "never").exists()


def test_records_of_another_preset_stay(tmp_path: Path) -> None:
    settings = toy().cells("smoke")[0]
    other = {"preset": "paper", "cell": 0, "settings": settings, "results": {"value": 7}}
    append_record(tmp_path / "toy.jsonl", other)
    assert run(toy(), tmp_path).n_run == 6
    assert [r["results"] for r in load_records("toy", "paper", tmp_path)] == [{"value": 7}]


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "everything"]) == 2
    assert "phase" in capsys.readouterr().err
