"""A run that was cut short goes on to the same result: on one machine, bit for bit."""

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
    """Return a tensor whose singular values decay, so that strengths and balances are tried."""
    sizes = np.meshgrid(*(np.arange(1, n + 1) for n in SHAPE), indexing="ij")
    noise = np.random.default_rng(3).standard_normal(SHAPE)
    return 10 / np.sqrt(sum(size**2.0 for size in sizes)) + 0.01 * noise


def low_rank() -> Any:
    """Return a tensor of low rank, so that ranks are tried too."""
    return tm.simulate.random_tucker(SHAPE, 2, rng=0).todense()


def saves(folder: Path, seconds: float) -> tm.Checkpoint:
    """Return a checkpoint that is saved after any iteration, but for those within some seconds."""
    return tm.Checkpoint(folder, every=1, seconds=seconds)


def with_holes(x: Any) -> Any:
    return np.where(np.random.default_rng(1).random(SHAPE) < 0.5, x, np.nan)


def with_lost_fibres(x: Any) -> Any:
    known = np.random.default_rng(1).random(SHAPE[:2]) < 0.6
    return np.where(known[..., None], x, np.nan)


RUNS: dict[str, tuple[Any, dict[str, Any]]] = {
    "strengths": (with_holes(decaying()), {}),
    "ranks": (with_holes(low_rank()), {}),
    "fibres": (with_lost_fibres(decaying()), {}),
    "given rank": (with_holes(low_rank()), {"rank": 2, "validation_fraction": 0.1}),
    "another method": (
        with_holes(decaying()),
        {"rank": (2, 2, 3), "method": "rcg", "center": "all"},
    ),
    "random start": (
        with_holes(decaying()).astype(np.complex64),
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
    places = np.argwhere(np.isnan(with_holes(decaying())))
    values = np.ones(len(places))
    values[len(values) // 2] += number
    return places, values


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)


class KilledError(Exception):
    """Stands for an end that nothing was done about."""


def die_at(count: int) -> Callable[[tm.CompletionProgress], None]:
    def look(moment: tm.CompletionProgress) -> None:
        nonlocal count
        count -= moment.trial is None
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
def test_a_killed_run_goes_on_to_the_same_result(name: str, tmp_path: Path) -> None:
    data, options = RUNS[name]
    seen: list[tm.CompletionProgress] = []
    whole = tm.complete(data, rng=0, callback=seen.append, **options)
    n_iter = sum(moment.trial is None for moment in seen)
    deaths = np.unique(np.linspace(1, n_iter, 4).astype(int))
    for number, moment in enumerate(deaths):
        place = {"checkpoint": saves(tmp_path / str(number), 0.05), "rng": 0, **options}
        with pytest.raises(KilledError):
            tm.complete(data, callback=die_at(int(moment)), **place)
        assert_same(tm.complete(data, resume=True, **place), whole)


def test_a_run_may_be_killed_again_and_again(tmp_path: Path) -> None:
    data, _ = RUNS["ranks"]
    whole = tm.complete(data, rng=0)
    place: dict[str, Any] = {"checkpoint": saves(tmp_path / "c", 0), "rng": 0}
    n_deaths = 0
    while True:
        try:
            result = tm.complete(data, callback=die_at(17), resume=True, **place)
            break
        except KilledError:
            n_deaths += 1
    assert n_deaths > 3
    assert_same(result, whole)


@pytest.mark.parametrize("after", [4, 8, 60])
def test_a_run_that_was_asked_to_stop_goes_on_as_well(after: int, tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    whole = tm.complete(data, rng=0)
    place: dict[str, Any] = {"checkpoint": saves(tmp_path / "c", 0), "rng": 0}
    stopped = tm.complete(data, callback=lambda moment: moment.n_iter >= after, **place)
    assert len(stopped.trials) < len(whole.trials)
    assert_same(tm.complete(data, resume=True, **place), whole)


def test_what_was_done_is_not_done_again(tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    seen: list[tm.CompletionProgress] = []
    place: dict[str, Any] = {"checkpoint": saves(tmp_path / "c", 0), "rng": 0}
    tm.complete(data, callback=seen.append, **place)
    again: list[tm.CompletionProgress] = []
    tm.complete(data, callback=again.append, resume=True, **place)
    assert any(moment.trial is None for moment in seen)
    assert not any(moment.trial is None for moment in again)


def test_the_seed_is_remembered(tmp_path: Path) -> None:
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
    place: dict[str, Any] = {"checkpoint": saves(tmp_path / "c", 0), "rng": 0}
    tm.complete(data, callback=lambda _: True, **place)
    with pytest.raises(CheckpointError, match=words):
        tm.complete(data, **{**place, "resume": True, **change})


def edit(path: Path, kind: str, name: str, change: Callable[[Any], Any]) -> None:
    arrays = load_arrays(path, kind)
    save_arrays(path, kind, {**arrays, name: np.asarray(change(arrays[name]))})


@pytest.mark.parametrize("name", ["strengths", "ranks", "another method"])
def test_a_run_goes_on_elsewhere_and_says_so(name: str, tmp_path: Path) -> None:
    """On another machine the loss of an iterate has other last bits."""
    data, options = RUNS[name]
    whole = tm.complete(data, rng=0, **options)
    place = {"checkpoint": saves(tmp_path / "c", 0), "rng": 0, **options}
    with pytest.raises(KilledError):
        tm.complete(data, callback=die_at(5), **place)
    (running,) = (tmp_path / "c").glob("*.running.npz")
    edit(running, "checkpoint", "history.loss", lambda loss: loss * (1 + 4 * np.finfo(float).eps))
    moved = tm.complete(data, resume=True, **place)
    assert sorted(moved.notes) == sorted([*whole.notes, MOVED])
    np.testing.assert_allclose(moved.data, whole.data, rtol=1e-9)


def test_a_file_of_another_step_is_not_taken_for_this_one(tmp_path: Path) -> None:
    """Where a close choice falls otherwise on another machine, steps come in another order."""
    data, _ = RUNS["strengths"]
    place: dict[str, Any] = {"checkpoint": saves(tmp_path / "c", 0), "rng": 0}
    seen: list[tm.CompletionProgress] = []
    whole = tm.complete(data, rng=0, callback=seen.append)
    with pytest.raises(KilledError):
        tm.complete(data, callback=die_at(5), **place)
    (running,) = (tmp_path / "c").glob("*.running.npz")
    edit(running, "checkpoint", "extra.what", lambda what: f"{what} of another")
    again: list[tm.CompletionProgress] = []
    assert_same(tm.complete(data, resume=True, callback=again.append, **place), whole)
    assert len(again) == len(seen)  # from the beginning
    one, *_, last = sorted((tmp_path / "c").glob("0????.npz"))
    one.write_bytes(last.read_bytes())
    assert_same(tm.complete(data, resume=True, **place), whole)


def test_other_data_are_refused(tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    place: dict[str, Any] = {"checkpoint": tmp_path / "c", "rng": 0}
    tm.complete(data, callback=lambda _: True, **place)
    with pytest.raises(CheckpointError, match="another run: the known entries differ; resume"):
        tm.complete(data * 2, resume=True, **place)


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
def test_settings_are_told_apart_by_what_they_hold(
    first: dict[str, Any], second: dict[str, Any], tmp_path: Path
) -> None:
    data, _ = RUNS["strengths"]
    place: dict[str, Any] = {"checkpoint": saves(tmp_path / "c", 0), "rng": 0}
    tm.complete(data, callback=lambda _: True, **place, **first)
    with pytest.raises(CheckpointError, match=r"c belongs to another run"):
        tm.complete(data, resume=True, **place, **second)


def test_a_callback_and_threads_may_change(tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    whole = tm.complete(data, 2, rng=0)
    place: dict[str, Any] = {"checkpoint": saves(tmp_path / "c", 0), "rng": 0, "rank": 2}
    tm.complete(data, callback=lambda now: now.n_iter == 3, threads=1, **place)
    assert_same(tm.complete(data, resume=True, threads=2, **place), whole)


def test_a_time_limit_counts_anew_and_may_be_another(tmp_path: Path) -> None:
    data, _ = RUNS["ranks"]
    options: dict[str, Any] = {"rank": 2, "tol": 0.0, "xtol": 0.0, "max_iter": 20, "rng": 0}
    whole = tm.complete(data, **options)
    place = {"checkpoint": saves(tmp_path / "c", 0), **options}

    def wait(_: tm.CompletionProgress) -> None:
        time.sleep(0.2)

    first = tm.complete(data, time_limit=0.5, callback=wait, **place)
    second = tm.complete(data, time_limit=0.5, callback=wait, resume=True, **place)
    assert first.n_iter < second.n_iter < whole.n_iter
    assert_same(tm.complete(data, resume=True, **place), whole)


def test_a_folder_belongs_to_one_run_at_a_time(tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    place: dict[str, Any] = {"rank": 2, "checkpoint": saves(tmp_path / "c", 0), "rng": 0}

    def look(moment: tm.CompletionProgress) -> None:
        if moment.n_iter == 2:
            with pytest.raises(CheckpointError, match="in use by another run"):
                tm.complete(data, resume=True, **place)

    first = tm.complete(data, callback=look, **place)
    assert_same(tm.complete(data, resume=True, **place), first)


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
    place: dict[str, Any] = {"rank": 2, "checkpoint": saves(tmp_path / "c", 0), "rng": 0}
    tm.complete(data, callback=lambda _: True, **place)
    left = tmp_path / "c" / ".00001.running.npz.0123456789ab.part"
    left.write_bytes(b"half")
    tm.complete(data, resume=True, **place)
    assert not left.exists()


def test_parts_without_a_head_are_refused(tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    place: dict[str, Any] = {"checkpoint": saves(tmp_path / "c", 0), "rng": 0}
    tm.complete(data, callback=lambda moment: moment.n_iter > 5, **place)
    (tmp_path / "c" / "run.npz").unlink()
    with pytest.raises(CheckpointError, match=r"has lost its file run.npz.*remove it"):
        tm.complete(data * 2, resume=True, **place)
    assert list((tmp_path / "c").glob("0*"))


@pytest.mark.parametrize("name", ["strengths", "given rank"])
def test_a_full_disk_does_not_end_a_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, options = RUNS[name]
    whole = tm.complete(data, rng=0, **options)
    place = {"checkpoint": saves(tmp_path / "c", 0), "rng": 0, **options}
    with pytest.raises(KilledError):
        tm.complete(data, callback=die_at(5), **place)
    before = {path: path.read_bytes() for path in (tmp_path / "c").iterdir()}

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("os.fsync", fail)
        with pytest.warns(
            CheckpointWarning, match=r"could not be saved \(No space left.*run continues"
        ):
            assert_same(tm.complete(data, resume=True, **place), whole)
    assert {path: path.read_bytes() for path in (tmp_path / "c").iterdir()} == before
    assert_same(tm.complete(data, resume=True, **place), whole)


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, _ = RUNS["strengths"]

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    seen: list[tm.CompletionProgress] = []
    for what in ("os.fsync", "pathlib.Path.mkdir"):
        with monkeypatch.context() as sealed:
            sealed.setattr(what, fail)
            with pytest.raises(InputError, match=r"can be written to, got .*Read-only"):
                tm.complete(data, checkpoint=tmp_path / "c", callback=seen.append)
    assert not seen
    assert not (tmp_path / "c").exists()


def test_bad_places_are_refused(tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    with pytest.raises(InputError, match="resume needs a checkpoint"):
        tm.complete(data, resume=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="must be a folder"):
        tm.complete(data, checkpoint=tmp_path / "file")
    with pytest.raises(InputError, match="does not exist"):
        tm.complete(data, checkpoint=tmp_path / "no" / "c")
    with pytest.raises(InputError, match="every 0 seconds or more"):
        tm.complete(data, checkpoint=saves(tmp_path / "c", -1))


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    place: dict[str, Any] = {"checkpoint": saves(tmp_path / "c", 0), "rng": 0}
    tm.complete(data, **place)
    part = sorted((tmp_path / "c").glob("0*.npz"))[0]
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(CheckpointError, match=r"damaged.*remove the checkpoint"):
        tm.complete(data, resume=True, **place)
