"""The house: imports go one way, optional dependencies live in one file, no print, no assert."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tensormend

ROOT = Path(tensormend.__file__).parent

# Top to bottom: a room may use the rooms above it.
ROOMS = [
    "errors",
    "kernels",
    "algebra",
    "storage",
    "fibres",
    "known",
    "io",
    "means",
    "preprocess",
    "trust",
    "tucker",
    "truncate",
    "shrinkage",
    "manifold",
    "operators",
    "problem",
    "initial",
    "steps",
    "result",
    "stopping",
    "contract",
    "checkpoint",
    "solve",
    "journal",
    "solvers",
    "holdout",
    "choose",
    "completion",
    "cost",
    "recover",
    "complete",
    "inspection",
    "report",
    "accessor",
    "estimator",
    "theory",
    "simulate",
    "datasets",
    "testing",
    "records",
    "experiments",
    "plots",
    "bench",
    "__init__",
]


def room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Rooms of the package that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "tensormend":
                known = len(parts) > 1 and parts[1] in ROOMS
                found.add(parts[1] if known else "__init__")
    return found


FILES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    here = room(path)
    for other in imported(path):
        assert ROOMS.index(other) <= ROOMS.index(here), f"{here} must not import {other}"


def test_solvers_do_not_import_each_other() -> None:
    for path in (ROOT / "solvers").glob("*.py"):
        if path.stem != "__init__":
            assert "tensormend.solvers" not in path.read_text()


OPTIONAL = {
    "matplotlib": "plots/style.py",
    "pandas": "known/tables.py",
    "sparse": "known/sparse.py",
    "xarray": "known/labelled.py",
    "sklearn": "estimator.py",
    "h5py": "io/hdf5.py",
    "h5netcdf": "io/netcdf.py",
    "zarr": "io/zarr_files.py",
    "nibabel": "io/nifti.py",
    "tensorly": "bench/peers.py",
    "torch": "bench/peers.py",
    "tucker_riemopt": "bench/peers.py",
    "pymanopt": "bench/peers.py",
    "PIL": "io/images.py",
    "av": "io/video.py",
    "pyarrow": "io/tables.py",
    "tifffile": "io/tiff.py",
    "pyttb": "bench/peers.py",
}


@pytest.mark.parametrize("name", OPTIONAL)
def test_optional_dependencies_are_named_in_one_file(name: str) -> None:
    users = {
        path.relative_to(ROOT).as_posix()
        for path in FILES
        if re.search(rf'(import |from |require\("){name}\b', path.read_text())
    }
    assert users == {OPTIONAL[name]}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_assert_or_print_in_the_package(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        assert not isinstance(node, ast.Assert)
        assert not (isinstance(node, ast.Name) and node.id == "print")


def test_import_is_light() -> None:
    heavy = {*OPTIONAL, "tensormend.report", "importlib.metadata"}
    code = f"import sys, tensormend; sys.exit(not sys.modules.keys().isdisjoint({heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603


def test_public_names_exist() -> None:
    for name in tensormend.__all__:
        assert getattr(tensormend, name) is not None
        assert name in dir(tensormend)
