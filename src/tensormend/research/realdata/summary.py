"""What the records say: scores by cell, ratios, and the bars that tensormend is held to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tensormend.research.bench.bars import Bar
from tensormend.research.realdata.contestants import OURS

__all__ = ["Findings", "check_bars"]

Record = dict[str, Any]
Place = tuple[str, str]  # data set and cell
NUCLEAR = ("HaLRTC", "LRTC-TNN")
EXPLODES = 1.1  # times the RMSE of the fibre mean
WORST = 1.1  # times the best of HaLRTC and LRTC-TNN in any cell
FASTER = 5.0  # times LRTC-TNN on the larger tensors


@dataclass(frozen=True, eq=False)
class Findings:
    """The latest record of every data set, and of every contestant in every cell."""

    datasets: dict[str, Record]
    runs: dict[tuple[str, str, str], Record]

    @classmethod
    def of(cls, records: Iterable[Record]) -> Findings:
        """Sort records; later ones take the place of earlier ones."""
        datasets: dict[str, Record] = {}
        runs: dict[tuple[str, str, str], Record] = {}
        for record in records:
            if record["kind"] == "dataset":
                datasets[record["name"]] = record
            elif record["kind"] == "run":
                runs[record["dataset"], record["cell"], record["contestant"]] = record
        return cls(datasets, runs)

    @property
    def places(self) -> list[Place]:
        """Data sets and cells with any record, in their first order."""
        return list(dict.fromkeys(key[:2] for key in self.runs))

    def cells(self, dataset: str) -> list[str]:
        """Return the cells of a data set."""
        return [cell for name, cell in self.places if name == dataset]

    def value(self, place: Place, contestant: str, what: str = "rmse") -> float | None:
        """Return a figure of a contestant, or none where it has not been scored."""
        run = self.runs.get((*place, contestant))
        if run is None or run["outcome"] != "scored" or run.get(what) is None:
            return None
        return float(run[what])

    def ratios(
        self,
        peers: Sequence[str],
        mine: str = "rmse",
        theirs: str | None = None,
        *,
        only_large: bool = False,
    ) -> dict[Place, float]:
        """Return our figure over the best of some peers, for all cells that have both.

        Parameters
        ----------
        mine, theirs : which figure, by default the same
        only_large : leave out the smaller tensors
        """
        found = {}
        for place in self.places:
            ours = self.value(place, OURS, mine)
            others = [self.value(place, peer, theirs or mine) for peer in peers]
            known = [value for value in others if value is not None]
            is_wanted = not only_large or self.datasets[place[0]]["is_large"]
            if ours is not None and known and is_wanted:
                found[place] = ours / min(known)
        return found


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean.

    >>> geometric_mean([1.0, 4.0])
    2.0
    """
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs))


def check_bars(findings: Findings) -> list[Bar]:
    """Hold the records against every bar."""
    nuclear = findings.ratios(NUCLEAR)
    mean = geometric_mean(nuclear.values()) if nuclear else None
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
        Bar(
            "RMSE against the best of HaLRTC and LRTC-TNN, geometric mean over all cells",
            "below 1",
            "not measured" if mean is None else f"{mean:.3f} ({len(nuclear)} cells)",
            None if mean is None else mean < 1.0,
        ),
        _every_cell(
            "RMSE against the best of HaLRTC and LRTC-TNN, every cell", nuclear, WORST, "at most"
        ),
        _speed(
            "speed against LRTC-TNN on the larger tensors, choice of parameters and rank included",
            findings.ratios(["LRTC-TNN"], "seconds", only_large=True),
        ),
    ]


def _every_cell(what: str, ratios: dict[Place, float], limit: float, word: str) -> Bar:
    promise = f"{word} {limit:g}"
    if not ratios:
        return Bar(what, promise, "not measured", None)
    broken = [p for p, r in ratios.items() if (r >= limit if word == "below" else r > limit)]
    worst = max(ratios, key=ratios.__getitem__)
    measured = f"at most {ratios[worst]:.3f} ({' '.join(worst)}); "
    measured += f"{len(ratios) - len(broken)} of {len(ratios)} cells"
    return Bar(what, promise, measured, not broken)


def _speed(what: str, ratios: dict[Place, float]) -> Bar:
    promise = f"at least {FASTER:g} times"
    if not ratios:
        return Bar(what, promise, "not measured", None)
    gains = {place: 1 / ratio for place, ratio in ratios.items()}
    least = min(gains, key=gains.__getitem__)
    measured = f"{gains[least]:.3g} times ({' '.join(least)}) to {max(gains.values()):.3g} times"
    return Bar(what, promise, measured, gains[least] >= FASTER)
