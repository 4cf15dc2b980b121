"""`complete`, `inspect`, `simulate` and `formats` on the command line: files, output, signals."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest
from typer import Context
from typer.main import get_command

import tensormend as tm
import tensormend.cli
from tensormend.cli import bench, main, reproduce
from tensormend.cli.app import COMMANDS, EXAMPLES, OPTIONS, app
from tensormend.cli.exits import MEANINGS
from tensormend.cli.progress import _shorten
from tensormend.cli.words import show
from tensormend.research.bench.suite import SECTIONS
from tensormend.research.experiments.catalogue import EXPERIMENTS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "command-line.md"
COMMAND = [sys.executable, "-m", "tensormend.cli"]
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run every test in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def speeds() -> Path:
    """Return the name of a file with missing entries, in an empty folder."""
    options = ["--shape", "12,13,14", "--rank", "2", "--noise", "0.05", "--ratio", "0.5"]
    assert main(["simulate", "speeds.npy", "--truth", "truth.npy", "--quiet", *options]) == 0
    return Path("speeds.npy")


def run(*arguments: str) -> int:
    return main(["complete", "speeds.npy", *arguments])


# help


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_examples_of_the_help_run(name: str, folder: Path, capsys: Captured) -> None:
    examples = COMMANDS[name][1] if name else EXAMPLES
    assert main([*([name] if name else []), "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for line in examples:
        assert line in shown
        program, *arguments = shlex.split(line)
        assert program == "tensormend"
        assert main(arguments) == 0, line
    assert any(line.startswith(f"tensormend {name}".strip()) for line in examples)
    assert not list(folder.rglob("*.part*"))


HEAVY = ("numpy", "scipy", "pandas", "tensormend.core.algebra", "tensormend.recovery.entry")


@pytest.mark.parametrize(
    ("line", "environment"),
    [
        ("--help", {}),
        ("complete --help", {}),
        ("", {"_TENSORMEND_COMPLETE": "complete_bash", "COMP_WORDS": "tensormend re"}),
    ],
)
def test_help_and_shell_completion_import_nothing_heavy(
    line: str, environment: dict[str, str]
) -> None:
    code = (
        "import atexit, os, sys, tensormend.cli\n"
        f"atexit.register(lambda: sys.modules.keys().isdisjoint({HEAVY}) or os._exit(9))\n"
        f"sys.exit(tensormend.cli.main({line.split()}))"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code],
        env={**os.environ, **environment, "COMP_CWORD": "1"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_names_in_the_help_are_those_of_the_library() -> None:
    assert get_args(reproduce.Name) == (*EXPERIMENTS, "all")
    assert tuple(SECTIONS) == bench.SECTIONS


def test_shell_completion_knows_the_commands() -> None:
    setting = {"_TENSORMEND_COMPLETE": "complete_bash", "COMP_WORDS": "tensormend re"}
    done = subprocess.run(  # noqa: S603
        COMMAND,
        env={**os.environ, **setting, "COMP_CWORD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["reproduce"]


def option_rows(name: str) -> list[str]:
    """Return the rows of the documentation page for the options of a command."""
    command = get_command(app).commands[name]  # type: ignore[attr-defined]
    rows = []
    for option in command.get_params(Context(command)):
        if option.param_type_name == "option" and option.name != "help":
            names = ", ".join(sorted(option.opts, key=len, reverse=True))
            rows.append(f"| `{names} {option.metavar}".rstrip() + f"` | {option.help} |")
    return rows


@pytest.mark.parametrize("name", COMMANDS)
def test_former_options_are_gone(name: str) -> None:
    former = "mask missing holdout scale log model-only strict save-every compact lead order budget"
    options = {word for row in option_rows(name) for word in re.findall(r"`--([a-z-]+)", row)}
    assert options.isdisjoint(former.split())


@pytest.mark.checkout
@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_has_every_command_with_its_options(name: str) -> None:
    text = PAGE.read_text("utf-8")
    assert f"tensormend {name}" in text
    rows = option_rows(name)
    assert not [row for row in rows if row not in text], "\n".join(rows)


@pytest.mark.checkout
def test_the_page_shows_what_its_example_prints(capsys: Captured) -> None:
    commands, *shown = re.findall(r"```\n(.*?)```", PAGE.read_text("utf-8"), re.S)[:3]
    printed = []
    for line in commands.splitlines():
        assert main(shlex.split(line)[2:]) == 0
        printed.append(capsys.readouterr().out)
    for page, out in zip(shown, printed[1:], strict=True):
        assert _labels(page) == _labels(out)


def _labels(text: str) -> list[str]:
    return [row[:12] for row in text.splitlines() if row[:12].strip()]


@pytest.mark.checkout
def test_the_page_has_every_exit_code() -> None:
    text = PAGE.read_text("utf-8")
    for code, meaning in MEANINGS.items():
        assert f"| {code} | {meaning} |" in text


# complete


def test_the_completed_file_is_close_to_the_truth(speeds: Path, capsys: Captured) -> None:
    assert run("-o", "filled.npz") == 0
    streams = capsys.readouterr()
    filled, data, truth = tm.load("filled.npz").values, np.load(speeds), np.load("truth.npy")
    observed = ~np.isnan(data)
    assert (filled[observed] == data[observed]).all()
    assert np.linalg.norm((filled - truth)[~observed]) < 0.15 * np.linalg.norm(truth[~observed])
    for word in ("verdict     Reliable", "error ", "baseline ", "model ", "filled.npz (data)"):
        assert word in streams.out
    assert re.search(r"preprocess  The grand mean -?0\.\d+ subtracted\.\n", streams.out)
    ran = re.search(r"run         (\d+) iterations, .* s\. Search and final fit", streams.out)
    assert ran is not None
    assert int(ran[1]) > 100  # those of the search too
    assert re.match(r"tensormend: \w+, iteration \d+, residual ", streams.err)


@pytest.mark.usefixtures("speeds")
def test_the_same_seed_gives_the_same_file() -> None:
    assert run("-o", "a.npy", "-q") == run("-o", "b.npy", "-q") == 0
    assert Path("a.npy").read_bytes() == Path("b.npy").read_bytes()


@pytest.mark.usefixtures("speeds")
def test_options_reach_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    received: dict[str, Any] = {}
    real = tm.complete

    def spy(data: Any, rank: Any, **settings: Any) -> Any:
        received.update(settings, rank=rank, n_observed=data.n_observed)
        return real(data, 2, rng=0)

    monkeypatch.setattr(tm, "complete", spy)
    observed = np.ones((12, 13, 14))
    observed[0] = 0
    np.save("observed.npy", observed)
    line = (
        "-o a.npy --rank 3,3,2 --method rcg --validation-fraction 0.2 --center 0,2 --standardize 1 "
        "--transform log1p --clip 0, --tol 1e-5 --max-iter 9 --time-limit 2m --memory-limit 1.5G "
        "--threads 1 --seed 4 --observed observed.npy --na-value 0.5"
    )
    assert run(*line.split()) == 0
    assert received.pop("n_observed") == np.sum(~np.isnan(np.load("speeds.npy"))[1:])
    assert callable(received.pop("callback"))
    assert received == {
        "checkpoint": None,
        "resume": False,
        "rank": (3, 3, 2),
        "method": "rcg",
        "validation_fraction": 0.2,
        "center": (0, 2),
        "standardize": 1,
        "transform": "log1p",
        "clip": (0.0, None),
        "tol": 1e-5,
        "max_iter": 9,
        "time_limit": 120.0,
        "memory_limit": 1.5 * 2**30,
        "threads": 1,
        "rng": 4,
    }


@pytest.mark.usefixtures("speeds")
def test_the_interval_reaches_the_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[Any] = []
    real = tm.complete

    def spy(*arguments: Any, checkpoint: Any, **settings: Any) -> Any:
        received.append(checkpoint)
        return real(*arguments, checkpoint=checkpoint, **settings)

    monkeypatch.setattr(tm, "complete", spy)
    call = ["-q", "--rank", "2", "--checkpoint"]
    assert run("-o", "a.npy", *call, "a") == 0
    assert run("-o", "b.npy", *call, "b", "--checkpoint-interval", "2m") == 0
    assert received[0] == Path("a")
    assert received[1].path == Path("b")
    assert received[1].seconds == 120.0


@pytest.mark.usefixtures("speeds")
def test_all_that_was_asked_for_is_written(capsys: Captured) -> None:
    files = ["-o", "smooth.npy", "--save-model", "model.npz"]
    assert run(*files, "--replace-observed", "--rank", "2", "--json", "--quiet") == 0
    streams = capsys.readouterr()
    assert streams.err == ""
    record = json.loads(streams.out)
    assert record["written"] == {"data": "smooth.npy", "model": "model.npz"}
    model = tm.Completion.load("model.npz")
    assert model.rank == (2, 2, 2)
    assert np.array_equal(model.fitted_values().values, np.load("smooth.npy"))


@pytest.mark.checkout
@pytest.mark.usefixtures("speeds")
def test_the_record_is_json_whose_keys_are_documented(capsys: Captured) -> None:
    assert run("-o", "a.npy", "--json", "-q") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["shape"] == [12, 13, 14]
    assert record["verdict"] == "RELIABLE"
    assert 0 < record["error"] < record["baseline_error"]
    assert record["stopped"] is None
    text = PAGE.read_text("utf-8")
    assert main(["inspect", "speeds.npy", "--json", "--time-limit", "0"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["best_rank"] is None
    for key in {**record, **found}:
        assert f"`{key}`" in text, key


@pytest.mark.usefixtures("speeds")
def test_the_code_of_the_record_does_the_same(capsys: Captured) -> None:
    assert run("-o", "a.npy", "--json", "-q", "--center", "mode 0", "--clip", "-9,9") == 0
    record = json.loads(capsys.readouterr().out)
    Path("a.npy").rename("b.npy")
    exec(record["code"], {})  # noqa: S102
    assert Path("a.npy").read_bytes() == Path("b.npy").read_bytes()


@pytest.mark.usefixtures("speeds")
def test_a_report_is_written_with_source_and_code(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, ...]] = []

    def write_report(path: Path, result: Any, **about: Any) -> None:
        calls.append((path, result.rank, about))

    monkeypatch.setitem(
        sys.modules, "tensormend.completion.report", SimpleNamespace(write_report=write_report)
    )
    assert run("--report", "page.html", "--rank", "2", "-q") == 0
    ((path, rank, about),) = calls
    assert (path, rank) == (Path("page.html"), (2, 2, 2))
    assert about["source"] == "speeds.npy"
    assert "tm.complete(data, rank=2, rng=0)" in about["code"]
    assert about["overwrite"] is False


@pytest.mark.usefixtures("speeds")
def test_quiet_prints_nothing(capsys: Captured) -> None:
    assert run("-o", "a.npy", "--quiet") == 0
    assert capsys.readouterr() == ("", "")


def test_a_verdict_of_unreliable_is_an_exit_code_if_asked_for() -> None:
    noise = np.random.default_rng(0).standard_normal((9, 9, 9))
    np.save("noise.npy", np.where(noise > -0.5, noise, np.nan))
    call = ["complete", "noise.npy", "--rank", "4", "--validation-fraction", "0.1", "--quiet", "-f"]
    assert main([*call, "-o", "a.npy"]) == 0
    assert main([*call, "-o", "a.npy", "--fail-if-unreliable"]) == 3


@pytest.mark.usefixtures("speeds")
@pytest.mark.parametrize("rank", ["auto", "2"])
def test_iterations_of_all_fits_are_counted(rank: str, capsys: Captured) -> None:
    assert run("-o", "a.npy", "--rank", rank, "--json", "-q") == 0
    n_iter = json.loads(capsys.readouterr().out)["n_iter"]
    counts: list[int] = []
    given: Any = rank if rank == "auto" else int(rank)
    tm.complete(
        tm.load("speeds.npy"), given, callback=lambda state: counts.append(state.n_iter), rng=0
    )
    assert n_iter == counts[-1]


@pytest.mark.usefixtures("speeds")
def test_a_fit_without_held_out_entries_is_not_assessed(capsys: Captured) -> None:
    assert run("-o", "a.npy", "--rank", "2", "--json") == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "NOT_ASSESSED"


def test_warnings_are_short_lines(capsys: Captured) -> None:
    data = tm.simulate.random_tucker((12, 13, 14), 2, rng=0).todense()
    data[3] = np.nan
    np.save("gap.npy", data)
    assert main(["complete", "gap.npy", "-o", "a.npy", "--rank", "2"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("tensormend: ") for line in lines)
    (warning,) = (line for line in lines if "mode 0" in line)
    assert "Warning" not in warning


# refusals, before any work


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nowhere.npy -o a.npy", "nowhere.npy must be a file that exists"),
        ("speeds.npy", "an output file is required"),
        ("speeds.npy -o a.xyz", "the name of a file must end in one of .npy"),
        ("speeds.npy -o a", "the name of a file must end in one of .npy"),
        ("speeds.npy -o there/a.npy", "the folder of there/a.npy does not exist"),
        ("speeds.npy -o truth.npy", "truth.npy already exists"),
        ("speeds.npy -o speeds.npy --force", "must be another file than the data"),
        ("speeds.npy -o link.npy --force", "must be another file than the data"),
        ("speeds.npy -o truth.npy --observed truth.npy -f", "must be another file than the data"),
        ("speeds.npy -o full.npy --force", "full.npy must be a file, got the name of a folder"),
        ("speeds.npy -o a.npz --save-model full/../a.npz", "different files"),
        ("speeds.npy -o a.npz --save-model a.npz", "different files"),
        ("speeds.npy --save-model a.npy", "--save-model must be a file whose name ends in .npz"),
        ("speeds.npy -o a.npy --report a.pdf", "--report must be a file whose name ends in .html"),
        ("speeds.npy -o a.npy --resume", "--resume needs --checkpoint"),
        ("speeds.npy -o a.npy --rank 2 --fail-if-unreliable", "add --validation-fraction 0.1"),
        ("speeds.npy -o a.npy --checkpoint-interval 9", "needs --checkpoint, got none"),
        ("speeds.npy -o a.npy --checkpoint truth.npy", "--checkpoint must be a folder"),
        ("speeds.npy -o a.npy --checkpoint full", "must be a new or empty folder, got full"),
        ("speeds.npy -o a.npy --rank x", "expected auto, a number such as 8"),
        ("speeds.npy -o a.npy --time-limit soon", "expected a time above 0"),
        ("speeds.npy -o a.npy --time-limit 0", "expected a time above 0"),
        ("speeds.npy -o a.npy --memory-limit 4X", "expected an amount of memory"),
        ("speeds.npy -o a.npy --clip 1", "expected two bounds"),
        ("speeds.npy -o a.npy --modes a,,b", "expected names separated by commas"),
        ("speeds.npy -o a.npy --threads 0", "--threads"),
        ("speeds.npy -o a.npy --seed -1", "--seed"),
        ("speeds.npy -o a.npy --nonsense", "--nonsense"),
        ("-o a.npy", "IN"),
    ],
)
@pytest.mark.usefixtures("speeds")
def test_bad_usage_is_refused_before_any_work(
    line: str, words: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tm, "load", lambda *_, **__: pytest.fail("a file was read"))
    Path("full").mkdir()
    Path("full/state").touch()
    Path("full.npy").mkdir()
    Path("link.npy").symlink_to("speeds.npy")
    before = {path: path.read_bytes() for path in Path().glob("*.np*") if path.is_file()}
    assert main(["complete", *line.split()]) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.startswith("tensormend: ")
    assert streams.err.count("\n") == 1
    assert words in streams.err
    after = {path: path.read_bytes() for path in Path().glob("*.np*") if path.is_file()}
    assert after == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--rank 99", "use at most 12 there"),
        ("--rank 2,2", "rank must be one int or one per mode"),
        ("--standardize city", "a mode must be one of mode 0, mode 1, mode 2"),
        ("--center 3", "or a number from 0 to 2, got '3'"),
        ("--method best", "method='best' needs a rank"),
        ("--validation-fraction 0.9", "at most 0.5"),
        ("--tol 1e-3", "tol needs a rank"),
        ("--observed nowhere.npy", "nowhere.npy must be a file that exists"),
    ],
)
@pytest.mark.usefixtures("speeds")
def test_what_does_not_fit_the_data_is_refused(options: str, words: str, capsys: Captured) -> None:
    assert run("-o", "a.npy", "-q", *options.split()) == 2
    assert words in capsys.readouterr().err
    assert not Path("a.npy").exists()


def never(*_: Any, **__: Any) -> None:
    pytest.fail("the work has begun")


def test_data_without_missing_entries_are_refused(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save("whole.npy", np.arange(60.0).reshape(3, 4, 5))
    assert main(["inspect", "whole.npy", "--time-limit", "0"]) == 0
    out = capsys.readouterr().out
    assert "no entry is missing" in out
    assert "tensormend complete" not in out
    assert main(["inspect", "whole.npy", "--time-limit", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["command"] is None
    call = ["complete", "whole.npy", "--rank", "1", "-q"]
    assert main([*call, "-o", "a.npy", "--replace-observed"]) == 0
    assert main([*call, "--save-model", "m.npz"]) == 0
    monkeypatch.setattr(tm, "complete", never)
    assert main([*call, "-o", "b.npy"]) == 2
    assert "got 60 entries that are all observed; if some values mark" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("shape", "details", "output", "words"),
    [
        ((6, 7), {}, "a.png", "a .png file holds whole numbers from 0 to 65535, got float64"),
        ((6, 7, 8), {"dtype": "uint8"}, "a.png", "holds one image, got 6 frames"),
        ((6, 7, 8), {"dtype": "uint8"}, "a.mp4", "even numbers of rows and columns, got 7 and 8"),
        ((60, 61, 62), {"dtype": "uint8"}, "a.mp4", "needs even numbers of rows and columns"),
    ],
)
def test_what_a_format_cannot_hold_is_refused_before_the_work(
    shape: tuple[int, ...],
    details: dict[str, Any],
    output: str,
    words: str,
    folder: Path,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = np.ones(shape)
    values[0, 0] = np.nan
    data = tm.TensorData(values, encoding=details)
    np.save("in.npy", values)
    monkeypatch.setattr(tm, "load", lambda *_, **__: data)
    monkeypatch.setattr(tm, "complete", never)
    assert main(["complete", "in.npy", "-o", output]) == 2
    assert words in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["in.npy"]


@pytest.mark.usefixtures("speeds")
def test_a_refused_format_names_the_output(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, _: Any) -> None:
        raise tm.errors.InputError(f"{path} is no good")

    monkeypatch.setattr(tm, "save", refuse)
    monkeypatch.setattr(tm, "complete", never)
    assert run("-o", "a.tif") == 2
    assert capsys.readouterr().err == "tensormend: a.tif is no good\n"


def test_errors_name_options(capsys: Captured) -> None:
    a = np.where(np.eye(4) > 0, np.nan, 1.0)
    np.savez("two.npz", a=a, b=a)
    assert main(["complete", "two.npz", "-o", "a.npz"]) == 2
    assert capsys.readouterr().err.endswith("; name one with variable= (option --variable)\n")
    assert main(["complete", "two.npz", "--variable", "a", "-o", "a.npz", "--method", "x"]) == 2
    assert "needs a rank; give one" in capsys.readouterr().err


def test_every_setting_has_an_option(speeds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: set[str] = set()

    def spy(*_: Any, **settings: Any) -> Any:
        asked.update(settings)
        raise tm.errors.InputError("no", parameter="rng")

    monkeypatch.setattr(tm, "complete", spy)
    line = "-o a.npy -q --model tucker --center none --seed 4 --threads 1 --time-limit 1m"
    assert main(["complete", str(speeds), *line.split()]) == 2
    flags = {flag for row in option_rows("complete") for flag in re.findall(r"--[a-z-]+", row)}
    assert set(OPTIONS.values()) <= flags
    assert asked - {"callback", "progress"} <= OPTIONS.keys()


def test_a_checkpoint_of_another_run_is_refused(speeds: Path, capsys: Captured) -> None:
    call = ["complete", str(speeds), "--checkpoint", "run", "-q", "--max-iter", "3"]
    assert main([*call, "-o", "a.npy", "--rank", "1"]) == 0
    assert main([*call, "-o", "b.npy", "--rank", "2", "--resume"]) == 2
    assert "another run: rank was (1, 1, 1) and is (2, 2, 2) now; resume" in capsys.readouterr().err


@pytest.mark.usefixtures("speeds")
def test_files_are_replaced_only_by_force() -> None:
    Path("a.npy").write_text("precious")
    assert run("-o", "a.npy", "-q") == 2
    assert Path("a.npy").read_text() == "precious"
    assert run("-o", "a.npy", "-q", "--force") == 0
    assert np.load("a.npy").shape == (12, 13, 14)


def test_a_damaged_file_is_one_sentence(capsys: Captured) -> None:
    Path("bad.npy").write_bytes(b"not an array")
    assert main(["complete", "bad.npy", "-o", "a.npy"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.usefixtures("speeds")
def test_too_little_memory_is_exit_code_4(capsys: Captured) -> None:
    assert run("-o", "a.npy", "--memory-limit", "1K") == 4
    err = capsys.readouterr().err
    assert "above the limit" in err
    assert err.endswith("(option --memory-limit)\n")


def test_a_tensor_too_large_to_write_out_still_has_a_model(capsys: Captured) -> None:
    shape = (1000, 1000, 1000)
    truth = tm.simulate.random_tucker(shape, 1, rng=0)
    indices = tm.simulate.sample_indices(shape, 20_000, rng=1)
    tm.save("huge.npz", tm.TensorData(truth.entries(indices), indices=indices, shape=shape))
    call = ["complete", "huge.npz", "--rank", "1", "--max-iter", "3", "--quiet"]
    assert main([*call, "-o", "a.npy"]) == 4
    assert "use --save-model FILE.npz instead of -o" in capsys.readouterr().err
    assert main([*call, "--save-model", "model.npz"]) == 0
    assert tm.Completion.load("model.npz").shape == shape


@pytest.mark.usefixtures("speeds")
def test_an_internal_error_is_one_line_or_with_debug_a_traceback(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tm, "load", lambda *_, **__: 1 / 0)
    assert run("-o", "a.npy") == 1
    err = capsys.readouterr().err
    assert "internal error: ZeroDivisionError" in err
    assert "Traceback" not in err
    assert main(["--debug", "complete", "speeds.npy", "-o", "a.npy"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.usefixtures("speeds")
def test_a_full_disk_is_exit_code_1(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tm, "save", fail)
    assert run("-o", "a.npy", "-q") == 1
    assert "No space left on device" in capsys.readouterr().err


# signals


def raising(number: int, times: int, states: list[Any]) -> Callable[..., Any]:
    """Return a `complete` that is sent a signal ``times`` times at its third iteration."""
    real = tm.complete

    def complete(*arguments: Any, callback: Any, **settings: Any) -> Any:
        def watch(state: Any) -> bool:
            states.append(state)
            for _ in range(times if len(states) == 3 else 0):
                os.kill(os.getpid(), number)
            return bool(callback(state))

        return real(*arguments, callback=watch, **settings)

    return complete


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("rank", ["auto", "2"])
@pytest.mark.usefixtures("speeds")
def test_the_first_signal_leaves_a_result_and_a_checkpoint(
    number: signal.Signals,
    rank: str,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    complete = tm.complete
    states: list[Any] = []
    uninterrupted: list[Any] = []
    monkeypatch.setattr(tm, "complete", raising(number, times=1, states=states))
    before = signal.getsignal(number)
    call = ["-o", "a.npy", "--checkpoint", "run", "--rank", rank]
    assert run(*call) == 128 + number
    assert signal.getsignal(number) is before
    streams = capsys.readouterr()
    assert "stopping after this iteration" in streams.err
    assert "continue with the same command and --resume --force" in streams.err
    assert f"Interrupted by {number.name}." in streams.out
    assert np.isfinite(np.load("a.npy")).all()
    monkeypatch.setattr(tm, "complete", complete)
    assert run(*call, "--resume", "--force", "-q") == 0
    monkeypatch.setattr(tm, "complete", raising(number, times=0, states=uninterrupted))
    assert run("-o", "b.npy", "--rank", rank, "-q") == 0
    assert len(states) < len(uninterrupted)
    assert Path("a.npy").read_bytes() == Path("b.npy").read_bytes()


@pytest.mark.usefixtures("speeds")
def test_the_second_signal_ends_at_once_and_writes_nothing(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tm, "complete", raising(signal.SIGINT, times=2, states=[]))
    assert run("-o", "a.npy") == 130
    assert "exited without writing a result" in capsys.readouterr().err
    assert sorted(path.name for path in Path().iterdir()) == ["speeds.npy", "truth.npy"]


@pytest.mark.usefixtures("speeds")
def test_a_signal_before_there_is_a_result_ends_at_once(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tm, "load", lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM))
    assert run("-o", "a.npy") == 143
    assert "before there was a result" in capsys.readouterr().err


# data that take more than the tenth of a second after which a bar is drawn again
SIMULATE_NOISY = ["simulate", "noisy.npy", "--shape", "50,50,50", "--noise", "0.5", "-q"]


def test_ctrl_c_in_a_process_of_its_own() -> None:
    assert main(SIMULATE_NOISY) == 0
    call = [*COMMAND, "complete", "noisy.npy", "-o", "a.npy", "--checkpoint", "run", "--threads=1"]
    with subprocess.Popen(call, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stderr is not None
        assert "iteration" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == 130
    assert "--resume --force" in rest
    assert np.isfinite(np.load("a.npy")).all()
    assert any(Path("run").iterdir())


# progress


def test_on_a_terminal_there_is_a_bar() -> None:
    assert main(SIMULATE_NOISY) == 0
    ours, theirs = pty.openpty()
    shown: list[bytes] = []

    def listen() -> None:
        try:
            while part := os.read(ours, 4096):
                shown.append(part)
        except OSError:  # the other end is closed
            pass

    listener = threading.Thread(target=listen)
    listener.start()
    done = subprocess.run(  # noqa: S603
        [*COMMAND, "complete", "noisy.npy", "-o", "a.npy"],
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        check=False,
    )
    os.close(theirs)
    listener.join()
    os.close(ours)
    text = b"".join(shown).decode()
    assert done.returncode == 0
    assert "\u2501" in text  # the bar
    plain = _without_codes(text)
    assert re.search("(search|weights|rank|fit) +\u2501.* iteration ", plain)
    lines = re.split(r"[\r\n]+", plain)
    assert max(map(len, lines)) <= 77  # beyond, the ^C of the terminal would move on to a new line
    assert "\x1b" not in done.stdout
    assert "verdict" in done.stdout


def _without_codes(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


@pytest.mark.parametrize("width", [200, 54, 36, 5])
def test_numbers_beside_the_bar_fit(width: int) -> None:
    state = tm.CompletionProgress("weights", 12345, 1.23e-05, 1.23e-04, 0.3, 4000.0, "")
    line = _shorten(state, None, width)
    assert len(line) <= width
    assert ("iteration 12345" in line) == (width > 5)
    assert ("held" in line) == (width > 36)
    assert ("residual" in line) == (width > 54)


# streams


def in_shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in which T stands for the command."""
    return subprocess.run(  # noqa: S603
        ["/bin/sh", "-c", line.replace("T ", shlex.join(COMMAND) + " ")],
        env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.usefixtures("speeds")
@pytest.mark.parametrize("streams", ["2>&1 | true", ">&- 2>&- <&-", "2>/dev/full >/dev/null"])
def test_a_run_survives_closed_and_full_streams(streams: str) -> None:
    done = in_shell(f"(T complete speeds.npy --rank 2 -o a.npy; echo $? > code) {streams}")
    assert done.stderr == ""
    assert Path("code").read_text() == "0\n"
    assert np.load("a.npy").shape == (12, 13, 14)


def test_a_stdout_that_cannot_be_written_is_reported(folder: Path) -> None:  # noqa: ARG001
    done = in_shell("T formats > /dev/full")
    assert done.returncode == 1
    assert done.stderr.startswith("tensormend: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.usefixtures("speeds")
def test_characters_that_a_stream_cannot_encode_are_escaped() -> None:
    done = in_shell("T complete speeds.npy --rank 2 -o a.npy", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "\\xb1" in done.stdout


@pytest.mark.parametrize(("color", "is_dim"), [("", True), ("1", False)])
def test_no_color_is_respected(
    color: str, is_dim: bool, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("NO_COLOR", color)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show([("label", "a text that is longer than one line of 40 columns")])
    lines = capsys.readouterr().out
    assert ("\x1b" in lines) == is_dim
    assert max(map(len, lines.replace("\x1b[2m", "").replace("\x1b[0m", "").split("\n"))) <= 40


def test_inspect_suggests_a_command_that_works_for_odd_names(capsys: Captured) -> None:
    np.save("-x y.npy", np.where(np.eye(4) > 0, np.nan, 1.0))
    assert main(["inspect", "--time-limit", "0", "--json", "--", "-x y.npy"]) == 0
    words = shlex.split(json.loads(capsys.readouterr().out)["command"])
    assert main([*words[1:], "--rank", "1", "-q"]) == 0


# inspect, simulate, formats


@pytest.mark.usefixtures("speeds")
def test_inspect_describes_the_file(capsys: Captured) -> None:
    assert main(["inspect", "speeds.npy"]) == 0
    out = capsys.readouterr().out
    for words in (
        "12 x 13 x 14",
        "50%",
        "single entries",
        "rank        2: its relative error",
        "roughly ",
    ):
        assert words in out
    assert "--rank 2 --validation-fraction 0.1" in " ".join(out.split())
    assert main(["inspect", "speeds.npy", "--na-value", "0", "--json", "--time-limit", "0"]) == 0
    command = json.loads(capsys.readouterr().out)["command"]
    assert command == "tensormend complete speeds.npy --na-value 0.0 -o filled.npy"


def test_inspect_names_slices_without_data(capsys: Captured) -> None:
    data = np.random.default_rng(0).random((6, 7, 8))
    data[:, 2] = np.nan
    tm.save("a.npz", tm.TensorData(data, dims=("city", "year", "month")))
    assert main(["inspect", "a.npz", "--time-limit", "0"]) == 0
    out = capsys.readouterr().out
    assert "year: 7 slices" in out
    assert "no observed entry at 2 (1 of 7 slices)" in out


def test_inspect_counts_one_as_one(capsys: Captured) -> None:
    data = np.ones((1, 3, 4))
    data[0, 0, :] = np.nan
    data[0, 2, 1] = np.nan
    np.save("a.npy", data)
    assert main(["inspect", "a.npy", "--time-limit", "0"]) == 0
    out = capsys.readouterr().out
    assert "mode 0      1 slice, " in out
    assert "1 fibre without observed entries" in out
    assert not re.search(r"\b1 (slices|fibres)", out)


def test_simulate_keeps_to_its_seed_and_truth() -> None:
    call = ["--noise", "0", "--ratio", "0.4", "--quiet", "--shape", "6,7,8", "--rank", "2"]
    assert main(["simulate", "a.npy", "--truth", "t.npz", *call]) == 0
    assert main(["simulate", "b.npy", *call]) == 0
    assert main(["simulate", "c.npy", "--seed", "1", *call]) == 0
    a, b, c, truth = np.load("a.npy"), np.load("b.npy"), np.load("c.npy"), tm.load("t.npz").values
    assert np.array_equal(a, b, equal_nan=True)
    assert not np.array_equal(a, c, equal_nan=True)
    observed = ~np.isnan(a)
    assert observed.sum() == round(0.4 * a.size)
    assert np.allclose(a[observed], truth[observed])
    assert np.sqrt(np.mean(truth**2)) == pytest.approx(1)
    assert tm.algebra.multilinear_rank(truth) == (2, 2, 2)


def test_simulate_leaves_out_whole_fibres() -> None:
    assert main(["simulate", "a.npy", "--pattern", "fibres", "--mode", "1", "--quiet"]) == 0
    observed = ~np.isnan(np.load("a.npy"))
    assert (observed.any(axis=1) == observed.all(axis=1)).all()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a.npy --rank auto", "--rank must be one number"),
        ("a.npy --noise -1", "--noise must be a finite number, 0 or more"),
        ("a.npy --seed -1", "--seed"),
        ("a.npy --truth a.npy", "must be different files"),
        ("a.npy --ratio 2", "--ratio must be above 0 and at most 1"),
        ("a.npy --pattern rows", "'rows'"),
        ("a.npy --shape 3;4", "expected one number per mode"),
        ("a.npy --pattern fibres --mode 5", "mode must lie between"),
    ],
)
def test_simulate_refuses(line: str, words: str, folder: Path, capsys: Captured) -> None:
    assert main(["simulate", *line.split()]) == 2
    assert words in capsys.readouterr().err
    assert not list(folder.iterdir())


def test_formats_are_listed_with_what_they_need(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = replace(tm.formats.FORMATS[0], name="Table", suffixes=(".table",), extra="tables")
    monkeypatch.setattr(tm.formats, "FORMATS", (*tm.formats.FORMATS, form))
    monkeypatch.setattr(tm.formats.registry, "FORMATS", tm.formats.FORMATS)
    assert main(["formats"]) == 0
    out = capsys.readouterr().out
    assert all(" ".join(form.suffixes) in out for form in tm.formats.FORMATS)
    assert "pip install" not in out
    monkeypatch.setattr(importlib.metadata, "version", _refuse)
    assert main(["formats"]) == 0
    assert "Table" in (out := capsys.readouterr().out)
    assert "pip install 'tensormend[tables]'" in out
    assert main(["simulate", "a.table"]) == 2  # before the work, not after it
    assert "needs pyarrow, which is not installed; pip install 'tensormend[tables]'" in " ".join(
        capsys.readouterr().err.split()
    )


def _refuse(name: str) -> str:
    raise importlib.metadata.PackageNotFoundError(name)


def test_the_package_has_no_assert_or_print() -> None:
    for path in Path(tensormend.cli.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            assert not isinstance(node, ast.Assert)
            assert not (isinstance(node, ast.Name) and node.id == "print")
