"""What a format is, and what its readers share."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from tensormend.algebra import DEFAULT_MEMORY_LIMIT
from tensormend.errors import FileError, MissingDependencyError, TensormendError
from tensormend.known import TensorData
from tensormend.storage import UNREADABLE

__all__ = ["Format", "Options", "reading", "require"]


@dataclass(frozen=True)
class Options:
    """What a reader may be told.

    Attributes
    ----------
    variable : the array, dataset or column of values to take, where a file has several
    modes : the columns of a table that hold the labels of the modes
    memory_limit : bytes that the values may take
    """

    variable: str | None = None
    modes: tuple[str, ...] | None = None
    memory_limit: float | None = DEFAULT_MEMORY_LIMIT


@dataclass(frozen=True)
class Format:
    """A kind of file.

    Attributes
    ----------
    name : what to call it
    suffixes : how names of such files end, in small letters
    read : returns what a file holds
    write : writes what a file shall hold to a path that is not there yet
    extra : what to install for it, ``None`` if nothing
    """

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[Path, Options], TensorData]
    write: Callable[[Path, TensorData], None]
    extra: str | None = None


def require(module: str, extra: str, what: str) -> ModuleType:
    """Import a library that is not always there, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise MissingDependencyError(
            f"{what} needs {library}, which is not installed; pip install 'tensormend[{extra}]'"
        ) from error


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn what a library raises on damaged bytes into an error that names the file."""
    try:
        yield
    except TensormendError:
        raise
    except (MemoryError, *UNREADABLE) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise FileError(
            f"{path} should be {what}, but is damaged or something else ({reason}); check the "
            "file, and that its name ends as files of its kind do"
        ) from error
