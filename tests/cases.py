"""The lists that the conformance tests cross: a line for every operator, solver, step and file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import tensormend as tm
from tensormend.data.observations import TensorData
from tensormend.recovery.solvers import RBB, RCG, RGD, RGN, SMQRGD, TIHT, Auto, ScaledGD, SeMPIHT
from tensormend.recovery.steps import ConstantStep, NormalizedStep, StepRule

DTYPES = ("float32", "float64", "complex64", "complex128")
SHAPES = ((7, 6), (4, 5, 6), (3, 4, 2, 5))


def _indices(shape: tuple[int, ...]) -> Any:
    indices = tm.simulate.sample_indices(shape, 0.5, rng=0)
    return np.random.default_rng(1).permutation(indices)


OPERATORS: dict[str, Callable[[tuple[int, ...], str], tm.Operator]] = {
    "sampling": lambda shape, dtype: tm.Sampling(shape, _indices(shape), dtype=dtype),
    "sampling along mode 0": lambda shape, dtype: tm.Sampling(
        shape, _indices(shape), leaf_mode=0, dtype=dtype
    ),
    "isotropic sampling": lambda shape, dtype: tm.Sampling(
        shape, _indices(shape), norm="isotropic", dtype=dtype
    ),
    "dense sampling": lambda shape, dtype: tm.DenseSampling(shape, _indices(shape), dtype=dtype),
    "gaussian": lambda shape, dtype: tm.MatrixOperator.gaussian(shape, 30, rng=0, dtype=dtype),
    "rademacher": lambda shape, dtype: tm.MatrixOperator.rademacher(shape, 30, rng=0, dtype=dtype),
    "a multiple": lambda shape, dtype: (
        -2.5 * tm.MatrixOperator.gaussian(shape, 30, rng=0, dtype=dtype)
    ),
    "some rows": lambda shape, dtype: (
        2 * tm.MatrixOperator.gaussian(shape, 30, rng=0, dtype=dtype)
    ).rows(np.arange(0, 30, 2)),
}

SOLVERS: dict[str, Callable[[StepRule], tm.Solver[Any]]] = {
    "sm-qrgd": SMQRGD,
    "sm-qrgd, tangent mode 1": lambda rule: SMQRGD(rule, tangent_mode=1),
    "rgd": RGD,
    "sempiht": SeMPIHT,
    "sempiht, order 2 0 1": lambda rule: SeMPIHT(rule, mode_order=(2, 0, 1)),
    "tiht": TIHT,
    "scaledgd": ScaledGD,
}

# methods that have a step of their own
ACCELERATED: dict[str, Callable[[], tm.Solver[Any]]] = {
    "rbb": RBB,
    "rcg": RCG,
    "rgn": RGN,
    "auto": lambda: Auto(RGN(), RCG()),
}

STEPS: dict[str, StepRule] = {"constant": ConstantStep(), "normalized": NormalizedStep()}
PAPER_METHODS = ("sm-qrgd", "rgd", "sempiht", "tiht")
STEPPED = tuple(name for name in SOLVERS if "," not in name)
METHODS = (*STEPPED, *ACCELERATED)


# one line for every suffix of a file


@dataclass(frozen=True, eq=False)
class FileCase:
    """A tensor that a format can hold, and what of it comes back.

    Attributes
    ----------
    make : the tensor, with missing entries if the format can hold them
    tol : largest error of a value, relative to the largest value; 0 unless the format is lossy,
        and then it cannot hold a mask either
    keeps : which of "missing", "name", "dims", "coords" and "attrs" come back
    ends_anywhere : whether a file that is cut off may be a whole one with fewer entries
    """

    make: Callable[[], TensorData]
    tol: float = 0.0
    keeps: frozenset[str] = frozenset({"missing"})
    ends_anywhere: bool = False


def make_tensor() -> TensorData:
    """Return a tensor of three modes with missing entries, and all that can be said about it."""
    rng = np.random.default_rng(0)
    values = tm.simulate.random_tucker((5, 6, 7), 2, rng=rng).todense()
    values[rng.random(values.shape) < 0.3] = np.nan
    return TensorData(
        values,
        dims=("town", "day", "level"),
        coords=(np.array(["Åre", "Bonn", "Čáslav", "Đà Lạt", "x y"]), None, np.arange(7) * 0.5),
        name="flux",
        attrs={"units": "K", "offset": 2.5, "range": np.array([0, 9])},
    )


def make_entries() -> TensorData:
    """Return only the observed entries, where the last slice of a mode has none."""
    indices, values = make_tensor().entries()
    return TensorData(values, indices=indices, shape=(5, 6, 8))


def make_table() -> TensorData:
    """Return a tensor with labels of all kinds that a table has, sorted."""
    towns = np.sort(["Åre", "Bonn", "Čáslav", 'a "b", c;\td', "x y"])
    days = np.arange("2024-02-27", "2024-03-04", dtype="M8[D]")
    return replace(make_tensor(), coords=(towns, days, np.arange(-3, 4)), attrs={})


def make_photo() -> TensorData:
    """Return a smooth image in colours of 8 bits without missing pixels: JPEG cannot hold any."""
    y, x = np.mgrid[:16, :20]
    shades = [50 + 3 * y + 4 * x + 40 * np.sin(y / 5 + channel) for channel in range(3)]
    return TensorData(
        np.stack(shades, axis=-1).astype(np.uint8),
        dims=("row", "column", "channel"),
        coords=(None, None, np.array(["red", "green", "blue"])),
    )


def make_film() -> TensorData:
    """Return frames in colours, a second apart, without missing pixels, which video cannot hold."""
    photo = make_photo()
    return TensorData(
        np.stack([photo.values + np.uint8(9 * frame) for frame in range(4)]),
        dims=("frame", *photo.dims),
        coords=(np.arange(4.0), *photo.coords),
    )


def clear(data: TensorData) -> TensorData:
    """Make a few pixels of colours missing."""
    cleared = np.random.default_rng(0).random(data.shape[:-1]) < 0.1
    return data.hide(np.repeat(cleared[..., None], 3, axis=-1))


def make_image() -> TensorData:
    """Return an image in colours with clear pixels."""
    return clear(make_photo())


def make_stack() -> TensorData:
    """Return pages in colours with missing pixels."""
    film = make_film()
    return clear(replace(film, dims=("page", *film.dims[1:]), coords=(None, *film.coords[1:])))


def make_animation() -> TensorData:
    """Return grey frames with clear pixels; 256 colours would not be enough for others."""
    film = make_film()
    grey = TensorData(film.values[..., 0], dims=film.dims[:-1], coords=film.coords[:-1])
    return grey.hide(np.random.default_rng(0).random(grey.shape) < 0.1)


ALL = frozenset({"missing", "name", "dims", "coords", "attrs"})
TABLE = ALL - {"attrs"}
PICTURE = ALL - {"name", "attrs"}
LOSSY = PICTURE - {"missing"}

FILES: dict[str, FileCase] = {
    ".npy": FileCase(make_tensor),
    ".npz": FileCase(make_tensor, keeps=ALL),
    ".h5": FileCase(make_tensor, keeps=ALL),
    ".hdf5": FileCase(make_tensor, keeps=ALL),
    ".mat": FileCase(make_tensor, keeps=ALL),
    ".nc": FileCase(make_tensor, keeps=ALL),
    ".nc4": FileCase(make_tensor, keeps=ALL),
    ".zarr": FileCase(make_tensor, keeps=ALL),
    ".nii": FileCase(make_tensor),
    ".nii.gz": FileCase(make_tensor),
    ".tns": FileCase(make_entries, ends_anywhere=True),
    ".tns.gz": FileCase(make_entries),
    ".csv": FileCase(make_table, keeps=TABLE, ends_anywhere=True),
    ".csv.gz": FileCase(make_table, keeps=TABLE),
    ".tsv": FileCase(make_table, keeps=TABLE, ends_anywhere=True),
    ".tsv.gz": FileCase(make_table, keeps=TABLE),
    ".parquet": FileCase(make_table, keeps=TABLE),
    ".png": FileCase(make_image, keeps=PICTURE),
    ".jpg": FileCase(make_photo, tol=0.02, keeps=LOSSY),
    ".jpeg": FileCase(make_photo, tol=0.02, keeps=LOSSY),
    ".tif": FileCase(make_stack, keeps=PICTURE),
    ".tiff": FileCase(make_stack, keeps=PICTURE),
    ".gif": FileCase(make_animation, keeps=PICTURE),
    ".mp4": FileCase(make_film, tol=0.04, keeps=LOSSY),
    ".mkv": FileCase(make_film, tol=0.04, keeps=LOSSY),
    ".avi": FileCase(make_film, tol=0.06, keeps=LOSSY),
    ".mov": FileCase(make_film, tol=0.04, keeps=LOSSY),
    ".webm": FileCase(make_film, tol=0.04, keeps=LOSSY),
}


TIED = 2e-15  # losses that differ by less may have one residual, and the later of them is the best


def sampled(
    shape: tuple[int, ...], rank: Any, ratio: float, seed: int = 0, dtype: str = "float64"
) -> tuple[tm.Tucker, tm.Problem]:
    truth = tm.simulate.random_tucker(shape, rank, rng=seed, dtype=dtype)
    indices = tm.simulate.sample_indices(shape, ratio, rng=seed + 1)
    operator = tm.Sampling(shape, indices, dtype=dtype)
    return truth, tm.Problem(operator, operator.forward(truth), rank)


def decaying(shape: tuple[int, ...], seed: int = 0) -> Any:
    """A tensor whose mode spectra fall like 1/k^2, and no rank cuts well."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    for k, n in enumerate(shape):
        q = np.linalg.qr(rng.standard_normal((n, n)))[0]
        x = np.moveaxis(np.tensordot(q / np.arange(1, n + 1) ** 2, x, (1, k)), 0, k)
    return x / x.std()
