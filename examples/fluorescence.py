"""Complete fluorescence measurements, with a model that is chosen and with ranks.

Catecholamines in mixtures are excited at several wavelengths, and their emission is followed over
time: a tensor with four modes, which by the physics is close to low rank. Half of the time courses
are hidden. The model can be left to `complete`, or a rank can be given, as chemists do, who expect
a few fluorophores. A rank that is too high fits the observed entries better and the missing entries
worse. The baseline is linear interpolation between the wavelengths of excitation.

Data: R. P. H. Nikolajsen, K. S. Booksh, Å. M. Hansen, R. Bro (2003), Analytica Chimica Acta 475,
137-150, by way of TensorLy 0.10.0: 64 samples x 12 emissions x 10 excitations x 60 times.
Licence: available for public use (University of Copenhagen), with the reference.

    python examples/fluorescence.py [--small] [--out DIR]
"""

from __future__ import annotations

import numpy as np

import tensormend as tm
from helpers import Options, find_file, interpolate, print_scores, run_example, save_picture
from tensormend.core.algebra import Array
from tensormend.plotting.style import LINES, new_figure, use_style

RANKS = (3, 6)


def load_fluorescence() -> Array:
    """Read sample x emission x excitation x time; entries that were not measured are NaN."""
    values = np.load(find_file("tensorly", "Kinetic.npy")).astype(float)
    return np.where(np.load(find_file("tensorly", "Kinetic_missing.npy")), np.nan, values)


def main(options: Options) -> None:
    """Hide half of the time courses and fill them again, by search and by rank."""
    truth = load_fluorescence()
    if options.small:
        truth = truth[::4, :, :, ::4]
    lost = np.random.default_rng(0).random((*truth.shape[:3], 1)) < 0.5
    data = np.where(lost, np.nan, truth)
    scored = np.isnan(data) & ~np.isnan(truth)

    result = tm.complete(data, rng=0)
    filled = {"lines between excitations": interpolate(data, mode=2)}
    for rank in RANKS:
        filled[f"tensormend, rank {rank}"] = tm.complete(data, rank=rank, rng=0).data
    filled["tensormend"] = result.data
    print_scores("Samples x emissions x excitations x times", truth, scored, filled, result)

    sample, time = truth.shape[0] // 2, truth.shape[3] // 3
    gone = np.isnan(data[sample]).all(axis=-1) & ~np.isnan(truth[sample]).any(axis=-1)
    pairs = sorted(np.argwhere(gone), key=lambda pair: -truth[sample, *pair].max())[:12:4]
    with use_style():
        figure = new_figure((9, 2.8))
        *images, courses = figure.subplots(1, 4, width_ratios=(1, 1, 1, 2))
        panels = {"measured": data, "tensormend": result.data, "truth": truth}
        for axis, (title, values) in zip(images, panels.items(), strict=True):
            axis.imshow(values[sample, :, :, time], cmap="viridis", vmin=0, aspect="auto")
            axis.set(title=title, xlabel="excitation", xticks=[], yticks=[])
            axis.set_facecolor("0.8")
            axis.grid(visible=False)
        images[0].set_ylabel("emission")
        for line, (i, j) in zip(LINES, pairs, strict=False):
            courses.plot(truth[sample, i, j], color=line["color"], alpha=0.35, linewidth=5)
            courses.plot(result.data[sample, i, j], color=line["color"])
        courses.set(title="hidden courses: truth (wide), completed", xlabel="time")
        save_picture(figure, options)


if __name__ == "__main__":
    run_example(main, __file__)
