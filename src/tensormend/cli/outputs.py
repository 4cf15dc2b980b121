"""Output files of a run, which are checked before it and written after it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensormend.core.text import format_bytes
from tensormend.errors import InputError, MemoryLimitError, MissingDependencyError

if TYPE_CHECKING:
    from tensormend import Completion, TensorData
    from tensormend.data.formats.base import Format

__all__ = [
    "Outputs",
    "check_format",
    "check_output",
    "check_source",
    "make_folder",
    "missing_packages",
]

FOLDER = ".zarr"  # the only format whose files are folders
SMALL = 100_000  # number of entries up to which a format is tried with the full shape
EDGE = 8  # size of longer modes in the trial, 9 for odd ones: some formats need even sizes


@dataclass(frozen=True)
class Outputs:
    """The files to write.

    Attributes
    ----------
    data : Path or None
        File for the completed data.
    model : Path or None
        File for the model (``.npz``).
    report : Path or None
        File for the report (``.html``).
    replace_observed : bool
        Whether to write fitted values at all entries, also at observed ones.
    force : bool
        Whether to overwrite existing files.
    """

    data: Path | None
    model: Path | None
    report: Path | None
    replace_observed: bool = False
    force: bool = False

    @property
    def paths(self) -> dict[str, Path]:
        """The files to write, by kind."""
        named = {"data": self.data, "model": self.model, "report": self.report}
        return {kind: path for kind, path in named.items() if path is not None}

    def check(self, *sources: Path | None) -> None:
        """Refuse output files that cannot be written, or that are also inputs."""
        if not self.paths:
            raise InputError(
                "an output file is required, got none of -o, --save-model and --report; "
                "for example -o filled.npy"
            )
        if len({path.resolve() for path in self.paths.values()}) < len(self.paths):
            raise InputError(
                "-o, --save-model and --report must be different files, got one name twice; "
                "rename one"
            )
        for option, path, end in (
            ("--save-model", self.model, ".npz"),
            ("--report", self.report, ".html"),
        ):
            if path is not None and path.suffix.lower() != end:
                raise InputError(
                    f"{option} must be a file whose name ends in {end}, got {path}; rename it"
                )
        if self.data is not None:
            check_format(self.data)
        read = {source.resolve() for source in sources if source is not None}
        for path in self.paths.values():
            if path.resolve() in read:
                raise InputError(
                    f"an output must be another file than the data, got {path}; choose another name"
                )
            check_output(path, force=self.force)

    def check_size(self, data: TensorData, limit: float | None) -> None:
        """Refuse completed data that need more memory than the limit."""
        import math

        import tensormend as tm

        limit = tm.algebra.DEFAULT_MEMORY_LIMIT if limit is None else limit
        dtype = data.values.dtype
        needed = math.prod(data.shape) * (dtype.itemsize if dtype.kind in "fc" else 8)
        if self.data is not None and needed > limit:
            raise MemoryLimitError(
                f"the completed data would take {format_bytes(needed)}, above the limit of "
                f"{format_bytes(limit)}; raise --memory-limit, or use --save-model FILE.npz "
                "instead of -o"
            )

    def check_content(self, data: TensorData, source: Path) -> None:
        """Refuse data without missing entries, and data that the output format cannot hold."""
        import math

        if self.data is None:
            return
        if data.n_observed == math.prod(data.shape) and not self.replace_observed:
            raise InputError(
                f"{source} must have missing entries, got {data.n_observed} entries that are all "
                "observed; if some values mark missing entries, name them with --na-value or "
                "--observed, or use --replace-observed to write fitted values in their place"
            )
        _try_format(self.data, data)

    def write(self, result: Completion, *, limit: float | None, source: str, code: str) -> None:
        """Write the files, the completed data first."""
        import tensormend as tm

        if self.data is not None:
            options: dict[str, Any] = {} if limit is None else {"memory_limit": limit}
            completed = result.fitted_values(keep_observed=not self.replace_observed, **options)
            tm.save(self.data, completed, overwrite=self.force)
        if self.model is not None:
            result.save(self.model)
        if self.report is not None:
            from tensormend.completion.report import write_report

            write_report(self.report, result, source=source, code=code, overwrite=self.force)


def _try_format(path: Path, data: TensorData) -> None:
    """Write a small sample to a temporary file, to test whether the format can hold the data."""
    import math
    import tempfile

    import numpy as np

    import tensormend as tm

    is_small = math.prod(data.shape) <= SMALL
    shape = tuple(n if is_small or n <= 2 * EDGE else EDGE + n % 2 for n in data.shape)
    _, values = data.entries()
    dtype = values.dtype if values.dtype.kind in "fc" else np.dtype(np.float64)
    block = np.full(shape, values[0], dtype)
    block.flat[:2] = values.min(), values.max()
    sample = tm.TensorData(
        block,
        dims=data.dims,
        coords=tuple(
            None if labels is None else labels[:n]
            for labels, n in zip(data.coords, shape, strict=True)
        ),
        name=data.name,
        attrs=data.attrs,
        encoding=data.encoding,
    )
    with tempfile.TemporaryDirectory() as folder:
        trial = Path(folder) / path.name
        try:
            tm.save(trial, sample)
        except InputError as error:
            raise InputError(str(error).replace(str(trial), str(path))) from error
        except OSError:  # such as a full temporary folder, which says nothing about the output
            return


def check_source(path: Path) -> None:
    """Check that a file exists and that its format can be read."""
    if not path.exists():
        raise InputError(f"{path} must be a file that exists; check the name")
    if not os.access(path, os.R_OK):
        raise InputError(f"{path} must be a readable file; check its permissions")
    check_format(path)


def check_output(path: Path, *, force: bool) -> None:
    """Check that a file can be written, and does not exist unless ``force`` is set."""
    from tensormend.core.storage import check_folder

    check_folder(path)
    if path.exists() and not force:
        raise InputError(
            f"{path} already exists; choose another name, or use --force to overwrite it"
        )
    if path.is_dir() and path.suffix.lower() != FOLDER:
        raise InputError(f"{path} must be a file, got the name of a folder; choose another name")


def check_format(path: Path) -> None:
    """Check that the suffix names a format, and that the packages it needs are installed."""
    from tensormend.data.formats import find_format

    form = find_format(path)
    missing = missing_packages(form)
    if missing:
        raise MissingDependencyError(
            f"{path} needs {' and '.join(missing)}, which is not installed; pip install "
            f"'tensormend[{form.extra}]'"
        )


def missing_packages(form: Format) -> list[str]:
    """Return the packages that a format needs and that are not installed."""
    from importlib.metadata import PackageNotFoundError, requires, version

    missing = []
    for line in requires("tensormend") or ():
        need, _, condition = line.partition(";")
        if form.extra and re.search(rf"""extra *== *["']{form.extra}["']""", condition):
            package = re.split(r"[\s<>=!~\[(]", need.strip())[0]
            try:
                version(package)
            except PackageNotFoundError:
                missing.append(package)
    return missing


def make_folder(folder: Path) -> Path:
    """Create the folder that a command writes to, and return it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"--out must be a folder that can be written to, got {folder} ({error.strerror}); "
            "choose another"
        ) from error
    return folder
