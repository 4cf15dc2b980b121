"""The benchmark: turns, refusals, outcomes, bars and the page. Nothing here depends on a time."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tensormend as tm
from tensormend.cli import main
from tensormend.core import kernels
from tensormend.errors import InputError
from tensormend.research.bench import (
    bars,
    contestants,
    passes,
    peers,
    ranks,
    scaling,
    suite,
    tables,
    tasks,
)
from tensormend.research.bench.cases import GRID, Case, draw_problem, load_problem, save_problem
from tensormend.research.bench.findings import Findings
from tensormend.research.bench.page import write_performance
from tensormend.research.bench.tasks import SHORT, find_missing
from tensormend.research.bench.timed_run import MAX_POINTS, Contestant, TimedRun, thin
from tensormend.research.bench.turns import Benchmark, race, time_import, time_ranks
from tensormend.research.records import append_record, describe_machine, read_records
from tensormend.research.workers import Worker

TINY = Case("tiny", 14, 2, 0.6)
PEERS = [peer.name for peer in peers.PEERS]


def findings_of(bench: Benchmark) -> Findings:
    return Findings(read_records(bench.records))


# cases


def test_a_problem_comes_back_from_its_folder(tmp_path: Path) -> None:
    drawn, loaded = draw_problem(TINY), load_problem(save_problem(TINY, tmp_path))
    np.testing.assert_array_equal(loaded.values, drawn.values)
    np.testing.assert_array_equal(loaded.indices, drawn.indices)
    np.testing.assert_array_equal(loaded.truth.core, drawn.truth.core)
    np.testing.assert_allclose(drawn.filled[drawn.mask], drawn.full[drawn.mask], atol=1e-12)
    assert len(drawn.values) == TINY.size == drawn.mask.sum()
    assert Case.from_record(TINY.as_record()) == TINY


def test_the_grid_leaves_out_what_cannot_be_recovered() -> None:
    names = [case.name for case in GRID]
    assert len(set(names)) == len(names) >= 15
    assert all(case.samples_per_degree > 5 for case in GRID)
    assert any(case.condition for case in GRID)


# timed runs


def test_errors_are_computed_with_the_clock_stopped() -> None:
    given = draw_problem(TINY)
    timed = TimedRun(given, 1e-10, 60.0)
    timed.start()
    assert not timed.check(np.zeros, given.shape)
    assert timed.check(lambda: given.truth)
    assert timed.has_reached
    record = timed.as_record()
    assert record["outcome"] == "reached"
    assert [error for _, error in record["curve"]] == pytest.approx([1.0, 0.0], abs=1e-12)


def test_a_run_ends_with_its_budget_or_its_numbers() -> None:
    given = draw_problem(TINY)
    for budget, x in ((0.0, np.zeros(given.shape)), (60.0, np.full(given.shape, np.nan))):
        timed = TimedRun(given, 1e-10, budget)
        timed.start()
        assert timed.check(np.asarray, x)
        assert "seconds" not in timed.as_record()


def test_curves_keep_their_ends() -> None:
    curve = [(float(k), 1.0 / (k + 1)) for k in range(1000)]
    kept = thin(curve)
    assert len(kept) == MAX_POINTS
    assert (kept[0], kept[-1]) == (curve[0], curve[-1])
    assert thin(curve[:5]) == [(float(a), float(f"{b:.4g}")) for a, b in curve[:5]]


# turns


def test_contestants_alternate_and_medians_are_shown(tmp_path: Path) -> None:
    bench = Benchmark(tmp_path / "r.jsonl", repeats=5)
    names = ["rcg", "fast dense rgd"]
    race(bench, "races", [TINY], names)
    found = findings_of(bench)
    turns = [run["contestant"] for run in found.of("run")]
    rounds = [turns[2 * k : 2 * k + 2] for k in range(5)]
    assert all(sorted(order) == sorted(names) for order in rounds)
    assert len({tuple(order) for order in rounds}) == 2, "one always came after the other"
    for entry in found.entries("races"):
        assert entry.outcome == "reached"
        times = sorted(run["seconds"] for run in entry.runs)
        assert entry.seconds == times[2] > 0
        assert all(run["error"] <= TINY.accuracy for run in entry.runs)
        assert all(run["peak_bytes"] > 1e7 for run in entry.runs)
        curve = np.array(entry.median_run["curve"])
        assert (np.diff(curve[:, 0]) >= 0).all()
        assert curve[0, 1] > 1e-4 > 1e-10 >= curve[-1, 1]


def test_tables_follow_the_line_up_and_not_the_turns() -> None:
    names = ["rcg", "auto", "fast dense rgd"]
    facts: dict[str, Any] = {"section": "races", "family": "ours"}
    told = [{"kind": "contestant", "contestant": name, **facts} for name in names]
    turns = [
        {"kind": "run", "case": case.as_record(), "contestant": name, "outcome": "reached", **facts}
        for case in (TINY, suite.QUICK)
        for name in names[::-1]
    ]
    entries = Findings([*told, *turns]).entries("races")
    expected = [(case.name, name) for case in (TINY, suite.QUICK) for name in names]
    assert [(entry.case.name, entry.contestant) for entry in entries] == expected


def test_what_goes_wrong_is_recorded_and_not_timed(tmp_path: Path) -> None:
    bench = Benchmark(tmp_path / "r.jsonl", repeats=2)
    race(bench, "races", [TINY], ["poor", "crash", "exit", "rcg"])
    found = {entry.contestant: entry for entry in findings_of(bench).entries("races")}
    assert {name: entry.outcome for name, entry in found.items()} == {
        "poor": "missed",
        "crash": "crashed",
        "exit": "crashed",
        "rcg": "reached",
    }
    assert all(found[name].seconds is None for name in ("poor", "crash", "exit"))
    assert len(found["poor"].runs) == 1
    assert len(found["rcg"].runs) == 2
    shown = tables.show_races(findings_of(bench), "tiny")
    assert "missed the accuracy (reached 1.0e+00 in" in shown
    assert "crashed (ArithmeticError: this contestant always crashes)" in shown
    assert "ended with code 3" in shown


def test_one_miss_among_several_runs_takes_the_time_away() -> None:
    runs: list[dict[str, Any]] = [
        {"outcome": "reached", "seconds": 1.0},
        {"outcome": "missed", "message": "reached 3.0e-04 in 60 s"},
        {"outcome": "reached", "seconds": 2.0},
    ]
    facts = {"kind": "run", "section": "races", "case": TINY.as_record()}
    found = Findings({**facts, "contestant": "a", "family": "ours", **run} for run in runs)
    (entry,) = found.entries("races")
    assert entry.seconds is None
    assert tables.show_outcome(entry) == "missed the accuracy (reached 3.0e-04 in 60 s)"


def test_an_endless_run_is_ended(tmp_path: Path) -> None:
    problem = save_problem(TINY, tmp_path)
    options = {"problem": str(problem), "accuracy": 1e-10, "budget": 60.0}
    with Worker(tasks.__name__) as worker:
        first = worker.ask("run", 60.0, name="rcg", **options)
        assert first["outcome"] == "reached"
        assert first["is_warm"] == (first["seconds"] <= SHORT)  # done again while it is short
        assert not worker.ask("run", 60.0, name="rcg", is_timed=False, **options)["is_warm"]
        answer = worker.ask("run", 0.2, name="endless", **options)
        assert answer["outcome"] == "timed out"
        assert worker.ask("run", 60.0, name="rcg", **options)["outcome"] == "crashed"
        assert not worker.is_alive


def test_a_missing_peer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ghost = Contestant("ghost", "peer", print, "", (("no_such_module", "ghost-package"),))
    monkeypatch.setitem(contestants.CONTESTANTS, "ghost", ghost)
    bench = Benchmark(tmp_path / "r.jsonl", repeats=1)
    race(bench, "races", [TINY], ["ghost"])
    (entry,) = findings_of(bench).entries("races")
    assert entry.outcome == "absent"
    assert "not installed: ghost-package" in tables.show_outcome(entry)
    assert find_missing([("numpy", "numpy"), ("no_such_module", "ghost")]) == ["ghost"]


def test_another_python_without_tensormend_says_so(tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no module named tensormend >&2\nexit 3\n")
    broken.chmod(0o755)
    ghost = Contestant("ghost", "peer", print, "", (("no_such_module", "ghost-package"),))
    python, words = Benchmark(tmp_path / "r.jsonl", peer_python=str(broken)).find_home(ghost)
    assert python is None
    assert "not to be had" in words
    assert "no module named tensormend" in words


def test_unknown_contestants_and_cases_are_refused(tmp_path: Path) -> None:
    bench = Benchmark(tmp_path / "r.jsonl")
    with pytest.raises(tm.errors.InputError, match=r"contestant is one of .*got 'nobody'"):
        suite.run_suite(bench, "quick", methods=["nobody"])
    with pytest.raises(tm.errors.InputError, match=r"--only takes sections .*got 'nothing'"):
        suite.run_suite(bench, "quick", only=["nothing"])
    assert not bench.records.exists()


def test_peers_that_are_installed_recover(tmp_path: Path) -> None:
    names = [name for name in PEERS if not find_missing(contestants.CONTESTANTS[name].modules)]
    if not names:
        pytest.skip("no peer is installed")
    bench = Benchmark(tmp_path / "r.jsonl", repeats=1, budget=20.0, threads=1)
    race(bench, "races", [Case("tiny", 14, 2, 0.6, accuracy=1e-8)], names)
    outcomes = {e.contestant: (e.outcome, e.message) for e in findings_of(bench).entries("races")}
    assert outcomes == dict.fromkeys(names, ("reached", ""))


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 6), (3, 4, 2, 5)])
def test_gathered_rows_give_the_entries(shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x = tm.simulate.random_tucker(shape, 2, rng=rng)
    given = SimpleNamespace(mask=rng.random(shape) < 0.5, shape=shape)
    point = SimpleNamespace(
        core=torch.from_numpy(x.core), factors=[torch.from_numpy(u) for u in x.factors]
    )
    np.testing.assert_allclose(
        peers._gather(torch, given)(point).numpy(), x.todense()[given.mask], rtol=1e-12
    )


# sections


def test_sections_run_what_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite, "FEWEST", {2: 0.04})
    monkeypatch.setattr(suite, "RATIOS", (0.9, 0.05))
    monkeypatch.setattr(suite, "N_TRIALS", 2)
    monkeypatch.setattr(suite, "N_NEEDED", 2)
    notes: list[str] = []
    bench = Benchmark(tmp_path / "r.jsonl", repeats=1, note=notes.append)
    only = ["few", "grid", "passes", GRID[0].name]
    suite.run_suite(bench, "quick", only=only, methods=["rcg"])
    found = findings_of(bench)
    assert [record["section"] for record in found.of("section")] == ["few", "grid", "passes"]
    (few,) = found.of("few")  # a fraction of 0.9 is far above the bar
    assert (few["ratio"], few["n_recovered"], few["n_trials"]) == (0.05, 2, 2)
    (entry,) = found.entries("grid")
    assert (entry.case, entry.contestant, entry.outcome) == (GRID[0], "rcg", "reached")
    assert "curve" not in entry.runs[0]
    assert not found.of("passes")  # which has no such case
    assert notes


# passes, growth, import


def test_passes_are_timed_beside_a_read() -> None:
    given = draw_problem(TINY)
    times, n_bytes = passes.time_passes(given, 2, 3, ["rcg", "sm-qrgd", "sm-qrgd, constant"])
    parts = ["values at the entries", "gradient pass", "rcg iteration"]
    for name in ("sm-qrgd", "sm-qrgd, constant"):
        parts += [f"{name} iteration", f"{name} passes"]
    assert list(times) == ["read", *parts]
    assert all(len(seconds) == 3 and min(seconds) > 0 for seconds in times.values())
    assert n_bytes >= given.values.nbytes + 2 * len(given.values)


def test_passes_are_timed_by_rank(tmp_path: Path) -> None:
    bench = Benchmark(tmp_path / "r.jsonl", against=kernels.active.__file__)
    time_ranks(bench, "ranks", (1, 3), ("values", "Gram"), 2)
    found = findings_of(bench)
    records = found.of("ranks")
    assert len(records) == 2 * len(ranks.DTYPES) * len(ranks.FIBRES)
    for record in records:
        for times in record["times"].values():
            assert list(times) == ["values", "Gram"]
            assert all(len(ns) == 2 and min(ns) > 0 for ns in times.values())
    shown = tables.show_ranks(found, "Gram").splitlines()
    assert [line.split(" | ")[0] for line in shown[2:]] == ["| 1", "| 3"]
    assert len(tables.show_builds(found).splitlines()) == 2 + 2 * len(ranks.DTYPES) * len(
        ranks.FIBRES
    )


@pytest.mark.skipif(not kernels.is_native, reason="the compiled kernels were not built")
def test_another_instruction_set_is_timed_beside_the_one_in_use() -> None:
    used = os.environ.get(kernels.VARIABLE) or kernels.active.targets()[-1]
    other = ranks.load_kernels("baseline")
    assert other is not kernels.active
    case = ranks.RankCase.draw(8, "float64", "long", 0.2)
    ours, theirs = (np.asarray(case.passes(m)["values"]()) for m in (kernels.active, other))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)
    assert used == "baseline" or not np.array_equal(ours, theirs)  # other orders of summation


def test_builds_are_compared_by_medians() -> None:
    facts = {"kind": "ranks", "section": "ranks", "dtype": "float64", "fibres": "short"}
    times = {1: ([1.0, 9.0, 1.0], [2.0]), 9: ([4.0], [2.0])}
    records = [
        {**facts, "rank": rank, "times": {"ours": {"Gram": ours}, "theirs": {"Gram": theirs}}}
        for rank, (ours, theirs) in times.items()
    ]
    *_, row = tables.show_builds(Findings(records)).splitlines()
    assert row == "| Gram | float64 | short | 1.000 | 0.500 (rank 1) | 2.000 (rank 9) |"


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("fibres", ranks.FIBRES)
def test_every_fibre_of_a_rank_case_has_as_many_entries(rank: int, fibres: str) -> None:
    case = ranks.RankCase.draw(rank, "complex64", fibres)
    shape, per_fibre = ranks.FIBRES[fibres]
    assert set(np.diff(case.fibres.starts[-1])) == {per_fibre}
    assert case.fibres.n_fibres == shape[0] * shape[1]
    assert list(case.passes(kernels.active)) == list(ranks.PASSES)


def test_another_build_must_be_a_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"_native\*\.so"):
        ranks.load_kernels(tmp_path / "none.so")
    bench = Benchmark(tmp_path / "r.jsonl", against=str(tmp_path / "none.so"))
    with pytest.raises(InputError, match="cannot be timed"):
        time_ranks(bench, "ranks", (1,), ("values",), 1)


@pytest.mark.parametrize("dtype", ["float64", "uint32", "uint16", "uint8"])
def test_a_read_takes_every_word(dtype: str) -> None:
    array = np.arange(37).astype(dtype)
    words = passes.as_words(array)
    assert words.dtype == np.int64
    assert 0 <= array.nbytes - words.nbytes < 8
    assert words.tobytes() == array.tobytes()[: words.nbytes]
    assert np.shares_memory(words, array)


def test_growth_is_measured_and_fitted(tmp_path: Path) -> None:
    bench = Benchmark(tmp_path / "r.jsonl")
    scaling.measure_growth(bench, is_quick=True, only=["entries-0.0125"])
    (record,) = findings_of(bench).of("growth")
    assert record["series"] == "entries"
    assert record["seconds"]["rcg iteration"] > 0
    assert scaling.fit_exponent([10, 100], [2, 20]) == pytest.approx((1, 0))
    double = [{**record, "x": k, "seconds": {"rcg iteration": float(k) ** 2}} for k in (1, 2, 4)]
    assert (
        tables.show_growth(Findings(double)).splitlines()[-1]
        == "| entries | 1 to 4 | 2.00 ± 0.00 |"
    )


def test_the_import_is_timed(tmp_path: Path) -> None:
    bench = Benchmark(tmp_path / "r.jsonl")
    time_import(bench, "import", 2)
    (record,) = findings_of(bench).of("import")
    assert len(record["seconds"]) == 2
    assert all(0 < seconds < 60 for seconds in record["seconds"])


# bars and page


def synthetic_records() -> list[dict[str, Any]]:
    """Records of a benchmark that never ran: auto takes a second, everyone else as many as here."""
    machine: dict[str, Any] = {"section": "races", "started": "now", "cases": [], "repeats": 1}
    records: list[dict[str, Any]] = [{"kind": "section", "machine": describe_machine(), **machine}]
    seconds = {"auto": 1.0, "fast dense rgd": 6.0, "TensorLy tucker": 80.0, "pymanopt CG": 40.0}
    seconds |= {"tucker-riemopt RCG, gathered": 20.0, "tucker-riemopt RCG, expanded": 12.0}
    for name, time in seconds.items():
        family = "ours" if name == "auto" else "dense" if "dense" in name else "peer"
        case = Case("n100", 100, 5, 0.3).as_record()
        facts: dict[str, Any] = {"kind": "run", "section": "races", "case": case}
        outcome = {"outcome": "reached", "seconds": time, "curve": [[0.1, 1.0], [time, 1e-11]]}
        facts |= {"contestant": name, "family": family, "n_iter": 9}
        records.append({**facts, **outcome})
    for name, time in (("auto", 1.4), ("rcg", 1.0)):
        facts = {"kind": "run", "section": "grid", "case": GRID[0].as_record(), "family": "ours"}
        records.append({**facts, "contestant": name, "outcome": "reached", "seconds": time})
    for ratio, count in ((0.02, 5), (0.015, 4), (0.01, 3)):
        facts = {"kind": "few", "section": "few", "contestant": "auto", "rank": 2, "ratio": ratio}
        records.append({**facts, "n_recovered": count, "n_needed": 4, "n_trials": 5})
    for threads in (1, 2):
        times = {"read": [1.0 / threads], "gradient pass": [3.5 / threads]}
        times |= {"sm-qrgd, constant iteration": [5.2], "sm-qrgd, constant passes": [4.0]}
        times |= {"rgd, constant iteration": [3.25]}
        case = Case("n300", 300, 5, 0.3).as_record()
        facts = {"kind": "passes", "section": "passes", "case": case, "threads": threads}
        records.append({**facts, "times": times, "read_bytes": 10**8})
    return records


def test_bars_are_computed_from_the_records() -> None:
    found = {bar.what: bar for bar in bars.check_bars(Findings(synthetic_records()))}
    outcome = {what: (bar.measured, bar.met) for what, bar in found.items()}
    against = "`auto`, n = 100, 30% observed, against "
    assert outcome[against + "the best dense NumPy method"] == ("6 times", True)
    assert outcome[against + "TensorLy"] == ("80 times", False)
    assert outcome[against + "pymanopt (PyTorch)"] == ("40 times", True)
    assert outcome[against + "the same, rows gathered (PyTorch)"] == ("20 times", False)
    formed = "the same, every entry of the small tensor formed (PyTorch)"
    assert outcome[against + formed] == ("12 times", True)
    few = "smallest fraction of entries that `auto` needs at n = 100, rank "
    assert outcome[few + "2"] == ("0.015", True)
    assert outcome[few + "5"] == ("not measured", None)
    best = "`auto` on the grid, beside the best of our methods in each cell"
    assert outcome[best] == ("1.4 times its time", True)
    what = "a gradient pass, n = 300, 30% observed (8.1 million entries), beside a plain read"
    assert outcome[what] == ("3.5 reads", False)
    what = "an iteration of SM-QRGD, constant step, n = 300, 30% observed, beside its own pass"
    assert outcome[what] == ("1.3 passes", True)
    what = "the same beside an iteration of RGD with the constant step"
    assert outcome[what] == ("1.6 iterations", False)


def test_bars_are_not_met_by_nothing() -> None:
    assert {bar.met for bar in bars.check_bars(Findings([]))} == {None}


def test_auto_must_recover_where_another_does() -> None:
    records = synthetic_records()
    for record in records:
        if record["section"] == "grid" and record["contestant"] == "auto":
            record.update(outcome="missed", message="reached 1e-3 in 20 s")
    (lost,) = (bar for bar in bars.check_bars(Findings(records)) if "does not" in bar.what)
    assert (lost.measured, lost.met) == (GRID[0].name, False)


def test_the_command_writes_records_page_and_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, page = tmp_path / "out", tmp_path / "docs" / "performance.md"
    page.parent.mkdir()
    call = ["bench", "--out", str(out), "--repeats", "1", "--only", "n50"]
    assert main([*call, "--method", "rcg", "--method", "sm-qrgd"]) == 0
    assert main([*call, "--method", "rcg", "--write", str(page)]) == 0  # replaces the first
    captured = capsys.readouterr()
    assert "races: n50: rcg: " in captured.err
    assert f"written    {page}" in captured.out
    found = Findings(read_records(out / "bench.jsonl"))
    assert [run["contestant"] for run in found.of("run")] == ["rcg"]
    text = page.read_text()
    assert "| rcg | " in text
    assert "| sm-qrgd |" not in text
    picture = page.parent / "performance" / "race-n50.png"
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert "(performance/race-n50.png)" in text
    assert main(["bench", "--redraw", str(out / "bench.jsonl"), "--out", str(tmp_path / "b")]) == 0
    assert (tmp_path / "b" / "performance.md").read_text() == (out / "performance.md").read_text()
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.checkout
def test_the_committed_records_give_the_committed_page(tmp_path: Path) -> None:
    docs = Path(__file__).parents[2] / "docs"
    page = tmp_path / "performance.md"
    write_performance(docs / "performance" / "bench.jsonl.gz", page, keep_records=True)
    assert page.read_text("utf-8") == (docs / "performance.md").read_text("utf-8")


def test_large_records_are_kept_compressed(tmp_path: Path) -> None:
    for record in synthetic_records():
        append_record(tmp_path / "r.jsonl", record)
    with (tmp_path / "r.jsonl").open("a") as file:
        file.write('{"kind": "other", "section": "other", "filler": "%s"}\n' % ("x" * 300_000))
    write_performance(tmp_path / "r.jsonl", tmp_path / "first.md", keep_records=True)
    kept = tmp_path / "first" / "bench.jsonl.gz"
    assert gzip.decompress(kept.read_bytes()) == (tmp_path / "r.jsonl").read_bytes()
    write_performance(kept, tmp_path / "second.md")
    first, second = (tmp_path / name for name in ("first.md", "second.md"))
    assert second.read_text().count("| yes |") == first.read_text().count("| yes |") > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--repeats", "0"], "--repeats must be 1 or more, got 0"),
        (["--time-limit", "0"], "expected a time above 0"),
        (
            ["--redraw", "nowhere.jsonl"],
            "must be an existing file of records, got nowhere.jsonl",
        ),
    ],
)
def test_the_command_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["bench", "--out", str(tmp_path), *options]) == 2
    assert message in capsys.readouterr().err
