"""Conversion of states to named arrays, for solvers and checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tensormend.core.algebra import Array
from tensormend.core.tucker import Tucker

if TYPE_CHECKING:
    from tensormend.recovery.contract import State

__all__ = ["add_prefix", "load_point", "save_point", "take_prefix"]


def save_point(state: State) -> dict[str, Array]:
    """Return the arrays of a state that its iterate and step size determine."""
    return {"step_size": np.array(state.step_size), **state.x.as_arrays()}


def load_point(arrays: Mapping[str, Array]) -> tuple[Tucker, float]:
    """Return iterate and step size that `save_point` was given."""
    return Tucker.from_arrays(arrays), float(arrays["step_size"])


def add_prefix(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return arrays under names that begin with a prefix."""
    return {prefix + name: array for name, array in arrays.items()}


def take_prefix(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays whose names begin with a prefix, without it."""
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
