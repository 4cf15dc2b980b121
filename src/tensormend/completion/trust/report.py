"""`Trust`: measured errors, the verdict, and both as text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

from tensormend.core.algebra import Array

__all__ = ["Trust", "Verdict"]


class Verdict(Enum):
    """How far a completion can be trusted; `message` says it in a sentence."""

    RELIABLE = "reliable"
    DOUBTFUL = "doubtful"
    UNRELIABLE = "unreliable"
    NOT_ASSESSED = "not_assessed"

    @property
    def title(self) -> str:
        """The verdict in words."""
        return self.value.replace("_", " ").capitalize()

    @property
    def message(self) -> str:
        """What the verdict means, in a sentence."""
        return MESSAGES[self]


MESSAGES = {
    Verdict.RELIABLE: "The data determine the tensor; imputed values have the stated error.",
    Verdict.DOUBTFUL: "The data may not determine the tensor everywhere; see the reasons.",
    Verdict.UNRELIABLE: "The data do not determine the tensor; do not use imputed values.",
    Verdict.NOT_ASSESSED: (
        "No entries were held out, so that the error of imputed values is not known; hold some out "
        "to assess it."
    ),
}
"""The sentence of each verdict."""


@dataclass(frozen=True, eq=False)
class Trust:
    """Assessment of a completion, as returned by `judge`.

    Attributes
    ----------
    verdict : Verdict
        Reliable, doubtful, unreliable or not assessed.
    reasons : tuple of str
        Why the verdict is not better, a sentence each.
    rmse : float
        Root mean square error on held-out entries, which the assessed fits did not use unless
        ``in_sample``.
    standard_error : float
        Standard error of ``rmse``.
    relative_error : float
        ``rmse`` divided by the root mean square of the held-out values.
    baseline_rmse : float
        Error of the best mean (of all entries, of a slice, of a fibre) on the same entries.
    baseline : str
        Which mean that is.
    rmse_per_slice : tuple of ndarray
        Per mode, ``rmse`` of every slice, NaN where no entry was held out.
    observed_fraction : tuple of ndarray
        Per mode, the observed fraction of every slice.
    empty_slices : tuple of ndarray
        Per mode, the indices of slices without any observed entry.
    n_empty_fibres : tuple of int
        Per mode, the number of fibres along it without any observed entry.
    empty_fibres : tuple of ndarray
        Per mode, the first of these, a row of indices each, -1 for the mode itself.
    noise_std : float
        Standard deviation of the noise, from the residuals of the final fit.
    degrees_of_freedom : float
        Of the final fit.
    n_entries : int
        Number of entries that the final fit used.
    n_held : int
        Number of held-out entries, or of those that stand in for them if ``in_sample``.
    value_std : float
        Standard deviation of the held-out values, with which the verdict compares ``rmse``.
    is_negligible : bool
        Whether ``rmse`` is so far below that, or so close to rounding, that it is no reason to
        doubt.
    in_sample : bool
        Whether the assessed fits used the held-out entries: the error is then too small.
    mode_names : tuple of str
        Names of the modes.
    regularized : bool
        Whether the fit was regularized, its degrees of freedom being effective ones.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    rmse: float
    standard_error: float
    relative_error: float
    baseline_rmse: float
    baseline: str
    rmse_per_slice: tuple[Array, ...]
    observed_fraction: tuple[Array, ...]
    empty_slices: tuple[Array, ...]
    n_empty_fibres: tuple[int, ...]
    empty_fibres: tuple[Array, ...]
    noise_std: float
    degrees_of_freedom: float
    n_entries: int
    n_held: int
    value_std: float
    is_negligible: bool
    in_sample: bool
    mode_names: tuple[str, ...]
    regularized: bool = False

    @property
    def error_name(self) -> str:
        """Name of the error."""
        return "in-sample error" if self.in_sample else "held-out error"

    @property
    def worst_mode(self) -> int | None:
        """The mode with the largest fraction of unobserved fibres; ``None`` if there are none."""
        fractions = [count / self._n_fibres(k) for k, count in enumerate(self.n_empty_fibres)]
        return int(np.argmax(fractions)) if any(fractions) else None

    @property
    def remark(self) -> str:
        """A remark on fibres without any observed entry, ``""`` if there are none."""
        k = self.worst_mode
        if k is None:
            return ""
        count, of = self.n_empty_fibres[k], self._n_fibres(k)
        return (
            f"{count:,} of {of:,} fibres along {self.mode_names[k]} have no observed entry; values "
            "imputed there follow from the other modes alone."
        )

    def _n_fibres(self, mode: int) -> int:
        return math.prod(len(part) for k, part in enumerate(self.observed_fraction) if k != mode)

    def __repr__(self) -> str:
        return (
            f"Trust({self.verdict.name}: error {self.rmse:.3g} ± {self.standard_error:.2g}, "
            f"reasons to doubt: {len(self.reasons)})"
        )

    def __str__(self) -> str:
        verdict = f"{self.verdict.title}. {self.verdict.message}"
        lines = [verdict, *(f"- {reason}" for reason in self.reasons)]
        words = [*_describe_error(self), *([self.remark] if self.remark else [])]
        return "\n".join([*lines, "", *words, "", *_tabulate(self)])


def _describe_error(trust: Trust) -> list[str]:
    how = "that were fitted" if trust.in_sample else "held out"
    each = trust.n_entries / trust.degrees_of_freedom if trust.degrees_of_freedom else math.inf
    return [
        f"{trust.error_name.capitalize()} {trust.rmse:.4g} ± {trust.standard_error:.2g}, "
        f"{100 * trust.relative_error:.3g}% of the root mean square of the values, on "
        f"{trust.n_held} entries {how}; the error of {trust.baseline} is "
        f"{trust.baseline_rmse:.4g}.",
        f"Noise standard deviation by the residuals: {trust.noise_std:.4g}. "
        f"{trust.n_entries} entries for "
        f"{trust.degrees_of_freedom:.6g} degrees of freedom, {each:.3g} each.",
    ]


def _tabulate(trust: Trust) -> list[str]:
    """Return a table with a line per mode."""
    head = (
        "mode",
        "size",
        "observed per slice",
        "unobserved slices",
        "unobserved fibres",
        "error per slice",
    )
    rows = [head]
    for k, name in enumerate(trust.mode_names):
        fraction, errors = trust.observed_fraction[k], trust.rmse_per_slice[k]
        rows.append(
            (
                name,
                str(len(fraction)),
                f"{fraction.min():.3g} to {fraction.max():.3g}",
                str(len(trust.empty_slices[k])),
                _name_fibres(trust.n_empty_fibres[k], trust.empty_fibres[k]),
                _range_of_errors(errors),
            )
        )
    widths = [max(len(row[j]) for row in rows) for j in range(len(head))]
    return [
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _name_fibres(count: int, first: Array) -> str:
    if not count:
        return "0"
    index = ", ".join(":" if i < 0 else str(i) for i in first[0])
    return f"{count:.6g}, first ({index})"


def _range_of_errors(errors: Array) -> str:
    if np.isnan(errors).all():
        return "none held out"
    worst = int(np.nanargmax(errors))
    return f"{np.nanmin(errors):.3g} to {errors[worst]:.3g} (at {worst})"
