"""Measurement operators."""

from tensormend.operators.base import GaussNewtonProduct, Gradient, Operator
from tensormend.operators.dense_sampling import DenseSampling
from tensormend.operators.matrix_operator import MatrixOperator
from tensormend.operators.sampling import Sampling
from tensormend.operators.single_mode import ModeProducts, SingleModeOperator

__all__ = [
    "DenseSampling",
    "GaussNewtonProduct",
    "Gradient",
    "MatrixOperator",
    "ModeProducts",
    "Operator",
    "Sampling",
    "SingleModeOperator",
]
