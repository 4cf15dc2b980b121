"""``tensormend demo``: hide most of an image, recover it, and draw both."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tensormend.cli import options as o
from tensormend.cli.outputs import make_folder
from tensormend.cli.summary import describe_model
from tensormend.cli.words import put
from tensormend.core.text import format_shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tensormend import Completion, TensorData
    from tensormend.core.algebra import Array

__all__ = ["EXAMPLES", "demo"]

EXAMPLES = (
    "tensormend demo --rank 4",
    "tensormend demo --ratio 0.1 --seed 1 --out tenth --rank 3",
)
DEAD = 0.1  # fraction of the image columns missing in each band
CODE = """\
import tensormend as tm

data = tm.load("indian-pines.nc")  # the image with missing entries, in the folder of this page
result = tm.complete(data, rng=0)
tm.save("filled.nc", result.data)
"""
SHOWN_BAND, SHOWN_PIXEL = 24, (45, 50)


def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder to write to.")] = Path(
        "demo-output"
    ),
    rank: o.RankOption = "auto",
    ratio: Annotated[
        float, typer.Option(metavar="FRACTION", help="Fraction of the entries to sample.")
    ] = 0.2,
    seed: o.Seed = 0,
) -> None:
    """Hide most of a hyperspectral image, recover it from the rest, and draw both.

    Prints the error on the hidden entries and, for comparison, that of band means. Writes a
    picture, a report, and the image with missing entries in several formats, as input for complete.
    """
    import numpy as np

    import tensormend as tm
    from tensormend.plotting import require_matplotlib, save_completion

    require_matplotlib()  # fail early
    folder = make_folder(out)
    pines = tm.datasets.load_indian_pines()
    observed = _choose_observed(pines.cube.shape, ratio, seed)
    data = tm.TensorData(
        pines.cube,
        observed=observed,
        dims=("row", "column", "band"),
        coords=(None, None, pines.bands),
        name="radiance",
    )
    result = tm.complete(data, rank, rng=seed)
    picture = folder / "indian-pines.png"
    save_completion(
        picture,
        pines.cube,
        observed,
        result.fitted_values().values,
        band=SHOWN_BAND,
        pixel=SHOWN_PIXEL,
        bands=pines.bands,
    )
    means = np.mean(pines.cube, axis=(0, 1), where=observed)
    put(_describe(pines.cube, observed, np.asarray(means), result))
    put(f"picture    {picture}\n")
    page = folder / "indian-pines.html"
    tm.write_report(page, result, source="Indian Pines", code=CODE, overwrite=True)
    put(f"report     {page}\n")
    for line in _write_files(folder, data):
        put(line)


def _write_files(folder: Path, data: TensorData) -> Iterator[str]:
    """Write the image with missing entries in several formats; yield a line for each."""
    import numpy as np

    import tensormend as tm
    from tensormend.errors import MissingDependencyError

    low, high = (end(data.values, axis=(0, 1)) for end in (np.min, np.max))  # of every band
    grey = np.rint(255 * (data.values - low) / (high - low)).astype(np.uint8)
    frames = tm.TensorData(
        np.moveaxis(grey, 2, 0),
        observed=None if data.observed is None else np.moveaxis(data.observed, 2, 0),
        dims=("frame", "row", "column"),
    )
    for name, content in (("csv", data), ("nc", data), ("gif", frames)):
        path = folder / f"indian-pines.{name}"
        try:
            tm.save(path, content, overwrite=True)
        except MissingDependencyError as error:
            yield f"skipped    {path}: {error}\n"
        else:
            yield f"data       {path}\n"


def _choose_observed(shape: tuple[int, ...], ratio: float, seed: int) -> Array:
    """Sample entries at random, then drop whole image columns, different ones in each band."""
    import numpy as np

    from tensormend.errors import InputError

    if not 0 < ratio <= 1:
        raise InputError(f"--ratio must be above 0 and at most 1, got {ratio}")
    rng = np.random.default_rng(seed)
    observed = rng.random(shape) < ratio
    observed &= rng.random(shape[1:]) >= DEAD
    if not observed.any(axis=(0, 1)).all():
        raise InputError(f"--ratio {ratio} leaves a band without any entry; use a larger one")
    return observed


def _describe(cube: Array, observed: Array, means: Array, result: Completion) -> str:
    import numpy as np

    def error(image: Array, where: Array) -> str:
        truth = cube[where]
        misfit = np.linalg.norm(np.broadcast_to(image, cube.shape)[where] - truth)
        return f"{misfit / np.linalg.norm(truth):.2%}"

    hidden, recovered = ~observed, result.fitted_values().values
    what = textwrap.wrap(describe_model(result), 80)
    seen = f"{observed.mean():.1%} of {observed.size} entries"
    lines = [
        "Indian Pines hyperspectral image, rows x columns x bands",
        "",
        f"shape      {format_shape(cube.shape)}",
        f"observed   {seen}; in each band about one column in ten is missing",
        f"model      {what[0]}",
        *(f"           {line}" for line in what[1:]),
        f"seconds    {result.seconds:.2f}",
        f"expected   {result.trust.relative_error:.2%} error where hidden, by entries held out",
        f"verdict    {result.trust.verdict.message}",
        "",
        f"{'relative error':<27}{'band means':>10}{'recovered':>12}",
        f"{'observed entries':<27}{error(means, observed):>10}{error(recovered, observed):>12}",
        f"{'hidden entries':<27}{error(means, hidden):>10}{error(recovered, hidden):>12}",
        "",
    ]
    return "\n".join(lines) + "\n"
