"""Write the lock files: exact versions of all that the make targets install, for every Python.

The newest releases are taken that fit each other, with markers where Pythons or systems differ.
Needs uv. No address of an index is written.
"""

from __future__ import annotations

import re
import subprocess
import sys

from environment import LOCK, ROOT, list_requirements

OLDEST_PYTHON = "3.11"
TARGETS = {
    LOCK: (("build", "bench", "dev", "docs", "realdata", "wheel", "workflows"), ["--universal"]),
    # for NumPy 1, and so before Python 3.13
    ROOT / "requirements-riemopt.lock": (("riemopt",), []),
}
HEAD = """# Exact versions for development, written by `make lock`. Users install by pyproject.toml.
# PyTorch is left to pip: which build of it fits depends on the machine.
"""
PYTORCH = re.compile("(torch|triton|nvidia-|cuda-)")


def main() -> None:
    """Resolve the requirements of every target."""
    for path, (names, options) in TARGETS.items():
        command = [sys.executable, "-m", "uv", "pip", "compile", "-", "--quiet", *options]
        command += ["--python-version", OLDEST_PYTHON, "--no-header", "--no-annotate"]
        command += ["--no-emit-index-url", "--no-emit-find-links"]
        done = subprocess.run(  # noqa: S603
            command,
            input="\n".join(list_requirements(names)),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        lines = [line for line in done.stdout.splitlines(True) if not PYTORCH.match(line)]
        path.write_text(HEAD + "".join(lines))
        sys.stdout.write(f"wrote {path.name}, {len(lines)} lines\n")


if __name__ == "__main__":
    main()
