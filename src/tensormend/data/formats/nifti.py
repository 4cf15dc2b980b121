"""``.nii`` and ``.nii.gz``: images of NIfTI."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tensormend.core.algebra import check_memory
from tensormend.data.formats.base import Options, portable
from tensormend.data.observations import TensorData
from tensormend.errors import FileError, InputError, require

__all__ = ["read_nifti", "write_nifti"]

NAMES = ("x", "y", "z", "time", "u", "v", "w")
"""Of the modes, as the standard names them."""


def read_nifti(path: Path, options: Options) -> TensorData:
    """Read an image, scaled as its header says; header and affine are kept to be written back."""
    nibabel = require("nibabel", "nifti", "reading a NIfTI image")
    image = nibabel.load(path, mmap=False)
    if not isinstance(image, nibabel.Nifti1Image):  # of which the second version is one too
        raise FileError(f"{path} must be one NIfTI image, got {type(image).__name__}; convert it")
    stored = image.get_data_dtype()
    if stored.kind not in "biufc":
        raise FileError(
            f"{path} must be an image of numbers, got {stored}; take its channels apart"
        )
    scaled = np.result_type(stored, np.float64) if _is_scaled(image) else stored
    check_memory(image.shape, scaled, options.memory_limit, f"the image in {path}")
    return TensorData(
        np.asarray(image.dataobj),
        dims=NAMES[: len(image.shape)],
        encoding={"nifti": image.header.copy(), "affine": image.affine, "shape": image.shape},
    )


def _is_scaled(image: object) -> bool:
    slope, shift = image.dataobj.slope, image.dataobj.inter  # type: ignore[attr-defined]
    return bool(slope != 1 or shift != 0)


def write_nifti(path: Path, data: TensorData) -> None:
    """Write an image, with the header and affine it was read with, if it was."""
    nibabel = require("nibabel", "nifti", "writing a NIfTI image")
    values = portable(data, "a NIfTI image")
    if values.ndim > len(NAMES):
        raise InputError(
            f"a NIfTI image has at most {len(NAMES)} modes, got {values.ndim}; save it in another "
            "format"
        )
    if values.dtype == np.bool_:
        values = values.astype(np.uint8)
    header, affine, kind = None, np.eye(4), nibabel.Nifti1Image
    if data.encoding.get("shape") == values.shape and "nifti" in data.encoding:
        header, affine = data.encoding["nifti"].copy(), data.encoding["affine"]
        header.set_data_dtype(values.dtype)
        header.set_slope_inter(1, 0)
    is_second = header is not None and isinstance(header, nibabel.Nifti2Header)
    if is_second or max(values.shape) > np.iinfo(np.int16).max:
        kind = nibabel.Nifti2Image
    nibabel.save(kind(values, affine, header, dtype=values.dtype), path)
