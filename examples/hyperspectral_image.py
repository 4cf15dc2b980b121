"""Repair the dead lines of a hyperspectral image.

A push-broom sensor with dead elements loses whole image columns, different ones in every band. Here
half of the columns of each band are hidden. The baseline is linear interpolation between columns,
as for a single image; completion uses the other bands too.

Data: Indian Pines (AVIRIS), a crop of 64 x 64 pixels and 65 bands that comes with tensormend.
M. F. Baumgardner, L. L. Biehl, D. A. Landgrebe (2015), doi:10.4231/R7RX991C. Licence: CC BY 3.0.

    python examples/hyperspectral_image.py [--small] [--out DIR]
"""

from __future__ import annotations

import numpy as np

import tensormend as tm
from helpers import Options, interpolate, print_scores, run_example, save_picture
from tensormend.data.datasets import load_indian_pines
from tensormend.plotting.style import new_figure, use_style


def main(options: Options) -> None:
    """Hide half of the image columns of every band and fill them again."""
    cube = load_indian_pines().cube  # row x column x band
    if options.small:
        cube = cube[:32, :32, ::4]
    dead = np.random.default_rng(0).random((1, *cube.shape[1:])) < 0.5
    hidden = np.broadcast_to(dead, cube.shape)
    data = np.where(hidden, np.nan, cube)

    result = tm.complete(data, rng=0)
    lines = interpolate(data, mode=1)
    filled = {"lines between columns": lines, "tensormend": result.data}
    print_scores("Indian Pines, rows x columns x bands", cube, hidden, filled, result)

    band = cube.shape[2] // 3
    panels = {"recorded": data, "lines between columns": lines, "tensormend": result.data}
    with use_style():
        figure = new_figure((9, 2.9))
        axes = figure.subplots(1, 4)
        low, high = np.percentile(cube[:, :, band], [1, 99])
        for axis, (title, image) in zip(axes, {**panels, "truth": cube}.items(), strict=True):
            axis.imshow(image[:, :, band], vmin=low, vmax=high, cmap="gray")
            axis.set(title=title, xticks=[], yticks=[])
            axis.grid(visible=False)
        figure.suptitle("One band of a hyperspectral image, half of its columns dead")
        save_picture(figure, options)


if __name__ == "__main__":
    run_example(main, __file__)
