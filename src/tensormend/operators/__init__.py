"""Measurement operators."""

from tensormend.operators.base import ModeProducts, Operator, Pullback
from tensormend.operators.dense_sampling import Masked
from tensormend.operators.matrix import Matrix
from tensormend.operators.sampling import Sampling

__all__ = ["Masked", "Matrix", "ModeProducts", "Operator", "Pullback", "Sampling"]
