"""Observed entries of a tensor, read from data of any supported kind.

Each kind of data has its own file; an optional library is imported in that file only.
"""

from tensormend.data.observations.base import Container, Keys, Labelled, Observations
from tensormend.data.observations.data import TensorData, TensorDataContainer
from tensormend.data.observations.read import as_observations

__all__ = [
    "Container",
    "Keys",
    "Labelled",
    "Observations",
    "TensorData",
    "TensorDataContainer",
    "as_observations",
]
