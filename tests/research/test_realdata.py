"""The benchmark on real data: losses, simple fills, ADMM, choice of parameters, records, bars."""

from __future__ import annotations

import functools
import io
import math
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensormend as tm
from tensormend.core.algebra import Array, matricize, tensorize
from tensormend.errors import InputError, MissingDependencyError
from tensormend.research.realdata import __main__ as command
from tensormend.research.realdata import datasets, findings, study
from tensormend.research.realdata.contestants import (
    CONTESTANTS,
    OURS,
    Answer,
    Task,
    run_function,
    sweep,
)
from tensormend.research.realdata.datasets import NAMES, Dataset
from tensormend.research.realdata.losses import LOSSES, Loss, drop, hold_out, score
from tensormend.research.realdata.masked_tucker import masked_tucker
from tensormend.research.realdata.nuclear import halrtc, lrtc_tnn, shrink
from tensormend.research.realdata.simple import fibre_mean, linear_interpolation
from tensormend.research.records import read_records
from tensormend.research.runner import Settings, Summary, load_records, run_experiment

SHAPE = (24, 20, 16)


def make_dataset(kind: str = "image", shape: tuple[int, ...] = SHAPE) -> Dataset:
    """A smooth tensor of low rank, positive, with a missing corner."""
    values = tm.simulate.random_tucker(shape, 2, rng=0).todense()
    values = 100 + 20 * values / np.abs(values).max()
    values[:2, :2, :2] = np.nan
    words = dict.fromkeys(("title", "fibre", "made", "source", "licence"), "words")
    modes = tuple("abcd"[: len(shape)])
    return Dataset(name="made", values=values, modes=modes, fibre_mode=1, kind=kind, **words)


# losses and scores


@pytest.mark.parametrize("fraction", [0.3, 0.7])
def test_random_loss_is_by_entry(fraction: float) -> None:
    dataset = make_dataset()
    data, scored = drop(dataset, "random", fraction, 0)
    observed = ~np.isnan(dataset.values)
    assert scored[observed].mean() == pytest.approx(fraction, abs=0.03)
    assert not scored[~observed].any()
    np.testing.assert_array_equal(np.isnan(data), scored | ~observed)
    np.testing.assert_array_equal(data[observed & ~scored], dataset.values[observed & ~scored])


def test_fibre_loss_is_by_whole_fibre() -> None:
    dataset = make_dataset()
    data, scored = drop(dataset, "fibre", 0.3, 0)
    lost = np.isnan(data) & ~np.isnan(dataset.values)
    np.testing.assert_array_equal(lost, scored)
    observed = np.moveaxis(~np.isnan(dataset.values), 1, 0)
    by_fibre = np.moveaxis(scored, 1, 0)
    is_lost = by_fibre.any(axis=0)
    assert np.all(by_fibre == (observed & is_lost))
    assert is_lost.mean() == pytest.approx(0.3, abs=0.1)


@pytest.mark.parametrize("pattern", ["random", "fibre"])
def test_hold_out_takes_a_tenth_of_the_observed_entries(pattern: str) -> None:
    data, _ = drop(make_dataset(), pattern, 0.3, 0)
    rest, held = hold_out(data, pattern, 1, 1)
    assert not held[np.isnan(data)].any()
    assert held.sum() / (~np.isnan(data)).sum() == pytest.approx(0.1, abs=0.04)
    np.testing.assert_array_equal(np.isnan(rest), np.isnan(data) | held)
    again = hold_out(data, pattern, 1, 1)[1]
    np.testing.assert_array_equal(held, again)


def test_pattern_is_checked() -> None:
    with pytest.raises(InputError, match="pattern"):
        drop(make_dataset(), "diagonal", 0.5, 0)


def test_scores_follow_the_kind() -> None:
    image, traffic = make_dataset("image"), make_dataset("traffic")
    scored = ~np.isnan(image.values)
    filled = image.values * 1.01
    found = score(image, filled, scored)
    rms = math.sqrt(np.mean(image.values[scored] ** 2))
    assert found.rmse == pytest.approx(0.01 * rms)
    assert found.psnr == pytest.approx(20 * math.log10(image.peak / (0.01 * rms)))
    assert found.mape is None
    found = score(traffic, filled, scored)
    assert found.mape == pytest.approx(1.0)
    assert found.psnr is None


# simple fills


def test_fibre_mean_takes_the_best_mode_and_falls_back() -> None:
    level = np.arange(5.0)[:, None] * np.ones((5, 4))  # constant along mode 1
    data = level.copy()
    data[2, 1] = np.nan
    data[3, :] = np.nan  # no observed entry along mode 1, some along mode 0
    filled = fibre_mean(data)
    assert filled[2, 1] == 2.0
    np.testing.assert_allclose(filled[3, 0], np.mean([0, 1, 2, 4]))
    observed = ~np.isnan(data)
    np.testing.assert_array_equal(filled[observed], data[observed])


def test_entries_of_empty_fibres_get_the_mean_of_all() -> None:
    data = np.full((2, 2), np.nan)
    data[0, 0] = 3.0
    np.testing.assert_array_equal(fibre_mean(data), np.full((2, 2), 3.0))
    np.testing.assert_array_equal(linear_interpolation(data), np.full((2, 2), 3.0))


def test_linear_interpolation_is_exact_on_lines() -> None:
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((30, 1)) + np.linspace(0, 5, 40)
    data = np.where(rng.random(truth.shape) < 0.5, np.nan, truth)
    data[:, [0, -1]] = truth[:, [0, -1]]
    np.testing.assert_allclose(linear_interpolation(data), truth)


def test_linear_interpolation_is_that_of_numpy() -> None:
    rng = np.random.default_rng(1)
    data = np.cumsum(rng.standard_normal((1, 50)), axis=1)
    data[rng.random(data.shape) < 0.6] = np.nan
    positions = np.flatnonzero(~np.isnan(data[0]))
    expected = np.interp(np.arange(50), positions, data[0, positions])
    np.testing.assert_allclose(linear_interpolation(data)[0], expected)


# nuclear norms


@pytest.mark.parametrize("mode", range(3))
@pytest.mark.parametrize("n_free", [0, 3])
def test_shrink_lowers_singular_values(mode: int, n_free: int) -> None:
    x = np.random.default_rng(0).standard_normal((7, 6, 5))
    u, s, vt = np.linalg.svd(matricize(x, mode), full_matrices=False)
    lowered = np.maximum(s - 2.0, 0.0)
    lowered[:n_free] = s[:n_free]
    expected = tensorize((u * lowered) @ vt, mode, x.shape)
    found = shrink(x, mode, 2.0, n_free, out=np.empty_like(x))
    np.testing.assert_allclose(found, expected, atol=1e-10)


@pytest.mark.parametrize("method", [halrtc, lrtc_tnn])
@pytest.mark.parametrize("pattern", ["random", "fibre"])
def test_nuclear_norms_recover_low_rank(method: Any, pattern: str) -> None:
    dataset = make_dataset(shape=(30, 30, 30))
    data, scored = drop(dataset, pattern, 0.3, 0)
    answer = method(data, threshold=1.0, tol=1e-6)
    observed = ~np.isnan(data)
    np.testing.assert_array_equal(answer.x[observed], data[observed])
    assert answer.converged
    spread = np.std(dataset.values[scored])
    assert score(dataset, answer.x, scored).rmse < 0.02 * spread


@pytest.mark.parametrize("method", [halrtc, lrtc_tnn])
def test_scale_does_not_matter(method: Any) -> None:
    data, _ = drop(make_dataset(), "random", 0.5, 0)
    np.testing.assert_allclose(method(1000 * data).x, 1000 * method(data).x, rtol=1e-8)


def test_too_few_iterations_are_admitted() -> None:
    data, _ = drop(make_dataset(), "random", 0.5, 0)
    answer = lrtc_tnn(data, max_iter=3)
    assert (answer.n_iter, answer.converged) == (3, False)


def test_a_threshold_above_everything_does_not_end_the_run() -> None:
    data, scored = drop(make_dataset(), "random", 0.3, 0)
    answer = halrtc(data, threshold=3.0)
    assert answer.n_iter > 20
    assert score(make_dataset(), answer.x, scored).rmse < 3.0


# TensorLy


def test_masked_tucker_recovers_at_the_true_rank() -> None:
    pytest.importorskip("tensorly", reason="TensorLy is not installed")
    dataset = make_dataset()
    data, scored = drop(dataset, "random", 0.3, 0)
    *_, settled = masked_tucker(data, fibre_mean(data), (3, 3, 3))
    assert score(dataset, settled, scored).rmse < 0.1 * np.std(dataset.values[scored])


# choosing parameters


def test_sweep_continues_beyond_an_end_only_while_the_error_decreases() -> None:
    asked = []

    def error(value: float) -> float:
        asked.append(value)
        return abs(value - 0.38)

    assert sweep(error, (0.1, 0.2, 0.3), below=(0.05,), above=(0.4, 0.5, 0.6)) == 0.4
    assert asked == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert sweep(lambda value: value, (2, 3), below=(1, 0)) == 0


def make_task(dataset: Dataset, loss: Loss = LOSSES[0]) -> Task:
    data, scored = drop(dataset, loss.pattern, loss.fraction, 0)
    return Task(dataset, loss, data, scored, seed=0)


@pytest.mark.parametrize("name", ["fibre mean", "linear", "HaLRTC", "LRTC-TNN"])
def test_only_tensorly_depends_on_the_lost_entries(name: str) -> None:
    task = make_task(make_dataset(shape=(12, 10, 8)))
    secret = np.where(task.scored, 1e6, task.dataset.values)
    other = replace(task, dataset=replace(task.dataset, values=secret))
    run = CONTESTANTS[name]
    np.testing.assert_array_equal(run(task).filled, run(other).filled)


def test_tensorly_gets_its_best_rank() -> None:
    pytest.importorskip("tensorly", reason="TensorLy is not installed")
    task = make_task(make_dataset(shape=(12, 10, 8)))
    answer = CONTESTANTS["TensorLy"](task)
    fixed = list(masked_tucker(task.data, fibre_mean(task.data), (5, 5, 5)))
    assert task.look(answer.filled) <= min(map(task.look, fixed))


def test_a_function_may_take_our_place() -> None:
    task = make_task(make_dataset())
    answer = run_function("tensormend.research.realdata.simple:fibre_mean")(task)
    np.testing.assert_array_equal(answer.filled, fibre_mean(task.data))
    with pytest.raises(InputError, match="module:function"):
        run_function("tensormend.research.realdata.simple")


# data sets


@pytest.mark.parametrize("name", NAMES)
def test_loaders(name: str) -> None:
    try:
        dataset = datasets.load(name)
    except MissingDependencyError as error:
        pytest.skip(str(error))
    observed = ~np.isnan(dataset.values)
    assert dataset.name == name
    assert dataset.values.dtype == np.float64
    assert len(dataset.modes) == dataset.values.ndim
    assert 100_000 <= dataset.values.size <= 2_000_000
    assert observed.mean() > 0.7
    assert np.isfinite(dataset.values[observed]).all()
    assert np.std(dataset.values[observed]) > 0
    assert dataset.kind in ("image", "traffic", "field")
    assert dataset.kind != "traffic" or dataset.values[observed].min() > 0


def test_a_data_set_that_is_not_there_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(MissingDependencyError, match="--data"):
        datasets.load("portland", tmp_path)
    with pytest.raises(MissingDependencyError, match=r"tensormend\[realdata\]"):
        datasets.find_file("tensormend", "no such file")
    with pytest.raises(InputError, match="choose one"):
        datasets.load("weather")


# records, bars and the page


def halve(task: Task) -> Answer:
    return Answer(0.5 * fibre_mean(task.data), {"by": 2}, n_iter=1, converged=True)


def break_down(task: Task) -> Answer:
    raise ValueError(f"no idea what to do with {task.data.shape}")


PLAYERS = {"fibre mean": CONTESTANTS["fibre mean"], "HaLRTC": halve, OURS: break_down}


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a made-up tensor for every data set but one, which is missing."""

    def load(name: str, _: Path | None) -> Dataset:
        if name == "video":
            raise MissingDependencyError("no video here")
        return replace(make_dataset(), name=name)

    monkeypatch.setattr(study, "_load", functools.lru_cache(maxsize=1)(load))
    monkeypatch.setattr(command, "load", load)


def run(folder: Path, contestants: dict[str, Any], *names: str, **options: Any) -> Summary:
    """Run the study on some data sets."""
    experiment = study.make_experiment(contestants, seed=options.pop("seed", 0))
    chosen = {"stream": io.StringIO(), "wanted": lambda s: s["dataset"] in names, **options}
    return run_experiment(experiment, "full", folder, **chosen)


def count_runs(folder: Path) -> Counter[str]:
    """Count the records of each contestant, all runs included."""
    records = read_records(folder / "real-data.jsonl")
    return Counter(r["settings"].get("contestant", "data") for r in records)


@pytest.mark.usefixtures("loader")
def test_runs_are_recorded_and_continued(tmp_path: Path) -> None:
    n_losses = len(LOSSES)
    first = run(tmp_path, PLAYERS, "mri")
    assert (first.n_run, len(first.failures)) == (1 + 3 * n_losses, n_losses)
    assert "no idea" in first.failures[0]
    records = load_records("real-data", "full", tmp_path, with_failures=True)
    assert records[0]["results"]["title"] == "words"
    assert records[2]["results"]["parameters"] == {"by": 2}
    assert records[3]["failed"].startswith("ValueError: no idea")
    assert "tensorly" in records[2]["machine"]
    assert run(tmp_path, PLAYERS, "mri").n_run == n_losses  # what failed is run again
    again = run(tmp_path, PLAYERS, "mri", again=lambda s: s.get("contestant") == "HaLRTC")
    assert again.n_run == 2 * n_losses
    expected = {"data": 1, "fibre mean": n_losses, "HaLRTC": 2 * n_losses, OURS: 3 * n_losses}
    assert count_runs(tmp_path) == expected


@pytest.mark.usefixtures("loader")
def test_the_same_seed_loses_the_same_entries(tmp_path: Path) -> None:
    given: list[Array] = []

    def keep(task: Task) -> Answer:
        given.append(task.data)
        return Answer(fibre_mean(task.data))

    def is_first(settings: Settings) -> bool:
        return settings["dataset"] == "mri" and settings.get("loss") == LOSSES[0].name

    for seed in (0, 0, 1):
        run(tmp_path, {OURS: keep}, seed=seed, wanted=is_first, again=lambda _: True)
    np.testing.assert_array_equal(given[0], given[1])
    assert not np.array_equal(np.isnan(given[0]), np.isnan(given[2]))
    rng = np.random.default_rng([0, list(NAMES).index("mri"), 0])  # committed records depend on it
    expected, _ = drop(make_dataset(), LOSSES[0].pattern, LOSSES[0].fraction, rng)
    np.testing.assert_array_equal(given[0], expected)


def test_an_answer_that_is_not_finite_is_a_failure() -> None:
    task = make_task(make_dataset())
    with pytest.raises(ArithmeticError, match="not finite"):
        study._complete(lambda task: Answer(np.full(task.data.shape, np.nan)), task)


@pytest.mark.usefixtures("loader")
def test_the_command_writes_a_page_and_redraws_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    players = {"fibre mean": halve, "TensorLy": break_down, "HaLRTC": halve, OURS: halve}
    for name in CONTESTANTS:
        monkeypatch.setitem(CONTESTANTS, name, players.get(name, CONTESTANTS["linear"]))
    out, target = tmp_path / "real", tmp_path / "real.md"
    where = ["--out", str(out), "--write", str(target)]
    assert command.main(["--only", "mri", "video", *where]) == 1
    told = capsys.readouterr()
    assert "video is left out: no video here" in told.err
    assert "failed: real-data" in told.err
    text = target.read_text()
    assert (out / "ratios.png").exists()
    assert "(real/ratios.png)" in text
    assert "| random-90 |" in text
    assert "**no**" in text
    assert "| failed |" in text
    assert "$" not in text
    assert command.main(["--redraw", *where]) == 0
    assert target.read_text() == text


def test_redrawing_needs_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    assert command.main(["--redraw", "--out", str(tmp_path)]) == 2
    assert "no records of preset full" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.checkout
def test_the_committed_records_give_the_committed_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    docs = Path(__file__).parents[2] / "docs"
    shutil.copytree(docs / "real-data", tmp_path / "docs" / "real-data")
    monkeypatch.chdir(tmp_path)
    where = ["--out", "docs/real-data", "--write", "docs/real-data.md"]
    assert command.main(["--redraw", *where]) == 0
    written = Path("docs", "real-data.md").read_text("utf-8")
    assert written == (docs / "real-data.md").read_text("utf-8")


def make_findings(figures: dict[str, dict[str, float]], *, is_large: bool = True) -> Any:
    """Make findings of RMSEs by loss and contestant; seconds are ten times the RMSE."""
    records: list[dict[str, Any]] = [
        {"settings": {"dataset": "made"}, "results": {"is_large": is_large}}
    ]
    for loss, values in figures.items():
        for name, value in values.items():
            settings = {"dataset": "made", "loss": loss, "contestant": name}
            results = {"rmse": value, "seconds": 10 * value, "fit_seconds": value}
            records.append({"settings": settings, "results": results})
    return findings.Findings.of(records)


PEERS = {"fibre mean": 2.0, "TensorLy": 3.0, "HaLRTC": 4.0, "LRTC-TNN": 8.0}


def test_bars_are_met() -> None:
    bars = findings.check_bars(
        make_findings({"a": {**PEERS, OURS: 1.0}, "b": {**PEERS, OURS: 0.5}})
    )
    assert [bar.met for bar in bars] == [True] * 5
    assert bars[2].measured.startswith(f"{math.sqrt(1 / 4 * 1 / 8):.3f}")
    assert bars[4].measured.startswith("8 times (made a) to 16 times")


def test_bars_are_missed_by_a_hair() -> None:
    def met(ours: float) -> list[bool | None]:
        return [bar.met for bar in findings.check_bars(make_findings({"a": {**PEERS, OURS: ours}}))]

    assert met(3.0)[0] is False  # as good as TensorLy does not beat it
    assert met(2.999)[0] is True
    assert met(2.19)[1] is True
    assert met(2.21)[1] is False  # above 1.1 times the fibre mean
    assert met(4.1)[2] is False
    assert met(4.39)[3] is True
    assert met(4.41)[3] is False
    assert met(1.61)[4] is False  # 8 / 1.61 is less than 5


def test_bars_need_figures() -> None:
    bars = findings.check_bars(make_findings({"a": PEERS}))
    assert {bar.met for bar in bars} == {None}
    small = findings.check_bars(make_findings({"a": {**PEERS, OURS: 1.0}}, is_large=False))
    assert [bar.met for bar in small[4:]] == [None]
