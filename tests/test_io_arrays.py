"""Files of arrays: what each format says beside the numbers, and what it is not trusted with."""

from __future__ import annotations

import json
import os
import pickle
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import nibabel
import numpy as np
import pytest
import scipy.io
import scipy.sparse
import xarray as xr
import zarr

import tensormend as tm
from cases import make_tensor
from damage import flipped, truncated, try_all
from tensormend.errors import (
    DataWarning,
    FileError,
    InputError,
    MemoryLimitError,
    MissingDependencyError,
    TensormendError,
)
from tensormend.io import matlab
from tensormend.io.attributes import decode_labels, encode_labels, find_fills
from tensormend.io.matlab73 import write_variables
from tensormend.known import TensorData

VALUES = np.arange(24.0).reshape(2, 3, 4)
DAYS = np.arange("2020-02-28", "2020-03-02", dtype="M8[D]")  # three
RICH = (".npz", ".h5", ".mat", ".nc", ".zarr")


@pytest.fixture
def path(tmp_path: Path) -> Callable[[str], Path]:
    return lambda suffix: tmp_path / f"a{suffix}"


Places = Callable[[str], Path]


def there_and_back(where: Path, data: Any, **options: Any) -> TensorData:
    tm.save(where, data, overwrite=True)
    return tm.load(where, **options)


# TensorData


def test_labels_of_any_kind_are_kept_as_numbers_dates_or_text() -> None:
    labels = np.array(["a", b"b", None], dtype=object)
    data = TensorData(np.ones((2, 3)), labels=(None, labels))
    assert data.labels[1] is not None
    assert data.labels[1].tolist() == ["a", "b", "None"]
    assert data.labels[1].dtype.kind == "U"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": np.array([["a", "b"]])}, "must be numbers"),
        ({"values": np.ones((2, 3)), "names": ("a",)}, "one for each of the 2 modes"),
        ({"values": np.ones((2, 3)), "labels": (None,)}, "one for each of the 2 modes"),
        ({"values": np.ones((2, 3)), "labels": (None, np.ones(2))}, "each of its 3 places"),
        ({"values": np.ones((2, 3)), "known": np.ones((2, 3))}, "known must be a boolean"),
        ({"values": np.ones((2, 3)), "known": np.ones(6, bool)}, "known must be a boolean"),
        ({"values": np.ones(2), "indices": np.zeros((2, 2), int)}, "go together"),
        ({"values": np.ones((2, 3)), "sizes": (2, 3)}, "go together"),
        ({"values": np.ones(2), "indices": np.zeros((3, 2), int), "sizes": (2, 2)}, "a row for"),
        ({"values": np.ones(1), "indices": np.array([[0, 2]]), "sizes": (2, 2)}, "between 0 and 1"),
        ({"values": np.ones(1), "indices": np.array([[0, -1]]), "sizes": (2, 2)}, "between 0"),
    ],
)
def test_what_does_not_fit_together_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        TensorData(**arguments)


@pytest.mark.filterwarnings("ignore::tensormend.errors.DataWarning")
def test_nan_is_unknown_also_where_a_mask_shows_it() -> None:
    values = np.array([[1.0, np.nan], [3.0, 4.0]])
    data = TensorData(values, known=np.array([[True, True], [True, False]]))
    assert data.n_known == 2
    assert len(data.entries()[1]) == 2
    assert data.hide(values == 3).n_known == 1
    assert tm.complete(data, rank=1, max_iter=1).known.values.tolist() == [1, 3]


@pytest.mark.filterwarnings("ignore::tensormend.errors.DataWarning")
def test_a_label_is_not_cut_to_fit() -> None:
    labels = (np.array(["ab", "cd"]), np.array([1, 2]), DAYS)
    data = TensorData(np.arange(12.0).reshape(2, 2, 3) + 1, names=("a", "b", "c"), labels=labels)
    result = tm.complete(data, rank=1, max_iter=1)
    assert result.sel(a="cd", b=2, c="2020-02-29").values == 11
    wrong: Any
    for wrong in ({"a": "cdx"}, {"b": 1.5}, {"c": "2021-01-01"}):
        with pytest.raises(InputError, match=r"sel takes labels that mode"):
            result.sel(wrong)


def test_integers_with_holes_become_numbers_with_nan() -> None:
    data = TensorData(np.array([[1, 2], [3, 4]]))
    assert data.dense().dtype == np.int64
    assert data.hide(np.eye(2) > 0).dense().tolist()[0][1] == 2
    assert np.isnan(data.hide(np.eye(2) > 0).dense()[0, 0])
    with pytest.raises(InputError, match=r"what to hide"):
        data.hide(np.ones(4, bool))


# values that stand for unknown, and masks


def test_missing_values(path: Places) -> None:
    tm.save(path(".npy"), VALUES.astype(np.uint8))
    assert tm.load(path(".npy"), missing=3).n_known == 23
    assert tm.load(path(".npy"), missing=-9).n_known == 24
    assert tm.load(path(".npy"), missing=np.nan).n_known == 24
    tm.save(path(".npy"), np.array([[1e20, 1]], dtype=np.float32), overwrite=True)
    assert tm.load(path(".npy"), missing=1e20).n_known == 1
    tm.save(path(".npy"), np.zeros((2, 2)), overwrite=True)
    with pytest.raises(FileError, match=r"other than the missing value 0"):
        tm.load(path(".npy"), missing=0)
    tm.save(path(".npy"), np.full((2, 2), np.nan), overwrite=True)
    with pytest.raises(FileError, match=r"at least one known entry, found none"):
        tm.load(path(".npy"))


def test_masks(path: Places) -> None:
    tm.save(path(".npy"), VALUES)
    shown = VALUES % 2 == 0
    np.savez(path(".npz"), mask=shown)
    assert tm.load(path(".npy"), mask=path(".npz")).n_known == 12
    tm.save(path(".h5"), np.array([[1.0, 0, np.nan], [2, 0, 0]]))
    by_rows = tm.load(path(".npy"), mask=path(".h5"))
    np.testing.assert_array_equal(by_rows.known[..., 3], [[1, 0, 0], [1, 0, 0]])  # type: ignore[index]
    tm.save(path(".nii"), np.zeros((2, 3, 4), np.uint8))
    with pytest.raises(FileError, match=r"known entry that the mask .*a.nii shows, found none"):
        tm.load(path(".npy"), mask=path(".nii"))
    tm.save(path(".mat"), np.ones((3, 4)))
    with pytest.raises(FileError, match=r"the mask .*a.mat must be .*\(2, 3, 4\).* got \(3, 4\)"):
        tm.load(path(".npy"), mask=path(".mat"))


def test_a_mask_with_other_labels_is_refused(path: Places) -> None:
    labels = (np.array(["a", "b"]), np.array([1, 2]))
    tm.save(path(".npz"), TensorData(np.ones((2, 2)), labels=labels))
    tm.save(path(".h5"), TensorData(np.ones((2, 2)), labels=(labels[0][::-1], None)))
    with pytest.raises(FileError, match=r"must have the labels of the data in mode 'mode 0'"):
        tm.load(path(".npz"), mask=path(".h5"))


def test_sparse_data_and_sparse_masks(path: Places) -> None:
    places = np.array([[0, 1, 2], [1, 2, 3], [1, 0, 0]])
    data = TensorData(np.array([5.0, 7.0, -9.0]), indices=places, sizes=(2, 3, 4))
    sparse = there_and_back(path(".npz"), data)
    assert sparse.is_sparse
    assert sparse.shape == (2, 3, 4)
    assert tm.load(path(".npz"), missing=-9).n_known == 2
    dense = there_and_back(path(".npy"), data)  # as a whole array
    assert dense.n_known == 3
    np.testing.assert_array_equal(dense.dense(), data.dense())
    tm.save(path(".h5"), VALUES != 6)
    assert tm.load(path(".npz"), mask=path(".h5")).n_known == 2  # 6 is at the first place
    assert tm.load(path(".npy"), mask=path(".npz")).n_known == 3
    other = TensorData(np.array([1.0, 0.0]), indices=places[1:], sizes=(2, 3, 4))
    tm.save(path(".npz"), other, overwrite=True)
    mask = path(".npz").rename(path(".mask.npz"))
    tm.save(path(".npz"), data)
    assert tm.load(path(".npz"), mask=mask).entries()[0].tolist() == [[1, 2, 3]]
    tm.save(mask, TensorData(np.zeros(1), indices=places[:1], sizes=(2, 3, 4)), overwrite=True)
    with pytest.raises(FileError, match=r"that the mask .* shows"):
        tm.load(path(".npz"), mask=mask)
    tm.save(mask, TensorData(np.ones(1), indices=places[:1], sizes=(2, 3, 5)), overwrite=True)
    with pytest.raises(FileError, match=r"must have the shape of the data"):
        tm.load(path(".npz"), mask=mask)


def test_a_whole_array_of_sparse_data_is_guarded(path: Places) -> None:
    data = TensorData(np.ones(1), indices=np.zeros((1, 3), int), sizes=(10**5, 10**5, 10**5))
    with pytest.raises(MemoryLimitError, match=r"the whole array"):
        tm.save(path(".npy"), data)
    assert not path(".npy").exists()
    assert there_and_back(path(".npz"), data).shape == data.shape


# types of numbers


@pytest.mark.parametrize("suffix", [".npy", ".nii", *RICH])
@pytest.mark.parametrize(
    "dtype",
    [
        "?",
        "i1",
        "u1",
        ">i2",
        "u2",
        "i4",
        "i8",
        "f2",
        "f4",
        ">f4",
        "f8",
        ">f8",
        "g",
        "c8",
        "c16",
        "G",
    ],
)
def test_types_of_numbers(suffix: str, dtype: str, path: Places) -> None:
    values = (VALUES % 5).astype(dtype)
    if suffix == ".nc" and values.dtype.kind == "c":
        with pytest.raises(InputError, match=r"holds real numbers"):
            tm.save(path(suffix), values)
        return
    back = there_and_back(path(suffix), values)
    np.testing.assert_array_equal(back.dense(), values)
    if values.dtype.kind in "fc" and dtype not in ("f2", "g", "G"):
        assert back.values.dtype.newbyteorder("=") == values.dtype.newbyteorder("=")
    if values.dtype.kind in "fc":
        holed = values.copy()
        holed[0, 1] = np.nan
        assert there_and_back(path(suffix), holed).n_known == 20


@pytest.mark.parametrize("suffix", [".npy", ".nii", *RICH])
def test_the_order_in_memory_does_not_matter(suffix: str, path: Places) -> None:
    for values in (np.asfortranarray(VALUES), VALUES[:, ::-1], VALUES.transpose(2, 0, 1)):
        np.testing.assert_array_equal(there_and_back(path(suffix), values).values, values)


@pytest.mark.parametrize("suffix", [".npy", ".nii", *RICH])
@pytest.mark.parametrize("shape", [(), (5,), (0, 3)])
def test_less_than_a_matrix_is_refused(suffix: str, shape: tuple[int, ...], path: Places) -> None:
    with pytest.raises(InputError, match=r"at least two modes"):
        tm.save(path(suffix), np.ones(shape))
    assert not path(suffix).exists()


# names, labels, attributes


@pytest.mark.parametrize("suffix", [".npz", ".h5", ".nc", ".zarr"])
@pytest.mark.parametrize("unit", ["D", "h", "s", "ms", "us", "ns"])
def test_dates(suffix: str, unit: str, path: Places) -> None:
    labels = (None, DAYS.astype(f"M8[{unit}]"), None)
    back = there_and_back(path(suffix), TensorData(VALUES, labels=labels))
    assert back.labels[1] is not None
    assert back.labels[1].dtype.kind == "M"
    np.testing.assert_array_equal(back.labels[1], DAYS)


def test_dates_become_text_in_matlab(path: Places) -> None:
    back = there_and_back(path(".mat"), TensorData(VALUES, labels=(None, DAYS, None)))
    assert back.labels[1] is not None
    assert back.labels[1].tolist() == ["2020-02-28", "2020-02-29", "2020-03-01"]


def test_units_of_dates() -> None:
    assert encode_labels(np.array(["1971", "1972"], dtype="M8[Y]"))[0].tolist() == [365, 730]
    read = {
        "hours since 2000-01-01 12:00": "2000-01-01T14",
        "day since 2000-01-01T00:00:00Z": "2000-01-03",
        "Seconds since 2000-01-01 00:00:00.0 UTC": "2000-01-01T00:00:02",
    }
    for units, date in read.items():
        assert decode_labels(np.array([2.0]), {"units": units})[0] == np.datetime64(date)
    for units in ("days", "parsecs since 2000-01-01", "days since yesterday"):
        assert decode_labels(np.array([2]), {"units": units}).tolist() == [2]
    other = {"units": "days since 2000-01-01", "calendar": "360_day"}
    assert decode_labels(np.array([2]), other).tolist() == [2]
    assert decode_labels(np.array([2.5]), {"units": "days since 2000-01-01"}).tolist() == [2.5]


@pytest.mark.parametrize("suffix", RICH)
def test_odd_names(suffix: str, path: Places) -> None:
    for name in ("mask", "names", "file", "x_mask", "a b", "Größe", "2", "labels_0", "town"):
        data = TensorData(VALUES, names=("town", "data", "km/h"), name=name)
        data = replace(data, labels=(np.array(["a", "b"]), np.arange(3), DAYS[[0, 0, 1, 2]]))
        back = there_and_back(path(suffix), data)
        np.testing.assert_array_equal(back.values, VALUES)
        assert len(set(back.names)) == 3
        assert back.labels[0] is not None
        assert back.labels[0].tolist() == ["a", "b"]
        assert back.n_known == 24


@pytest.mark.parametrize("suffix", RICH)
def test_odd_attributes(suffix: str, path: Places) -> None:
    attributes = {
        "none": None,
        "list": ["a", "ü"],
        "ragged": [[1], [1, 2]],
        "object": {"a": 1},
        "complex": 1 + 2j,
        "bytes": b"abc",
        "flag": True,
        "number": np.float32(2),
        "empty": "",
        "when": np.datetime64("2020-01-01"),
    }
    back = there_and_back(path(suffix), TensorData(VALUES, attributes=attributes)).attributes
    assert list(back["list"]) == ["a", "ü"]
    assert back["bytes"] == "abc"
    assert back["number"] == 2
    assert back["object"] == "{'a': 1}"


def test_fill_values_are_rounded_as_the_values_are() -> None:
    values = np.array([1e20, 1], dtype=np.float32)
    assert find_fills(values, {"_FillValue": 1e20}).tolist() == [False, True]  # type: ignore[union-attr]
    small = np.array([241, 1], dtype=np.uint8)
    assert find_fills(small, {"missing_value": [-15, 1]}).tolist() == [True, False]  # type: ignore[union-attr]
    assert find_fills(small, {"_FillValue": "none"}) is None


@pytest.mark.parametrize("first", RICH)
@pytest.mark.parametrize("second", RICH)
def test_from_one_format_to_another(first: str, second: str, path: Places) -> None:
    data = there_and_back(path(first), make_tensor())
    back = there_and_back(path(f".2{second}"), data)
    np.testing.assert_array_equal(back.dense(), make_tensor().dense())
    assert (back.names, back.name) == (data.names, "flux")
    assert back.labels[0] is not None
    assert back.labels[0].tolist() == ["Åre", "Bonn", "Čáslav", "Đà Lạt", "x y"]
    assert back.attributes["units"] == "K"


@pytest.mark.parametrize("suffix", [".nii", *RICH])
@pytest.mark.filterwarnings("ignore::tensormend.errors.DataWarning")
def test_a_part_of_completed_data_can_be_saved(suffix: str, path: Places) -> None:
    result = tm.complete(there_and_back(path(suffix), make_tensor()), rank=1, max_iter=2)
    part = result.sel() if suffix == ".nii" else result.sel(town="Bonn")
    tm.save(path(f".part{suffix}"), part)
    assert tm.load(path(f".part{suffix}")).shape == part.shape


# .npy and .npz


def write_header(where: Path, header: str, body: bytes = b"") -> None:
    where.write_bytes(
        b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + body
    )


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-2, -1)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (9223372036854775807, 2)}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1, 2)}",
        "{'descr': '|V8', 'fortran_order': False, 'shape': (1, 2)}",
        "{'descr': '<U2', 'fortran_order': False, 'shape': (1, 2)}",
        "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1, 2)}",
        "{'descr': '<M8[s]', 'fortran_order': False, 'shape': (1, 2)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 0)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': 2}",
        "{'descr': '<f8', 'shape': (1, 2)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2)" + "(" * 5000,
        "__import__('os').system('exit')",
        "{" * 900,
    ],
)
def test_headers_of_npy(header: str, path: Places) -> None:
    write_header(path(".npy"), header, bytes(16))
    with pytest.raises(FileError, match=r"a.npy"):
        tm.load(path(".npy"))
    with zipfile.ZipFile(path(".npz"), "w") as archive:
        archive.write(path(".npy"), "x.npy")
    with pytest.raises(FileError, match=r"a.npz"):
        tm.load(path(".npz"))


def test_a_header_may_promise_less_than_follows(path: Places) -> None:
    header = "{'descr': '<f8', 'fortran_order': True, 'shape': (1, 2)}\n"
    write_header(path(".npy"), header, np.arange(3.0).tobytes())
    assert tm.load(path(".npy")).values.tolist() == [[0, 1]]
    with zipfile.ZipFile(path(".npz"), "w") as archive:  # which knows the size of each array
        archive.write(path(".npy"), "x.npy")
    with pytest.raises(FileError, match=r"with the 24 bytes that the archive holds"):
        tm.load(path(".npz"))


def test_nothing_is_unpickled(path: Places, tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "unpickled",)

    objects = np.array([[Bomb(), 1]], dtype=object)
    np.save(path(".npy"), objects)
    np.savez(path(".npz"), x=objects)
    path(".nii").write_bytes(pickle.dumps(Bomb()))
    path(".mat").write_bytes(pickle.dumps(Bomb()))
    group = zarr.open_group(path(".zarr"), mode="w", zarr_format=2)
    group.create_array("x", shape=(1, 2), dtype="f8", compressors=None)[...] = 1
    described = path(".zarr") / "x" / ".zarray"
    settings = json.loads(described.read_text())
    for part in ({"compressor": {"id": "pickle"}}, {"filters": [{"id": "pickle"}]}):
        described.write_text(json.dumps(settings | part))
        (path(".zarr") / "x" / "0.0").write_bytes(pickle.dumps(Bomb()))
        with pytest.raises(FileError):
            tm.load(path(".zarr"))
    described.write_text(json.dumps(settings | {"filters": [{"id": "base64"}]}))
    with pytest.raises(FileError, match=r"'x' of .* packed by base64, which is not trusted"):
        tm.load(path(".zarr"))
    for suffix in (".npy", ".npz", ".nii", ".mat"):
        with pytest.raises(FileError):
            tm.load(path(suffix))
    assert not (tmp_path / "unpickled").exists()


def test_labels_are_never_pickled(path: Places) -> None:
    labels = (np.array([{"a": 1}, None], dtype=object), None, None)
    back = there_and_back(path(".npz"), TensorData(VALUES, labels=labels))
    assert back.labels[0] is not None
    assert back.labels[0].tolist() == ["{'a': 1}", "None"]


def test_archives(path: Places) -> None:
    where = path(".npz")
    np.savez(where, a=VALUES, b=np.ones((2, 2)), a_mask=VALUES > 3)
    assert tm.load(where, variable="a").n_known == 20
    with pytest.raises(FileError, match=r"found a \(2 x 3 x 4\), b \(2 x 2\); name one"):
        tm.load(where)
    with pytest.raises(FileError, match=r"must hold the array 'c', found a"):
        tm.load(where, variable="c")
    np.savez(where, a=VALUES, names=np.array(["x", "y"]))
    with pytest.raises(FileError, match=r"a.npz does not hold a tensor: names and labels must be"):
        tm.load(where)
    np.savez(where, a=VALUES, mask=np.ones(3))
    with pytest.raises(FileError, match=r"the array 'mask' of .* must be an array of the shape"):
        tm.load(where)
    np.savez(where, a=np.ones(2), indices=np.array([[0, 0], [0, 7]]), shape=np.array([2, 2]))
    with pytest.raises(FileError, match=r"between 0 and 1, got 7"):
        tm.load(where)
    np.savez(where)
    with pytest.raises(FileError, match=r"found none"):
        tm.load(where)


def test_archives_that_are_not_what_they_say(path: Places) -> None:
    where = path(".npz")
    tm.save(path(".npy"), VALUES)
    with zipfile.ZipFile(where, "w") as archive:
        archive.write(path(".npy"), "a.npy")
        with pytest.warns(UserWarning, match=r"Duplicate"):
            archive.write(path(".npy"), "a.npy")
    with pytest.raises(FileError, match=r"each array once"):
        tm.load(where)
    with zipfile.ZipFile(where, "w") as archive:
        archive.write(path(".npy"), "a.npy")
    whole = bytearray(where.read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        whole[whole.index(mark) + flags] |= 1
    where.write_bytes(whole)
    with pytest.raises(FileError, match=r"encrypted"):
        tm.load(where)
    with zipfile.ZipFile(where, "w", zipfile.ZIP_DEFLATED) as archive:
        tm.save(path(".npy"), np.zeros((1000, 10000)), overwrite=True)
        archive.write(path(".npy"), "a.npy")
    assert where.stat().st_size < 10**6
    with pytest.raises(MemoryLimitError):
        tm.load(where, memory_limit=10**6)


# HDF5


def test_datasets_of_hdf5(path: Places) -> None:
    where = path(".h5")
    with h5py.File(where, "w") as file:
        file["deep/inside"] = VALUES
        file["deep/mask"] = VALUES > 3
        file["deep/vector"] = np.ones(3)
        file["deep/words"] = np.array([[b"a", b"b"]])
        file["loop"] = file["/"]
        file["soft"] = h5py.SoftLink("/deep/inside")
        file["other"] = h5py.ExternalLink("elsewhere.h5", "/x")
        file["empty"] = h5py.Empty("f8")
    data = tm.load(where)
    assert (data.name, data.n_known) == ("deep/inside", 20)
    assert tm.load(where, variable="/deep/inside").n_known == 20
    assert tm.load(where, variable="deep/mask").n_known == 24
    with pytest.raises(FileError, match=r"dataset 'deep/words' of .* must be numbers"):
        tm.load(where, variable="deep/words")
    with pytest.raises(FileError, match=r"'deep/vector' of .* shape \(3,\)"):
        tm.load(where, variable="deep/vector")
    with pytest.raises(FileError, match=r"must hold the dataset 'other', found deep/inside"):
        tm.load(where, variable="other")
    with h5py.File(where, "a") as file:
        file["second"] = np.ones((2, 2))
    with pytest.raises(FileError, match=r"found second \(2 x 2\), deep/inside \(2 x 3 x 4\)"):
        tm.load(where)
    tm.save(where, data, overwrite=True)
    assert tm.load(where).name == "deep/inside"


def test_types_of_hdf5_that_are_no_numbers(path: Places) -> None:
    where = path(".h5")
    with h5py.File(where, "w") as file:
        file["pairs"] = np.zeros((2, 2), dtype=[("a", "f8"), ("b", "i4")])
        file.create_dataset("words", (2, 2), dtype=h5py.string_dtype())
        file.create_dataset("lists", (2, 2), dtype=h5py.vlen_dtype(np.float64))
        file.create_dataset("references", (2, 2), dtype=h5py.ref_dtype)
    for name in ("pairs", "words", "lists", "references"):
        with pytest.raises(FileError, match=rf"the dataset '{name}' of .* must be numbers"):
            tm.load(where, variable=name)
    with pytest.raises(FileError, match=r"found none"):
        tm.load(where)


def test_missing_values_of_hdf5(path: Places) -> None:
    where = path(".h5")
    with h5py.File(where, "w") as file:
        data = file.create_dataset("x", data=VALUES.astype(int))
        data.attrs["_FillValue"] = [7]
        data.attrs["missing_value"] = 8.0
        data.attrs["mask"] = "shown"
        data.attrs["reference"] = data.ref
        data.attrs["units"] = np.bytes_("K")
        file["shown"] = np.array([[1, 1, 1], [1, 1, 0]])
    data = tm.load(where, variable="x")
    assert data.n_known == 24 - 2 - 4
    assert dict(data.attributes) == {"units": "K"}
    with h5py.File(where, "a") as file:
        file["x"].attrs["mask"] = "gone"
    with pytest.raises(FileError, match=r"names the mask 'gone', which is not there"):
        tm.load(where, variable="x")


def test_values_in_other_files_are_refused(path: Places, tmp_path: Path) -> None:
    where = path(".h5")
    (tmp_path / "secret").write_bytes(bytes(96))
    with h5py.File(where, "w") as file:
        file.create_dataset("x", (3, 4), "f8", external=[(str(tmp_path / "secret"), 0, 96)])
    with pytest.raises(FileError, match=r"'x' of .* takes its values from other files"):
        tm.load(where)
    layout = h5py.VirtualLayout((3, 4), "f8")
    layout[...] = h5py.VirtualSource("elsewhere.h5", "x", (3, 4))
    with h5py.File(where, "w") as file:
        file.create_virtual_dataset("x", layout)
    for suffix in (".h5", ".nc"):
        with pytest.raises(FileError, match=r"'x' of .* takes its values from other files"):
            tm.load(where.rename(path(suffix)))


def test_links_of_netcdf_to_other_files_are_refused(path: Places) -> None:
    tm.save(path(".nc"), VALUES)
    with h5py.File(path(".nc"), "a") as file:
        file["more"] = h5py.ExternalLink("elsewhere.h5", "/x")
    with pytest.raises(FileError, match=r"must have no links to other files, got more"):
        tm.load(path(".nc"))


def test_sizes_that_hdf5_declares(path: Places) -> None:
    where = path(".h5")
    with h5py.File(where, "w") as file:
        file.create_dataset("x", (10**6, 10**6), "f8", chunks=(10, 10))
    with pytest.raises(MemoryLimitError, match=r"the dataset 'x' of"):
        tm.load(where)
    with h5py.File(where, "w") as file:
        file.create_dataset("x", (10**4, 10**4), "u1", chunks=(1, 1))
    with pytest.raises(FileError, match=r"at most 1000000 chunks"):
        tm.load(where)


@pytest.mark.skipif(sys.platform == "win32", reason="limits memory and time as Unix does")
def test_damage_that_hdf5_does_not_survive(tmp_path: Path) -> None:
    """Heaps without an end and chunks without bytes: tried in a process that may die of them."""
    whole = tmp_path / "whole.h5"
    with h5py.File(whole, "w") as file:
        made = file.create_dataset("x", data=VALUES, chunks=(1, 3, 4), compression="gzip")
        made.attrs["text"] = "of any length"
        info = made.id.get_chunk_info(1)
    good = whole.read_bytes()
    heap = good.index(b"GCOL")
    first = 16 + heap
    free = first + 16 + 16  # after one object of thirteen bytes
    chunk = good.index(struct.pack("<II", info.size, 0) + struct.pack("<QQQQ", 1, 0, 0, 0))
    folder = tmp_path / "damaged"
    folder.mkdir()
    changes = {
        "good": (0, good[:4]),
        "heap": (heap + 8, struct.pack("<Q", 2**40)),
        "free": (free + 8, struct.pack("<Q", 0)),
        "object": (first + 8, struct.pack("<Q", 2**64 - 16)),
        "chunk": (chunk, struct.pack("<I", 0)),
    }
    for name, (place, part) in changes.items():
        bad = good[:place] + part + good[place + len(part) :]
        for suffix in (".h5", ".nc"):
            (folder / f"{name}{suffix}").write_bytes(bad)
    outcomes = try_all(folder)
    for suffix in (".h5", ".nc"):
        assert outcomes.pop(f"good{suffix}") == "loaded"
    assert outcomes.pop("the process") == "loaded"
    assert set(outcomes.values()) == {"refused"}
    assert len(outcomes) == 8


def test_scales_of_hdf5(path: Places) -> None:
    where = path(".h5")
    with h5py.File(where, "w") as file:
        data = file.create_dataset("x", data=VALUES)
        for k, name in enumerate(("a", "b", "b")):
            data.dims[k].label = name
        file["grid"] = np.arange(4) / 2
        file["grid"].make_scale("the grid")
        data.dims[2].attach_scale(file["grid"])
        file["wrong"] = np.arange(7)
        file["wrong"].make_scale()
        data.dims[1].attach_scale(file["wrong"])
    data = tm.load(where)
    assert data.names == ("a", "b", "b_1")
    assert data.labels[1] is None
    assert data.labels[2] is not None
    assert data.labels[2].tolist() == [0, 0.5, 1, 1.5]


def test_netcdf_read_as_hdf5(path: Places) -> None:
    coords = {"t": DAYS.astype("M8[ns]")}
    made = xr.Dataset({"v": (("x", "t"), np.ones((2, 3)))}, coords=coords)
    made.to_netcdf(path(".h5"), engine="h5netcdf")
    data = tm.load(path(".h5"))
    assert data.names == ("x", "t")
    assert data.labels[0] is None
    np.testing.assert_array_equal(data.labels[1], DAYS)


# MATLAB


def save_mat(where: Path, version: str, **variables: Any) -> None:
    if version == "7.3":
        write_variables(where, {key: np.asarray(part) for key, part in variables.items()})
    else:
        kind: Any = "4" if version == "4" else "5"
        scipy.io.savemat(where, variables, format=kind, do_compression=version == "7")


@pytest.mark.parametrize("version", ["4", "5", "7", "7.3"])
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_versions_of_mat(version: str, dtype: str, path: Places) -> None:
    values = (VALUES[0] if version == "4" else VALUES).astype(dtype) * (
        1 + 1j if dtype == "c16" else 1
    )
    save_mat(path(".mat"), version, X=values, scale=2.0 * np.ones((1, 1)))
    data = tm.load(path(".mat"))
    assert data.name == "X"
    assert data.values.dtype == dtype
    np.testing.assert_array_equal(data.values, values)


@pytest.mark.parametrize("version", ["5", "7", "7.3"])
@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "c8"])
def test_classes_of_mat(version: str, dtype: str, path: Places) -> None:
    values = (VALUES % 3).astype(dtype)
    save_mat(path(".mat"), version, X=values, X_mask=VALUES > 5)
    data = tm.load(path(".mat"), variable="X")
    assert data.values.dtype == dtype
    np.testing.assert_array_equal(data.values, values)
    assert data.n_known == 18


def test_big_endian_mat(path: Places) -> None:
    """Written by hand: 2 x 1 doubles in a machine that no longer exists."""
    body = struct.pack(">4I", 6, 8, 6, 0) + struct.pack(">2I2i", 5, 8, 2, 2)
    body += struct.pack(">HH", 1, 1) + b"X\0\0\0" + struct.pack(">2I4d", 9, 32, 1, 2, 3, 4)
    text = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x01\x00MI"
    path(".mat").write_bytes(text + struct.pack(">2I", 14, len(body)) + body)
    assert tm.load(path(".mat")).values.tolist() == [[1, 3], [2, 4]]


def test_a_version_that_was_read_is_written(path: Places) -> None:
    data = make_tensor()
    tm.save(path(".mat"), replace(data, details={"matlab73": True}))
    assert path(".mat").read_bytes()[:10] == b"MATLAB 7.3"
    back = there_and_back(path(".2.mat"), tm.load(path(".mat")))
    assert path(".2.mat").read_bytes()[:10] == b"MATLAB 7.3"
    np.testing.assert_array_equal(back.dense(), data.dense())
    assert back.names == data.names
    assert back.labels[0].tolist() == data.labels[0].tolist()  # type: ignore[union-attr]
    tm.save(path(".3.mat"), replace(back, details={}))
    assert path(".3.mat").read_bytes()[:10] == b"MATLAB 5.0"


def test_scipy_reads_what_we_write(path: Places) -> None:
    tm.save(path(".mat"), make_tensor())
    given = scipy.io.loadmat(path(".mat"))
    np.testing.assert_array_equal(given["flux"], make_tensor().dense())
    assert [str(one).strip() for one in given["names"]] == ["town", "day", "level"]


def test_large_variables_go_into_version_7_3(path: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matlab, "MAX_VARIABLE", 100)
    tm.save(path(".mat"), VALUES)
    assert path(".mat").read_bytes()[:10] == b"MATLAB 7.3"
    np.testing.assert_array_equal(tm.load(path(".mat")).values, VALUES)


@pytest.mark.parametrize("version", ["5", "7"])
@pytest.mark.parametrize("factor", [1, 1j])
def test_sparse_mat(version: str, factor: complex, path: Places) -> None:
    matrix = scipy.sparse.csc_array(np.array([[0, 2.0, 0], [3, 0, 0], [0, 5, 7]]) * factor)
    save_mat(path(".mat"), version, S=matrix)
    data = tm.load(path(".mat"))
    assert data.is_sparse
    assert data.shape == (3, 3)
    places, values = data.entries()
    assert places.tolist() == [[1, 0], [0, 1], [2, 1], [2, 2]]
    np.testing.assert_array_equal(values, np.array([3, 2, 5, 7]) * factor)


@pytest.mark.parametrize("version", ["5", "7"])
def test_what_mat_holds_beside_numbers_is_refused(version: str, path: Places) -> None:
    cell = np.empty((1, 2), dtype=object)
    cell[0, 0], cell[0, 1] = "a", np.ones(3)
    save_mat(path(".mat"), version, c=cell, s={"field": 1.0}, t="text", X=VALUES, names=cell)
    assert tm.load(path(".mat")).name == "X"
    for name, kind in (("c", "cell"), ("s", "struct"), ("t", "char")):
        with pytest.raises(FileError, match=rf"the variable '{name}' of .* got a {kind}"):
            tm.load(path(".mat"), variable=name)
    with pytest.raises(FileError, match=r"must hold the variable 'Y', found X \(2 x 3 x 4\)"):
        tm.load(path(".mat"), variable="Y")
    save_mat(path(".mat"), version, c=cell)
    with pytest.raises(FileError, match=r"must hold a variable of numbers, found c \(cell\)"):
        tm.load(path(".mat"))


def test_what_version_7_3_holds_beside_numbers_is_refused(path: Places) -> None:
    with h5py.File(path(".mat"), "w", userblock_size=512) as file:
        file["X"] = VALUES
        file["s/field"] = VALUES
        file["s"].attrs["MATLAB_class"] = np.bytes_("struct")
        file.create_dataset("c", (2, 2), dtype=h5py.ref_dtype)
        file["c"].attrs["MATLAB_class"] = np.bytes_("cell")
        file["#refs#/a"] = VALUES
        file["e"] = np.zeros(2, "u8")
        file["e"].attrs["MATLAB_empty"] = 1
    assert tm.load(path(".mat")).shape == (4, 3, 2)  # in MATLAB's order
    for name, kind in (("s", "struct"), ("c", "cell"), ("e", "empty array")):
        with pytest.raises(FileError, match=rf"the variable '{name}' of .* got a {kind}"):
            tm.load(path(".mat"), variable=name)


def test_a_mat_file_that_promises_too_much(path: Places) -> None:
    save_mat(path(".mat"), "5", X=VALUES)
    whole = path(".mat").read_bytes()
    place = whole.index(struct.pack("<3i", 2, 3, 4))
    for sizes, kind in (
        ((2, 3, 5), FileError),
        ((2, -3, -4), FileError),
        ((2**30,) * 3, MemoryLimitError),
    ):
        path(".mat").write_bytes(whole[:place] + struct.pack("<3i", *sizes) + whole[place + 12 :])
        with pytest.raises(kind, match=r"a\.mat"):
            tm.load(path(".mat"))
    bomb = zlib.compress(struct.pack("<2I", 14, 10**9) + bytes(10**6))
    path(".mat").write_bytes(whole[:128] + struct.pack("<2I", 15, len(bomb)) + bomb)
    with pytest.raises(MemoryLimitError):
        tm.load(path(".mat"), memory_limit=10**8)
    path(".mat").write_bytes(struct.pack("<5i", 0, -1, 3, 0, 2) + b"x\0" + bytes(100))
    with pytest.raises(FileError, match=r"no variable begins at byte 0"):
        tm.load(path(".mat"))


@pytest.mark.parametrize("seed", range(4))
def test_damaged_mat_files(seed: int, path: Places) -> None:
    """Every byte counts in a parser of our own; it cannot crash, so that many can be tried."""
    numbers = {"X": VALUES, "names": np.array(["a", "bc", "d"]), "mask": VALUES > 3}
    sparse = {"S": scipy.sparse.csc_array(np.eye(4))}
    for version, content in (
        ("5", numbers),
        ("7", numbers),
        ("5", sparse),
        ("4", {"X": VALUES[0]}),
    ):
        save_mat(path(".mat"), version, **content)
        whole = path(".mat").read_bytes()
        for bad in (*truncated(whole, 60), *flipped(whole, 200, seed)):
            path(".mat").write_bytes(bad)
            try:
                tm.load(path(".mat"), memory_limit=10**6)
            except TensormendError as error:
                assert "a.mat" in str(error)  # noqa: PT017


def test_version_7_3_needs_h5py(path: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    save_mat(path(".mat"), "7.3", X=VALUES)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingDependencyError, match=r"h5py.*tensormend\[hdf5\]"):
        tm.load(path(".mat"))


# NetCDF


def make_dataset() -> Any:
    made = xr.Dataset(
        {
            "speed": (("time", "lat", "lon"), VALUES.transpose(1, 2, 0).copy()),
            "area": (("lat", "lon"), np.ones((4, 2))),
            "station": ("lat", ["a", "b", "c", "d"]),
        },
        coords={"time": DAYS.astype("M8[ns]"), "lat": [1.0, 2, 3, 4], "height": 10.0},
        attrs={"title": "wind"},
    )
    made.speed.attrs.update(units="m s-1", long_name="wind speed")
    made.speed[0, 1, 1] = np.nan
    made.speed.encoding.update(
        dtype="i2", scale_factor=0.5, add_offset=1.0, _FillValue=-9, missing_value=-9
    )
    made.time.encoding.update(units="hours since 1900-01-01", dtype="i4")
    return made


@pytest.mark.parametrize("engine", ["h5netcdf", "scipy"])
@pytest.mark.filterwarnings("ignore::tensormend.errors.DataWarning")
def test_a_completed_netcdf_is_the_whole_data_set(engine: str, path: Places) -> None:
    made = make_dataset()
    made.to_netcdf(path(".nc"), engine=engine)
    with pytest.raises(FileError, match=r"found .*speed \(3 x 4 x 2\).*; name one with"):
        tm.load(path(".nc"))
    data = tm.load(path(".nc"), variable="speed")
    assert data.names == ("time", "lat", "lon")
    assert data.n_known == 23
    assert data.attributes["units"] == "m s-1"
    np.testing.assert_array_equal(data.labels[0], DAYS)
    result = tm.complete(data, rank=1, max_iter=3)
    tm.save(path(".2.nc"), result.data)
    with xr.open_dataset(path(".2.nc"), engine="h5netcdf") as back:
        back.load()
    assert not np.isnan(back.speed).any()
    assert back.speed.encoding["dtype"] == np.float64
    assert "scale_factor" not in back.speed.encoding
    assert back.time.encoding["units"] == made.time.encoding["units"]
    assert back.time.encoding["dtype"] == np.int32
    xr.testing.assert_identical(back.drop_vars("speed"), made.drop_vars("speed"))
    assert back.speed.attrs == made.speed.attrs
    xr.testing.assert_identical(back.speed.fillna(0).where(made.speed.notnull()), made.speed)


@pytest.mark.filterwarnings("ignore::tensormend.errors.DataWarning")
def test_a_mask_of_netcdf_is_not_written_again(path: Places) -> None:
    made = make_dataset()[["speed", "area"]]
    made["shown"] = (("time", "lat", "lon"), (VALUES % 2 == 0).astype("i1").transpose(1, 2, 0))
    made.speed.attrs["mask"] = "shown"
    made.drop_vars("area").to_netcdf(path(".nc"), engine="h5netcdf")
    data = tm.load(path(".nc"))
    assert (data.name, data.n_known) == ("speed", 12 - (VALUES[1, 0, 1] % 2 == 0))
    result = tm.complete(data, rank=1, max_iter=3)
    assert there_and_back(path(".2.nc"), result.data, variable="speed").n_known == 24
    made.speed.attrs["mask"] = "gone"
    made.drop_vars("area").to_netcdf(path(".3.nc"), engine="h5netcdf")
    with pytest.raises(FileError, match=r"names the mask 'gone'"):
        tm.load(path(".3.nc"), variable="speed")


def test_netcdf_needs_xarray(path: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    tm.save(path(".nc"), VALUES)
    monkeypatch.setitem(sys.modules, "xarray", None)
    for call in (lambda: tm.load(path(".nc")), lambda: tm.save(path(".2.nc"), VALUES)):
        with pytest.raises(MissingDependencyError, match=r"xarray.*tensormend\[netcdf\]"):
            call()


def test_groups_of_netcdf(path: Places) -> None:
    make_dataset().to_netcdf(path(".nc"), engine="h5netcdf", group="a/b")
    assert tm.load(path(".nc"), variable="a/b/speed").shape == (3, 4, 2)
    with pytest.raises(FileError):
        tm.load(path(".nc"), variable="a/c/speed")


def test_variables_of_netcdf_that_are_no_tensors(path: Places) -> None:
    make_dataset()[["station"]].to_netcdf(path(".nc"), engine="h5netcdf")
    with pytest.raises(FileError, match=r"found none"):
        tm.load(path(".nc"))
    with pytest.raises(FileError, match=r"the variable 'station' of .* must be numbers"):
        tm.load(path(".nc"), variable="station")
    with pytest.raises(FileError, match=r"must hold the variable 'other'"):
        tm.load(path(".nc"), variable="other")


def test_calendars_that_numpy_does_not_have(path: Places) -> None:
    made = make_dataset()[["speed"]].assign_coords(time=[0, 30, 60])
    made.time.attrs.update(units="days since 2000-01-01", calendar="360_day")
    made.to_netcdf(path(".nc"), engine="h5netcdf")
    data = tm.load(path(".nc"))
    assert data.labels[0] is not None
    assert len(data.labels[0]) == 3
    again = there_and_back(path(".2.nc"), data)
    assert again.labels[0] is not None
    assert again.labels[0].tolist() == data.labels[0].tolist()


def test_the_rest_of_a_data_set_may_be_too_large(path: Places) -> None:
    made = make_dataset()
    made["more"] = ("many", np.ones(500))
    made.to_netcdf(path(".nc"), engine="h5netcdf")
    with pytest.warns(DataWarning, match=r"area, station, more.* do not fit"):
        data = tm.load(path(".nc"), variable="speed", memory_limit=4096)
    tm.save(path(".2.nc"), data)
    with xr.open_dataset(path(".2.nc"), engine="h5netcdf") as back:
        assert set(back.data_vars) == {"speed"}
        assert "height" in back.coords
        assert back.attrs == {"title": "wind"}


def test_sizes_that_netcdf_declares(path: Places) -> None:
    with h5py.File(path(".nc"), "w") as file:
        file.create_dataset("x", (10**6, 10**6), "f8", chunks=(10, 10))
    with pytest.raises(MemoryLimitError, match=r"variable 'x'"):
        tm.load(path(".nc"))
    with h5py.File(path(".nc"), "w") as file:
        file.create_dataset("x", (10**4, 10**4), "u1", chunks=(1, 1))
    with pytest.raises(FileError, match=r"at most 1000000 chunks"):
        tm.load(path(".nc"))
    with h5py.File(path(".nc"), "w") as file:
        file.create_dataset("x", (10**12,), "f8", chunks=(10,))
        file["x"].make_scale("x")
    with pytest.raises(MemoryLimitError, match=r"variable 'x'"):
        tm.load(path(".nc"))


# Zarr


@pytest.mark.parametrize("version", [2, 3])
def test_versions_of_zarr(version: int, path: Places) -> None:
    tm.save(path(".zarr"), replace(make_tensor(), details={"zarr": version}))
    assert zarr.open(path(".zarr"), mode="r").metadata.zarr_format == version
    back = there_and_back(path(".2.zarr"), tm.load(path(".zarr")))
    assert back.details["zarr"] == version
    np.testing.assert_array_equal(back.dense(), make_tensor().dense())
    opened = xr.open_zarr(path(".2.zarr"), consolidated=False)
    assert opened.flux.dims == ("town", "day", "level")
    assert opened.town.values.tolist() == back.labels[0].tolist()  # type: ignore[union-attr]
    np.testing.assert_array_equal(opened.flux, make_tensor().dense())


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_of_xarray(version: int, path: Places) -> None:
    make_dataset().drop_vars("station").to_zarr(
        path(".zarr"), zarr_format=version, consolidated=False
    )
    data = tm.load(path(".zarr"), variable="speed")
    assert data.n_known == 23
    np.testing.assert_array_equal(data.labels[0], DAYS)
    np.testing.assert_array_equal(data.dense(), make_dataset().speed)
    assert data.attributes["units"] == "m s-1"


def test_fill_values_of_zarr_2(path: Places) -> None:
    group = zarr.open_group(path(".zarr"), mode="w", zarr_format=2)
    array = group.create_array("x", shape=(2, 3), dtype="i4", fill_value=-9)
    array[0] = [1, -9, 3]
    assert tm.load(path(".zarr")).n_known == 6
    array.attrs["_ARRAY_DIMENSIONS"] = ["a", "b"]  # as xarray writes
    assert tm.load(path(".zarr")).n_known == 2


def test_arrays_of_zarr(path: Places) -> None:
    zarr.create_array(path(".zarr"), shape=(2, 3), dtype="i4", chunks=(1, 3))[...] = 7
    assert tm.load(path(".zarr")).values.tolist() == [[7] * 3] * 2
    group = zarr.open_group(path(".2.zarr"), mode="w")
    group.create_array("g/x", shape=(2, 3), dtype="i4", attributes={"_FillValue": 5})[...] = [
        [5, 1, 2],
        [3, 4, 5],
    ]
    group.create_array("g/mask", shape=(2, 3), dtype="bool")[...] = [[1, 1, 0], [1, 1, 1]]
    group.create_array("g/v", shape=(3,), dtype="i4")
    data = tm.load(path(".2.zarr"))
    assert (data.name, data.n_known) == ("g/x", 3)
    with pytest.raises(FileError, match=r"array 'g/v' of .* must be numbers"):
        tm.load(path(".2.zarr"), variable="g/v")
    with pytest.raises(FileError, match=r"must hold the array 'h', found g/mask \(2 x 3\), g/x"):
        tm.load(path(".2.zarr"), variable="h")
    group["g/x"].attrs["mask"] = "gone"
    with pytest.raises(FileError, match=r"names the mask 'gone'"):
        tm.load(path(".2.zarr"), variable="g/x")


def test_sizes_that_zarr_declares(path: Places) -> None:
    described = {"shape": (10**6, 10**6), "dtype": "f8", "chunks": (10, 10)}
    zarr.open_group(path(".zarr"), mode="w").create_array("x", **described)
    with pytest.raises(MemoryLimitError, match=r"the array 'x' of"):
        tm.load(path(".zarr"))
    described = {"shape": (10**4, 10**4), "dtype": "u1", "chunks": (1, 1)}
    zarr.open_group(path(".zarr"), mode="w").create_array("x", **described)
    with pytest.raises(FileError, match=r"at most 1000000 chunks"):
        tm.load(path(".zarr"))
    described = {"shape": (2, 2), "dtype": "u1", "chunks": (10**5, 10**5)}
    zarr.open_group(path(".zarr"), mode="w").create_array("x", **described)
    with pytest.raises(MemoryLimitError, match=r"a chunk of the array 'x'"):
        tm.load(path(".zarr"))


def test_an_interrupted_replacement_keeps_the_store(
    path: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = path(".zarr")
    tm.save(where, VALUES)
    move = Path.replace

    def fail(self: Path, target: Path) -> Path:
        if target == where and self.name.endswith(".part.zarr"):
            raise OSError("interrupted")
        return move(self, target)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="interrupted"):
        tm.save(where, VALUES + 1, overwrite=True)
    assert [part.name for part in where.parent.iterdir()] == [where.name]
    np.testing.assert_array_equal(tm.load(where).values, VALUES)


# NIfTI


@pytest.mark.parametrize("kind", [nibabel.Nifti1Image, nibabel.Nifti2Image])
@pytest.mark.filterwarnings("ignore::tensormend.errors.DataWarning")
def test_headers_of_nifti_are_kept(kind: Any, path: Places) -> None:
    affine = np.diag([2.0, 3, 4, 1])
    image = kind((VALUES[..., None] + np.arange(3)).astype(np.int16), affine)
    image.header.set_xyzt_units("mm", "sec")
    image.header["descrip"] = b"a head"
    image.header.set_slope_inter(0.5, 10)
    nibabel.save(image, path(".nii.gz"))
    stored = nibabel.load(path(".nii.gz")).get_fdata()
    data = tm.load(path(".nii.gz"), missing=stored[0, 0, 0, 0])
    assert data.names == ("x", "y", "z", "time")
    np.testing.assert_array_equal(data.values, stored)
    assert data.n_known < data.values.size
    tm.save(path(".2.nii"), tm.complete(data, rank=1, max_iter=3).data)
    back = nibabel.load(path(".2.nii"))
    assert type(back) is kind
    np.testing.assert_array_equal(back.affine, affine)
    assert back.header.get_xyzt_units() == ("mm", "sec")
    assert bytes(back.header["descrip"]).rstrip(b"\0") == b"a head"
    seen = data.known
    assert seen is not None
    np.testing.assert_allclose(back.get_fdata()[seen], stored[seen], rtol=1e-6)


def test_sizes_that_nifti_declares(path: Places) -> None:
    nibabel.save(nibabel.Nifti1Image(VALUES, np.eye(4)), path(".nii"))
    whole = bytearray(path(".nii").read_bytes())
    whole[42:48] = struct.pack("<3h", 30000, 30000, 30000)
    path(".nii").write_bytes(whole)
    with pytest.raises(MemoryLimitError, match=r"the image in .*a\.nii"):
        tm.load(path(".nii"))
    whole[42:48] = struct.pack("<3h", 300, 300, 30)
    path(".nii").write_bytes(whole)
    with pytest.raises(FileError, match=r"a\.nii"):
        tm.load(path(".nii"))


def test_images_of_colours_are_refused(path: Places) -> None:
    colours = np.zeros((2, 2, 2), dtype=[("R", "u1"), ("G", "u1"), ("B", "u1")])
    nibabel.save(nibabel.Nifti1Image(colours, np.eye(4)), path(".nii"))
    with pytest.raises(FileError, match=r"must be an image of numbers"):
        tm.load(path(".nii"))
    with pytest.raises(InputError, match=r"at most 7 modes"):
        tm.save(path(".nii"), np.ones((1,) * 8), overwrite=True)


@pytest.mark.parametrize("suffix", [".npy", ".nii"])
def test_one_array_has_no_name(suffix: str, path: Places) -> None:
    tm.save(path(suffix), VALUES)
    with pytest.raises(FileError, match=r"got variable='x'; leave variable out"):
        tm.load(path(suffix), variable="x")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes")
def test_a_pipe_is_not_waited_for(path: Places) -> None:
    os.mkfifo(path(".npy"))
    with pytest.raises(InputError, match=r"must be a file, got something else"):
        tm.load(path(".npy"))
