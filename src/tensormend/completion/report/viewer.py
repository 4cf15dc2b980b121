"""Text and sliders around the slices of a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from tensormend.completion.report.modes import Mode, sentence
from tensormend.completion.report.slices import View, is_spatial
from tensormend.completion.result import Completion

__all__ = ["describe_curve", "describe_image"]


def describe_image(result: Completion, view: View, modes: Sequence[Mode]) -> dict[str, str]:
    """Return the text around the images."""
    row, column = (modes[k] for k in view.shown[:2])
    way = "up" if row.points_up else "down"
    notes = [f"{sentence(row.name)} increases {way}wards, {column.name} to the right."]
    if len(view.shown) == 3:
        notes.append(
            f"{sentence(modes[view.shown[2]].name)} is shown in colour; where some channels are "
            "missing, only the observed ones are shown."
        )
    notes.extend(_thinning(result, view, modes))
    return {
        "image_sliders": _sliders("image", view, modes),
        "image_note": escape(" ".join(notes)),
        "image_class": "spatial" if is_spatial(view, modes) else "table",
        "image_up": way,
        "image_shared": "" if view.differ else "checked",
        "image_several": "" if view.others else "hidden",
    }


def describe_curve(result: Completion, view: View, modes: Sequence[Mode]) -> dict[str, str]:
    """Return the text around the curves."""
    return {
        "curve_sliders": _sliders("curve", view, modes),
        "curve_name": escape(modes[view.shown[0]].name),
        "curve_note": escape(" ".join(_thinning(result, view, modes))),
    }


def _thinning(result: Completion, view: View, modes: Sequence[Mode]) -> Iterator[str]:
    """State which indices are left out."""
    steps = [
        f"one index in {step} along {mode.name}"
        for step, mode in zip(view.steps, modes, strict=True)
        if step > 1
    ]
    if steps:
        yield f"To limit its size the page contains {', '.join(steps)}."
    if result.observations.values.dtype.kind == "c":
        yield "Complex numbers are shown by their magnitude."


def _sliders(which: str, view: View, modes: Sequence[Mode]) -> str:
    parts = []
    for k, size in zip(view.others, view.values.shape, strict=False):
        mode, name = modes[k], f"{which}-{k}"
        middle = size // 2
        label = mode.label(middle * view.steps[k])
        disabled = " disabled" if size < 2 else ""
        parts.append(
            f'<div class="slider"><label for="{name}">{escape(mode.name)}</label>'
            f'<input type="range" id="{name}" min="0" max="{size - 1}" value="{middle}" step="1" '
            f'aria-valuetext="{escape(label)}"{disabled}>'
            f"<span>{escape(label)}</span></div>"
        )
    return "".join(parts)
