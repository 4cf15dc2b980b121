"""The HTML page: a template, and the escaped texts and figures that fill it."""

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

from tensormend.completion.report.charts import percent
from tensormend.completion.report.figures import (
    Figure,
    draw_course,
    draw_coverage,
    draw_errors,
    draw_factors,
    draw_spectra,
    find_principal,
)
from tensormend.completion.report.modes import Mode, read_modes, sentence, shorten
from tensormend.completion.report.slices import curve_view, image_view
from tensormend.completion.report.verdict import describe_verdict
from tensormend.completion.report.viewer import describe_curve, describe_image
from tensormend.completion.result import Completion
from tensormend.completion.trust import Trust
from tensormend.core.storage import atomic_write, check_folder
from tensormend.errors import InputError

__all__ = ["render_report", "write_report"]

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
    path : path-like
        File to write; it is written atomically (temporary file, then rename).
    result : Completion
        Result of `complete`.
    source : str, default=""
        Origin of the data, such as the name of a file.
    code : str, default=""
        Code that reproduces the completion, shown with a button to copy it.
    overwrite : bool, default=False
        Whether to replace an existing file.

    Raises
    ------
    InputError
        If the file exists, or ``result`` is not a `Completion`.

    Examples
    --------
    >>> import tempfile
    >>> import tensormend as tm
    >>> data = tm.simulate.random_tucker((9, 8, 7), 1, rng=0).todense()
    >>> data[::2, 3] = float("nan")
    >>> path = Path(tempfile.mkdtemp()) / "report.html"
    >>> write_report(path, tm.complete(data, rank=1))
    >>> path.stat().st_size < 5e6
    True
    """
    target = check_folder(path)
    if target.is_dir():
        raise InputError(f"{target} must be a file, got the name of a folder; choose another name")
    if target.exists() and not overwrite:
        raise InputError(
            f"{target} already exists; choose another name, or give overwrite=True",
            parameter="overwrite",
        )
    page = render_report(result, source=source, code=code)
    with atomic_write(target) as file:
        file.write(page.encode("utf-8"))


def render_report(result: Completion, *, source: str = "", code: str = "") -> str:
    """Return the HTML of a report on a completion; parameters as for `write_report`.

    The tensor is never formed as a whole: the page contains every n-th index of each mode, as many
    as its size allows.
    """
    if not isinstance(result, Completion):
        raise InputError(
            f"a report takes the Completion that complete returns, got {type(result).__name__}"
        )
    modes = read_modes(result.observations)
    image, curve = image_view(result, modes), curve_view(result, modes)
    principal = find_principal(result)
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
        **describe_verdict(result.trust),
        **describe_image(result, image, modes),
        **describe_curve(result, curve, modes),
        course=_join(draw_course(result)),
        coverage=_join(draw_coverage(result, modes)),
        errors=_join(draw_errors(result, modes)),
        errors_note=escape(_errors_note(result.trust)),
        spectra=_join(draw_spectra(principal, modes)),
        factors=_join(draw_factors(principal, modes)),
        model_note=escape(_model_note(result, modes)),
        settings="".join(
            f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>"
            for name, value in _settings(result, modes, source)
        ),
        code=_code(code),
    )


def _read(name: str) -> str:
    return (resources.files("tensormend.completion.report") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Name a text for the page's policy, which runs no other script and takes no other style."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _as_json(content: Any) -> str:
    """Write JSON that cannot end the element it stands in."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _join(figures: Sequence[Figure]) -> str:
    shape = "grid two" if len(figures) in (1, 2, 4) else "grid"
    return f'<div class="{shape}">{"".join(figure.html() for figure in figures)}</div>'


# the head


def _title(result: Completion, source: str) -> str:
    name = getattr(result.observations.container, "name", None)
    if name not in (None, ""):
        return shorten(str(name), 80)
    return shorten(Path(source).name if source else "A completed tensor", 80)


def _summary(result: Completion, modes: Sequence[Mode]) -> str:
    n_observed = len(result.observations.values)
    whole = math.prod(mode.size for mode in modes)
    sizes = " × ".join(f"{mode.size:,}" for mode in modes)
    names = ", ".join(mode.name for mode in modes)
    fraction = percent(n_observed / whole)
    return f"{sizes} ({names}), of which {n_observed:,} entries, {fraction}, are observed."


# words


def _errors_note(trust: Trust) -> str:
    which = "fitted" if trust.in_sample else "held out"
    return f"Root mean square error per slice, on entries that were {which}."


def _model_note(result: Completion, modes: Sequence[Mode]) -> str:
    taken = _preprocessing(result, modes)
    after = "" if taken == "none" else f", after preprocessing ({taken})"
    return (
        "Singular values and first components (left singular vectors) of the unfolding of the "
        f"model along each mode{after}."
    )


def _preprocessing(result: Completion, modes: Sequence[Mode]) -> str:
    fitted = result.preprocessing
    steps = ["log1p"] if fitted.value_transform else []
    if fitted.mean is not None:
        steps.append("grand mean subtracted")
    if fitted.effects:
        steps.append(f"effects of {', '.join(modes[k].name for k in fitted.effects)} subtracted")
    if fitted.standardize is not None:
        steps.append(f"divided by the standard deviations along {modes[fitted.standardize].name}")
    if fitted.clip != (-math.inf, math.inf):
        steps.append(f"imputed values clipped to between {fitted.clip[0]:g} and {fitted.clip[1]:g}")
    return ", ".join(steps) or "none"


def _settings(result: Completion, modes: Sequence[Mode], source: str) -> Iterator[tuple[str, str]]:
    """Name what was done, with which settings."""
    container = result.observations.container
    if source:
        yield "Source", source
    yield "Container", f"{sentence(container.words)}, computed in {result.fit.x.dtype}"
    yield "Shape", " × ".join(f"{mode.size} ({mode.name})" for mode in modes)
    yield "Method", result.fit.method
    yield "Rank", " × ".join(map(str, result.fit.x.rank))
    if result.best_trial is not None and math.isfinite(result.best_trial.strength):
        weights = result.best_trial.mode_weights or (1.0,) * len(modes)
        strengths = ", ".join(f"{result.best_trial.strength * factor:.3g}" for factor in weights)
        yield "Shrinkage strength per mode", strengths
    yield "Preprocessing", _preprocessing(result, modes)
    for note in result.notes:
        yield "Note", shorten(note, MAX_LETTERS)
    yield "Termination", result.message
    yield "Iterations", f"{result.n_iter}"
    yield "Time", f"{result.seconds:.3g} s"
    yield "Version", f"tensormend {metadata.version('tensormend')}"
    attributes = getattr(container, "attrs", {})
    for name, value in list(attributes.items())[:MAX_ATTRIBUTES]:
        yield f"Attribute {shorten(str(name), 60)}", shorten(str(value), MAX_LETTERS)


def _code(code: str) -> str:
    if not code:
        return ""
    return (
        '<section id="code"><h2>Code</h2><p>This code reproduces the completion.</p>'
        '<div class="code"><button type="button" id="copy">Copy</button>'
        f'<pre tabindex="0"><code>{escape(code.strip())}</code></pre></div></section>'
    )
