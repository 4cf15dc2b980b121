"""Phase transition (figure 2a): success rate over rank and sampling ratio at n = 100.

``tensormend reproduce phase``. The paper shows SM-QRGD; the other methods are beyond it. It does
not print its grid, its step, nor a limit on the iterations.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensormend.core.algebra import Array
from tensormend.core.tucker import degrees_of_freedom
from tensormend.errors import DataWarning
from tensormend.recovery.entry import recover
from tensormend.recovery.loop import Iteration
from tensormend.recovery.result import Status
from tensormend.research.custom import is_custom, label_method, make_method
from tensormend.research.experiments.traces import draw_completion
from tensormend.research.pages import make_table
from tensormend.research.records import Record
from tensormend.research.runner import Experiment, Settings
from tensormend.research.summary import Claim, group

__all__ = ["EXPERIMENT", "Boundary", "describe_grid", "fit_boundary", "least_ratios", "success_map"]

SUCCESS = 1e-5  # true relative error of a success, as in the paper
GIVE_UP = ((0.25, 0.5), (0.5, 0.1))  # fraction of the iterations, error above which to stop
FITTED = 1e-12  # relative residual of a run that fits the samples, whatever its error
LINEAR = 0.8  # fraction of the variance that a line must explain to be drawn
CLEAR = 0.95  # and to be called a line
LIMITED = (Status.ITERATION_LIMIT, Status.STOPPED)  # endings that more iterations might change
INITS = {  # the paper's for its methods, that of the package for the others
    "sm-qrgd": "spectral",
    "rgd": "spectral",
    "sempiht": "spectral",
    "rcg": "corrected",
    "auto": "corrected",
}


def grid(preset: str) -> Iterator[Settings]:
    """Ranks and ratios about the boundary, in parts of a few trials; every part has all cells."""
    paper = preset == "paper"
    ranks = (4, 8, 12, 16, 20) if paper else (1, 2, 3)
    ratios = np.arange(1, 13) * 0.005 if paper else (0.03, 0.08, 0.15, 0.3)
    size = {"n": 100, "trials": 10} if paper else {"n": 20, "trials": 2}
    for part in range(10 if paper else 2):
        for ratio in ratios:
            for rank in ranks:
                for method in INITS:
                    where = {"rank": rank, "ratio": round(float(ratio), 4), "part": part}
                    yield {"method": method, **where, **size, "max_iter": 400 if paper else 200}


def run(settings: Settings) -> dict[str, Any]:
    """Count the successes of a part, and the failures that more iterations might change."""
    endings = [_run_trial(settings, trial) for trial in range(settings["trials"])]
    return {
        "n_trials": len(endings),
        "n_successes": sum(status is Status.CONVERGED for _, status in endings),
        "n_limited": sum(status in LIMITED for _, status in endings),
        "n_iter": float(np.median([n for n, _ in endings])),
    }


def _run_trial(settings: Settings, trial: int) -> tuple[int, Status]:
    """Return the number of iterations of a trial, and how it ended."""
    shape, method = (settings["n"],) * 3, settings["method"]
    seed = np.random.SeedSequence([settings["seed"], trial])
    truth, operator, y = draw_completion(
        shape, settings["rank"], settings["ratio"], np.random.default_rng(seed), threads=1
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # too few samples are part of the map
        result = recover(
            operator,
            y,
            settings["rank"],
            method=make_method(method),
            init=INITS.get(method),
            truth=truth,
            tol=0,
            xtol=0,
            truth_tol=SUCCESS,
            min_delta=1e-3,
            patience=50,
            max_iter=settings["max_iter"],
            callback=lambda now: _gives_up(now, settings["max_iter"]),
            threads=1,
        )
    is_fitted = result.status is Status.STOPPED and result.history[-1].residual <= FITTED
    return result.n_iter, Status.STALLED if is_fitted else result.status


def _gives_up(now: Iteration, max_iter: int) -> bool:
    """Tell whether a run fits the samples, or is too far away for the rest of the iterations."""
    return now.record.residual <= FITTED or any(
        now.n_iter >= fraction * max_iter and now.record.error > error
        for fraction, error in GIVE_UP
    )


# what the records say


def success_map(records: Sequence[Record]) -> tuple[Array, Array, Array]:
    """Ranks, ratios and the success rates of one method, ratios by ranks; NaN where not run."""
    ranks = sorted({record["settings"]["rank"] for record in records})
    ratios = sorted({record["settings"]["ratio"] for record in records})
    wins, trials = np.zeros((2, len(ratios), len(ranks)))
    for record in records:
        settings, results = record["settings"], record["results"]
        where = ratios.index(settings["ratio"]), ranks.index(settings["rank"])
        wins[where] += results["n_successes"]
        trials[where] += results["n_trials"]
    rates = np.divide(wins, trials, out=np.full_like(wins, np.nan), where=trials > 0)
    return np.asarray(ranks), np.asarray(ratios), rates


@dataclass(frozen=True)
class Boundary:
    """Where the success rate passes 1/2: ``ratio = intercept + slope * rank``, fitted."""

    ranks: Array
    ratios: Array
    slope: float
    intercept: float
    r_squared: float

    @property
    def formula(self) -> str | None:
        """The fitted line, where it is one."""
        if self.r_squared < LINEAR:
            return None
        sign = "+" if self.slope >= 0 else "−"
        return f"ρ = {self.intercept:.4f} {sign} {abs(self.slope):.4f} r"

    def __call__(self, rank: Array) -> Array:
        """Ratio of the fitted line at a rank."""
        line: Array = self.intercept + self.slope * np.asarray(rank)
        return line


def fit_boundary(records: Sequence[Record]) -> Boundary | None:
    """Fit a line through the ratios of half success, or ``None`` with fewer than two of them.

    The ratio of a rank is interpolated between the last rate below 1/2 and the next one.
    """
    ranks, ratios, rates = success_map(records)
    crossings = []
    for rank, column in zip(ranks, rates.T, strict=True):
        is_run = np.isfinite(column)
        rate, at = column[is_run], ratios[is_run]
        below = np.flatnonzero(rate < 0.5)
        if len(below) and below[-1] + 1 < len(rate):
            k = below[-1]
            part = (0.5 - rate[k]) / (rate[k + 1] - rate[k])
            crossings.append((rank, at[k] + part * (at[k + 1] - at[k])))
    if len(crossings) < 2:
        return None
    x, y = np.asarray(crossings, dtype=float).T
    slope, intercept = np.polyfit(x, y, 1)
    rest, spread = np.sum((y - intercept - slope * x) ** 2), np.sum((y - y.mean()) ** 2)
    r_squared = 1 - rest / spread if spread > 0 else 1.0
    return Boundary(x, y, float(slope), float(intercept), float(r_squared))


def describe_grid(records: Sequence[Record]) -> str:
    """Say how many cells the grid has and how many trials each, or how far these have come."""

    def count(settings: Iterable[Settings]) -> Counter[tuple[Any, ...]]:
        trials: Counter[tuple[Any, ...]] = Counter()
        for own in settings:
            trials[own["method"], own["rank"], own["ratio"]] += own["trials"]
        return trials

    found = count(record["settings"] for record in records)
    wanted = count(grid(records[0]["preset"]))
    for method in dict.fromkeys(cell[0] for cell in found if is_custom(cell[0])):
        wanted |= {(method, *where): n for (name, *where), n in wanted.items() if name == "sm-qrgd"}
    head = f"{len(wanted)} cells of method, rank and ratio, with {max(wanted.values())} trials each"
    if found == wanted:
        return head
    methods: dict[str, list[int]] = {}
    for cell in wanted:
        methods.setdefault(label_method(cell[0]), []).append(found[cell])
    ranges = (
        f"{method} {min(trials)}" + (f" to {max(trials)}" if max(trials) > min(trials) else "")
        for method, trials in methods.items()
    )
    return f"{head}; so far {', '.join(ranges)}"


def describe(records: Sequence[Record]) -> dict[str, str]:
    """Tabulate the boundary of each method and say which needs the fewest samples."""
    head = ["method", "init", "boundary, fitted", "R²", "half success at the largest rank"]
    rows = []
    lines: dict[str, Boundary] = {}
    n = records[0]["settings"]["n"]
    for (method,), own in group(records, "method").items():
        line, who = fit_boundary(own), (label_method(method), INITS.get(method, "its own"))
        if line is None:
            rows.append((*who, "outside the grid", "", ""))
            continue
        lines[label_method(method)] = line
        at = f"{line.ratios[-1]:.3f} at r = {line.ranks[-1]:.0f}"
        form = line.formula or "no line"
        rows.append((*who, form, f"{line.r_squared:.3f}", at))
    return {
        "table": make_table(head, rows),
        "n": str(n),
        "cells": describe_grid(records),
        "max_iter": str(records[0]["settings"]["max_iter"]),
        "verdict": _compare(lines, n),
        "limited": _count_limited(records),
    }


def claims(records: Sequence[Record]) -> list[Claim]:
    """Say whether the boundary of SM-QRGD is a line."""
    line = fit_boundary([r for r in records if r["settings"]["method"] == "sm-qrgd"])
    if line is None:
        return []
    what = "the sampling ratio that SM-QRGD needs grows linearly with the rank (figure 2a)"
    place = f"ranks {line.ranks[0]:.0f} to {line.ranks[-1]:.0f}, R² = {line.r_squared:.3f}"
    return [Claim(what, {place: (int(line.r_squared > CLEAR), 1)})]


def least_ratios(ranks: Array, n: int) -> Array:
    """Return degrees of freedom over entries, the least ratio at which a method can succeed."""
    return np.asarray([degrees_of_freedom((n,) * 3, (int(r),) * 3) / n**3 for r in ranks])


def _compare(lines: Mapping[str, Boundary], n: int) -> str:
    """Say whether the boundary of SM-QRGD is linear, and order the methods by what they need."""
    line = lines.get("sm-qrgd")
    if line is None:
        linear = "The boundary of SM-QRGD does not cross this grid at two ranks or more."
    else:
        agrees = "agrees" if line.r_squared > CLEAR else "agrees only roughly"
        linear = (
            f"A line explains {line.r_squared:.1%} of the variance of SM-QRGD's boundary, which "
            f"{agrees} with the linear relationship that the paper reads off its figure."
        )
    common = set.intersection(*(set(line.ranks) for line in lines.values())) if lines else set()
    if not common:
        return linear
    needed = {}
    for method, line in lines.items():
        shared = np.isin(line.ranks, list(common))
        multiples = line.ratios[shared] / least_ratios(line.ranks[shared], n)
        needed[method] = float(multiples.mean())
    ordered = sorted(needed, key=needed.__getitem__)
    ranking = ", ".join(f"{name} {needed[name]:.2f}" for name in ordered)
    return (
        f"{linear} Samples at half success, as a multiple of the degrees of freedom, averaged "
        f"over the ranks where all have a boundary: {ranking}. Fewest: {ordered[0]}; most: "
        f"{ordered[-1]}."
    )


def _count_limited(records: Sequence[Record]) -> str:
    """Tell how many failures were cut off by the limit on iterations."""
    parts = []
    for (method,), own in group(records, "method").items():
        results = [record["results"] for record in own]
        failures = sum(found["n_trials"] - found["n_successes"] for found in results)
        limited = sum(found["n_limited"] for found in results)
        parts.append(f"{label_method(method)} {limited} of {failures}")
    return ", ".join(parts)


EXPERIMENT = Experiment(
    "phase",
    "Phase transition",
    grid,
    run,
    describe,
    timed=False,
    paired=("method",),
    claims=claims,
    takes_solvers=True,
)
