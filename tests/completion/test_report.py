"""The report: whole, safe, small, for every kind of data and every shape."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensormend as tm
from kinds import KINDS, Case, make_dataarray
from tensormend.completion.report import render_report, write_report
from tensormend.completion.report.modes import Mode
from tensormend.errors import DataWarning, InputError

MAX_BYTES = 5_000_000
VOID = {"meta", "link", "input", "img", "br"}
HOSTILE = "</script><script>alert(1)</script>\"'`${x}$title<img src=x onerror=alert(1)>&amp;"


class Reader(HTMLParser):
    """Reads a page, and refuses one whose elements do not close in order."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


def read_views(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


def check(page: str) -> Reader:
    """Hold what every page must keep."""
    assert len(page.encode()) < MAX_BYTES
    reader = Reader(page)
    ids = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in reader.tags:
        assert not {name for name in attributes if name.startswith("on") or name == "style"}
        for name in ("src", "href"):
            assert (attributes.get(name) or "data:").startswith("data:"), (tag, attributes)
    assert [tag for tag, _ in reader.tags].count("script") == 2
    addresses = set(re.findall(r"https?://[^\s\"'<>)]*", page))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # a name, which nothing is loaded from
    assert "nan" not in re.findall(r'\b(?:d|x|y|cx|cy|width|height)="([^"]*)"', page)
    return reader


def with_missing(
    shape: tuple[int, ...], fraction: float = 0.5, rank: int = 1, seed: int = 0
) -> Any:
    truth = tm.simulate.random_tucker(shape, rank, rng=seed).todense()
    return np.where(np.random.default_rng(seed).random(shape) < fraction, truth, np.nan)


@pytest.mark.parametrize("case", KINDS.values(), ids=KINDS.keys())
def test_every_kind(case: Case) -> None:
    check(render_report(tm.complete(**case.given(), rank=2, rng=0)))


@pytest.mark.parametrize("shape", [(30, 20), (9, 8, 7), (6, 5, 4, 3), (5, 4, 4, 3, 3), (3,) * 6])
@pytest.mark.parametrize("validation_fraction", [None, 0.1])
def test_every_order(shape: tuple[int, ...], validation_fraction: float | None) -> None:
    result = tm.complete(
        with_missing(shape, 0.8), rank=1, validation_fraction=validation_fraction, rng=0
    )
    page = render_report(result)
    check(page)
    views = read_views(page)
    assert views["image"]["sliders"] == len(shape) - 2
    assert views["curve"]["sliders"] == len(shape) - 1
    assert ("In-sample error" in page) == (validation_fraction is None)
    assert ("held-out entries</text>" in page) == (validation_fraction is not None)


def test_a_chosen_model_is_marked_on_its_path() -> None:
    noisy = with_missing((14, 13, 12), 0.6, 2) + 0.1 * np.random.default_rng(3).standard_normal(
        (14, 13, 12)
    )
    result = tm.complete(noisy, rng=0)
    assert result.best_trial is not None
    assert result.best_trial in result.trials
    page = render_report(result)
    check(page)
    assert page.count('class="ring"') >= 1
    assert "Held-out error of" in page
    assert 'class="ring"' not in render_report(tm.complete(noisy, rank=2, rng=0))


def test_a_chosen_rank_is_marked() -> None:
    result = tm.complete(with_missing((14, 13, 12), 0.6, 2), rng=0)
    assert result.best_trial is not None
    assert result.best_trial.model == "tucker"
    assert "Rank (2, 2, 2) was selected" in render_report(result)


@pytest.mark.parametrize(("rank", "value"), [("auto", 0.0), ("auto", 3.0), (1, 3.0)])
def test_constant_data(rank: Any, value: float) -> None:
    data = np.where(np.random.default_rng(0).random((8, 7, 6)) < 0.5, value, np.nan)
    check(render_report(tm.complete(data, rank=rank, rng=0)))


def test_extreme_numbers() -> None:
    for factor in (1e-200, 1e150):
        check(render_report(tm.complete(factor * with_missing((8, 7, 6), 0.9), rng=0)))


def test_everything_observed() -> None:
    page = render_report(tm.complete(with_missing((8, 7, 6), 2.0), rank=1, rng=0))
    check(page)
    assert "The same fraction is observed everywhere, 100%" in page


@pytest.mark.parametrize("shape", [(300, 300, 300), (4000, 3000), (60, 50, 40, 30, 20)])
def test_size_and_memory_are_bounded(shape: tuple[int, ...]) -> None:
    """A large tensor is never formed: what the page carries is a part of it."""
    rng = np.random.default_rng(0)
    truth = tm.simulate.random_tucker(shape, 2, rng=1)
    indices = np.unique(np.stack([rng.integers(0, n, 200_000) for n in shape], axis=1), axis=0)
    result = tm.complete(
        truth.entries(indices), rank=2, indices=indices, shape=shape, max_iter=3, rng=0
    )
    page = render_report(result)
    check(page)
    assert len(page) > 1_000_000  # as much as there is room for
    views = read_views(page)
    for view in views.values():
        assert np.prod(view["sizes"]) <= 800_000
    assert "To limit its size the page contains" in page


def test_long_modes_with_labels_and_hardly_an_entry() -> None:
    shape = (90_000, 30_000, 9)
    rng = np.random.default_rng(0)
    indices = np.stack([rng.integers(0, n, 5000) for n in shape], axis=1)
    data = tm.TensorData(
        rng.standard_normal(5000),
        indices,
        shape=shape,
        coords=(np.array([f"customer {k}" * 9 for k in range(shape[0])]), None, None),
        dims=("customer" * 1000, "product", "kind"),
    )
    with pytest.warns(DataWarning):
        result = tm.complete(data, rank=1, max_iter=2, rng=0)
    check(render_report(result))


def test_the_page_carries_the_tensor() -> None:
    data = with_missing((9, 8, 7), 0.5, 2)
    result = tm.complete(data, rank=2, rng=0)
    for view in read_views(render_report(result)).values():
        order = [mode["mode"] for mode in view["modes"]]
        numbers = np.frombuffer(base64.b64decode(view["values"]), dtype="<u2")
        values = view["low"] + numbers.reshape(view["sizes"]) * (view["high"] - view["low"]) / 65535
        bits = np.frombuffer(base64.b64decode(view["observed"]), dtype=np.uint8)
        known = np.unpackbits(bits, bitorder="little")[: data.size].reshape(view["sizes"])
        step = (view["high"] - view["low"]) / 65535
        assert np.abs(values - result.data.transpose(order)).max() <= 0.51 * step
        assert (known == ~np.isnan(data).transpose(order)).all()


def test_complex_numbers_are_shown_by_magnitude() -> None:
    data = with_missing((9, 8, 7), 0.9) * (1 + 2j)
    result = tm.complete(data, rank=1, rng=0)
    page = render_report(result)
    assert "by their magnitude" in page
    assert read_views(page)["image"]["high"] == pytest.approx(np.abs(result.data).max())


# what is chosen to be shown


def shown(names: tuple[str, ...], shape: tuple[int, ...], labels: Any = ()) -> tuple[Any, Any]:
    data = tm.TensorData(with_missing(shape, 0.9), dims=names, coords=labels)
    views = read_views(render_report(tm.complete(data, rank=1, rng=0)))
    return tuple(
        [mode["name"] for mode in view["modes"][view["sliders"] :]] for view in views.values()
    )  # type: ignore[return-value]


def test_space_time_and_colour_are_recognized() -> None:
    rgb = (None, None, None, np.array(["Red", "Green", "Blue"]))
    assert shown(("frame", "y", "x", "channel"), (9, 5, 6, 3), rgb) == (
        ["y", "x", "channel"],
        ["frame"],
    )
    assert shown(("lon", "time", "lat"), (5, 20, 6)) == (["lat", "lon"], ["time"])
    assert shown(("row", "column", "band"), (5, 6, 9)) == (["row", "column"], ["band"])
    assert shown(("day", "detector", "kind"), (20, 15, 4)) == (["detector", "day"], ["day"])
    assert shown(("a", "b", "c"), (5, 20, 15)) == (["b", "c"], ["b"])


def test_latitudes_grow_upwards() -> None:
    data = tm.TensorData(
        with_missing((6, 5, 4), 0.9),
        dims=("lat", "lon", "level"),
        coords=(np.linspace(40.0, 60.0, 6), np.linspace(0.0, 10.0, 5), None),
    )
    assert 'data-up="up"' in render_report(tm.complete(data, rank=1, rng=0))
    fallen = replace(data, coords=(np.linspace(60.0, 40.0, 6), *data.coords[1:]))
    assert 'data-up="down"' in render_report(tm.complete(fallen, rank=1, rng=0))


def test_dates_are_on_the_axis() -> None:
    page = render_report(tm.complete(make_dataarray(), rank=1, rng=0))
    assert ">30 Jan</text>" in page
    assert read_views(page)["curve"]["modes"][-1]["labels"][0] == "2020-01-29"


@pytest.mark.parametrize(
    ("first", "step", "count", "texts"),
    [
        ("2020-11-20", "D", 120, ["Dec 2020", "Jan 2021", "Feb 2021"]),
        ("2020-01-01T22:00", "h", 30, ["2 Jan 00:00", "2 Jan 06:00"]),
        ("2020-01-01T00:00", "m", 50, ["00:00", "00:15", "00:30", "00:45"]),
        ("1990", "Y", 31, ["1990", "2000", "2010", "2020"]),
    ],
)
def test_ticks_of_dates(first: str, step: str, count: int, texts: list[str]) -> None:
    start = np.datetime64(first)
    labels = (start + np.arange(count) * np.timedelta64(1, step)).astype("datetime64[s]")  # type: ignore[call-overload]
    found = [text for _, text in Mode("when", count, labels).ticks(5)]
    assert set(texts) <= set(found)
    assert len(found) <= 6


def test_empty_slices_are_named() -> None:
    values = with_missing((20, 9, 8), 0.6)
    values[3] = values[14] = np.nan
    cities = np.array(list("abcdefghijklmnopqrst"))
    data = tm.TensorData(values, dims=("city", "b", "c"), coords=(cities, None, None))
    with pytest.warns(DataWarning):
        result = tm.complete(data, rank=1, rng=0)
    with pytest.warns(DataWarning):
        assessed = tm.complete(data, rank=1, rng=0, validation_fraction=0.1)
    page = render_report(result)
    assert "Nothing is observed at d, o;" in page
    assert 'class="verdict not-assessed"' in page
    assert "Not assessed" in page
    page = render_report(assessed)
    assert 'class="verdict doubtful"' in page


# safety


def test_hostile_names_are_texts() -> None:
    labels = np.array([f"{HOSTILE}{k}" for k in range(6)], dtype=object)
    data = tm.TensorData(
        with_missing((6, 5, 4), 0.9),
        dims=(HOSTILE, "<b>", "${x}"),
        coords=(labels, None, None),
        name=HOSTILE,
        attrs={HOSTILE: HOSTILE, "units": "<K>"},
    )
    result = tm.complete(data, rank=1, rng=0)
    fit = replace(result.fit, message=HOSTILE)
    result = replace(result, notes=(HOSTILE,), fit=fit)
    page = render_report(result, source=HOSTILE, code=HOSTILE)
    reader = check(page)
    assert not [tag for tag, _ in reader.tags if tag == "img"]
    assert "<script>alert" not in page
    assert HOSTILE in "".join(reader.texts["code"])
    assert HOSTILE in "".join(reader.texts["dd"])
    assert read_views(page)["image"]["modes"][0]["name"]


def test_the_policy_allows_this_script_and_style_only() -> None:
    page = render_report(tm.complete(with_missing((6, 5, 4), 0.9), rank=1, rng=0))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].split(";"))
    assert rules["default-src"] == "'none'"
    for kind, opening in (("script", "<script>"), ("style", "<style>")):
        text = page.split(opening)[1].split(f"</{kind}>")[0]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[f"{kind}-src"] == f"'sha256-{digest}'"


# files


def test_files_are_whole_and_not_overwritten(tmp_path: Path) -> None:
    result = tm.complete(with_missing((6, 5, 4), 0.9), rank=1, rng=0)
    path = tmp_path / "report.html"
    write_report(path, result, source="data.npy", code="import tensormend")
    page = path.read_text(encoding="utf-8")
    assert page == render_report(result, source="data.npy", code="import tensormend")
    assert "data.npy" in page
    assert 'id="copy"' in page
    with pytest.raises(InputError, match="already exists"):
        write_report(path, result)
    write_report(path, result, overwrite=True)
    assert path.read_text(encoding="utf-8") != page
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_bad_arguments_are_refused_before_any_work(tmp_path: Path) -> None:
    result = tm.complete(with_missing((6, 5, 4), 0.9), rank=1, rng=0)
    with pytest.raises(InputError, match="does not exist"):
        write_report(tmp_path / "no" / "report.html", result)
    with pytest.raises(InputError, match="name of a folder"):
        write_report(tmp_path, result, overwrite=True)
    with pytest.raises(InputError, match="takes the Completion that complete returns, got Result"):
        render_report(result.fit)  # type: ignore[arg-type]
