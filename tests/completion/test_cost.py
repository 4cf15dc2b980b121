"""The cost told before a run: against measured peaks, and what the machine is read to have."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensormend as tm
import tensormend.completion.cost.estimate as cost_module
from tensormend.completion.cost import (
    Cost,
    available_memory,
    check_cost,
    dense_cost,
    fit_cost,
    plan,
)
from tensormend.completion.cost.plan import Plan, measure_speed
from tensormend.core import kernels
from tensormend.core.fibres import Fibres
from tensormend.errors import InputError, MemoryLimitError

# what a run of its own takes above what it was given, in a process that has run before
RUN = """
import json, sys, warnings
import numpy as np
import tensormend as tm
import tensormend.completion.cost.estimate as cost_module

def status(name):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

warnings.simplefilter("ignore")
task = json.loads(sys.argv[1])
small = tm.simulate.random_tucker((8, 9, 10), 2, rng=0).todense()
tm.complete(np.where(np.random.default_rng(0).random(small.shape) < 0.6, small, np.nan), 2)
with np.load(task["file"]) as data:
    indices, values = data["indices"], data["values"]
shape, rank = tuple(task["shape"]), tuple(task["rank"])
wide = np.ones((500, 6000), dtype=complex)
wide[:, :500] @ wide  # what BLAS packs is its own, and its size depends on the processor
del wide
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak is that from here on
before = status("VmRSS")
tm.complete(values, rank, indices=indices, shape=shape, max_iter=2, tol=0, **task["options"])
sys.stdout.write(str(status("VmHWM") - before))
"""


def noisy_entries(shape: tuple[int, ...], size: int, dtype: str) -> tuple[Any, Any]:
    """Distinct random indices in random order, and noisy values of rank 2."""
    rng = np.random.default_rng(0)
    flat = rng.permutation(np.unique(rng.integers(0, math.prod(shape), size)))
    indices = np.stack(np.unravel_index(flat, shape), axis=1)
    truth = tm.simulate.random_tucker(shape, 2, rng=0)
    values = truth.entries(indices)
    values = 3 * values / np.abs(values).max() + 0.01 * rng.standard_normal(len(indices))
    return indices, values.astype(dtype)


def peak(tmp_path: Path, data: tuple[Any, Any], shape: Any, rank: Any, **options: Any) -> int:
    file = tmp_path / "data.npz"
    np.savez(file, indices=data[0], values=data[1])
    task = {"file": str(file), "shape": shape, "rank": rank, "options": options}
    out = subprocess.run(  # noqa: S603
        [sys.executable, "-c", RUN, json.dumps(task)],
        env={**os.environ, **GIVE_BACK},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return int(out)


# The allocator of glibc keeps what was freed, more or less of it by the moments at which threads
# free: told to give back at once, what is measured is what is held.
GIVE_BACK = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
}
MARGIN = 2.25  # allowed ratio of the estimate to what is held

CASES: dict[str, Any] = {
    "cube": ((200, 200, 200), (5, 5, 5), 1_000_000, "float64", "auto"),
    "single precision": ((200, 200, 200), (5, 5, 5), 1_000_000, "float32", "auto"),
    "complex": ((200, 200, 200), (5, 5, 5), 600_000, "complex128", "auto"),
    "sparse": ((800, 900, 1000), (5, 5, 5), 600_000, "float64", "auto"),
    "hypersparse": ((90_000, 100_000, 80_000), (4, 4, 4), 100_000, "float64", "auto"),
    "hypersparse, one long mode": ((200_000, 40, 30), (3, 3, 3), 300_000, "float64", "auto"),
    "matrix": ((3000, 2000), (8, 8), 600_000, "float64", "auto"),
    "order 4": ((80, 80, 80, 80), (3, 3, 3, 3), 600_000, "float64", "rcg"),
    "order 5": ((30, 30, 30, 30, 30), (2, 2, 2, 2, 2), 500_000, "float64", "auto"),
    "panels": ((500, 600, 700), (4, 4, 4), 600_000, "float64", "sm-qrgd"),
    "panels of sempiht": ((500, 400, 700), (4, 4, 4), 600_000, "float64", "sempiht"),
    "every order": ((200, 200, 200), (3, 3, 3), 600_000, "float64", "tiht"),
}


@pytest.mark.skipif(not kernels.is_native, reason="counts what the compiled kernels hold")
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak in /proc")
@pytest.mark.parametrize("name", CASES)
def test_memory_covers_the_peak_with_room_to_spare(tmp_path: Path, name: str) -> None:
    shape, rank, size, dtype, method = CASES[name]
    data = noisy_entries(shape, size, dtype)
    measured = peak(tmp_path, data, shape, rank, method=method, threads=2)
    cost = fit_cost(shape, rank, len(data[1]), dtype, method=method)
    assert measured <= cost.bytes <= MARGIN * measured


@pytest.mark.skipif(not kernels.is_native, reason="counts what the compiled kernels hold")
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak in /proc")
def test_entries_in_order_take_less(tmp_path: Path) -> None:
    shape, rank, size, dtype, method = CASES["sparse"]
    indices, values = noisy_entries(shape, size, dtype)
    order = np.lexsort(indices.T[::-1])
    measured = peak(tmp_path, (indices[order], values[order]), shape, rank, method=method)
    assert measured < fit_cost(shape, rank, len(values), dtype, method=method).bytes


@settings(deadline=None, max_examples=30)
@given(
    shape=st.lists(st.integers(2, 40), min_size=2, max_size=5),
    fraction=st.floats(0.01, 1.0),
    seed=st.integers(0, 2**32 - 1),
)
def test_trees_are_counted_as_they_are_built(shape: list[int], fraction: float, seed: int) -> None:
    """Random indices: within four deviations of the mean, and as many bytes as its arrays have."""
    total = math.prod(shape)
    size = max(1, min(20_000, round(fraction * total)))
    flat = np.random.default_rng(seed).choice(total, size, replace=False)
    indices = np.stack(np.unravel_index(flat, shape), axis=1)
    fibres, _ = Fibres.build(shape, indices)
    plan = Plan(tuple(shape), (1,) * len(shape), size, 8)
    for expected, nodes in zip(plan.nodes(fibres.modes), fibres.nodes, strict=True):
        # drawing without replacement spreads indices, so there are a few more
        assert expected < len(nodes) + 4 * math.sqrt(len(nodes)) + 1
        assert len(nodes) < 1.6 * expected + 1
    held = sum(array.nbytes for array in (*fibres.nodes, *fibres.starts, fibres.leaves))
    ends = 8 * len(fibres.starts)
    n_nodes = sum(map(len, fibres.nodes))
    permutation = 8 * size
    counted = plan.tree(fibres.modes) - permutation - 12 * sum(plan.nodes(fibres.modes))
    assert counted + 12 * n_nodes == pytest.approx(held - ends)


def test_more_of_anything_costs_more() -> None:
    def cost(
        shape: Any = (200, 200, 200), rank: int = 4, size: int = 10**6, **options: Any
    ) -> Cost:
        return fit_cost(shape, rank, size, threads=1, **options)

    base = cost()
    assert cost(size=2 * 10**6).bytes > 1.5 * base.bytes
    assert cost(shape=(200, 200, 200, 200)).bytes > base.bytes
    assert cost(shape=(200_000, 200_000, 200_000), rank=8).bytes > 3 * base.bytes
    assert cost(dtype=np.float32).bytes <= base.bytes < cost(dtype=np.complex128).bytes
    assert cost(given=False).bytes == base.bytes + 10**6 * (3 * 8 + 8)
    assert cost(method="tiht").bytes > base.bytes
    assert cost(shape=(1000, 1000, 1000), method="sm-qrgd").bytes > (
        cost(shape=(1000, 1000, 1000), method="rgd").bytes
    )
    for dearer in (cost(size=2 * 10**6), cost(rank=12), cost(shape=(10**5, 10**5, 10**5))):
        assert dearer.work > 1.5 * base.work
    assert cost(passes=400).work > 3 * base.work


def test_the_time_is_that_of_this_machine() -> None:
    cost = fit_cost((300, 300, 300), 5, 10**6, threads=1)
    assert cost.threads == 1
    assert cost.seconds == cost.work * measure_speed(1)
    assert 1e-11 < measure_speed(1) < 1e-6  # from a hundred times as fast to the NumPy twins
    assert measure_speed(1) == measure_speed(1)
    assert fit_cost((300, 300, 300), 5, 10**6).threads == kernels.thread_count(None)


def test_whole_tensors() -> None:
    cost = dense_cost((100, 200, 300), np.float32, copies=2)
    assert cost.bytes == 2 * 100 * 200 * 300 * 4
    assert math.isnan(cost.seconds)
    assert dense_cost((10**6, 10**6, 10**6)).bytes == 8 * 10**18


@pytest.mark.parametrize(
    ("cost", "sentence"),
    [
        (Cost(2**20, "here", "run"), "About 1 MiB of memory, most of it here."),
        (Cost(2000, "here", "run"), "About 1.95 KiB of memory, most of it here."),
        (Cost(3 * 2**39, "here", "run"), "About 1.5 TiB of memory, most of it here."),
    ],
)
def test_sentences(cost: Cost, sentence: str) -> None:
    assert str(cost) == cost.sentence == sentence


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0123, "0.012 s"), (100, "1 min 40 s"), (600, "10 min 0 s"), (86400, "24 h 0 min")],
)
def test_times_in_words(seconds: float, words: str) -> None:
    cost = Cost(2**30, "here", "run", work=seconds / measure_speed(1))
    assert cost.sentence == f"About 1 GiB of memory, most of it here, and {words}."


# refusal


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cost = fit_cost((1000, 1000, 1000), 5, 10**7)
    with pytest.raises(MemoryLimitError) as error:
        check_cost(cost, memory_limit=2**28)
    message = str(error.value)
    assert f"the run needs about {cost.bytes / 2**20:.3g} MiB of memory" in message
    assert "and 256 MiB are allowed; lower the rank, take fewer entries" in message
    check_cost(cost, memory_limit=2**40)
    monkeypatch.setattr(cost_module, "available_memory", lambda: 2**28)
    with pytest.raises(MemoryLimitError, match="256 MiB are free"):
        check_cost(cost)
    sorting = fit_cost((200, 200, 200), 5, 8 * 10**6)
    with pytest.raises(MemoryLimitError, match="256 MiB are free; take fewer entries, or raise"):
        check_cost(sorting)
    check_cost(cost, memory_limit=2**40)
    with pytest.raises(MemoryLimitError, match="use a method that works on the entries alone"):
        check_cost(dense_cost((1000, 1000, 1000)))
    small = fit_cost((50, 50, 50), 2, 10**4)
    monkeypatch.setattr(cost_module, "available_memory", lambda: 0)
    check_cost(small)  # not worth asking the system
    with pytest.raises(MemoryLimitError):
        check_cost(small, memory_limit=2**10)
    monkeypatch.setattr(cost_module, "available_memory", lambda: None)
    check_cost(dense_cost((10**6, 10**6, 10**6)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((10, 10, 10), 2, 0), "between 1 and 1000, got 0"),
        (((10, 10, 10), 2, 1001), "between 1 and 1000, got 1001"),
        (((10, 10, 10), 11, 100), "must not exceed the size of its mode"),
        (((10, 10, 10), 2, 100, np.int64), "dtype must be float32"),
        (((10,), 2, 5), "at least two modes"),
    ],
)
def test_refusals(arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit_cost(*arguments)


# what the machine has

MEMINFO = "MemTotal:       24682416 kB\nMemFree:  100 kB\nMemAvailable:   8000000 kB\n"
AVAILABLE = 8_000_000 * 1024


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MACHINES: dict[str, Any] = {
    "no groups": ({"proc/meminfo": MEMINFO}, AVAILABLE),
    "version 2, limited": (
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "0::/job\n",
            "sys/fs/cgroup/job/memory.max": "1000000\n",
            "sys/fs/cgroup/job/memory.current": "900000\n",
            "sys/fs/cgroup/job/memory.stat": "anon 500\ninactive_file 300000\nactive_file 7\n",
        },
        400_000,
    ),
    "version 2, limited above": (
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "0::/user/job\n",
            "sys/fs/cgroup/user/job/memory.max": "max\n",
            "sys/fs/cgroup/user/job/memory.current": "900000\n",
            "sys/fs/cgroup/user/memory.max": "3000000\n",
            "sys/fs/cgroup/user/memory.current": "1000000\n",
        },
        2_000_000,
    ),
    "version 2, not limited": (
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/memory.max": "max\n",
            "sys/fs/cgroup/memory.current": "5\n",
        },
        AVAILABLE,
    ),
    "version 1, in a container that sees its own group only": (
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "5:cpu,cpuacct:/a\n4:memory:/docker/abc\n1:name=systemd:/a:b\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "2000000\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "500000\n",
            "sys/fs/cgroup/memory/memory.stat": "inactive_file 9\ntotal_inactive_file 100000\n",
        },
        1_600_000,
    ),
    "version 1, not limited": (
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "4:memory:/\n0::/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "500000\n",
        },
        AVAILABLE,
    ),
    "over its limit": (
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/memory.max": "10\n",
            "sys/fs/cgroup/memory.current": "11\n",
        },
        0,
    ),
}


@pytest.mark.parametrize("name", MACHINES)
def test_memory_that_is_left(tmp_path: Path, name: str) -> None:
    files, expected = MACHINES[name]
    assert available_memory(tree(tmp_path, files)) == expected


def test_memory_of_this_machine() -> None:
    found = available_memory()
    if sys.platform == "linux":
        assert found is not None
        assert 2**20 < found < 2**50
    assert found is None or found > 0


def test_where_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without /proc the system is asked, and where it does not say, the answer is None."""
    if hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        assert available_memory(tmp_path) == pytest.approx(
            os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), rel=0.5
        )
        monkeypatch.delitem(os.sysconf_names, "SC_AVPHYS_PAGES")
    assert available_memory(tmp_path) is None
    monkeypatch.delattr(os, "sysconf", raising=False)
    assert available_memory(tmp_path) is None


@pytest.mark.checkout
def test_the_model_cuts_passes_as_the_kernels_do() -> None:
    """The constants of native/parallel.hpp by which a pass is cut, and their copies in the plan."""
    header = (Path(__file__).parents[2] / "native" / "parallel.hpp").read_text("utf-8")

    def constant(name: str) -> int:
        found = re.search(rf"\b{name} = (int64_t\((\d+)\) << (\d+)|\d+)", header)
        assert found is not None, f"{name} is not in native/parallel.hpp any more"
        return int(found[2]) << int(found[3]) if found[2] else int(found[1])

    assert constant("max_chunks") == plan.MAX_CHUNKS
    assert constant("min_entries") == plan.MIN_CHUNK
    assert constant("max_partial_bytes") == plan.MAX_PARTIAL
    assert constant("partials_per_entry") == plan.PARTIALS_PER_ENTRY
