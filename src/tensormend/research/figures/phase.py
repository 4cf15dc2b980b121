"""The phase transition: a map for each method, and their boundaries together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensormend.plotting.style import new_figure, set_caption, style_methods, tidy
from tensormend.research.custom import label_methods
from tensormend.research.experiments.phase import (
    describe_grid,
    fit_boundary,
    least_ratios,
    success_map,
)
from tensormend.research.records import Record
from tensormend.research.summary import group

__all__ = ["draw_phase"]


def draw_phase(records: Sequence[Record]) -> Any:
    """Heat maps of the success rate with the fitted line; last, all boundaries in one panel."""
    methods = {method: own for (method,), own in group(records, "method").items()}
    styles = style_methods(label_methods(records))
    n_columns = 3
    n_rows = -(-(len(methods) + 1) // n_columns)
    figure = new_figure((4.2 * n_columns, 3.6 * n_rows + 0.5))
    panels = figure.subplots(n_rows, n_columns, squeeze=False).flatten()
    image = None
    for letter, panel, (method, own) in zip("abcdefgh", panels, methods.items(), strict=False):
        image = _draw_map(panel, own)
        tidy(panel, title=styles[method]["label"], x="rank r", y="sampling ratio ρ", letter=letter)
    _draw_boundaries(panels[len(methods)], methods, styles)
    tidy(
        panels[len(methods)],
        title="Boundaries (success rate 1/2)",
        x="rank r",
        y="sampling ratio ρ",
        letter="abcdefgh"[len(methods)],
    )
    for panel in panels[len(methods) + 1 :]:
        panel.set_visible(False)
    bar = figure.colorbar(image, ax=list(panels), shrink=0.7, pad=0.01, aspect=30)
    bar.set_label("success rate")
    set_caption(figure, "Phase transition", _caption(records))
    return figure


def _caption(records: Sequence[Record]) -> str:
    settings = records[0]["settings"]
    return (
        f"n = {settings['n']}; success: true relative error at most 1e-5 within "
        f"{settings['max_iter']} iterations; normalized step.\n{describe_grid(records)}. "
        "Crosses: rate 1/2, interpolated; line: fit."
    )


def _draw_map(panel: Any, records: Sequence[Record]) -> Any:
    ranks, ratios, rates = success_map(records)
    image = panel.pcolormesh(
        ranks, ratios, rates, cmap="cividis", vmin=0, vmax=1, shading="nearest", rasterized=True
    )
    panel.grid(visible=False)
    panel.set_facecolor("0.8")
    line = fit_boundary(records)
    limits = panel.get_xlim(), panel.get_ylim()
    if line is not None:
        for color, width in (("white", 4), ("#d55e00", 2)) if line.formula else ():
            ends = np.asarray(limits[0])
            panel.plot(ends, line(ends), color=color, lw=width, ls="--" if width == 2 else "-")
        panel.plot(line.ranks, line.ratios, "x", color="white", ms=8, mew=3.5)
        panel.plot(line.ranks, line.ratios, "x", color="#d55e00", ms=7, mew=1.8)
        panel.text(
            0.97,
            0.05,
            line.formula or "not a line",
            transform=panel.transAxes,
            ha="right",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 2},
        )
    panel.set(xlim=limits[0], ylim=limits[1], xticks=ranks)
    return image


def _draw_boundaries(
    panel: Any, methods: dict[str, list[Record]], styles: dict[str, dict[str, str]]
) -> None:
    for method, own in methods.items():
        line = fit_boundary(own)
        if line is not None:
            panel.plot(line.ranks, line.ratios, **styles[method])
    everything = [record for own in methods.values() for record in own]
    n = everything[0]["settings"]["n"]
    ranks, ratios, _ = success_map(everything)
    panel.plot(ranks, least_ratios(ranks, n), color="0.5", ls=":", label="degrees of freedom")
    panel.set(ylim=(0, 1.4 * ratios[-1]), xticks=ranks)
    panel.legend(fontsize=8)
