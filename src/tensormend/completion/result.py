"""What `complete` returns: the tensor, and the completed data in the kind that came in."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from tensormend.completion.preprocessing import FittedPreprocessing
from tensormend.completion.selection import Trial
from tensormend.completion.trust import Trust, judge
from tensormend.core.algebra import DEFAULT_MEMORY_LIMIT, Array, check_memory
from tensormend.core.fibres import check_indices
from tensormend.core.tucker import expand_key
from tensormend.data.observations import Keys, Observations
from tensormend.recovery.result import Result

__all__ = ["Completion", "Judged"]


@dataclass(frozen=True, eq=False)
class Judged:
    """Entries that a fit is judged by.

    Attributes
    ----------
    held : positions among the known entries
    predicted : what was predicted for them; ``None`` for what the model says
    degrees_of_freedom : of the model
    groups : entries that were held out together share a number
    folds : number of the fit that predicted each, where there were several
    in_sample : whether the fit had seen them
    regularized : whether the fit was shrunken
    others : places and values that are judged in place of known entries
    """

    held: Array
    predicted: Array | None
    degrees_of_freedom: float
    groups: Array | None = None
    folds: Array | None = None
    in_sample: bool = False
    regularized: bool = False
    others: tuple[Array, Array] | None = None


@dataclass(frozen=True, repr=False)
class Completion(Result):
    """The outcome of `complete`: a `Result` that gives the data back with their holes filled.

    Observed entries stay as they are, those held out among them, unless ``keep_observed=False``
    asks for the model there too. Where the whole is too large to write out, ask for entries
    (`entries`), slices (brackets) or labels (`sel`): these form nothing beyond what is asked for.

    Attributes
    ----------
    known : the known entries and the kind of data they came in
    preprocessing : what was done to the values before the fit and is undone in what comes
        back; ``x`` is the tensor in between
    trials : the models that were tried to choose one, in order; empty for a given rank
    best_trial : the one of them that was fitted; ``None`` for a given rank
    judged : held-out entries and what was predicted for them, from which `trust` is made

    Notes
    -----
    A NumPy array, and values with indices, come back as an array; a masked array with nothing
    masked; a DataArray with its dimensions, coordinates, attributes and name; a Series over the
    full product of its levels; a DataFrame with the same columns and a row for every entry; a
    sparse.COO with every entry stored. Integers and booleans come back as float64, because what
    is filled in need not be whole.

    Examples
    --------
    >>> import tensormend as tm
    >>> truth = tm.simulate.random_tucker((20, 20, 20), 2, rng=0).todense()
    >>> data = np.where(np.random.default_rng(1).random(truth.shape) < 0.4, truth, np.nan)
    >>> result = tm.complete(data, rank=2, tol=1e-9)
    >>> bool(np.allclose(result.data, truth)), bool(np.allclose(result[3, :, 5], truth[3, :, 5]))
    (True, True)
    """

    known: Observations = field(kw_only=True)
    preprocessing: FittedPreprocessing = field(kw_only=True)
    trials: tuple[Trial, ...] = field(kw_only=True, default=())
    best_trial: Trial | None = field(kw_only=True, default=None)
    judged: Judged = field(kw_only=True)

    @classmethod
    def from_result(cls, result: Result, **parts: Any) -> Completion:
        """Join the outcome of a run with the data it was made for."""
        return cls(**vars(result), **parts)

    @cached_property
    def trust(self) -> Trust:
        """How far the completed data can be trusted, and why; made once and kept."""
        known, judged = self.known, self.judged
        places, values, held = known.indices, known.values, judged.held
        if judged.others is not None:
            held = len(values) + np.arange(len(judged.others[1]))
            places = np.concatenate([places, judged.others[0]])
            values = np.concatenate([values, judged.others[1]])
        predicted = judged.predicted
        seen = self._values(places)
        return judge(
            places,
            values,
            known.shape,
            held=held,
            predicted=seen[held] if predicted is None else predicted,
            residuals=values - seen,
            degrees_of_freedom=judged.degrees_of_freedom + self.preprocessing.degrees_of_freedom,
            groups=judged.groups,
            folds=judged.folds,
            in_sample=judged.in_sample,
            regularized=judged.regularized,
            refitted=judged.in_sample or judged.predicted is not None,
            mode_names=[known.container.describe(k, ())[0] for k in range(len(known.shape))],
        )

    # the whole

    @cached_property
    def data(self) -> Any:
        """The completed data, in the kind that came in; made once and kept."""
        return self.fitted_values(keep_observed=True)

    def fitted_values(
        self,
        *,
        keep_observed: bool = False,
        memory_limit: float | None = DEFAULT_MEMORY_LIMIT,
    ) -> Any:
        """Evaluate the model at every entry, in the units and the kind of the data.

        Parameters
        ----------
        keep_observed : bool, default=False
            Return observed entries as they were given, as `data` does.
        memory_limit : float or None, default=2**31
            Largest number of bytes to allocate; ``None`` for no limit.

        Returns
        -------
        array or labelled data
            Newly allocated at every call, of the type that was given to `complete`.

        Raises
        ------
        MemoryLimitError
            If the whole tensor would take more than ``memory_limit`` bytes.
        """
        keys = (slice(None),) * self.x.ndim
        return self._wrapped(keys, keep_observed, memory_limit, "the completed data")

    # parts

    def entries(self, indices: Any, *, keep_observed: bool = True) -> Array:
        """Values at an ``m x d`` array of indices (one index tuple counts as one row)."""
        places = check_indices(np.atleast_2d(np.asarray(indices)), self.x.shape)
        values = self._values(places)
        if keep_observed:
            rows = self.known.find(places)
            values[rows >= 0] = self.known.values[rows[rows >= 0]]
        return values

    def __getitem__(self, key: Any) -> Any:
        """Numbers of a slice, from integers, slices and an ellipsis, as NumPy has them."""
        keys = expand_key(key, self.x.shape, "entries(indices)")
        check_memory(self._sizes(keys), self.x.dtype, DEFAULT_MEMORY_LIMIT, "the slice")
        block = self._part(keys, keep_observed=True)
        out = np.squeeze(
            block, axis=tuple(k for k, part in enumerate(keys) if isinstance(part, int))
        )
        return out if out.ndim else out[()]

    def sel(
        self,
        labels: Mapping[Hashable, Any] | None = None,
        /,
        *,
        keep_observed: bool = True,
        **by_name: Any,
    ) -> Any:
        """Part of labelled data, by the names of the modes: a label, a list or a slice for each.

        Labels mean what they do in ``xarray`` and in pandas' ``loc``: slices include their end,
        and dates may be given as strings. Names that are no Python words, or ``keep_observed``,
        go into a dict, given first.

        Returns
        -------
        A DataArray; a Series, without the levels for which one label was given; or rows of a
        DataFrame.
        """
        keys = self.known.container.find(dict(chain((labels or {}).items(), by_name.items())))
        return self._wrapped(keys, keep_observed, DEFAULT_MEMORY_LIMIT, "the selection")

    # the model

    @property
    def core(self) -> Array:
        """The core of the model."""
        return self.x.core

    @cached_property
    def factors(self) -> tuple[Any, ...]:
        """One factor matrix per mode, its rows labelled where the data are."""
        wrap = self.known.container.wrap_factor
        return tuple(wrap(k, u) for k, u in enumerate(self.x.factors))

    def _values(self, places: Array) -> Array:
        """Return the model at scattered places, in the units of the data."""
        values = self.x.entries(places)
        return (
            values
            if self.preprocessing.is_identity
            else self.preprocessing.inverse_transform(places, values)
        )

    def _block(self, places: Sequence[slice | Array]) -> Array:
        """Return the model on a block, in the units of the data."""
        block = self.x.block(places, memory_limit=None)
        return (
            block
            if self.preprocessing.is_identity
            else self.preprocessing.inverse_transform_block(block, places)
        )

    def _sizes(self, keys: Keys) -> tuple[int, ...]:
        """Sizes of a block; a mode at one place counts 1."""
        return tuple(
            len(range(n)[part]) if isinstance(part, slice) else len(part)
            for n, part in zip(self.x.shape, _as_places(keys), strict=True)
        )

    def _part(self, keys: Keys, *, keep_observed: bool) -> Array:
        """Return a block with all its modes."""
        places = _as_places(keys)
        block = self._block(places)
        if keep_observed:
            self.known.put(block, places)
        return block

    def _wrapped(
        self, keys: Keys, keep_observed: bool, memory_limit: float | None, what: str
    ) -> Any:
        kind = self.known.container
        entry = f"V{kind.entry_bytes(self.x.dtype, self.x.ndim)}"  # bytes, as NumPy names them
        check_memory(self._sizes(keys), entry, memory_limit, what)
        return kind.wrap(self._part(keys, keep_observed=keep_observed), keys)


def _as_places(keys: Keys) -> list[slice | Array]:
    """Turn the selections that drop their mode into slices, which keep it."""
    return [slice(key, key + 1) if isinstance(key, int) else key for key in keys]
