"""What the benchmark runs: the quick suite, the full one, and how cost grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tensormend.errors import InputError
from tensormend.research.bench.bars import FEWEST
from tensormend.research.bench.cases import GRID, RACES, Case
from tensormend.research.bench.contestants import AUTO, CONTESTANTS, find_contestant
from tensormend.research.bench.ranks import PASSES, RANKS
from tensormend.research.bench.scaling import list_cases, measure_growth
from tensormend.research.bench.turns import Benchmark, race, time_import, time_passes, time_ranks
from tensormend.research.records import Record, append_record, describe_machine, filter_records

__all__ = ["SECTIONS", "SUITES", "run_suite"]

QUICK = Case("n50", 50, 3, 0.3)
GRID_METHODS = (AUTO, "rgd", "rbb", "rcg", "rgn", "scaledgd", "sm-qrgd")
GRID_REPEATS = 9  # at most: there are many cells
GRID_BUDGET = 20.0  # seconds; cells of the grid take far below one where a method works

PEER_NAMES = tuple(name for name, entry in CONTESTANTS.items() if entry.family == "peer")
DENSE_NAMES = ("fast dense rgd", "fast dense smqrgd", "fast dense sempiht")
OUR_NAMES = (AUTO, "rbb", "rcg", "rgn", "rgd", "sm-qrgd")

LINEUPS: dict[str, tuple[str, ...]] = {
    "n50": (AUTO, "rcg", "sm-qrgd", *DENSE_NAMES[:2], *PEER_NAMES),
    "n100": (*OUR_NAMES, *DENSE_NAMES, *PEER_NAMES),
    "n300": (*OUR_NAMES, *DENSE_NAMES),
    "n300-constant": ("sm-qrgd, constant", "fast dense smqrgd, constant"),
    "n400": (*OUR_NAMES, *DENSE_NAMES[:2]),
    "n1000": (AUTO, "auto, 1 thread", "rcg", "rgn", "rgd"),
}

HEADROOM = 1.5  # times the bar, where the search for the smallest ratio begins
RATIOS = (
    *(0.05, 0.04, 0.03, 0.025, 0.02, 0.015, 0.012, 0.01, 0.008, 0.007, 0.006, 0.005),
    *(0.004, 0.003, 0.0025, 0.002, 0.0015, 0.001),
)
N_TRIALS, N_NEEDED = 5, 4
FEW_ACCURACY = 1e-5
FEW_BUDGET = 8.0


@dataclass(frozen=True)
class Choice:
    """What of a section to run: cases and contestants by name, all if there are none.

    Solvers of users come in addition to the contestants.
    """

    suite: str
    cases: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    with_peers: bool = True
    solvers: tuple[str, ...] = ()

    def contestants(self, names: Sequence[str]) -> list[str]:
        """Return those of the names that are chosen; what was asked for by name comes along."""
        chosen = (*(self.methods or tuple(names)), *self.solvers)
        return [
            name for name in chosen if self.with_peers or find_contestant(name).family != "peer"
        ]

    def wants(self, case: Case) -> bool:
        """Tell whether a case is chosen."""
        return not self.cases or case.name in self.cases


def _run_races(bench: Benchmark, choice: Choice) -> None:
    cases = [QUICK] if choice.suite == "quick" else list(RACES.values())
    for case in cases:
        if choice.wants(case):
            race(bench, "races", [case], choice.contestants(LINEUPS[case.name]))


def _run_passes(bench: Benchmark, choice: Choice) -> None:
    if choice.suite == "quick":
        cases, repeats = [Case("n100", 100, 5, 0.3)], 10
    else:
        cases, repeats = [RACES["n300"], RACES["n1000"]], 60
    time_passes(bench, "passes", [case for case in cases if choice.wants(case)], repeats)


def _run_ranks(bench: Benchmark, choice: Choice) -> None:
    if choice.suite == "quick":
        time_ranks(bench, "ranks", (1, 5, 10), ("gradient",), 3)
    else:
        time_ranks(bench, "ranks", RANKS, PASSES, bench.repeats)


def _run_grid(bench: Benchmark, choice: Choice) -> None:
    settings = replace(bench, budget=GRID_BUDGET, repeats=min(bench.repeats, GRID_REPEATS))
    cases = [case for case in GRID if choice.wants(case)]
    race(settings, "grid", cases, choice.contestants(GRID_METHODS), keep_curves=False)


def _run_few(bench: Benchmark, choice: Choice) -> None:
    """Find how few entries are enough: lower their fraction until it fails."""
    settings = replace(bench, budget=FEW_BUDGET)
    for name in choice.contestants((AUTO,)):
        for rank, bar in FEWEST.items():
            for ratio in (ratio for ratio in RATIOS if ratio <= HEADROOM * bar):
                case = Case(f"n100-r{rank}-{ratio:g}", 100, rank, ratio, accuracy=FEW_ACCURACY)
                if case.samples_per_degree < 1:
                    break
                count = _count_recovered(settings, name, case)
                facts = {"contestant": name, "rank": rank, "ratio": ratio}
                counts = {"n_recovered": count, "n_trials": N_TRIALS, "n_needed": N_NEEDED}
                bench.write("few", "few", **facts, **counts)
                bench.note(f"few: {name}, rank {rank}, ratio {ratio:g}: {count} of {N_TRIALS}")
                if count < N_NEEDED:
                    break


def _count_recovered(bench: Benchmark, name: str, case: Case) -> int:
    count = 0
    with bench.start() as worker:
        for trial in range(N_TRIALS):
            drawn = replace(case, seed=100 * trial)
            with bench.problem(drawn) as problem:
                facts = {"problem": str(problem), "accuracy": case.accuracy, "is_timed": False}
                answer = bench.ask(worker, "run", name=name, budget=bench.budget, **facts)
            count += answer["outcome"] == "reached"
            if not worker.is_alive:
                break
    return count


def _run_import(bench: Benchmark, choice: Choice) -> None:
    time_import(bench, "import", 3 if choice.suite == "quick" else 9)


def _run_scaling(bench: Benchmark, choice: Choice) -> None:
    measure_growth(bench, is_quick=choice.suite == "quick", only=choice.cases)


SECTIONS: dict[str, Callable[[Benchmark, Choice], None]] = {
    "races": _run_races,
    "passes": _run_passes,
    "ranks": _run_ranks,
    "grid": _run_grid,
    "few": _run_few,
    "import": _run_import,
    "scaling": _run_scaling,
}

SUITES = {
    "quick": ("races", "passes", "import"),
    "full": ("races", "passes", "grid", "few", "import"),
}
"""Sections of each suite; ranks and scaling take some minutes more and are asked for by name."""


def run_suite(
    bench: Benchmark,
    suite: str,
    *,
    only: Sequence[str] = (),
    methods: Sequence[str] = (),
    with_peers: bool = True,
    solvers: Sequence[str] = (),
) -> None:
    """Run a suite, or those sections or cases of it that ``only`` names.

    Solvers of users, as ``module:Class``, take part in races, the grid and the search for the
    fewest entries. Cases without a section are races; with one, they are those of it to run.
    Records of a section or a case that is run again are replaced; the others stay.
    """
    cases = {QUICK.name, *RACES, *(case.name for case in GRID), *list_cases()}
    for name in only:
        if name not in SECTIONS and name not in cases:
            raise InputError(
                f"--only takes sections ({', '.join(SECTIONS)}) and cases ({', '.join(RACES)}, "
                f"or those of grid and scaling), got {name!r}"
            )
    for name in methods:
        find_contestant(name)
    chosen = tuple(name for name in only if name not in SECTIONS)
    sections = [name for name in only if name in SECTIONS]
    sections = sections or (["races"] if chosen else list(SUITES[suite]))
    choice = Choice(suite, chosen, tuple(methods), with_peers, tuple(solvers))
    for section in sections:
        filter_records(bench.records, _outside(section, chosen))
        started = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        settings = {"suite": suite, "repeats": bench.repeats, "budget": bench.budget}
        facts = {"started": started, "cases": chosen, "machine": describe_machine(), **settings}
        append_record(bench.records, {"kind": "section", "section": section, **facts})
        SECTIONS[section](bench, choice)


def _outside(section: str, cases: Sequence[str]) -> Callable[[Record], bool]:
    """Return what tells whether a record stays where a section, or some of its cases, run again."""

    def stays(record: Record) -> bool:
        if record["section"] != section:
            return True
        return bool(cases) and record.get("case", {}).get("name") not in cases

    return stays
