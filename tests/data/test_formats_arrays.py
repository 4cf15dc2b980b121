"""Files of arrays: types of numbers, names and labels; ``.npy`` and ``.npz``."""

from __future__ import annotations

import json
import os
import pickle
import struct
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import tensormend as tm
from cases import make_tensor
from shelf import DAYS, RICH, VALUES, MakePath, there_and_back
from tensormend.data.formats.attributes import decode_labels, encode_labels, find_fills
from tensormend.data.observations import TensorData
from tensormend.errors import (
    FileError,
    InputError,
    MemoryLimitError,
)

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
def test_types_of_numbers(suffix: str, dtype: str, path: MakePath) -> None:
    values = (VALUES % 5).astype(dtype)
    if suffix == ".nc" and values.dtype.kind == "c":
        with pytest.raises(InputError, match=r"holds real numbers"):
            tm.save(path(suffix), values)
        return
    back = there_and_back(path(suffix), values)
    np.testing.assert_array_equal(back.todense(), values)
    if values.dtype.kind in "fc" and dtype not in ("f2", "g", "G"):
        assert back.values.dtype.newbyteorder("=") == values.dtype.newbyteorder("=")
    if values.dtype.kind in "fc":
        holed = values.copy()
        holed[0, 1] = np.nan
        assert there_and_back(path(suffix), holed).n_observed == 20


@pytest.mark.parametrize("suffix", [".npy", ".nii", *RICH])
def test_the_order_in_memory_does_not_matter(suffix: str, path: MakePath) -> None:
    for values in (np.asfortranarray(VALUES), VALUES[:, ::-1], VALUES.transpose(2, 0, 1)):
        np.testing.assert_array_equal(there_and_back(path(suffix), values).values, values)


@pytest.mark.parametrize("suffix", [".npy", ".nii", *RICH])
@pytest.mark.parametrize("shape", [(), (5,), (0, 3)])
def test_less_than_a_matrix_is_refused(suffix: str, shape: tuple[int, ...], path: MakePath) -> None:
    with pytest.raises(InputError, match=r"at least two modes"):
        tm.save(path(suffix), np.ones(shape))
    assert not path(suffix).exists()


# names, labels, attributes


@pytest.mark.parametrize("suffix", [".npz", ".h5", ".nc", ".zarr"])
@pytest.mark.parametrize("unit", ["D", "h", "s", "ms", "us", "ns"])
def test_dates(suffix: str, unit: str, path: MakePath) -> None:
    labels = (None, DAYS.astype(f"M8[{unit}]"), None)
    back = there_and_back(path(suffix), TensorData(VALUES, coords=labels))
    assert back.coords[1] is not None
    assert back.coords[1].dtype.kind == "M"
    np.testing.assert_array_equal(back.coords[1], DAYS)


def test_dates_become_text_in_matlab(path: MakePath) -> None:
    back = there_and_back(path(".mat"), TensorData(VALUES, coords=(None, DAYS, None)))
    assert back.coords[1] is not None
    assert back.coords[1].tolist() == ["2020-02-28", "2020-02-29", "2020-03-01"]


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
def test_odd_names(suffix: str, path: MakePath) -> None:
    for name in ("observed", "dims", "file", "x_observed", "a b", "Größe", "2", "coords_0", "town"):
        data = TensorData(VALUES, dims=("town", "data", "km/h"), name=name)
        data = replace(data, coords=(np.array(["a", "b"]), np.arange(3), DAYS[[0, 0, 1, 2]]))
        back = there_and_back(path(suffix), data)
        np.testing.assert_array_equal(back.values, VALUES)
        assert len(set(back.dims)) == 3
        assert back.coords[0] is not None
        assert back.coords[0].tolist() == ["a", "b"]
        assert back.n_observed == 24


@pytest.mark.parametrize("suffix", RICH)
def test_odd_attributes(suffix: str, path: MakePath) -> None:
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
    back = there_and_back(path(suffix), TensorData(VALUES, attrs=attributes)).attrs
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
def test_from_one_format_to_another(first: str, second: str, path: MakePath) -> None:
    data = there_and_back(path(first), make_tensor())
    back = there_and_back(path(f".2{second}"), data)
    np.testing.assert_array_equal(back.todense(), make_tensor().todense())
    assert (back.dims, back.name) == (data.dims, "flux")
    assert back.coords[0] is not None
    assert back.coords[0].tolist() == ["Åre", "Bonn", "Čáslav", "Đà Lạt", "x y"]
    assert back.attrs["units"] == "K"


@pytest.mark.parametrize("suffix", [".nii", *RICH])
@pytest.mark.filterwarnings("ignore::tensormend.errors.DataWarning")
def test_a_part_of_completed_data_can_be_saved(suffix: str, path: MakePath) -> None:
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
def test_headers_of_npy(header: str, path: MakePath) -> None:
    write_header(path(".npy"), header, bytes(16))
    with pytest.raises(FileError, match=r"a.npy"):
        tm.load(path(".npy"))
    with zipfile.ZipFile(path(".npz"), "w") as archive:
        archive.write(path(".npy"), "x.npy")
    with pytest.raises(FileError, match=r"a.npz"):
        tm.load(path(".npz"))


def test_a_header_may_promise_less_than_follows(path: MakePath) -> None:
    header = "{'descr': '<f8', 'fortran_order': True, 'shape': (1, 2)}\n"
    write_header(path(".npy"), header, np.arange(3.0).tobytes())
    assert tm.load(path(".npy")).values.tolist() == [[0, 1]]
    with zipfile.ZipFile(path(".npz"), "w") as archive:  # which knows the size of each array
        archive.write(path(".npy"), "x.npy")
    with pytest.raises(FileError, match=r"with the 24 bytes that the archive holds"):
        tm.load(path(".npz"))


def test_nothing_is_unpickled(path: MakePath, tmp_path: Path) -> None:
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


def test_labels_are_never_pickled(path: MakePath) -> None:
    labels = (np.array([{"a": 1}, None], dtype=object), None, None)
    back = there_and_back(path(".npz"), TensorData(VALUES, coords=labels))
    assert back.coords[0] is not None
    assert back.coords[0].tolist() == ["{'a': 1}", "None"]


def test_archives(path: MakePath) -> None:
    where = path(".npz")
    np.savez(where, a=VALUES, b=np.ones((2, 2)), a_observed=VALUES > 3)
    assert tm.load(where, variable="a").n_observed == 20
    with pytest.raises(FileError, match=r"found a \(2 x 3 x 4\), b \(2 x 2\); name one"):
        tm.load(where)
    with pytest.raises(FileError, match=r"must hold the array 'c', found a"):
        tm.load(where, variable="c")
    np.savez(where, a=VALUES, dims=np.array(["x", "y"]))
    with pytest.raises(
        FileError, match=r"a.npz does not hold a tensor: dims and coords must have one item"
    ):
        tm.load(where)
    np.savez(where, a=VALUES, observed=np.ones(3))
    with pytest.raises(FileError, match=r"the array 'observed' of .* must be an array of"):
        tm.load(where)
    np.savez(where, a=np.ones(2), indices=np.array([[0, 0], [0, 7]]), shape=np.array([2, 2]))
    with pytest.raises(FileError, match=r"between 0 and 1, got 7"):
        tm.load(where)
    np.savez(where)
    with pytest.raises(FileError, match=r"found none"):
        tm.load(where)


def test_archives_that_are_not_what_they_say(path: MakePath) -> None:
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


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes")
def test_a_pipe_is_not_waited_for(path: MakePath) -> None:
    os.mkfifo(path(".npy"))
    with pytest.raises(InputError, match=r"must be a file, got a pipe or device"):
        tm.load(path(".npy"))
