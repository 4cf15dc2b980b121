"""Install what the make targets need into the environment of the Python that runs this.

``install EXTRA ...`` installs the requirements of some extras of pyproject.toml (``build`` stands
for those of the build), in the versions of requirements.lock or, where these cannot be had, of
pyproject.toml. ``build`` compiles the package and installs it in place. ``list EXTRA ...`` prints
the requirements.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements.lock"
BUILD_TOOLS = ("cmake>=3.26", "ninja>=1.10")  # so that none of the system is needed
STEP = re.compile(r"\[(\d+)/(\d+)\] Building")
SHOWN = 5  # seconds between two lines where there is no terminal to write over


def say(words: str) -> None:
    """Tell the user, at once."""
    sys.stdout.write(words)
    sys.stdout.flush()


def list_requirements(names: Sequence[str]) -> list[str]:
    """Return the requirements of the package and of some extras, those of others included."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = settings["project"]
    extras = project["optional-dependencies"]

    def expand(requirements: Sequence[str]) -> Iterator[str]:
        for requirement in requirements:
            own = re.fullmatch(rf"{project['name']}\[(.*)\]", requirement)
            if own is None:
                yield requirement
            else:
                for extra in own[1].split(","):
                    yield from expand(extras[extra.strip()])

    found = list(expand(project["dependencies"])) if set(names) != {"build"} else []
    for name in names:
        if name == "build":
            found += [*settings["build-system"]["requires"], *BUILD_TOOLS]
        elif name in extras:
            found += expand(extras[name])
        else:
            raise SystemExit(f"extras are build, {', '.join(extras)}; got {name}")
    return sorted(set(found))


def install(names: Sequence[str], versions: str, lock: Path) -> None:
    """Install requirements in locked, the newest or the oldest versions."""
    requirements = list_requirements(names)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    say(f"installing {len(requirements)} packages and what these need for {', '.join(names)}\n")
    if versions == "oldest":
        subprocess.run([*pip, "uv"], check=True)  # noqa: S603
        tool = [sys.executable, "-m", "uv", "pip", "install", "--quiet"]
        tool += ["--python", sys.executable, "--resolution", "lowest-direct", "--reinstall"]
        tool += ["--only-binary", ":all:"]
        subprocess.run([*tool, *requirements], check=True)  # noqa: S603
        return
    if versions == "newest":
        chosen = ["--upgrade", "--upgrade-strategy", "eager", *requirements]
        subprocess.run([*pip, *chosen], check=True)  # noqa: S603
        return
    locked = subprocess.run(  # noqa: S603
        [*pip, "--constraint", str(lock), *requirements], check=False
    )
    if locked.returncode != 0:
        say(
            f"the versions of {lock.name} cannot be had here (see above): "
            "installing those that pyproject.toml allows\n"
        )
        subprocess.run([*pip, *requirements], check=True)  # noqa: S603


NATIVE = "from tensormend.core import kernels; raise SystemExit(not kernels.is_native)"


def build(stamp: Path | None) -> None:
    """Compile the package and install it in place; nothing is compiled that has not changed.

    The stamp, by which make knows that this is done, is left out where there is no compiler: it
    is looked for again next time.
    """
    folder = Path(sys.prefix) / "build"
    command = [sys.executable, "-m", "pip", "install", "-v", "--no-deps", "--no-build-isolation"]
    command += ["--disable-pip-version-check", "-C", f"build-dir={folder}"]
    say("compiling the kernels, which takes about a minute on two cores the first time\n")
    paths = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    clock = shown = time.monotonic()
    log = []
    with subprocess.Popen(  # noqa: S603
        [*command, "--editable", str(ROOT)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=paths,
    ) as process:
        for line in process.stdout or ():
            log.append(line)
            step = STEP.search(line)
            if step is not None:
                words = f"compiled {step[1]} of {step[2]} files"
                if sys.stdout.isatty():
                    say(f"\r{words} ")
                elif time.monotonic() > shown + SHOWN:
                    say(f"{words}\n")
                    shown = time.monotonic()
    if process.returncode != 0:
        say("".join(log))
        raise SystemExit("the package could not be installed: see above")
    start = "\r" if sys.stdout.isatty() else ""
    say(f"{start}the package is installed, after {time.monotonic() - clock:.0f} seconds\n")
    has_kernels = subprocess.run(  # noqa: S603
        [sys.executable, "-W", "ignore", "-c", NATIVE], check=False
    )
    if has_kernels.returncode != 0:
        say(
            "the kernels were not compiled, so the slower NumPy versions are used: install a C++17 "
            "compiler and the headers of Python (g++ and python3-dev on Debian and Ubuntu)\n"
        )
    elif stamp is not None:
        stamp.touch()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    to_install = actions.add_parser("install")
    to_install.add_argument("names", nargs="+", metavar="EXTRA")
    to_install.add_argument("--versions", choices=["locked", "newest", "oldest"], default="locked")
    to_install.add_argument("--lock", type=Path, default=LOCK)
    to_build = actions.add_parser("build")
    to_build.add_argument("--stamp", type=Path, help="file to touch once all is compiled")
    to_list = actions.add_parser("list")
    to_list.add_argument("names", nargs="+", metavar="EXTRA")
    given = parser.parse_args()
    try:
        if given.action == "install":
            install(given.names, given.versions, given.lock)
        elif given.action == "build":
            build(given.stamp)
        else:
            say("".join(f"{requirement}\n" for requirement in list_requirements(given.names)))
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"this failed, see above: {' '.join(error.cmd)}") from None


if __name__ == "__main__":
    main()
