"""Time the kernels by rank, type of values and length of the fibres, one build beside another."""

from __future__ import annotations

import functools
import importlib.util
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.core import kernels
from tensormend.core.algebra import Array
from tensormend.core.fibres import Fibres
from tensormend.errors import InputError

__all__ = ["DTYPES", "FIBRES", "PASSES", "RANKS", "RankCase", "load_kernels", "time_ranks"]

RANKS = tuple(range(1, 65))
DTYPES = ("float64", "float32", "complex128", "complex64")
FIBRES: dict[str, tuple[tuple[int, ...], int]] = {
    "short": ((100, 100, 100), 10),
    "long": ((40, 40, 100), 60),
    "scattered": ((60, 60, 3000), 4),
}
"""Shapes, and entries of a fibre; scattered ones are few beside the rows of the leaf factor."""

PASSES = ("values", "gradient", "Gauss-Newton", "single mode", "Gram")


@functools.cache
def load_kernels(path: str | Path) -> Any:
    """Load another build of the compiled kernels from its file.

    The name of an instruction set stands for the kernels in use with loops for that one.
    """
    if kernels.is_native and str(path) in kernels.active.targets():
        # a copy, because the same file is loaded only once; where it is in use it cannot be removed
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            module = load_kernels(shutil.copy(str(kernels.active.__file__), folder))
        module.use_target(str(path))
        return module
    path = Path(path)
    spec = importlib.util.spec_from_file_location(path.name.split(".")[0], path)
    if spec is None or spec.loader is None or not path.is_file():
        raise InputError(
            "a file of compiled kernels (_native*.so), or an instruction set that they have here, "
            f"expected, got {path}"
        )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def _draw_fibres(name: str, fraction: float) -> Fibres:
    shape, per_fibre = FIBRES[name]
    shape = (round(fraction * shape[0]), *shape[1:])
    order = np.random.default_rng(1).random(shape).argpartition(per_fibre, axis=2)
    observed = np.zeros(shape, dtype=bool)
    np.put_along_axis(observed, order[:, :, :per_fibre], True, axis=2)
    fibres, _ = Fibres.build(shape, np.argwhere(observed))
    return fibres


@dataclass(frozen=True)
class RankCase:
    """Entries with values, a Tucker tensor of one rank in all modes, and a way it moves."""

    fibres: Fibres
    y: Array
    core: Array
    factors: list[Array]
    right: Array

    @classmethod
    def draw(cls, rank: int, dtype: str, fibres: str, fraction: float = 1.0) -> RankCase:
        """Draw a case, or one with a fraction of its fibres; entries lie at random along these."""
        tree = _draw_fibres(fibres, fraction)
        shape, rng = tree.shape, np.random.default_rng(0)

        def draw(*sizes: int) -> Array:
            values = rng.standard_normal(sizes)
            if dtype.startswith("complex"):
                values = values + 1j * rng.standard_normal(sizes)
            return np.asarray(values / math.sqrt(rank), dtype=dtype)

        factors = [draw(n, rank) for n in shape]
        columns = shape[0] * shape[1]
        return cls(tree, draw(tree.size), draw(rank, rank, rank), factors, draw(columns, rank))

    def passes(self, module: Any) -> dict[str, Callable[[], object]]:
        """Return the passes to time, by name."""
        tree, x = self.fibres.tree, (self.core, self.factors)
        leaf, columns = self.factors[-1], self.fibres.columns
        panels = (leaf, self.right, self.right)
        return {
            "values": lambda: module.tucker_values(tree, *x),
            "gradient": lambda: module.tucker_gradient(tree, self.y, *x),
            "Gauss-Newton": lambda: module.gauss_newton(tree, *x, *x),
            "single mode": lambda: module.mode_pass(tree, columns, self.y, *panels),
            "Gram": lambda: module.gram_pass(tree, self.y, leaf),
        }


def time_ranks(
    rank: int,
    dtype: str,
    fibres: str,
    repeats: int,
    passes: Sequence[str] = PASSES,
    against: str | None = None,
) -> dict[str, Any]:
    """Return the nanoseconds an entry of every repeat of each pass, on one thread.

    With ``against``, other kernels as `load_kernels` takes them, these are timed as well, in turns
    with ours.
    """
    case = RankCase.draw(rank, dtype, fibres)
    modules: dict[str, Any] = {"ours": kernels.active}
    if against is not None:
        modules["theirs"] = load_kernels(against)
        if kernels.is_native and os.environ.get(kernels.VARIABLE) and Path(against).is_file():
            modules["theirs"].use_target(os.environ[kernels.VARIABLE])
    times: dict[str, dict[str, list[float]]] = {name: {} for name in modules}
    for name in passes:
        runs = {who: case.passes(module)[name] for who, module in modules.items()}
        for who, run in runs.items():
            run()  # caches and pages
            times[who][name] = []
        for turn in range(repeats):
            for who in list(runs) if turn % 2 else list(reversed(runs)):
                clock = time.perf_counter()
                runs[who]()
                seconds = time.perf_counter() - clock
                times[who][name].append(1e9 * seconds / case.fibres.size)
    if against is None:
        return {"times": times}
    other = "another build" if Path(against).is_file() else f"the loops for {against}"
    return {"times": times, "other": other}
