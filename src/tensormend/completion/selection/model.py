"""Selection among strengths of shrinkage, centrings and ranks by the error on held-out entries."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tensormend.completion.journal import Journal
from tensormend.completion.preprocessing import Preprocessing
from tensormend.completion.selection.ranks import best_rank, may_be_exact
from tensormend.completion.selection.search import Found, Search, over_folds, prepare
from tensormend.completion.selection.strengths import best_strength, tune_mode_weights
from tensormend.completion.selection.watch import Trial, Watch
from tensormend.completion.validation import Pattern, draw_folds, find_pattern
from tensormend.core.algebra import Array, power_of_two
from tensormend.core.tucker import Tucker
from tensormend.data.observations import Observations
from tensormend.errors import InputError

__all__ = ["Choice", "choose_model"]

EFFECTS_FRACTION = 0.5  # of the mean square without effects, to get below with them


@dataclass(frozen=True, eq=False)
class Choice:
    """The selected model, the models it was compared with, and its held-out predictions.

    Attributes
    ----------
    trial : Trial
        The selected model.
    trials : tuple of Trial
        All models that were compared, in order.
    x : Tucker
        A fit of the selected model, or of a similar one, as initial estimate of the final fit.
    held : ndarray of int
        Positions of the held-out entries of all folds among the observed ones.
    predicted : ndarray
        Predictions for them by fits that did not use them, in the units of the data.
    groups : ndarray of int
        Group of each held-out entry; the entries of a fibre held out as a whole form one.
    folds : ndarray of int
        Fold of each held-out entry.
    pattern : Pattern
        Pattern of the missing entries.
    notes : tuple of str
        Remarks on the search.
    is_cut_short : bool
        Whether the time limit or a callback ended the search.
    """

    trial: Trial
    trials: tuple[Trial, ...]
    x: Tucker
    held: Array
    predicted: Array
    groups: Array
    folds: Array
    pattern: Pattern
    notes: tuple[str, ...]
    is_cut_short: bool

    @property
    def model(self) -> str:
        """The model in words, without its held-out error."""
        if self.trial.model == "tucker":
            return f"rank {self.trial.rank}, centred {self.trial.center}"
        strength = f"strength {self.trial.strength:.2g} times {self.trial.mode_weights}"
        return f"{strength}, centred {self.trial.center}"


def choose_model(
    entries: Observations,
    *,
    preprocessing: Preprocessing | None = None,
    model: Literal["auto", "shrinkage", "tucker"] = "auto",
    validation_fraction: float = 0.1,
    time_limit: float = math.inf,
    rng: np.random.Generator | int | None = None,
    threads: int | None = None,
    watch: Watch | None = None,
    journal: Journal | None = None,
    mode_names: tuple[str, ...] = (),
) -> Choice:
    """Select a strength of shrinkage or a Tucker rank by the error on held-out entries.

    Parameters
    ----------
    entries : Observations
        The observed entries.
    preprocessing : Preprocessing, default=None
        Settings of the preprocessing; ``None`` is ``Preprocessing()``.
    model : {"auto", "shrinkage", "tucker"}, default="auto"
        Kind of model to compare, or both.
    validation_fraction : float, default=0.1
        Fraction of the observed entries to hold out in each fold.
    time_limit : float, default=inf
        Seconds after which the search ends with the best model so far.
    rng : int or numpy.random.Generator, default=None
        Seed or generator of the held-out entries.
    threads : int, default=None
        Number of threads of the compiled kernels; ``None`` is all cores.
    watch : Watch, default=None
        Counts iterations, calls callbacks, and may end the search.
    journal : Journal, default=None
        Saves the outcomes of the steps.
    mode_names : tuple of str, default=()
        Names of the modes in descriptions.

    Returns
    -------
    Choice
        The selected model and its predictions for the held-out entries.

    Raises
    ------
    InputError
        If there are too few entries to hold any out.

    Notes
    -----
    1. Entries are held out in the pattern of the missing ones (see `draw_folds`).
    2. The strength of shrinkage decreases along a path, with the centring that `Preprocessing`
       describes. The held-out error is measured at every strength, and a path ends when it has
       exceeded its minimum by 1% twice in a row.
    3. Of all strengths the largest is selected whose error exceeds the smallest by no more than
       the standard error of the difference, and by no more than 1%. Then the strengths of single
       modes are halved or doubled as long as that lowers the error by half a percent.
    4. If that error is small (2% of the standard deviation of the data, or 10% at the weak end of
       the path), the data may be of exactly low rank: ranks increase from 1, in one mode or in
       all, as long as the held-out error decreases, with each fit as initial estimate of the
       next; then the smallest rank within one standard error of the best is selected.
    """
    if len(entries) < 2:
        raise InputError(
            f"selecting a model needs at least two observed entries, got {len(entries)}; give a "
            "rank"
        )
    rng = np.random.default_rng(rng)
    preprocessing = Preprocessing() if preprocessing is None else preprocessing
    unit = _unit(entries.values, preprocessing)
    if unit != 1:
        entries = replace(entries, values=entries.values / entries.values.dtype.type(unit))
    pattern = find_pattern(entries.indices, entries.shape)
    folds = draw_folds(
        entries.indices, entries.shape, rng, fraction=validation_fraction, pattern=pattern
    )
    if not folds:
        raise InputError(
            f"no entry can be held out of {len(entries)}, because every slice must keep one; "
            "give a rank"
        )
    search = Search(
        entries,
        folds,
        pattern,
        preprocessing,
        time.perf_counter() + time_limit,
        threads,
        Watch() if watch is None else watch,
        Journal() if journal is None else journal,
        unit,
        mode_names,
    )
    best = None
    if model != "tucker":
        for center in _centrings(search, "shrinkage"):
            found = best_strength(search, center, best)
            if best is None or (found is not None and found.trial.error < best.trial.error):
                best = found
        if best is not None and not search.is_late:
            others = [key for key in search.set_ups if key[1] != best.trial.center]
            for key in others:
                del search.set_ups[key]
            best = tune_mode_weights(search, best)
    if best is None or (model == "auto" and may_be_exact(best, search)):
        search.set_ups.clear()
        search.watch.expect(math.nan)
        found = best_rank(search, next(_centrings(search, "tucker")))
        if best is None or _is_better_in_first_fold(search, found, best):
            best = found
    is_cut_short = search.is_late
    if is_cut_short:
        who = "a callback" if search.watch.is_stopped else "the time limit"
        search.notes.append(f"{who} ended the search; the model is the best so far")
    held, groups, numbers = over_folds(search.folds[: best.n_folds])
    scalar = entries.values.dtype.type(unit)
    return Choice(
        search.in_data_units(best.trial),
        tuple(search.in_data_units(trial) for trial in search.trials),
        best.xs[0] * unit,
        held,
        best.predicted * scalar,
        groups,
        numbers,
        pattern,
        tuple(search.notes),
        is_cut_short,
    )


def _unit(values: Array, preprocessing: Preprocessing) -> float:
    """Return a power of two near the largest value, in units of which squares do not overflow.

    It is 1 with a transform or bounds, which are in the units of the data.
    """
    largest = float(np.abs(values).max())
    if preprocessing.transform or preprocessing.clip is not None:
        return 1.0
    return power_of_two(largest)


def _is_better_in_first_fold(search: Search, found: Found, best: Found) -> bool:
    """Compare two models on the held-out entries of the first fold, which both have predicted."""
    fold = search.folds[0]
    to_beat = fold.weights @ best.squares[: len(fold.held)]
    return bool(fold.weights @ found.squares < to_beat)


def _centrings(
    search: Search, model: Literal["shrinkage", "tucker"]
) -> Iterator[tuple[int, ...] | None]:
    """Yield the centrings to compare; ``center="auto"`` means what `Preprocessing` says."""
    order = len(search.entries.shape)
    if search.preprocessing.center != "auto" or model == "tucker":
        yield search.preprocessing.center_modes(order)
        return
    yield ()
    if search.pattern.mode is not None and not search.is_late and _effects_matter(search):
        yield tuple(range(order))


def _effects_matter(search: Search) -> bool:
    """Return whether effects of all modes, without a model, halve the held-out mean square."""
    fold = search.folds[0]
    squares = []
    for modes in ((), tuple(range(len(search.entries.shape)))):
        fitted, _, held = prepare(search, fold, modes)
        inside = fitted.transform(held.indices, held.values)
        squares.append(float(fold.weights @ np.abs(inside) ** 2))
    return squares[1] < EFFECTS_FRACTION * squares[0]
