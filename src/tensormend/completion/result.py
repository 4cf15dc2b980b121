"""`Completion`, the result of `complete`."""

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
    """Entries on which a fit is assessed, and predictions for them.

    Attributes
    ----------
    held : ndarray of int
        Positions of the held-out entries among the observed ones.
    predicted : ndarray or None
        Predictions for them; ``None`` if the final fit predicts them.
    degrees_of_freedom : float
        Degrees of freedom of the final fit, without those of the preprocessing.
    groups : ndarray of int or None
        Group of each held-out entry, within which errors may be correlated.
    folds : ndarray of int or None
        Fold of each held-out entry, if several fits were assessed.
    in_sample : bool
        Whether the fit used these entries.
    regularized : bool
        Whether the fit was regularized by shrinkage.
    other_indices, other_values : ndarray or None
        Validation entries that are used in place of held-out ones.
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
        """Return the attributes as arrays, by name."""
        return {k: np.asarray(v) for k, v in vars(self).items() if v is not None}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Assessment:
        """Return the assessment that `as_arrays` has written."""
        parts: dict[str, Any] = {k: v if v.ndim else v.item() for k, v in arrays.items()}
        return cls(**{"predicted": None, **parts})


@dataclass(frozen=True, repr=False, eq=False)
class Completion:
    """Result of `complete`: the completed data, and the fit they come from.

    Observed entries, held-out ones included, are returned as they were given, unless
    ``keep_observed=False`` requests fitted values there too. A tensor that is too large to
    allocate can be evaluated in parts: single entries (`entries`), slices (``result[3, :, 5]``),
    by position (`isel`) or by label (`sel`).

    Attributes
    ----------
    fit : Result
        The final fit, in the units of the preprocessed values: ``fit.x`` is a `Tucker` of these,
        and ``fit.history`` has its iterations.
    observations : Observations
        The observed entries, and the container they came in.
    preprocessing : FittedPreprocessing
        Transformation of the values before the fit, which is inverted in all that is returned.
    assessment : Assessment
        Held-out entries and their predictions, from which `trust` is computed.
    trials : tuple of Trial
        The models that were compared, in order; empty for a given rank.
    best_trial : Trial or None
        The selected model, described by ``str(best_trial)``; ``None`` for a given rank.
    n_iter : int
        Iterations of all fits, including those of the search and of the run that was resumed.
    seconds : float
        Time of the whole run, since `complete` was called.
    notes : tuple of str
        Remarks on search and fit, a sentence each.

    Notes
    -----
    Arrays, and values with indices, are returned as an array; a masked array has no masked entry;
    a DataArray keeps its dimensions, coordinates, attributes and name; a Series has the full
    product of its levels as index; a DataFrame has the same columns and a row for every entry; a
    sparse.COO stores every entry. Integers and booleans become float64, because imputed values
    need not be integers.

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
        """Whether the final fit converged or finished; accuracy is assessed by `trust`."""
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
        """Estimated error of imputed values, with a verdict; computed once."""
        given, assessment = self.observations, self.assessment
        indices, values, held = given.indices, given.values, assessment.held
        if assessment.other_indices is not None and assessment.other_values is not None:
            held = len(values) + np.arange(len(assessment.other_values))
            indices = np.concatenate([indices, assessment.other_indices])
            values = np.concatenate([values, assessment.other_values])
        predicted = assessment.predicted
        fitted = self._values(indices)
        return judge(
            indices,
            values,
            given.shape,
            held=held,
            predicted=fitted[held] if predicted is None else predicted,
            residuals=values - fitted,
            degrees_of_freedom=assessment.degrees_of_freedom
            + self.preprocessing.degrees_of_freedom,
            groups=assessment.groups,
            folds=assessment.folds,
            in_sample=assessment.in_sample,
            regularized=assessment.regularized,
            refitted=assessment.in_sample or assessment.predicted is not None,
            mode_names=[given.container.describe(k, ())[0] for k in range(len(given.shape))],
        )

    # the whole tensor

    @cached_property
    def data(self) -> Any:
        """The completed data, in the type that was given, or that `load` returns; computed once."""
        return self.fitted_values(keep_observed=True)

    def fitted_values(
        self,
        *,
        keep_observed: bool = False,
        memory_limit: float | None = DEFAULT_MEMORY_LIMIT,
    ) -> Any:
        """Evaluate the model at every entry, in the units and the type of the data.

        Parameters
        ----------
        keep_observed : bool, default=False
            Whether observed entries keep their values, as in `data`.
        memory_limit : float or None, default=2**32
            Largest number of bytes to allocate; ``None`` is no limit.

        Returns
        -------
        array_like
            The tensor, newly allocated, in the type that was given to `complete`.

        Raises
        ------
        MemoryLimitError
            If the tensor would take more than ``memory_limit`` bytes.
        """
        keys = (slice(None),) * self.fit.x.ndim
        return self._wrapped(keys, keep_observed, memory_limit, "the completed data")

    # parts

    def entries(self, indices: Any, *, keep_observed: bool = True) -> Array:
        """Return single entries.

        Parameters
        ----------
        indices : array_like of int of shape (m, d) or (d,)
            Indices of the entries, one row per entry.
        keep_observed : bool, default=True
            Whether observed entries keep their values; otherwise they take those of the model.

        Returns
        -------
        ndarray of shape (m,)
            One value per row of ``indices``.

        Raises
        ------
        InputError
            If an index is not an integer within the shape.
        """
        rows_of_indices = check_indices(np.atleast_2d(np.asarray(indices)), self.shape)
        values = self._values(rows_of_indices)
        if keep_observed:
            rows = self.observations.find(rows_of_indices)
            values[rows >= 0] = self.observations.values[rows[rows >= 0]]
        return values

    def __getitem__(self, key: Any) -> Any:
        """Return a part of the tensor as an array, by integers, slices and an ellipsis."""
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
        """Select a part of labelled data by labels, as ``xarray`` does.

        Slices include their end, and dates may be given as strings, as in ``xarray`` and in the
        ``loc`` of pandas.

        Parameters
        ----------
        labels : mapping, optional
            A label, a list of labels or a slice of labels for each mode, by the name of the mode.
        keep_observed : bool, default=True
            Whether observed entries keep their values; otherwise they take those of the model.
        **by_name
            The same as keywords, for modes whose names are Python identifiers.

        Returns
        -------
        DataArray, Series, DataFrame or TensorData
            A part of `data`. A mode with a single label is dropped, except from a DataFrame.

        Raises
        ------
        InputError
            If the data have no labels, or a name or label does not exist.
        MemoryLimitError
            If the part would take more than 4 GiB.

        Examples
        --------
        >>> import tensormend as tm
        >>> table = np.array([[1.0, 2.0], [3.0, np.nan]])
        >>> cities, years = np.array(["Pisa", "Ulm"]), np.array([2020, 2021])
        >>> data = tm.TensorData(table, dims=("city", "year"), coords=(cities, years))
        >>> tm.complete(data, rank=1).sel(city="Ulm").values.round(3)
        array([3., 6.])
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
            An integer, a slice or a list of integers for each mode, by the name or the number of
            the mode.
        keep_observed : bool, default=True
            Whether observed entries keep their values; otherwise they take those of the model.
        **by_name
            The same as keywords, for modes whose names are Python identifiers.

        Returns
        -------
        array_like
            A part of `data`, in the same type. A mode with a single integer is dropped, except from
            a DataFrame.

        Raises
        ------
        InputError
            If a mode or position does not exist.
        MemoryLimitError
            If the part would take more than 4 GiB.

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
        path : path-like
            File to write; an existing one is replaced.

        See Also
        --------
        Completion.load : Read the file.

        Notes
        -----
        The file holds core and factors, preprocessing, observed and held-out entries, trials, and
        names and labels of the modes, but not the completed tensor. It has a format version:
        versions of tensormend that are too old to read it refuse it.
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
        path : path-like
            File to read.

        Returns
        -------
        Completion
            The completion; its ``data`` are an array, or a `TensorData` if modes have labels.

        Raises
        ------
        InputError
            If the file is damaged, of another kind, or written by a newer version of tensormend.
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
                f"{os.fspath(path)} should hold a completion, but an array in it is missing or "
                f"wrong ({error}); write it anew"
            ) from error

    # the model

    @cached_property
    def factors(self) -> tuple[Any, ...]:
        """One factor matrix per mode, with labels for its rows if the data have them."""
        wrap = self.observations.container.wrap_factor
        return tuple(wrap(k, u) for k, u in enumerate(self.fit.x.factors))

    def _values(self, indices: Array) -> Array:
        """Return single entries of the model, in the units of the data."""
        values = self.fit.x.entries(indices)
        return (
            values
            if self.preprocessing.is_identity
            else self.preprocessing.inverse_transform(indices, values)
        )

    def _block(self, keys: Sequence[slice | Array]) -> Array:
        """Return a block of the model, in the units of the data."""
        block = self.fit.x.block(keys, memory_limit=None)
        return (
            block
            if self.preprocessing.is_identity
            else self.preprocessing.inverse_transform_block(block, keys)
        )

    def _sizes(self, keys: Keys) -> tuple[int, ...]:
        """Return the shape of a block, with size 1 for a mode at a single index."""
        return tuple(
            len(range(n)[part]) if isinstance(part, slice) else len(part)
            for n, part in zip(self.shape, _without_ints(keys), strict=True)
        )

    def _part(self, keys: Keys, *, keep_observed: bool) -> Array:
        """Return a block of all modes, those at a single index included."""
        block_keys = _without_ints(keys)
        block = self._block(block_keys)
        if keep_observed:
            self.observations.put(block, block_keys)
        return block

    def _wrapped(
        self, keys: Keys, keep_observed: bool, memory_limit: float | None, what: str
    ) -> Any:
        container = self.observations.container
        width = container.entry_bytes(self.fit.x.dtype, len(self.shape))
        entry = f"V{width}"  # NumPy's name of a type of so many bytes
        check_memory(self._sizes(keys), entry, memory_limit, what)
        return container.wrap(self._part(keys, keep_observed=keep_observed), keys)


def _without_ints(keys: Keys) -> list[slice | Array]:
    """Replace integers, which drop their mode, by slices, which keep it."""
    return [slice(key, key + 1) if isinstance(key, int) else key for key in keys]


def _merge(first: Mapping[Hashable, Any] | None, by_name: Mapping[str, Any]) -> dict[Hashable, Any]:
    """Join selections given in a mapping and by keywords."""
    return dict(chain((first or {}).items(), by_name.items()))


def _as_key(key: Any, n: int, name: Hashable) -> int | slice | Array:
    """Check positions along a mode of size ``n``; negative ones count from the end."""
    if isinstance(key, slice):
        return key
    positions: Array = np.asarray(key)
    is_good = positions.ndim <= 1 and (positions.dtype.kind in "iu" or positions.size == 0)
    if not is_good or (positions.size and not (-n <= positions.min() and positions.max() < n)):
        raise InputError(
            f"isel takes an integer, a slice or a list of integers between {-n} and {n - 1} for "
            f"mode {name!r}, got {key!r}; use sel for labels"
        )
    positions = np.where(positions < 0, positions + n, positions).astype(np.int64)
    return positions if positions.ndim else int(positions)
