"""Fill in days on which a road segment recorded no speeds at all.

Three days in ten of every segment are hidden, so that times of the same day cannot be interpolated;
the baseline is the mean of the same segment and time over the other days. `complete` finds that
whole days are missing, holds out whole days too, and so expects the error that it makes.

Data: traffic speed in Guangzhou, 144 ten-minute slots x 50 road segments x 15 days; zeros
count as missing. From the repository tongnie/tensorlib at commit 1515a63, which is under MIT. The
file guangzhou_speed.npy comes with no package: give its folder with --data or in TENSORMEND_DATA.

    python examples/traffic_speed.py --data DIR [--small] [--out DIR]
"""

from __future__ import annotations

import numpy as np

import tensormend as tm
from helpers import Options, fibre_mean, load_array, print_scores, run_example, save_picture
from tensormend.plotting.style import new_figure, use_style


def main(options: Options) -> None:
    """Hide three days in ten of every road segment and fill them again."""
    speed = load_array(options, "guangzhou_speed.npy")
    speed = np.where(speed == 0, np.nan, speed)  # time of day x segment x day
    speed = speed[:, ~np.isnan(speed).all(axis=(0, 2))]  # without segments that recorded nothing
    if options.small:
        speed = speed[::4, :25, :]
    lost = np.random.default_rng(0).random((1, *speed.shape[1:])) < 0.3
    data = np.where(lost, np.nan, speed)
    scored = np.isnan(data) & ~np.isnan(speed)

    result = tm.complete(data, rng=0)
    means = fibre_mean(data, mode=2)
    filled = {"mean of the other days": means, "tensormend": result.data}
    print_scores("Times x segments x days", speed, scored, filled, result)

    squares = np.nanmean((result.data - speed) ** 2, axis=0)
    pairs = sorted(np.argwhere(lost[0] & ~np.isnan(squares)), key=lambda pair: squares[*pair])
    segment, day = pairs[len(pairs) // 2]  # of median error
    hours = np.linspace(0, 24, speed.shape[0], endpoint=False)
    with use_style():
        figure = new_figure((9, 3.2))
        days, course = figure.subplots(1, 2, width_ratios=(1, 1.5))
        days.imshow(data[:, segment, :].T, aspect="auto", cmap="viridis", extent=(0, 24, 15, 0))
        days.set(title=f"records of segment {segment}", xlabel="hour", ylabel="day")
        days.set_facecolor("0.8")
        days.grid(visible=False)
        course.plot(hours, speed[:, segment, day], color="0.6", label="truth")
        course.plot(hours, means[:, segment, day], color="#d55e00", label="mean of other days")
        course.plot(hours, result.data[:, segment, day], color="#0072b2", label="tensormend")
        course.set(title=f"day {day}, hidden, of median error", xlabel="hour", ylabel="speed")
        course.legend()
        save_picture(figure, options)


if __name__ == "__main__":
    run_example(main, __file__, data=True)
