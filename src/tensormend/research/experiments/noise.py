"""Noise (figure 2b): SM-QRGD against SeMPIHT at three signal-to-noise ratios.

``tensormend reproduce noise``. Sizes as in the paper: n = 100, r = 3, ratio 0.3, constant step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tensormend.core.tucker import degrees_of_freedom
from tensormend.research.custom import label_method
from tensormend.research.experiments.traces import (
    IMPLEMENTATIONS,
    draw_again,
    median_trace,
    run_completion,
)
from tensormend.research.pages import make_table
from tensormend.research.records import Record
from tensormend.research.runner import Experiment, Settings
from tensormend.research.summary import Claim, format_spread, group

__all__ = ["EXPERIMENT", "times_to_floor"]

METHODS = ("sm-qrgd", "sempiht")
SAME = 0.01  # errors that differ by less are the same


def grid(preset: str) -> Iterator[Settings]:
    """Three levels, two methods, and repeats of the timing; the number of iterations is fixed."""
    paper = preset == "paper"
    size = {"n": 100, "max_iter": 60} if paper else {"n": 30, "max_iter": 150}
    for repeat in range(5 if paper else 1):
        for snr in (60, 80, 100):
            for implementation in IMPLEMENTATIONS:
                for method in METHODS:
                    who = {"implementation": implementation, "method": method, "repeat": repeat}
                    what = {"snr": snr, "rank": 3, "ratio": 0.3, "step": "constant", "tol": 0.0}
                    yield {**what, **who, **size}


def run(settings: Settings) -> dict[str, Any]:
    """Complete noisy samples."""
    keys = ("n", "rank", "ratio", "seed")
    problem = draw_again(*(settings[key] for key in keys), snr=settings["snr"])
    return run_completion(*problem, settings)


def times_to_floor(records: Sequence[Record]) -> tuple[float, list[float]]:
    """Last error of some repeats, and the seconds of each until it was within 5 % of it."""
    _, _, errors = median_trace(records)
    arrival = int((errors <= 1.05 * errors[-1]).argmax())
    times = [float(record["results"]["trace"]["seconds"][arrival]) for record in records]
    return float(errors[-1]), times


def describe(records: Sequence[Record]) -> dict[str, str]:
    """Compare the errors reached and the times to them."""
    others = list(dict.fromkeys(r["settings"]["method"] for r in records))
    methods = [*METHODS, *(name for name in others if name not in METHODS)]
    labels = ["SM-QRGD", "SeMPIHT", *map(label_method, methods[len(METHODS) :])]
    head = ["implementation", "SNR"]
    head += [f"{what} {label}" for what in ("error", "seconds") for label in labels]
    rows = []
    ratios: dict[str, list[float]] = {name: [] for name in IMPLEMENTATIONS}
    gaps, floors = [], []
    for (implementation, snr), own in group(records, "implementation", "snr").items():
        by_method = group(own, "method")
        if not all((method,) in by_method for method in METHODS):
            continue
        ours, theirs = (times_to_floor(by_method[(method,)]) for method in METHODS)
        gaps.append(abs(ours[0] / theirs[0] - 1))
        ratios[implementation].append(float(np.median(theirs[1]) / np.median(ours[1])))
        floors.append(ours[0] * 10 ** (snr / 20))
        found = [times_to_floor(by_method[(m,)]) if (m,) in by_method else None for m in methods]
        cells = [f"{one[0]:.3g}" if one else "" for one in found]
        cells += [format_spread(one[1]) if one else "" for one in found]
        rows.append((implementation, f"{snr} dB", *cells))
    same = "the same error" if max(gaps) < SAME else "not quite the same error"
    speeds = "; ".join(
        f"{name}: SeMPIHT takes {min(values):.2f} to {max(values):.2f} times as long"
        for name, values in ratios.items()
        if values
    )
    faster = all(value > 1 for values in ratios.values() for value in values)
    agrees = "This agrees with the paper." if faster else "This agrees with the paper in part."
    return {
        "table": make_table(head, rows),
        "verdict": f"Both methods reach {same} (largest difference {max(gaps):.2%}). To come "
        f"within 5 % of it, {speeds}. {agrees}",
        "floor": f"{min(floors):.3f} to {max(floors):.3f}",
        "expected": f"{_expected_floor(records[0]['settings']):.3f}",
        "n": str(records[0]["settings"]["n"]),
    }


def claims(records: Sequence[Record]) -> list[Claim]:
    """Compare errors and times with those of SeMPIHT."""
    same, faster = {}, {}
    for (implementation, snr), own in group(records, "implementation", "snr").items():
        by_method = group(own, "method")
        if not all((method,) in by_method for method in METHODS):
            continue
        ours, theirs = (times_to_floor(by_method[(method,)]) for method in METHODS)
        place = f"{implementation}, {snr} dB"
        same[place] = (int(abs(ours[0] / theirs[0] - 1) < SAME), 1)
        faster[place] = (int(np.median(ours[1]) < np.median(theirs[1])), 1)
    if not same:
        return []
    return [
        Claim("under noise SM-QRGD reaches the same error as SeMPIHT (figure 2b)", same),
        Claim("and converges faster (figure 2b)", faster),
    ]


def _expected_floor(settings: Settings) -> float:
    """Error of least squares on the tangent space, over the noise: sqrt(degrees of freedom / m)."""
    shape, rank = (settings["n"],) * 3, (settings["rank"],) * 3
    size = settings["ratio"] * settings["n"] ** 3
    return float((degrees_of_freedom(shape, rank) / size) ** 0.5)


EXPERIMENT = Experiment(
    "noise",
    "Noisy data",
    grid,
    run,
    describe,
    timed=True,
    claims=claims,
    paired=("implementation", "method", "snr", "repeat"),
    takes_solvers=True,
)
