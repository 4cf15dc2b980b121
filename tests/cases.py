"""The lists that the conformance tests cross: a line for every operator, solver, step and file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tensormend as tm
from tensormend.known import TensorData
from tensormend.solvers import RBB, RCG, RGD, RGN, SMQRGD, TIHT, Auto, ScaledGD, SeMPIHT
from tensormend.steps import ConstantStep, NormalizedStep, StepRule

DTYPES = ("float32", "float64", "complex64", "complex128")
SHAPES = ((7, 6), (4, 5, 6), (3, 4, 2, 5))


def _indices(shape: tuple[int, ...]) -> Any:
    indices = tm.simulate.sample_indices(shape, 0.5, rng=0)
    return np.random.default_rng(1).permutation(indices)


OPERATORS: dict[str, Callable[[tuple[int, ...], str], tm.Operator]] = {
    "sampling": lambda shape, dtype: tm.Sampling(shape, _indices(shape), dtype=dtype),
    "sampling along mode 0": lambda shape, dtype: tm.Sampling(
        shape, _indices(shape), lead=0, dtype=dtype
    ),
    "isotropic sampling": lambda shape, dtype: tm.Sampling(
        shape, _indices(shape), scale="isotropic", dtype=dtype
    ),
    "masked": lambda shape, dtype: tm.Masked(shape, _indices(shape), dtype=dtype),
    "gaussian": lambda shape, dtype: tm.Matrix.gaussian(shape, 30, rng=0, dtype=dtype),
    "rademacher": lambda shape, dtype: tm.Matrix.rademacher(shape, 30, rng=0, dtype=dtype),
}

SOLVERS: dict[str, Callable[[StepRule], tm.Solver[Any]]] = {
    "sm-qrgd": SMQRGD,
    "sm-qrgd, lead 1": lambda rule: SMQRGD(rule, lead=1),
    "rgd": RGD,
    "sempiht": SeMPIHT,
    "sempiht, order 2 0 1": lambda rule: SeMPIHT(rule, order=(2, 0, 1)),
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
STEPPED = (*PAPER_METHODS, "scaledgd")
METHODS = (*STEPPED, *ACCELERATED)


# one line for every suffix of a file


@dataclass(frozen=True)
class FileCase:
    """A tensor that a format can hold, and what of it comes back.

    Attributes
    ----------
    make : the tensor, with holes if the format has them
    tol : largest error of a value, relative to the largest value
    keeps : which of "holes", "name", "names", "labels" and "attributes" come back
    """

    make: Callable[[], TensorData]
    tol: float = 0.0
    keeps: frozenset[str] = frozenset({"holes"})


def make_tensor() -> TensorData:
    """Return a tensor of three modes with holes, and all that can be said about it."""
    rng = np.random.default_rng(0)
    values = tm.simulate.random_tucker((5, 6, 7), 2, rng=rng).dense()
    values[rng.random(values.shape) < 0.3] = np.nan
    return TensorData(
        values,
        names=("town", "day", "level"),
        labels=(np.array(["Åre", "Bonn", "Čáslav", "Đà Lạt", "x y"]), None, np.arange(7) * 0.5),
        name="flux",
        attributes={"units": "K", "offset": 2.5, "range": np.array([0, 9])},
    )


ALL = frozenset({"holes", "name", "names", "labels", "attributes"})

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
}
