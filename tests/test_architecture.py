"""The layout: imports go one way, optional dependencies live in one file, no print, no assert."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tensormend
from tensormend.recovery.registry import METHODS

ROOT = Path(tensormend.__file__).parent

# From the bottom up: a layer may import those before it, never itself.
LAYERS = (
    ("errors",),
    ("core",),
    ("operators", "data", "simulate"),
    ("recovery", "theory"),
    ("completion", "testing"),
    ("plotting",),
    ("integrations", "research"),
    ("cli",),
)
# Inside of a package of a layer likewise. Modules in one string do not import each other.
ORDER = {
    "core": (
        "progress text threads",
        "kernels",
        "algebra",
        "linalg",
        "storage subspaces",
        "fibres",
        "tucker",
        "implicit",
        "sparse truncate",
        "manifold shrinkage",
    ),
    "operators": (
        "base spectral",
        "single_mode",
        "dense_sampling matrix_operator sampling",
        "__init__",
    ),
    "data": ("observations", "formats datasets"),
    "recovery": (
        "registry limits problem steps result",
        "contract init stopping",
        "arrays checks",
        "checkpoint solvers",
        "loop",
        "entry",
    ),
    "completion": (
        "means journal validation",
        "preprocessing trust",
        "cost",
        "selection",
        "archive",
        "result run",
        "automatic fixed_rank",
        "entry report",
        "inspection",
    ),
    "plotting": ("style", "benchmark completion", "__init__"),
    "integrations": ("sklearn xarray",),
    "research": (
        "records progress workers",
        "custom summary",
        "runner",
        "pages",
        "experiments",
        "figures bench realdata",
    ),
    "cli": (
        "parse words",
        "exits options outputs progress summary",
        "settings signals",
        "run",
        "bench complete demo formats inspect reproduce simulate",
        "app",
        "__init__",
        "__main__",
    ),
}


def locate(path: Path) -> tuple[str, str]:
    """The member of a layer that a file is, or lies in, and the module below it."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[0], parts[1] if len(parts) > 1 else "__init__"


def imported(path: Path) -> set[tuple[str, str]]:
    """Members of layers that a file imports, with the modules below these."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "tensormend" and len(parts) > 1:
                member, *below = parts[1:]
                if not (ROOT / member).exists() and not (ROOT / f"{member}.py").exists():
                    member, *below = tensormend._HOMES[member].split(".")  # a public name
                is_module = below and is_there(ROOT / member / below[0])
                found.add((member, below[0] if is_module else "__init__"))
    return found


def is_there(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").exists()


def level(name: str, levels: tuple[tuple[str, ...], ...] | list[list[str]]) -> int:
    return next(k for k, names in enumerate(levels) if name in names)


FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    member, module = locate(path)
    for other, below in imported(path):
        if other != member:
            assert level(other, LAYERS) < level(member, LAYERS), f"{member} imports {other}"
        elif below != module and module != "__init__":
            order = [names.split() for names in ORDER[member]]
            assert level(below, order) < level(module, order), f"{module} imports {below}"


def test_order_names_every_module() -> None:
    members = {path.stem for path in ROOT.glob("*.py")} | {
        path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()
    }
    assert {name for layer in LAYERS for name in layer} == members - {"__init__"}
    for member, names in ORDER.items():
        modules = {locate(path)[1] for path in FILES if locate(path)[0] == member}
        assert modules - {"__init__"} == set(" ".join(names).split()) - {"__init__"}, member


def test_solvers_do_not_import_each_other() -> None:
    for path in (ROOT / "recovery" / "solvers").glob("*.py"):
        if path.stem != "__init__":
            assert "tensormend.recovery.solvers" not in path.read_text("utf-8")


def test_only_the_registry_names_solvers() -> None:
    """Outside of their folder and of research; strings and comments may speak of them."""
    classes = {method.class_name for method in METHODS.values()}
    allowed = ("recovery/solvers/", "research/")
    for path in FILES:
        if path.relative_to(ROOT).as_posix().startswith(allowed):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = getattr(node, "id", None) or getattr(node, "attr", None)
            assert name not in classes, f"{path} names {name}"
            if isinstance(node, ast.ImportFrom):
                assert classes.isdisjoint(alias.name for alias in node.names), path
                assert not (node.module or "").startswith("tensormend.recovery.solvers."), path


def test_every_solver_is_a_line_of_the_registry() -> None:
    folder = ROOT / "recovery" / "solvers"
    modules = {method.path.split(".")[0] for method in METHODS.values()}
    assert modules == {path.stem for path in folder.glob("*.py")} - {"__init__"}
    tree = ast.parse((folder / "__init__.py").read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    found = {
        f"{(node.module or '').split('.')[-1]}.{alias.name}"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert found <= {method.path for method in METHODS.values()}  # those that type checkers know
    for name, method in METHODS.items():
        assert method.load().name == name
        assert getattr(tensormend.solvers, method.class_name) is method.load()


OPTIONAL = {
    "matplotlib": "plotting/style.py",
    "pandas": "data/observations/tables.py",
    "sparse": "data/observations/sparse.py",
    "xarray": "data/observations/labelled.py",
    "sklearn": "integrations/sklearn.py",
    "h5py": "data/formats/hdf5.py",
    "h5netcdf": "data/formats/netcdf.py",
    "zarr": "data/formats/zarr_files.py",
    "nibabel": "data/formats/nifti.py",
    "tensorly": "research/bench/peers.py",
    "torch": "research/bench/peers.py",
    "tucker_riemopt": "research/bench/peers.py",
    "pymanopt": "research/bench/peers.py",
    "PIL": "data/formats/images.py",
    "av": "data/formats/video.py",
    "pyarrow": "data/formats/tables.py",
    "tifffile": "data/formats/tiff.py",
    "pyttb": "research/bench/peers.py",
}


@pytest.mark.parametrize("name", OPTIONAL)
def test_optional_dependencies_are_named_in_one_file(name: str) -> None:
    users = {
        path.relative_to(ROOT).as_posix()
        for path in FILES
        if "realdata" not in path.parts  # whose data sets come inside of packages
        and re.search(rf'(^ *(import |from )|require\("){name}\b', path.read_text(), re.M)
    }
    assert users == {OPTIONAL[name]}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_assert_or_print_in_the_package(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        assert not isinstance(node, ast.Assert)
        assert not (isinstance(node, ast.Name) and node.id == "print")


def test_import_is_light() -> None:
    heavy = {*OPTIONAL, "scipy", "tensormend.recovery.loop", "tensormend.completion"}
    for package in ("tensormend", "tensormend.cli"):
        code = f"import sys, {package}; sys.exit(not sys.modules.keys().isdisjoint({heavy}))"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603


def test_public_names_are_those_that_type_checkers_see() -> None:
    tree = ast.parse((ROOT / "__init__.py").read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    found = {
        alias.name: f"{node.module}.".removeprefix("tensormend.")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    homes = {name: f"{home}." for name, home in tensormend._HOMES.items()}
    modules = {name: path.removesuffix(name) for name, path in tensormend._MODULES.items()}
    assert found == homes | modules


def test_public_names_exist() -> None:
    for name in tensormend.__all__:
        assert getattr(tensormend, name) is not None
        assert name in dir(tensormend)


@pytest.mark.parametrize("order", [("complete", "completion"), ("completion", "complete")])
def test_public_names_mean_the_same_in_every_order_of_imports(order: tuple[str, str]) -> None:
    lines = {
        "complete": "assert callable(tm.complete)",
        "completion": "import tensormend.completion",
    }
    code = "; ".join(["import tensormend as tm", *(lines[name] for name in order)])
    code += "; assert callable(tm.complete) and callable(tm.recover) and callable(tm.inspect)"
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603


def test_no_module_bears_the_name_of_an_exported_function() -> None:
    for path in FILES:
        assert path.stem not in {"complete", "recover", "solve"} or "cli" in path.parts
