"""Cost of a run, estimated before it starts, and a refusal where the memory is not there."""

from tensormend.completion.cost.estimate import Cost, check_cost, dense_cost, fit_cost
from tensormend.completion.cost.machine import available_memory
from tensormend.completion.cost.search import generous_rank, search_cost, works_densely

__all__ = [
    "Cost",
    "available_memory",
    "check_cost",
    "dense_cost",
    "fit_cost",
    "generous_rank",
    "search_cost",
    "works_densely",
]
