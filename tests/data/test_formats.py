"""Files of every format: what all of them promise. `cases.FILES` has a line for each suffix."""

from __future__ import annotations

import importlib
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensormend as tm
from cases import FILES
from damage import digest, try_all, write_damaged
from tensormend.data.formats import FORMATS, find_format, registry
from tensormend.data.formats.base import Format
from tensormend.data.observations import TensorData
from tensormend.errors import FileError, InputError, MemoryLimitError, MissingDependencyError

SUFFIXES = [end for form in FORMATS for end in form.suffixes]
DOCS = Path(__file__).parents[2] / "docs" / "files.md"

every_suffix = pytest.mark.parametrize("suffix", SUFFIXES)
exact_suffix = pytest.mark.parametrize("suffix", [end for end in SUFFIXES if FILES[end].tol == 0])
OTHER_SPELLINGS = {".hdf5", ".nc4", ".jpeg", ".tiff"}  # of suffixes that are tried anyway


def write(folder: Path, suffix: str, data: TensorData | None = None) -> Path:
    path = folder / f"some{suffix}"
    tm.save(path, FILES[suffix].make() if data is None else data)
    return path


def assert_close(got: Any, expected: Any, tol: float) -> None:
    assert got.shape == expected.shape
    got, expected = got.astype(float), expected.astype(float)  # pixels would wrap around
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_allclose(got, expected, rtol=0, atol=tol * np.nanmax(np.abs(expected)))


def test_every_suffix_has_a_case() -> None:
    assert list(FILES) == SUFFIXES
    assert len(set(SUFFIXES)) == len(SUFFIXES)


# there and back


@every_suffix
def test_what_is_written_is_read(suffix: str, tmp_path: Path) -> None:
    case = FILES[suffix]
    data, back = case.make(), tm.load(write(tmp_path, suffix))
    assert back.n_observed == data.n_observed
    assert ("missing" in case.keeps) == (data.n_observed < data.todense().size)
    assert_close(back.todense(), data.todense(), case.tol)
    if "name" in case.keeps:
        assert back.name == data.name
    if "dims" in case.keeps:
        assert back.dims == data.dims
    if "coords" in case.keeps:
        for ours, its in zip(data.coords, back.coords, strict=True):
            np.testing.assert_array_equal(ours, its)
    if "attrs" in case.keeps:
        assert set(back.attrs) >= set(data.attrs)
        for key, part in data.attrs.items():
            np.testing.assert_array_equal(back.attrs[key], part)


@every_suffix
def test_what_is_read_is_written_the_same_again(suffix: str, tmp_path: Path) -> None:
    first = tm.load(write(tmp_path, suffix))
    tm.save(tmp_path / f"again{suffix}", first)
    second = tm.load(tmp_path / f"again{suffix}")
    assert_close(second.todense(), first.todense(), FILES[suffix].tol)
    assert (second.dims, second.name) == (first.dims, first.name)


@every_suffix
@pytest.mark.filterwarnings("ignore::tensormend.errors.DataWarning")
def test_load_complete_save(suffix: str, tmp_path: Path) -> None:
    data = tm.load(write(tmp_path, suffix))
    result = tm.complete(data, rank=1, max_iter=5)
    tm.save(tmp_path / f"filled{suffix}", result.data)
    back = tm.load(tmp_path / f"filled{suffix}")
    assert back.n_observed == back.todense().size
    assert (back.dims, back.name) == (data.dims, data.name)
    filled = np.where(np.isnan(data.todense()), np.nan, back.todense())
    assert_close(filled, data.todense(), FILES[suffix].tol)


@every_suffix
def test_every_format_gives_an_array_to_every_other(suffix: str, tmp_path: Path) -> None:
    data = tm.load(write(tmp_path, suffix))
    tm.save(tmp_path / "other.npz", data)
    assert_close(tm.load(tmp_path / "other.npz").todense(), data.todense(), 0)


@exact_suffix
def test_observed_may_have_any_format(suffix: str, tmp_path: Path) -> None:
    data = FILES[suffix].make()
    shown = np.random.default_rng(1).random(data.shape) < 0.5
    whole = np.random.default_rng(2).normal(size=data.shape)
    np.save(tmp_path / "whole.npy", whole)
    mask = shown.astype(data.values.dtype)
    path = write(tmp_path, suffix, TensorData(mask, dims=data.dims, coords=data.coords))
    masked = tm.load(tmp_path / "whole.npy", observed=path)
    np.testing.assert_array_equal(~np.isnan(masked.todense()), shown)


@pytest.mark.parametrize("form", [form for form in FORMATS if form.is_lossy])
def test_observed_that_loses_its_zeros_is_refused(form: Format, tmp_path: Path) -> None:
    np.save(tmp_path / "whole.npy", np.ones((4, 4)))
    for suffix in form.suffixes:
        with pytest.raises(InputError, match=rf"preserves zeros.*{form.name}.*\.png or \.npy"):
            tm.load(tmp_path / "whole.npy", observed=tmp_path / f"mask{suffix}")


def test_formats_that_are_not_exact_are_lossy() -> None:
    inexact = {end for end in SUFFIXES if FILES[end].tol > 0}
    assert inexact == {end for form in FORMATS if form.is_lossy for end in form.suffixes}


# files that are there whole, or not at all


@every_suffix
def test_a_file_is_not_overwritten_unasked(suffix: str, tmp_path: Path) -> None:
    path = write(tmp_path, suffix)
    with pytest.raises(InputError, match=r"already exists; .* give overwrite=True"):
        tm.save(path, FILES[suffix].make())
    tm.save(path, FILES[suffix].make(), overwrite=True)
    assert [part.name for part in tmp_path.iterdir()] == [path.name]
    tm.load(path)


@every_suffix
def test_a_failed_write_leaves_what_was_there(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, suffix)
    form = find_format(path)

    def fail(temporary: Path, data: TensorData) -> None:
        form.write(temporary, data)
        raise OSError("no space left")

    monkeypatch.setattr(registry, "FORMATS", (replace(form, write=fail),))
    with pytest.raises(OSError, match="no space"):
        tm.save(path, FILES[suffix].make(), overwrite=True)
    assert [part.name for part in tmp_path.iterdir()] == [path.name]
    tm.load(path)


# refusals


@every_suffix
@pytest.mark.parametrize("content", [b"", b"\0", b"not what it says\n" * 99])
def test_something_else_is_refused(suffix: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"odd{suffix}"
    path.write_bytes(content)
    with pytest.raises(FileError, match="odd"):
        tm.load(path)


@every_suffix
def test_a_folder_of_other_things_is_refused(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"folder{suffix}"
    path.mkdir()
    (path / "keep.txt").write_text("keep")
    with pytest.raises(FileError, match="folder"):
        tm.load(path)
    with pytest.raises(InputError, match="folder"):
        tm.save(path, FILES[suffix].make(), overwrite=True)
    assert (path / "keep.txt").read_text() == "keep"
    assert [part.name for part in tmp_path.iterdir()] == [path.name]


@every_suffix
def test_more_than_the_memory_limit_is_refused(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(MemoryLimitError, match="some"):
        tm.load(write(tmp_path, suffix), memory_limit=64)


@every_suffix
@pytest.mark.parametrize(("name", "given"), [("variable", "mean"), ("modes", ["row", "column"])])
def test_options_are_heeded_or_refused(suffix: str, name: str, given: Any, tmp_path: Path) -> None:
    path = write(tmp_path, suffix)
    form = find_format(path)
    expected = rf"{name} goes with .*got {name}=.* for .*some.*{form.name}; omit it"
    if name in form.takes:
        expected = "'mean'" if name == "variable" else "'row'"
    with pytest.raises(InputError, match=expected):
        tm.load(path, **{name: given})


@pytest.mark.parametrize("suffix", [end for one in FORMATS if one.extra for end in one.suffixes])
def test_a_library_that_is_missing_is_named(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, suffix)
    extra, data = find_format(path).extra, FILES[suffix].make()

    def fail(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", fail)
    for call in (lambda: tm.load(path), lambda: tm.save(path, data, overwrite=True)):
        with pytest.raises(MissingDependencyError, match=rf"needs \w+,.*'tensormend\[{extra}\]'"):
            call()


def test_without_xarray_a_netcdf_file_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, ".nc")
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(MissingDependencyError, match=r"needs xarray,.*'tensormend\[netcdf\]'"):
        tm.load(path)


@pytest.mark.filterwarnings("ignore::tensormend.errors.DataWarning")
def test_an_outcome_is_not_data(tmp_path: Path) -> None:
    result = tm.complete(np.ones((3, 3, 3)), rank=1, max_iter=1)
    with pytest.raises(InputError, match=r"got a Completion; save result\.data"):
        tm.save(tmp_path / "a.npy", result)
    with pytest.raises(InputError, match=r"got a Result; save result\.x"):
        tm.save(tmp_path / "a.npy", result.fit)
    tm.save(tmp_path / "a.npy", result.fit.x)


@pytest.mark.skipif(sys.platform == "win32", reason="limits memory and time as Unix does")
@pytest.mark.parametrize("suffix", [end for end in SUFFIXES if end not in OTHER_SPELLINGS])
def test_damage_is_refused_or_harmless(suffix: str, tmp_path: Path) -> None:
    """Files cut short at many lengths, or with bytes changed: no crash, no hang, no other error.

    What was cut never passes for the whole, but it may be the whole if nothing of it is lost.
    """
    folder = tmp_path / "damaged"
    folder.mkdir()
    path = write(tmp_path, suffix)
    count = write_damaged(path, folder, cuts=24, flips=32)
    outcomes = try_all(folder)
    assert len(outcomes) == count
    assert {end for end in outcomes.values() if not end.startswith(("loaded", "refused"))} == set()
    cut = {end for name, end in outcomes.items() if name.startswith("cut")}
    if not FILES[suffix].ends_anywhere:
        assert cut <= {"refused", f"loaded {digest(tm.load(path))}"}
    assert sum(end == "refused" for end in outcomes.values()) >= count // 4


# names of files


def test_formats_are_told_by_the_longest_ending() -> None:
    for form in FORMATS:
        for end in form.suffixes:
            assert find_format(f"A.B{end.upper()}") is form


def test_an_unknown_ending_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"\.npy, \.npz.*got 'a\.xyz'"):
        tm.load("a.xyz")


@pytest.mark.checkout
@every_suffix
def test_the_page_on_files_has_every_ending(suffix: str) -> None:
    rows = [line.split("|") for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    (extra,) = (row[5].strip() for row in rows if f"`{suffix}`" in row[1])
    wanted = find_format(suffix).extra
    assert extra.startswith(f"`{wanted}`") if wanted else " for " in extra or not extra


@pytest.mark.checkout
def test_the_page_on_files_has_no_other_ending() -> None:
    rows = [line.split("|")[1] for line in DOCS.read_text().splitlines() if line.startswith("| `.")]
    assert sorted(re.findall(r"`(.*?)`", " ".join(rows))) == sorted(SUFFIXES)
