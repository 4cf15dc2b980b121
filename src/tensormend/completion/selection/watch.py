"""Trials of a search, its progress, and the callbacks that may end it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from tensormend.recovery.limits import outside
from tensormend.recovery.result import IterationRecord

__all__ = ["CompletionProgress", "Trial", "Watch"]

NEARLY_DONE = 0.99  # largest fraction that is reported before the end


@dataclass(frozen=True)
class Trial:
    """One model that was compared on held-out entries; ``str(trial)`` describes it.

    Attributes
    ----------
    model : {"shrinkage", "tucker"}
        Shrinkage of the singular values of all unfoldings, or a Tucker tensor of fixed rank.
    center : tuple of int or None
        Modes whose slices have effects; ``()`` for the grand mean alone, ``None`` for no centring.
    strength : float
        Strength of the shrinkage; NaN for a fixed rank.
    rank : tuple of int
        Multilinear rank of the fit.
    error : float
        Held-out root mean square error, in the units of the data.
    standard_error : float
        Standard error of ``error``; a fibre that was held out as a whole counts as one cluster.
    mode_weights : tuple of float or None
        Factors on the strength, one per mode; ``None`` if all are 1.
    mode_names : tuple of str
        Names of the modes in the description.

    Examples
    --------
    >>> import tensormend as tm
    >>> print(tm.Trial("tucker", None, float("nan"), (2, 2, 3), 0.125, 0.01))
    Tucker model of rank (2, 2, 3), no centring, held-out error 0.125 ± 0.01
    """

    model: Literal["shrinkage", "tucker"]
    center: tuple[int, ...] | None
    strength: float
    rank: tuple[int, ...]
    error: float
    standard_error: float
    mode_weights: tuple[float, ...] | None = None
    mode_names: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self._settings()}, held-out error {self.error:.3g} ± {self.standard_error:.2g}"

    def _settings(self) -> str:
        if self.model == "tucker":
            return f"Tucker model of rank {self.rank}, {self._centring()}"
        text = f"shrinkage of strength {self.strength:.2g}"
        for k, factor in enumerate(self.mode_weights or ()):
            if factor != 1:
                more = "stronger" if factor > 1 else "weaker"
                text += f", {more} in {self._name(k)} (x{factor:g})"
        return f"{text}, {self._centring()}"

    def _centring(self) -> str:
        if self.center is None:
            return "no centring"
        effects = "".join(f" and effects of {self._name(k)}" for k in self.center[:1])
        effects += "".join(f", {self._name(k)}" for k in self.center[1:])
        return f"the grand mean{effects} subtracted"

    def _name(self, mode: int) -> str:
        return self.mode_names[mode] if self.mode_names else f"mode {mode}"


@dataclass(frozen=True)
class CompletionProgress:
    """Argument of the callbacks of `complete`, after every iteration and every comparison.

    Attributes
    ----------
    stage : {"search", "weights", "rank", "fit"}
        The regularization path, the weights of single modes, Tucker ranks, or the final fit.
    n_iter : int
        Iterations so far, of all fits.
    residual : float
        Relative residual on the entries that are fitted.
    validation_error : float
        Error on held-out entries relative to their norm, as last measured in this stage; NaN if it
        was not.
    fraction : float
        Estimated fraction of the work that is done; NaN if unknown.
    seconds : float
        Time since `complete` was called.
    note : str
        What is being fitted.
    trial : Trial or None
        The model that was just compared; ``None`` after an iteration.

    Examples
    --------
    >>> import numpy as np
    >>> import tensormend as tm
    >>> truth = tm.simulate.random_tucker((9, 9, 9), 1, rng=0).todense()
    >>> data = np.where(np.random.default_rng(1).random(truth.shape) < 0.6, truth, np.nan)
    >>> def stop_late(progress):
    ...     return progress.seconds > 60
    >>> tm.complete(data, callback=stop_late, rng=0).rank
    (1, 1, 1)
    """

    stage: str
    n_iter: int
    residual: float
    validation_error: float
    fraction: float
    seconds: float
    note: str
    trial: Trial | None = None


@dataclass
class Watch:
    """Counts iterations and calls callbacks; if one returns true, the search or fit ends.

    Attributes
    ----------
    callbacks : tuple of callable
        Functions of a `CompletionProgress`.
    show : callable or None
        Function of stage, fraction and text that draws a progress bar.
    n_iter : int
        Iterations so far, of all fits.
    expected : float
        Estimated number of iterations at the end; NaN if unknown.
    started : float
        Time of `time.perf_counter` at which the run started.
    is_stopped : bool
        Whether a callback has returned true.
    last : CompletionProgress or None
        Progress after the last iteration.
    """

    callbacks: tuple[Callable[[CompletionProgress], bool | None], ...] = ()
    show: Callable[[str, float, str], None] | None = None
    n_iter: int = 0
    expected: float = math.nan
    started: float = field(default_factory=time.perf_counter)
    is_stopped: bool = False
    last: CompletionProgress | None = None

    def __post_init__(self) -> None:
        self.callbacks = tuple(outside(callback) for callback in self.callbacks)

    @property
    def seconds(self) -> float:
        """Time since the run started."""
        return time.perf_counter() - self.started

    def skip(self, n_iterations: int) -> None:
        """Count iterations that an earlier run has made and saved."""
        self.n_iter += n_iterations

    def expect(self, n_iterations: float) -> None:
        """Set the estimated number of iterations that are left."""
        self.expected = self.n_iter + n_iterations

    def report_iteration(
        self,
        stage: str,
        record: IterationRecord,
        note: str,
        *,
        validation_error: float | None = None,
    ) -> bool:
        """Count an iteration and report it; return whether to stop.

        Without ``validation_error`` the last one of the same stage is reported.
        """
        self.n_iter += 1
        if validation_error is None:
            is_same = self.last is not None and self.last.stage == stage
            validation_error = self.last.validation_error if self.last and is_same else math.nan
        fraction = min(self.n_iter / self.expected, NEARLY_DONE) if self.expected else math.nan
        self.last = CompletionProgress(
            stage, self.n_iter, record.residual, validation_error, fraction, self.seconds, note
        )
        return self._notify(self.last)

    def report_trial(self, trial: Trial, stage: str, note: str) -> None:
        """Report a model that was compared."""
        residual = self.last.residual if self.last else math.nan
        error = self.last.validation_error if self.last else math.nan
        fraction = self.last.fraction if self.last else math.nan
        self._notify(
            CompletionProgress(
                stage, self.n_iter, residual, error, fraction, self.seconds, note, trial
            )
        )

    def _notify(self, now: CompletionProgress) -> bool:
        if self.show is not None:
            self.show(now.stage, now.fraction, f"iteration {now.n_iter}, {now.note}")
        answers = [callback(now) for callback in self.callbacks]  # all are called
        if any(answers):
            self.is_stopped = True
        return self.is_stopped
