"""An interrupted run continues to the same result: on one machine, bit for bit."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensormend as tm
from tensormend import solvers
from tensormend.core.storage import load_arrays, save_arrays
from tensormend.errors import CheckpointError, CheckpointWarning, InputError
from tensormend.recovery.checkpoint import MOVED

pytestmark = pytest.mark.numerical

SHAPE = (12, 13, 14)


def decaying() -> Any:
    """Return a tensor whose singular values decay, so that strengths and weights are tried."""
    sizes = np.meshgrid(*(np.arange(1, n + 1) for n in SHAPE), indexing="ij")
    noise = np.random.default_rng(3).standard_normal(SHAPE)
    return 10 / np.sqrt(sum(size**2.0 for size in sizes)) + 0.01 * noise


def low_rank() -> Any:
    """Return a tensor of low rank, so that ranks are tried too."""
    return tm.simulate.random_tucker(SHAPE, 2, rng=0).todense()


def saves(folder: Path, seconds: float) -> tm.Checkpoint:
    """Return a checkpoint that is saved after an iteration, with so many seconds in between."""
    return tm.Checkpoint(folder, every=1, seconds=seconds)


def with_missing(x: Any) -> Any:
    return np.where(np.random.default_rng(1).random(SHAPE) < 0.5, x, np.nan)


def with_lost_fibres(x: Any) -> Any:
    observed = np.random.default_rng(1).random(SHAPE[:2]) < 0.6
    return np.where(observed[..., None], x, np.nan)


RUNS: dict[str, tuple[Any, dict[str, Any]]] = {
    "strengths": (with_missing(decaying()), {}),
    "ranks": (with_missing(low_rank()), {}),
    "fibres": (with_lost_fibres(decaying()), {}),
    "given rank": (with_missing(low_rank()), {"rank": 2, "validation_fraction": 0.1}),
    "another method": (
        with_missing(decaying()),
        {"rank": (2, 2, 3), "method": "rcg", "center": "all"},
    ),
    "random initial estimate": (
        with_missing(decaying()).astype(np.complex64),
        {
            "rank": 2,
            "init": "random",
            "measurement_dtype": np.complex64,
            "method": "rgd",
            "max_iter": 20,
        },
    ),
}


def held_pair(number: int) -> tuple[Any, Any]:
    """Return more entries than a printed array shows, which differ in the middle."""
    indices = np.argwhere(np.isnan(with_missing(decaying())))
    values = np.ones(len(indices))
    values[len(values) // 2] += number
    return indices, values


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)


class KilledError(Exception):
    """Raised by a callback in place of a kill."""


def die_at(count: int) -> Callable[[tm.CompletionProgress], None]:
    def look(now: tm.CompletionProgress) -> None:
        nonlocal count
        count -= now.trial is None
        if count == 0:
            raise KilledError

    return look


def assert_same(one: tm.Completion, other: tm.Completion) -> None:
    assert one.trials == other.trials or str(one.trials) == str(
        other.trials
    )  # NaN equals itself in words
    assert np.array_equal(one.data, other.data)
    assert one.notes == other.notes
    assert one.n_iter == other.n_iter  # those of the runs before count
    assert one.trust.rmse == other.trust.rmse
    assert one.trust.degrees_of_freedom == other.trust.degrees_of_freedom


@pytest.mark.parametrize("name", RUNS)
def test_a_killed_run_continues_to_the_same_result(name: str, tmp_path: Path) -> None:
    data, options = RUNS[name]
    calls: list[tm.CompletionProgress] = []
    whole = tm.complete(data, rng=0, callback=calls.append, **options)
    n_iter = sum(now.trial is None for now in calls)
    deaths = np.unique(np.linspace(1, n_iter, 4).astype(int))
    for number, death in enumerate(deaths):
        saved = {"checkpoint": saves(tmp_path / str(number), 0.05), "rng": 0, **options}
        with pytest.raises(KilledError):
            tm.complete(data, callback=die_at(int(death)), **saved)
        assert_same(tm.complete(data, resume=True, **saved), whole)


def test_a_run_may_be_killed_again_and_again(tmp_path: Path) -> None:
    data, _ = RUNS["ranks"]
    whole = tm.complete(data, rng=0)
    saved: dict[str, Any] = {"checkpoint": saves(tmp_path / "c", 0), "rng": 0}
    n_deaths = 0
    while True:
        try:
            result = tm.complete(data, callback=die_at(17), resume=True, **saved)
            break
        except KilledError:
            n_deaths += 1
    assert n_deaths > 3
    assert_same(result, whole)


@pytest.mark.parametrize("after", [4, 8, 60])
def test_a_run_that_a_callback_stopped_continues_as_well(after: int, tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    whole = tm.complete(data, rng=0)
    saved: dict[str, Any] = {"checkpoint": saves(tmp_path / "c", 0), "rng": 0}
    stopped = tm.complete(data, callback=lambda now: now.n_iter >= after, **saved)
    assert len(stopped.trials) < len(whole.trials)
    assert_same(tm.complete(data, resume=True, **saved), whole)


def test_saved_steps_are_not_repeated(tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    calls: list[tm.CompletionProgress] = []
    saved: dict[str, Any] = {"checkpoint": saves(tmp_path / "c", 0), "rng": 0}
    tm.complete(data, callback=calls.append, **saved)
    again: list[tm.CompletionProgress] = []
    tm.complete(data, callback=again.append, resume=True, **saved)
    assert any(now.trial is None for now in calls)
    assert not any(now.trial is None for now in again)


def test_the_seed_is_saved(tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    first = tm.complete(data, checkpoint=saves(tmp_path / "c", 0))
    second = tm.complete(data, checkpoint=saves(tmp_path / "c", 0), resume=True)
    assert_same(first, second)


def test_short_steps_are_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tensormend.completion.journal.WORTH_KEEPING", 1e6
    )  # all steps are short then
    data, _ = RUNS["ranks"]
    tm.complete(data, rng=0, checkpoint=saves(tmp_path / "c", 1e6))
    names = {path.name for path in (tmp_path / "c").iterdir()}
    assert {name for name in names if "running" not in name} == {"run.npz", "lock"}
    assert len(names) == 3  # the last fit


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rng": 1}, "another rng"),
        (
            {"validation_fraction": 0.2},
            "belongs to another run: validation_fraction was 0.1 and is 0.2 now; resume",
        ),
        (
            {"transform": "log1p"},
            "belongs to another run: transform was not given and is 'log1p' now; resume",
        ),
        ({"rank": 2}, r"rank was not given and is \(2, 2, 2\) now"),
        ({"resume": False}, "holds the checkpoint of another run"),
    ],
)
def test_another_run_is_refused(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    data = np.abs(RUNS["strengths"][0])
    saved: dict[str, Any] = {"checkpoint": saves(tmp_path / "c", 0), "rng": 0}
    tm.complete(data, callback=lambda _: True, **saved)
    with pytest.raises(CheckpointError, match=words):
        tm.complete(data, **{**saved, "resume": True, **change})


def edit(path: Path, kind: str, name: str, change: Callable[[Any], Any]) -> None:
    arrays = load_arrays(path, kind)
    save_arrays(path, kind, {**arrays, name: np.asarray(change(arrays[name]))})


@pytest.mark.parametrize("name", ["strengths", "ranks", "another method"])
def test_a_run_continues_on_another_machine_with_a_note(name: str, tmp_path: Path) -> None:
    """On another machine the loss of an iterate has other last bits."""
    data, options = RUNS[name]
    whole = tm.complete(data, rng=0, **options)
    saved = {"checkpoint": saves(tmp_path / "c", 0), "rng": 0, **options}
    with pytest.raises(KilledError):
        tm.complete(data, callback=die_at(5), **saved)
    (running,) = (tmp_path / "c").glob("*.running.npz")
    edit(running, "checkpoint", "history.loss", lambda loss: loss * (1 + 4 * np.finfo(float).eps))
    moved = tm.complete(data, resume=True, **saved)
    assert sorted(moved.notes) == sorted([*whole.notes, MOVED])
    np.testing.assert_allclose(moved.data, whole.data, rtol=1e-9)


def test_a_file_of_another_step_is_not_taken_for_this_one(tmp_path: Path) -> None:
    """On another machine rounding may change a close selection, and the order of the steps."""
    data, _ = RUNS["strengths"]
    saved: dict[str, Any] = {"checkpoint": saves(tmp_path / "c", 0), "rng": 0}
    calls: list[tm.CompletionProgress] = []
    whole = tm.complete(data, rng=0, callback=calls.append)
    with pytest.raises(KilledError):
        tm.complete(data, callback=die_at(5), **saved)
    (running,) = (tmp_path / "c").glob("*.running.npz")
    edit(running, "checkpoint", "extra.what", lambda what: f"{what} of another")
    again: list[tm.CompletionProgress] = []
    assert_same(tm.complete(data, resume=True, callback=again.append, **saved), whole)
    assert len(again) == len(calls)  # from the beginning
    one, *_, last = sorted((tmp_path / "c").glob("0????.npz"))
    one.write_bytes(last.read_bytes())
    assert_same(tm.complete(data, resume=True, **saved), whole)


def test_other_data_are_refused(tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    saved: dict[str, Any] = {"checkpoint": tmp_path / "c", "rng": 0}
    tm.complete(data, callback=lambda _: True, **saved)
    with pytest.raises(CheckpointError, match="another run: the observed entries differ; resume"):
        tm.complete(data * 2, resume=True, **saved)


def ordered(*modes: int) -> solvers.SMQRGD:
    return solvers.SMQRGD(mode_order=modes)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"center": [0]}, {"center": [1]}),
        ({"rank": 2, "method": ordered(0, 1, 2)}, {"rank": 2, "method": ordered(1, 0, 2)}),
        (
            {"rank": 2, "validation_data": held_pair(0)},
            {"rank": 2, "validation_data": held_pair(1)},
        ),
        ({"rank": 2, "method": solvers.RGN()}, {"rank": 2, "method": solvers.RGN(target=0.1)}),
    ],
)
def test_settings_are_compared_by_content(
    first: dict[str, Any], second: dict[str, Any], tmp_path: Path
) -> None:
    data, _ = RUNS["strengths"]
    saved: dict[str, Any] = {"checkpoint": saves(tmp_path / "c", 0), "rng": 0}
    tm.complete(data, callback=lambda _: True, **saved, **first)
    with pytest.raises(CheckpointError, match=r"c belongs to another run"):
        tm.complete(data, resume=True, **saved, **second)


def test_a_callback_and_threads_may_change(tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    whole = tm.complete(data, 2, rng=0)
    saved: dict[str, Any] = {"checkpoint": saves(tmp_path / "c", 0), "rng": 0, "rank": 2}
    tm.complete(data, callback=lambda now: now.n_iter == 3, threads=1, **saved)
    assert_same(tm.complete(data, resume=True, threads=2, **saved), whole)


def test_a_time_limit_counts_anew_and_may_be_another(tmp_path: Path) -> None:
    data, _ = RUNS["ranks"]
    options: dict[str, Any] = {"rank": 2, "tol": 0.0, "xtol": 0.0, "max_iter": 20, "rng": 0}
    whole = tm.complete(data, **options)
    saved = {"checkpoint": saves(tmp_path / "c", 0), **options}

    def wait(_: tm.CompletionProgress) -> None:
        time.sleep(0.2)

    first = tm.complete(data, time_limit=0.5, callback=wait, **saved)
    second = tm.complete(data, time_limit=0.5, callback=wait, resume=True, **saved)
    assert first.n_iter < second.n_iter < whole.n_iter
    assert_same(tm.complete(data, resume=True, **saved), whole)


def test_a_folder_belongs_to_one_run_at_a_time(tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    saved: dict[str, Any] = {"rank": 2, "checkpoint": saves(tmp_path / "c", 0), "rng": 0}

    def look(now: tm.CompletionProgress) -> None:
        if now.n_iter == 2:
            with pytest.raises(CheckpointError, match="in use by another run"):
                tm.complete(data, resume=True, **saved)

    first = tm.complete(data, callback=look, **saved)
    assert_same(tm.complete(data, resume=True, **saved), first)


def test_a_run_that_fails_at_once_leaves_nothing(tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    for wrong in (
        {"method": "no"},
        {"rank": 2, "method": "no"},
        {"rank": 2, "validation_fraction": 7.0},
    ):
        with pytest.raises(InputError):
            tm.complete(data, checkpoint=tmp_path / "c", **wrong)
        assert not (tmp_path / "c").exists()


def test_a_refused_run_takes_nothing_away(tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    tm.complete(data, checkpoint=saves(tmp_path / "c", 1e6), callback=lambda _: True)
    for path in (tmp_path / "c").glob("0*"):
        path.unlink()  # as if it had been killed before its first save
    with pytest.raises(CheckpointError, match="another run"):
        tm.complete(data * 2, checkpoint=tmp_path / "c", resume=True)
    assert (tmp_path / "c" / "run.npz").exists()


def test_what_a_killed_save_left_is_cleared(tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    saved: dict[str, Any] = {"rank": 2, "checkpoint": saves(tmp_path / "c", 0), "rng": 0}
    tm.complete(data, callback=lambda _: True, **saved)
    left = tmp_path / "c" / ".00001.running.npz.0123456789ab.part"
    left.write_bytes(b"half")
    tm.complete(data, resume=True, **saved)
    assert not left.exists()


def test_parts_without_a_head_are_refused(tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    saved: dict[str, Any] = {"checkpoint": saves(tmp_path / "c", 0), "rng": 0}
    tm.complete(data, callback=lambda now: now.n_iter > 5, **saved)
    (tmp_path / "c" / "run.npz").unlink()
    with pytest.raises(CheckpointError, match=r"has lost its file run.npz.*remove it"):
        tm.complete(data * 2, resume=True, **saved)
    assert list((tmp_path / "c").glob("0*"))


@pytest.mark.parametrize("name", ["strengths", "given rank"])
def test_a_full_disk_does_not_end_a_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, options = RUNS[name]
    whole = tm.complete(data, rng=0, **options)
    saved = {"checkpoint": saves(tmp_path / "c", 0), "rng": 0, **options}
    with pytest.raises(KilledError):
        tm.complete(data, callback=die_at(5), **saved)
    before = {path: path.read_bytes() for path in (tmp_path / "c").iterdir()}

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("os.fsync", fail)
        with pytest.warns(
            CheckpointWarning, match=r"could not be saved \(No space left.*run continues"
        ):
            assert_same(tm.complete(data, resume=True, **saved), whole)
    assert {path: path.read_bytes() for path in (tmp_path / "c").iterdir()} == before
    assert_same(tm.complete(data, resume=True, **saved), whole)


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, _ = RUNS["strengths"]

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    calls: list[tm.CompletionProgress] = []
    for what in ("os.fsync", "pathlib.Path.mkdir"):
        with monkeypatch.context() as sealed:
            sealed.setattr(what, fail)
            with pytest.raises(InputError, match=r"can be written to, got .*Read-only"):
                tm.complete(data, checkpoint=tmp_path / "c", callback=calls.append)
    assert not calls
    assert not (tmp_path / "c").exists()


def test_bad_folders_are_refused(tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    with pytest.raises(InputError, match="resume=True needs a checkpoint"):
        tm.complete(data, resume=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="must be a folder"):
        tm.complete(data, checkpoint=tmp_path / "file")
    with pytest.raises(InputError, match="does not exist"):
        tm.complete(data, checkpoint=tmp_path / "no" / "c")
    with pytest.raises(InputError, match="must be a number, 0 or more"):
        tm.complete(data, checkpoint=saves(tmp_path / "c", -1))


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    saved: dict[str, Any] = {"checkpoint": saves(tmp_path / "c", 0), "rng": 0}
    tm.complete(data, **saved)
    part = sorted((tmp_path / "c").glob("0*.npz"))[0]
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(CheckpointError, match=r"damaged.*remove the checkpoint"):
        tm.complete(data, resume=True, **saved)
