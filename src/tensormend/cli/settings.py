"""Settings of a run: those given, their checks, and the equivalent Python code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tensormend.cli.outputs import Outputs
from tensormend.errors import InputError, TensormendWarning

__all__ = ["check_checkpoint", "find_mode", "given", "short_warnings", "write_code"]

DEFAULTS = {"model": "auto", "method": "auto", "center": "auto"}
NOT_OF_THE_ANSWER = ("threads", "memory_limit")


def given(**settings: Any) -> dict[str, Any]:
    """Return the settings that are neither None nor the default of the library.

    Examples
    --------
    >>> given(method="auto", center="none", tol=None, rng=0)
    {'center': 'none', 'rng': 0}
    """
    return {
        name: value
        for name, value in settings.items()
        if value is not None and value != DEFAULTS.get(name)
    }


def find_mode(mode: str, names: Sequence[str]) -> int:
    """Find a mode by its name or number.

    Examples
    --------
    >>> find_mode("year", ("city", "year")), find_mode("0", ("city", "year"))
    (1, 0)
    """
    if mode in names:
        return list(names).index(mode)
    if mode.isdecimal() and int(mode) < len(names):
        return int(mode)
    raise InputError(
        f"a mode is one of {', '.join(names)}, or a number from 0 to {len(names) - 1}, got {mode!r}"
    )


def check_checkpoint(folder: Path | None, *, resume: bool) -> str:
    """Refuse a folder that cannot be used; return a note if there is nothing to resume.

    A run that ended before its first checkpoint starts anew, so that a script may always pass
    ``--resume``.
    """
    from tensormend.core.storage import check_folder

    if folder is None:
        if resume:
            raise InputError("--resume needs --checkpoint, the folder to continue from, got none")
        return ""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--checkpoint must be a folder, got {folder}, which is a file")
    check_folder(folder)
    is_empty = not folder.exists() or not any(folder.iterdir())
    if not is_empty and not resume:
        raise InputError(
            f"--checkpoint must be a new or empty folder, got {folder}, which holds files; "
            "use --resume to continue from them, or choose another"
        )
    return f"there is no checkpoint in {folder} yet; starting anew" if is_empty and resume else ""


@contextmanager
def short_warnings(note: Callable[[str], None]) -> Iterator[list[str]]:
    """Show the warnings of the package as notes, each once, and suppress all others."""
    import warnings

    shown: list[str] = []

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if text not in shown:
            shown.append(text)
            note(text)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", TensormendWarning)
        warnings.showwarning = show
        yield shown


def write_code(
    source: Path,
    where: Mapping[str, Any],
    rank: Any,
    settings: Mapping[str, Any],
    outputs: Outputs,
) -> str:
    """Return Python code equivalent to the command.

    Examples
    --------
    >>> outputs = Outputs(Path("b.npy"), None, None)
    >>> print(write_code(Path("a.npy"), {"na_value": 0.0}, 3, {"rng": 0}, outputs))
    import tensormend as tm
    <BLANKLINE>
    data = tm.load('a.npy', na_value=0.0)
    result = tm.complete(data, rank=3, rng=0)
    tm.save('b.npy', result.data)
    """
    lines = [
        "import tensormend as tm",
        "",
        f"data = {_call('tm.load', str(source), where)}",
        f"result = {_call('tm.complete', None, {'rank': rank, **settings})}",
    ]
    if outputs.data is not None:
        what = "fitted_values()" if outputs.replace_observed else "data"
        lines.append(f"tm.save({str(outputs.data)!r}, result.{what})")
    return "\n".join(lines)


def _call(name: str, first: str | None, settings: Mapping[str, Any]) -> str:
    words = ["data" if first is None else repr(first)]
    for key, value in settings.items():
        if key not in NOT_OF_THE_ANSWER:
            words.append(f"{key}={str(value)!r}" if isinstance(value, Path) else f"{key}={value!r}")
    return f"{name}({', '.join(words)})"
