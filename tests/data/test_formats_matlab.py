"""``.mat`` files of all versions."""

from __future__ import annotations

import struct
import sys
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.io
import scipy.sparse

import tensormend as tm
from cases import make_tensor
from damage import flipped, truncated
from shelf import VALUES, MakePath, there_and_back
from tensormend.data.formats import matlab
from tensormend.data.formats.matlab73 import write_variables
from tensormend.errors import (
    FileError,
    MemoryLimitError,
    MissingDependencyError,
    TensormendError,
)


def save_mat(where: Path, version: str, **variables: Any) -> None:
    if version == "7.3":
        write_variables(where, {key: np.asarray(part) for key, part in variables.items()})
    else:
        kind: Any = "4" if version == "4" else "5"
        scipy.io.savemat(where, variables, format=kind, do_compression=version == "7")


@pytest.mark.parametrize("version", ["4", "5", "7", "7.3"])
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_versions_of_mat(version: str, dtype: str, path: MakePath) -> None:
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
def test_classes_of_mat(version: str, dtype: str, path: MakePath) -> None:
    values = (VALUES % 3).astype(dtype)
    save_mat(path(".mat"), version, X=values, X_observed=VALUES > 5)
    data = tm.load(path(".mat"), variable="X")
    assert data.values.dtype == dtype
    np.testing.assert_array_equal(data.values, values)
    assert data.n_observed == 18


def test_big_endian_mat(path: MakePath) -> None:
    """Written by hand: 2 x 1 doubles in a machine that no longer exists."""
    body = struct.pack(">4I", 6, 8, 6, 0) + struct.pack(">2I2i", 5, 8, 2, 2)
    body += struct.pack(">HH", 1, 1) + b"X\0\0\0" + struct.pack(">2I4d", 9, 32, 1, 2, 3, 4)
    text = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x01\x00MI"
    path(".mat").write_bytes(text + struct.pack(">2I", 14, len(body)) + body)
    assert tm.load(path(".mat")).values.tolist() == [[1, 3], [2, 4]]


def test_a_version_that_was_read_is_written(path: MakePath) -> None:
    data = make_tensor()
    tm.save(path(".mat"), replace(data, encoding={"matlab73": True}))
    assert path(".mat").read_bytes()[:10] == b"MATLAB 7.3"
    back = there_and_back(path(".2.mat"), tm.load(path(".mat")))
    assert path(".2.mat").read_bytes()[:10] == b"MATLAB 7.3"
    np.testing.assert_array_equal(back.todense(), data.todense())
    assert back.dims == data.dims
    assert back.coords[0].tolist() == data.coords[0].tolist()  # type: ignore[union-attr]
    tm.save(path(".3.mat"), replace(back, encoding={}))
    assert path(".3.mat").read_bytes()[:10] == b"MATLAB 5.0"


def test_scipy_reads_what_we_write(path: MakePath) -> None:
    tm.save(path(".mat"), make_tensor())
    given = scipy.io.loadmat(path(".mat"))
    np.testing.assert_array_equal(given["flux"], make_tensor().todense())
    assert [str(one).strip() for one in given["dims"]] == ["town", "day", "level"]


def test_large_variables_go_into_version_7_3(
    path: MakePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matlab, "MAX_VARIABLE", 100)
    tm.save(path(".mat"), VALUES)
    assert path(".mat").read_bytes()[:10] == b"MATLAB 7.3"
    np.testing.assert_array_equal(tm.load(path(".mat")).values, VALUES)


@pytest.mark.parametrize("version", ["5", "7"])
@pytest.mark.parametrize("factor", [1, 1j])
def test_sparse_mat(version: str, factor: complex, path: MakePath) -> None:
    matrix = scipy.sparse.csc_array(np.array([[0, 2.0, 0], [3, 0, 0], [0, 5, 7]]) * factor)
    save_mat(path(".mat"), version, S=matrix)
    data = tm.load(path(".mat"))
    assert data.is_sparse
    assert data.shape == (3, 3)
    indices, values = data.entries()
    assert indices.tolist() == [[1, 0], [0, 1], [2, 1], [2, 2]]
    np.testing.assert_array_equal(values, np.array([3, 2, 5, 7]) * factor)


@pytest.mark.parametrize("version", ["5", "7"])
def test_what_mat_holds_beside_numbers_is_refused(version: str, path: MakePath) -> None:
    cell = np.empty((1, 2), dtype=object)
    cell[0, 0], cell[0, 1] = "a", np.ones(3)
    save_mat(path(".mat"), version, c=cell, s={"field": 1.0}, t="text", X=VALUES, dims=cell)
    assert tm.load(path(".mat")).name == "X"
    for name, kind in (("c", "cell"), ("s", "struct"), ("t", "char")):
        with pytest.raises(FileError, match=rf"the variable '{name}' of .* got a {kind}"):
            tm.load(path(".mat"), variable=name)
    with pytest.raises(FileError, match=r"must hold the variable 'Y', found X \(2 x 3 x 4\)"):
        tm.load(path(".mat"), variable="Y")
    save_mat(path(".mat"), version, c=cell)
    with pytest.raises(FileError, match=r"must hold a variable of numbers, found c \(cell\)"):
        tm.load(path(".mat"))


def test_what_version_7_3_holds_beside_numbers_is_refused(path: MakePath) -> None:
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


def test_a_mat_file_that_promises_too_much(path: MakePath) -> None:
    save_mat(path(".mat"), "5", X=VALUES)
    whole = path(".mat").read_bytes()
    offset = whole.index(struct.pack("<3i", 2, 3, 4))
    for sizes, kind in (
        ((2, 3, 5), FileError),
        ((2, -3, -4), FileError),
        ((2**30,) * 3, MemoryLimitError),
    ):
        path(".mat").write_bytes(whole[:offset] + struct.pack("<3i", *sizes) + whole[offset + 12 :])
        with pytest.raises(kind, match=r"a\.mat"):
            tm.load(path(".mat"))
    bomb = zlib.compress(struct.pack("<2I", 14, 10**9) + bytes(10**6))
    path(".mat").write_bytes(whole[:128] + struct.pack("<2I", 15, len(bomb)) + bomb)
    with pytest.raises(MemoryLimitError):
        tm.load(path(".mat"), memory_limit=10**8)
    path(".mat").write_bytes(struct.pack("<5i", 0, -1, 3, 0, 2) + b"x\0" + bytes(100))
    with pytest.raises(FileError, match=r"no variable begins at byte 0"):
        tm.load(path(".mat"))


def test_damaged_mat_files(path: MakePath) -> None:
    """Every byte counts in a parser of our own; it cannot crash, so that many can be tried."""
    numbers = {"X": VALUES, "dims": np.array(["a", "bc", "d"]), "observed": VALUES > 3}
    sparse = {"S": scipy.sparse.csc_array(np.eye(4))}
    for version, content in (
        ("5", numbers),
        ("7", numbers),
        ("5", sparse),
        ("4", {"X": VALUES[0]}),
    ):
        save_mat(path(".mat"), version, **content)
        whole = path(".mat").read_bytes()
        for bad in (*truncated(whole, 40), *flipped(whole, 160, 0)):
            path(".mat").write_bytes(bad)
            try:
                tm.load(path(".mat"), memory_limit=10**6)
            except TensormendError as error:
                assert "a.mat" in str(error)  # noqa: PT017


def test_rows_of_text_without_a_letter_take_no_memory(path: MakePath) -> None:
    save_mat(path(".mat"), "5", X=VALUES, dims=np.array(["abcd", "efgh", "ijkl"]))
    whole = path(".mat").read_bytes()
    offset = whole.rindex(struct.pack("<2i", 3, 4), 0, whole.index(b"dims"))
    letters = whole.index(b"aeibfj", offset)  # stored by columns
    bad = bytearray(whole)
    bad[offset : offset + 8] = struct.pack("<2i", 2**31 - 1, 0)
    bad[letters - 4 : letters] = struct.pack("<I", 0)
    path(".mat").write_bytes(bad)
    assert tm.load(path(".mat")).dims == ("mode 0", "mode 1", "mode 2")


def test_version_7_3_needs_h5py(path: MakePath, monkeypatch: pytest.MonkeyPatch) -> None:
    save_mat(path(".mat"), "7.3", X=VALUES)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingDependencyError, match=r"h5py.*tensormend\[hdf5\]"):
        tm.load(path(".mat"))
