"""The verdict: title, colour and icon, its reasons, and the error beside that of means."""

from __future__ import annotations

import math
from html import escape

from tensormend.completion.report.charts import number
from tensormend.completion.report.modes import sentence, shorten
from tensormend.completion.trust import Trust, Verdict

__all__ = ["describe_verdict"]

SIGNS = {
    Verdict.RELIABLE: ("reliable", "M5 12.5l4.5 4.5L19 7.5"),
    Verdict.DOUBTFUL: ("doubtful", "M12 6.5v7M12 17v.5"),
    Verdict.UNRELIABLE: ("unreliable", "M7 7l10 10M17 7L7 17"),
    Verdict.NOT_ASSESSED: ("not-assessed", "M6 12h.5M12 12h.5M18 12h.5"),
}
"""Per verdict, the CSS class of its colours and the path of its icon."""


MAX_LETTERS = 500  # of a reason, which names of modes may make long


def describe_verdict(trust: Trust) -> dict[str, str]:
    """Return the texts of the first section."""
    kind, strokes = SIGNS[trust.verdict]
    spread = f" ± {trust.standard_error:.2g}" if math.isfinite(trust.standard_error) else ""
    largest = max(trust.rmse, trust.baseline_rmse)
    texts = {
        "verdict_class": kind,
        "verdict_strokes": strokes,
        "verdict_word": trust.verdict.title,
        "verdict_sentence": shorten(f"{trust.verdict.message} {trust.remark}".strip(), MAX_LETTERS),
        "error_name": "In-sample error" if trust.in_sample else "Expected error of imputed values",
        "error_value": f"{number(trust.rmse)}{spread}",
        "error_words": " ".join(_explain_error(trust)),
        "error_plain": number(trust.rmse),
        "mean_value": number(trust.baseline_rmse),
        "mean_name": sentence(shorten(trust.baseline, MAX_LETTERS)),
        "error_width": _width(trust.rmse, largest),
        "mean_width": _width(trust.baseline_rmse, largest),
    }
    reasons = "".join(
        f"<li>{escape(sentence(shorten(reason, MAX_LETTERS)))}</li>" for reason in trust.reasons
    )
    facts = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in _list_facts(trust).items())
    return {
        **{name: escape(text) for name, text in texts.items()},
        "reasons": f"<ul>{reasons}</ul>" if reasons else "",
        "facts": facts,
    }


def _explain_error(trust: Trust) -> list[str]:
    """Describe the error, and compare it."""
    which = "were fitted" if trust.in_sample else "were held out"
    words = [f"Root mean square over {trust.n_held:,} entries that {which}."]
    compared = []
    if math.isfinite(trust.relative_error):
        compared.append(
            f"{number(100 * trust.relative_error)}% of the root mean square of the values"
        )
    if trust.rmse > 0 and trust.baseline_rmse > 0:
        gain = trust.baseline_rmse / trust.rmse
        size, way = (gain, "smaller") if gain >= 1 else (1 / gain, "larger")
        compared.append(f"{number(size)} times {way} than that of the best mean")
    if compared:
        words.append(f"It is {', and '.join(compared)}.")
    if trust.in_sample:
        words.append("The error of imputed values is larger; hold out entries to estimate it.")
    return words


def _list_facts(trust: Trust) -> dict[str, str]:
    each = trust.n_entries / trust.degrees_of_freedom if trust.degrees_of_freedom else math.inf
    return {
        "Fitted entries": f"{trust.n_entries:,}",
        "Entries per degree of freedom": number(each),
        "Noise standard deviation (residuals)": number(trust.noise_std),
        "Unobserved slices": str(sum(map(len, trust.empty_slices))),
    }


def _width(value: float, largest: float) -> str:
    """Return the length of a bar, in percent."""
    return f"{100 * value / largest:.1f}" if value > 0 and math.isfinite(largest) else "0"
