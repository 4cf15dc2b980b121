"""Pictures, with matplotlib from the ``plot`` extra; no other room names it."""

from tensormend.plots.benchmark import save_curves, save_growth
from tensormend.plots.completion import save_completion
from tensormend.plots.reproduction import FIGURES, save_reproduction
from tensormend.plots.style import require_matplotlib

__all__ = [
    "FIGURES",
    "require_matplotlib",
    "save_completion",
    "save_curves",
    "save_growth",
    "save_reproduction",
]
