"""Data on grids: NetCDF, Zarr, NIfTI."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import nibabel
import numpy as np
import pytest
import xarray as xr
import zarr

import tensormend as tm
from cases import make_tensor
from shelf import DAYS, VALUES, MakePath, there_and_back
from tensormend.errors import (
    DataWarning,
    FileError,
    InputError,
    MemoryLimitError,
)

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
def test_a_completed_netcdf_is_the_whole_data_set(engine: str, path: MakePath) -> None:
    made = make_dataset()
    made.to_netcdf(path(".nc"), engine=engine)
    with pytest.raises(FileError, match=r"found .*speed \(3 x 4 x 2\).*; name one with"):
        tm.load(path(".nc"))
    data = tm.load(path(".nc"), variable="speed")
    assert data.dims == ("time", "lat", "lon")
    assert data.n_observed == 23
    assert data.attrs["units"] == "m s-1"
    np.testing.assert_array_equal(data.coords[0], DAYS)
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
def test_observed_of_netcdf_is_not_written_again(path: MakePath) -> None:
    made = make_dataset()[["speed", "area"]]
    made["shown"] = (("time", "lat", "lon"), (VALUES % 2 == 0).astype("i1").transpose(1, 2, 0))
    made.speed.attrs["observed"] = "shown"
    made.drop_vars("area").to_netcdf(path(".nc"), engine="h5netcdf")
    data = tm.load(path(".nc"))
    assert (data.name, data.n_observed) == ("speed", 12 - (VALUES[1, 0, 1] % 2 == 0))
    result = tm.complete(data, rank=1, max_iter=3)
    assert there_and_back(path(".2.nc"), result.data, variable="speed").n_observed == 24
    made.speed.attrs["observed"] = "gone"
    made.drop_vars("area").to_netcdf(path(".3.nc"), engine="h5netcdf")
    with pytest.raises(FileError, match=r"must name another variable of the file, got 'gone'"):
        tm.load(path(".3.nc"), variable="speed")


def test_groups_of_netcdf(path: MakePath) -> None:
    make_dataset().to_netcdf(path(".nc"), engine="h5netcdf", group="a/b")
    assert tm.load(path(".nc"), variable="a/b/speed").shape == (3, 4, 2)
    with pytest.raises(FileError):
        tm.load(path(".nc"), variable="a/c/speed")


def test_variables_of_netcdf_that_are_no_tensors(path: MakePath) -> None:
    make_dataset()[["station"]].to_netcdf(path(".nc"), engine="h5netcdf")
    with pytest.raises(FileError, match=r"found none"):
        tm.load(path(".nc"))
    with pytest.raises(FileError, match=r"the variable 'station' of .* must be numbers"):
        tm.load(path(".nc"), variable="station")
    with pytest.raises(FileError, match=r"must hold the variable 'other'"):
        tm.load(path(".nc"), variable="other")


def test_calendars_that_numpy_does_not_have(path: MakePath) -> None:
    made = make_dataset()[["speed"]].assign_coords(time=[0, 30, 60])
    made.time.attrs.update(units="days since 2000-01-01", calendar="360_day")
    made.to_netcdf(path(".nc"), engine="h5netcdf")
    data = tm.load(path(".nc"))
    assert data.coords[0] is not None
    assert len(data.coords[0]) == 3
    again = there_and_back(path(".2.nc"), data)
    assert again.coords[0] is not None
    assert again.coords[0].tolist() == data.coords[0].tolist()


def test_the_rest_of_a_data_set_may_be_too_large(path: MakePath) -> None:
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


def test_sizes_that_netcdf_declares(path: MakePath) -> None:
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
def test_versions_of_zarr(version: int, path: MakePath) -> None:
    tm.save(path(".zarr"), replace(make_tensor(), encoding={"zarr": version}))
    assert zarr.open(path(".zarr"), mode="r").metadata.zarr_format == version
    back = there_and_back(path(".2.zarr"), tm.load(path(".zarr")))
    assert back.encoding["zarr"] == version
    np.testing.assert_array_equal(back.todense(), make_tensor().todense())
    opened = xr.open_zarr(path(".2.zarr"), consolidated=False)
    assert opened.flux.dims == ("town", "day", "level")
    assert opened.town.values.tolist() == back.coords[0].tolist()  # type: ignore[union-attr]
    np.testing.assert_array_equal(opened.flux, make_tensor().todense())


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_of_xarray(version: int, path: MakePath) -> None:
    make_dataset().drop_vars("station").to_zarr(
        path(".zarr"), zarr_format=version, consolidated=False
    )
    data = tm.load(path(".zarr"), variable="speed")
    assert data.n_observed == 23
    np.testing.assert_array_equal(data.coords[0], DAYS)
    np.testing.assert_array_equal(data.todense(), make_dataset().speed)
    assert data.attrs["units"] == "m s-1"


def test_fill_values_of_zarr_2(path: MakePath) -> None:
    group = zarr.open_group(path(".zarr"), mode="w", zarr_format=2)
    array = group.create_array("x", shape=(2, 3), dtype="i4", fill_value=-9)
    array[0] = [1, -9, 3]
    assert tm.load(path(".zarr")).n_observed == 6
    array.attrs["_ARRAY_DIMENSIONS"] = ["a", "b"]  # as xarray writes
    assert tm.load(path(".zarr")).n_observed == 2


def test_arrays_of_zarr(path: MakePath) -> None:
    zarr.create_array(path(".zarr"), shape=(2, 3), dtype="i4", chunks=(1, 3))[...] = 7
    assert tm.load(path(".zarr")).values.tolist() == [[7] * 3] * 2
    group = zarr.open_group(path(".2.zarr"), mode="w")
    group.create_array("g/x", shape=(2, 3), dtype="i4", attributes={"_FillValue": 5})[...] = [
        [5, 1, 2],
        [3, 4, 5],
    ]
    group.create_array("g/observed", shape=(2, 3), dtype="bool")[...] = [[1, 1, 0], [1, 1, 1]]
    group.create_array("g/v", shape=(3,), dtype="i4")
    data = tm.load(path(".2.zarr"))
    assert (data.name, data.n_observed) == ("g/x", 3)
    with pytest.raises(FileError, match=r"array 'g/v' of .* must be numbers"):
        tm.load(path(".2.zarr"), variable="g/v")
    with pytest.raises(FileError, match=r"hold the array 'h', found g/observed \(2 x 3\), g/x"):
        tm.load(path(".2.zarr"), variable="h")
    group["g/x"].attrs["observed"] = "gone"
    with pytest.raises(FileError, match=r"must name another array of the file, got 'gone'"):
        tm.load(path(".2.zarr"), variable="g/x")


def test_sizes_that_zarr_declares(path: MakePath) -> None:
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
    path: MakePath, monkeypatch: pytest.MonkeyPatch
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
def test_headers_of_nifti_are_kept(kind: Any, path: MakePath) -> None:
    affine = np.diag([2.0, 3, 4, 1])
    image = kind((VALUES[..., None] + np.arange(3)).astype(np.int16), affine)
    image.header.set_xyzt_units("mm", "sec")
    image.header["descrip"] = b"a head"
    image.header.set_slope_inter(0.5, 10)
    nibabel.save(image, path(".nii.gz"))
    stored = nibabel.load(path(".nii.gz")).get_fdata()
    data = tm.load(path(".nii.gz"), na_value=stored[0, 0, 0, 0])
    assert data.dims == ("x", "y", "z", "time")
    np.testing.assert_array_equal(data.values, stored)
    assert data.n_observed < data.values.size
    tm.save(path(".2.nii"), tm.complete(data, rank=1, max_iter=3).data)
    back = nibabel.load(path(".2.nii"))
    assert type(back) is kind
    np.testing.assert_array_equal(back.affine, affine)
    assert back.header.get_xyzt_units() == ("mm", "sec")
    assert bytes(back.header["descrip"]).rstrip(b"\0") == b"a head"
    observed = data.observed
    assert observed is not None
    np.testing.assert_allclose(back.get_fdata()[observed], stored[observed], rtol=1e-6)


def test_sizes_that_nifti_declares(path: MakePath) -> None:
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


def test_images_of_colours_are_refused(path: MakePath) -> None:
    colours = np.zeros((2, 2, 2), dtype=[("R", "u1"), ("G", "u1"), ("B", "u1")])
    nibabel.save(nibabel.Nifti1Image(colours, np.eye(4)), path(".nii"))
    with pytest.raises(FileError, match=r"must be an image of numbers"):
        tm.load(path(".nii"))
    with pytest.raises(InputError, match=r"at most 7 modes"):
        tm.save(path(".nii"), np.ones((1,) * 8), overwrite=True)
