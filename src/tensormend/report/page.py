"""The page: a template, and what is put into it, escaped."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
from collections.abc import Iterator, Sequence
from html import escape
from importlib import metadata, resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from tensormend.completion import Completion
from tensormend.errors import InputError
from tensormend.report.charts import number
from tensormend.report.figures import (
    Figure,
    draw_course,
    draw_coverage,
    draw_errors,
    draw_factors,
    draw_spectra,
)
from tensormend.report.modes import Mode, read_modes, shorten
from tensormend.report.slices import View, curve_view, image_view, is_spatial
from tensormend.storage import atomic_write, check_folder
from tensormend.trust import Trust, Verdict

__all__ = ["render_report", "write_report"]

SIGNS = {
    Verdict.WELL_DETERMINED: ("good", "M5 12.5l4.5 4.5L19 7.5"),
    Verdict.DOUBTFUL: ("doubtful", "M12 6.5v7M12 17v.5"),
    Verdict.HOPELESS: ("hopeless", "M7 7l10 10M17 7L7 17"),
}
"""Per verdict, the class of its colours and the strokes of its sign."""

N_LOOKS = 50  # slices that tell how much they differ
MAX_ATTRIBUTES, MAX_LETTERS = 24, 300  # of what a file says beside its numbers


def write_report(
    path: str | os.PathLike[str],
    result: Completion,
    *,
    source: str = "",
    code: str = "",
    overwrite: bool = False,
) -> None:
    """Write a report on a completion: one HTML file that needs nothing else, under 5 MB.

    Parameters
    ----------
    path : where to; the file is there whole in the end or not at all
    result : what `complete` returned
    source : where the data came from, such as the name of a file
    code : lines that make the same completion again, shown with a button to copy them
    overwrite : take the place of a file that is there

    Examples
    --------
    >>> import tempfile
    >>> import tensormend as tm
    >>> data = tm.simulate.random_tucker((9, 8, 7), 1, rng=0).dense()
    >>> data[::2, 3] = float("nan")
    >>> path = Path(tempfile.mkdtemp()) / "report.html"
    >>> write_report(path, tm.complete(data, rank=1))
    >>> path.stat().st_size < 5e6
    True
    """
    target = check_folder(path)
    if target.is_dir() or (target.exists() and not overwrite):
        raise InputError(f"{target} is there already; choose another name, or overwrite it")
    page = render_report(result, source=source, code=code)
    with atomic_write(target) as file:
        file.write(page.encode("utf-8"))


def render_report(result: Completion, *, source: str = "", code: str = "") -> str:
    """Return the HTML of a report on a completion; parameters as for `write_report`.

    The tensor is never formed as a whole: the page carries every so many-th place of each mode,
    as many as fit into its size.
    """
    if not isinstance(result, Completion):
        raise InputError(
            f"a report takes the Completion that complete returns, got {type(result).__name__}"
        )
    modes = read_modes(result.known)
    image, curve = image_view(result, modes), curve_view(result, modes)
    style, script = _read("style.css"), _read("script.js")
    views = {"image": image.encode(modes), "curve": curve.encode(modes)}
    return Template(_read("page.html")).substitute(
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        title=escape(_title(result, source)),
        source=f" · {escape(shorten(Path(source).name, 80))}" if source else "",
        summary=escape(_summary(result, modes)),
        version=escape(metadata.version("tensormend")),
        data=_as_json(views),
        **_verdict(result.trust),
        **_image(result, image, modes),
        **_curve(result, curve, modes),
        course=_join(draw_course(result)),
        coverage=_join(draw_coverage(result, modes)),
        errors=_join(draw_errors(result, modes)),
        errors_note=escape(_errors_note(result.trust)),
        spectra=_join(draw_spectra(result, modes)),
        factors=_join(draw_factors(result, modes)),
        model_note=escape(_model_note(result, modes)),
        settings="".join(
            f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>"
            for name, value in _settings(result, modes, source)
        ),
        code=_code(code),
    )


def _read(name: str) -> str:
    return (resources.files("tensormend.report") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Name a text for the page's policy, which runs no other script and takes no other style."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _as_json(content: Any) -> str:
    """Write JSON that cannot end the element it stands in."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _join(figures: Sequence[Figure]) -> str:
    shape = "grid two" if len(figures) in (2, 4) else "grid"
    return f'<div class="{shape}">{"".join(figure.html() for figure in figures)}</div>'


# the head


def _title(result: Completion, source: str) -> str:
    name = getattr(result.known.kind, "name", None)
    if name not in (None, ""):
        return shorten(str(name), 80)
    return shorten(Path(source).name if source else "A completed tensor", 80)


def _summary(result: Completion, modes: Sequence[Mode]) -> str:
    known = len(result.known.values)
    whole = math.prod(mode.size for mode in modes)
    sizes = " × ".join(f"{mode.size:,} {mode.name}" for mode in modes)
    return (
        f"{sizes}. {known:,} of {number(float(whole))} entries known, {known / whole:.3g} of all."
    )


def _verdict(trust: Trust) -> dict[str, str]:
    kind, strokes = SIGNS[trust.verdict]
    gain = trust.baseline_rmse / trust.rmse if trust.rmse > 0 else math.inf
    largest = max(trust.rmse, trust.baseline_rmse)
    widths = [
        round(100 * value / largest, 1) if largest > 0 and math.isfinite(value) else 0
        for value in (trust.rmse, trust.baseline_rmse)
    ]
    spread = f" ± {trust.standard_error:.2g}" if math.isfinite(trust.standard_error) else ""
    which = "the fit had seen" if trust.seen else "the fits did not see"
    compared = ""
    if math.isfinite(gain):
        compared = (
            f"{number(gain)} times smaller than with plain means."
            if gain >= 1
            else f"{number(1 / gain)} times larger than with plain means."
        )
    relative = 100 * trust.relative_error
    size = f"{number(relative)}% of the size of the values. " if math.isfinite(relative) else ""
    texts = {
        "verdict_class": kind,
        "verdict_strokes": strokes,
        "verdict_word": trust.verdict.name.replace("_", " ").capitalize(),
        "verdict_sentence": trust.verdict.value,
        "error_name": "In-sample error" if trust.seen else "Expected error of a filled-in value",
        "error_value": f"{number(trust.rmse)}{spread}",
        "error_words": f"Root mean square over {trust.n_held:,} entries that {which}. {size}"
        f"{compared}",
        "error_plain": number(trust.rmse),
        "mean_value": number(trust.baseline_rmse),
        "mean_name": _sentence(trust.baseline),
        "error_width": str(widths[0]),
        "mean_width": str(widths[1]),
    }
    reasons = "".join(f"<li>{escape(_sentence(reason))}</li>" for reason in trust.reasons)
    each = trust.n_entries / trust.degrees_of_freedom if trust.degrees_of_freedom else math.inf
    facts = {
        "Entries that were fitted": f"{trust.n_entries:,}",
        "Entries per degree of freedom": number(each),
        "Noise in the residuals": number(trust.noise),
        "Slices never seen": str(sum(map(len, trust.unseen_slices))),
    }
    return {
        **{name: escape(text) for name, text in texts.items()},
        "reasons": f"<ul>{reasons}</ul>" if reasons else "",
        "facts": "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in facts.items()),
    }


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


# the tensor


def _image(result: Completion, view: View, modes: Sequence[Mode]) -> dict[str, str]:
    row, column = (modes[k] for k in view.shown[:2])
    notes = [f"{_sentence(row.name)} goes down, {column.name} to the right."]
    if len(view.shown) == 3:
        notes.append(
            f"{_sentence(modes[view.shown[2]].name)} is shown in colour; where some channels are "
            "unknown, only the known ones are lit."
        )
    notes.extend(_thinning(result, view, modes))
    return {
        "image_sliders": _sliders("image", view, modes),
        "image_note": escape(" ".join(notes)),
        "image_class": "spatial" if is_spatial(view, modes) else "table",
        "image_up": "up" if row.points_up else "down",
        "image_shared": "" if _differ(view) else "checked",
        "image_several": "" if view.others else "hidden",
    }


def _differ(view: View) -> bool:
    """Tell whether slices differ so much from each other that each needs its own colours."""
    slices = view.values.reshape(-1, math.prod(view.values.shape[len(view.others) :]))
    spans = np.ptp(slices[:: math.ceil(len(slices) / N_LOOKS)], axis=1)
    return bool(np.median(spans) < np.ptp(view.values) / 2)


def _curve(result: Completion, view: View, modes: Sequence[Mode]) -> dict[str, str]:
    return {
        "curve_sliders": _sliders("curve", view, modes),
        "curve_name": escape(modes[view.shown[0]].name),
        "curve_note": escape(" ".join(_thinning(result, view, modes))),
    }


def _thinning(result: Completion, view: View, modes: Sequence[Mode]) -> Iterator[str]:
    """Say what of the tensor is left out."""
    steps = [
        f"{step} of {mode.name}" for step, mode in zip(view.steps, modes, strict=True) if step > 1
    ]
    if steps:
        yield f"To keep the page small it carries one place in {', in '.join(steps)}."
    if result.known.values.dtype.kind == "c":
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
            f'<output for="{name}">{escape(label)}</output></div>'
        )
    return "".join(parts)


# words


def _errors_note(trust: Trust) -> str:
    which = "had seen" if trust.seen else "had not seen"
    return f"Root mean square, slice by slice, of the error on entries that the fit {which}."


def _model_note(result: Completion, modes: Sequence[Mode]) -> str:
    taken = _preprocessing(result, modes)
    after = "" if taken == "none" else f", after the values were prepared ({taken})"
    return (
        "Along each mode the model has singular values, which tell how many patterns it needs, and "
        f"components, the patterns themselves, strongest first{after}."
    )


def _preprocessing(result: Completion, modes: Sequence[Mode]) -> str:
    fitted = result.fitted
    steps = ["log1p"] if fitted.log else []
    if fitted.mean is not None:
        steps.append("grand mean taken out")
    if fitted.effects:
        steps.append(f"effects of {', '.join(modes[k].name for k in fitted.effects)} taken out")
    if fitted.scale is not None:
        steps.append(f"divided by the deviations along {modes[fitted.scale].name}")
    if fitted.clip != (-math.inf, math.inf):
        steps.append(f"filled-in values kept between {fitted.clip[0]:g} and {fitted.clip[1]:g}")
    return ", ".join(steps) or "none"


def _settings(result: Completion, modes: Sequence[Mode], source: str) -> Iterator[tuple[str, str]]:
    """Name what was done, with which settings."""
    kind = result.known.kind
    if source:
        yield "Source", source
    yield "Kind of data", f"{_sentence(kind.words)}, computed in {result.x.dtype}"
    yield "Shape", " × ".join(f"{mode.size} ({mode.name})" for mode in modes)
    yield "Method", result.method
    yield "Rank", " × ".join(map(str, result.x.rank))
    if result.chosen is not None and math.isfinite(result.chosen.strength):
        balance = result.chosen.balance or (1.0,) * len(modes)
        strengths = ", ".join(f"{result.chosen.strength * factor:.3g}" for factor in balance)
        yield "Strengths of shrinkage, per mode", strengths
    yield "Preparation of the values", _preprocessing(result, modes)
    for note in result.notes:
        yield "Note", note
    yield "How it ended", result.message
    yield "Iterations", f"{result.n_iter}"
    yield "Time", f"{result.seconds:.3g} s"
    yield "Version", f"tensormend {metadata.version('tensormend')}"
    attributes = getattr(kind, "attributes", getattr(kind, "attrs", {}))
    for name, value in list(attributes.items())[:MAX_ATTRIBUTES]:
        yield f"Attribute {shorten(str(name), 60)}", shorten(str(value), MAX_LETTERS)


def _code(code: str) -> str:
    if not code:
        return ""
    return (
        '<section id="code"><h2>The code</h2><p>These lines make the same completion again.</p>'
        '<div class="code"><button type="button" id="copy">Copy</button>'
        f'<pre tabindex="0"><code>{escape(code.strip())}</code></pre></div></section>'
    )
