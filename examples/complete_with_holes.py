"""Fill the holes of an array: NaN in, numbers out, and an honest error.

The data are values of a function on a grid. Such an array is not of low rank, but close to it,
so the rank is a choice. Some known entries are kept from the solver, and the error on them
tells which rank to take: too low a rank cannot follow the data, too high a rank follows what
is not there. Run it with

    python examples/complete_with_holes.py
"""

from __future__ import annotations

import numpy as np

import tensormend as tm


def make_data(n: int = 60, known: float = 0.1) -> tuple[tm.algebra.Array, tm.algebra.Array]:
    """Return an array and a copy in which all but a share of the entries are NaN."""
    grid = np.linspace(0, 1, n)
    x, y, z = np.meshgrid(grid, grid, grid, indexing="ij")
    full = np.exp(-np.sqrt(x**2 + y**2 + z**2))
    seen = np.random.default_rng(0).random(full.shape) < known
    return full, np.where(seen, full, np.nan)


def main() -> None:
    """Complete the array at several ranks and keep the one with the least held-out error."""
    full, data = make_data()
    print(f"{np.isfinite(data).mean():.0%} of {data.size} entries are known")
    print("rank  iterations  observed error  held-out error")
    results = {}
    for rank in (1, 2, 3, 4, 5):
        # a tenth of the known entries is held out; the same tenth for every rank
        result = tm.complete(data, rank, holdout=0.1, rng=0, start="corrected", max_iter=200)
        last = result.trace[-1]
        results[rank] = result
        print(f"{rank:4}{result.n_iter:12}{last.residual:16.2e}{last.holdout_error:16.2e}")
    best = min(results, key=lambda rank: results[rank].trace[-1].holdout_error)
    # with the rank chosen, go on from there with every known entry
    result = tm.complete(data, best, start=results[best].x, max_iter=200)
    error = np.linalg.norm(result.data - full) / np.linalg.norm(full)
    print(f"rank {best} has the least held-out error; {np.isnan(result.data).sum()} NaN are left")
    print(f"error of the completed array against the full one: {error:.2e}")


if __name__ == "__main__":
    main()
