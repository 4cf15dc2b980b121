"""Measurement operators."""

from tensormend.operators.base import ModeProducts, Operator, Pullback
from tensormend.operators.dense_sampling import DenseSampling
from tensormend.operators.matrix_operator import MatrixOperator
from tensormend.operators.sampling import Sampling

__all__ = ["DenseSampling", "MatrixOperator", "ModeProducts", "Operator", "Pullback", "Sampling"]
