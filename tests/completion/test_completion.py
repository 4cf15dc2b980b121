"""Completed data come back in the kind that came in, whole or in part."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sparse
import xarray as xr

import tensormend as tm
from kinds import (
    CITIES,
    DAYS,
    INDICES,
    KINDS,
    LEVELS,
    OBSERVED,
    OTHER,
    SHAPE,
    TABLE,
    TRUTH,
    make_dataarray,
    make_frame,
    make_series,
)
from tensormend.completion.preprocessing import Preprocessing
from tensormend.completion.result import Assessment, Completion
from tensormend.core.storage import load_arrays, save_arrays
from tensormend.data.observations import Observations, as_observations
from tensormend.errors import InputError, MemoryLimitError
from tensormend.recovery.result import History, Status

pytestmark = pytest.mark.numerical

WITH_LABELS = ("Array", "Series", "Frame", "TensorData")
LABELLED = [name for name in KINDS if any(part in name for part in WITH_LABELS)]
LABELLED.remove("Series with indices")


def pretend(known: Observations, x: tm.Tucker) -> Completion:
    """Return the outcome of a run that ended at a given model."""
    result = tm.Result(
        x.astype(known.values.dtype), Status.CONVERGED, "", 0, 0.0, 0.0, History(), ""
    )
    return Completion(
        fit=result,
        observations=known,
        preprocessing=Preprocessing().fit(known.indices, known.values, known.shape),
        assessment=Assessment(np.arange(len(known.values)), None, 1.0, in_sample=True),
    )


def relabelled(name: str) -> tuple[Completion, Any]:
    """Return a completion by a model that is not the truth, and its data as they must be."""
    case = KINDS[name]
    known = as_observations(**case.given())
    whole = case.back(known.container.wrap(np.arange(336.0).reshape(SHAPE), [slice(None)] * 3))
    order = np.argsort(whole, axis=None)  # where each place of the case is in the tensor
    tensor = case.truth.ravel()[order].reshape(SHAPE)
    mask = OBSERVED.ravel()[order].reshape(SHAPE)
    return pretend(known, OTHER), np.where(mask, tensor, OTHER.todense())


def as_array(name: str, data: Any) -> Any:
    """Turn data of a kind into an array in the order of the modes' labels."""
    if isinstance(data, pd.Series | pd.DataFrame):  # rows are in that order
        column = data["flux"] if isinstance(data, pd.DataFrame) else data
        return column.to_numpy().reshape(SHAPE)
    return KINDS[name].back(data)


CLOSE = 1e-12
SINGLE = 1e-5
"""Rounding of products of a few small numbers, relative to about 50."""


def close(expected: Any, dtype: Any) -> Any:
    unit = SINGLE if np.dtype(dtype).itemsize // (1 + (np.dtype(dtype).kind == "c")) == 4 else CLOSE
    return pytest.approx(expected, abs=50 * unit)


@pytest.mark.parametrize("name", KINDS)
def test_a_round_trip_with_a_run(name: str) -> None:
    case = KINDS[name]
    single = case.dtype in ("float32", "complex64")
    result = tm.complete(
        rank=1 if name == "booleans" else 2, tol=1e-5 if single else 1e-10, **case.given()
    )
    assert result.success
    assert type(result.data) is case.type
    np.testing.assert_allclose(case.back(result.data), case.truth, atol=1e-2 if single else 1e-6)
    np.testing.assert_allclose(
        case.back(result.fitted_values()), case.truth, atol=1e-2 if single else 1e-6
    )


@pytest.mark.parametrize("name", KINDS)
def test_observed_entries_are_kept_as_they_are(name: str) -> None:
    case = KINDS[name]
    completion, expected = relabelled(name)
    data = as_array(name, completion.data)
    assert data.dtype == case.dtype
    assert data == close(expected, case.dtype)
    filled = case.back(completion.data)
    np.testing.assert_array_equal(filled[OBSERVED], case.truth[OBSERVED])  # to the last bit
    model = as_array(name, completion.fitted_values())
    assert type(completion.fitted_values()) is case.type
    assert model == close(OTHER.todense(), case.dtype)
    assert completion.data is completion.data  # made once


@pytest.mark.parametrize("name", KINDS)
def test_parts_are_those_of_the_whole(name: str) -> None:
    completion, expected = relabelled(name)
    dtype = KINDS[name].dtype
    for key in (
        (3, slice(None), 5),
        (slice(None, None, -2), 1),
        (..., slice(2, 6)),
        (slice(0), 2, ...),
        -1,
        (),
    ):
        part = completion[key]
        assert type(part) is np.ndarray
        assert part.dtype == dtype
        assert part == close(expected[key], dtype)
    assert completion[1, 2, 3] == close(expected[1, 2, 3], dtype)
    indices = np.random.default_rng(0).integers(0, SHAPE, (50, 3))
    assert completion.entries(indices) == close(expected[tuple(indices.T)], dtype)
    model = completion.entries(indices, keep_observed=False)
    assert model == close(OTHER.entries(indices), dtype)
    assert completion.entries((1, 2, 3)).shape == (1,)
    known = completion.observations
    np.testing.assert_array_equal(completion.entries(known.indices), known.values)


@pytest.mark.parametrize("name", KINDS)
def test_factors_have_the_labels_of_their_mode(name: str) -> None:
    completion, _ = relabelled(name)
    assert completion.rank == completion.fit.x.rank
    assert len(completion.factors) == 3
    for k, factor in enumerate(completion.factors):
        np.testing.assert_array_equal(np.asarray(factor), completion.fit.x.factors[k])


def test_factors_of_each_labelled_kind() -> None:
    city, day, band = pretend(as_observations(make_dataarray()), OTHER).factors
    assert city.dims == ("city", "component")
    assert city.coords["city"].values.tolist() == CITIES
    assert city.coords["run"] == 7
    assert day.sel(day="2020-01-31").dims == ("component",)
    assert list(band.coords) == ["wavelength", "run"]
    for data in (make_series(), make_frame().drop(columns="note")):
        city, day, level = pretend(as_observations(data), OTHER).factors
        assert city.index.tolist() == sorted(CITIES)
        assert (city.index.name, city.columns.name) == ("city", "component")
        assert day.index.equals(DAYS)
        assert level.index.equals(LEVELS)
    components = xr.DataArray(np.ones((2, 3)), dims=["component", "x"])
    small = tm.thosvd(np.ones((2, 3)), 1)
    factor = pretend(as_observations(components), small).factors[0]
    assert factor.dims == ("component", "component_of")


# each kind as a whole


def test_a_dataarray_keeps_all_but_its_encoding() -> None:
    data = make_dataarray()
    data.encoding = {"dtype": "int16", "scale_factor": 0.1}
    out = pretend(as_observations(data), OTHER).data
    filled = data.where(OBSERVED, OTHER.todense())
    xr.testing.assert_allclose(out, filled)
    xr.testing.assert_identical(out.coords.to_dataset(), data.coords.to_dataset())
    assert (out.name, out.attrs, out.dims) == (data.name, data.attrs, data.dims)
    assert out.encoding == {}
    out.attrs["units"] = "cm"
    assert data.attrs["units"] == "K"


def test_a_dataarray_with_a_stacked_mode() -> None:
    data = make_dataarray().stack(where=["city", "band"])
    completion = pretend(as_observations(data), tm.thosvd(np.ones((7, 48)), 1))
    assert completion.data.indexes["where"].equals(data.indexes["where"])
    expected = completion.data.sel(where=("B", 3))
    part = completion.sel(where=[("B", 3)]).squeeze("where")
    xr.testing.assert_allclose(part, expected, rtol=CLOSE)
    xr.testing.assert_identical(xr.zeros_like(part), xr.zeros_like(expected))  # all but the values


def test_a_series_comes_back_over_the_product_of_its_levels() -> None:
    out = pretend(as_observations(make_series()), OTHER).data
    assert out.name == "flux"
    expected = pd.MultiIndex.from_product(
        [sorted(CITIES), DAYS, LEVELS], names=["city", "day", "level"]
    )
    pd.testing.assert_index_equal(out.index, expected)
    given = make_series()
    pd.testing.assert_series_equal(out.loc[given.index], given)
    unnamed = make_series([None, "day", None]).rename(None)
    out = pretend(as_observations(unnamed), OTHER).data
    assert (list(out.index.names), out.name) == ([None, "day", None], None)


def test_a_table_comes_back_with_its_columns() -> None:
    given = make_frame()
    out = pretend(as_observations(given, **TABLE), OTHER).data
    assert list(out.columns) == ["city", "day", "level", "flux"]
    assert len(out) == np.prod(SHAPE)
    pd.testing.assert_series_equal(out.dtypes, given.drop(columns="note").dtypes)
    keys = ["city", "day", "level"]
    both = given.dropna().merge(out, on=keys, suffixes=("", "_out"))
    assert len(both) == len(INDICES)
    assert (both["flux"] == both["flux_out"]).all()
    assert (pd.Index(out["level"].cat.categories) == LEVELS.categories).all()


@pytest.mark.parametrize(
    "labels",
    [
        pd.array([1, 2], dtype="Int16"),
        pd.array([False, True]),
        np.array([1, 2], dtype="uint8"),
        pd.to_datetime(["2020-01-01", "2021-01-01"]).tz_localize("Europe/Rome"),
        pd.period_range("2020-01", periods=2, freq="M"),
        pd.interval_range(0, 2),
        pd.to_timedelta([1, 2], unit="s"),
        pd.array(["u", "v"], dtype="string"),
        np.array(["u", 3], dtype=object)[::-1],
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_labels_of_every_type_come_back(labels: Any) -> None:
    index = pd.MultiIndex.from_product([labels, ["a", "b", "c"]], names=["x", "y"])
    series = pd.Series(np.arange(6.0), index=index, name="v")
    frame = pd.DataFrame({"x": np.repeat(labels, 3), "y": [*"abc"] * 2, "v": np.arange(6.0)})
    model = tm.thosvd(np.ones((2, 3)), 1)
    pd.testing.assert_series_equal(pretend(as_observations(series), model).data, series)
    completion = pretend(as_observations(frame), model)
    pd.testing.assert_frame_equal(completion.data, frame)
    assert completion.sel(x=labels[1], y="b")["v"].tolist() == [4.0]


def test_a_masked_array_has_nothing_masked() -> None:
    for data in (
        np.ma.MaskedArray(TRUTH, mask=~OBSERVED, fill_value=-9),
        np.ma.MaskedArray(TRUTH.astype(int), mask=~OBSERVED, fill_value=-9),
    ):
        out = pretend(as_observations(data), OTHER).data
        assert not np.ma.getmaskarray(out).any()
        assert out.fill_value == -9


def test_a_sparse_array_stores_every_entry() -> None:
    stored = TRUTH[OBSERVED].copy()
    stored[:5] = 0  # known to be zero
    data = sparse.COO(INDICES.T, stored, shape=SHAPE)
    completion = pretend(as_observations(data), OTHER)
    assert completion.data.nnz == np.prod(SHAPE)
    assert completion.data.fill_value == 0
    np.testing.assert_array_equal(completion.data.todense()[OBSERVED], stored)
    around = sparse.COO.from_numpy(np.where(OBSERVED, TRUTH, np.nan), fill_value=np.nan)
    assert np.isnan(pretend(as_observations(around), OTHER).data.fill_value)


def test_held_out_entries_are_observed_ones() -> None:
    data = np.where(OBSERVED, TRUTH, np.nan)
    result = tm.complete(data, 2, validation_fraction=0.2, rng=0, max_iter=0)
    np.testing.assert_array_equal(result.data[OBSERVED], TRUTH[OBSERVED])
    assert len(result.observations.values) == len(INDICES)


# labels


@pytest.mark.parametrize("keep_observed", [True, False])
@pytest.mark.parametrize(
    "labels",
    [
        {"city": "D"},
        {"city": ["D", "A"], "day": slice("2020-01-31", "2020-02-02")},
        {"city": ["D", "A", "D"], "band": [7, 7, 0]},
        {"day": "2020-02"},
        {"day": DAYS[3], "band": slice(2, 5)},
        {"city": slice("B", "A"), "band": -1},
        {"city": "D", "day": DAYS[0], "band": 2},
        {},
    ],
)
def test_sel_of_a_dataarray_is_that_of_the_whole(labels: Any, keep_observed: bool) -> None:
    completion = pretend(as_observations(make_dataarray()), OTHER)
    whole = completion.data if keep_observed else completion.fitted_values()
    part = completion.sel(keep_observed=keep_observed, **labels)
    xr.testing.assert_allclose(part, whole.sel(labels))
    assert part.attrs == whole.attrs
    assert part.name == "radiance"
    assert set(part.coords) == set(whole.sel(labels).coords)


@pytest.mark.parametrize("keep_observed", [True, False])
@pytest.mark.parametrize(
    ("labels", "key"),
    [
        ({"city": "D"}, ("D",)),
        ({"city": ["A", "D"]}, (["A", "D"],)),
        ({"day": "2020-02"}, (slice(None), slice("2020-02-01", "2020-02-29"))),
        (
            {"city": slice("B", "D"), "level": ["p", "j"]},
            (slice("B", "D"), slice(None), ["p", "j"]),
        ),
        ({"city": "D", "level": "n"}, ("D", slice(None), "n")),
        ({"city": "D", "day": DAYS[0], "level": "n"}, ("D", DAYS[0], "n")),
        ({}, (slice(None),)),
    ],
)
def test_sel_of_a_series_is_that_of_the_whole(labels: Any, key: Any, keep_observed: bool) -> None:
    completion = pretend(as_observations(make_series()), OTHER)
    whole = completion.data if keep_observed else completion.fitted_values()
    part = completion.sel(labels, keep_observed=keep_observed)
    expected = whole.loc[(*key, *(slice(None),) * (3 - len(key)))]
    if isinstance(expected, pd.Series):
        pd.testing.assert_series_equal(part, expected, check_freq=False)
    else:
        assert part == pytest.approx(expected)


def test_sel_of_a_table_gives_its_rows() -> None:
    completion = pretend(as_observations(make_frame(), **TABLE), OTHER)
    out = completion.data
    part = completion.sel(city="D", day=slice("2020-01-30", "2020-02-01"), level=["p", "k"])
    wanted = (out["city"] == "D") & out["day"].between("2020-01-30", "2020-02-01")
    expected = out[wanted & out["level"].isin(["p", "k"])]
    pd.testing.assert_frame_equal(part, expected.reset_index(drop=True))
    assert len(completion.sel(city="D", day=DAYS[0], level="p")) == 1


def test_sel_of_unnamed_levels_and_odd_names() -> None:
    completion = pretend(as_observations(make_series([None, "day", None])), OTHER)
    assert completion.sel(level_0="D", level_2="p").index.equals(DAYS)
    odd = pretend(as_observations(make_series([("a", 1), 5, "keep_observed"])), OTHER)
    assert odd.sel({("a", 1): "D", "keep_observed": "p"}).index.name == 5


def test_an_empty_selection() -> None:
    for data in (make_dataarray(), make_series(), make_frame().drop(columns="note")):
        part = pretend(as_observations(data), OTHER).sel(day=slice("2030", None))
        assert np.size(part) == 0
        assert type(part) is type(data)


# refusals


@pytest.mark.parametrize("name", [name for name in KINDS if name not in LABELLED])
def test_sel_needs_labels(name: str) -> None:
    completion, _ = relabelled(name)
    with pytest.raises(
        InputError, match=f"sel takes labels, which {completion.observations.container.words} d"
    ):
        completion.sel(city="D")


@pytest.mark.parametrize("make", [make_dataarray, make_series])
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"town": "D"}, "by the names of the modes, got 'town'; use one of 'city', 'day', '"),
        ({"city": "Z"}, "of mode 'city', the first of which is [AF], got 'Z'; list them"),
        ({"city": ["A", "Z"]}, r"got \['A', 'Z'\]; list them with completion\.factors\[0\]"),
        ({"day": "2031-01-01"}, "of mode 'day', the first of which is 2020-01-29"),
        ({"day": slice("x", None)}, "got slice"),
    ],
)
def test_sel_refuses_what_is_not_there(make: Any, labels: Any, message: str) -> None:
    completion = pretend(as_observations(make()), OTHER)
    with pytest.raises(InputError, match=message):
        completion.sel(labels)


def test_sel_refuses_labels_in_a_square_and_places_out_of_range() -> None:
    completion = pretend(as_observations(make_dataarray()), OTHER)
    with pytest.raises(InputError, match="an array of 2 dimensions for mode 'city'; flatten it"):
        completion.sel(city=xr.DataArray([["A", "B"]]))
    with pytest.raises(InputError, match="of mode 'band', the first of which is 0, got 8"):
        completion.sel(band=8)


def test_keys_and_indices_are_refused_with_a_way_out() -> None:
    completion, _ = relabelled("array")
    with pytest.raises(
        InputError, match=r"integers, slices and an ellipsis, got list; use entries\("
    ):
        completion[[0, 1]]
    with pytest.raises(IndexError, match="index 9 is out of bounds for mode 0 of size 6"):
        completion[9]
    with pytest.raises(InputError, match="must lie between 0 and 5, got -1 in row 0"):
        completion.entries([-1, 0, 0])


def test_what_is_too_large_is_refused_and_can_be_had_in_parts() -> None:
    shape = (30_000, 20_000, 25_000)
    rng = np.random.default_rng(0)
    x = tm.simulate.random_tucker(shape, 2, rng=0)
    indices = np.stack([rng.integers(0, n, 1000) for n in shape], axis=1)
    completion = pretend(Observations(indices, np.ones(1000), shape), x)
    with pytest.raises(MemoryLimitError, match="ask for entries or slices instead"):
        _ = completion.data
    with pytest.raises(MemoryLimitError, match="ask for entries or slices instead"):
        completion.fitted_values()
    with pytest.raises(MemoryLimitError, match=r"the slice of shape \(30000, 20000, 25000\)"):
        completion[:]
    first = indices[0]
    assert completion.entries(first) == 1
    column = completion[first[0], :, first[2]]
    assert column[first[1]] == 1
    assert column[first[1] - 1] == pytest.approx(x.entries([first - [0, 1, 0]])[0])


def test_the_memory_limit_counts_labels() -> None:
    arrays, _ = relabelled("array")
    size = arrays.data.nbytes
    assert arrays.fitted_values(memory_limit=size).shape == SHAPE
    with pytest.raises(MemoryLimitError, match=r"the completed data of shape \(6, 7, 8\) would"):
        arrays.fitted_values(memory_limit=size - 1)
    for name in ("Series", "DataFrame", "sparse.COO"):
        completion, _ = relabelled(name)
        assert completion.fitted_values(memory_limit=4 * size) is not None  # a number, three labels
        with pytest.raises(MemoryLimitError):
            completion.fitted_values(memory_limit=4 * size - 1)


def test_a_completion_can_be_sent_around() -> None:
    for name in ("masked array", "DataArray", "Series", "DataFrame", "sparse.COO"):
        completion, _ = relabelled(name)
        assert not isinstance(completion, tm.Result)
        assert isinstance(completion.fit, tm.Result)
        assert repr(completion).startswith("Completion(")
        again = pickle.loads(pickle.dumps(completion))  # noqa: S301
        first, second = (as_array(name, c.data) for c in (completion, again))
        np.testing.assert_array_equal(first, second)


# files


@pytest.mark.parametrize("options", [{"rng": 0}, {"rank": 2, "validation_fraction": 0.1, "rng": 0}])
def test_a_completion_can_be_saved_and_loaded(options: dict[str, Any], tmp_path: Path) -> None:
    data = np.where(OBSERVED, TRUTH - TRUTH.min(), np.nan)
    result = tm.complete(data, transform="log1p", standardize=1, clip=(0, None), **options)
    result.save(tmp_path / "model.npz")
    again = Completion.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.data, result.data)
    np.testing.assert_array_equal(again.fitted_values(), result.fitted_values())
    assert again.trials == result.trials or str(again.trials) == str(result.trials)  # NaN
    assert str(again.best_trial) == str(result.best_trial)
    assert repr(again) == repr(result)
    assert (again.n_iter, again.seconds, again.notes) == (
        result.n_iter,
        result.seconds,
        result.notes,
    )
    assert again.trust.rmse == result.trust.rmse
    assert again.trust.verdict is result.trust.verdict
    assert again.fit.status is result.fit.status
    np.testing.assert_array_equal(again.fit.history.residual, result.fit.history.residual)


def test_validation_data_are_saved_too(tmp_path: Path) -> None:
    hidden = np.argwhere(~OBSERVED)[:50]
    data = np.where(OBSERVED, TRUTH, np.nan)
    result = tm.complete(data, 2, validation_data=(hidden, TRUTH[tuple(hidden.T)]), max_iter=5)
    result.save(tmp_path / "model.npz")
    assert Completion.load(tmp_path / "model.npz").trust.rmse == result.trust.rmse


@pytest.mark.parametrize("name", ["DataArray", "Series", "DataFrame"])
def test_labels_are_saved_too(name: str, tmp_path: Path) -> None:
    completion, _ = relabelled(name)
    completion.save(tmp_path / "model.npz")
    again = Completion.load(tmp_path / "model.npz")
    assert isinstance(again.data, tm.TensorData)
    container: Any = completion.observations.container
    assert again.data.dims == tuple(map(str, container.dims))
    np.testing.assert_array_equal(again.data.values, completion[:])
    for k, n in enumerate(SHAPE):
        labels = again.data.coords[k]
        assert labels is not None
        for i in (0, n - 1):
            label = container.label(k, i)
            assert str(labels[i]) == str(label) or labels[i] == np.datetime64(label)


def test_files_of_newer_formats_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    completion, _ = relabelled("array")
    with monkeypatch.context() as later:
        later.setattr("tensormend.core.storage.FORMAT_VERSION", 7)
        completion.save(tmp_path / "model.npz")
        completion.fit.x.save(tmp_path / "tucker.npz")
    message = r"model.npz has format version 7, written by a newer tensormend; .* reads up to 1"
    with pytest.raises(InputError, match=message):
        Completion.load(tmp_path / "model.npz")
    with pytest.raises(InputError, match="has format version 7"):
        tm.Tucker.load(tmp_path / "tucker.npz")


def test_other_files_are_refused(tmp_path: Path) -> None:
    completion, _ = relabelled("array")
    completion.fit.x.save(tmp_path / "tucker.npz")
    with pytest.raises(InputError, match="should hold a completion, found Tucker tensor"):
        Completion.load(tmp_path / "tucker.npz")
    completion.save(tmp_path / "model.npz")
    arrays = load_arrays(tmp_path / "model.npz", "completion")
    del arrays["assessment.held"]
    save_arrays(tmp_path / "model.npz", "completion", arrays)
    with pytest.raises(InputError, match="an array in it is missing or wrong"):
        Completion.load(tmp_path / "model.npz")


# positions


def test_isel_is_that_of_the_whole() -> None:
    data, _ = relabelled("DataArray")
    city, day, band = data.observations.container.dims  # type: ignore[attr-defined]
    part = data.isel({city: -1, day: slice(1, 4)}, keep_observed=False)
    xr.testing.assert_allclose(part, data.fitted_values().isel({city: -1, day: slice(1, 4)}))
    xr.testing.assert_allclose(data.isel({band: [2, 0]}), data.data.isel({band: [2, 0]}))
    plain, _ = relabelled("array")
    np.testing.assert_allclose(plain.isel({1: [0, -1]}), plain.data[:, [0, -1]], atol=1e-12)
    np.testing.assert_allclose(plain.isel({0: 2, 2: 3}), plain.data[2, :, 3], atol=1e-12)
    np.testing.assert_array_equal(plain.isel(), plain.data)
    with pytest.raises(InputError, match="by the names or numbers of modes, got 'x'; use one of 0"):
        plain.isel(x=0)
    for wrong in (6, -7, 1.5, [[0]], "a", True):
        with pytest.raises(InputError, match="isel takes an integer, a slice or a list"):
            plain.isel({0: wrong})
