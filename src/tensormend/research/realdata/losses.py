"""Ways to lose entries, and how a completion is scored."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tensormend.core.algebra import Array
from tensormend.errors import InputError
from tensormend.research.realdata.datasets import Dataset

__all__ = ["LOSSES", "Loss", "Scores", "drop", "hold_out", "score"]

HELD = 0.1  # fraction of what is observed that is held out to choose parameters


@dataclass(frozen=True)
class Loss:
    """Which entries of a data set are lost: a pattern and a fraction."""

    pattern: str
    fraction: float

    @property
    def name(self) -> str:
        """Short name, as on the command line."""
        return f"{self.pattern}-{round(100 * self.fraction)}"


LOSSES = tuple(
    Loss(pattern, fraction)
    for pattern, fractions in {"random": (0.3, 0.7, 0.9), "fibre": (0.3, 0.7)}.items()
    for fraction in fractions
)


def drop(
    dataset: Dataset, pattern: str, fraction: float, rng: int | np.random.Generator
) -> tuple[Array, Array]:
    """Return the tensor with NaN where it is missing or lost, and the mask of the entries to score.

    Parameters
    ----------
    dataset : Dataset
    pattern : {"random", "fibre"}
        Whether each entry is lost with probability ``fraction``, or each whole fibre along
        ``dataset.fibre_mode``.
    fraction : float
        The probability.
    rng : int or numpy.random.Generator
        Seed, or generator, of the lost entries.

    Returns
    -------
    data : ndarray
        The tensor, NaN at missing and lost entries.
    scored : ndarray of bool
        True at the lost entries whose value is observed in the source.
    """
    lost = _draw(dataset.values.shape, pattern, fraction, dataset.fibre_mode, rng)
    observed = ~np.isnan(dataset.values)
    return np.where(lost, np.nan, dataset.values), lost & observed


def hold_out(
    data: Array, pattern: str, fibre_mode: int, rng: int | np.random.Generator
) -> tuple[Array, Array]:
    """Lose a further tenth of the observed entries, in the same pattern, to choose parameters on.

    Of fibres, a tenth of those with an observed entry is held out.
    """
    observed = ~np.isnan(data)
    held = observed & _draw(data.shape, pattern, HELD, fibre_mode, rng)
    return np.where(held, np.nan, data), held


def _draw(
    shape: tuple[int, ...],
    pattern: str,
    fraction: float,
    mode: int,
    rng: int | np.random.Generator,
) -> Array:
    rng = np.random.default_rng(rng)
    if pattern == "random":
        return rng.random(shape) < fraction
    if pattern == "fibre":
        single = tuple(1 if k == mode else n for k, n in enumerate(shape))
        return np.broadcast_to(rng.random(single) < fraction, shape)
    raise InputError(f'a pattern "random" or "fibre" expected, got {pattern!r}; choose one')


@dataclass(frozen=True)
class Scores:
    """Errors over the scored entries; none where a score makes no sense."""

    rmse: float
    mape: float | None
    psnr: float | None


def score(dataset: Dataset, filled: Array, scored: Array) -> Scores:
    """Score a completed tensor on the entries that were lost.

    RMSE; for traffic the mean absolute percentage error; for images the peak signal-to-noise
    ratio in dB, the peak being the largest value of the tensor.
    """
    truth, guess = dataset.values[scored], filled[scored]
    rmse = math.sqrt(np.mean((guess - truth) ** 2))
    is_traffic, is_image = dataset.kind == "traffic", dataset.kind == "image"
    mape = 100 * float(np.mean(np.abs(guess - truth) / truth)) if is_traffic else None
    psnr = 20 * math.log10(dataset.peak / rmse) if is_image and rmse > 0 else None
    return Scores(rmse, mape, psnr)
