"""Charts of a completion: iterations, compared models, observed entries and fitted components."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import combinations

import numpy as np

from tensormend.completion.report.charts import (
    Axis,
    Marks,
    Series,
    draw_chart,
    draw_image,
    fraction_axis,
    linear_axis,
    log_axis,
    mode_axis,
    number,
    percent,
)
from tensormend.completion.report.modes import Mode
from tensormend.completion.result import Completion
from tensormend.completion.selection import Trial
from tensormend.core.algebra import Array, matricize
from tensormend.core.linalg import svd
from tensormend.data.observations import Observations

__all__ = [
    "Figure",
    "draw_course",
    "draw_coverage",
    "draw_errors",
    "draw_factors",
    "draw_spectra",
    "find_principal",
]

WEIGHTED = 3  # style of models with weights per mode
N_COMPONENTS = 3  # columns of a factor that are drawn
N_NAMED, MAX_MARKED = 12, 200  # empty_slices slices that are named, and that are marked
MAX_BINS = 96  # of a mode, in the image of what is observed
BY_CHANCE = 1.5  # times the variance of entries missing at random: no structure to speak of
FEW, MANY = 16, 40  # indices along a mode, and along other axes, that have a mark each


@dataclass(frozen=True)
class Figure:
    """A chart with title and caption."""

    title: str
    chart: str
    caption: str = ""

    def html(self) -> str:
        """Return it for the page."""
        words = f"<figcaption>{escape(self.caption)}</figcaption>" if self.caption else ""
        return f"<figure><h3>{escape(self.title)}</h3>{self.chart}{words}</figure>"


# selection and convergence


def draw_course(result: Completion) -> list[Figure]:
    """Draw the errors over the iterations, and over the models that were tried."""
    figures = []
    shrinkage = [trial for trial in result.trials if trial.model == "shrinkage"]
    ranked = [trial for trial in result.trials if trial.model == "tucker"]
    chosen = result.best_trial
    if shrinkage:
        is_here = chosen is not None and chosen.model == "shrinkage"
        figures.append(_draw_strengths(shrinkage, chosen if is_here else None))
    if ranked:
        is_here = chosen is not None and chosen.model == "tucker"
        figures.append(_draw_ranks(ranked, chosen if is_here else None))
    if len(result.fit.history) > 1:
        figures.append(_draw_history(result))
    return figures


def _draw_history(result: Completion) -> Figure:
    residual, held = result.fit.history.residual, result.fit.history.validation_error
    steps = np.arange(len(residual), dtype=float)
    kind = _marks(len(residual))
    series = [Series(steps, residual, "observed entries", kind)]
    if np.isfinite(held).any():
        series.append(Series(steps, held, "held-out entries", kind, 1))
    title = "Error over the iterations"
    caption = f"Relative error of the final fit. {result.message}"
    if not np.isfinite(held).any():
        caption += " No entries were held out of this fit."
    y = log_axis("relative error", *(one.y for one in series))
    x = linear_axis("iteration", steps, zero=True)
    return Figure(title, draw_chart(f"{title}. {caption}", x, y, series), caption)


def _draw_strengths(trials: Sequence[Trial], chosen: Trial | None) -> Figure:
    """Draw the held-out error over the strength of shrinkage, a line for each centring."""
    series = []
    plain = [trial for trial in trials if trial.mode_weights is None]
    centres = list(dict.fromkeys(trial.center for trial in plain))
    for style, center in enumerate(centres):
        part = [trial for trial in plain if trial.center == center]
        series.append(_over_strength(part, _name_center(center), style))
    tuned = [trial for trial in trials if trial.mode_weights is not None]
    if tuned:
        series.append(_over_strength(tuned, "weights per mode", WEIGHTED))
    if chosen is not None:
        series.append(
            Series(np.array([chosen.strength]), np.array([chosen.error]), "selected", "ring", 1)
        )
    x = log_axis("strength of shrinkage", *(one.x for one in series))
    y = log_axis("held-out error", *(one.y for one in series))
    title = f"Held-out error of {len(trials)} models"
    caption = (
        "Lines are named by what was subtracted from the values. Bars are one standard error. "
        "Weak shrinkage (left) fits the data closely."
    )
    if chosen is not None:
        caption += (
            f" The strength {number(chosen.strength)} was selected, with an error of "
            f"{number(chosen.error)}."
        )
    return Figure(title, draw_chart(f"{title}. {caption}", x, y, series), caption)


def _over_strength(trials: Sequence[Trial], name: str, style: int) -> Series:
    x, y, spread = (
        np.array([getattr(trial, column) for trial in trials], dtype=float)
        for column in ("strength", "error", "standard_error")
    )
    kind: Marks = "points" if style == WEIGHTED else "both"
    return Series(x, y, name, kind, style, np.nan_to_num(spread))


def _name_center(center: tuple[int, ...] | None) -> str:
    if center is None:
        return "no centring"
    return "effects" if center else "grand mean"


def _draw_ranks(trials: Sequence[Trial], chosen: Trial | None) -> Figure:
    """Draw the held-out error over the ranks in the order in which they were tried."""
    errors = np.array([trial.error for trial in trials])
    spread = np.nan_to_num(np.array([trial.standard_error for trial in trials]))
    positions = np.arange(len(trials), dtype=float)
    names = np.array([" ".join(map(str, trial.rank)) for trial in trials], dtype=object)
    series = [Series(positions, errors, "tried", "both", 0, spread)]
    title = f"Held-out error of {len(trials)} ranks"
    caption = "Ranks in the order in which they were tried. Bars are one standard error."
    if chosen is not None:
        at = [k for k, trial in enumerate(trials) if trial.rank == chosen.rank]
        if at:
            series.append(
                Series(positions[at[-1:]], np.array([chosen.error]), "selected", "ring", 1)
            )
        caption += f" Rank {chosen.rank} was selected, with an error of {number(chosen.error)}."
    x = mode_axis(Mode("rank", len(trials), names))
    y = log_axis("held-out error", errors)
    return Figure(title, draw_chart(f"{title}. {caption}", x, y, series), caption)


# observed entries


def draw_coverage(result: Completion, modes: Sequence[Mode]) -> list[Figure]:
    """Draw the observed fraction over two modes and over the slices of each."""
    trust = result.trust
    figures = [_draw_pair(result.observations, modes)]
    for mode, fraction, empty_slices in zip(
        modes, trust.observed_fraction, trust.empty_slices, strict=True
    ):
        title = f"Observed along {mode.name}"
        least, most = percent(fraction.min()), percent(fraction.max())
        span = least if least == most else f"Between {least} and {most}"
        caption = f"{span} of every slice is observed."
        if len(empty_slices):
            caption = f"{_name_empty(mode, empty_slices)} {caption}"
        y = fraction_axis("observed fraction", fraction)
        series = [_along(mode, np.minimum(fraction, 1.0), is_bar=True)]
        if len(empty_slices):
            marked = empty_slices[:: math.ceil(len(empty_slices) / MAX_MARKED)].astype(float)
            low = np.full(len(marked), 0.02 * y.high)
            series.append(Series(marked, low, "", "points", 1))
        chart = draw_chart(f"{title}. {caption}", mode_axis(mode), y, series)
        figures.append(Figure(title, chart, caption))
    return figures


def _draw_pair(observations: Observations, modes: Sequence[Mode]) -> Figure:
    """Draw the two modes over which the observed entries are least evenly spread."""
    pairs = list(combinations(range(len(modes)), 2))
    found = {pair: _observed_fractions(observations, *pair) for pair in pairs}
    row, column = max(pairs, key=lambda pair: found[pair][1])
    fractions, excess = found[row, column]
    title = f"Observed over {modes[row].name} and {modes[column].name}"
    caption = (
        f"From blank, nothing observed, to darkest, {percent(float(fractions.max()))} observed. "
    )
    if not np.ptp(fractions) > 0:
        caption = f"The same fraction is observed everywhere, {percent(float(fractions.max()))}. "
    elif excess < BY_CHANCE:
        caption += "Missing entries are spread as evenly as at random."
    elif len(pairs) > 1:
        caption += "Of all pairs of modes, this one shows the most structure."
    x, y = mode_axis(modes[column]), mode_axis(modes[row])
    return Figure(title, draw_image(f"{title}. {caption}", x, y, fractions), caption)


def _observed_fractions(observations: Observations, row: int, column: int) -> tuple[Array, float]:
    """Return the observed fraction over two modes, and its variance relative to chance."""
    sizes = observations.shape[row], observations.shape[column]
    bins = [min(n, MAX_BINS) for n in sizes]
    at = [
        observations.indices[:, k].astype(np.int64) * count // n
        for k, count, n in zip((row, column), bins, sizes, strict=True)
    ]
    counts = np.bincount(at[0] * bins[1] + at[1], minlength=bins[0] * bins[1]).reshape(bins)
    widths = [np.bincount(np.arange(n) * count // n) for n, count in zip(sizes, bins, strict=True)]
    rest = math.prod(map(float, observations.shape)) / (float(sizes[0]) * sizes[1])
    full = np.outer(*widths) * rest
    fractions = counts / full
    mean = float(counts.sum() / full.sum())
    by_chance = mean * (1 - mean)
    excess = float(np.mean((fractions - mean) ** 2 * full)) / by_chance if by_chance > 0 else 0.0
    return np.minimum(fractions, 1.0), excess


def _name_empty(mode: Mode, empty_slices: Array) -> str:
    names = ", ".join(mode.label(int(index)) for index in empty_slices[:N_NAMED])
    more = f" and {len(empty_slices) - N_NAMED} more" if len(empty_slices) > N_NAMED else ""
    return f"Nothing is observed at {names}{more}; values imputed there are little more than means."


def draw_errors(result: Completion, modes: Sequence[Mode]) -> list[Figure]:
    """Draw the error on held-out entries in the slices of each mode."""
    trust = result.trust
    figures = []
    for mode, errors in zip(modes, trust.rmse_per_slice, strict=True):
        if not np.isfinite(errors).any():
            continue
        worst = int(np.nanargmax(errors))
        title = f"Error along {mode.name}"
        caption = f"Largest at {mode.label(worst)}: {number(float(errors[worst]))}."
        y = linear_axis(trust.error_name, errors, zero=True)
        chart = draw_chart(
            f"{title}. {caption}", mode_axis(mode), y, [_along(mode, errors, is_bar=True)]
        )
        figures.append(Figure(title, chart, caption))
    return figures


# the model

Principal = list[tuple[Array, Array]]
"""Per mode, the singular values of a model and its first left singular vectors."""


def find_principal(result: Completion) -> Principal:
    """Return per mode the singular values of the model and its first left singular vectors."""
    x = result.fit.x.orthonormal()
    out = []
    for k, factor in enumerate(x.factors):
        vectors, values, _ = svd(matricize(x.core, k), full_matrices=False)
        columns = factor @ vectors[:, :N_COMPONENTS]
        if columns.dtype.kind == "c":
            columns = np.abs(columns)
        largest = np.take_along_axis(columns, np.abs(columns).argmax(axis=0)[None], axis=0)
        out.append((values.astype(float), columns * np.where(largest < 0, -1, 1)))
    return out


def draw_spectra(principal: Principal, modes: Sequence[Mode]) -> list[Figure]:
    """Draw the singular values of the model along each mode."""
    figures = []
    for mode, (values, _) in zip(modes, principal, strict=True):
        title = f"Spectrum along {mode.name}"
        if not values[0] > 0:
            caption = "The model is zero: means explain the data."
            figures.append(Figure(title, "", caption))
            continue
        ratios = values / values[0]
        shown = np.where(ratios > 1e-16, ratios, np.nan)
        count = _leading(values)
        caption = f"{len(values)} singular values; the first {count} hold 99% of the squares."
        x = linear_axis("component", np.array([1.0, len(values)]))
        x = Axis(x.name, 0.5, len(values) + 0.5, [t for t in x.ticks if t[0] % 1 == 0 and t[0] > 0])
        y = log_axis("relative to the largest", shown)
        positions = np.arange(1.0, len(values) + 1)
        series = [Series(positions, shown, "", _marks(len(values)))]
        figures.append(Figure(title, draw_chart(f"{title}. {caption}", x, y, series), caption))
    return figures


def _leading(values: Array) -> int:
    """Count the values that hold 99% of the sum of squares."""
    squares = np.cumsum((values / values[0]) ** 2)
    return int(np.searchsorted(squares, 0.99 * squares[-1])) + 1


def draw_factors(principal: Principal, modes: Sequence[Mode]) -> list[Figure]:
    """Draw the first components along each mode, the strongest first."""
    figures = []
    for mode, (values, columns) in zip(modes, principal, strict=True):
        if not values[0] > 0:
            continue
        title = f"Components along {mode.name}"
        count = min(N_COMPONENTS, int(np.sum(values > 1e-12 * values[0])))
        series = [_along(mode, columns[:, k], f"{k + 1}", k) for k in range(count)]
        y = linear_axis("", columns[:, :count])
        names = ", ".join(f"{v / values[0]:.2g}" for v in values[:count])
        caption = f"Singular values relative to the largest: {names}."
        chart = draw_chart(f"{title}. {caption}", mode_axis(mode), y, series)
        figures.append(Figure(title, chart, caption))
    return figures


def _marks(count: int, limit: int = MANY) -> Marks:
    """Mark single points on a line only where they are few."""
    return "both" if count <= limit else "line"


def _along(
    mode: Mode, values: Array, name: str = "", style: int = 0, *, is_bar: bool = False
) -> Series:
    """Draw numbers along a mode: a line, or one by one where they are few."""
    positions = np.arange(mode.size, dtype=float)
    if is_bar:
        return Series(positions, values, name, "bars", style)
    return Series(positions, values, name, _marks(mode.size, FEW), style)
