"""What is known of a tensor: data of every accepted kind, read into indices and values.

One file a kind of data; each library that is not always there is named in its own file.
"""

from tensormend.data.observations.base import Container, Keys, Labelled, Observations
from tensormend.data.observations.data import TensorData
from tensormend.data.observations.read import as_observations

__all__ = ["Container", "Keys", "Labelled", "Observations", "TensorData", "as_observations"]
