"""The compiled kernels where they could be built, their NumPy versions where not.

The environment variable ``TENSORMEND_KERNELS`` is read when the package is imported: ``numpy``
stands for the NumPy versions, the name of an instruction set, ``baseline`` (any machine of the
architecture), ``avx2`` or ``avx512``, for the compiled kernels with loops for that one. It is meant
for tests; without it the fastest that the machine can run are used.
"""

from __future__ import annotations

import os
import types

from tensormend.core.kernels import reference
from tensormend.core.kernels.reference import Array
from tensormend.core.kernels.tree import Tree
from tensormend.errors import InputError, NativeKernelWarning, warn_user

VARIABLE = "TENSORMEND_KERNELS"


def _choose(wanted: str) -> types.ModuleType:
    if wanted == "numpy":
        return reference
    try:
        from tensormend.core.kernels import _native
    except ImportError as error:
        if wanted:
            raise InputError(
                f"{VARIABLE} is {wanted!r}, but the compiled kernels are not available; install "
                "with a C++17 compiler at hand, or set it to 'numpy'"
            ) from error
        warn_user(
            "the compiled kernels of tensormend are not available, so slower NumPy versions are "
            f"used; install with a C++17 compiler at hand to get them ({error})",
            NativeKernelWarning,
        )
        return reference
    if wanted:
        if wanted not in _native.targets():
            names = ", ".join(["numpy", *_native.targets()])
            raise InputError(f"{VARIABLE} must be one of {names} on this machine, got {wanted!r}")
        _native.use_target(wanted)
    return _native


active = _choose(os.environ.get(VARIABLE, ""))

__all__ = [
    "Tree",
    "fibre_products",
    "find_nodes",
    "format_entries",
    "gauss_newton",
    "gram_pass",
    "is_native",
    "leaf_squared_norms",
    "mode_pass",
    "mode_squared_norm",
    "mode_values",
    "panel_kernels",
    "parse_entries",
    "read_tree",
    "reference",
    "sort_entries",
    "split_indices",
    "survey",
    "tangent_squared_norm",
    "thread_count",
    "tucker_gradient",
    "tucker_squared_norm",
    "tucker_values",
]

is_native = active is not reference
tucker_values = active.tucker_values
tucker_squared_norm = active.tucker_squared_norm
tucker_gradient = active.tucker_gradient
gauss_newton = active.gauss_newton
tangent_squared_norm = active.tangent_squared_norm
mode_values = active.mode_values
mode_squared_norm = active.mode_squared_norm
mode_pass = active.mode_pass
fibre_products = active.fibre_products
find_nodes = active.find_nodes
gram_pass = active.gram_pass
leaf_squared_norms = active.leaf_squared_norms
read_tree = active.read_tree
split_indices = active.split_indices
sort_entries = active.sort_entries
survey = active.survey
parse_entries = active.parse_entries
format_entries = active.format_entries


MAX_PANEL_RANK = 32  # columns beyond which BLAS is faster than the compiled products


def panel_kernels(panel: Array) -> types.ModuleType:
    """Return the products of tall panels: compiled for few real columns, else with BLAS."""
    is_compiled = panel.dtype.kind == "f" and panel.shape[1] <= MAX_PANEL_RANK
    return active if is_compiled else reference


def thread_count(threads: int | None) -> int:
    """Threads to use: as given, else every core this process may run on."""
    if threads is None:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    if threads < 1:
        raise InputError(f"threads must be 1 or more, or None for all cores, got {threads}")
    return threads
