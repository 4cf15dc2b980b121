"""What a judgement says: the numbers, the verdict, and both in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

from tensormend.core.algebra import Array

__all__ = ["Trust", "Verdict"]


class Verdict(Enum):
    """How far a completion can be trusted; the value is a sentence for people."""

    WELL_DETERMINED = "The data determine the tensor; filled-in values are as good as stated."
    DOUBTFUL = "The data may not determine the tensor everywhere; mind the reasons."
    HOPELESS = "The data do not determine the tensor; do not use filled-in values."


@dataclass(frozen=True, eq=False)
class Trust:
    """What `judge` finds.

    Attributes
    ----------
    verdict : well determined, doubtful or hopeless
    reasons : why not better, a sentence each
    rmse : root mean square of the error on held-out entries, which the judged fits did not see
        unless ``seen``
    standard_error : of ``rmse``
    relative_error : ``rmse`` against the root mean square of the held-out values
    baseline_rmse : error of the best mean (of all, of a slice, of a fibre) on the same entries
    baseline : which mean that is
    profiles : per mode, ``rmse`` of every slice, NaN where no entry was held out
    observed_share : per mode, share of every slice that was observed
    unseen_slices : per mode, the slices without any observed entry
    n_unseen_fibres : per mode, the number of fibres along it without any
    unseen_fibres : per mode, the first of these, a row of indices each, -1 for the mode itself
    noise : standard deviation of the noise, from the residuals of the final fit
    degrees_of_freedom : of the final fit
    n_entries, n_held : numbers of entries that the final fit saw, and of held-out ones
    deviation : standard deviation of the held-out values, against which the verdict takes ``rmse``
    is_negligible : whether ``rmse`` is so far below that, or rounding, that it is no doubt
    seen : whether the judged fits had seen the entries: the error is then too small
    names : names of the modes
    shrunken : whether the fit was shrunken, its degrees of freedom being effective ones
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    rmse: float
    standard_error: float
    relative_error: float
    baseline_rmse: float
    baseline: str
    profiles: tuple[Array, ...]
    observed_share: tuple[Array, ...]
    unseen_slices: tuple[Array, ...]
    n_unseen_fibres: tuple[int, ...]
    unseen_fibres: tuple[Array, ...]
    noise: float
    degrees_of_freedom: float
    n_entries: int
    n_held: int
    deviation: float
    is_negligible: bool
    seen: bool
    names: tuple[str, ...]
    shrunken: bool = False

    @property
    def error_name(self) -> str:
        """What to call the error."""
        return "in-sample error" if self.seen else "held-out error"

    @property
    def worst_mode(self) -> int | None:
        """The mode along which the largest share of fibres was never seen; ``None`` if all were."""
        shares = [count / self._n_fibres(k) for k, count in enumerate(self.n_unseen_fibres)]
        return int(np.argmax(shares)) if any(shares) else None

    @property
    def remark(self) -> str:
        """What to know about fibres without any observation, ``""`` if there is none."""
        k = self.worst_mode
        if k is None:
            return ""
        count, of = self.n_unseen_fibres[k], self._n_fibres(k)
        return (
            f"{count:,} of {of:,} fibres along {self.names[k]} hold no observation at all; what is "
            "filled in there follows from the other modes alone."
        )

    def _n_fibres(self, mode: int) -> int:
        return math.prod(len(share) for k, share in enumerate(self.observed_share) if k != mode)

    def __repr__(self) -> str:
        return (
            f"Trust({self.verdict.name}: error {self.rmse:.3g} ± {self.standard_error:.2g}, "
            f"reasons to doubt: {len(self.reasons)})"
        )

    def __str__(self) -> str:
        title = self.verdict.name.replace("_", " ").capitalize()
        lines = [f"{title}. {self.verdict.value}", *(f"- {reason}" for reason in self.reasons)]
        words = [*_describe_error(self), *([self.remark] if self.remark else [])]
        return "\n".join([*lines, "", *words, "", *_tabulate(self)])


def _describe_error(trust: Trust) -> list[str]:
    how = "that the judged fit had seen" if trust.seen else "that the judged fits did not see"
    each = trust.n_entries / trust.degrees_of_freedom if trust.degrees_of_freedom else math.inf
    return [
        f"{trust.error_name.capitalize()} {trust.rmse:.4g} ± {trust.standard_error:.2g}, "
        f"{100 * trust.relative_error:.3g}% of the size of the values, on {trust.n_held} entries "
        f"{how}; {trust.baseline} would have erred by {trust.baseline_rmse:.4g}.",
        f"The residuals show noise of {trust.noise:.4g}. There are {trust.n_entries} entries for "
        f"{trust.degrees_of_freedom:.6g} degrees of freedom, {each:.3g} each.",
    ]


def _tabulate(trust: Trust) -> list[str]:
    """Return a table with a line per mode."""
    head = (
        "mode",
        "size",
        "observed per slice",
        "unseen slices",
        "unseen fibres",
        "error per slice",
    )
    rows = [head]
    for k, name in enumerate(trust.names):
        share, profile = trust.observed_share[k], trust.profiles[k]
        rows.append(
            (
                name,
                str(len(share)),
                f"{share.min():.3g} to {share.max():.3g}",
                str(len(trust.unseen_slices[k])),
                _name_fibres(trust.n_unseen_fibres[k], trust.unseen_fibres[k]),
                _range_of_errors(profile),
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
    place = ", ".join(":" if i < 0 else str(i) for i in first[0])
    return f"{count:.6g}, first ({place})"


def _range_of_errors(profile: Array) -> str:
    if np.isnan(profile).all():
        return "none held out"
    worst = int(np.nanargmax(profile))
    return f"{np.nanmin(profile):.3g} to {profile[worst]:.3g} (at {worst})"
