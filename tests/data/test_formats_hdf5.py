"""HDF5: what stands beside the numbers, and what is not trusted."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

import tensormend as tm
from damage import try_all
from shelf import DAYS, VALUES, MakePath
from tensormend.errors import (
    FileError,
    MemoryLimitError,
)


def test_datasets_of_hdf5(path: MakePath) -> None:
    where = path(".h5")
    with h5py.File(where, "w") as file:
        file["deep/inside"] = VALUES
        file["deep/observed"] = VALUES > 3
        file["deep/vector"] = np.ones(3)
        file["deep/words"] = np.array([[b"a", b"b"]])
        file["loop"] = file["/"]
        file["soft"] = h5py.SoftLink("/deep/inside")
        file["other"] = h5py.ExternalLink("elsewhere.h5", "/x")
        file["empty"] = h5py.Empty("f8")
    data = tm.load(where)
    assert (data.name, data.n_observed) == ("deep/inside", 20)
    assert tm.load(where, variable="/deep/inside").n_observed == 20
    assert tm.load(where, variable="deep/observed").n_observed == 24
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


def test_types_of_hdf5_that_are_no_numbers(path: MakePath) -> None:
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


def test_missing_values_of_hdf5(path: MakePath) -> None:
    where = path(".h5")
    with h5py.File(where, "w") as file:
        data = file.create_dataset("x", data=VALUES.astype(int))
        data.attrs["_FillValue"] = [7]
        data.attrs["missing_value"] = 8.0
        data.attrs["observed"] = "shown"
        data.attrs["reference"] = data.ref
        data.attrs["units"] = np.bytes_("K")
        file["shown"] = np.array([[1, 1, 1], [1, 1, 0]])
    data = tm.load(where, variable="x")
    assert data.n_observed == 24 - 2 - 4
    assert dict(data.attrs) == {"units": "K"}
    with h5py.File(where, "a") as file:
        file["x"].attrs["observed"] = "gone"
    with pytest.raises(FileError, match=r"must name another dataset of the file, got 'gone'"):
        tm.load(where, variable="x")


def test_values_in_other_files_are_refused(path: MakePath, tmp_path: Path) -> None:
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


def test_links_of_netcdf_to_other_files_are_refused(path: MakePath) -> None:
    tm.save(path(".nc"), VALUES)
    with h5py.File(path(".nc"), "a") as file:
        file["more"] = h5py.ExternalLink("elsewhere.h5", "/x")
    with pytest.raises(FileError, match=r"must have no links to other files, got more"):
        tm.load(path(".nc"))


def test_sizes_that_hdf5_declares(path: MakePath) -> None:
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
    for name, (offset, part) in changes.items():
        bad = good[:offset] + part + good[offset + len(part) :]
        for suffix in (".h5", ".nc"):
            (folder / f"{name}{suffix}").write_bytes(bad)
    outcomes = try_all(folder)
    for suffix in (".h5", ".nc"):
        assert outcomes.pop(f"good{suffix}").startswith("loaded")
    assert set(outcomes.values()) == {"refused"}
    assert len(outcomes) == 8


def test_scales_of_hdf5(path: MakePath) -> None:
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
    assert data.dims == ("a", "b", "b_1")
    assert data.coords[1] is None
    assert data.coords[2] is not None
    assert data.coords[2].tolist() == [0, 0.5, 1, 1.5]


def test_netcdf_read_as_hdf5(path: MakePath) -> None:
    coords = {"t": DAYS.astype("M8[ns]")}
    made = xr.Dataset({"v": (("x", "t"), np.ones((2, 3)))}, coords=coords)
    made.to_netcdf(path(".h5"), engine="h5netcdf")
    data = tm.load(path(".h5"))
    assert data.dims == ("x", "t")
    assert data.coords[0] is None
    np.testing.assert_array_equal(data.coords[1], DAYS)
