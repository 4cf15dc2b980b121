"""Where sampled entries are, as the kernels take it."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

__all__ = ["Tree"]

Array = NDArray[Any]


class Tree(NamedTuple):
    """Compressed fibres: a tree over all modes but the leaf mode, with the entries as its leaves.

    Level ``l`` holds the nodes of the ``l``-th mode in tree order. The children of a node of the
    last level are the entries of one fibre. No node is without children, and no two children of a
    node have the same coordinate.

    Attributes
    ----------
    nodes : tuple of uint32 arrays
        Per level, the coordinates of its nodes.
    starts : tuple of int64 arrays
        Per level, where the children of each node begin; one longer than ``nodes``.
    leaves : uint32 or uint16 array
        Leaf-mode coordinate of every entry.
    """

    nodes: tuple[Array, ...]
    starts: tuple[Array, ...]
    leaves: Array
