"""What the records say: scores by data set and loss, ratios, and the bars of the study."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tensormend.research.pages import show_bars
from tensormend.research.realdata.contestants import OURS
from tensormend.research.records import Record
from tensormend.research.summary import Bar, divide, least

__all__ = ["Findings", "check_bars", "describe"]

Cell = tuple[str, str]  # data set and loss
NUCLEAR = ("HaLRTC", "LRTC-TNN")
EXPLODES = 1.1  # times the RMSE of the fibre mean
WORST = 1.1  # times the best of HaLRTC and LRTC-TNN in any cell
FASTER = 5.0  # times LRTC-TNN on the larger tensors


@dataclass(frozen=True, eq=False)
class Findings:
    """Facts about every data set, and the record of every contestant on every loss."""

    datasets: dict[str, dict[str, Any]]
    runs: dict[tuple[str, str, str], Record]

    @classmethod
    def of(cls, records: Sequence[Record]) -> Findings:
        """Sort the records of the study."""
        datasets: dict[str, dict[str, Any]] = {}
        runs: dict[tuple[str, str, str], Record] = {}
        for record in records:
            settings = record["settings"]
            if "contestant" in settings:
                runs[settings["dataset"], settings["loss"], settings["contestant"]] = record
            elif "results" in record:
                datasets[settings["dataset"]] = record["results"]
        return cls(datasets, runs)

    @property
    def cells(self) -> list[Cell]:
        """Data sets and losses with any record, in their first order."""
        return list(dict.fromkeys(key[:2] for key in self.runs))

    def losses(self, dataset: str) -> list[str]:
        """Return the losses of a data set."""
        return [loss for name, loss in self.cells if name == dataset]

    def value(self, cell: Cell, contestant: str, what: str = "rmse") -> float | None:
        """Return a figure of a contestant, or ``None`` where it has not been scored."""
        results = self.runs.get((*cell, contestant), {}).get("results", {})
        return None if results.get(what) is None else float(results[what])

    def ratios(
        self,
        peers: Sequence[str],
        mine: str = "rmse",
        theirs: str | None = None,
        *,
        only_large: bool = False,
    ) -> dict[Cell, float]:
        """Return our figure over the best of some peers, where both were measured.

        Parameters
        ----------
        peers : sequence of str
            Names of contestants.
        mine, theirs : str, optional
            Which figure of ours and of the peers. By default the same.
        only_large : bool, default=False
            Whether to leave out the smaller tensors.

        Returns
        -------
        dict
            Ratios by data set and loss.
        """
        found = {}
        for cell in self.cells:
            best = least(self.value(cell, peer, theirs or mine) for peer in peers)
            ratio = divide(self.value(cell, OURS, mine), best)
            if ratio is not None and (not only_large or self.datasets[cell[0]]["is_large"]):
                found[cell] = ratio
        return found


def check_bars(findings: Findings) -> list[Bar]:
    """Compare the records with every bar."""
    nuclear = findings.ratios(NUCLEAR)
    return [
        _every_cell(
            "RMSE against TensorLy's masked Tucker at its best rank, every cell",
            findings.ratios(["TensorLy"]),
            1.0,
            "below",
        ),
        _every_cell(
            "RMSE against the fibre mean, every cell",
            findings.ratios(["fibre mean"]),
            EXPLODES,
            "at most",
        ),
        Bar.check(
            "RMSE against the best of HaLRTC and LRTC-TNN, geometric mean over all cells",
            "below 1",
            statistics.geometric_mean(nuclear.values()) if nuclear else None,
            lambda mean: f"{mean:.3f} ({len(nuclear)} cells)",
            lambda mean: mean < 1.0,
        ),
        _every_cell(
            "RMSE against the best of HaLRTC and LRTC-TNN, every cell", nuclear, WORST, "at most"
        ),
        Bar.check(
            "speed against LRTC-TNN on the larger tensors, choice of parameters and rank included",
            f"at least {FASTER:g} times",
            findings.ratios(["LRTC-TNN"], "seconds", only_large=True) or None,
            _show_speed,
            lambda ratios: 1 / max(ratios.values()) >= FASTER,
        ),
    ]


def _every_cell(what: str, ratios: dict[Cell, float], limit: float, word: str) -> Bar:
    broken = [p for p, r in ratios.items() if (r >= limit if word == "below" else r > limit)]

    def show(ratios: dict[Cell, float]) -> str:
        worst = max(ratios, key=ratios.__getitem__)
        kept = f"{len(ratios) - len(broken)} of {len(ratios)} cells"
        return f"at most {ratios[worst]:.3f} ({' '.join(worst)}); {kept}"

    return Bar.check(what, f"{word} {limit:g}", ratios or None, show, lambda _: not broken)


def _show_speed(ratios: dict[Cell, float]) -> str:
    gains = {cell: 1 / ratio for cell, ratio in ratios.items()}
    slowest = min(gains, key=gains.__getitem__)
    return f"{gains[slowest]:.3g} times ({' '.join(slowest)}) to {max(gains.values()):.3g} times"


def describe(records: Sequence[Record]) -> dict[str, str]:
    """Return the facts of the introduction: machines, bars, and the time of one fit of a peer."""
    findings = Findings.of(records)
    machines = dict.fromkeys(_describe_machine(run["machine"]) for run in findings.runs.values())
    gains = [
        1 / ratio
        for ratio in findings.ratios(
            ["LRTC-TNN"], "seconds", "fit_seconds", only_large=True
        ).values()
    ]
    single = (
        "\n\nFor orientation: one fit of LRTC-TNN, its parameters given, takes\n"
        f"{min(gains):.2g} to {max(gains):.2g} times as long as tensormend with its search."
        if gains
        else ""
    )
    bars = show_bars(check_bars(findings))
    return {"machines": "; ".join(machines), "bars": bars, "single": single}


def _describe_machine(machine: dict[str, Any]) -> str:
    words = f"tensormend {machine['tensormend']}, Python {machine['python']}, "
    words += f"NumPy {machine['numpy']}, SciPy {machine['scipy']}, TensorLy {machine['tensorly']} "
    words += f"on {machine['machine']}, threads: {machine['threads']} of tensormend's kernels, "
    return words + f"{machine['blas_threads']} of linear algebra"
