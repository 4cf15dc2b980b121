"""Fill the holes of an array without choosing anything, and see how far to trust the result.

The data are values of a function on a grid, with a little noise. Such an array is not of low rank,
but its singular values decay fast. `complete` holds some known entries out, tries models on them,
and fits the best to all; since the full array is known here, one can see whether the error it
expects is the error it makes. Run it with

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
    full += np.random.default_rng(1).normal(scale=0.01, size=full.shape)
    seen = np.random.default_rng(0).random(full.shape) < known
    return full, np.where(seen, full, np.nan)


def main() -> None:
    """Complete the array, show what was tried, and compare the expected error with the true one."""
    full, data = make_data()
    print(f"{np.isfinite(data).mean():.0%} of {data.size} entries are known")
    print(tm.estimate(data))
    result = tm.complete(data, rng=0)
    print("model   strength  rank          held-out error")
    for trial in result.path[-8:]:
        rank = "x".join(map(str, trial.rank))
        print(f"{trial.method:8}{trial.strength:8.4f}  {rank:14}{trial.error:14.5f}")
    print("chosen:", result.notes[0])
    print()
    print(result.trust)
    hidden = np.isnan(data)
    error = np.sqrt(np.mean((result.data - full)[hidden] ** 2))
    print()
    print(f"error on the hidden entries: {error:.5f}, expected {result.trust.rmse:.5f}")


if __name__ == "__main__":
    main()
