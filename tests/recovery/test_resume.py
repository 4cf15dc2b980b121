"""``kill -9`` at random moments, then ``--resume``: the same file as a run left alone.

On another processor, the same numbers to rounding.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensormend as tm
from tensormend.cli import main
from tensormend.recovery.checkpoint import MOVED

pytestmark = pytest.mark.numerical

COMMAND = [sys.executable, "-m", "tensormend.cli", "complete", "data.npy", "--quiet"]
N_KILLS = 4
CASES = {
    "auto": ["--rank", "auto"],
    "given": ["--rank", "8", "--validation-fraction", "0.1", "--tol", "0", "--max-iter", "150"],
}


def start(out: str, *options: str) -> subprocess.Popen[bytes]:
    call = [*COMMAND, "-o", out, *options]
    return subprocess.Popen(call, env={**os.environ, "OMP_NUM_THREADS": "1"})  # noqa: S603


def finish(process: subprocess.Popen[bytes]) -> float:
    """Wait for the end, which must be good, and return how long it took."""
    clock = time.monotonic()
    assert process.wait() == 0
    return time.monotonic() - clock


def kill(out: str, options: list[str], seconds: float) -> None:
    """Kill a run after so long; where it was done by then, try again with half of that."""
    process = start(out, *options)
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
    if process.wait() == 0:
        Path(out).unlink()
        shutil.rmtree(options[options.index("--checkpoint") + 1])
        kill(out, options, seconds / 2)


@pytest.mark.parametrize("case", CASES)
def test_a_killed_run_goes_on_to_the_same_file(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shape = "24,25,26" if case == "auto" else "60,60,60"
    assert main(["simulate", "data.npy", "--shape", shape, "--noise", "0.3", "--quiet"]) == 0
    seconds = finish(start("whole.npy", *CASES[case]))
    moments = np.random.default_rng(len(case)).random(N_KILLS)
    for k, moment in enumerate(moments):
        out, options = (
            f"{k}.npy",
            [*CASES[case], "--checkpoint", f"run{k}", "--checkpoint-interval", "0.05"],
        )
        kill(out, options, moment * seconds)
        finish(start(out, *options, "--resume", "--force"))
        assert Path(out).read_bytes() == Path("whole.npy").read_bytes()
    assert not list(tmp_path.rglob("*.part"))


MOVING = """
import sys
import numpy as np
import tensormend as tm

data, options = np.load("data.npy"), eval(sys.argv[1])
n_seen = 0
def look(moment):
    global n_seen
    n_seen += moment.trial is None
    return n_seen == int(sys.argv[2])
place = {"checkpoint": tm.Checkpoint("run", every=1, seconds=0), "resume": True}
result = tm.complete(data, rng=0, callback=look, **place, **options)
np.savez("out.npz", data=result.data, notes=result.notes)
"""
SAME = 1e-6  # of the largest value: rounding, and what it leaves of the last of many iterations


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "options", [{}, {"rank": 3, "center": "all", "validation_fraction": 0.1, "tol": 1e-9}]
)
def test_a_run_goes_on_on_another_processor(
    options: dict[str, Any], dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenBLAS can be told to take the kernels of an old processor; others do not listen."""
    monkeypatch.chdir(tmp_path)
    call = ["simulate", "data.npy", "--shape", "14,15,16", "--rank", "3", "--quiet"]
    assert main([*call, "--noise", "0.1"]) == 0
    data = 100 + np.load("data.npy")
    np.save("data.npy", data.astype(dtype))
    for core, n_iter in (("Prescott", 7), (None, -1)):
        env = dict(os.environ) | ({} if core is None else {"OPENBLAS_CORETYPE": core})
        run = [sys.executable, "-c", MOVING, repr(options), str(n_iter)]
        subprocess.run(run, check=True, env=env)  # noqa: S603
    with np.load("out.npz") as out:
        found, notes = out["data"], tuple(out["notes"].tolist())
    whole = tm.complete(data.astype(dtype), rng=0, **options)
    tol = SAME if dtype == "float64" else 1e3 * SAME
    assert np.abs(found - whole.data).max() <= tol * np.abs(whole.data).max()
    assert len(set(notes) - {MOVED}) == len(whole.notes)


def test_a_checkpoint_of_other_data_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, seed in (("a.npy", "0"), ("b.npy", "1")):
        call = ["simulate", name, "--shape", "9,9,9", "--seed", seed, "--noise", "0.1", "--quiet"]
        assert main(call) == 0
    options = ["-o", "out.npy", "--checkpoint", "run", "--rank", "2", "--quiet", "--force"]
    assert main(["complete", "a.npy", *options]) == 0
    assert main(["complete", "b.npy", *options, "--resume"]) == 2
    assert capsys.readouterr().err.startswith("tensormend: ")
    assert main(["complete", "a.npy", *options, "--resume", "--seed", "5"]) == 2
    assert main(["complete", "a.npy", *options, "--resume"]) == 0


def test_resume_begins_where_there_is_no_checkpoint_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", "a.npy", "--shape", "9,9,9", "--quiet"]) == 0
    options = ["-o", "out.npy", "--rank", "2", "--checkpoint", "run", "--resume"]
    assert main(["complete", "a.npy", *options]) == 0
    assert "there is no checkpoint in run yet; starting anew" in capsys.readouterr().err
    assert any(Path("run").iterdir())


def test_a_run_cut_short_by_its_time_limit_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", "a.npy", "--shape", "24,25,26", "--noise", "0.3", "--quiet"]) == 0
    call = ["complete", "a.npy", "--quiet", "--force", "-o"]
    kept = ["--checkpoint", "run", "--checkpoint-interval", "0.01"]
    assert main([*call, "whole.npy"]) == 0
    assert main([*call, "b.npy", *kept, "--time-limit", "0.2"]) == 0
    assert main([*call, "b.npy", *kept, "--resume"]) == 0
    assert Path("b.npy").read_bytes() == Path("whole.npy").read_bytes()
