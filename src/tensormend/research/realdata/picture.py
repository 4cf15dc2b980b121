"""The picture of the benchmark: our RMSE over that of each peer, a row of dots for each cell."""

from __future__ import annotations

from pathlib import Path

from tensormend.plotting.style import LINES, house_style, new_figure, save_png
from tensormend.research.realdata.contestants import CONTESTANTS, OURS
from tensormend.research.realdata.summary import Findings

__all__ = ["draw_ratios"]


def draw_ratios(findings: Findings, path: Path) -> bool:
    """Write a PNG; return whether there was anything to draw."""
    peers = [name for name in CONTESTANTS if name != OURS]
    series = {peer: findings.ratios([peer]) for peer in peers}
    rows = list(reversed(findings.ratios(peers)))
    if not rows:
        return False
    with house_style():
        figure = new_figure((8.0, 0.2 * len(rows) + 1.4))
        panel = figure.add_subplot()
        panel.axvline(1.0, color="0.4", lw=1)
        for peer, line in zip(peers, LINES, strict=False):
            dots = [(ratio, rows.index(place)) for place, ratio in series[peer].items()]
            x, y = zip(*dots, strict=True) if dots else ((), ())
            panel.plot(x, y, linestyle="none", label=peer, alpha=0.85, **line)
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        panel.xaxis.set_minor_formatter(
            lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else ""
        )
        panel.set_yticks(range(len(rows)), [" ".join(place) for place in rows], fontsize=7.5)
        panel.set_ylim(-0.7, len(rows) - 0.3)
        panel.set_xlabel("RMSE of tensormend over RMSE of the peer: left of 1 is better")
        handles, labels = panel.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
        save_png(figure, path)
    return True
