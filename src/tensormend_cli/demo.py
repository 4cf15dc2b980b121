"""``tensormend demo``: hide most of a real image, recover it, and draw both."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensormend_cli.outputs import make_folder
from tensormend_cli.parse import parse_rank
from tensormend_cli.words import put, times

if TYPE_CHECKING:
    from tensormend import Completion
    from tensormend.algebra import Array

__all__ = ["EXAMPLES", "demo"]

EXAMPLES = (
    "tensormend demo --rank 4",
    "tensormend demo --ratio 0.1 --seed 1 --out tenth --rank 3",
)
DEAD = 0.1  # share of the image columns lost in each band
SHOWN_BAND, SHOWN_PIXEL = 24, (45, 50)


def demo(
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder to write the picture to.")
    ] = Path("demo-output"),
    rank: Annotated[
        Any,
        typer.Option(parser=parse_rank, metavar="RANK", help="auto, one number, or one per mode."),
    ] = "auto",
    ratio: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the entries to sample.")
    ] = 0.2,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of what is hidden.")] = 0,
) -> None:
    """Hide most of a real hyperspectral image, recover it from the rest, and draw both.

    The error on the hidden entries is printed beside that of plain means.
    """
    import numpy as np

    import tensormend as tm
    from tensormend.plots import require_matplotlib, save_completion

    require_matplotlib()  # before the work, not after it
    folder = make_folder(out)
    pines = tm.datasets.load_indian_pines()
    observed = _choose_observed(pines.cube.shape, ratio, seed)
    result = tm.complete(pines.cube, rank, mask=observed, rng=seed)
    picture = folder / "indian-pines.png"
    save_completion(
        picture,
        pines.cube,
        observed,
        result.model,
        band=SHOWN_BAND,
        pixel=SHOWN_PIXEL,
        bands=pines.bands,
    )
    means = np.mean(pines.cube, axis=(0, 1), where=observed)
    put(_describe(pines.cube, observed, np.asarray(means), result))
    put(f"picture    {picture}\n")


def _choose_observed(shape: tuple[int, ...], ratio: float, seed: int) -> Array:
    """Sample entries at random, then lose whole image columns, other ones in each band."""
    import numpy as np

    from tensormend.errors import InputError

    if not 0 < ratio <= 1:
        raise InputError(f"--ratio must be above 0 and at most 1, got {ratio}")
    if seed < 0:
        raise InputError(f"--seed must be 0 or more, got {seed}")
    rng = np.random.default_rng(seed)
    observed = rng.random(shape) < ratio
    observed &= rng.random(shape[1:]) >= DEAD
    if not observed.any(axis=(0, 1)).all():
        raise InputError(f"--ratio {ratio} leaves a band without any entry; raise it")
    return observed


def _describe(cube: Array, observed: Array, means: Array, result: Completion) -> str:
    import numpy as np

    def error(image: Array, where: Array) -> str:
        truth = cube[where]
        misfit = np.linalg.norm(np.broadcast_to(image, cube.shape)[where] - truth)
        return f"{misfit / np.linalg.norm(truth):.2%}"

    hidden, recovered = ~observed, result.model
    chosen = result.notes[0] if result.path else f"rank {times(result.x.rank)}, {result.method}"
    what = textwrap.wrap(chosen, 80)
    seen = f"{observed.mean():.1%} of {observed.size} entries"
    lines = [
        "Indian Pines hyperspectral image, rows x columns x bands",
        "",
        f"shape      {times(cube.shape)}",
        f"observed   {seen}; in each band about one column in ten is lost whole",
        f"model      {what[0]}",
        *(f"           {line}" for line in what[1:]),
        f"seconds    {result.seconds:.2f}",
        f"expected   {result.trust.relative_error:.2%} error where hidden, by entries held out",
        f"verdict    {result.trust.verdict.value}",
        "",
        f"{'relative error':<27}{'band means':>10}{'recovered':>12}",
        f"{'observed entries':<27}{error(means, observed):>10}{error(recovered, observed):>12}",
        f"{'hidden entries':<27}{error(means, hidden):>10}{error(recovered, hidden):>12}",
        "",
    ]
    return "\n".join(lines) + "\n"
