"""Fixtures that several files of tests use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from shelf import MakePath

# how long an example takes says nothing about whether it is right
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def quiet_processes() -> Iterator[None]:
    """Let processes that tests start be as silent on missing kernels as pytest's settings say."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONWARNINGS", "ignore:the compiled kernels of tensormend", prepend=",")
        yield


@pytest.fixture
def path(tmp_path: Path) -> MakePath:
    """Return paths in an empty folder by how they end."""
    return lambda suffix: tmp_path / f"a{suffix}"
