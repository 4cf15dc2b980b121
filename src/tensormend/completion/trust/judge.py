"""`judge`: errors on held-out entries, coverage and noise, and the rule for a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensormend.completion.means import slice_sums
from tensormend.completion.trust.coverage import Coverage, measure_coverage
from tensormend.completion.trust.heldout import HeldOut, mean_of, mean_with_error
from tensormend.completion.trust.report import Trust, Verdict
from tensormend.core.algebra import Array, norm
from tensormend.errors import InputError

__all__ = ["judge"]

NEGLIGIBLE = 1e-5  # of the standard deviation: an error with nothing left to doubt in it
ROUNDING = 64  # times the precision of the values: an error that is rounding
HARDLY_BETTER = 0.9  # of the baseline's error: less than a fifth of its squares is explained
LARGE_ERROR = 0.5  # of the standard deviation: less than 3/4 of the squares are explained
VAGUE = 0.25  # standard error as a fraction of the error
FEW_HELD = 20  # entries that are too few to estimate error and standard error
UNEVEN, ENOUGH_IN_SLICE = 3.0, 10  # times the error, in a slice with so many held-out entries
OVERFITTED = 2.0  # times the noise: at two entries per degree of freedom 1.4 is to be expected
FEW_ENTRIES = 2.0  # per degree of freedom
N_SHOWN = 5  # indices in a sentence


def judge(
    indices: Any,
    values: Any,
    shape: Sequence[int],
    *,
    held: Any,
    predicted: Any,
    residuals: Any,
    degrees_of_freedom: float,
    groups: Any = None,
    folds: Any = None,
    in_sample: bool = False,
    regularized: bool = False,
    refitted: bool = True,
    mode_names: Sequence[str] | None = None,
) -> Trust:
    """Assess how far the observed entries determine a tensor.

    Parameters
    ----------
    indices : array_like of shape (m, d)
        Indices of all observed entries.
    values : array_like of shape (m,)
        Their values.
    shape : sequence of int
        Shape of the tensor.
    held : array_like
        Positions of the held-out entries among these, or a boolean array of length m.
    predicted : array_like
        Predictions for the held-out entries by fits that did not use them.
    residuals : array_like of shape (m,)
        Residuals of the final fit at all entries.
    degrees_of_freedom : float
        Degrees of freedom of the final fit; may be an effective, fractional number.
    groups : array_like, default=None
        One label per held-out entry. Errors within a group (a fold, a fibre held out as a whole)
        may be correlated, and the standard error allows for it.
    folds : array_like, default=None
        One label per held-out entry, where several fits were assessed: the fit of a fold used the
        entries of the others, and so does the baseline.
    in_sample : bool, default=False
        Whether the assessed fits used the held-out entries after all.
    regularized : bool, default=False
        Whether the fit was regularized: it may then follow the data closely without following
        their noise, and only the held-out error tells.
    refitted : bool, default=True
        Whether the final fit used all entries; else its residuals at held-out ones say nothing
        about the noise.
    mode_names : sequence of str, default=None
        Names of the modes.

    Returns
    -------
    Trust
        Errors, a verdict, and the reasons for it.

    Raises
    ------
    InputError
        If the arguments do not match in length, or are not finite.

    Notes
    -----
    The verdict is *unreliable* if

    * the error is not below that of the best mean, of all entries, of a slice or of a fibre, taken
      over the entries that the assessed fit used, or
    * there are no more entries than degrees of freedom: any data would be fitted as well. Effective
      degrees of freedom, with regularization counted, are always fewer than the entries.

    Else it is *not assessed* if no entries were held out, or the fits used them: the error of
    imputed values is not known.

    Else it is *doubtful* if

    * fewer than 20 entries were held out: the error is not known,
    * the error is not below 0.9 of the best mean's (a fifth of its squares), or by less than twice
      the standard error of the difference of the squares,
    * the error is above half the standard deviation of the held-out values,
    * its standard error is above a quarter of it,
    * in some slice with 10 held-out entries or more it is three times as large as overall, and one
      standard error more, so that a single bad entry does not make a bad slice,
    * it is above twice the noise in the residuals, and the fit was not regularized: it overfits,
    * there are fewer than 2 entries per degree of freedom, and the fit was not regularized,
    * some slice was never observed, or, where the fit was not regularized, has fewer entries than
      ``degrees_of_freedom / sum(shape)``, the unknowns that a slice has on average.

    Else it is *reliable*. An error below 1e-5 of that standard deviation, or of the size of
    rounding, removes every doubt about its size. Fibres that were never observed are counted but
    are no reason to doubt: low rank determines them.

    Examples
    --------
    >>> import tensormend as tm
    >>> truth = tm.simulate.random_tucker((12, 13, 14), 2, rng=0)
    >>> indices = tm.simulate.sample_indices(truth.shape, 0.4, rng=1)
    >>> values = truth.entries(indices)
    >>> held, kept = np.split(np.random.default_rng(2).permutation(len(values)), [80])
    >>> x = tm.complete(values[kept], 2, indices=indices[kept], shape=truth.shape).fit.x
    >>> trust = judge(indices, values, truth.shape, held=held, predicted=x.entries(indices[held]),
    ...               residuals=values - x.entries(indices), degrees_of_freedom=x.n_parameters)
    >>> trust.verdict.name
    'RELIABLE'
    """
    given = HeldOut.check(
        indices,
        values,
        shape,
        held=held,
        predicted=predicted,
        residuals=residuals,
        groups=groups,
        folds=folds,
        in_sample=in_sample,
    )
    _check_settings(degrees_of_freedom, mode_names, given.shape)
    names = mode_names or [f"mode {k}" for k in range(len(given.shape))]
    coverage = measure_coverage(given.indices, given.shape)
    baseline, base_squares = given.best_mean(coverage, names)
    trust = _measure(
        given, coverage, degrees_of_freedom, names, baseline, base_squares, refitted=refitted
    )
    trust = replace(trust, regularized=regularized)
    gain = mean_with_error(base_squares - given.squares, given.groups)
    fatal = _fatal_reasons(trust, gain[0])
    reasons = [
        *fatal,
        *_doubts_about_error(trust, *gain),
        *_doubts_about_slices(trust, given),
        *_doubts_about_data(trust, coverage),
    ]
    if fatal:
        verdict = Verdict.UNRELIABLE
    elif trust.in_sample or trust.n_held == 0:
        verdict = Verdict.NOT_ASSESSED
    else:
        verdict = Verdict.DOUBTFUL if reasons else Verdict.RELIABLE
    return replace(trust, verdict=verdict, reasons=tuple(reasons))


def _measure(
    given: HeldOut,
    coverage: Coverage,
    degrees_of_freedom: float,
    names: Sequence[str],
    baseline: str,
    base_squares: Array,
    *,
    refitted: bool,
) -> Trust:
    """Measure errors, coverage and noise; the verdict follows."""
    mean, error = mean_with_error(given.squares, given.groups)
    rmse, size = math.sqrt(mean), math.sqrt(mean_of(np.abs(given.truth) ** 2))
    value_std = float(np.std(given.truth)) if len(given.truth) else math.nan
    rounding = ROUNDING * float(np.finfo(given.values.dtype).eps) * size
    residuals = given.residuals if refitted else np.delete(given.residuals, given.held)
    freedom = len(residuals) - degrees_of_freedom
    return Trust(
        verdict=Verdict.NOT_ASSESSED,
        reasons=(),
        rmse=given.unit * rmse,
        standard_error=given.unit * (error / (2 * rmse) if rmse else error),
        relative_error=rmse / size if size else (math.inf if rmse else rmse),
        baseline_rmse=given.unit * math.sqrt(mean_of(base_squares)),
        baseline=baseline,
        rmse_per_slice=given.rmse_per_slice(),
        observed_fraction=tuple(mode.fraction for mode in coverage),
        empty_slices=tuple(mode.empty_slices for mode in coverage),
        n_empty_fibres=tuple(mode.n_empty_fibres for mode in coverage),
        empty_fibres=tuple(mode.empty_fibres for mode in coverage),
        noise_std=given.unit * norm(residuals) / math.sqrt(freedom) if freedom > 0 else math.nan,
        degrees_of_freedom=float(degrees_of_freedom),
        n_entries=len(residuals),
        value_std=given.unit * value_std,
        is_negligible=not rmse > max(NEGLIGIBLE * value_std, rounding),  # also if not known
        n_held=len(given.held),
        in_sample=given.folds is None,
        mode_names=tuple(names),
    )


# the rule


def _fatal_reasons(trust: Trust, gain: float) -> list[str]:
    reasons = []
    if not trust.is_negligible and not gain > 0:
        reasons.append(
            f"The {trust.error_name} ({trust.rmse:.3g}) is not below that of {trust.baseline} "
            f"({trust.baseline_rmse:.3g})."
        )
    if trust.n_entries <= trust.degrees_of_freedom:
        reasons.append(
            f"{trust.n_entries} entries cannot determine {trust.degrees_of_freedom:.6g} degrees of "
            "freedom; lower the rank, regularize, or observe more."
        )
    return reasons


def _doubts_about_error(trust: Trust, gain: float, error_of_gain: float) -> list[str]:
    what, reasons = trust.error_name, []
    if trust.in_sample:
        reasons.append(
            "The error was measured on entries that were fitted, so that it is too small."
        )
    if trust.n_held < FEW_HELD:
        reasons.append(f"Only {trust.n_held} entries were held out, too few to estimate the error.")
    if trust.is_negligible:
        return reasons
    if gain > 0 and trust.rmse > HARDLY_BETTER * trust.baseline_rmse:
        reasons.append(
            f"The {what} ({trust.rmse:.3g}) is hardly below that of {trust.baseline} "
            f"({trust.baseline_rmse:.3g})."
        )
    elif 0 < gain <= 2 * error_of_gain:
        reasons.append(
            f"The {what} is below that of {trust.baseline}, but by less than two standard errors."
        )
    if trust.rmse > LARGE_ERROR * trust.value_std:
        part = f"{trust.rmse / trust.value_std:.0%}" if trust.value_std else "more than all"
        reasons.append(f"The {what} is {part} of the standard deviation of the values.")
    if not trust.standard_error <= VAGUE * trust.rmse:
        reasons.append(
            f"The {what} is known only to {trust.rmse:.3g} ± {trust.standard_error:.2g}."
        )
    if not trust.regularized and trust.rmse > OVERFITTED * trust.noise_std:
        reasons.append(
            f"The {what} ({trust.rmse:.3g}) is more than twice the noise that the residuals show "
            f"({trust.noise_std:.3g}): it overfits."
        )
    return reasons


def _doubts_about_slices(trust: Trust, given: HeldOut) -> list[str]:
    if trust.is_negligible:
        return []
    reasons = []
    limit = UNEVEN**2 * given.squares.mean()
    for name, column, errors in zip(
        trust.mode_names, given.columns, trust.rmse_per_slice, strict=True
    ):
        n = len(errors)
        counts = np.maximum(np.bincount(column, minlength=n), 2)
        means = slice_sums(column, given.squares, n) / counts
        variances = slice_sums(column, given.squares**2, n) / counts - means**2
        surely = means - np.sqrt(np.maximum(variances, 0) / (counts - 1))
        bad = np.flatnonzero((counts >= ENOUGH_IN_SLICE) & (surely > limit))
        if len(bad):
            reasons.append(
                f"In {name} the {trust.error_name} is {errors[bad].max() / trust.rmse:.2g} times "
                f"as large as overall {_at(bad, n)}."
            )
    return reasons


def _doubts_about_data(trust: Trust, coverage: Coverage) -> list[str]:
    reasons = []
    ratio = trust.n_entries / trust.degrees_of_freedom if trust.degrees_of_freedom else math.inf
    if not trust.regularized and 1 < ratio < FEW_ENTRIES:
        reasons.append(
            f"There are only {ratio:.3g} entries per degree of freedom ({trust.n_entries} for "
            f"{trust.degrees_of_freedom:.6g})."
        )
    needed = trust.degrees_of_freedom / sum(len(mode.counts) for mode in coverage)
    for name, mode in zip(trust.mode_names, coverage, strict=True):
        n = len(mode.counts)
        if len(mode.empty_slices):
            reasons.append(f"In {name} nothing was observed {_at(mode.empty_slices, n)}.")
        thin = np.flatnonzero((mode.counts > 0) & (mode.counts < needed))
        if len(thin) and not trust.regularized:
            reasons.append(
                f"In {name} fewer than {needed:.3g} entries were observed {_at(thin, n)}, about "
                "as many as a slice has unknowns."
            )
    return reasons


def _check_settings(
    degrees_of_freedom: float, mode_names: Sequence[str] | None, shape: tuple[int, ...]
) -> None:
    if not (math.isfinite(degrees_of_freedom) and degrees_of_freedom >= 0):
        raise InputError(
            f"degrees_of_freedom must be a number, 0 or more, got {degrees_of_freedom}"
        )
    if mode_names is not None and len(mode_names) != len(shape):
        raise InputError(f"mode_names must be one per mode ({len(shape)}), got {len(mode_names)}")


def _at(indices: Array, n: int) -> str:
    shown = ", ".join(map(str, indices[:N_SHOWN])) + (", ..." if len(indices) > N_SHOWN else "")
    return f"at index {shown} ({len(indices)} of {n})"
