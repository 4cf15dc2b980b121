"""Run the tests of the kernels on extensions built with the sanitizers of GCC.

Once with those of addresses and undefined behaviour, once with that of threads. An environment of
its own holds what the tests need, beside it the package as each build makes it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from environment import NATIVE, ROOT

HOME = Path(sys.prefix) / "sanitizers"
TESTS = ["core/test_kernels.py", "core/test_fibres.py", "data/test_formats_tns.py"]
SANITIZERS = {"address,undefined": "libasan.so", "thread": "libtsan.so"}
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0",  # Python and NumPy keep memory until the process ends
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1",
    "PYTHONMALLOC": "malloc",
    "CI": "true",  # no deadlines: everything is slower
}


def find_library(name: str) -> str:
    """Return the path of a library of the compiler's, to be loaded before Python."""
    compiler = os.environ.get("CXX", "g++")
    command = [compiler, f"-print-file-name={name}"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    path = found.stdout.strip()
    if not Path(path).is_absolute():
        raise SystemExit(f"{compiler} has no {name}")
    return path


def check(sanitizers: str, library: str) -> None:
    """Build the package with some sanitizers, and run the tests on it."""
    name = sanitizers.replace(",", "-")
    package, python = HOME / name, HOME / "env" / "bin" / "python"
    sys.stdout.write(f"{sanitizers}: compiling\n")
    sys.stdout.flush()
    shutil.rmtree(package, ignore_errors=True)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    install += ["--no-build-isolation", "--disable-pip-version-check", "--target", str(package)]
    install += ["-C", f"cmake.define.TENSORMEND_SANITIZE={sanitizers}"]
    install += ["-C", f"build-dir={HOME / f'build-{name}'}", str(ROOT)]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(install, check=True, env={**os.environ, "PATH": path})  # noqa: S603
    # the library of C++ as well, lest the sanitizer finds no exceptions to watch
    libraries = f"{find_library(library)} {find_library('libstdc++.so')}"
    runtime = {"LD_PRELOAD": libraries, "PYTHONPATH": str(package)}
    tests = [str(ROOT / "tests" / test) for test in TESTS]
    env = {**os.environ, **OPTIONS, **runtime}
    subprocess.run([python, "-c", NATIVE], check=True, env=env)  # noqa: S603
    subprocess.run(  # noqa: S603
        [python, "-m", "pytest", "-q", "--capture=sys", "-p", "no:cacheprovider", *tests],
        check=True,
        env=env,
    )


def main() -> None:
    """Check with all sanitizers."""
    venv.create(HOME / "env", with_pip=True)
    python = HOME / "env" / "bin" / "python"
    tool = [str(python), str(ROOT / "tools" / "environment.py"), "install", "test"]
    try:
        subprocess.run(tool, check=True)  # noqa: S603
        for sanitizers, library in SANITIZERS.items():
            check(sanitizers, library)
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"failed with code {error.returncode}: see above") from None


if __name__ == "__main__":
    main()
