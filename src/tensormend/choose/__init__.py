"""Choosing a model for data with holes: how much to shrink, or which rank, judged on a hold-out."""

from tensormend.choose.model import Choice, choose_model
from tensormend.choose.problem import (
    DENSE_COPIES,
    Entries,
    generous_rank,
    iteration_seconds,
    make_problem,
    works_densely,
)
from tensormend.choose.search import Trial
from tensormend.choose.strengths import PLAIN

__all__ = [
    "DENSE_COPIES",
    "PLAIN",
    "Choice",
    "Entries",
    "Trial",
    "choose_model",
    "generous_rank",
    "iteration_seconds",
    "make_problem",
    "works_densely",
]
