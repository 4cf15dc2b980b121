"""Error against iterations and against time: noise, tangent mode, condition number."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tensormend.core.algebra import Array
from tensormend.plotting.style import (
    LINES,
    format_power,
    mark,
    new_figure,
    set_caption,
    style_methods,
    tidy,
)
from tensormend.research.custom import is_custom, label_method, label_methods
from tensormend.research.experiments.condition import check_formula
from tensormend.research.experiments.traces import median_trace
from tensormend.research.records import Record
from tensormend.research.summary import group

__all__ = ["TERMS", "draw_condition", "draw_noise", "draw_tangent_mode"]

TERMS: Final = {"dense": "dense NumPy", "kernels": "tensormend's kernels"}
ERROR: Final = "relative error"


def draw_noise(records: Sequence[Record]) -> Any:
    """One panel an implementation; the curves of one ratio end at one level and are named there."""
    figure = new_figure((10.0, 4.4))
    styles = style_methods(label_methods(records))
    parts = group(records, "implementation")
    panels = figure.subplots(1, len(parts), squeeze=False, sharey=True)[0]
    for letter, panel, ((implementation,), own) in zip("ab", panels, parts.items(), strict=False):
        for line, ((method, snr), runs) in enumerate(group(own, "method", "snr").items()):
            _, seconds, errors = median_trace(runs)
            label = styles[method]["label"] if snr == own[0]["settings"]["snr"] else None
            style = {**styles[method], "label": label}
            _draw_curve(panel, seconds, errors, line, style)
            if method == "sm-qrgd":
                where = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
                panel.annotate(
                    f"{snr} dB", (1, errors[-1]), (3, 0), va="center", fontsize=8, **where
                )
        panel.set_yscale("log")
        tidy(panel, title=TERMS[implementation], x="time [s]", y=ERROR, letter=letter)
        panel.legend()
    settings = own[0]["settings"]
    caption = (
        f"n = {settings['n']}, r = {settings['rank']}, ρ = {settings['ratio']}, constant step, "
        f"{settings['max_iter']} iterations; {_repeats(records)}"
    )
    set_caption(figure, "Noisy data: SM-QRGD and SeMPIHT reach the noise level", caption)
    return figure


def draw_tangent_mode(records: Sequence[Record]) -> Any:
    """Draw curves of the three tangent modes."""
    settings = records[0]["settings"]
    caption = (
        f"n = {settings['n']}, r = {tuple(settings['rank'])}, ρ = {settings['ratio']}, to an error "
        f"of {format_power(settings['tol'])}; {_repeats(records)}"
    )
    labels = {
        modes: f"mode {modes[0]}, rank {settings['rank'][modes[0]]}, order {list(modes)}"
        for (modes,) in group(records, "mode_order")
    }
    figure = _draw_steps(records, "mode_order", labels)
    set_caption(figure, "SM-QRGD with different tangent modes (counted from 0)", caption)
    return figure


def draw_condition(records: Sequence[Record]) -> Any:
    """Curves over condition numbers."""
    settings = records[0]["settings"]
    caption = (
        f"n = {settings['n']}, r = {settings['rank']}, ρ = {settings['ratio']}, to an error of "
        f"{format_power(settings['tol'])}; {_repeats(records)}\nMeasured: {check_formula(records)}."
    )
    labels = {kappa: f"κ₂ = {kappa}" for (kappa,) in group(records, "kappa")}
    figure = _draw_steps(records, "kappa", labels)
    set_caption(figure, "SM-QRGD with different condition numbers of the second mode", caption)
    return figure


def _draw_steps(records: Sequence[Record], key: str, labels: Mapping[Any, str]) -> Any:
    """One row a step; against iterations, and against time for both implementations.

    Solvers of users have panels of their own on the right.
    """
    steps = group(records, "step")
    views: list[tuple[str, str, str, Callable[[Array, Array], Array]]] = [
        ("sm-qrgd", "kernels", "iteration", lambda counts, _: counts),
        ("sm-qrgd", "dense", "time [s]", lambda _, seconds: seconds),
        ("sm-qrgd", "kernels", "time [s]", lambda _, seconds: seconds),
    ]
    for method in filter(is_custom, label_methods(records)):
        views.append((method, "kernels", "iteration", views[0][-1]))
        views.append((method, "kernels", "time [s]", views[1][-1]))
    figure = new_figure((4.0 * len(views), 3.5 * len(steps) + 0.7))
    rows = figure.subplots(len(steps), len(views), squeeze=False, sharey=True)
    letters = iter(string.ascii_lowercase)
    for row, ((step,), own) in zip(rows, steps.items(), strict=True):
        for panel, (method, implementation, unit, pick) in zip(row, views, strict=True):
            who = {"method": method, "implementation": implementation}
            runs = [r for r in own if who.items() <= r["settings"].items()]
            panel.set_visible(bool(runs))
            for line, ((value,), repeats) in enumerate(group(runs, key).items()):
                counts, seconds, errors = median_trace(repeats)
                style = {**LINES[line % len(LINES)], "label": labels[value]}
                _draw_curve(panel, pick(counts, seconds), errors, line, style)
            panel.set_yscale("log")
            what = (
                f"{step} step" if unit == "iteration" else f"{step} step, {TERMS[implementation]}"
            )
            what = f"{label_method(method)}, {what}" if is_custom(method) else what
            y = ERROR if panel is row[0] else ""
            tidy(panel, title=what, x=unit, y=y, letter=next(letters))
    rows[0, 0].legend(fontsize=8)
    return figure


def _draw_curve(panel: Any, x: Array, errors: Array, line: int, style: Mapping[str, Any]) -> None:
    panel.plot(x, errors, markevery=mark(len(x), line).tolist(), **style)


def _repeats(records: Sequence[Record]) -> str:
    n_repeats = 1 + max(record["settings"]["repeat"] for record in records)
    machine = records[0]["machine"]
    threads = machine["threads"]
    cores = f"{threads} thread{'s' if threads != 1 else ''} of the kernels"
    blas = f"{machine['blas_threads']} of BLAS in the dense methods"
    times = f"median of {n_repeats} timings" if n_repeats > 1 else "one timing"
    return f"{times}, {cores}, {blas}."
