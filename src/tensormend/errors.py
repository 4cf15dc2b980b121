"""The errors and warnings a user can catch."""

from __future__ import annotations

import importlib
import sys
import warnings
from pathlib import Path
from types import ModuleType

__all__ = [
    "CheckpointError",
    "CheckpointWarning",
    "DataWarning",
    "FileError",
    "InputError",
    "MemoryLimitError",
    "MissingDependencyError",
    "NativeKernelWarning",
    "TensormendError",
    "TensormendWarning",
    "require",
    "warn_user",
]


class TensormendError(Exception):
    """Base of every error raised by tensormend."""


class InputError(TensormendError, ValueError):
    """An argument is invalid.

    Parameters
    ----------
    message : str
        What was expected, what came, what to do.
    parameter : str, optional
        Name of the parameter concerned. The command line adds its option to the message.

    Attributes
    ----------
    parameter : str or None
        Name of the parameter concerned.
    """

    def __init__(self, message: str, *, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


class FileError(InputError):
    """A file is not what its name says, or is damaged."""


class MemoryLimitError(TensormendError, MemoryError):
    """A dense array would be larger than the memory limit given for it."""


class CheckpointError(TensormendError, RuntimeError):
    """A checkpoint file cannot be read, or belongs to another run."""


class MissingDependencyError(TensormendError, ImportError):
    """An optional dependency is needed and not installed."""


class TensormendWarning(UserWarning):
    """Base of every warning issued by tensormend."""


class CheckpointWarning(TensormendWarning):
    """A checkpoint could not be saved; the run continues without it."""


class DataWarning(TensormendWarning):
    """The measurements are legal, but may not determine the tensor."""


class NativeKernelWarning(TensormendWarning, RuntimeWarning):
    """The compiled kernels are not available; slower NumPy versions are used."""


def require(module: str, extra: str, what: str) -> ModuleType:
    """Import an optional dependency.

    Parameters
    ----------
    module : str
        Name of the module to import.
    extra : str
        Extra of this package that installs it.
    what : str
        What needs it, for the message.

    Returns
    -------
    module
        The module.

    Raises
    ------
    MissingDependencyError
        If it is not installed; the message names the extra.

    Examples
    --------
    >>> require("math", "hdf5", "reading an HDF5 file").sqrt(9.0)
    3.0
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise MissingDependencyError(
            f"{what} needs {library}, which is not installed; pip install 'tensormend[{extra}]'"
        ) from error


def warn_user(message: str, category: type[Warning]) -> None:
    """Issue a warning that points at the line outside the package that led to it.

    Parameters
    ----------
    message : str
        Text of the warning.
    category : type
        Class of the warning.
    """
    inside = (str(Path(__file__).parent), importlib.__file__)
    level, frame = 1, sys._getframe()
    while frame.f_back is not None:
        name = frame.f_code.co_filename
        if name.startswith(inside):
            level += 1
        elif not name.startswith("<frozen importlib"):  # which warnings does not count
            break
        frame = frame.f_back
    warnings.warn(message, category, stacklevel=level)
