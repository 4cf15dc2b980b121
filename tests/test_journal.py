"""A run that was cut short goes on to the same result, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensormend as tm
from tensormend.errors import CheckpointError, InputError

SHAPE = (12, 13, 14)


def decaying() -> Any:
    """Return a tensor whose singular values decay, so that strengths and balances are tried."""
    sizes = np.meshgrid(*(np.arange(1, n + 1) for n in SHAPE), indexing="ij")
    noise = np.random.default_rng(3).standard_normal(SHAPE)
    return 10 / np.sqrt(sum(size**2.0 for size in sizes)) + 0.01 * noise


def low_rank() -> Any:
    """Return a tensor of low rank, so that ranks are tried too."""
    return tm.simulate.random_tucker(SHAPE, 2, rng=0).dense()


def with_holes(x: Any) -> Any:
    return np.where(np.random.default_rng(1).random(SHAPE) < 0.5, x, np.nan)


def with_lost_fibres(x: Any) -> Any:
    known = np.random.default_rng(1).random(SHAPE[:2]) < 0.6
    return np.where(known[..., None], x, np.nan)


RUNS: dict[str, tuple[Any, dict[str, Any]]] = {
    "strengths": (with_holes(decaying()), {}),
    "ranks": (with_holes(low_rank()), {}),
    "fibres": (with_lost_fibres(decaying()), {}),
    "given rank": (with_holes(low_rank()), {"rank": 2, "holdout": 0.1}),
    "another method": (
        with_holes(decaying()),
        {"rank": (2, 2, 3), "method": "rcg", "center": True},
    ),
}


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)


class KilledError(Exception):
    """Stands for an end that nothing was done about."""


def die_at(count: int) -> Callable[[tm.Moment], None]:
    def look(moment: tm.Moment) -> None:
        nonlocal count
        count -= moment.trial is None
        if count == 0:
            raise KilledError

    return look


def assert_same(one: tm.Completion, other: tm.Completion) -> None:
    assert one.path == other.path or str(one.path) == str(other.path)  # NaN equals itself in words
    assert np.array_equal(one.data, other.data)
    assert one.notes == other.notes
    assert one.trust.rmse == other.trust.rmse
    assert one.trust.degrees_of_freedom == other.trust.degrees_of_freedom


@pytest.mark.parametrize("name", RUNS)
def test_a_killed_run_goes_on_to_the_same_result(name: str, tmp_path: Path) -> None:
    data, options = RUNS[name]
    seen: list[tm.Moment] = []
    whole = tm.complete(data, rng=0, progress=seen.append, **options)
    n_iter = sum(moment.trial is None for moment in seen)
    deaths = np.unique(np.linspace(1, n_iter, 4).astype(int))
    for number, moment in enumerate(deaths):
        place = {"checkpoint": tmp_path / str(number), "save_every": 0.05, "rng": 0, **options}
        with pytest.raises(KilledError):
            tm.complete(data, progress=die_at(int(moment)), **place)
        assert_same(tm.complete(data, resume=True, **place), whole)


def test_a_run_may_be_killed_again_and_again(tmp_path: Path) -> None:
    data, _ = RUNS["ranks"]
    whole = tm.complete(data, rng=0)
    place: dict[str, Any] = {"checkpoint": tmp_path / "c", "save_every": 0, "rng": 0}
    n_deaths = 0
    while True:
        try:
            result = tm.complete(data, progress=die_at(17), resume=True, **place)
            break
        except KilledError:
            n_deaths += 1
    assert n_deaths > 3
    assert_same(result, whole)


@pytest.mark.parametrize("after", [4, 8, 60])
def test_a_run_that_was_asked_to_stop_goes_on_as_well(after: int, tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    whole = tm.complete(data, rng=0)
    place: dict[str, Any] = {"checkpoint": tmp_path / "c", "save_every": 0, "rng": 0}
    stopped = tm.complete(data, progress=lambda moment: moment.n_iter >= after, **place)
    assert len(stopped.path) < len(whole.path)
    assert_same(tm.complete(data, resume=True, **place), whole)


def test_what_was_done_is_not_done_again(tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    seen: list[tm.Moment] = []
    place: dict[str, Any] = {"checkpoint": tmp_path / "c", "save_every": 0, "rng": 0}
    tm.complete(data, progress=seen.append, **place)
    again: list[tm.Moment] = []
    tm.complete(data, progress=again.append, resume=True, **place)
    assert any(moment.trial is None for moment in seen)
    assert not any(moment.trial is None for moment in again)


def test_the_seed_is_remembered(tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    first = tm.complete(data, checkpoint=tmp_path / "c", save_every=0)
    second = tm.complete(data, checkpoint=tmp_path / "c", save_every=0, resume=True)
    assert_same(first, second)


def test_short_steps_are_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensormend.journal.WORTH_KEEPING", 1e6)  # all steps are short then
    data, _ = RUNS["ranks"]
    tm.complete(data, rng=0, checkpoint=tmp_path / "c", save_every=1e6)
    names = {path.name for path in (tmp_path / "c").iterdir()}
    assert {name for name in names if "running" not in name} == {"run.npz"}
    assert len(names) == 2  # the last fit


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rng": 1}, "another rng"),
        ({"holdout": 0.2}, "belongs to another run"),
        ({"log": True}, "belongs to another run"),
        ({"rank": 2}, "belongs to another run"),
        ({"resume": False}, "holds the checkpoint of another run"),
    ],
)
def test_another_run_is_refused(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    data = np.abs(RUNS["strengths"][0])
    place: dict[str, Any] = {"checkpoint": tmp_path / "c", "save_every": 0, "rng": 0}
    tm.complete(data, **place)
    with pytest.raises(CheckpointError, match=words):
        tm.complete(data, **{**place, "resume": True, **change})


def test_other_data_are_refused(tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    place: dict[str, Any] = {"checkpoint": tmp_path / "c", "rng": 0}
    tm.complete(data, **place)
    with pytest.raises(CheckpointError, match="belongs to another run"):
        tm.complete(data * 2, resume=True, **place)


def test_bad_places_are_refused(tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    with pytest.raises(InputError, match="resume needs a checkpoint"):
        tm.complete(data, resume=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="must be a folder"):
        tm.complete(data, checkpoint=tmp_path / "file")
    with pytest.raises(InputError, match="does not exist"):
        tm.complete(data, checkpoint=tmp_path / "no" / "c")
    with pytest.raises(InputError, match="seconds between saves"):
        tm.complete(data, checkpoint=tmp_path / "c", save_every=-1)


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    data, _ = RUNS["strengths"]
    place: dict[str, Any] = {"checkpoint": tmp_path / "c", "save_every": 0, "rng": 0}
    tm.complete(data, **place)
    part = sorted((tmp_path / "c").glob("0*.npz"))[0]
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(CheckpointError, match=r"damaged.*remove the checkpoint"):
        tm.complete(data, resume=True, **place)
