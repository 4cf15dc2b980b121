"""Helpers for the tests of formats: a small tensor, saving and loading it, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensormend as tm
from tensormend.data.observations import TensorData
from tensormend.errors import InputError, MemoryLimitError

VALUES = np.arange(24.0).reshape(2, 3, 4)
DAYS = np.arange("2020-02-28", "2020-03-02", dtype="M8[D]")  # three
RICH = (".npz", ".h5", ".mat", ".nc", ".zarr")

MakePath = Callable[[str], Path]
"""Type of the fixture `path`: from a suffix to a path in an empty folder."""


def there_and_back(where: Path, data: Any, **options: Any) -> TensorData:
    """Save and load."""
    tm.save(where, data, overwrite=True)
    return tm.load(where, **options)


def write(folder: Path, text: bytes | str, name: str = "data.tns") -> Path:
    """Write a file as it is."""
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def refusal(path: Path, **options: Any) -> str:
    """Return what is said of a file that is refused."""
    with pytest.raises((InputError, MemoryLimitError)) as caught:
        tm.load(path, **options)
    return str(caught.value)
