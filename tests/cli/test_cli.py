"""The command line, and the examples of the README."""

from __future__ import annotations

import re
import shlex
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import tensormend as tm
from tensormend.cli import main
from tensormend.data.datasets import load_indian_pines
from tensormend.plotting import save_completion

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
README_COMMANDS = re.findall(r"^tensormend (?:complete|inspect) indian-pines.*$", README, re.M)
README_BLOCKS = re.findall(r"```python\n(.*?)```", README, re.S)


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tensormend {version('tensormend')}\n"


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "demo" in capsys.readouterr().out


def test_demo_recovers_more_than_the_band_means(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "folder"
    assert main(["demo", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    match = re.search(r"hidden entries .* ([\d.]+)% +([\d.]+)%", printed)
    assert match is not None, printed
    means, recovered = map(float, match.groups())
    assert recovered < 0.3 * means
    assert "shrinkage of strength" in printed
    expected = re.search(r"error .* ([\d.]+)% of the RMS", printed)
    assert expected is not None
    assert abs(float(expected.group(1)) - recovered) < 0.2 * recovered
    made = {f"indian-pines.{end}" for end in ("png", "html", "csv", "nc", "gif")}
    assert {path.name for path in out.iterdir()} == made  # and no leftovers
    _check_picture(out / "indian-pines.png")


def _check_picture(path: Path) -> None:
    image = pytest.importorskip("matplotlib.image").imread(path)
    assert image.shape[0] > 500
    assert image.shape[1] > 1000
    assert image[:, :, :3].std() > 0.1  # not a blank page


def test_demo_depends_on_nothing_but_its_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed, pictures = [], []
    for _ in range(2):
        assert main(["demo", "--out", str(tmp_path), "--rank", "4"]) == 0
        printed.append(re.sub(r"run .*", "", capsys.readouterr().out))
        pictures.append((tmp_path / "indian-pines.png").read_bytes())
    assert printed[0] == printed[1]
    assert pictures[0] == pictures[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--ratio", "1.5"], "--ratio must be"),
        (["--ratio", "0.00001"], "without any observed entry"),
        (["--seed", "-1"], "--seed"),
        (["--rank", "2,2"], "rank"),
        (["--rank", "0"], "rank"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    assert main(["demo", "--out", str(tmp_path), *options]) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.startswith("tensormend: ")
    assert words in streams.err
    assert streams.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    assert main(["demo", "--out", str(tmp_path / "file" / "folder")]) == 2
    assert "--out must be a folder" in capsys.readouterr().err


def test_missing_matplotlib_names_the_extra(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["demo", "--out", str(tmp_path / "never")]) == 2
    assert "pip install 'tensormend[plot]'" in capsys.readouterr().err
    assert not (tmp_path / "never").exists()


def test_picture_of_arrays_that_do_not_fit_is_refused(tmp_path: Path) -> None:
    cube = np.zeros((3, 4, 5))
    with pytest.raises(tm.errors.InputError, match="one shape"):
        save_completion(
            tmp_path / "x.png", cube, cube[1:] > 0, cube, band=0, pixel=(0, 0), bands=None
        )
    assert not list(tmp_path.iterdir())


def test_the_image_cube_is_what_its_readme_says() -> None:
    pines = load_indian_pines()
    assert pines.cube.shape == (64, 64, 65)
    assert pines.cube.dtype == np.float64
    assert (pines.cube.min(), pines.cube.max()) == (987, 8999)
    assert len(pines.bands) == 65
    assert (np.diff(pines.bands) > 0).all()
    # no value whose upper byte could be damaged
    assert not (pines.cube // 256 == 10).any()
    # bands are images, not noise: a pixel is close to the median of its neighbourhood
    windows = sliding_window_view(pines.cube, (3, 3), axis=(0, 1))
    rough = np.abs(pines.cube[1:-1, 1:-1] - np.median(windows, axis=(3, 4)))
    assert (rough.mean(axis=(0, 1)) < 0.5 * pines.cube.std(axis=(0, 1))).all()


@pytest.mark.checkout
def test_readme_has_examples() -> None:
    assert len(README_BLOCKS) == 6
    assert len(README_COMMANDS) == 4


@pytest.mark.checkout
def test_readme_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--rank", "3", "--out", "."]) == 0
    for line in README_COMMANDS:
        words = shlex.split(line, comments=True)[1:]
        short = ["--rank", "3"] if words[0] == "complete" else ["--time-limit", "1"]
        assert main([*words, *short]) == 0
    assert Path("report.html").is_file()
    for end in ("csv", "nc", "gif"):
        filled = tm.load(f"filled.{end}")
        assert filled.n_observed == filled.todense().size


@pytest.mark.checkout
@pytest.mark.parametrize("source", README_BLOCKS, ids=lambda source: source.splitlines()[-1])
def test_readme_example_runs(source: str) -> None:
    names: dict[str, object] = {}
    exec(compile(source, "README.md", "exec"), names)  # noqa: S102
    result = names["result"]
    assert isinstance(result, tm.Result | tm.Completion)
    assert result.success
    if isinstance(result, tm.Completion) and result.trials:
        assert result.trust.verdict.name == "RELIABLE"
        return
    truth = names["truth"]
    assert isinstance(truth, tm.Tucker | np.ndarray)
    size = truth.norm() if isinstance(truth, tm.Tucker) else np.linalg.norm(truth)
    fit = result.fit if isinstance(result, tm.Completion) else result
    assert fit.x.distance(truth) < 1e-5 * size  # a little above the tolerance of the residual
