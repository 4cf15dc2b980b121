"""Fill in sea-surface temperatures where clouds and gaps between passes left none.

Nine measurements in ten are hidden at random. The baseline is linear interpolation along parallels,
which is more accurate than between months; completion uses the other latitudes and months too. An
`xarray.DataArray` is passed, and a DataArray with the same coordinates returned. Land is missing
throughout; `complete` fills it in too, so it is masked again.

Data: monthly OSTIA analyses of the tropics, 54 months x 18 latitudes x 432 longitudes, the file
ostia_monthly.nc of the package iris-sample-data 2.5.2, made by the Met Office.
Licence: Open Government Licence, British Crown copyright 2018.

    python examples/sea_surface_temperature.py [--small] [--out DIR]
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tensormend as tm
from helpers import Options, find_file, interpolate, print_scores, run_example, save_picture
from tensormend.errors import require
from tensormend.plotting.style import new_figure, use_style


def load_temperature() -> Any:
    """Read the temperature in degrees Celsius as a DataArray: time x latitude x longitude."""
    path = find_file("iris-sample-data", "ostia_monthly.nc")
    xarray = require("xarray", "netcdf", "reading NetCDF")
    with xarray.open_dataset(path, engine="h5netcdf") as dataset:
        kelvin = dataset["surface_temperature"].load()
    celsius = (kelvin - 273.15).astype(float)
    return celsius.rename("temperature").assign_attrs(units="degrees Celsius")


def main(options: Options) -> None:
    """Hide nine tenths of the measurements and fill them again."""
    temperature = load_temperature()
    if options.small:
        temperature = temperature[:24, :, 160:224]  # the open Pacific
    sea = temperature.notnull()
    observed = np.random.default_rng(0).random(temperature.shape) < 0.1
    data = temperature.where(observed)

    result = tm.complete(data.dropna("longitude", how="all"), rng=0)  # without meridians of land
    field = result.data.reindex_like(data).where(sea)  # a DataArray, land missing again
    truth, hidden = temperature.to_numpy(), sea.to_numpy() & ~observed
    lines = interpolate(data.to_numpy(), mode=2)
    filled = {"lines along parallels": lines, "tensormend": field.to_numpy()}
    print_scores("OSTIA, months x latitudes x longitudes", truth, hidden, filled, result)

    month = len(temperature) // 2
    lines = np.where(sea, lines, np.nan)
    panels = {
        "observed": data.to_numpy(),
        "lines along parallels": lines,
        "tensormend": field,
        "truth": truth,
    }
    with use_style():
        figure = new_figure((9, 4.2))
        axes = figure.subplots(4, 1, sharex=True)
        low, high = np.nanpercentile(truth[month], [1, 99])
        west, east = (float(temperature["longitude"][k]) for k in (0, -1))
        south, north = (float(temperature["latitude"][k]) for k in (0, -1))
        for axis, (title, image) in zip(axes, panels.items(), strict=True):
            axis.set_facecolor("0.8")
            drawn = axis.imshow(
                image[month],
                vmin=low,
                vmax=high,
                cmap="viridis",
                origin="lower",
                aspect="auto",
                extent=(west, east, south, north),
            )
            axis.grid(visible=False)
            axis.set_title(title, loc="left")
            axis.set_ylabel("latitude")
        axes[-1].set_xlabel("longitude")
        figure.colorbar(drawn, ax=axes, label="°C", shrink=0.8)
        save_picture(figure, options)


if __name__ == "__main__":
    run_example(main, __file__)
