"""``tensormend demo``: hide most entries of an image, recover them, and draw both images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensormend.cli import options as o
from tensormend.cli.outputs import make_folder
from tensormend.cli.summary import describe
from tensormend.cli.words import put, show
from tensormend.errors import InputError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tensormend import TensorData
    from tensormend.core.algebra import Array

__all__ = ["EXAMPLES", "demo"]

EXAMPLES = (
    "tensormend demo --rank 4",
    "tensormend demo --ratio 0.1 --seed 1 --out tenth --rank 3",
)
SOURCE = "Indian Pines (rows x columns x bands)"
FRACTION = 0.1  # of the observed entries, held out to assess the result
MISSING_COLUMNS = 0.1  # fraction of the image columns that are missing in each band
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

    Prints the error on hidden entries and, for comparison, the error of band means. Writes a
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
    result = tm.complete(data, rank, validation_fraction=FRACTION, rng=seed)
    recovered = np.asarray(result.fitted_values().values)
    picture, page = folder / "indian-pines.png", folder / "indian-pines.html"
    save_completion(
        picture,
        pines.cube,
        observed,
        recovered,
        band=SHOWN_BAND,
        pixel=SHOWN_PIXEL,
        bands=pines.bands,
    )
    tm.write_report(page, result, source="Indian Pines", code=CODE, overwrite=True)
    show(describe(result, SOURCE, {"picture": picture, "report": page}))
    show(_write_files(folder, data))
    put(_compare(pines.cube, observed, recovered))


def _write_files(folder: Path, data: TensorData) -> Iterator[tuple[str, str]]:
    """Write the image with missing entries in several formats; yield a row for each."""
    import numpy as np

    import tensormend as tm

    low, high = (bound(data.values, axis=(0, 1)) for bound in (np.min, np.max))  # per band
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
            yield "skipped", f"{path}: {error}"
        else:
            yield "written", f"{path} (data)"


def _choose_observed(shape: tuple[int, ...], ratio: float, seed: int) -> Array:
    """Sample entries at random, then drop whole image columns, different ones in each band."""
    import numpy as np

    if not 0 < ratio <= 1:
        raise InputError(f"--ratio must be above 0 and at most 1, got {ratio}; for example 0.2")
    rng = np.random.default_rng(seed)
    observed = rng.random(shape) < ratio
    observed &= rng.random(shape[1:]) >= MISSING_COLUMNS
    if not observed.any(axis=(0, 1)).all():
        raise InputError(
            f"--ratio {ratio} leaves a band without any observed entry; use a larger one"
        )
    return observed


def _compare(cube: Array, observed: Array, recovered: Array) -> str:
    """Return a table of the relative errors of band means and of the recovered image."""
    import numpy as np

    means = np.mean(cube, axis=(0, 1), where=observed)

    def error(image: Any, where: Array) -> str:
        truth = cube[where]
        misfit = np.linalg.norm(np.broadcast_to(image, cube.shape)[where] - truth)
        return f"{misfit / np.linalg.norm(truth):.2%}"

    lines = [f"\n{'relative error':<27}{'band means':>10}{'recovered':>12}"]
    for name, where in (("observed entries", observed), ("hidden entries", ~observed)):
        lines.append(f"{name:<27}{error(means, where):>10}{error(recovered, where):>12}")
    return "\n".join(lines) + "\n"
