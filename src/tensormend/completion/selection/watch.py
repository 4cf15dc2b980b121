"""What was tried, how far things are, and who looks on and may end them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from tensormend.recovery.limits import outside
from tensormend.recovery.result import IterationRecord

__all__ = ["CompletionProgress", "Trial", "Watch"]

NEARLY_DONE = 0.99  # the most that is said to be done before the end


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
        What the modes are called in the description.
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
    """What a callback of `complete` is given, after every iteration and every comparison.

    Attributes
    ----------
    stage : {"search", "balance", "rank", "fit"}
        The regularization path, the strengths of single modes, Tucker ranks, or the final fit.
    n_iter : int
        Iterations so far, of all fits.
    residual : float
        Relative residual on the entries that are fitted.
    validation_error : float
        Error on held-out entries relative to their norm; NaN if none was measured.
    fraction : float
        Estimated fraction of the work that is done; NaN if unknown.
    seconds : float
        Time since the start.
    note : str
        What is being fitted.
    trial : Trial or None
        The model that was just compared; ``None`` after an iteration.
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
    """Counts iterations and calls callbacks; a true answer of one ends what is running."""

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
        """Time since the start."""
        return time.perf_counter() - self.started

    def skip(self, n_iterations: int) -> None:
        """Count iterations that an earlier run has made and saved."""
        self.n_iter += n_iterations

    def expect(self, n_iterations: float) -> None:
        """Say how many more iterations there may be."""
        self.expected = self.n_iter + n_iterations

    def tell(
        self,
        stage: str,
        record: IterationRecord,
        note: str,
        *,
        validation_error: float | None = None,
    ) -> bool:
        """Count an iteration and show it; return whether to stop.

        Without a held-out error of its own, an iteration shows the last one of its stage.
        """
        self.n_iter += 1
        if validation_error is None:
            is_same = self.last is not None and self.last.stage == stage
            validation_error = self.last.validation_error if self.last and is_same else math.nan
        fraction = min(self.n_iter / self.expected, NEARLY_DONE) if self.expected else math.nan
        self.last = CompletionProgress(
            stage, self.n_iter, record.residual, validation_error, fraction, self.seconds, note
        )
        return self._report(self.last)

    def judge(self, trial: Trial, stage: str, note: str) -> None:
        """Show a model that was assessed."""
        residual = self.last.residual if self.last else math.nan
        error = self.last.validation_error if self.last else math.nan
        fraction = self.last.fraction if self.last else math.nan
        self._report(
            CompletionProgress(
                stage, self.n_iter, residual, error, fraction, self.seconds, note, trial
            )
        )

    def _report(self, now: CompletionProgress) -> bool:
        if self.show is not None:
            self.show(now.stage, now.fraction, f"iteration {now.n_iter}, {now.note}")
        answers = [callback(now) for callback in self.callbacks]  # all are called
        if any(answers):
            self.is_stopped = True
        return self.is_stopped
