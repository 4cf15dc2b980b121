"""Preprocessing that real data need: fitted on the observed entries alone, undone exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tensormend.completion.means import ModeMeans, fit_deviations, fit_mode_means
from tensormend.core.algebra import Array, as_shape, is_inexact, normalize_mode
from tensormend.core.fibres import check_indices
from tensormend.errors import InputError

__all__ = ["FittedPreprocessing", "Preprocessing"]

AUTO_SHARE = 0.5  # of the mean square, below which the means must bring it to be worth taking out
BLOCK = 2**18  # values worked on at a time, in double precision


@dataclass(frozen=True)
class Preprocessing:
    """What is done to the values before a fit, and undone after it; nothing by default.

    Values take the steps in the order of the parameters; the inverse takes them
    back.

    Parameters
    ----------
    log : take ``log1p``, for counts and other values above -1
    center : subtract ``mean + sum_k effect_k[i_k]``, a grand mean and one effect for every slice
        of some modes: all modes (``True``), those named (``()`` for the grand mean alone), or none
        (``False``). ``"auto"`` takes all modes if that brings the mean square of the values below
        half of what it was, and none otherwise; the effects count against it, as in generalized
        cross-validation.
    scale : a mode whose slices are divided by their standard deviation, each about its own mean
    clip : least and largest value that the inverse may give, ``None`` for no bound on a side

    Notes
    -----
    The means are fitted by least squares on the observed entries, all effects at once, with
    ``5 ||effects||^2`` added to the squares: a slice with ``n`` observations keeps about
    ``n / (n + 5)`` of its effect, and one without any has none. Logarithms of deviations are
    shrunk alike, to their mean over the slices; slices that are constant or not seen twice take
    that mean.

    Means added back raise the multilinear rank, by up to 2 in every mode. Data that are exactly of
    low rank are better left as they are.

    Examples
    --------
    >>> places = np.array([[0, 0], [0, 1], [1, 0], [2, 1]])
    >>> values = np.array([3.0, 5.0, 0.0, 8.0])
    >>> fitted = Preprocessing(log=True, center=True, clip=(0, None)).fit(places, values, (3, 2))
    >>> inside = fitted.transform(places, values)
    >>> bool(np.allclose(fitted.inverse_transform(places, inside), values))
    True
    """

    log: bool = False
    center: bool | Literal["auto"] | Sequence[int] = False
    scale: int | None = None
    clip: tuple[float | None, float | None] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.log, bool):
            raise InputError(f"log must be True or False, got {self.log!r}")
        if not isinstance(self.center, bool | str) or self.center not in (True, False, "auto"):
            object.__setattr__(self, "center", _as_modes(self.center))
        if self.scale is not None and not _is_mode(self.scale):
            raise InputError(f"scale must be one mode, or None for no scaling, got {self.scale!r}")
        _bounds(self.clip)

    @property
    def is_nothing(self) -> bool:
        """Whether nothing is done to values, so that there is nothing to fit."""
        return self == Preprocessing()

    def fit(self, indices: Any, values: Any, shape: Sequence[int]) -> FittedPreprocessing:
        """Fit the means and deviations to the observed entries of a tensor.

        Parameters
        ----------
        indices : ``m x d`` integers, the places of the values
        values : the observed values
        shape : sizes of the modes
        """
        shape = as_shape(shape)
        indices = check_indices(np.asarray(indices), shape).astype(np.int64, copy=False)
        values = _as_values(values, len(indices))
        modes = self._center_modes(len(shape))
        scale = None if self.scale is None else normalize_mode(self.scale, len(shape))
        low, high = _bounds(self.clip)
        self._check_values(values, low, high)
        work = _widened(values)
        if self.log:
            np.log1p(work, out=work)
        # a power of two loses no bit, and squares neither overflow nor vanish
        unit = 2.0 ** math.floor(math.log2(np.abs(work.view(np.float64)).max() or 1.0))
        work /= unit
        means = self._fit_means(indices, work, shape, modes)
        if means is not None:
            work = means.left
        deviations = None
        if scale is not None:
            deviations = unit * fit_deviations(indices[:, scale], shape[scale], work)
        pairs = () if means is None else zip(modes, means.effects, strict=True)
        return FittedPreprocessing(
            shape=shape,
            log=self.log,
            mean=None if means is None else unit * means.mean,
            effects={k: unit * effect for k, effect in pairs},
            scale=scale,
            deviations=deviations,
            clip=(low, high),
            degrees_of_freedom=0.0 if means is None else means.degrees_of_freedom,
        )

    def _fit_means(
        self, indices: Array, values: Array, shape: tuple[int, ...], modes: tuple[int, ...]
    ) -> ModeMeans | None:
        if self.center is False:
            return None
        columns, sizes = [indices[:, k] for k in modes], [shape[k] for k in modes]
        means = fit_mode_means(columns, sizes, values)
        if self.center == "auto" and means.error >= AUTO_SHARE * np.mean(np.abs(values) ** 2):
            return None
        return means

    def _center_modes(self, order: int) -> tuple[int, ...]:
        if isinstance(self.center, bool) or self.center == "auto":
            return tuple(range(order))
        modes = tuple(normalize_mode(int(k), order) for k in self.center)
        if len(set(modes)) < len(modes):
            raise InputError(f"center must name every mode once, got {self.center}; drop repeats")
        return modes

    def _check_values(self, values: Array, low: float, high: float) -> None:
        if values.dtype.kind == "c":
            if self.log or self.clip is not None:
                raise InputError(
                    "log and clip are for real values, got complex ones; leave both out"
                )
            return
        if self.log:
            _check_above_minus_one(values)
        least, largest = float(values.min()), float(values.max())
        if least < low or largest > high:
            raise InputError(
                f"observed values must lie within the bounds that clip gives, {low:g} to "
                f"{high:g}, got values from {least:g} to {largest:g}; widen the bounds or correct "
                "the values"
            )


@dataclass(frozen=True, eq=False)
class FittedPreprocessing:
    """Preprocessing with its means and deviations: made by `Preprocessing.fit`.

    Attributes
    ----------
    shape : sizes of the modes
    log : whether ``log1p`` is taken
    mean : the grand mean; ``None`` where nothing is subtracted
    effects : per mode that has them, one effect a slice, added to the mean
    scale : the mode whose slices are divided by ``deviations``; ``None`` where none is
    deviations : one standard deviation a slice of that mode, or ``None``
    clip : least and largest value that `inverse_transform` gives
    degrees_of_freedom : what the means took from the data, shrinkage counted
    """

    shape: tuple[int, ...]
    log: bool
    mean: Any
    effects: Mapping[int, Array]
    scale: int | None
    deviations: Array | None
    clip: tuple[float, float]
    degrees_of_freedom: float = 0.0

    def __post_init__(self) -> None:
        pairs = list(self.effects.items())
        if self.scale is not None and self.deviations is not None:
            pairs.append((self.scale, self.deviations))
        for k, array in pairs:
            if not 0 <= k < len(self.shape) or array.shape != self.shape[k : k + 1]:
                raise InputError(
                    f"effects and deviations must have one number for each slice of their mode in "
                    f"shape {self.shape}, got shape {array.shape} for mode {k}"
                )

    @classmethod
    def identity(cls, shape: tuple[int, ...]) -> FittedPreprocessing:
        """Return what does nothing."""
        return cls(shape, False, None, {}, None, None, (-math.inf, math.inf))

    @property
    def is_identity(self) -> bool:
        """Whether values stay as they are, both ways."""
        steps = (self.log, self.mean is not None, self.scale is not None)
        return not any(steps) and self.clip == (-math.inf, math.inf)

    def transform(self, indices: Any, values: Any) -> Array:
        """Bring values at ``m x d`` indices to where a fit should work; the data type is kept."""
        indices, values = self._check(indices, values)
        if self.log:
            _check_above_minus_one(values)
        out = np.empty(values.shape, dtype=self._out_dtype(values))
        for part, work, offset, deviation in self._blocks(indices, values):
            if self.log:
                np.log1p(work, out=work)
            out[part] = (work - offset) / deviation
        return out

    def inverse_transform(self, indices: Any, values: Any) -> Array:
        """Bring values at ``m x d`` indices back to the units of the data, within the bounds."""
        indices, values = self._check(indices, values)
        out = np.empty(values.shape, dtype=self._out_dtype(values))
        for part, work, offset, deviation in self._blocks(indices, values):
            out[part] = self._unlog(work * deviation + offset)
        return out

    def inverse_transform_block(self, array: Array, keys: Sequence[Any] | None = None) -> Array:
        """Bring a block of the tensor back to the units of the data, within the bounds.

        Parameters
        ----------
        array : the block, with as many axes as the tensor has modes
        keys : per mode the indices that the block has, as ``np.ix_`` takes or gives them, or a
            slice; by default the whole tensor
        """
        array = _as_numbers(array)
        self._check_real(array)
        if keys is None:
            keys = [slice(None)] * len(self.shape)
        places = [np.arange(n)[key].ravel() for n, key in zip(self.shape, keys, strict=False)]
        sizes = tuple(map(len, places))
        if len(keys) != len(self.shape) or array.shape != sizes:
            raise InputError(
                f"a block needs one vector of indices per mode ({len(self.shape)}) and their "
                f"lengths as its shape, got {len(keys)} of lengths {sizes} for shape {array.shape}"
            )
        out = np.empty(array.shape, dtype=self._out_dtype(array))
        rows = max(1, BLOCK // max(1, math.prod(sizes[1:])))
        for first in range(0, len(array), rows):
            part = slice(first, first + rows)
            offset, deviation = self._fitted_at(np.ix_(places[0][part], *places[1:]))
            out[part] = self._unlog(_widened(array[part]) * deviation + offset)
        return out

    def describe(self) -> str:
        """Say in a sentence what is done."""
        if self.is_identity:
            return "Values are taken as they are."
        steps = ["log1p taken"] if self.log else []
        if self.mean is not None:
            what = f"the grand mean {self.mean:.4g}"
            if self.effects:
                what += f" and an effect for every slice of {_list_modes(sorted(self.effects))}"
            steps.append(f"{what} taken out")
        if self.deviations is not None:
            low, high = self.deviations.min(), self.deviations.max()
            steps.append(
                f"slices of mode {self.scale} divided by their standard deviations "
                f"({low:.3g} to {high:.3g})"
            )
        text = "; ".join(steps) or "values are taken as they are"
        if self.clip != (-math.inf, math.inf):
            text += f"; what comes out is kept between {self.clip[0]:g} and {self.clip[1]:g}"
        return f"{text[0].upper()}{text[1:]}."

    # files

    def as_arrays(self) -> dict[str, Array]:
        """Return everything by name, as arrays."""
        arrays = {
            "shape": np.array(self.shape),
            "log": np.array(self.log),
            "clip": np.array(self.clip),
            "degrees_of_freedom": np.array(self.degrees_of_freedom),
        }
        if self.mean is not None:
            arrays["mean"] = np.array(self.mean)
            arrays |= {f"effect_{k}": effect for k, effect in self.effects.items()}
        if self.deviations is not None:
            arrays |= {"scale": np.array(self.scale), "deviations": self.deviations}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> FittedPreprocessing:
        """Return the preprocessing of which `as_arrays` was made."""
        try:
            shape = as_shape(arrays["shape"].tolist())
            is_scaled = "deviations" in arrays
            low, high = arrays["clip"].tolist()
            modes = [k for k in range(len(shape)) if f"effect_{k}" in arrays]
            return cls(
                shape=shape,
                log=bool(arrays["log"]),
                mean=arrays["mean"][()] if "mean" in arrays else None,
                effects={k: arrays[f"effect_{k}"] for k in modes},
                scale=int(arrays["scale"]) if is_scaled else None,
                deviations=arrays["deviations"] if is_scaled else None,
                clip=(low, high),
                degrees_of_freedom=float(arrays["degrees_of_freedom"]),
            )
        except KeyError as error:
            raise InputError(f"preprocessing needs an array that is not there: {error}") from error

    # one block of values at a time

    def _check(self, indices: Any, values: Any) -> tuple[Array, Array]:
        indices = check_indices(np.asarray(indices), self.shape)
        values = _as_values(values, len(indices))
        self._check_real(values)
        return indices, values

    def _check_real(self, values: Array) -> None:
        if values.dtype.kind == "c" and (self.log or self.clip != (-math.inf, math.inf)):
            raise InputError(
                "this preprocessing has a logarithm or bounds, which are for real values, got "
                "complex ones; take their real part"
            )

    def _out_dtype(self, values: Array) -> np.dtype[Any]:
        is_complex = self.mean is not None and np.iscomplexobj(self.mean)
        return np.result_type(values.dtype, np.complex64 if is_complex else np.float32)

    def _blocks(self, indices: Array, values: Array) -> Iterator[tuple[slice, Array, Any, Any]]:
        for first in range(0, len(values), BLOCK):
            part = slice(first, first + BLOCK)
            offset, deviation = self._fitted_at(tuple(indices[part].T))
            yield part, _widened(values[part]), offset, deviation

    def _fitted_at(self, places: Sequence[Array]) -> tuple[Any, Any]:
        """Return what is subtracted and divided by, at index arrays that broadcast."""
        offset = 0.0 if self.mean is None else self.mean
        for k, effect in self.effects.items():
            offset = offset + effect[places[k]]
        if self.scale is None or self.deviations is None:
            return offset, 1.0
        return offset, self.deviations[places[self.scale]]

    def _unlog(self, work: Array) -> Array:
        if self.log:
            work = np.expm1(work)
        return work if self.clip == (-math.inf, math.inf) else np.clip(work, *self.clip)


# checks


def _is_mode(mode: Any) -> bool:
    return isinstance(mode, int | np.integer) and not isinstance(mode, bool)


def _as_modes(center: Any) -> tuple[int, ...]:
    is_list = isinstance(center, Sequence | np.ndarray) and not isinstance(center, str)
    if not is_list or not all(_is_mode(k) for k in center):
        raise InputError(
            f"center must be True, False, 'auto' or a tuple of modes, got {center!r}; "
            "for example center=(0, 2)"
        )
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
            "for example clip=(0, None)"
        )
    return low, high


def _as_numbers(given: Any) -> Array:
    values: Array = np.asarray(given)
    if values.dtype.kind not in "biufc":
        raise InputError(f"values must be numbers, got an array of {values.dtype}")
    if is_inexact(values.dtype):
        return values
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def _as_values(given: Any, size: int) -> Array:
    values = _as_numbers(given)
    if values.shape != (size,):
        raise InputError(
            f"values must be one per row of indices, shape ({size},), got shape {values.shape}"
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
            f"log takes log1p of the values, which must be above -1, got {least:g}; shift the "
            "values, or leave log out"
        )


def _widened(values: Array) -> Array:
    return values.astype(np.result_type(values.dtype, np.float64))


def _list_modes(modes: Sequence[int]) -> str:
    if len(modes) == 1:
        return f"mode {modes[0]}"
    return f"modes {', '.join(map(str, modes[:-1]))} and {modes[-1]}"
