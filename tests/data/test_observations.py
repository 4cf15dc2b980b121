"""Reading what is known: every kind gives the same entries, every refusal its message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sparse
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import kinds
import tensormend as tm
from kinds import DAYS, INDICES, KINDS, OBSERVED, SHAPE, TRUTH, WITH_NAN
from tensormend.data.observations import Observations, as_observations
from tensormend.data.observations.read import READERS
from tensormend.errors import DataWarning, InputError

pytestmark = pytest.mark.numerical


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_gives_the_same_entries(name: str) -> None:
    case = KINDS[name]
    arguments = case.given()
    known = as_observations(**arguments)
    assert known.shape == SHAPE
    assert known.values.dtype == case.dtype
    full = np.full(SHAPE, np.nan, dtype=known.values.dtype)
    known.put(full, [slice(None)] * 3)
    # put the entries back as they were found: labels may have been sorted
    back = case.back(known.container.wrap(full, [slice(None)] * 3))
    np.testing.assert_array_equal(back, np.where(OBSERVED, case.truth, np.nan))


@pytest.mark.parametrize("name", KINDS)
def test_data_are_left_as_they_are(name: str) -> None:
    arguments = KINDS[name].given()
    untouched = KINDS[name].given()
    tm.complete(rank=2, max_iter=1, **arguments)
    for key, value in arguments.items():
        if isinstance(value, xr.DataArray):
            assert value.identical(untouched[key])
        elif isinstance(value, pd.Series | pd.DataFrame):
            assert value.equals(untouched[key])
        elif isinstance(value, tm.TensorData):
            np.testing.assert_array_equal(value.values, untouched[key].values)
        elif isinstance(value, sparse.COO):
            np.testing.assert_array_equal(value.data, untouched[key].data)
        else:
            np.testing.assert_array_equal(value, untouched[key])


def test_every_kind_of_data_has_a_case() -> None:
    given = [type(case.given()["data"]) for case in kinds.KINDS.values()]
    libraries = {cls.__module__.partition(".")[0] for kind in given for cls in kind.__mro__}
    assert {reader.library for reader in READERS} - libraries == {"scipy"}  # which is refused


def test_a_tucker_tensor_is_read_as_an_array() -> None:
    model = tm.simulate.random_tucker((3, 4, 5), 2, rng=0)
    assert np.array_equal(as_observations(model).values, model.todense().ravel())


def test_subclasses_are_known_by_their_ancestors() -> None:
    class Radiance(xr.DataArray):  # type: ignore[misc]
        __slots__ = ()

    assert as_observations(Radiance(WITH_NAN)).container.words == "a DataArray"


# labels


def test_labels_are_sorted_as_pandas_does() -> None:
    frame = pd.DataFrame(
        {"word": ["b", "a", "b"], "number": [10, 9, -1], "when": [3, 1, 2], "v": [1.0, 2.0, 3.0]}
    )
    frame["when"] = pd.to_datetime(frame["when"], unit="D", utc=True)
    known = as_observations(frame)
    assert known.shape == (2, 3, 3)
    assert known.indices.tolist() == [[1, 2, 2], [0, 1, 0], [1, 0, 1]]
    assert known.container.describe(1, [0, 2]) == ("mode 'number'", "-1, 10")
    assert known.container.describe_entry([0, 1, 0]) == (
        "word=a, number=9, when=1970-01-02 00:00:00+00:00"
    )


def test_labels_without_observation() -> None:
    """Categories count though no row has them, as do labels of rows without a value; levels
    that were filtered out do not."""
    words = pd.Categorical(["x", "z", "x"], categories=["z", "y", "x"])
    frame = pd.DataFrame({"word": words, "number": [1, 2, 3], "v": [1.0, 2.0, np.nan]})
    known = as_observations(frame)
    assert known.shape == (3, 3)
    assert known.indices.tolist() == [[2, 0], [0, 1]]
    series = frame.set_index(["word", "number"])["v"]
    assert as_observations(series).shape == (3, 3)
    assert as_observations(series[series > 1]).shape == (3, 1)


def test_empty_slices_are_named_by_their_labels() -> None:
    holed = WITH_NAN.copy()
    holed[[1, 3]] = np.nan  # B and A
    with pytest.warns(DataWarning, match=r"mode 'city' has no observation at all at B, A \(2 of 6"):
        tm.complete(kinds.make_dataarray(holed), 2, max_iter=1)
    holed = WITH_NAN.copy()
    holed[:, :, :6] = np.nan
    with pytest.warns(DataWarning, match=r"mode 'level' .* at p, o, n, m, l, \.\.\. \(6 of 8\)"):
        tm.complete(kinds.make_frame(holed), 1, modes=["city", "day", "level"], value_column="flux")
    with pytest.warns(DataWarning, match=r"mode 'dim_2' .* at 0, 1, 2, 3, 4, \.\.\. \(6 of 8\)"):
        tm.complete(xr.DataArray(holed), 1)


FRAME = kinds.make_frame().drop(columns="note")


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_the_order_of_rows_does_not_matter(seed: int) -> None:
    shuffled = FRAME.iloc[np.random.default_rng(seed).permutation(len(FRAME))]
    expected, found = tm.complete(FRAME, 2, max_iter=3), tm.complete(shuffled, 2, max_iter=3)
    # norms of the values are summed in another order
    pd.testing.assert_frame_equal(found.data, expected.data, rtol=1e-12, atol=1e-12)


def test_columns_may_be_named_in_any_order() -> None:
    frame = kinds.make_frame()[["level", "flux", "city", "note", "day"]]
    result = tm.complete(frame, 2, modes=["day", "city", "level"], value_column="flux", max_iter=1)
    assert result.fit.x.shape == (7, 6, 8)
    assert list(result.data.columns) == ["level", "flux", "city", "day"]
    slim = frame.drop(columns="note")
    assert as_observations(slim, modes=["day", "city", "level"]).shape == (7, 6, 8)
    named = as_observations(slim, value_column="flux")
    assert named.shape == (8, 6, 7)
    assert named.container.describe(1, [0]) == (
        "mode 'city'",
        "A",
    )


def test_fractions_can_be_labels_if_named() -> None:
    frame = pd.DataFrame({"x": [0.5, 0.25], "y": [1, 2], "v": [1.0, 2.0]})
    assert as_observations(frame, modes=["x", "y"]).indices.tolist() == [[1, 0], [0, 1]]


# finding and putting


@st.composite
def entries(draw: Any) -> tuple[Any, Any]:
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=2, max_size=4)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mask = rng.random(shape) < draw(st.sampled_from([0.1, 0.5, 1.0]))
    mask.flat[0] = True
    indices = rng.permutation(np.argwhere(mask))
    dense = np.full(shape, np.nan)
    dense[tuple(indices.T)] = np.arange(len(indices))
    return Observations(indices, np.arange(float(len(indices))), shape), dense


@given(entries(), st.integers(0, 2**32 - 1))
def test_find_is_that_of_the_dense_array(case: tuple[Observations, Any], seed: int) -> None:
    known, dense = case
    rng = np.random.default_rng(seed)
    indices = np.stack([rng.integers(0, n, 20) for n in known.shape], axis=1)
    expected = np.nan_to_num(dense, nan=-1)[tuple(indices.T)]
    np.testing.assert_array_equal(known.find(indices), expected)


def test_find_where_the_number_of_entries_is_astronomical() -> None:
    indices = np.array([[3_999_999] * 7, [0] * 7, [1] * 7])
    known = Observations(indices[:2], np.array([1.0, 2.0]), (4_000_000,) * 7)
    assert known.find(indices[::-1]).tolist() == [-1, 1, 0]


@given(entries(), st.data())
def test_put_is_that_of_the_dense_array(case: tuple[Observations, Any], data: Any) -> None:
    known, dense = case
    indices: list[Any] = []
    for n in known.shape:
        if data.draw(st.booleans()):
            indices.append(data.draw(st.slices(n)))
        else:
            indices.append(np.array(data.draw(st.lists(st.integers(0, n - 1), max_size=6)), int))
    block = dense
    for k, part in enumerate(indices):
        block = block[(slice(None),) * k + (part,)]
    out = np.full(block.shape, np.nan)
    known.put(out, indices)
    np.testing.assert_array_equal(out, block)


# refusals


def table(**columns: Any) -> Any:
    return pd.DataFrame({"a": ["u", "v"], "b": [1, 2], "v": [1.0, 2.0]} | columns)


NOT_SORTABLE = pd.Series([1, DAYS[0]], dtype=object)
DENSE = kinds.make_dataarray()

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing known": ({"data": np.full(SHAPE, np.nan)}, "at least one observed entry, got none"),
    "infinite": (
        {"data": np.where(OBSERVED, TRUTH, np.inf)},
        r"must be finite, got \d+ NaN or infinite \(first at index \(0, 0, \d\)\); mark them as",
    ),
    "infinite, labelled": (
        {"data": table(v=[1.0, np.inf])},
        r"got 1 NaN or infinite \(first at a=v, b=2\); mark them as missing",
    ),
    "NaN where observed": (
        {"data": WITH_NAN, "observed": np.ones(SHAPE, bool)},
        "must be finite",
    ),
    "words": (
        {"data": [["a", "b"], ["c", "d"]]},
        "data must be numbers, got list of <U1; mark missing entries by NaN",
    ),
    "None for unknown": ({"data": [[1.0, None], [1.0, 2.0]]}, "got list of object; mark missing"),
    "no array at all": ({"data": {"a": 1}}, "got dict of object.*convert other types to numbers"),
    "dates": ({"data": np.ones((2, 2), "M8[s]")}, r"must be numbers, got ndarray of datetime64"),
    "a vector": ({"data": np.ones(5)}, "at least two modes"),
    "another shape": (
        {"data": WITH_NAN, "shape": (2, 2, 2)},
        r"shape must be that of the data, \(6, 7, 8\), got \(2, 2, 2\); omit it",
    ),
    "numbers as observed": (
        {"data": WITH_NAN, "observed": np.ones(SHAPE)},
        r"boolean array of shape \(6, 7, 8\), true where data is observed, got float64 of shape",
    ),
    "a small array": (
        {"data": WITH_NAN, "observed": np.ones((2, 2), bool)},
        r"got bool of shape \(2, 2\)",
    ),
    "observed and indices": (
        {"data": [1.0], "indices": [[0, 0, 0]], "shape": SHAPE, "observed": OBSERVED},
        "observed does not go with values with indices; omit missing entries",
    ),
    "columns of an array": (
        {"data": WITH_NAN, "modes": ["a"]},
        "modes does not go with an array; it names the columns of a DataFrame",
    ),
    "a value column with indices": (
        {"data": [1.0], "indices": [[0, 0, 0]], "shape": SHAPE, "value_column": "v"},
        "value_column does not go with values with indices; it names a column of a DataFrame",
    ),
    "indices without a shape": ({"data": [1.0], "indices": [[0, 0, 0]]}, "give shape="),
    "too many values": (
        {"data": [1.0, 2.0], "indices": [[0, 0, 0]], "shape": SHAPE},
        r"one value per row of indices \(1\), got an array of shape \(2,\)",
    ),
    "indices of another order": (
        {"data": [1.0], "indices": [[0, 0]], "shape": SHAPE},
        "one column per mode",
    ),
    "fractions as indices": (
        {"data": [1.0], "indices": [[0, 0, 0.5]], "shape": SHAPE},
        "indices must be integers",
    ),
    "NaN among values": (
        {"data": [np.nan], "indices": [[3, 1, 2]], "shape": SHAPE},
        r"got 1 NaN or infinite \(first at index \(3, 1, 2\)\)",
    ),
    # xarray
    "a Dataset": (
        {"data": DENSE.to_dataset()},
        r"data of xarray must be a DataArray, got Dataset; select one .* data\['name'\]",
    ),
    "a DataArray of words": ({"data": xr.DataArray([["a", "b"]])}, "data must be numbers"),
    "a DataArray of one dimension": ({"data": xr.DataArray([1.0, 2.0])}, "at least two modes"),
    "shape of a DataArray": ({"data": DENSE, "shape": SHAPE}, "shape does not go with a DataArray"),
    "observed of other dimensions": (
        {"data": DENSE, "observed": xr.DataArray(OBSERVED)},
        r"the dimensions \('city', 'day', 'band'\) and the coordinates of the data, got "
        r"\('dim_0', 'dim_1', 'dim_2'\) or other coordinates; reindex it",
    ),
    "observed of other coordinates": (
        {
            "data": DENSE,
            "observed": kinds.make_dataarray(OBSERVED).isel(city=slice(None, None, -1)),
        },
        "observed= as a DataArray must have the dimensions",
    ),
    "observed of a sparse DataArray": (
        {"data": xr.DataArray(sparse.COO(INDICES.T, TRUTH[OBSERVED], SHAPE)), "observed": OBSERVED},
        "observed goes with a dense DataArray, got a sparse one; omit it",
    ),
    # pandas
    "a Series without MultiIndex": (
        {"data": pd.Series([1.0, 2.0])},
        "must be a Series with a MultiIndex or a long DataFrame, got Series; make one with",
    ),
    "an Index": ({"data": pd.Index([1.0, 2.0])}, "or a long DataFrame, got Index"),
    "columns of a Series": (
        {"data": kinds.make_series(), "modes": ["city"]},
        "modes and value_column name columns of a DataFrame, got a Series; omit them",
    ),
    "observed of a table": (
        {"data": table(), "observed": OBSERVED},
        "observed does not go with a table; omit missing entries, or set them to NaN",
    ),
    "an empty table": ({"data": table().iloc[:0]}, "one observed entry, got a table without rows"),
    "a table without values": ({"data": table(v=[np.nan, np.nan])}, "one observed entry, got none"),
    "columns of one name": (
        {"data": table().set_axis(["a", "a", "v"], axis=1)},
        r"columns must have distinct names, got \['a', 'a', 'v'\]; rename them",
    ),
    "a column that is not there": (
        {"data": table(), "modes": ["a", "c"], "value_column": "w"},
        r"must be columns of the table, \['a', 'b', 'v'\], got \['c', 'w'\]",
    ),
    "a string of modes": (
        {"data": table(), "modes": "ab"},
        "modes must be a list of column names, got the string 'ab'",
    ),
    "no value column": (
        {"data": table(w=[1, 2]), "modes": ["a", "b"]},
        r"value_column must name one of the columns \['v', 'w'\], got none; give value_column=",
    ),
    "values that are labels too": (
        {"data": table(), "modes": ["a", "b"], "value_column": "b"},
        r"two or more columns of labels and another of values, got \['a', 'b'\] and 'b'",
    ),
    "a mode named twice": (
        {"data": table(), "modes": ["a", "a"], "value_column": "v"},
        "got .'a', 'a'.",
    ),
    "a narrow table": (
        {"data": table()[["a", "v"]]},
        r"got \['a'\] and 'v'; select the column of values as a Series",
    ),
    "no columns": ({"data": pd.DataFrame(index=[1, 2])}, r"got \[\] and None"),
    "a wide table": (
        {"data": pd.DataFrame(WITH_NAN[0])},
        "must be given by modes= if they hold fractions, as 0 does; give modes= and value_column=",
    ),
    "a missing label": (
        {"data": table(a=["u", None])},
        "a label in each mode, got none for 'a' in row 1; drop such rows",
    ),
    "a missing category": ({"data": table(a=pd.Categorical(["u", None]))}, "got none for 'a'"),
    "a missing level": (
        {"data": table(b=[np.nan, 1.0]).set_index(["a", "b"])["v"]},
        "got none for 'b' in row 0",
    ),
    "labels that cannot be sorted": (
        {"data": table(a=NOT_SORTABLE)},
        "must be of a type that can be sorted, got in 'a'.*convert them, for example to strings",
    ),
    "a row twice": (
        {"data": pd.concat([table(), table().iloc[[1, 1]]])},
        r"in one row, got 2 repeated rows \(first: a=v, b=2 in row 2\); average",
    ),
    "a row of a Series twice": (
        {"data": pd.concat([table(), table()]).set_index(["a", "b"])["v"]},
        r"got 2 repeated rows \(first: a=u, b=1 in row 2\)",
    ),
    "a table of words": ({"data": table(v=["x", "y"])}, "data must be numbers"),
    "a table of dates": (
        {"data": table(v=pd.to_datetime(["2020-01-01", "2020-01-02"]))},
        "data must be numbers",
    ),
    # sparse
    "another sparse format": (
        {"data": sparse.GCXS.from_numpy(np.ones((2, 2)))},
        r"must be a sparse\.COO, got GCXS; convert it with sparse\.COO\(data\)",
    ),
    "a fill value that is not 0": (
        {"data": sparse.COO.from_numpy(np.eye(3), fill_value=1.0)},
        r"must have the fill value 0 or NaN.*got 1\.0; give its values with indices= and shape=",
    ),
    "an empty sparse.COO": (
        {"data": sparse.COO.from_numpy(np.zeros((2, 2)))},
        "at least one observed entry",
    ),
    "a sparse vector": ({"data": sparse.COO.from_numpy(np.ones(3))}, "at least two modes"),
    "observed of a sparse.COO": (
        {"data": sparse.COO.from_numpy(np.eye(3)), "observed": np.eye(3) > 0},
        r"observed does not go with a sparse\.COO",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    arguments, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        as_observations(**arguments)


def test_a_repeat_is_found_though_some_entries_are_held_out() -> None:
    indices = np.concatenate([INDICES, INDICES[:1]])
    values = TRUTH[tuple(indices.T)]
    with pytest.raises(InputError, match=r"every entry once, got 1 repeated \(first: \(0, 0, "):
        tm.complete(values, 2, indices=indices, shape=SHAPE)
    with pytest.raises(InputError, match="every entry once, got 1 repeated"):
        tm.complete(values, 2, indices=indices, shape=SHAPE, validation_fraction=0.5, rng=0)


def test_indices_out_of_range_are_refused_beside_held_out_entries() -> None:
    indices = np.concatenate([INDICES, [[0, 0, 8]]])
    values = np.ones(len(indices))
    hidden = (np.argwhere(~OBSERVED), TRUTH[~OBSERVED])
    with pytest.raises(InputError, match="got 8 in row"):
        tm.complete(values, 2, indices=indices, shape=SHAPE, validation_data=hidden)


def test_scipy_matrices_are_refused() -> None:
    message = "must be a sparse.COO, .* got a csr_array of SciPy; convert it with sparse.COO"
    with pytest.raises(InputError, match=message):
        as_observations(scipy.sparse.eye_array(4, format="csr"))


@pytest.mark.parametrize("name", ["cities.csv", Path("cities.csv")])
def test_the_name_of_a_file_is_not_data(name: Any) -> None:
    with pytest.raises(
        InputError, match=r"load the file first: tm\.complete\(tm\.load\('cities.csv'\)\)"
    ):
        tm.complete(name)


def test_a_wide_frame_of_whole_numbers_gives_a_warning() -> None:
    stations, years = (part.reshape(-1) for part in np.indices((10, 30)))
    rng = np.random.default_rng(0)
    content = {"station": stations, "year": years, "t": rng.integers(99, size=300)}
    frame = pd.DataFrame(content | {"rain": rng.integers(999, size=300)})
    with pytest.warns(
        DataWarning,
        match=r"'t' are read as labels, .*\['station', 'year'\] .*modes= .*value_column=",
    ):
        as_observations(frame)
    as_observations(frame, modes=["station", "year"], value_column="rain")
    as_observations(frame, modes=["station", "year", "t"], value_column="rain")
