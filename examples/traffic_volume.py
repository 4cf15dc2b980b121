"""Fill in the counts of traffic detectors, from a long pandas table.

A row of the table is a count; absent rows are missing entries. Nine rows in ten are dropped at
random. The baselines are linear interpolation over the day, and the mean of the same quarter hour
over the other days. `clip` keeps counts from falling below zero.

Data: traffic volume in Portland, 96 quarter hours x 80 detectors x 15 days; zeros (7.8%)
count as missing. From the repository tongnie/tensorlib at commit 1515a63, which is under MIT. The
file portland_volume.npy comes with no package: give its folder with --data or in TENSORMEND_DATA.

    python examples/traffic_volume.py --data DIR [--small] [--out DIR]
"""

from __future__ import annotations

import numpy as np

import tensormend as tm
from helpers import (
    Options,
    fibre_mean,
    interpolate,
    load_array,
    print_scores,
    run_example,
    save_picture,
)
from tensormend.errors import require
from tensormend.plotting.style import new_figure, use_style


def main(options: Options) -> None:
    """Drop nine rows in ten of a table of counts and fill them again."""
    pandas = require("pandas", "labelled", "this example")
    counts = load_array(options, "portland_volume.npy")
    if options.small:
        counts = counts[::4, :30, :]
    names = ["quarter", "detector", "day"]
    index = pandas.MultiIndex.from_product([range(n) for n in counts.shape], names=names)
    table = pandas.Series(counts.ravel(), index=index, name="volume")
    table = table[table > 0].reset_index()  # long: quarter, detector, day, volume
    observed = table.sample(frac=0.1, random_state=0)

    result = tm.complete(observed, modes=names, value_column="volume", clip=(0, None), rng=0)
    print(result.data.head(3), "\n")  # the same columns, one row per entry

    data, truth = (np.full(counts.shape, np.nan) for _ in range(2))
    for array, rows in ((data, observed), (truth, table)):
        array[tuple(rows[name].to_numpy() for name in names)] = rows["volume"]
    scored = np.isnan(data) & ~np.isnan(truth)
    lines, model = interpolate(data, mode=0), result.data["volume"].to_numpy().reshape(counts.shape)
    filled = {
        "lines over the day": lines,
        "mean of the other days": fibre_mean(data, mode=2),
        "tensormend": model,
    }
    print_scores("Quarter hours x detectors x days", truth, scored, filled, result)

    errors = np.nanmean((model - truth) ** 2, axis=(0, 2)) / np.nanmean(truth**2, axis=(0, 2))
    day, detector = 3, int(np.argsort(errors)[len(errors) // 2])  # half of them err more
    hours = np.linspace(0, 24, counts.shape[0], endpoint=False)
    with use_style():
        figure = new_figure((9, 3.2))
        axis = figure.subplots()
        axis.plot(hours, truth[:, detector, day], color="0.75", linewidth=4, label="truth")
        axis.plot(hours, lines[:, detector, day], color="#d55e00", label="lines over the day")
        axis.plot(hours, model[:, detector, day], color="#0072b2", label="tensormend")
        axis.plot(hours, data[:, detector, day], "k.", markersize=8, label="observed")
        axis.set(
            title=f"detector {detector}, of median relative error, on day {day}",
            xlabel="hour",
            ylabel="vehicles",
        )
        axis.legend(ncols=4)
        save_picture(figure, options)


if __name__ == "__main__":
    run_example(main, __file__, data=True)
