"""What `complete` returns: the fit, and the completed data in the type that was given."""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from tensormend.completion.archive import (
    pack_fit,
    pack_observations,
    pack_trials,
    prefixed,
    unpack_fit,
    unpack_observations,
    unpack_trials,
    unprefixed,
)
from tensormend.completion.preprocessing import FittedPreprocessing
from tensormend.completion.selection import Trial
from tensormend.completion.trust import Trust, judge
from tensormend.core.algebra import DEFAULT_MEMORY_LIMIT, Array, check_memory
from tensormend.core.fibres import check_indices
from tensormend.core.storage import load_arrays, save_arrays
from tensormend.core.tucker import expand_key
from tensormend.data.observations import Keys, Observations
from tensormend.errors import InputError
from tensormend.recovery.result import Result, Status

__all__ = ["Assessment", "Completion"]

KIND = "completion"


@dataclass(frozen=True, eq=False)
class Assessment:
    """Entries that a fit is assessed by.

    Attributes
    ----------
    held : array of int
        Positions among the observed entries.
    predicted : array or None
        What was predicted for them; ``None`` for the values of the fit.
    degrees_of_freedom : float
        Degrees of freedom of the model.
    groups : array of int or None
        Entries that were held out together share a number.
    folds : array of int or None
        Number of the fit that predicted each, where there were several.
    in_sample : bool
        Whether the fit had seen them.
    regularized : bool
        Whether the fit was regularized by shrinkage.
    other_indices, other_values : array or None
        Entries that are compared in place of observed ones.
    """

    held: Array
    predicted: Array | None
    degrees_of_freedom: float
    groups: Array | None = None
    folds: Array | None = None
    in_sample: bool = False
    regularized: bool = False
    other_indices: Array | None = None
    other_values: Array | None = None

    def as_arrays(self) -> dict[str, Array]:
        """Return everything by name, as arrays."""
        return {k: np.asarray(v) for k, v in vars(self).items() if v is not None}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Assessment:
        """Return what `as_arrays` was made of."""
        parts: dict[str, Any] = {k: v if v.ndim else v.item() for k, v in arrays.items()}
        return cls(**{"predicted": None, **parts})


@dataclass(frozen=True, repr=False, eq=False)
class Completion:
    """The outcome of `complete`: a fit, and the data with their missing entries filled in.

    Observed entries are returned as they were given, those held out among them, unless
    ``keep_observed=False`` asks for the fitted values there too. Of a tensor that is too large to
    form, ask for entries (`entries`), slices (brackets), positions (`isel`) or labels (`sel`):
    these allocate nothing beyond what is asked for.

    Attributes
    ----------
    fit : Result
        The final fit, in the units of the fit: ``fit.x`` is a `Tucker` of the values after
        preprocessing, and ``fit.history`` has its iterations.
    observations : Observations
        The observed entries, and the type of data they came in.
    preprocessing : FittedPreprocessing
        What was done to the values before the fit and is inverted in what is returned.
    assessment : Assessment
        Held-out entries and their predictions, from which `trust` is computed.
    trials : tuple of Trial
        The models that were compared, in order; empty for a given rank.
    best_trial : Trial or None
        The selected one, whose ``str`` describes it; ``None`` for a given rank.
    n_iter : int
        Iterations of all fits, those of the search and of resumed runs included.
    seconds : float
        Time of the whole run, since `complete` was called.
    notes : tuple of str
        What there is to say about search and fit.

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

    fit: Result
    observations: Observations
    preprocessing: FittedPreprocessing
    assessment: Assessment
    trials: tuple[Trial, ...] = ()
    best_trial: Trial | None = None
    n_iter: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        model = f"rank {self.rank}" if self.best_trial is None else str(self.best_trial)
        return f"Completion({model}; {self.status.name}, {self.n_iter} iterations)"

    # how it went

    @property
    def status(self) -> Status:
        """How the final fit ended."""
        return self.fit.status

    @property
    def success(self) -> bool:
        """Whether the final fit met a stopping criterion, not that missing entries are accurate."""
        return self.fit.success

    @property
    def message(self) -> str:
        """How the final fit ended, in a sentence."""
        return self.fit.message

    @property
    def rank(self) -> tuple[int, ...]:
        """Multilinear rank of the fit."""
        return self.fit.x.rank

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        return self.observations.shape

    @cached_property
    def trust(self) -> Trust:
        """How far the completed data can be trusted, and why; made once and kept."""
        given, assessment = self.observations, self.assessment
        places, values, held = given.indices, given.values, assessment.held
        if assessment.other_indices is not None and assessment.other_values is not None:
            held = len(values) + np.arange(len(assessment.other_values))
            places = np.concatenate([places, assessment.other_indices])
            values = np.concatenate([values, assessment.other_values])
        predicted = assessment.predicted
        seen = self._values(places)
        return judge(
            places,
            values,
            given.shape,
            held=held,
            predicted=seen[held] if predicted is None else predicted,
            residuals=values - seen,
            degrees_of_freedom=assessment.degrees_of_freedom
            + self.preprocessing.degrees_of_freedom,
            groups=assessment.groups,
            folds=assessment.folds,
            in_sample=assessment.in_sample,
            regularized=assessment.regularized,
            refitted=assessment.in_sample or assessment.predicted is not None,
            mode_names=[given.container.describe(k, ())[0] for k in range(len(given.shape))],
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
        memory_limit : float or None, default=2**32
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
        keys = (slice(None),) * self.fit.x.ndim
        return self._wrapped(keys, keep_observed, memory_limit, "the completed data")

    # parts

    def entries(self, indices: Any, *, keep_observed: bool = True) -> Array:
        """Evaluate entries at an ``m x d`` array of indices (one index tuple counts as one row).

        Parameters
        ----------
        indices : array_like
            Integer array of shape ``(m, d)``, one row of indices per entry.
        keep_observed : bool, default=True
            Whether observed entries keep their values; otherwise they take those of the model.

        Returns
        -------
        ndarray
            One value per row of ``indices``.
        """
        places = check_indices(np.atleast_2d(np.asarray(indices)), self.shape)
        values = self._values(places)
        if keep_observed:
            rows = self.observations.find(places)
            values[rows >= 0] = self.observations.values[rows[rows >= 0]]
        return values

    def __getitem__(self, key: Any) -> Any:
        """Numbers of a slice, from integers, slices and an ellipsis, as NumPy has them."""
        keys = expand_key(key, self.shape, "entries(indices)")
        check_memory(self._sizes(keys), self.fit.x.dtype, DEFAULT_MEMORY_LIMIT, "the slice")
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
        """Select a part of labelled data by a label, a list or a slice for each mode.

        Labels mean what they do in ``xarray`` and in pandas' ``loc``: slices include their end,
        and dates may be given as strings. Names that are no Python words, or ``keep_observed``,
        go into a dict, given first.

        Parameters
        ----------
        labels : mapping of hashable to object, optional
            Labels by the name of the mode, for names that are not Python identifiers.
        keep_observed : bool, default=True
            Whether observed entries keep their values; otherwise they take those of the model.
        **by_name
            A label, a list of labels or a slice for each mode named.

        Returns
        -------
        object
            A DataArray; a Series, without the levels for which one label was given; or rows of a
            DataFrame.
        """
        keys = self.observations.container.find(_merge(labels, by_name))
        return self._wrapped(keys, keep_observed, DEFAULT_MEMORY_LIMIT, "the selection")

    def isel(
        self,
        positions: Mapping[Hashable, Any] | None = None,
        /,
        *,
        keep_observed: bool = True,
        **by_name: Any,
    ) -> Any:
        """Select a part of the data by positions along modes, as ``xarray`` does.

        Parameters
        ----------
        positions : mapping, optional
            An integer, a slice or a list of integers for each mode, by the name of the mode or by
            its number.
        keep_observed : bool, default=True
            Return observed entries as they were given.
        **by_name
            The same for modes whose names are Python words.

        Returns
        -------
        array or labelled data
            A part of what `data` is; a mode for which one integer was given is dropped.

        Examples
        --------
        >>> import tensormend as tm
        >>> data = tm.TensorData(np.array([[1.0, np.nan], [3.0, 4.0]]), dims=("city", "year"))
        >>> tm.complete(data, rank=1).isel(city=1).values
        array([3., 4.])
        """
        keys: list[int | slice | Array] = [slice(None)] * len(self.shape)
        for name, key in _merge(positions, by_name).items():
            mode = self._find_mode(name)
            keys[mode] = _as_key(key, self.shape[mode], name)
        return self._wrapped(keys, keep_observed, DEFAULT_MEMORY_LIMIT, "the selection")

    def _find_mode(self, name: Hashable) -> int:
        dims = getattr(self.observations.container, "dims", ())
        if name in dims:
            return int(dims.index(name))
        if isinstance(name, int) and 0 <= name < len(self.shape):
            return name
        raise InputError(
            f"isel takes positions by the names or numbers of modes, got {name!r}; use one of "
            f"{', '.join(map(repr, dims or range(len(self.shape))))}"
        )

    # files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the completion to an ``.npz`` file, atomically.

        Parameters
        ----------
        path : path
            File to write; an existing one is replaced.

        Notes
        -----
        The file holds factors, preprocessing, observed entries, trials and the held-out entries,
        and the names and labels of the modes; not the completed tensor. It has a format version,
        and a version of tensormend that does not know it refuses the file.
        """
        facts = {"n_iter": self.n_iter, "seconds": self.seconds, "notes": self.notes}
        best = () if self.best_trial is None else (self.best_trial,)
        arrays = {
            "facts": np.array(json.dumps(facts)),
            "trials": pack_trials(self.trials),
            "best_trial": pack_trials(best),
            **prefixed("fit.", pack_fit(self.fit)),
            **prefixed("observations.", pack_observations(self.observations)),
            **prefixed("preprocessing.", self.preprocessing.as_arrays()),
            **prefixed("assessment.", self.assessment.as_arrays()),
        }
        save_arrays(path, KIND, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Completion:
        """Read a completion written by `save`.

        Parameters
        ----------
        path : path
            The file.

        Returns
        -------
        Completion
            Its ``data`` are an array or, where modes have labels, a `TensorData`.

        Raises
        ------
        InputError
            If the file is damaged, of another kind, or of a newer format.
        """
        arrays = load_arrays(path, KIND)
        try:
            facts = json.loads(str(arrays["facts"]))
            best = unpack_trials(arrays["best_trial"])
            return cls(
                fit=unpack_fit(unprefixed("fit.", arrays)),
                observations=unpack_observations(unprefixed("observations.", arrays)),
                preprocessing=FittedPreprocessing.from_arrays(unprefixed("preprocessing.", arrays)),
                assessment=Assessment.from_arrays(unprefixed("assessment.", arrays)),
                trials=unpack_trials(arrays["trials"]),
                best_trial=best[0] if best else None,
                notes=tuple(facts.pop("notes")),
                **facts,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{os.fspath(path)} should hold a completion, but something in it is missing or "
                f"wrong ({error}); write it anew"
            ) from error

    # the model

    @cached_property
    def factors(self) -> tuple[Any, ...]:
        """One factor matrix per mode, its rows labelled where the data are."""
        wrap = self.observations.container.wrap_factor
        return tuple(wrap(k, u) for k, u in enumerate(self.fit.x.factors))

    def _values(self, places: Array) -> Array:
        """Return the model at scattered places, in the units of the data."""
        values = self.fit.x.entries(places)
        return (
            values
            if self.preprocessing.is_identity
            else self.preprocessing.inverse_transform(places, values)
        )

    def _block(self, places: Sequence[slice | Array]) -> Array:
        """Return the model on a block, in the units of the data."""
        block = self.fit.x.block(places, memory_limit=None)
        return (
            block
            if self.preprocessing.is_identity
            else self.preprocessing.inverse_transform_block(block, places)
        )

    def _sizes(self, keys: Keys) -> tuple[int, ...]:
        """Sizes of a block; a mode at one place counts 1."""
        return tuple(
            len(range(n)[part]) if isinstance(part, slice) else len(part)
            for n, part in zip(self.shape, _as_places(keys), strict=True)
        )

    def _part(self, keys: Keys, *, keep_observed: bool) -> Array:
        """Return a block with all its modes."""
        places = _as_places(keys)
        block = self._block(places)
        if keep_observed:
            self.observations.put(block, places)
        return block

    def _wrapped(
        self, keys: Keys, keep_observed: bool, memory_limit: float | None, what: str
    ) -> Any:
        kind = self.observations.container
        width = kind.entry_bytes(self.fit.x.dtype, len(self.shape))
        entry = f"V{width}"  # a type of so many bytes, as NumPy names it
        check_memory(self._sizes(keys), entry, memory_limit, what)
        return kind.wrap(self._part(keys, keep_observed=keep_observed), keys)


def _as_places(keys: Keys) -> list[slice | Array]:
    """Turn the selections that drop their mode into slices, which keep it."""
    return [slice(key, key + 1) if isinstance(key, int) else key for key in keys]


def _merge(first: Mapping[Hashable, Any] | None, by_name: Mapping[str, Any]) -> dict[Hashable, Any]:
    """Join selections given in a mapping and by keywords."""
    return dict(chain((first or {}).items(), by_name.items()))


def _as_key(key: Any, n: int, name: Hashable) -> int | slice | Array:
    """Check positions along a mode of size ``n``; count negative ones from the end."""
    if isinstance(key, slice):
        return key
    positions: Array = np.asarray(key)
    is_good = positions.ndim <= 1 and (positions.dtype.kind in "iu" or positions.size == 0)
    if not is_good or (positions.size and not (-n <= positions.min() and positions.max() < n)):
        raise InputError(
            f"isel takes an integer, a slice or a list of integers between {-n} and {n - 1} for "
            f"mode {name!r}, got {key!r}"
        )
    positions = np.where(positions < 0, positions + n, positions).astype(np.int64)
    return positions if positions.ndim else int(positions)
