"""The experiments by name, in the order of the paper."""

from __future__ import annotations

from tensormend.research.experiments import (
    comparison,
    condition,
    lead,
    noise,
    phase,
    table1,
    theorems,
)
from tensormend.research.runner import Experiment

__all__ = ["EXPERIMENTS", "PRESETS"]

PRESETS = ("smoke", "paper")

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (phase, noise, lead, condition, comparison, table1, theorems)
}
