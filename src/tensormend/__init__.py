"""Recover low-rank tensors from incomplete, compressed or noisy measurements.

Public names are loaded on demand (Scientific Python SPEC 1), so that importing the package, and
with it the command line, imports neither SciPy nor the solvers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensormend import errors as errors
    from tensormend import simulate as simulate
    from tensormend import testing as testing
    from tensormend import theory as theory
    from tensormend.completion.entry import complete as complete
    from tensormend.completion.entry import estimate_cost as estimate_cost
    from tensormend.completion.inspection import Inspection as Inspection
    from tensormend.completion.inspection import inspect as inspect
    from tensormend.completion.preprocessing import Preprocessing as Preprocessing
    from tensormend.completion.report import write_report as write_report
    from tensormend.completion.result import Completion as Completion
    from tensormend.completion.selection import CompletionProgress as CompletionProgress
    from tensormend.completion.selection import Trial as Trial
    from tensormend.completion.trust import Trust as Trust
    from tensormend.completion.trust import Verdict as Verdict
    from tensormend.core import algebra as algebra
    from tensormend.core.implicit import DenseTensor as DenseTensor
    from tensormend.core.implicit import ImplicitTensor as ImplicitTensor
    from tensormend.core.implicit import TensorSum as TensorSum
    from tensormend.core.truncate import sthosvd as sthosvd
    from tensormend.core.truncate import thosvd as thosvd
    from tensormend.core.tucker import Tucker as Tucker
    from tensormend.data import datasets as datasets
    from tensormend.data import formats as formats
    from tensormend.data.formats import load as load
    from tensormend.data.formats import save as save
    from tensormend.data.observations import TensorData as TensorData
    from tensormend.operators import DenseSampling as DenseSampling
    from tensormend.operators import MatrixOperator as MatrixOperator
    from tensormend.operators import Operator as Operator
    from tensormend.operators import Sampling as Sampling
    from tensormend.recovery import init as init
    from tensormend.recovery import solvers as solvers
    from tensormend.recovery import steps as steps
    from tensormend.recovery.checkpoint import Checkpoint as Checkpoint
    from tensormend.recovery.contract import Solver as Solver
    from tensormend.recovery.entry import recover as recover
    from tensormend.recovery.loop import Iteration as Iteration
    from tensormend.recovery.loop import solve as solve
    from tensormend.recovery.problem import Problem as Problem
    from tensormend.recovery.result import History as History
    from tensormend.recovery.result import IterationRecord as IterationRecord
    from tensormend.recovery.result import Result as Result
    from tensormend.recovery.result import Status as Status
    from tensormend.recovery.stopping import StoppingCriteria as StoppingCriteria

    __version__: str

_MODULES = {
    "algebra": "core.algebra",
    "datasets": "data.datasets",
    "errors": "errors",
    "formats": "data.formats",
    "init": "recovery.init",
    "simulate": "simulate",
    "solvers": "recovery.solvers",
    "steps": "recovery.steps",
    "testing": "testing",
    "theory": "theory",
}
"""Public modules by the names that they have here."""

_NAMES = {
    "completion.entry": ("complete", "estimate_cost"),
    "completion.inspection": ("Inspection", "inspect"),
    "completion.preprocessing": ("Preprocessing",),
    "completion.report": ("write_report",),
    "completion.result": ("Completion",),
    "completion.selection": ("CompletionProgress", "Trial"),
    "completion.trust": ("Trust", "Verdict"),
    "core.implicit": ("DenseTensor", "ImplicitTensor", "TensorSum"),
    "core.truncate": ("sthosvd", "thosvd"),
    "core.tucker": ("Tucker",),
    "data.formats": ("load", "save"),
    "data.observations": ("TensorData",),
    "operators": ("DenseSampling", "MatrixOperator", "Operator", "Sampling"),
    "recovery.checkpoint": ("Checkpoint",),
    "recovery.contract": ("Solver",),
    "recovery.entry": ("recover",),
    "recovery.loop": ("Iteration", "solve"),
    "recovery.problem": ("Problem",),
    "recovery.result": ("Result", "IterationRecord", "Status", "History"),
    "recovery.stopping": ("StoppingCriteria",),
}
"""Public classes and functions by the module that holds them."""

_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted({*_MODULES, *_HOMES})


if not TYPE_CHECKING:  # type checkers know the names, and would accept any with this

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import version

            return version("tensormend")
        if name in _MODULES:
            value = import_module(f"tensormend.{_MODULES[name]}")
        elif name in _HOMES:
            value = getattr(import_module(f"tensormend.{_HOMES[name]}"), name)
        else:
            raise AttributeError(f"module 'tensormend' has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
