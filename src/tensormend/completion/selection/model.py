"""The choice: strengths, centrings and ranks, by the error on held-out entries."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tensormend.completion.journal import Journal
from tensormend.completion.preprocessing import Preprocessing
from tensormend.completion.selection.ranks import best_rank, may_be_exact
from tensormend.completion.selection.search import Found, Search, over_folds, prepare
from tensormend.completion.selection.strengths import best_strength, tune_balance
from tensormend.completion.selection.watch import Trial, Watch
from tensormend.completion.validation import Pattern, draw_folds, find_pattern
from tensormend.core.algebra import Array, power_of_two
from tensormend.core.tucker import Tucker
from tensormend.data.observations import Observations
from tensormend.errors import InputError

__all__ = ["Choice", "choose_model"]

EFFECTS_SHARE = 0.5  # of the mean square that effects must leave less of to be tried


@dataclass(frozen=True, eq=False)
class Choice:
    """The model chosen, what it was chosen from, and what it said about the held-out entries.

    Attributes
    ----------
    trial : Trial
        The model.
    trials : tuple of Trial
        All that were tried, in order.
    x : Tucker
        The fit of that model or one near it, to start from.
    held : ndarray
        Positions of the held-out entries, over all folds.
    predicted : ndarray
        What fits that had not seen them said, in the units of the data.
    groups : ndarray
        Entries that were held out as one fibre share a number.
    folds : ndarray
        Number of the fold of each.
    pattern : Pattern
        How entries are missing.
    notes : tuple of str
        What there is to say.
    is_cut_short : bool
        Whether the search ended before its time.
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
        """The model in words, without what it was chosen by."""
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
    """Choose between strengths of shrinkage, centrings and ranks by the error on a hold-out.

    1. Entries are held out as the holes are (see `draw_folds`).
    2. Shrinkage comes down its path from strong to weak, with the grand mean taken out, and where
       whole fibres are missing and effects of the slices alone halve the mean square, also with
       these; the held-out error is measured at every stage, and a path ends where the error has
       been higher than on the way for two stages.
    3. Of all strengths the strongest is taken whose error is above the least by no more than the
       standard error of the difference, and by no more than 1%. There, single modes are shrunk
       half or twice as much, as long as that lowers the error by half a percent.
    4. Where that error is small (2% of the deviation of the data, 10% if the path was best at its
       weak end), the data may be of low rank exactly: ranks grow from 1, in one mode or in all,
       each fit starting from the last, as long as the held-out error falls; then the smallest
       rank within one standard error of the best is taken.

    Parameters
    ----------
    entries : Observations
        What is known.
    preprocessing : Preprocessing, optional
        What is done to the values; its centring is compared too where it is "auto".
    model : {'auto', 'shrinkage', 'tucker'}, default='auto'
        ``"shrinkage"`` or ``"tucker"`` to try only one kind of model.
    validation_fraction : float, default=0.1
        Fraction of the entries to hold out.
    time_limit : float, default=inf
        The search ends by then with the best model so far.
    watch : Watch, optional
        Is told of every iteration and trial, and may end the search.
    journal : Journal, optional
        Remembers what was done.
    mode_names : tuple of str, default=()
        What the modes are called in descriptions.
    """
    if len(entries) < 2:
        raise InputError(
            f"choosing a model takes at least two known entries, got {len(entries)}; give a rank"
        )
    rng = np.random.default_rng(rng)
    preprocessing = Preprocessing() if preprocessing is None else preprocessing
    unit = _unit(entries.values, preprocessing)
    if unit != 1:
        entries = replace(entries, values=entries.values / entries.values.dtype.type(unit))
    pattern = find_pattern(entries.indices, entries.shape)
    folds = draw_folds(
        entries.indices, entries.shape, rng, share=validation_fraction, pattern=pattern
    )
    if not folds:
        raise InputError(
            f"no entry can be held out of {len(entries)}: every slice needs one that is left; "
            "give a rank"
        )
    center: Any = preprocessing.center_modes(len(entries.shape))
    if preprocessing.center == "auto":
        center = "auto"
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
        for modes in _centrings(center, search):
            found = best_strength(search, modes, best)
            if best is None or (found is not None and found.trial.error < best.trial.error):
                best = found
        if best is not None and not search.is_late:
            others = [key for key in search.set_ups if key[1] != best.trial.center]
            for key in others:
                del search.set_ups[key]
            best = tune_balance(search, best)
    if best is None or (model == "auto" and may_be_exact(best, search)):
        search.set_ups.clear()
        search.watch.expect(math.nan)
        found = best_rank(search, None if center == "auto" else next(_centrings(center, search)))
        if best is None or _is_better_in_first_fold(search, found, best):
            best = found
    is_cut_short = search.is_late
    if is_cut_short:
        who = "a request" if search.watch.is_stopped else "the time limit"
        search.notes.append(f"{who} ended the search; the model is the best until then")
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
    """Power of two near the largest value, which squares neither overflow nor vanish in.

    A logarithm and bounds are in the units of the data, so with these it is 1.
    """
    largest = float(np.abs(values).max())
    if preprocessing.transform or preprocessing.clip is not None:
        return 1.0
    return power_of_two(largest)


def _is_better_in_first_fold(search: Search, found: Found, best: Found) -> bool:
    """Compare with what was assessed in more folds, on the entries that both have predicted."""
    fold = search.folds[0]
    to_beat = fold.weights @ best.squares[: len(fold.held)]
    return bool(fold.weights @ found.squares < to_beat)


def _centrings(center: Any, search: Search) -> Iterator[tuple[int, ...] | None]:
    order = len(search.entries.shape)
    if center == "auto":
        yield ()
        if search.pattern.mode is not None and not search.is_late and _effects_matter(search):
            yield tuple(range(order))
    else:
        yield center


def _effects_matter(search: Search) -> bool:
    """Tell whether effects of the slices, with nothing else, halve the mean square."""
    fold = search.folds[0]
    left = []
    for modes in ((), tuple(range(len(search.entries.shape)))):
        fitted, _, held = prepare(search, fold, modes)
        inside = fitted.transform(held.indices, held.values)
        left.append(float(fold.weights @ np.abs(inside) ** 2))
    return left[1] < EFFECTS_SHARE * left[0]
