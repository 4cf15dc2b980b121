"""One case for every kind of data that `complete` takes, all of the same tensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import sparse
import xarray as xr

import tensormend as tm

SHAPE = (6, 7, 8)
OBSERVED = np.random.default_rng(1).random(SHAPE) < 0.7
INDICES = np.argwhere(OBSERVED)


def _whole_numbers(seed: int) -> Any:
    """Return a tensor of rank 2 whose entries are whole numbers, exact in every data type."""
    rng = np.random.default_rng(seed)
    vectors = [[rng.choice([-3, -2, -1, 1, 2, 3], n) for n in SHAPE] for _ in range(2)]
    return sum(np.einsum("i,j,k", *three) for three in vectors).astype(float)


TRUTH = _whole_numbers(0)
OTHER = tm.thosvd(_whole_numbers(5), 2)
"""A model that is not the truth, to tell the observed from the filled in."""

WITH_NAN = np.where(OBSERVED, TRUTH, np.nan)
FLAGS = np.einsum("i,j,k", *(np.arange(n) % 3 > 0 for n in SHAPE))

CITIES = list("FBDACE")  # not in order
DAYS = pd.date_range("2020-01-29", periods=7, tz=None)
LEVELS = pd.CategoricalIndex(
    ["p", "o", "n", "m", "l", "k", "j", "i"], categories=list("ponmlkji"), ordered=True
)


def _read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


def make_dataarray(values: Any = WITH_NAN) -> Any:
    """Return a DataArray with coordinates of every sort, one mode without any."""
    return xr.DataArray(
        values,
        dims=["city", "day", "band"],
        coords={
            "city": CITIES,
            "day": DAYS,
            "wavelength": ("band", np.linspace(0.4, 2.5, SHAPE[2])),
            "height": (("city", "band"), np.arange(48.0).reshape(6, 8)),
            "run": 7,
        },
        name="radiance",
        attrs={"units": "K", "history": [1, 2]},
    )


def make_series(names: Any = ("city", "day", "level"), values: Any = WITH_NAN) -> Any:
    """Return a Series without the unknown rows, in the order of a shuffled deck."""
    index = pd.MultiIndex.from_product([CITIES, DAYS, LEVELS], names=names)
    series = pd.Series(values.ravel(), index=index, name="flux").dropna()
    return series.iloc[np.random.default_rng(3).permutation(len(series))]


def make_frame(values: Any = WITH_NAN) -> Any:
    """Return the same as a long table, the unknown rows with NaN, a column more than needed."""
    index = pd.MultiIndex.from_product([CITIES, DAYS, LEVELS], names=["city", "day", "level"])
    frame = pd.Series(values.ravel(), index=index, name="flux").reset_index()
    return frame.assign(note="x").sample(frac=1, random_state=0)


def _from_series(series: Any) -> Any:
    """Turn a completed Series into an array in the order of the lists above."""
    wanted = pd.MultiIndex.from_product([CITIES, DAYS, LEVELS])
    return series.reindex(wanted).to_numpy().reshape(SHAPE)


def _from_frame(frame: Any) -> Any:
    return _from_series(frame.set_index(["city", "day", "level"])["flux"])


@dataclass(frozen=True)
class Case:
    """Arguments of `complete`, the full tensor, and how to make completed data an array of it."""

    given: Callable[[], dict[str, Any]]
    type: type = np.ndarray
    dtype: str = "float64"
    truth: Any = field(default_factory=lambda: TRUTH)
    back: Callable[[Any], Any] = np.asarray


def _array(dtype: str) -> Case:
    stored = np.dtype(dtype)
    kept = stored.newbyteorder("=").name
    truth = TRUTH * (1 + 2j) if stored.kind == "c" else TRUTH
    computed = kept if kept in ("float32", "float64", "complex64", "complex128") else "float64"
    return Case(
        lambda: {"data": np.where(OBSERVED, truth, np.nan).astype(dtype)},
        dtype=computed,
        truth=truth,
    )


TABLE: dict[str, Any] = {"modes": ["city", "day", "level"], "value_column": "flux"}

KINDS: dict[str, Case] = {
    "TensorData": Case(
        lambda: {"data": tm.TensorData(WITH_NAN, dims=("city", "day", "band"))},
        tm.TensorData,
        back=lambda data: data.todense(),
    ),
    "sparse TensorData": Case(
        lambda: {"data": tm.TensorData(TRUTH[OBSERVED], indices=INDICES, shape=SHAPE)},
        tm.TensorData,
        back=lambda data: data.todense(),
    ),
    "array": _array("float64"),
    "single precision": _array("float32"),
    "half precision": _array("float16"),
    "extended precision": _array("longdouble"),
    "complex": _array("complex128"),
    "complex single precision": _array("complex64"),
    "big-endian": _array(">f8"),
    "big-endian single precision": _array(">f4"),
    "big-endian complex": _array(">c16"),
    "Fortran order": Case(lambda: {"data": np.asfortranarray(WITH_NAN)}),
    "read-only": Case(lambda: {"data": _read_only(WITH_NAN.copy())}),
    "strided": Case(lambda: {"data": np.repeat(WITH_NAN, 2, axis=1)[:, ::2]}),
    "nested lists": Case(lambda: {"data": WITH_NAN.tolist()}),
    "observed": Case(lambda: {"data": np.where(OBSERVED, TRUTH, 99.0), "observed": OBSERVED}),
    "observed over NaN": Case(lambda: {"data": WITH_NAN, "observed": OBSERVED}),
    "integers": Case(lambda: {"data": TRUTH.astype(int), "observed": OBSERVED}),
    "big-endian integers": Case(lambda: {"data": TRUTH.astype(">i2"), "observed": OBSERVED}),
    "booleans": Case(lambda: {"data": FLAGS, "observed": OBSERVED}, truth=FLAGS.astype(float)),
    "masked array": Case(
        lambda: {"data": np.ma.MaskedArray(TRUTH, mask=~OBSERVED, fill_value=-9)}, np.ma.MaskedArray
    ),
    "masked integers": Case(
        lambda: {"data": np.ma.MaskedArray(TRUTH.astype(int), mask=~OBSERVED)}, np.ma.MaskedArray
    ),
    "indices": Case(
        lambda: {"data": TRUTH[OBSERVED][::-1], "indices": INDICES[::-1], "shape": SHAPE}
    ),
    "indices in columns": Case(
        lambda: {
            "data": TRUTH[OBSERVED].astype(">i8"),
            "indices": np.asfortranarray(INDICES).astype(np.uint8),
            "shape": SHAPE,
        }
    ),
    "Series with indices": Case(
        lambda: {"data": pd.Series(TRUTH[OBSERVED]), "indices": INDICES, "shape": SHAPE}
    ),
    "DataArray": Case(lambda: {"data": make_dataarray()}, xr.DataArray),
    "DataArray with observed": Case(
        lambda: {
            "data": make_dataarray(TRUTH.astype(int)),
            "observed": make_dataarray(OBSERVED).transpose("band", "city", "day"),
        },
        xr.DataArray,
    ),
    "DataArray without coordinates": Case(lambda: {"data": xr.DataArray(WITH_NAN)}, xr.DataArray),
    "DataArray of a sparse.COO": Case(
        lambda: {"data": make_dataarray(sparse.COO.from_numpy(WITH_NAN, fill_value=np.nan))},
        xr.DataArray,
    ),
    "Series": Case(lambda: {"data": make_series()}, pd.Series, back=_from_series),
    "Series without names": Case(
        lambda: {"data": make_series([None, "day", None])}, pd.Series, back=_from_series
    ),
    "single precision Series": Case(
        lambda: {"data": make_series().astype("float32")}, pd.Series, "float32", back=_from_series
    ),
    "Series of nullable integers": Case(
        lambda: {"data": make_series().astype("Int64")}, pd.Series, back=_from_series
    ),
    "Series of nullable single precision": Case(
        lambda: {"data": make_series().astype("Float32")}, pd.Series, "float32", back=_from_series
    ),
    "sparse Series": Case(
        lambda: {"data": make_series().astype(pd.SparseDtype(float))}, pd.Series, back=_from_series
    ),
    "DataFrame": Case(
        lambda: {"data": make_frame().drop(columns="note")}, pd.DataFrame, back=_from_frame
    ),
    "DataFrame with columns named": Case(
        lambda: {"data": make_frame(), **TABLE}, pd.DataFrame, back=_from_frame
    ),
    "complex DataFrame": Case(
        lambda: {"data": make_frame(WITH_NAN * (1 + 2j)), **TABLE},
        pd.DataFrame,
        "complex128",
        TRUTH * (1 + 2j),
        _from_frame,
    ),
    "sparse.COO": Case(
        lambda: {"data": sparse.COO(INDICES.T, TRUTH[OBSERVED], shape=SHAPE)},
        sparse.COO,
        back=lambda data: data.todense(),
    ),
    "sparse.COO of integers": Case(
        lambda: {"data": sparse.COO(INDICES.T, TRUTH[OBSERVED].astype(int), shape=SHAPE)},
        sparse.COO,
        back=lambda data: data.todense(),
    ),
    "sparse.COO around NaN": Case(
        lambda: {
            "data": sparse.COO(
                np.indices(SHAPE).reshape(3, -1), WITH_NAN.ravel(), SHAPE, fill_value=np.nan
            )
        },
        sparse.COO,
        back=lambda data: data.todense(),
    ),
}
