"""Preprocessing: transform, centring, standardization and bounds, and their inverse."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tensormend.completion.means import fit_mode_means, fit_stds
from tensormend.core.algebra import Array, as_shape, is_inexact, normalize_mode, power_of_two
from tensormend.core.fibres import check_indices
from tensormend.errors import InputError

__all__ = ["FittedPreprocessing", "Preprocessing"]

BLOCK = 2**18  # values transformed at a time, at most, in double precision


Center = Literal["auto", "mean", "all"] | Sequence[int] | None
"""Types of the parameter ``center`` of `complete` and `Preprocessing`."""


@dataclass(frozen=True)
class Preprocessing:
    """Settings of the transformation of values before a fit, which is inverted after it.

    `transform`, `center` and `standardize` are applied in this order and inverted in the opposite
    order; the inverse then clips to `clip`. By default the values are fitted as they are, except
    that `complete` may center them.

    Parameters
    ----------
    transform : {"log1p"} or None, default=None
        Function applied to every value; ``"log1p"`` suits counts and requires values above -1.
    center : {"auto", "mean", "all"}, sequence of int or None, default="auto"
        What to subtract: a grand mean (``"mean"``), a grand mean and an effect for every slice of
        all modes (``"all"``) or of the given modes, or nothing (``None``). ``"auto"`` lets
        `complete` choose with the model, by the rule in the notes; `fit` then subtracts nothing.
    standardize : int or None, default=None
        Mode whose slices are divided by their standard deviations, each about its own mean.
    clip : pair of float or None, default=None
        Smallest and largest value that the inverse returns, rounded to the data type of the values;
        ``None`` on a side is no bound.

    Raises
    ------
    InputError
        If a setting is not one of those described above.

    See Also
    --------
    complete : Takes these settings as ``preprocessing`` or one by one.

    Notes
    -----
    Centring subtracts ``mean + sum_k effect_k[i_k]``. Mean and effects minimize the sum of squares
    over the observed entries plus ``5 sum_k ||effect_k||^2``: a slice with ``n`` observations keeps
    about ``n / (n + 5)`` of its effect, and one without any has effect 0. Logarithms of standard
    deviations are shrunk in the same way towards their mean over the slices; slices that are
    constant or have fewer than two observations take that mean.

    ``center="auto"`` has one rule: a Tucker model, of given or selected rank, is fitted without
    centring, because adding means back raises the multilinear rank, by up to 2 in every mode.
    Shrinkage, as selected by ``complete(data)``, is fitted to values minus their grand mean. If
    whole fibres are missing, and effects of all modes alone halve the mean squared error of the
    grand mean on held-out entries, shrinkage with these effects is compared as well.

    Examples
    --------
    >>> indices = np.array([[0, 0], [0, 1], [1, 0], [2, 1]])
    >>> values = np.array([3.0, 5.0, 0.0, 8.0])
    >>> import tensormend as tm
    >>> settings = tm.Preprocessing(transform="log1p", center="all", clip=(0, None))
    >>> fitted = settings.fit(indices, values, (3, 2))
    >>> inside = fitted.transform(indices, values)
    >>> bool(np.allclose(fitted.inverse_transform(indices, inside), values))
    True
    """

    transform: Literal["log1p"] | None = None
    center: Center = "auto"
    standardize: int | None = None
    clip: tuple[float | None, float | None] | None = None

    def __post_init__(self) -> None:
        if self.transform not in (None, "log1p"):
            raise InputError(
                f"transform must be 'log1p' or None, got {self.transform!r}; apply other functions "
                "to the data before"
            )
        if self.center is not None and not isinstance(self.center, str):
            object.__setattr__(self, "center", _as_modes(self.center))
        elif self.center not in (None, "auto", "mean", "all"):
            raise InputError(f"{_CENTER}, got {self.center!r}; for example center=(0, 2)")
        if self.standardize is not None and not _is_mode(self.standardize):
            raise InputError(
                f"standardize must be one mode, or None, got {self.standardize!r}; for example "
                "standardize=0"
            )
        if isinstance(self.clip, Iterable):
            object.__setattr__(self, "clip", tuple(self.clip))
        _bounds(self.clip)

    @property
    def is_identity(self) -> bool:
        """Whether the settings change no value, so that there is nothing to fit."""
        return self._keeps_values and self.clip is None

    @property
    def _keeps_values(self) -> bool:
        is_centred = self.center not in (None, "auto")
        return self.transform is None and self.standardize is None and not is_centred

    def center_modes(self, order: int) -> tuple[int, ...] | None:
        """Return the modes whose slices have effects.

        Parameters
        ----------
        order : int
            Number of modes of the tensor.

        Returns
        -------
        tuple of int or None
            The modes, numbered from 0; ``()`` for the grand mean alone, ``None`` for no centring,
            also with ``center="auto"``.

        Raises
        ------
        InputError
            If a mode is named twice or does not exist.
        """
        if self.center is None or self.center == "auto":
            return None
        if isinstance(self.center, str):
            return tuple(range(order)) if self.center == "all" else ()
        modes = tuple(normalize_mode(int(k), order) for k in self.center)
        if len(set(modes)) < len(modes):
            raise InputError(f"center must name a mode only once, got {self.center}; drop repeats")
        return modes

    def with_center(self, modes: tuple[int, ...] | None) -> Preprocessing:
        """Return the same settings with the centring that `center_modes` describes.

        Parameters
        ----------
        modes : tuple of int or None
            Modes with effects, ``()`` for the grand mean alone, ``None`` for no centring.

        Returns
        -------
        Preprocessing
            A copy with that centring.
        """
        return replace(self, center="mean" if modes == () else modes)

    def fit(self, indices: Any, values: Any, shape: Sequence[int]) -> FittedPreprocessing:
        """Fit means and standard deviations to the observed entries of a tensor.

        Parameters
        ----------
        indices : array_like of int of shape (m, d)
            Indices of the observed entries.
        values : array_like of shape (m,)
            Their values.
        shape : sequence of int
            Shape of the tensor.

        Returns
        -------
        FittedPreprocessing
            The transformation and its inverse.

        Raises
        ------
        InputError
            If indices and values do not match, values are not finite, lie outside of ``clip``, or
            are not above -1 with ``transform="log1p"``.
        """
        shape = as_shape(shape)
        indices = check_indices(np.asarray(indices), shape).astype(np.int64, copy=False)
        values = _as_values(values, len(indices))
        modes = self.center_modes(len(shape))
        mode = None if self.standardize is None else normalize_mode(self.standardize, len(shape))
        low, high = _bounds(self.clip)
        self._check_values(values, low, high)
        work = _widened(values)
        if self.transform is not None:
            np.log1p(work, out=work)
        # division by a power of two is exact, and squares neither overflow nor underflow
        unit = power_of_two(float(np.abs(work.view(np.float64)).max()))
        work /= unit
        means, effects = None, {}
        if modes is not None:
            columns, sizes = [indices[:, k] for k in modes], [shape[k] for k in modes]
            means = fit_mode_means(columns, sizes, work)
            effects = {k: unit * part for k, part in zip(modes, means.effects, strict=True)}
            work = means.residuals
        stds = None
        if mode is not None:
            stds = fit_stds(indices[:, mode], shape[mode], work, unit)
        return FittedPreprocessing(
            shape=shape,
            value_transform=self.transform,
            mean=None if means is None else unit * means.mean,
            effects=effects,
            standardize=mode,
            stds=stds,
            clip=(low, high),
            degrees_of_freedom=0.0 if means is None else means.degrees_of_freedom,
        )

    def _check_values(self, values: Array, low: float, high: float) -> None:
        if values.dtype.kind == "c":
            if self.transform is not None or self.clip is not None:
                raise InputError(
                    "transform and clip are for real values, got complex ones; leave both out"
                )
            return
        if self.transform is not None:
            _check_above_minus_one(values)
        with np.errstate(over="ignore"):  # values may have been rounded in their data type
            low, high = (float(values.dtype.type(bound)) for bound in (low, high))
        least, largest = float(values.min()), float(values.max())
        if least < low or largest > high:
            raise InputError(
                f"observed values must lie within the bounds that clip gives, {low:g} to "
                f"{high:g}, got values from {least:g} to {largest:g}; widen the bounds or correct "
                "the values"
            )


@dataclass(frozen=True, eq=False)
class FittedPreprocessing:
    """Preprocessing with its means and standard deviations, as `Preprocessing.fit` returns it.

    Attributes
    ----------
    shape : tuple of int
        Shape of the tensor.
    value_transform : {"log1p"} or None
        Function of every value.
    mean : scalar or None
        The grand mean; ``None`` if nothing is subtracted.
    effects : mapping of int to array
        One effect per slice, for every mode that has effects.
    standardize : int or None
        Mode whose slices are divided by ``stds``.
    stds : array or None
        One standard deviation per slice of that mode.
    clip : pair of float
        Smallest and largest value that `inverse_transform` returns, rounded to the data type of the
        values.
    degrees_of_freedom : float
        Effective degrees of freedom of mean and effects.

    Raises
    ------
    InputError
        If there are effects without a mean, or only one of ``standardize`` and ``stds``, if an
        array does not have one number per slice, or if a number is not finite or a standard
        deviation not positive.
    """

    shape: tuple[int, ...]
    value_transform: Literal["log1p"] | None
    mean: Any
    effects: Mapping[int, Array]
    standardize: int | None
    stds: Array | None
    clip: tuple[float, float]
    degrees_of_freedom: float = 0.0

    def __post_init__(self) -> None:
        if self.effects and self.mean is None:
            raise InputError(
                f"effects need a mean, got effects of {_list_modes(sorted(self.effects))} without "
                "one; fit again"
            )
        if (self.standardize is None) != (self.stds is None):
            given, missing = (
                ("standardize", "stds") if self.stds is None else ("stds", "standardize")
            )
            raise InputError(f"{given} needs {missing}, got None; give both or neither")
        pairs = list(self.effects.items())
        if self.standardize is not None and self.stds is not None:
            pairs.append((self.standardize, self.stds))
        for k, array in pairs:
            if not 0 <= k < len(self.shape) or array.shape != self.shape[k : k + 1]:
                raise InputError(
                    f"effects and standard deviations must have one number per slice of their mode "
                    f"in shape {self.shape}, got shape {array.shape} for mode {k}; fit again"
                )
        for numbers in ([] if self.mean is None else [self.mean], *self.effects.values()):
            if not _are_finite(numbers):
                raise InputError(
                    "mean and effects must be finite numbers, got others; fit again, to data in "
                    "another unit if they are very large"
                )
        if self.stds is not None and not _are_positive(self.stds):
            raise InputError(
                "standard deviations must be finite and positive, got others; fit again, to data "
                "in another unit if they are very large or small"
            )

    @classmethod
    def identity(cls, shape: tuple[int, ...]) -> FittedPreprocessing:
        """Return the identity, for a tensor of a given shape."""
        return cls(shape, None, None, {}, None, None, (-math.inf, math.inf))

    @property
    def is_identity(self) -> bool:
        """Whether neither `transform` nor `inverse_transform` changes values."""
        return self.keeps_values and self.clip == (-math.inf, math.inf)

    @property
    def keeps_values(self) -> bool:
        """Whether `transform` changes no value; `inverse_transform` may still clip."""
        return self.value_transform is None and self.mean is None and self.standardize is None

    def transform(self, indices: Any, values: Any) -> Array:
        """Transform values to the units of the fit; the data type is kept.

        Parameters
        ----------
        indices : array_like of int of shape (m, d)
            Indices of the values.
        values : array_like of shape (m,)
            Values in the units of the data.

        Returns
        -------
        ndarray of shape (m,)
            The transformed values.

        Raises
        ------
        InputError
            If indices and values do not match, or a value cannot be transformed.
        """
        indices, values = self._check(indices, values)
        if self.value_transform is not None:
            _check_above_minus_one(values)
        out = np.empty(values.shape, dtype=self._out_dtype(values))
        for part, work, offset, std in self._blocks(indices, values):
            if self.value_transform is not None:
                np.log1p(work, out=work)
            out[part] = (work - offset) / std
        return out

    def inverse_transform(self, indices: Any, values: Any) -> Array:
        """Transform values back to the units of the data, and clip them.

        Parameters
        ----------
        indices : array_like of int of shape (m, d)
            Indices of the values.
        values : array_like of shape (m,)
            Values in the units of the fit.

        Returns
        -------
        ndarray of shape (m,)
            Values in the units of the data.

        Raises
        ------
        InputError
            If indices and values do not match.
        """
        indices, values = self._check(indices, values)
        out = np.empty(values.shape, dtype=self._out_dtype(values))
        for part, work, offset, std in self._blocks(indices, values):
            out[part] = self._finish(work * std + offset)
        return out

    def inverse_transform_block(self, array: Array, keys: Sequence[Any] | None = None) -> Array:
        """Transform a block of the tensor back to the units of the data, and clip it.

        Parameters
        ----------
        array : ndarray
            Values in the units of the fit, with one axis per mode of the tensor.
        keys : sequence of slice or array_like of int, default=None
            Indices of the block along each mode, as ``np.ix_`` takes or returns them, or slices;
            ``None`` if the block is the whole tensor.

        Returns
        -------
        ndarray
            The block in the units of the data.

        Raises
        ------
        InputError
            If ``keys`` do not match the shapes of block and tensor.
        """
        array = _as_numbers(array)
        self._check_real(array)
        if keys is None:
            keys = [slice(None)] * len(self.shape)
        indices = [np.arange(n)[key].ravel() for n, key in zip(self.shape, keys, strict=False)]
        sizes = tuple(map(len, indices))
        if len(keys) != len(self.shape) or array.shape != sizes:
            raise InputError(
                f"a block needs one vector of indices per mode ({len(self.shape)}) and their "
                f"lengths as its shape, got {len(keys)} of lengths {sizes} for shape {array.shape}"
            )
        out = np.empty(array.shape, dtype=self._out_dtype(array))
        for part in _parts(sizes):
            near = [index[key] for index, key in zip(indices, part, strict=False)]
            offset, std = self._fitted_at(np.ix_(*near, *indices[len(part) :]))
            out[part] = self._finish(_widened(array[part]) * std + offset)
        return out

    def describe(self) -> str:
        """Describe the transformation in a sentence."""
        if self.is_identity:
            return "Values are fitted as they are."
        steps = ["log1p applied"] if self.value_transform else []
        if self.mean is not None:
            what = f"the grand mean {self.mean:.4g}"
            if self.effects:
                what += f" and an effect for every slice of {_list_modes(sorted(self.effects))}"
            steps.append(f"{what} subtracted")
        if self.stds is not None:
            low, high = self.stds.min(), self.stds.max()
            steps.append(
                f"slices of mode {self.standardize} divided by their standard deviations "
                f"({low:.3g} to {high:.3g})"
            )
        text = "; ".join(steps) or "values are fitted as they are"
        if self.clip != (-math.inf, math.inf):
            text += f"; imputed values clipped to between {self.clip[0]:g} and {self.clip[1]:g}"
        return f"{text[0].upper()}{text[1:]}."

    # files

    def as_arrays(self) -> dict[str, Array]:
        """Return the attributes as arrays, by name."""
        arrays = {
            "shape": np.array(self.shape),
            "value_transform": np.array(self.value_transform or ""),
            "clip": np.array(self.clip),
            "degrees_of_freedom": np.array(self.degrees_of_freedom),
        }
        if self.mean is not None:
            arrays["mean"] = np.array(self.mean)
            arrays |= {f"effect_{k}": effect for k, effect in self.effects.items()}
        if self.stds is not None:
            arrays |= {"standardize": np.array(self.standardize), "stds": self.stds}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> FittedPreprocessing:
        """Return the preprocessing that `as_arrays` has written."""
        try:
            shape = as_shape(arrays["shape"].tolist())
            is_standardized = "stds" in arrays
            low, high = arrays["clip"].tolist()
            modes = [k for k in range(len(shape)) if f"effect_{k}" in arrays]
            return cls(
                shape=shape,
                value_transform=_as_transform(str(arrays["value_transform"])),
                mean=arrays["mean"][()] if "mean" in arrays else None,
                effects={k: arrays[f"effect_{k}"] for k in modes},
                standardize=int(arrays["standardize"]) if is_standardized else None,
                stds=arrays["stds"] if is_standardized else None,
                clip=(low, high),
                degrees_of_freedom=float(arrays["degrees_of_freedom"]),
            )
        except KeyError as error:
            raise InputError(
                f"preprocessing needs an array that is not there: {error}; write the file anew"
            ) from error

    # one block of values at a time

    def _check(self, indices: Any, values: Any) -> tuple[Array, Array]:
        indices = check_indices(np.asarray(indices), self.shape)
        values = _as_values(values, len(indices))
        self._check_real(values)
        return indices, values

    def _check_real(self, values: Array) -> None:
        if values.dtype.kind == "c" and (
            self.value_transform or self.clip != (-math.inf, math.inf)
        ):
            raise InputError(
                "preprocessing with transform or clip takes real values, got complex ones; take "
                "their real part"
            )

    def _out_dtype(self, values: Array) -> np.dtype[Any]:
        is_complex = self.mean is not None and np.iscomplexobj(self.mean)
        return np.result_type(values.dtype, np.complex64 if is_complex else np.float32)

    def _blocks(self, indices: Array, values: Array) -> Iterator[tuple[slice, Array, Any, Any]]:
        for first in range(0, len(values), BLOCK):
            part = slice(first, first + BLOCK)
            offset, std = self._fitted_at(tuple(indices[part].T))
            yield part, _widened(values[part]), offset, std

    def _fitted_at(self, indices: Sequence[Array]) -> tuple[Any, Any]:
        """Return what is subtracted and divided by, at index arrays that broadcast."""
        offset = 0.0 if self.mean is None else self.mean
        for k, effect in self.effects.items():
            offset = offset + effect[indices[k]]
        if self.standardize is None:
            return offset, 1.0
        stds: Any = self.stds  # there are both or neither
        return offset, stds[indices[self.standardize]]

    def _finish(self, work: Array) -> Array:
        if self.value_transform is not None:
            work = np.expm1(work)
        return work if self.clip == (-math.inf, math.inf) else np.clip(work, *self.clip)


# checks


_CENTER = "center must be None, 'auto', 'mean', 'all' or a sequence of modes"


def _as_transform(name: str) -> Literal["log1p"] | None:
    if name not in ("", "log1p"):
        raise InputError(
            f"preprocessing must have no transform or 'log1p', got {name!r}; a later version of "
            "tensormend may read it"
        )
    return "log1p" if name == "log1p" else None


def _is_mode(mode: Any) -> bool:
    return isinstance(mode, int | np.integer) and not isinstance(mode, bool)


def _as_modes(center: Any) -> tuple[int, ...]:
    is_list = isinstance(center, Sequence | np.ndarray)
    if not is_list or not all(_is_mode(k) for k in center):
        raise InputError(f"{_CENTER}, got {center!r}; for example center=(0, 2)")
    if not len(center):
        raise InputError(
            "center must name a mode, got none; use 'mean' for the grand mean alone, or None"
        )
    if len(set(center)) < len(center):
        raise InputError(f"center must name a mode only once, got {center}; drop repeats")
    return tuple(int(k) for k in center)


def _bounds(clip: Any) -> tuple[float, float]:
    if clip is None:
        return -math.inf, math.inf
    try:
        low, high = clip
        low = -math.inf if low is None else float(low)
        high = math.inf if high is None else float(high)
    except (TypeError, ValueError):
        low, high = math.nan, math.nan
    if not low < high:
        raise InputError(
            f"clip must be a pair of bounds, the smaller first, None for no bound, got {clip!r}; "
            "for example clip=(0, None)",
            parameter="clip",
        )
    return low, high


def _as_numbers(given: Any) -> Array:
    values: Array = np.asarray(given)
    if values.dtype.kind not in "biufc":
        raise InputError(f"values must be numbers, got an array of {values.dtype}; convert them")
    if is_inexact(values.dtype):
        return values
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def _are_finite(given: Any) -> bool:
    numbers: Array = np.asarray(given)
    return numbers.dtype.kind in "biufc" and bool(np.isfinite(numbers).all())


def _are_positive(numbers: Array) -> bool:
    return numbers.dtype.kind in "biuf" and bool(np.all((numbers > 0) & np.isfinite(numbers)))


def _as_values(given: Any, size: int) -> Array:
    values = _as_numbers(given)
    if values.shape != (size,):
        raise InputError(
            f"values must be one per row of indices, shape ({size},), got shape {values.shape}; "
            "give as many of both"
        )
    bad = ~np.isfinite(values)
    if bad.any():
        raise InputError(
            f"values must be finite, got {int(bad.sum())} NaN or infinite (first at position "
            f"{int(np.argmax(bad))}); drop these entries"
        )
    return values


def _check_above_minus_one(values: Array) -> None:
    least = float(values.min())
    if least <= -1:
        raise InputError(
            f"transform='log1p' takes values above -1, got {least:g}; shift the values, or leave "
            "the transform out",
            parameter="transform",
        )


def _parts(sizes: Sequence[int]) -> Iterator[tuple[slice, ...]]:
    """Divide an array into parts of at most `BLOCK` values: slices of its first modes."""
    widths = [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
    mode = next(k for k, width in enumerate(widths) if width <= BLOCK)
    rows = BLOCK // max(1, widths[mode])
    for before in np.ndindex(*sizes[:mode]):
        for first in range(0, sizes[mode], rows):
            yield (*(slice(i, i + 1) for i in before), slice(first, first + rows))


def _widened(values: Array) -> Array:
    return values.astype(np.result_type(values.dtype, np.float64))


def _list_modes(modes: Sequence[int]) -> str:
    if len(modes) == 1:
        return f"mode {modes[0]}"
    return f"modes {', '.join(map(str, modes[:-1]))} and {modes[-1]}"
