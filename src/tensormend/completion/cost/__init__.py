"""The cost of a run, told before it starts, and a refusal where the memory is not there."""

from tensormend.completion.cost.estimate import Cost, check_cost, dense_cost, fit_cost
from tensormend.completion.cost.machine import available_memory

__all__ = ["Cost", "available_memory", "check_cost", "dense_cost", "fit_cost"]
