"""Tables of the benchmark, from its records."""

from __future__ import annotations

import statistics

from tensormend.core.text import format_shape
from tensormend.research.bench.bars import FEWEST, fewest
from tensormend.research.bench.contestants import AUTO
from tensormend.research.bench.findings import Entry, Findings
from tensormend.research.bench.scaling import fit_exponent
from tensormend.research.custom import is_custom, label_method
from tensormend.research.pages import make_table
from tensormend.research.records import Record
from tensormend.research.summary import format_spread

__all__ = [
    "show_builds",
    "show_few",
    "show_grid",
    "show_growth",
    "show_passes",
    "show_races",
    "show_ranks",
]

MEGABYTE = 1e6


def show_outcome(entry: Entry) -> str:
    """Return the seconds of a contestant with their spread, or why it has none."""
    if entry.seconds is not None:
        return entry.spread
    message = " ".join(entry.message.split())
    if entry.outcome == "missed":
        return f"missed the accuracy ({message})"
    if entry.outcome == "absent":
        return message
    return f"{entry.outcome} ({message[:120]})"


def show_races(findings: Findings, case: str) -> str:
    """Return a table of one race: who took how long, how often slower than the fastest of ours."""
    entries = findings.entries("races", case)
    ours = [e.seconds for e in entries if e.family == "ours" and e.seconds is not None]
    best = min(ours, default=None)
    rows = []
    for entry in sorted(entries, key=lambda e: (e.seconds is None, e.seconds or 0.0)):
        times = f"{entry.seconds / best:.3g}" if entry.seconds and best else ""
        peak = f"{entry.peak_bytes / MEGABYTE:.0f}" if entry.peak_bytes else ""
        n_iter = entry.median_run.get("n_iter", "") if entry.seconds is not None else ""
        n_runs = len(entry.runs) if entry.seconds is not None else ""
        rows.append(
            (label_method(entry.contestant), show_outcome(entry), times, n_iter, n_runs, peak)
        )
    head = ["contestant", "seconds", "times our best", "iterations", "runs", "peak memory, MB"]
    return make_table(head, rows)


def show_contestants(findings: Findings) -> str:
    """Return who took part, with which settings and versions."""
    names = {entry.contestant for entry in findings.entries("races")}
    records = findings.of("contestant", "races")
    found = {record["contestant"]: record for record in records if record["contestant"] in names}
    rows = [
        (label_method(name), record["about"], record["versions"] or "tensormend")
        for name, record in found.items()
    ]
    return make_table(["contestant", "what it does", "software"], rows)


def show_passes(findings: Findings) -> str:
    """Return the passes as multiples of a plain read, and how much faster threads make them."""
    rows = []
    records = findings.of("passes")
    for record in records:
        case, medians = record["case"], _medians(record)
        alone = next(
            (_medians(r) for r in records if r["case"] == case and r["threads"] == 1), medians
        )
        for what, seconds in medians.items():
            times = f"{seconds / medians['read']:.2f}"
            gain = f"{alone[what] / seconds:.2f}" if record["threads"] > 1 else ""
            speed = f"{record['read_bytes'] / seconds / 1e9:.3g}"
            facts = (case["n"], f"{case['ratio']:g}", f"{case['size']:,}", record["threads"])
            shown = format_spread([1e3 * t for t in record["times"][what]])
            rows.append((*facts, what, shown, speed, times, gain))
    head = ["n", "ratio", "entries", "threads", "what", "ms", "GB/s", "reads", "gain by threads"]
    return make_table(head, rows)


def _medians(record: Record) -> dict[str, float]:
    return {what: statistics.median(times) for what, times in record.get("times", {}).items()}


def show_ranks(findings: Findings, name: str) -> str:
    """Return the nanoseconds an entry of one pass, by rank, type of values and fibres."""
    cells: dict[int, dict[str, str]] = {}
    for record in findings.of("ranks"):
        times = record["times"]["ours"].get(name)
        if times is not None:
            column = f"{record['dtype']}, {record['fibres']}"
            cells.setdefault(record["rank"], {})[column] = f"{statistics.median(times):.3g}"
    columns = list(dict.fromkeys(column for row in cells.values() for column in row))
    rows = [(rank, *(row.get(c, "") for c in columns)) for rank, row in sorted(cells.items())]
    return make_table(["rank", *columns], rows)


KEY_RANKS = (*range(1, 9), 10, 12, 16, 20, 24, 32)


def show_builds(findings: Findings) -> str:
    """Return how our time compares with that of the other build, pass by pass: ours over theirs.

    Medians of the repeats; over ranks the geometric mean, and the largest ratio with its rank.
    """
    ratios: dict[tuple[str, str, str], dict[int, float]] = {}
    for record in findings.of("ranks"):
        times = record["times"]
        for name, theirs in times.get("theirs", {}).items():
            ratio = statistics.median(times["ours"][name]) / statistics.median(theirs)
            key = (name, record["dtype"], record["fibres"])
            ratios.setdefault(key, {})[record["rank"]] = ratio
    rows = []
    for key, by_rank in ratios.items():
        key_ranks = {rank: by_rank[rank] for rank in KEY_RANKS if rank in by_rank}
        facts = [f"{statistics.geometric_mean(by_rank.values()):.3f}"]
        for some in (key_ranks, by_rank):
            worst = max(some, key=some.__getitem__, default=None)
            facts.append("" if worst is None else f"{some[worst]:.3f} (rank {worst})")
        rows.append((*key, *facts))
    others = ", ".join(map(str, KEY_RANKS[8:]))
    head = ["pass", "values", "fibres", "geometric mean", f"largest of 1 to 8, {others}", "largest"]
    return make_table(head, rows)


def show_grid(findings: Findings) -> str:
    """Return the seconds of our methods in every cell of the grid."""
    entries = findings.entries("grid")
    names = list(dict.fromkeys(entry.contestant for entry in entries))
    rows = []
    for case in findings.case_names("grid"):
        cells = {entry.contestant: entry for entry in entries if entry.case.name == case}
        times = {name: cells[name].seconds for name in names if name in cells}
        reached = [t for name, t in times.items() if t is not None and not is_custom(name)]
        own = times.get(AUTO)
        ratio = f"{own / min(reached):.2f}" if own is not None else ""
        shown = [_short(cells.get(name)) for name in names]
        rows.append((case, *shown, ratio))
    return make_table(["cell", *map(label_method, names), f"{AUTO} beside the best"], rows)


def _short(entry: Entry | None) -> str:
    if entry is None:
        return ""
    return entry.outcome if entry.seconds is None else entry.spread


def show_few(findings: Findings) -> str:
    """Return the smallest fraction of entries that is enough, by contestant and rank."""
    rows = []
    for (name, rank), records in group_few(findings).items():
        found = fewest(findings, rank, name)
        rungs = [f"{record['ratio']:g}: {record['n_recovered']}" for record in records]
        bar = f"{FEWEST[rank]:g}" if rank in FEWEST and name == AUTO else ""
        smallest = "none" if found is None else f"{found:g}"
        rows.append((label_method(name), rank, smallest, bar, ", ".join(rungs)))
    head = ["contestant", "rank", "smallest ratio", "bar", "recovered of 5, by ratio"]
    return make_table(head, rows)


def group_few(findings: Findings) -> dict[tuple[str, int], list[Record]]:
    """Return the records of the search for the fewest entries, by contestant and rank."""
    found: dict[tuple[str, int], list[Record]] = {}
    for record in findings.of("few"):
        found.setdefault((record["contestant"], record["rank"]), []).append(record)
    return found


def growth_series(
    findings: Findings,
) -> dict[str, dict[str, tuple[list[float], list[float]]]]:
    """Return what grows and seconds, by series and by what was timed."""
    found: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
    for record in findings.of("growth"):
        for what, seconds in record["seconds"].items():
            series = found.setdefault(record["series"], {})
            xs, times = series.setdefault(what, ([], []))
            xs.append(record["x"])
            times.append(seconds)
    return found


def show_growth(findings: Findings) -> str:
    """Return the fitted exponents: seconds grow like this power of what varies."""
    series = growth_series(findings)
    names = list(dict.fromkeys(what for lines in series.values() for what in lines))
    rows = []
    for name, lines in series.items():
        xs = next(iter(lines.values()))[0]
        span = f"{min(xs):g} to {max(xs):g}"
        shown = []
        for what in names:
            x, y = lines.get(what, ([], []))
            shown.append("{:.2f} ± {:.2f}".format(*fit_exponent(x, y)) if len(x) > 2 else "")
        rows.append((name, span, *shown))
    return make_table(["what grows", "from, to", *names], rows)


def show_huge(findings: Findings) -> str:
    """Return what became of the largest tensors."""
    rows = []
    for entry in findings.entries("scaling"):
        case, error = entry.case, entry.runs[-1].get("error")
        peak = f"{entry.peak_bytes / 1e9:.2f}" if entry.peak_bytes else ""
        shape = format_shape(case.shape)
        shown = "" if error is None else f"{error:.1e}"
        size = f"{case.size:,} ({case.ratio:.2g})"
        rows.append((shape, size, case.rank, show_outcome(entry), shown, peak))
    head = ["shape", "entries observed", "rank", "seconds", "true error", "peak memory, GB"]
    return make_table(head, rows)
