"""Theorems: the true error under the bounds, inside their condition, and recovery outside it.

``tensormend reproduce theorems``. The measurements are ``m`` rows of independent Gaussian numbers
of variance ``1/m``. SM-QRGD depends on them only through ``A*A`` and ``A*y``, so the matrix is
replaced by the triangular factor of its QR factorization, whose entries are independent too: normal
above the diagonal, and chi distributed with ``m, m-1, ...`` degrees of freedom on it (Bartlett).
The millions of measurements that the condition requires then cost no more than a few hundred.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tensormend.core.algebra import Array
from tensormend.core.text import format_shape
from tensormend.errors import DataWarning
from tensormend.operators import MatrixOperator
from tensormend.recovery.entry import recover
from tensormend.recovery.solvers import SMQRGD
from tensormend.recovery.steps import as_step
from tensormend.research.experiments.traces import STEPS
from tensormend.research.pages import make_table
from tensormend.research.records import Record
from tensormend.research.runner import Experiment, Settings
from tensormend.research.summary import Claim, group
from tensormend.simulate import gaussian_tucker
from tensormend.theory import (
    condition_number,
    contraction,
    error_bound,
    estimate_isometry,
    sufficient_isometry,
)

__all__ = ["EXPERIMENT", "gaussian_triangle"]

ROUNDING = 2e-14  # below this true errors are rounding, and bounds say nothing
SHOWN = 12  # iterations for which the bound is computed at least
ARRIVED = 1e-6  # true error that counts as recovered


def grid(preset: str) -> Iterator[Settings]:
    """Two ranks, both steps, and numbers of measurements inside and far outside the condition."""
    paper = preset == "paper"
    shape = [8, 8, 8] if paper else [5, 5, 5]
    for trial in range(20 if paper else 2):
        for rank in (1, 2) if paper else (1,):
            for size in (10**9, 10**8, 4000, 300) if paper else (10**8, 60):
                for step in STEPS:
                    what = {"shape": shape, "rank": rank, "size": size, "step": step}
                    yield {**what, "trial": trial, "max_iter": 40 if size > 10**6 else 200}


def run(settings: Settings) -> dict[str, Any]:
    """Recover from Gaussian measurements, and compute the bound for every iterate."""
    shape, rank, step = tuple(settings["shape"]), settings["rank"], settings["step"]
    rng = np.random.default_rng(settings["seed"])
    truth = gaussian_tucker(shape, rank, rng=rng)
    operator = MatrixOperator(gaussian_triangle(settings["size"], math.prod(shape), rng), shape)
    wide = min(3 * rank, shape[0])
    estimate = estimate_isometry(operator, wide, n_inits=1, rng=rng).value
    eigenvalues = np.linalg.svd(operator.matrix, compute_uv=False) ** 2
    lowest = eigenvalues[-1] if operator.n_measurements >= math.prod(shape) else 0.0
    certain = max(float(eigenvalues[0]) - 1, 1 - float(lowest))
    kappa, order = condition_number(truth, 0), len(shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        trace = recover(
            operator,
            operator.forward(truth),
            rank,
            method=SMQRGD(as_step(step), mode_order=tuple(range(order))),
            truth=truth,
            tol=0,
            xtol=0,
            truth_tol=ROUNDING,
            max_iter=settings["max_iter"],
        ).history
    needed = sufficient_isometry(step, rank, kappa, order)
    length = max(len(trace), SHOWN) if certain < needed else 0  # outside there is no bound
    return {
        "estimate": estimate,
        "certain": certain,
        "needed": needed,
        "gamma": contraction(step, certain, rank, kappa, order) if certain < 1 else math.nan,
        "kappa": kappa,
        "error": trace.error,
        "bound": [error_bound(step, k, certain, rank, kappa, order) for k in range(length)],
    }


def gaussian_triangle(size: int, n: int, rng: np.random.Generator) -> Array:
    """Triangle ``R`` of the QR factorization of a ``size x n`` Gaussian matrix, variance 1/size.

    ``R^T R`` is distributed as the product of the matrix with its transpose.

    Examples
    --------
    >>> gaussian_triangle(10**8, 3, np.random.default_rng(0)).round(3).diagonal().tolist()
    [1.0, 1.0, 1.0]
    """
    rows = min(size, n)
    triangle = np.triu(rng.standard_normal((rows, n)), 1)
    np.fill_diagonal(triangle, np.sqrt(rng.chisquare(size - np.arange(rows))))
    scaled: Array = triangle / math.sqrt(size)
    return scaled


# what the records say


def describe(records: Sequence[Record]) -> dict[str, str]:
    """Tabulate constants and say whether any error exceeds its bound."""
    head = ["rank", "m", "step", "R₃ᵣ at least", "R₃ᵣ at most", "condition: below", "γ"]
    head += ["trials inside", "errors above the bound", "recovered"]
    rows = []
    above, outside = 0, []
    for (rank, size, step), own in group(records, "rank", "size", "step").items():
        results = [record["results"] for record in own]
        inside = [found for found in results if found["certain"] < found["needed"]]
        broken = sum(count_above(found) for found in inside)
        arrived = sum(min(found["error"]) <= ARRIVED for found in results)
        above += broken
        if not inside and arrived:
            outside.append(f"m = {size} (rank {rank}, {step} step): {arrived} of {len(own)}")
        numbers = (_range(results, name) for name in ("estimate", "certain", "needed", "gamma"))
        counts = (f"{len(inside)} of {len(own)}", broken if inside else "no bound")
        rows.append((rank, f"{size:.3g}", step, *numbers, *counts, f"{arrived} of {len(own)}"))
    held = "No error exceeds its bound" if not above else f"{above} errors exceed their bound"
    beyond = (
        f"Outside the condition it still converges: {'; '.join(outside)} trials."
        if outside
        else "Outside the condition no trial converged."
    )
    shape = format_shape(records[0]["settings"]["shape"])
    return {"table": make_table(head, rows), "verdict": f"{held}. {beyond}", "shape": shape}


def claims(records: Sequence[Record]) -> list[Claim]:
    """Count the trials inside of the condition whose errors are all below the bound."""
    counts: dict[str, tuple[int, int]] = {}
    for (step,), own in group(records, "step").items():
        results = [record["results"] for record in own]
        inside = [found for found in results if found["certain"] < found["needed"]]
        held = sum(count_above(found) == 0 for found in inside)
        if inside:
            counts[f"{step} step, {len(inside)} trials"] = (held, len(inside))
    what = "errors stay below the bounds of the convergence theorems where their condition holds"
    return [Claim(what, counts)] if counts else []


def count_above(found: dict[str, Any]) -> int:
    """Count the iterates whose error exceeds the bound of the theorem.

    The initial estimate, which a lemma bounds, is left out.
    """
    pairs = zip(found["error"][1:], found["bound"][1:], strict=False)  # the bound may be longer
    return sum(error > bound for error, bound in pairs if bound > ROUNDING)


def _range(results: Sequence[dict[str, Any]], name: str) -> str:
    values = [found[name] for found in results if found[name] is not None]
    if not values:
        return "-"
    low, high = f"{min(values):.2g}", f"{max(values):.2g}"
    return low if low == high else f"{low} to {high}"


EXPERIMENT = Experiment(
    "theorems",
    "Bounds of the theorems",
    grid,
    run,
    describe,
    timed=False,
    claims=claims,
    paired=("step",),
)
