"""What the records of the benchmark say: medians and ratios of runs that reached the accuracy."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tensormend.research.bench.cases import Case
from tensormend.research.records import Record
from tensormend.research.summary import divide, format_spread, least

__all__ = ["Entry", "Findings"]


@dataclass
class Entry:
    """All runs of one contestant on one case."""

    case: Case
    contestant: str
    family: str
    runs: list[Record] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        """``"reached"`` if every run was accurate, else what became of the first that was not."""
        wrong = [run["outcome"] for run in self.runs if run["outcome"] != "reached"]
        return wrong[0] if wrong else "reached"

    @property
    def message(self) -> str:
        """What is said of a contestant that is not timed."""
        words = next((run for run in self.runs if run["outcome"] != "reached"), {})
        return str(words.get("message", ""))

    @property
    def seconds(self) -> float | None:
        """Median of the runs; nothing if one of them missed the accuracy."""
        if self.outcome != "reached":
            return None
        return statistics.median(float(run["seconds"]) for run in self.runs)

    @property
    def spread(self) -> str:
        """The median of the runs with the least and the largest, where every run was accurate."""
        return format_spread([float(run["seconds"]) for run in self.runs])

    @property
    def median_run(self) -> Record:
        """The run nearest to the median, or the first if it is not timed."""
        middle = self.seconds
        if middle is None:
            return self.runs[0]
        return min(self.runs, key=lambda run: abs(run["seconds"] - middle))

    @property
    def peak_bytes(self) -> int | None:
        """The most memory the process ever had."""
        peaks = [run["peak_bytes"] for run in self.runs if run.get("peak_bytes")]
        return max(peaks) if peaks else None


class Findings:
    """The records of a benchmark, by section."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = list(records)

    def of(self, kind: str, section: str | None = None) -> list[Record]:
        """Return the records of a kind."""
        return [
            record
            for record in self.records
            if record["kind"] == kind and section in (None, record["section"])
        ]

    def entries(self, section: str, case: str | None = None) -> list[Entry]:
        """Return what became of each contestant on each case, as they were announced.

        The order of their turns is drawn, and says nothing.
        """
        found: dict[tuple[str, str], Entry] = {}
        for run in self.of("run", section):
            if case in (None, run["case"]["name"]):
                key = (run["case"]["name"], run["contestant"])
                if key not in found:
                    drawn = Case.from_record(run["case"])
                    found[key] = Entry(drawn, run["contestant"], run["family"])
                found[key].runs.append(run)
        cases = {name: k for k, name in enumerate(self.case_names(section))}
        names = dict.fromkeys(record["contestant"] for record in self.of("contestant", section))
        ranks = {name: k for k, name in enumerate(names)}

        def position(entry: Entry) -> tuple[int, int]:
            return cases[entry.case.name], ranks.get(entry.contestant, len(ranks))

        return sorted(found.values(), key=position)

    def case_names(self, section: str) -> list[str]:
        """Return the names of the cases of a section."""
        return list(dict.fromkeys(run["case"]["name"] for run in self.of("run", section)))

    def seconds(self, case: str, names: Sequence[str] | None = None, **where: str) -> float | None:
        """Return the least median among some contestants of a race, or of a family."""
        return least(
            entry.seconds
            for entry in self.entries("races", case)
            if (names is None or entry.contestant in names)
            and where.get("family") in (None, entry.family)
        )

    def ratio(self, case: str, slow: Sequence[str] | None, fast: str, **where: str) -> float | None:
        """Return how many times faster ``fast`` is than the best of ``slow``."""
        return divide(self.seconds(case, slow, **where), self.seconds(case, [fast]))

    def pass_seconds(self, case: str, what: str, threads: int | None = None) -> float | None:
        """Return the median seconds of a pass, by default with the most threads measured."""
        found = [
            record
            for record in self.of("passes")
            if record["case"]["name"] == case and what in record.get("times", {})
        ]
        if threads is None:
            threads = max((record["threads"] for record in found), default=1)
        times = [record["times"][what] for record in found if record["threads"] == threads]
        return statistics.median(times[-1]) if times else None
