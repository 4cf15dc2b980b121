"""`Format` and `Options`, and helpers of several readers and writers."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.core.algebra import DEFAULT_MEMORY_LIMIT, Array, check_memory
from tensormend.core.text import format_shape
from tensormend.data.observations import TensorData
from tensormend.errors import FileError, InputError, TensormendError

__all__ = [
    "Format",
    "Options",
    "check_chunks",
    "choose",
    "choose_tensor",
    "describe",
    "find_observed",
    "is_numeric",
    "is_observed_name",
    "match_observed",
    "portable",
    "reading",
    "writing",
]

MAX_CHUNKS = 1_000_000  # of one array; to visit more takes minutes, even if they are empty
MAX_LISTED = 12  # arrays of a file listed in a message


@dataclass(frozen=True)
class Options:
    """Options of a reader.

    Attributes
    ----------
    variable : str or None
        Array, dataset or column of values to read, if the file has several.
    modes : tuple of str or None
        Columns of a table with the labels of the modes.
    memory_limit : float or None
        Maximum size of the values in bytes, ``None`` for no limit.
    """

    variable: str | None = None
    modes: tuple[str, ...] | None = None
    memory_limit: float | None = DEFAULT_MEMORY_LIMIT


@dataclass(frozen=True)
class Format:
    """A file format.

    Attributes
    ----------
    name : str
        Name of the format.
    suffixes : tuple of str
        Suffixes of file names, in lower case.
    read : callable
        Takes a path and `Options`, returns a `TensorData`.
    write : callable
        Takes a path that does not exist yet, and a `TensorData`.
    extra : str or None
        Extra of the package that the format needs; ``None`` if it needs none.
    takes : tuple of str
        Options of `load` that the reader takes: ``"variable"``, ``"modes"``, both or none.
    is_lossy : bool
        Whether writing changes values, also zeros. Such a file cannot be the ``observed=`` of
        `load`.
    """

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[Path, Options], TensorData]
    write: Callable[[Path, TensorData], None]
    extra: str | None = None
    takes: tuple[str, ...] = ()
    is_lossy: bool = False


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Convert errors of libraries about a damaged file to a `FileError` with its name."""
    try:
        yield
    except FileError:
        raise
    except InputError as error:  # raised by TensorData, without the name of the file
        raise FileError(f"{path} does not hold a tensor: {error}") from error
    except TensormendError:
        raise
    except Exception as error:  # of any type, from readers of damaged files
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise FileError(
            f"{path} should be {what}, but is damaged or of another format ({reason}); check "
            "the file and the suffix of its name"
        ) from error


@contextmanager
def writing(path: Path, what: str) -> Iterator[None]:
    """Convert errors of libraries about data they cannot write to an `InputError`."""
    try:
        yield
    except (TensormendError, OSError, MemoryError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise InputError(
            f"{path} cannot hold these data as {what} ({reason}); write another format, such as "
            ".npz"
        ) from error


def choose(
    path: Path, found: Mapping[str, Sequence[int]], wanted: str | None, what: str = "array"
) -> str:
    """Return the name of the array to read; ``found`` has the shapes of all by name."""
    if wanted is not None and wanted in found:
        return wanted
    if wanted is None and len(found) == 1:
        return next(iter(found))
    shown = [f"{name} ({format_shape(found[name])})" for name in [*found][:MAX_LISTED]]
    if len(found) > MAX_LISTED:
        shown.append(f"{len(found) - MAX_LISTED} more")
    held = ", ".join(shown) or "none"
    if wanted is not None:
        raise FileError(f"{path} must hold the {what} {wanted!r}, found {held}; name one of these")
    if found:
        raise FileError(
            f"{path} must hold one {what} to read, found {held}; name one with variable=",
            parameter="variable",
        )
    raise FileError(
        f"{path} must hold one {what} of numbers with two or more modes, found none; check the file"
    )


def is_numeric(part: Any) -> bool:
    """Return whether an array holds numbers in two or more modes."""
    return part.dtype.kind in "biufc" and len(part.shape) > 1


def choose_tensor(
    path: Path,
    found: Mapping[str, Any],
    wanted: str | None,
    what: str = "array",
    *,
    is_tensor: Callable[[Any], bool] = is_numeric,
    companions: Collection[str] = (),
) -> str:
    """Return the name of the array to read; one of observed entries only if it is ``wanted``."""
    tensors = {key: part.shape for key, part in found.items() if is_tensor(part)}
    if wanted is None:
        names = list(tensors)
        left_out = {key for key in names if key in companions or is_observed_name(key, names)}
        values = {key: shape for key, shape in tensors.items() if key not in left_out}
        return choose(path, values, None, what)
    name = wanted.strip("/")
    if name in found and name not in tensors:
        raise FileError(
            f"the {what} {name!r} of {path} must be numbers with two or more modes, got "
            f"{describe(found[name])}; name another"
        )
    return choose(path, tensors, name, what)


def describe(part: Any) -> str:
    """Describe type and shape of an array."""
    try:
        return f"{part.dtype} of shape {part.shape}"
    except Exception:  # numbers of a width without a NumPy type
        return "a type that NumPy does not have"


def find_observed(
    path: Path, found: Mapping[str, Any], name: str, stated: str | None, what: str = "array"
) -> str | None:
    """Return the name of the array that marks observed entries, ``None`` if there is none.

    It is the one ``stated`` by an attribute, else ``NAME_observed`` or ``observed`` in the group of
    the values.
    """
    folder = name.rpartition("/")[0]
    if stated is None:
        beside = (f"{name}_observed", f"{folder}/observed".strip("/"))
        fits = (key for key in beside if key in found and key != name)
        return next((key for key in fits if found[key].shape == found[name].shape), None)
    for key in (f"{folder}/{stated}".strip("/"), stated.strip("/")):
        if key in found and key != name:
            return key
    raise FileError(
        f"the attribute 'observed' of the {what} {name!r} of {path} must name another {what} of "
        f"the file, got {stated!r}; correct the attribute, or add the {what}"
    )


def is_observed_name(name: str, others: Sequence[str]) -> bool:
    """Return whether the name of an array says that it marks observed entries of another."""
    folder, _, last = name.rpartition("/")
    if last == "observed":
        return any(other != name and other.rpartition("/")[0] == folder for other in others)
    return last.endswith("_observed") and name.removesuffix("_observed") in others


def match_observed(given: Array, shape: tuple[int, ...], what: str) -> Array:
    """Return a boolean array of the shape of the data, broadcast over trailing modes."""
    if given.ndim < 2 or given.shape != shape[: given.ndim]:
        raise FileError(
            f"{what} must be an array of the shape of the data, {shape}, or of their leading "
            f"modes, got {given.shape}; check that it belongs to the data"
        )
    observed = np.nan_to_num(given) != 0
    observed = observed.reshape(observed.shape + (1,) * (len(shape) - observed.ndim))
    return np.array(np.broadcast_to(observed, shape))


def check_chunks(
    shape: Sequence[int], chunks: Sequence[int] | None, dtype: Any, limit: float | None, what: str
) -> None:
    """Refuse an array that is too large, or whose chunks are too large or too many."""
    check_memory(shape, dtype, limit, what)
    if chunks is None:
        return
    check_memory(chunks, dtype, limit, f"a chunk of {what}")
    count = math.prod(-(-n // max(size, 1)) for n, size in zip(shape, chunks, strict=True))
    if limit is not None and count > MAX_CHUNKS:
        raise FileError(
            f"{what} must be stored in at most {MAX_CHUNKS} chunks, got {count} of shape "
            f"{tuple(chunks)}; store it in larger ones, or set memory_limit=None"
        )


def portable(data: TensorData, what: str, *, takes_complex: bool = True) -> Array:
    """Return the dense array in a data type that all programs support."""
    values = data.todense()
    if values.dtype.kind == "c" and not takes_complex:
        raise InputError(
            f"{what} holds real numbers, got {values.dtype}; save real and imaginary parts "
            "separately, or in another format"
        )
    small, large = (np.complex64, np.complex128) if values.dtype.kind == "c" else "fd"
    if values.dtype.kind in "fc":
        is_small = values.dtype.itemsize <= np.dtype(small).itemsize
        return values.astype(small if is_small else large, copy=False)
    return values.astype(values.dtype.newbyteorder("="), copy=False)
