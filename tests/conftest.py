"""Fixtures that several files of tests use."""

from __future__ import annotations

from pathlib import Path

import pytest

from shelf import Places


@pytest.fixture
def path(tmp_path: Path) -> Places:
    """Return paths in an empty folder by how they end."""
    return lambda suffix: tmp_path / f"a{suffix}"
