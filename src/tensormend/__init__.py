"""Recover low-rank tensors from incomplete, compressed or noisy measurements."""

from typing import TYPE_CHECKING, Any

from tensormend import (
    algebra,
    datasets,
    errors,
    initial,
    io,
    simulate,
    solvers,
    steps,
    testing,
    theory,
)
from tensormend.checkpoint import Checkpoint
from tensormend.choose import Moment, Trial
from tensormend.complete import complete, estimate
from tensormend.completion import Completion
from tensormend.contract import Solver
from tensormend.inspection import Inspection, inspect
from tensormend.io import load, save
from tensormend.known import TensorData
from tensormend.operators import Masked, Matrix, Operator, Sampling
from tensormend.preprocess import Preprocessing
from tensormend.problem import Problem
from tensormend.recover import recover
from tensormend.result import Result, Row, Status, Trace
from tensormend.solve import Progress, solve
from tensormend.stopping import Stop
from tensormend.truncate import sthosvd, thosvd
from tensormend.trust import Trust
from tensormend.tucker import Tucker

if TYPE_CHECKING:
    from tensormend.report import write_report

__all__ = [
    "Checkpoint",
    "Completion",
    "Inspection",
    "Masked",
    "Matrix",
    "Moment",
    "Operator",
    "Preprocessing",
    "Problem",
    "Progress",
    "Result",
    "Row",
    "Sampling",
    "Solver",
    "Status",
    "Stop",
    "TensorData",
    "Trace",
    "Trial",
    "Trust",
    "Tucker",
    "algebra",
    "complete",
    "datasets",
    "errors",
    "estimate",
    "initial",
    "inspect",
    "io",
    "load",
    "recover",
    "save",
    "simulate",
    "solve",
    "solvers",
    "steps",
    "sthosvd",
    "testing",
    "theory",
    "thosvd",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """Import what few need when it is asked for, which takes longer than it is worth at import."""
    if name == "__version__":
        from importlib.metadata import version

        return version("tensormend")
    if name == "write_report":
        from tensormend.report import write_report

        return write_report
    raise AttributeError(f"module 'tensormend' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
