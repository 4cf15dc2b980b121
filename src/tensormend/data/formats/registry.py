"""The table of formats: suffixes, reader, writer, extra and options of each."""

from __future__ import annotations

import os
from pathlib import Path

from tensormend.data.formats import (
    hdf5,
    images,
    matlab,
    netcdf,
    nifti,
    numpy_files,
    tables,
    tiff,
    tns,
    video,
    zarr_files,
)
from tensormend.data.formats.base import Format
from tensormend.errors import InputError

__all__ = ["FORMATS", "find_format", "suffixes_taking"]

FORMATS: tuple[Format, ...] = (
    Format("NumPy array", (".npy",), numpy_files.read_npy, numpy_files.write_npy),
    Format(
        "NumPy archive", (".npz",), numpy_files.read_npz, numpy_files.write_npz, takes=("variable",)
    ),
    Format(
        "HDF5 file", (".h5", ".hdf5"), hdf5.read_hdf5, hdf5.write_hdf5, "hdf5", takes=("variable",)
    ),
    Format("MATLAB file", (".mat",), matlab.read_mat, matlab.write_mat, takes=("variable",)),
    Format(
        "NetCDF file",
        (".nc", ".nc4"),
        netcdf.read_netcdf,
        netcdf.write_netcdf,
        "netcdf",
        takes=("variable",),
    ),
    Format(
        "Zarr store",
        (".zarr",),
        zarr_files.read_zarr,
        zarr_files.write_zarr,
        "zarr",
        takes=("variable",),
    ),
    Format("NIfTI image", (".nii", ".nii.gz"), nifti.read_nifti, nifti.write_nifti, "nifti"),
    Format("FROSTT entries", (".tns", ".tns.gz"), tns.read_tns, tns.write_tns),
    Format(
        "long table",
        (".csv", ".csv.gz", ".tsv", ".tsv.gz"),
        tables.read_csv,
        tables.write_csv,
        "tables",
        takes=("variable", "modes"),
    ),
    Format(
        "Parquet table",
        (".parquet",),
        tables.read_parquet,
        tables.write_parquet,
        "tables",
        takes=("variable", "modes"),
    ),
    Format("PNG image", (".png",), images.read_image, images.write_image, "images"),
    Format(
        "JPEG image",
        (".jpg", ".jpeg"),
        images.read_image,
        images.write_image,
        "images",
        is_lossy=True,
    ),
    Format(
        "TIFF stack",
        (".tif", ".tiff"),
        tiff.read_tiff,
        tiff.write_tiff,
        "images",
        takes=("variable",),
    ),
    Format("animated GIF", (".gif",), images.read_gif, images.write_gif, "images"),
    Format(
        "video",
        (".mp4", ".mkv", ".avi", ".mov", ".webm"),
        video.read_video,
        video.write_video,
        "video",
        is_lossy=True,
    ),
)
"""All formats. A new one is a file with its reader and writer in this folder, and an entry here."""


def find_format(path: str | os.PathLike[str]) -> Format:
    """Return the format of a file by the suffix of its name.

    Parameters
    ----------
    path : path-like
        File, which need not exist.

    Returns
    -------
    Format
        The format with the longest suffix that matches, in any case.

    Raises
    ------
    InputError
        If no suffix matches.

    Examples
    --------
    >>> find_format("speeds.npy").name
    'NumPy array'
    """
    name = Path(path).name.lower()
    found = [(end, form) for form in FORMATS for end in form.suffixes if name.endswith(end)]
    if not found:
        suffixes = ", ".join(end for form in FORMATS for end in form.suffixes)
        raise InputError(
            f"the name of a file must end in one of {suffixes}, got {Path(path).name!r}; rename or "
            "convert it"
        )
    return max(found, key=lambda pair: len(pair[0]))[1]


def suffixes_taking(option: str) -> list[str]:
    """Return the suffixes of all formats whose reader takes an option."""
    return [end for form in FORMATS if option in form.takes for end in form.suffixes]
