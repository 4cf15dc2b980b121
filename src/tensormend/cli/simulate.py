"""``tensormend simulate``: write a random low-rank tensor with missing entries."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tensormend.cli import options as o
from tensormend.cli.outputs import check_format, check_output
from tensormend.cli.parse import parse_rank, parse_sizes
from tensormend.cli.words import show
from tensormend.core.text import format_bytes, format_shape
from tensormend.errors import InputError

if TYPE_CHECKING:
    from tensormend import TensorData, Tucker

__all__ = ["EXAMPLES", "simulate"]

EXAMPLES = (
    "tensormend simulate small.npy --shape 20,30,40 --rank 2,3,3",
    "tensormend simulate noisy.npz --ratio 0.5 --noise 0.1 --truth truth.npy --seed 7",
    "tensormend simulate gaps.npy --pattern fibres --mode 1 --ratio 0.6 --force",
)


def simulate(
    out: o.Target,
    shape: Annotated[
        Any, typer.Option(parser=parse_sizes, metavar="A,B,C", help="Size of every mode.")
    ] = "30,30,30",
    rank: Annotated[
        Any, typer.Option(parser=parse_rank, metavar="RANK", help="One number, or one per mode.")
    ] = "3",
    ratio: Annotated[
        float, typer.Option(metavar="FRACTION", help="Fraction of the entries that are observed.")
    ] = 0.3,
    noise: Annotated[
        float,
        typer.Option(
            metavar="SIGMA", help="Standard deviation of the noise; that of the values is 1."
        ),
    ] = 0.0,
    pattern: Annotated[
        Literal["entries", "fibres"],
        typer.Option(metavar="KIND", help="What is missing: entries (single ones) or fibres."),
    ] = "entries",
    mode: Annotated[
        int,
        typer.Option(
            metavar="N", help="With --pattern fibres: mode along which fibres are missing."
        ),
    ] = 0,
    truth: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the full tensor, without noise."),
    ] = None,
    seed: o.Seed = 0,
    force: o.Force = False,
    quiet: o.Quiet = False,
) -> None:
    """Write a random low-rank tensor with missing entries.

    The factors are uniformly random orthonormal matrices; the values have mean square 1.
    """
    if not 0 < ratio <= 1:
        raise InputError(f"--ratio must be above 0 and at most 1, got {ratio}; for example 0.3")
    paths = [out] if truth is None else [out, truth]
    if truth is not None and truth.resolve() == out.resolve():
        raise typer.BadParameter(
            f"OUT and --truth must be different files, got {out} twice; rename one"
        )
    for path in paths:
        check_format(path)
        check_output(path, force=force)
    import tensormend as tm

    tensor = _draw(shape, rank, noise, seed)
    data = _observe(tensor, ratio, noise, mode if pattern == "fibres" else None, seed)
    if truth is not None:
        tm.save(truth, tensor.todense(), overwrite=force)
    tm.save(out, data, overwrite=force)
    if not quiet:
        fraction = data.n_observed / math.prod(tensor.shape)
        sizes = f"{format_shape(tensor.shape)}, rank {format_shape(tensor.rank)}"
        show(
            [
                ("tensor", f"{sizes}, noise {noise:g}"),
                ("observed", f"{data.n_observed} entries, {100 * fraction:.3g}%"),
                *(("written", f"{path} ({format_bytes(_size(path))})") for path in paths),
            ]
        )


def _draw(shape: tuple[int, ...], rank: Any, noise: float, seed: int) -> Tucker:
    """Draw a tensor whose values have mean square 1."""
    import tensormend as tm

    if rank == "auto":
        raise InputError(
            "--rank must be one number or one per mode, got auto; for example --rank 3"
        )
    if not 0 <= noise < math.inf:
        raise InputError(
            f"--noise must be a finite number, 0 or more, got {noise}; for example 0.1"
        )
    tensor = tm.simulate.random_tucker(shape, rank, rng=seed)
    return tensor * (math.sqrt(math.prod(tensor.shape)) / tensor.norm())


def _observe(tensor: Tucker, ratio: float, noise: float, mode: int | None, seed: int) -> TensorData:
    """Sample entries, or fibres along a mode, and add noise to their values."""
    import tensormend as tm

    if mode is None:
        indices = tm.simulate.sample_indices(tensor.shape, ratio, rng=seed + 1)
    else:
        indices = tm.simulate.sample_fibres(tensor.shape, ratio, mode, rng=seed + 1)
    values = tensor.entries(indices)
    if noise:
        values = tm.simulate.add_noise(values, noise, rng=seed + 2)
    data = tm.TensorData(values, indices=indices, shape=tensor.shape)
    if math.prod(tensor.shape) * values.itemsize > tm.algebra.DEFAULT_MEMORY_LIMIT:
        return data
    return tm.TensorData(data.todense())


def _size(path: Path) -> int:
    """Return the bytes of a file, or of the files in a folder."""
    if path.is_dir():
        return sum(part.stat().st_size for part in path.rglob("*") if part.is_file())
    return path.stat().st_size
