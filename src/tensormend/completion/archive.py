"""Conversion of the parts of a completion to named arrays, for its file, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from tensormend.completion.selection import Trial
from tensormend.core.algebra import Array
from tensormend.core.tucker import Tucker
from tensormend.data.observations import Container, Labelled, Observations, TensorDataContainer
from tensormend.recovery.result import History, IterationRecord, Result, Status

__all__ = [
    "pack_fit",
    "pack_observations",
    "pack_trials",
    "prefixed",
    "unpack_fit",
    "unpack_observations",
    "unpack_trials",
    "unprefixed",
]


def prefixed(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Add a prefix to every name."""
    return {prefix + name: array for name, array in arrays.items()}


def unprefixed(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays whose names have a prefix, without it."""
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}


def pack_fit(fit: Result) -> dict[str, Array]:
    """Return a result as arrays."""
    facts = {
        "status": fit.status.name,
        "message": fit.message,
        "n_iter": fit.n_iter,
        "seconds": fit.seconds,
        "loss": fit.loss,
        "method": fit.method,
        "notes": fit.notes,
    }
    history = prefixed("history.", fit.history.as_arrays())
    return {"facts": np.array(json.dumps(facts)), **history, **fit.x.as_arrays()}


def unpack_fit(arrays: Mapping[str, Array]) -> Result:
    """Return the result that `pack_fit` has packed."""
    facts = json.loads(str(arrays["facts"]))
    columns = unprefixed("history.", arrays)
    records = (
        IterationRecord(**dict(zip(columns, row, strict=True)))
        for row in zip(*(column.tolist() for column in columns.values()), strict=True)
    )
    return Result(
        x=Tucker.from_arrays(arrays),
        status=Status[facts.pop("status")],
        history=History(tuple(records)),
        notes=tuple(facts.pop("notes")),
        **facts,
    )


def pack_trials(trials: tuple[Trial, ...]) -> Array:
    """Return trials as JSON."""
    return np.array(json.dumps([asdict(trial) for trial in trials]))


def unpack_trials(packed: Array) -> tuple[Trial, ...]:
    """Return the trials that `pack_trials` has packed."""
    lists = ("center", "rank", "mode_weights", "mode_names")
    out = []
    for facts in json.loads(str(packed)):
        for name in lists:
            facts[name] = None if facts[name] is None else tuple(facts[name])
        out.append(Trial(**facts))
    return tuple(out)


def pack_observations(given: Observations) -> dict[str, Array]:
    """Return observed entries as arrays, with the names and labels of the modes."""
    arrays = {"indices": given.indices, "values": given.values, "shape": np.array(given.shape)}
    container = given.container
    if isinstance(container, Labelled):
        arrays["dims"] = np.array([str(name) for name in container.dims])
        name = getattr(container, "name", None)
        arrays["name"] = np.array("" if name is None else str(name))
        for k, n in enumerate(given.shape):
            arrays[f"coords_{k}"] = _as_labels([container.label(k, i) for i in range(n)])
    return arrays


def unpack_observations(arrays: Mapping[str, Array]) -> Observations:
    """Return the entries that `pack_observations` has packed, of an array or a `TensorData`."""
    shape = tuple(arrays["shape"].tolist())
    container = Container()
    if "dims" in arrays:
        coords = tuple(arrays[f"coords_{k}"] for k in range(len(shape)))
        dims = tuple(arrays["dims"].tolist())
        container = TensorDataContainer(dims, coords, str(arrays["name"]), {}, {})
    return Observations(arrays["indices"], arrays["values"], shape, container)


def _as_labels(labels: list[Any]) -> Array:
    """Return labels as numbers, dates or text."""
    dates = [one.to_datetime64() if hasattr(one, "to_datetime64") else one for one in labels]
    array = np.array(dates)
    return array if array.dtype.kind in "biufMmU" else np.array([str(one) for one in labels])
