"""`TensorData`, and what makes entries of it unknown when it is loaded: values and masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensormend as tm
from shelf import DAYS, VALUES, MakePath, there_and_back
from tensormend.data.observations import TensorData
from tensormend.errors import (
    FileError,
    InputError,
    MemoryLimitError,
)

# what fits together


def test_labels_of_any_kind_are_kept_as_numbers_dates_or_text() -> None:
    labels = np.array(["a", b"b", None], dtype=object)
    data = TensorData(np.ones((2, 3)), coords=(None, labels))
    assert data.coords[1] is not None
    assert data.coords[1].tolist() == ["a", "b", "None"]
    assert data.coords[1].dtype.kind == "U"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": np.array([["a", "b"]])}, "must be numbers"),
        ({"values": np.ones((2, 3)), "dims": ("a",)}, "one item for each of the 2 modes"),
        ({"values": np.ones((2, 3)), "coords": (None,)}, "one item for each of the 2 modes"),
        ({"values": np.ones((2, 3)), "coords": (None, np.ones(2))}, "each of its 3 indices"),
        ({"values": np.ones((2, 3)), "observed": np.ones((2, 3))}, "observed must be a boolean"),
        ({"values": np.ones((2, 3)), "observed": np.ones(6, bool)}, "observed must be a boolean"),
        ({"values": np.ones(2), "indices": np.zeros((2, 2), int)}, "give shape="),
        ({"values": np.ones((2, 3)), "shape": (2, 4)}, "must be that of the values"),
        ({"values": np.ones(2), "indices": np.zeros((3, 2), int), "shape": (2, 2)}, "a row for"),
        ({"values": np.ones(1), "indices": np.array([[0, 2]]), "shape": (2, 2)}, "between 0 and 1"),
        ({"values": np.ones(1), "indices": np.array([[0, -1]]), "shape": (2, 2)}, "between 0"),
    ],
)
def test_what_does_not_fit_together_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        TensorData(**arguments)


@pytest.mark.filterwarnings("ignore::tensormend.errors.DataWarning")
def test_nan_is_unknown_also_where_observed_is_true() -> None:
    values = np.array([[1.0, np.nan], [3.0, 4.0]])
    data = TensorData(values, observed=np.array([[True, True], [True, False]]))
    assert data.n_observed == 2
    assert len(data.entries()[1]) == 2
    assert data.hide(values == 3).n_observed == 1
    assert tm.complete(data, rank=1, max_iter=1).observations.values.tolist() == [1, 3]


@pytest.mark.filterwarnings("ignore::tensormend.errors.DataWarning")
def test_a_label_is_not_cut_to_fit() -> None:
    labels = (np.array(["ab", "cd"]), np.array([1, 2]), DAYS)
    data = TensorData(np.arange(12.0).reshape(2, 2, 3) + 1, dims=("a", "b", "c"), coords=labels)
    result = tm.complete(data, rank=1, max_iter=1)
    assert result.sel(a="cd", b=2, c="2020-02-29").values == 11
    wrong: Any
    for wrong in ({"a": "cdx"}, {"b": 1.5}, {"c": "2021-01-01"}):
        with pytest.raises(InputError, match=r"sel takes labels of mode"):
            result.sel(wrong)


def test_integers_with_holes_become_numbers_with_nan() -> None:
    data = TensorData(np.array([[1, 2], [3, 4]]))
    assert data.todense().dtype == np.int64
    assert data.hide(np.eye(2) > 0).todense().tolist()[0][1] == 2
    assert np.isnan(data.hide(np.eye(2) > 0).todense()[0, 0])
    with pytest.raises(InputError, match=r"where must be a boolean array"):
        data.hide(np.ones(4, bool))


def test_it_is_described_in_one_line() -> None:
    data = TensorData(np.ones((2, 5)), dims=("row", "band"), name="radiance")
    assert repr(data) == "TensorData(radiance: row 2 x band 5, float64, 100% observed)"
    hidden = np.zeros((2, 5), bool)
    hidden[0, :3] = True
    assert repr(data.hide(hidden)) == "TensorData(radiance: row 2 x band 5, float64, 70% observed)"
    sparse = TensorData(np.ones(1, "f4"), indices=np.zeros((1, 2), int), shape=(20, 30))
    assert repr(sparse) == "TensorData(20 x 30, float32, 0.17% observed)"
    almost = np.ones((1000, 1))
    almost[0] = np.nan
    assert repr(TensorData(almost)) == "TensorData(1000 x 1, float64, over 99% observed)"


# values that stand for unknown, and masks


def test_missing_values(path: MakePath) -> None:
    tm.save(path(".npy"), VALUES.astype(np.uint8))
    assert tm.load(path(".npy"), na_value=3).n_observed == 23
    assert tm.load(path(".npy"), na_value=-9).n_observed == 24
    assert tm.load(path(".npy"), na_value=np.nan).n_observed == 24
    tm.save(path(".npy"), np.array([[1e20, 1]], dtype=np.float32), overwrite=True)
    assert tm.load(path(".npy"), na_value=1e20).n_observed == 1
    tm.save(path(".npy"), np.zeros((2, 2)), overwrite=True)
    with pytest.raises(FileError, match=r"other than na_value 0"):
        tm.load(path(".npy"), na_value=0)
    tm.save(path(".npy"), np.full((2, 2), np.nan), overwrite=True)
    with pytest.raises(FileError, match=r"at least one observed entry, found none"):
        tm.load(path(".npy"))


def test_observed_files(path: MakePath) -> None:
    tm.save(path(".npy"), VALUES)
    shown = VALUES % 2 == 0
    np.savez(path(".npz"), observed=shown)
    assert tm.load(path(".npy"), observed=path(".npz")).n_observed == 12
    tm.save(path(".h5"), np.array([[1.0, 0, np.nan], [2, 0, 0]]))
    by_rows = tm.load(path(".npy"), observed=path(".h5"))
    np.testing.assert_array_equal(by_rows.observed[..., 3], [[1, 0, 0], [1, 0, 0]])  # type: ignore[index]
    tm.save(path(".nii"), np.zeros((2, 3, 4), np.uint8))
    with pytest.raises(FileError, match=r"observed entry where .*a.nii is nonzero, found none"):
        tm.load(path(".npy"), observed=path(".nii"))
    tm.save(path(".mat"), np.ones((3, 4)))
    with pytest.raises(FileError, match=r"array of .*a.mat must be .*\(2, 3, 4\).* got \(3, 4\)"):
        tm.load(path(".npy"), observed=path(".mat"))


def test_observed_with_other_labels_is_refused(path: MakePath) -> None:
    labels = (np.array(["a", "b"]), np.array([1, 2]))
    tm.save(path(".npz"), TensorData(np.ones((2, 2)), coords=labels))
    tm.save(path(".h5"), TensorData(np.ones((2, 2)), coords=(labels[0][::-1], None)))
    with pytest.raises(FileError, match=r"must have the labels of the data in mode 'mode 0'"):
        tm.load(path(".npz"), observed=path(".h5"))


def test_sparse_data_and_sparse_observed(path: MakePath) -> None:
    indices = np.array([[0, 1, 2], [1, 2, 3], [1, 0, 0]])
    data = TensorData(np.array([5.0, 7.0, -9.0]), indices=indices, shape=(2, 3, 4))
    sparse = there_and_back(path(".npz"), data)
    assert sparse.is_sparse
    assert sparse.shape == (2, 3, 4)
    assert tm.load(path(".npz"), na_value=-9).n_observed == 2
    dense = there_and_back(path(".npy"), data)  # as a whole array
    assert dense.n_observed == 3
    np.testing.assert_array_equal(dense.todense(), data.todense())
    tm.save(path(".h5"), VALUES != 6)
    assert tm.load(path(".npz"), observed=path(".h5")).n_observed == 2  # 6 is at the first place
    assert tm.load(path(".npy"), observed=path(".npz")).n_observed == 3
    other = TensorData(np.array([1.0, 0.0]), indices=indices[1:], shape=(2, 3, 4))
    tm.save(path(".npz"), other, overwrite=True)
    mask = path(".npz").rename(path(".mask.npz"))
    tm.save(path(".npz"), data)
    assert tm.load(path(".npz"), observed=mask).entries()[0].tolist() == [[1, 2, 3]]
    tm.save(mask, TensorData(np.zeros(1), indices=indices[:1], shape=(2, 3, 4)), overwrite=True)
    with pytest.raises(FileError, match=r"where .* is nonzero"):
        tm.load(path(".npz"), observed=mask)
    tm.save(mask, TensorData(np.ones(1), indices=indices[:1], shape=(2, 3, 5)), overwrite=True)
    with pytest.raises(FileError, match=r"must have the shape of the data"):
        tm.load(path(".npz"), observed=mask)


def test_a_whole_array_of_sparse_data_is_guarded(path: MakePath) -> None:
    data = TensorData(np.ones(1), indices=np.zeros((1, 3), int), shape=(10**5, 10**5, 10**5))
    with pytest.raises(MemoryLimitError, match=r"the dense array"):
        tm.save(path(".npy"), data)
    assert not path(".npy").exists()
    assert there_and_back(path(".npz"), data).shape == data.shape
