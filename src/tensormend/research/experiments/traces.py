"""One completion run, with tensormend's kernels or with dense arrays, and its trace.

``"dense"`` stands for the NumPy methods of `tensormend.research.experiments.fast_dense`, which
compare the algorithms rather than the kernels, ``"kernels"`` for `tensormend.recover`. The
computation of errors is not timed.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from tensormend.core.algebra import Array
from tensormend.core.tucker import Tucker
from tensormend.operators import Operator, Sampling
from tensormend.recovery.entry import recover
from tensormend.research.custom import make_method
from tensormend.research.experiments import fast_dense
from tensormend.research.records import Record
from tensormend.research.runner import Settings
from tensormend.research.summary import format_spread
from tensormend.simulate import add_noise, gaussian_tucker, noise_level, sample_indices

__all__ = [
    "IMPLEMENTATIONS",
    "STEPS",
    "draw_again",
    "draw_completion",
    "find_fastest",
    "format_seconds",
    "have_arrived",
    "median_init_seconds",
    "median_iteration_seconds",
    "median_seconds",
    "median_trace",
    "run_completion",
]

T = TypeVar("T")

IMPLEMENTATIONS: Final = ("dense", "kernels")
STEPS: Final = ("constant", "normalized")
ORDERED: Final = ("sm-qrgd", "sempiht")  # the methods that take the modes in an order
DENSE: dict[str, Callable[..., Any]] = {
    "sm-qrgd": fast_dense.smqrgd,
    "sempiht": fast_dense.sempiht,
    "rgd": fast_dense.rgd,
    "rgd-unshared": functools.partial(fast_dense.rgd, shared=False),
}


def draw_completion(
    shape: Sequence[int],
    rank: int | Sequence[int],
    ratio: float,
    rng: int | np.random.Generator,
    *,
    truth: Tucker | None = None,
    threads: int | None = None,
) -> tuple[Tucker, Sampling, Array]:
    """Draw the paper's random tensor and samples of it: the truth, the operator, the data."""
    rng = np.random.default_rng(rng)
    truth = gaussian_tucker(shape, rank, rng=rng) if truth is None else truth
    operator = Sampling(shape, sample_indices(shape, ratio, rng=rng), threads=threads)
    return truth, operator, operator.forward(truth)


def draw_again(
    n: int,
    rank: int | Sequence[int],
    ratio: float,
    seed: int,
    *,
    order: int = 3,
    snr: float | None = None,
) -> tuple[Tucker, Sampling, Array]:
    """Return the problem of `draw_completion` for equal sizes; the last problem drawn is cached.

    The operator is created for every call, so that no cell uses what another has prepared. ``snr``
    is the signal-to-noise ratio, in dB, of noise that is added.
    """
    ranks = tuple(np.atleast_1d(rank).tolist())
    truth, indices, y = _draw_cube((n,) * order, ranks, ratio, seed, snr)
    return truth, Sampling(truth.shape, indices), y


@functools.lru_cache(maxsize=1)
def _draw_cube(
    shape: tuple[int, ...], rank: tuple[int, ...], ratio: float, seed: int, snr: float | None
) -> tuple[Tucker, Array, Array]:
    rng = np.random.default_rng(seed)
    ranks = rank if len(rank) > 1 else rank[0]
    truth, operator, y = draw_completion(shape, ranks, ratio, rng)
    if snr is not None:
        y = add_noise(y, noise_level(truth, snr), rng=rng)
    return truth, np.asarray(operator.indices), y


def run_completion(truth: Tucker, operator: Operator, y: Array, settings: Settings) -> Record:
    """Run a method until the true error reaches ``tol`` or for ``max_iter`` iterations.

    Of the settings it reads ``implementation``, ``method``, ``step`` (None for the method's own),
    ``mode_order`` (that of the modes where it is missing, the method's own where it is None),
    ``tol`` and ``max_iter``.
    """
    run = _run_dense if settings["implementation"] == "dense" else _run_kernels
    options: dict[str, Any] = {} if settings["step"] is None else {"step": settings["step"]}
    modes = settings.get("mode_order", range(len(truth.shape)))
    if settings["method"] in ORDERED and modes is not None:
        options["mode_order"] = tuple(modes)
    trace = run(truth, operator, y, settings, options)
    return {
        "n_iter": len(trace["error"]) - 1,
        "reached": trace["error"][-1] <= settings["tol"],
        "seconds": trace["seconds"][-1],
        "trace": trace,
    }


def _run_kernels(
    truth: Tucker, operator: Operator, y: Array, settings: Settings, options: dict[str, Any]
) -> dict[str, list[float]]:
    max_iter = settings["max_iter"]
    rules: dict[str, Any] = {"tol": 0, "xtol": 0, "min_delta": 0, "patience": max_iter + 1}
    trace = recover(
        operator,
        y,
        truth.rank,
        method=make_method(settings["method"], **options),
        truth=truth,
        truth_tol=settings["tol"],
        max_iter=max_iter,
        **rules,
    ).history
    return {name: getattr(trace, name).tolist() for name in ("seconds", "error", "residual")}


def _run_dense(
    truth: Tucker, operator: Operator, y: Array, settings: Settings, options: dict[str, Any]
) -> dict[str, list[float]]:
    if not isinstance(operator, Sampling):
        raise TypeError(f"dense methods need sampled entries, got {type(operator).__name__}")
    flat = np.ravel_multi_index(tuple(np.asarray(operator.indices).T), truth.shape)
    full, data = truth.todense(), np.zeros(truth.shape)
    data.flat[flat] = y
    mask = np.zeros(truth.shape, dtype=bool)
    mask.flat[flat] = True
    size, y_size, spent = np.linalg.norm(full), np.linalg.norm(y), 0.0
    error, residual = np.empty_like(full), np.empty_like(y)
    trace: dict[str, list[float]] = {"seconds": [], "error": [], "residual": []}
    clock = time.perf_counter()
    iterates = DENSE[settings["method"]](data, mask, truth.rank, **options)  # computes its init
    for k in range(settings["max_iter"] + 1):
        clock = time.perf_counter() if k else clock
        x = next(iterates).x
        spent += time.perf_counter() - clock
        trace["seconds"].append(spent)
        np.subtract(x, full, out=error)
        trace["error"].append(float(np.linalg.norm(error) / size))
        np.subtract(np.take(x.reshape(-1), flat, out=residual), y, out=residual)
        trace["residual"].append(float(np.linalg.norm(residual) / y_size))
        if trace["error"][-1] <= settings["tol"]:
            break
    return trace


# of several records


def median_seconds(records: Sequence[Record]) -> float:
    """Median of the times of some runs."""
    return float(np.median([record["results"]["seconds"] for record in records]))


def have_arrived(records: Sequence[Record]) -> bool:
    """Whether all of some runs reached the tolerance."""
    return all(record["results"]["reached"] for record in records)


def find_fastest(
    by_name: Mapping[T, Sequence[Record]],
    seconds: Callable[[Sequence[Record]], float] = median_seconds,
) -> T | None:
    """Name the runs of least median time among those that all arrived, if there are any."""
    times = {name: seconds(own) for name, own in by_name.items() if have_arrived(own)}
    return min(times, key=times.__getitem__) if times else None


def format_seconds(records: Sequence[Record]) -> str:
    """Median of the times, with the least and the largest where there are several."""
    return format_spread([record["results"]["seconds"] for record in records])


def median_init_seconds(records: Sequence[Record]) -> float:
    """Median of the times of the initial estimate, which those of the runs include."""
    return float(np.median([record["results"]["trace"]["seconds"][0] for record in records]))


def median_iteration_seconds(records: Sequence[Record]) -> float:
    """Median of the times of some runs without that of the initial estimate."""
    found = [record["results"] for record in records]
    return float(np.median([own["seconds"] - own["trace"]["seconds"][0] for own in found]))


def median_trace(records: Sequence[Record]) -> tuple[Array, Array, Array]:
    """Return iterations, median seconds and errors of repeats, which differ in time alone."""
    traces = [record["results"]["trace"] for record in records]
    length = min(len(trace["error"]) for trace in traces)
    seconds = np.median([trace["seconds"][:length] for trace in traces], axis=0)
    return np.arange(length), seconds, np.asarray(traces[0]["error"][:length], dtype=float)
