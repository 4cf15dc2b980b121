"""The errors and warnings a user can catch."""

from __future__ import annotations

__all__ = [
    "CheckpointError",
    "DataWarning",
    "InputError",
    "MemoryLimitError",
    "MissingDependencyError",
    "NativeKernelWarning",
    "TensormendError",
    "TensormendWarning",
]


class TensormendError(Exception):
    """Base of every error raised by tensormend."""


class InputError(TensormendError, ValueError):
    """An argument is not what a function can work with."""


class MemoryLimitError(TensormendError, MemoryError):
    """A dense array would be larger than the memory limit given for it."""


class CheckpointError(TensormendError, RuntimeError):
    """A checkpoint file cannot be read, or belongs to another run."""


class MissingDependencyError(TensormendError, ImportError):
    """An optional dependency is needed and not installed."""


class TensormendWarning(UserWarning):
    """Base of every warning issued by tensormend."""


class DataWarning(TensormendWarning):
    """The measurements are legal, but may not determine the tensor."""


class NativeKernelWarning(TensormendWarning, RuntimeWarning):
    """The compiled kernels are not there; their slower twins take over."""
