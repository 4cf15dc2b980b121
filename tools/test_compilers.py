"""Compile the kernels with other compilers, and check them beside plain loops.

With Clang, and for aarch64 by a cross compiler, under qemu where that is installed. What is not
installed is skipped, and said to be.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CROSS = "aarch64-linux-gnu"
EMULATOR = ["qemu-aarch64", "-L", f"/usr/{CROSS}"]


def say(words: str) -> None:
    """Tell the user, before what follows."""
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def check(name: str, options: list[str], runner: list[str]) -> None:
    """Build the program that checks the loops, and run it."""
    folder = Path(sys.prefix) / f"check-{name}"
    tools = Path(sys.executable).parent
    say(f"{name}: compiling")
    configure = [str(tools / "cmake"), "-G", "Ninja", "-S", str(ROOT), "-B", str(folder)]
    configure += [f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}", "-DTENSORMEND_CHECK=ON", *options]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
    build = [str(tools / "cmake"), "--build", str(folder), "--", "--quiet"]
    subprocess.run(build, check=True)  # noqa: S603
    if runner and shutil.which(runner[0]) is None:
        say(f"{name}: compiled; running it is skipped, {runner[0]} is not installed")
        return
    subprocess.run([*runner, str(folder / "check_loops")], check=True)  # noqa: S603


def main() -> None:
    """Check with every compiler that is there."""
    compilers = {
        "clang": ("clang++", ["-DCMAKE_CXX_COMPILER=clang++"], []),
        "aarch64": (
            f"{CROSS}-g++",
            [
                f"-DCMAKE_CXX_COMPILER={CROSS}-g++",
                "-DCMAKE_SYSTEM_NAME=Linux",
                "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
            ],
            EMULATOR,
        ),
    }
    for name, (compiler, options, runner) in compilers.items():
        if shutil.which(compiler) is None:
            say(f"{name}: skipped, {compiler} is not installed")
            continue
        try:
            check(name, options, runner)
        except subprocess.CalledProcessError as error:
            raise SystemExit(f"{name}: failed with code {error.returncode}") from None


if __name__ == "__main__":
    main()
