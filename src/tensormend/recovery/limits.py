"""What holds while a run computes: one BLAS thread, and no warnings of overflow and invalid values.

BLAS threads beside those of the kernels make small problems slower, and beside other work on the
machine any problem by far. The setting is one of the process: it holds while any thread runs a
solver, but not while a run calls a function of its user.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

__all__ = ["computing", "outside"]

P = ParamSpec("P")
R = TypeVar("R")


class _BlasLimit:
    """One thread for BLAS while any run computes; runs in several threads share the setting."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._own = threading.local()  # how many holds this thread has
        self._n_holds = 0
        self._limits: Any = None
        self._found: tuple[int, ThreadpoolController] | None = None

    @property
    def n_own(self) -> int:
        """Number of holds of this thread."""
        return getattr(self._own, "n", 0)

    def hold(self, count: int) -> None:
        """Add holds, or take them away where the count is negative."""
        if not count:
            return
        with self._lock:
            before, self._n_holds = self._n_holds, self._n_holds + count
            self._own.n = self.n_own + count
            if not before:
                self._limits = self._libraries().limit(limits=1, user_api="blas")
            elif not self._n_holds:
                self._limits.restore_original_limits()

    def _libraries(self) -> ThreadpoolController:
        """Look for the BLAS libraries anew only where more of Python has been imported."""
        n_modules = len(sys.modules)
        if self._found is None or self._found[0] != n_modules:
            self._found = n_modules, ThreadpoolController()
        return self._found[1]


_blas = _BlasLimit()


@contextmanager
def computing() -> Iterator[None]:
    """Hold BLAS to one thread, and let overflow and invalid values pass; the loop finds them."""
    _blas.hold(1)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    finally:
        _blas.hold(-1)


def outside(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that is called as it would be outside of a run.

    BLAS has its threads back, unless another thread runs a solver, and floating-point errors are
    treated as they were where this was called.
    """
    settings = np.geterr()

    def call(*args: P.args, **options: P.kwargs) -> R:
        n_own = _blas.n_own
        _blas.hold(-n_own)
        try:
            with np.errstate(**settings):
                return function(*args, **options)
        finally:
            _blas.hold(n_own)

    return call
