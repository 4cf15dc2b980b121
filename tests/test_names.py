"""One word for one idea: names that were given up do not come back."""

from __future__ import annotations

import ast
import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path
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
# what documentation, docstrings and messages must not say, with the usual words
RETIRED_WORDS = {
    r"(?<!in )(?<!the )(?<!its )(?<!their )(?<!that )(?<!no )places?": "indices, positions",
    r"shares? of|the shares?|a share": "fraction",
    r"holes?|holed": "missing entries",
    r"(?<!standard )deviations?": "standard deviation",
    r"rooms?|house|furniture|front doors?|strangers?": "package, module, entry point, user",
    r"pull-backs?|pulled back|pullback": "gradient",
    r"lead[- ]mode|lead factor": "tangent mode, leaf mode",
    r"shrunken|balanced model": "regularized, shrinkage",
    r"holdout": "held-out entries, validation data",
    r"goes on|go on|went on": "continues",
    r"whole or not there": "written atomically",
    r"well determined|hopeless": "reliable, unreliable",
    r"starting points?|the start is computed": "initial estimate",
    r"observed share|unseen|entries seen": "observed fraction, unobserved",
}
OLD_WORDS = re.compile(rf"\b({'|'.join(RETIRED_WORDS)})\b", re.IGNORECASE)
ROOT = Path(__file__).parents[1]
PROSE = [
    *(path for path in sorted(ROOT.glob("*.md")) if path.name != "CHANGELOG.md"),
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in path.parts),
    *sorted((ROOT / "examples").glob("*.py")),
]
MODULES = sorted((ROOT / "src").rglob("*.py"))


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


def old_words(text: str) -> list[str]:
    """Old words of a text, each with its surroundings."""
    text = " ".join(text.split())
    return [text[max(0, m.start() - 30) : m.end() + 30] for m in OLD_WORDS.finditer(text)]


def test_old_words_are_found() -> None:
    assert len(old_words("The known places, a share of the holes; it goes on.")) == 4
    assert not old_words("sorted in place; the standard deviation; takes the place of")


@pytest.mark.checkout
@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_documentation(path: Path) -> None:
    assert not old_words(path.read_text("utf-8"))


@pytest.mark.checkout
@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_docstrings_and_messages(path: Path) -> None:
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant)]
    found = [old_words(text) for text in texts if isinstance(text, str)]
    assert not [words for words in found if words]
