"""The experiments by name, in the order of the paper."""

from __future__ import annotations

from tensormend.research.experiments import (
    comparison,
    condition,
    noise,
    phase,
    table1,
    tangent_mode,
    theorems,
)
from tensormend.research.runner import Experiment

__all__ = ["EXPERIMENTS", "PRESETS"]

PRESETS = ("smoke", "paper")

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (phase, noise, tangent_mode, condition, comparison, table1, theorems)
}
