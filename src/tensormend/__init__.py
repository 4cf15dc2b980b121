"""Recover low-rank tensors from incomplete, compressed or noisy measurements."""

from importlib.metadata import version as _version

from tensormend import (
    algebra,
    datasets,
    errors,
    initial,
    simulate,
    solvers,
    steps,
    testing,
    theory,
)
from tensormend.operators import Matrix, Operator, Sampling
from tensormend.problem import Problem
from tensormend.recover import complete, recover
from tensormend.result import Result, Row, Status, Trace
from tensormend.solve import Checkpoint, Progress, Solver, solve
from tensormend.stopping import Stop
from tensormend.truncate import sthosvd, thosvd
from tensormend.tucker import Tucker

__version__ = _version("tensormend")

__all__ = [
    "Checkpoint",
    "Matrix",
    "Operator",
    "Problem",
    "Progress",
    "Result",
    "Row",
    "Sampling",
    "Solver",
    "Status",
    "Stop",
    "Trace",
    "Tucker",
    "algebra",
    "complete",
    "datasets",
    "errors",
    "initial",
    "recover",
    "simulate",
    "solve",
    "solvers",
    "steps",
    "sthosvd",
    "testing",
    "theory",
    "thosvd",
]
