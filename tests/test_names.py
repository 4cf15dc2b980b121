"""One word for one idea: names that were given up do not come back."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

import tensormend as tm
from tensormend.cli.app import app

# what must not be the name of a parameter, attribute or public object anywhere
RETIRED = {
    *("mask", "holdout", "save_every", "max_seconds", "tol_change", "tol_error", "stall"),
    *("start", "lead", "compact", "trace", "holdout_error", "log", "scale", "places", "share"),
    *("Moment", "Progress", "Row", "Trace", "Stop", "Known", "Entries", "Kind", "read_known"),
    *("Masked", "Matrix", "estimate", "TuckerCompletion", "chosen", "fitted", "dense", "permute"),
    *("WELL_DETERMINED", "HOPELESS", "seen", "shrunken", "profiles", "deviation", "noise"),
    *("pullback", "want_residual", "observed_share", "judged"),
}
# attributes that are good words elsewhere
RETIRED_IN = {
    "Completion": {"path", "model", "at", "filled", "known", "x", "history"},
    "Operator": {"shape", "size", "dtype", "arrange", "shifted", "energy", "normal", "pull"},
    "TensorData": {"names", "labels", "attributes", "details", "sizes", "known"},
}
# and parameters
RETIRED_PARAMETERS = {
    "Sampling": {"order"},
    "Shrink": {"first", "rounds", "inner", "balance", "filter"},
    "SMQRGD": {"order"},
    "SeMPIHT": {"order"},
    "as_observations": {"value"},
    "complete": {"order", "value", "operator", "y", "truth", "truth_tol"},
    "recover": {"order"},
    "sthosvd": {"order"},
}
RETIRED_OPTIONS = {
    *("--mask", "--missing", "--strict", "--model-only", "--scale", "--log", "--holdout"),
    *("--max-seconds", "--start", "--lead", "--compact", "--save-every"),
}


def members() -> Iterator[tuple[str, Any]]:
    """Public objects with their dotted names: functions, classes, and what modules export."""
    for name in tm.__all__:
        value = getattr(tm, name)
        if isinstance(value, types.ModuleType):
            for inner in getattr(value, "__all__", ()):
                yield f"{name}.{inner}", getattr(value, inner)
        else:
            yield name, value


def attributes_of(value: type) -> set[str]:
    """Public attributes of a class, members of an enumeration among them."""
    names = {
        *dir(value),
        *getattr(value, "__annotations__", {}),
        *getattr(value, "__members__", ()),
    }
    return {name for name in names if not name.startswith("_")}


def parameters_of(value: Any) -> set[str]:
    """Parameters of a function, or of the constructor and the public methods of a class."""
    if not inspect.isclass(value):
        return set(inspect.signature(value).parameters)
    names: set[str] = set()
    for name in {"__init__", *attributes_of(value)}:
        part = inspect.getattr_static(value, name, None)
        part = getattr(part, "__func__", part)
        if inspect.isfunction(part):
            names.update(inspect.signature(part).parameters)
    return names


PUBLIC = {
    path: value
    for path, value in members()
    if inspect.isclass(value) or inspect.isfunction(value)  # no type aliases
}


@pytest.mark.parametrize("path", PUBLIC)
def test_public_names(path: str) -> None:
    value, last = PUBLIC[path], path.rpartition(".")[2]
    assert last not in RETIRED
    assert not parameters_of(value) & (RETIRED | RETIRED_PARAMETERS.get(last, set()))
    if inspect.isclass(value):
        bases = {base.__name__ for base in value.__mro__}
        given_up = RETIRED.union(*(RETIRED_IN.get(base, set()) for base in bases))
        assert not attributes_of(value) & given_up


def test_options_of_the_command_line() -> None:
    group = get_command(app)
    for command in group.commands.values():  # type: ignore[attr-defined]
        options = {option for part in command.params for option in part.opts}
        assert not options & RETIRED_OPTIONS, command.name
