"""Selection of a model on held-out entries: a strength of shrinkage, or a rank."""

from tensormend.completion.selection.model import Choice, choose_model
from tensormend.completion.selection.problem import make_problem
from tensormend.completion.selection.strengths import PLAIN
from tensormend.completion.selection.watch import CompletionProgress, Trial, Watch

__all__ = [
    "PLAIN",
    "Choice",
    "CompletionProgress",
    "Trial",
    "Watch",
    "choose_model",
    "make_problem",
]
