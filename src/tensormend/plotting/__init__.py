"""Figures, drawn with Matplotlib (the ``plot`` extra); no other package imports it."""

from tensormend.plotting.benchmark import save_curves, save_growth, save_ratios
from tensormend.plotting.completion import save_completion
from tensormend.plotting.style import require_matplotlib

__all__ = ["require_matplotlib", "save_completion", "save_curves", "save_growth", "save_ratios"]
