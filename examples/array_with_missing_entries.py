"""Fill in the missing entries of an array, and assess the result.

The data are values of a function on a grid, with a little noise; nine entries in ten are hidden.
Such an array is not of low rank, but its singular values decay fast. `complete` holds out some of
the observed entries, compares models on them, and fits the best one to all of them. Since the
full array is known here, the error that it expects can be compared with the error that it makes.

Data: made by the script, from a seed.

    python examples/array_with_missing_entries.py [--small] [--out DIR]
"""

from __future__ import annotations

import numpy as np

import tensormend as tm
from helpers import Options, interpolate, print_scores, run_example, save_picture
from tensormend.core.algebra import Array
from tensormend.plotting.style import new_figure, use_style


def make_data(n: int) -> Array:
    """Return the values of a function on a grid of n x n x n points, with noise."""
    grid = np.linspace(0, 1, n)
    x, y, z = np.meshgrid(grid, grid, grid, indexing="ij")
    noise = np.random.default_rng(1).normal(scale=0.01, size=x.shape)
    return np.asarray(np.exp(-np.sqrt(x**2 + y**2 + z**2)) + noise)


def main(options: Options) -> None:
    """Complete an array, show what was tried, and compare the expected error with the true one."""
    full = make_data(30 if options.small else 60)
    hidden = np.random.default_rng(0).random(full.shape) >= 0.1
    data = np.where(hidden, np.nan, full)
    print(tm.estimate_cost(data))

    result = tm.complete(data, rng=0)
    print("model       strength  rank          held-out error")
    for trial in result.trials[-8:]:
        rank = "x".join(map(str, trial.rank))
        print(f"{trial.model:12}{trial.strength:8.4f}  {rank:14}{trial.error:14.5f}")
    print(result.trust, "\n")
    filled = {"lines along one mode": interpolate(data, mode=0), "tensormend": result.data}
    print_scores("A function on a grid", full, hidden, filled, result)

    path = [trial for trial in result.trials if trial.model == "shrinkage"]
    with use_style():
        figure = new_figure((9, 3.2))
        tried, given, found, true = figure.subplots(1, 4, width_ratios=(1.6, 1, 1, 1))
        tried.loglog([t.strength for t in path], [t.error for t in path], ".", color="#0072b2")
        tried.axhline(0.01, color="0.6", linestyle="--", linewidth=1)
        tried.text(path[0].strength, 0.01, "noise", ha="right", va="bottom", color="0.4")
        tried.set(title="what was tried", xlabel="strength", ylabel="held-out error")
        panels = {"observed": data, "tensormend": result.data, "truth": full}
        for axis, (title, values) in zip((given, found, true), panels.items(), strict=True):
            axis.imshow(values[:, :, len(full) // 4], cmap="viridis", vmin=0.2, vmax=0.9)
            axis.set(title=title, xticks=[], yticks=[])
            axis.grid(visible=False)
        save_picture(figure, options)


if __name__ == "__main__":
    run_example(main, __file__)
