"""Run the numerical tests as they would run on other processors.

OpenBLAS picks its kernels by the processor, so that the last bits of a product differ between
machines; ``OPENBLAS_CORETYPE`` makes it pick others. Our own loops are forced to an instruction
set, and once replaced by their NumPy versions, by ``TENSORMEND_KERNELS``. Arguments are core types;
without any, all that this processor can run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# Core types, what a processor needs for them, and which of our kernels run beside them.
CORES = {
    "Prescott": ({"pni"}, "baseline"),
    "Nehalem": ({"sse4_2"}, "baseline"),
    "Haswell": ({"avx2", "fma"}, "avx2"),
    "Zen": ({"avx2", "fma"}, "numpy"),
    "SkylakeX": ({"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}, "avx512"),
}
ALIASES = {"Prescott": "Katmai", "Zen": "Haswell"}  # what OpenBLAS may call them
LOOK = (
    "import numpy, scipy.linalg, threadpoolctl\n"
    "from tensormend.core import kernels\n"
    "blas = [i['architecture'] for i in threadpoolctl.threadpool_info()"
    " if i['internal_api'] == 'openblas']\n"
    "print(*blas, kernels.is_native)"
)


def find_flags() -> set[str]:
    """Return what this processor can do, as Linux names it."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    return {flag for line in lines if line.startswith("flags") for flag in line.split()[2:]}


def run_as(core: str, kernels: str) -> None:
    """Run the numerical tests with one core type and some of our kernels."""
    settings = {"OPENBLAS_CORETYPE": core, "TENSORMEND_KERNELS": kernels}
    env = {**os.environ, **settings}
    look = [sys.executable, "-c", LOOK]
    found = subprocess.run(look, env=env, capture_output=True, text=True, check=True)  # noqa: S603
    *blas, is_native = found.stdout.split()
    if not blas or not set(blas) <= {core, ALIASES.get(core)}:
        raise SystemExit(f"OPENBLAS_CORETYPE={core} has no effect here: BLAS runs as {blas}")
    if is_native != str(kernels != "numpy"):
        raise SystemExit(f"TENSORMEND_KERNELS={kernels} has no effect here")
    sys.stdout.write(" ".join(f"{name}={value}" for name, value in settings.items()) + "\n")
    sys.stdout.flush()
    tests = ["-n", "auto", "--dist", "loadfile", "-q", "-m", "numerical", "tests"]
    done = subprocess.run([sys.executable, "-m", "pytest", *tests], env=env, check=False)  # noqa: S603
    if done.returncode != 0:
        raise SystemExit(f"the numerical tests fail with {settings}")


def main() -> None:
    """Run the tests for all core types that were asked for."""
    flags = find_flags()
    if not flags:
        sys.stdout.write("skipped: core types are of x86 processors under Linux\n")
        return
    for core in sys.argv[1:] or CORES:
        if core not in CORES:
            raise SystemExit(f"core types are {', '.join(CORES)}, got {core}")
        needs, kernels = CORES[core]
        if needs <= flags:
            run_as(core, kernels)
        else:
            sys.stdout.write(f"{core}: skipped, this processor has no {sorted(needs - flags)}\n")


if __name__ == "__main__":
    main()
