"""The summary of a run, as labelled rows or as a record for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensormend.cli.words import count
from tensormend.core.text import format_seconds, format_shape

if TYPE_CHECKING:
    from tensormend import Completion, Trust

__all__ = ["describe", "make_record"]


def describe(
    result: Completion,
    source: Path | str,
    written: Mapping[str, Path],
    stopped: str | None = None,
) -> Iterator[tuple[str, str]]:
    """Yield the rows of the summary: verdict, error, model, run time and files.

    Parameters
    ----------
    result : Completion
        The result.
    source : Path or str
        The file that was read.
    written : mapping of str to Path
        Files that were written, by kind.
    stopped : str, default=None
        Name of the signal that stopped the run.

    Yields
    ------
    tuple of (str, str)
        Label and text of a row.
    """
    observed, trust = result.observations, result.trust
    shape, fraction = format_shape(observed.shape), len(observed.values) / math.prod(observed.shape)
    yield "data", f"{source}, {shape}, {100 * fraction:.3g}% of the entries observed"
    yield "verdict", f"{trust.verdict.title}. {trust.verdict.message}"
    for reason in trust.reasons:
        yield "", f"- {reason}"
    yield from _describe_error(trust)
    if trust.remark:
        yield "note", trust.remark
    yield "model", _describe_model(result)
    if not result.preprocessing.is_identity:
        yield "preprocess", result.preprocessing.describe()
    ended = f"Interrupted by {stopped}." if stopped else _describe_end(result)
    yield "run", f"{count(result.n_iter, 'iteration')}, {format_seconds(result.seconds)}. {ended}"
    for kind, path in written.items():
        yield "written", f"{path} ({kind})"


def _describe_model(result: Completion) -> str:
    """Describe the best trial of a search, or the given rank and the method."""
    if result.trials:
        return str(result.best_trial)
    return f"rank {format_shape(result.fit.x.rank)}, method {result.fit.method}"


def _describe_end(result: Completion) -> str:
    """Describe how the run ended."""
    if result.trials and result.success:
        return "Search and final fit completed."
    return result.message


def _describe_error(trust: Trust) -> Iterator[tuple[str, str]]:
    rmse = f"{trust.rmse:.4g} ± {trust.standard_error:.2g}"
    relative = f"{100 * trust.relative_error:.3g}% of the RMS of the values"
    if trust.in_sample:
        yield "error", f"{rmse} on entries used in the fit ({relative}); larger on missing entries"
        yield "", "use --validation-fraction 0.1 to measure it on held-out entries"
    else:
        yield "error", f"{rmse} (RMSE), {relative}, on {trust.n_held} held-out entries"
    yield "baseline", f"{trust.baseline_rmse:.4g} is the error of {trust.baseline}"


def make_record(
    result: Completion,
    source: Path,
    written: Mapping[str, Path],
    *,
    stopped: str | None,
    checkpoint: Path | None,
    warnings: Sequence[str],
    code: str,
) -> dict[str, Any]:
    """Return the record of ``--json``: the summary and further facts, by key.

    Parameters
    ----------
    result : Completion
        The result.
    source : Path
        The file that was read.
    written : mapping of str to Path
        Files that were written, by kind.
    stopped : str or None
        Name of the signal that stopped the run.
    checkpoint : Path or None
        Folder of the checkpoint.
    warnings : sequence of str
        Warnings that were shown.
    code : str
        Python code equivalent to the command.

    Returns
    -------
    dict
        Values by key; ``docs/command-line.md`` describes the keys.
    """
    observed, trust = result.observations, result.trust
    return {
        "input": str(source),
        "shape": observed.shape,
        "n_observed": len(observed.values),
        "observed_fraction": len(observed.values) / math.prod(observed.shape),
        "verdict": trust.verdict.name,
        "reasons": trust.reasons,
        "error": trust.rmse,
        "standard_error": trust.standard_error,
        "relative_error": trust.relative_error,
        "baseline": trust.baseline,
        "baseline_error": trust.baseline_rmse,
        "n_held": trust.n_held,
        "in_sample": trust.in_sample,
        "noise_std": trust.noise_std,
        "degrees_of_freedom": trust.degrees_of_freedom,
        "method": result.fit.method,
        "rank": result.fit.x.rank,
        "preprocessing": result.preprocessing.describe(),
        "status": result.status.name,
        "message": result.message,
        "notes": result.notes,
        "n_iter": result.n_iter,
        "seconds": result.seconds,
        "stopped": stopped,
        "checkpoint": None if checkpoint is None else str(checkpoint),
        "written": {kind: str(path) for kind, path in written.items()},
        "warnings": list(warnings),
        "code": code,
    }
