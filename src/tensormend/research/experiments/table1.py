"""Table 1: flops counted while the methods run, beside the paper's formulas.

``tensormend reproduce table1``. The counts come from the module `complexity`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from tensormend.research.experiments.complexity import ALGORITHMS, leading_coefficients
from tensormend.research.pages import make_table
from tensormend.research.records import Record
from tensormend.research.runner import Experiment, Settings
from tensormend.research.summary import Claim, group

__all__ = ["EXPERIMENT", "PAPER"]

PAPER: dict[
    str, tuple[Callable[[int], int | None], Callable[[int], int | None]]
] = {  # coefficients of n^d r: thresholding, step size; None where the paper leaves them open
    "NIHT": (lambda _: None, lambda _: 2),
    "SeMPIHT": (lambda _: None, lambda _: 2),
    "RGD": (lambda d: d + 2, lambda d: d + 1),
    "RGD, shared": (lambda _: None, lambda _: None),
    "SM-QRGD": (lambda _: 3, lambda _: 4),
}


def grid(preset: str) -> Iterator[Settings]:
    """Every method of the table in orders 3 and 4, with rank 2 as counts do not depend on it."""
    for order in (3, 4) if preset == "paper" else (3,):
        for algorithm in ALGORITHMS:
            yield {"algorithm": algorithm, "order": order, "rank": 2}


def run(settings: Settings) -> dict[str, Any]:
    """Count flops, and fit the leading coefficients."""
    order = settings["order"]
    counted = leading_coefficients(settings["algorithm"], order, settings["rank"])
    paper = [formula(order) for formula in PAPER[settings["algorithm"]]]
    return {**asdict(counted), "paper_threshold": paper[0], "paper_step_size": paper[1]}


def describe(records: Sequence[Record]) -> dict[str, str]:
    """Tabulate counts beside formulas and name the differences."""
    head = ["d", "method", "thresholding: counted", "factorizations", "paper"]
    head += ["step: counted", "paper"]
    rows = []
    differ = []
    for (order, name), (record,) in group(records, "order", "algorithm").items():
        found = record["results"]
        cells = [f"{found['threshold']:.2f} n^{order} r", _factorizations(found, order)]
        cells += [_term(found["paper_threshold"], order), f"{found['step_size']:.2f} n^{order} r"]
        cells += [_term(found["paper_step_size"], order)]
        rows.append((order, name, *cells))
        for what in ("threshold", "step_size"):
            claimed = found[f"paper_{what}"]
            if claimed is not None and abs(found[what] - claimed) > 0.01:
                word = "thresholding" if what == "threshold" else "step size"
                differ.append(f"{name}, {word}, d = {order}: {found[what]:.2f}, paper {claimed}")
    ending = "; ".join(differ)
    verdict = f"Differences: {ending}." if differ else "All counts agree with the formulas."
    return {"table": make_table(head, rows), "verdict": verdict}


def claims(records: Sequence[Record]) -> list[Claim]:
    """Compare counts with formulas."""
    counts: dict[str, tuple[int, int]] = {}
    for record in records:
        found, settings = record["results"], record["settings"]
        for what, words in (("threshold", "thresholding"), ("step_size", "step size")):
            claimed = found[f"paper_{what}"]
            if claimed is not None:
                place = f"{settings['algorithm']}, {words}"
                held, tried = counts.get(place, (0, 0))
                counts[place] = (held + int(abs(found[what] - claimed) <= 0.01), tried + 1)
    return [Claim("the flops of Table 1", counts)] if counts else []


def _term(coefficient: float | None, order: int) -> str:
    return "open" if coefficient is None else f"{coefficient} n^{order} r"


def _factorizations(found: dict[str, float], order: int) -> str:
    if abs(found["factorizations"]) > 0.005:
        return f"{found['factorizations']:.2f} n^{order + 1}"
    if abs(found["lower_factorizations"]) > 0.005:
        return f"{found['lower_factorizations']:.2f} n^{order} r"
    return "lower order"


EXPERIMENT = Experiment("table1", "Flop counts", grid, run, describe, timed=False, claims=claims)
