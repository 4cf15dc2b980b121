"""The lists that the conformance tests cross: one line for every operator, solver and step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensormend as tm
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
