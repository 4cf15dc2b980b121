"""Settings of a run: which were given, checks, and equivalent Python code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tensormend.cli.outputs import Outputs
from tensormend.errors import InputError, TensormendWarning

__all__ = ["check_checkpoint", "find_mode", "given", "short_warnings", "write_code"]

DEFAULTS = {"model": "auto", "method": "auto", "center": "auto"}
NOT_IN_CODE = ("threads", "memory_limit")  # settings that do not change the result


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
    """Return the number of a mode that is given by its name or number.

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
        f"a mode must be one of {', '.join(names)}, or a number from 0 to {len(names) - 1}, got "
        f"{mode!r}; check its name"
    )


def check_checkpoint(folder: Path | None, *, resume: bool) -> str:
    """Refuse a folder that cannot be used; return a note if there is nothing to resume from.

    A run that ended before its first checkpoint starts anew, so that a script may always pass
    ``--resume``.
    """
    from tensormend.core.storage import check_folder

    if folder is None:
        if resume:
            raise InputError("--resume needs --checkpoint, got none; add --checkpoint FOLDER")
        return ""
    if folder.exists() and not folder.is_dir():
        raise InputError(
            f"--checkpoint must be a folder, got the file {folder}; choose another name"
        )
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
    """Show each warning of tensormend once, as a note; ignore other warnings."""
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
    load_options: Mapping[str, Any],
    rank: Any,
    settings: Mapping[str, Any],
    outputs: Outputs,
) -> str:
    """Return Python code equivalent to the command.

    Parameters
    ----------
    source : Path
        The file to read.
    load_options : mapping
        Options of `load`.
    rank : "auto", int or tuple of int
        Rank of the model.
    settings : mapping
        Keyword arguments of `complete`.
    outputs : Outputs
        The files to write.

    Returns
    -------
    str
        The code, without a line break at the end.

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
        f"data = {_call('tm.load', str(source), load_options)}",
        f"result = {_call('tm.complete', None, {'rank': rank, **settings})}",
    ]
    if outputs.data is not None:
        what = "fitted_values()" if outputs.replace_observed else "data"
        lines.append(f"tm.save({str(outputs.data)!r}, result.{what})")
    return "\n".join(lines)


def _call(name: str, first: str | None, settings: Mapping[str, Any]) -> str:
    words = ["data" if first is None else repr(first)]
    for key, value in settings.items():
        if key not in NOT_IN_CODE:
            words.append(f"{key}={str(value)!r}" if isinstance(value, Path) else f"{key}={value!r}")
    return f"{name}({', '.join(words)})"
