"""Build the sdist, a wheel from it, and run the tests against the wheel in an empty environment.

The wheel and the sdist go to dist/. The environment has no compiler on its path.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path

from environment import ROOT

DIST = ROOT / "dist"
CHECK = (
    "from pathlib import Path; import tensormend; from tensormend.core import kernels; "
    "assert kernels.is_native; assert 'site-packages' in Path(tensormend.__file__).parts"
)


def run(command: list[object], folder: Path = ROOT, env: Mapping[str, str] = os.environ) -> None:
    """Run a command, and end with its code if it fails."""
    done = subprocess.run(list(map(str, command)), check=False, cwd=folder, env=env)  # noqa: S603
    if done.returncode != 0:
        raise SystemExit(f"this failed, see above: {' '.join(map(str, command))}")


def find_one(pattern: str) -> Path:
    """Return the one file in dist/ that fits."""
    (found,) = DIST.glob(pattern)
    return found


def build_wheel() -> Path:
    """Build the sdist, and a wheel from what is in it."""
    shutil.rmtree(DIST, ignore_errors=True)
    quiet = ["--quiet", "--disable-pip-version-check"]
    run([sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", DIST, ROOT])
    source = find_one("*.tar.gz")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    make = [sys.executable, "-m", "pip", "wheel", *quiet, "--no-deps", "--no-build-isolation"]
    run([*make, "--wheel-dir", DIST, source], env={**os.environ, "PATH": path})
    wheel = find_one("*.whl")
    if "abi3" in wheel.name:
        names = zipfile.ZipFile(wheel).namelist()
        if not any("_native.abi3." in name for name in names):
            raise SystemExit(f"{wheel.name} holds no extension of the stable ABI: {names}")
        run([sys.executable, "-m", "abi3audit", "--strict", "--summary", wheel])
    return wheel


def main() -> None:
    """Build and test."""
    wheel = build_wheel()
    sys.stdout.write(f"{wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB\n")
    sys.stdout.flush()
    with tempfile.TemporaryDirectory(prefix="tensormend-wheel-") as name:
        folder = Path(name)
        venv.create(folder / "env", with_pip=True)
        tools = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
        python = tools / "python"
        bare = {**os.environ, "PATH": str(tools)}
        run([python, ROOT / "tools" / "environment.py", "install", "dev"], folder, bare)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*install, "--no-deps", wheel], folder, bare)
        run([python, "-c", CHECK], folder, bare)
        tests = ["-n", "auto", "--dist", "loadfile", "-q", "-m", "not checkout", ROOT / "tests"]
        run([python, "-m", "pytest", *tests], folder, bare)


if __name__ == "__main__":
    main()
