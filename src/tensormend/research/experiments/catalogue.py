"""The experiments by name, in the order of the paper, with what goes beyond it."""

from __future__ import annotations

from tensormend.research.experiments import (
    beyond,
    comparison,
    condition,
    illustration,
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
    for module in (
        illustration,
        phase,
        noise,
        tangent_mode,
        condition,
        comparison,
        beyond,
        table1,
        theorems,
    )
}
