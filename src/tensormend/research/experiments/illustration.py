"""Illustration of SM-QRGD (figure 1): one iteration on a small real problem, drawn to scale.

``tensormend reproduce illustration``. The points of the first iteration on a 3 x 3 x 3 tensor of
rank 1 are given in three orthonormal coordinates: two span the part of the tangent space that
contains X-hat, X and W, the third reaches the next X-hat. These four points are exact; of others
the coordinates are those of their orthogonal projection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from tensormend.core.algebra import Array
from tensormend.core.linalg import svd
from tensormend.core.text import format_shape
from tensormend.research.experiments import dense
from tensormend.research.experiments.traces import draw_completion
from tensormend.research.records import Record
from tensormend.research.runner import Experiment, Settings

__all__ = ["EXACT", "EXPERIMENT", "LABELS", "POINTS", "iterate"]

POINTS: Final = ("hat", "x", "moved", "w", "next_hat", "next_x")
LABELS: Final = ("X̂", "X", "X + αG", "W", "next X̂", "next X")
EXACT: Final = ("hat", "x", "w", "next_hat")  # in the space of the three coordinates
SEED: Final = 235  # of a problem whose points are well apart
MARGIN: Final = 0.35  # of the drawn sheet around the points, beside the step


def grid(preset: str) -> Iterator[Settings]:
    """One problem; the sheet of matrices of one rank is sampled more coarsely at small size."""
    density = 41 if preset == "paper" else 9
    yield {"shape": [3, 3, 3], "rank": 1, "ratio": 0.7, "density": density, "seed": SEED}


def run(settings: Settings) -> dict[str, Any]:
    """Take the first iteration and give its points, and the sheet around them, in coordinates."""
    rank = settings["rank"]
    truth, operator, y = draw_completion(
        settings["shape"], rank, settings["ratio"], settings["seed"]
    )
    found = iterate(np.asarray(operator.indices), y, truth.shape, rank)
    hat = found["hat"]
    basis = _span([found[name] - hat for name in ("w", "x", "next_hat")])
    shown = {name: basis.T @ (found[name] - hat).ravel() for name in POINTS}
    lost = {
        name: float(np.linalg.norm((found[name] - hat).ravel() - basis @ shown[name]))
        for name in POINTS
    }
    sheet, plane = _sheet(hat, basis, list(shown.values()), rank, settings["density"])
    left, _, rows = _decompose(hat, rank)
    return {
        "points": {name: where.tolist() for name, where in shown.items()},
        "lost": lost,
        "sheet": sheet.tolist(),
        "plane": plane.tolist(),
        "lemma": float(np.linalg.norm(_project(found["x"], left, rows) - found["x"])),
        "sizes": {name: float(np.linalg.norm(found[name])) for name in POINTS},
        "lengths": {
            f"{a} {b}": float(np.linalg.norm(found[a] - found[b]))
            for a, b in (("hat", "x"), ("x", "moved"), ("x", "w"), ("w", "next_hat"))
        },
    }


def iterate(indices: Array, y: Array, shape: Sequence[int], rank: int) -> dict[str, Array]:
    """Compute the points of the first iteration with the normalized step, as Algorithm 3 does."""
    where = tuple(indices.T)
    data = np.zeros(shape)
    data[where] = y
    left, values, rows = _decompose(data, rank)
    hat = ((left * values) @ rows).reshape(shape)
    x = dense.sthosvd(data, (rank,) * len(shape), range(len(shape))).x
    gradient = np.zeros(shape)
    gradient[where] = y - x[where]
    direction = _project(gradient, left, rows)
    alpha = float(np.sum(direction**2) / np.sum(direction[where] ** 2))
    moved = x + alpha * gradient
    w = _project(moved, left, rows)
    next_left, next_values, next_rows = _decompose(w, rank)
    next_hat = ((next_left * next_values) @ next_rows).reshape(shape)
    next_x = dense.sthosvd(w, (rank,) * len(shape), range(len(shape))).x
    return dict(zip(POINTS, (hat, x, moved, w, next_hat, next_x), strict=True))


def _decompose(x: Array, rank: int) -> tuple[Array, Array, Array]:
    """Leading singular vectors and values of the unfolding along the first mode."""
    left, values, rows = svd(x.reshape(len(x), -1), full_matrices=False)
    return left[:, :rank], values[:rank], rows[:rank]


def _project(z: Array, left: Array, rows: Array) -> Array:
    """Project onto the tangent space of one unfolding."""
    matrix = z.reshape(len(z), -1)
    inside = left.T @ matrix
    out: Array = left @ inside + ((matrix - left @ inside) @ rows.T) @ rows
    return out.reshape(z.shape)


def _span(directions: Sequence[Array]) -> Array:
    """Orthonormal basis of some directions, each pointing along what the ones before leave."""
    q, r = np.linalg.qr(np.stack([each.ravel() for each in directions], axis=1))
    out: Array = q * np.sign(np.diag(r))
    return out


def _sheet(
    hat: Array, basis: Array, points: Sequence[Array], rank: int, density: int
) -> tuple[Array, Array]:
    """Truncate points of the drawn plane; return them in coordinates, and the plane's corners."""
    low, high = np.min(points, axis=0), np.max(points, axis=0)
    margin = MARGIN * float((high - low)[0])
    first, second = (np.linspace(low[k] - margin, high[k] + margin, density) for k in (0, 1))
    sheet = np.empty((density, density, 3))
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            left, values, rows = _decompose(hat + (basis[:, :2] @ (a, b)).reshape(hat.shape), rank)
            sheet[i, j] = basis.T @ (((left * values) @ rows).ravel() - hat.ravel())
    corners = np.array([[a, b, 0.0] for a in first[[0, -1]] for b in second[[0, -1]]])
    return sheet, corners


# what the records say


def describe(records: Sequence[Record]) -> dict[str, str]:
    """State the lengths in the picture, and what its three dimensions leave out."""
    results, settings = records[0]["results"], records[0]["settings"]
    lengths, lost = results["lengths"], results["lost"]
    return {
        "shape": format_shape(settings["shape"]),
        "rank": str(settings["rank"]),
        "ratio": f"{settings['ratio']:.0%}",
        "size": f"{results['sizes']['hat']:.3g}",
        "step": f"{lengths['x w']:.3g}",
        "back": f"{lengths['w next_hat']:.3g}",
        "gap": f"{lengths['hat x']:.3g}",
        "gradient": f"{lengths['x moved']:.3g}",
        "lemma": f"{results['lemma']:.1g}",
        "lost_moved": f"{lost['moved']:.2g}",
        "lost_next": f"{lost['next_x']:.2g}",
    }


EXPERIMENT = Experiment(
    "illustration",
    "Illustration of SM-QRGD",
    grid,
    run,
    describe,
    timed=False,
)
