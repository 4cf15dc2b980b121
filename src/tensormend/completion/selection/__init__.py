"""Choosing a model for data with holes: how much to shrink, or which rank, judged on a hold-out."""

from tensormend.completion.selection.model import Choice, choose_model
from tensormend.completion.selection.problem import (
    DENSE_COPIES,
    generous_rank,
    iteration_seconds,
    make_problem,
    works_densely,
)
from tensormend.completion.selection.strengths import PLAIN
from tensormend.completion.selection.watch import CompletionProgress, Trial, Watch

__all__ = [
    "DENSE_COPIES",
    "PLAIN",
    "Choice",
    "CompletionProgress",
    "Trial",
    "Watch",
    "choose_model",
    "generous_rank",
    "iteration_seconds",
    "make_problem",
    "works_densely",
]
