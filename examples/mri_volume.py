"""Complete a magnetic resonance volume from 30% of its voxels.

The baseline is linear interpolation between neighbours, from back to front, the direction in which
it is most accurate.

Data: the T1 template ICBM 152 (2009a, symmetric) of V. Fonov et al. (2011), NeuroImage 54,
313-327, from the package nilearn 0.14.1; its middle, 96 x 112 x 48 voxels of 1 x 1 x 2 mm.
Licence: the package is under BSD-3-Clause; none is stated for the template.

    python examples/mri_volume.py [--small] [--out DIR]
"""

from __future__ import annotations

import numpy as np

import tensormend as tm
from helpers import Options, find_file, interpolate, print_scores, run_example, save_picture
from tensormend.core.algebra import Array
from tensormend.errors import require
from tensormend.plotting.style import new_figure, use_style


def load_volume() -> Array:
    """Read the middle of the template: left-right x back-front x bottom-top."""
    path = find_file("nilearn", "mni_icbm152_t1_tal_nlin_sym_09a_converted.nii.gz")
    nibabel = require("nibabel", "nifti", "reading NIfTI")
    volume = np.asarray(nibabel.Nifti1Image.from_filename(path).dataobj)
    return volume[50:146, 61:173, 29:125:2].astype(float)


def main(options: Options) -> None:
    """Hide 70% of the voxels and fill them again."""
    volume = load_volume()
    if options.small:
        volume = volume[::3, ::3, ::3]
    hidden = np.random.default_rng(0).random(volume.shape) < 0.7
    data = np.where(hidden, np.nan, volume)

    result = tm.complete(data, clip=(0, None), rng=0)
    lines = interpolate(data, mode=1)
    filled = {"lines from back to front": lines, "tensormend": result.data}
    print_scores("T1 template", volume, hidden, filled, result)

    level = volume.shape[2] // 2
    with use_style():
        figure = new_figure((9, 2.9))
        axes = figure.subplots(1, 4)
        panels = {"measured": data, "lines": lines, "tensormend": result.data, "truth": volume}
        for axis, (title, image) in zip(axes, panels.items(), strict=True):
            axis.imshow(
                image[:, :, level].T, origin="lower", cmap="gray", vmin=0, vmax=volume.max()
            )
            axis.set_facecolor("black")
            axis.set(title=title, xticks=[], yticks=[])
            axis.grid(visible=False)
        save_picture(figure, options)


if __name__ == "__main__":
    run_example(main, __file__)
