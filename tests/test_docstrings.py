"""The check of docstrings finds what is missing, and only that."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import check_docstrings

pytestmark = pytest.mark.checkout

SOURCE = '''
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Base", "Child", "Good", "Record", "bad", "good"]


def good(x: int, *, y: float = 1.0) -> float:
    """Add two numbers.

    Parameters
    ----------
    x : int
        First number.
    y : float, default=1.0
        Second number.

    Returns
    -------
    float
        The sum.

    Raises
    ------
    ValueError
        If it is negative.
    """
    if x + y < 0:
        raise ValueError("negative")
    return x + y


def bad(x: int, y: int, z: int) -> float:
    """Adds numbers

    Parameters
    ----------
    x : first number, and more
    y : int
        second number
    w : int
        Is not there.
    """
    if x < 0:
        raise ValueError("negative")
    return x + y + z


class Good(Protocol):
    """A protocol."""

    def step(self, n: int) -> int:
        """Take a step.

        Parameters
        ----------
        n : int
            How far.

        Returns
        -------
        int
            Where to.
        """
        ...


class Base:
    """A class that implements the protocol."""

    def step(self, n: int) -> int:
        """Take a step of its own."""
        return n

    def other(self, n: int) -> int:
        """Do something else."""
        return n


class Child(Base):
    """Another."""

    def other(self, n: int) -> int:
        """Do it otherwise."""
        return -n


@dataclass
class Record:
    """A record.

    Attributes
    ----------
    a : int
        A field.
    b
        Another.
    """

    a: int
    b: int
    c: int = 0

    @property
    def total(self) -> int:
        return self.a
'''


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str]]:
    (tmp_path / "documented.py").write_text(SOURCE)
    (tmp_path / "docs" / "api").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(check_docstrings, "ROOT", tmp_path)
    monkeypatch.setattr(check_docstrings, "PACKAGE", "documented")
    try:
        names = check_docstrings.walk_public()
        checks = check_docstrings.read_checks(Path(__file__).parents[1] / "pyproject.toml")
        rows = list(check_docstrings.check(names, checks))
    finally:
        sys.modules.pop("documented", None)
    return {(name.removeprefix("documented."), code) for _, _, name, code, _ in rows}


def test_only_what_is_wrong_is_found(found: set[tuple[str, str]]) -> None:
    bad = {"SS03", "SS05", "PR01", "PR02", "PR07", "PR08", "PR09", "RT01", "RS01"}
    assert {code for name, code in found if name == "bad"} == bad
    assert found - {("bad", code) for code in bad} == {
        ("Base.other", "PR01"),
        ("Base.other", "RT01"),
        ("Record", "PR01"),  # a field that is neither parameter nor attribute
        ("Record", "PR04"),
        ("Record.total", "GL08"),
    }


def test_public_is_what_users_reach() -> None:
    names = set(check_docstrings.walk_public())
    assert {
        "tensormend.recovery.entry.recover",
        "tensormend.core.algebra.matricize",
        "tensormend.core.tucker.Tucker.shape",
        "tensormend.operators.base.Operator.forward",
        "tensormend.recovery.solvers.rgd.RGD.step",
    } <= names
    assert not any(part.startswith("_") for name in names for part in name.split("."))
