"""pandas tables with one row per entry: a Series with a MultiIndex, or a long DataFrame."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from tensormend.core.algebra import Array, as_shape
from tensormend.data.observations.base import Keys, Labelled, Observations, as_numbers, is_kept
from tensormend.data.observations.columns import choose_columns, refuse_fractions, warn_wide
from tensormend.errors import InputError

__all__ = ["read_table"]


@dataclass(frozen=True, eq=False)
class TableContainer(Labelled):
    """Names of the modes, and their labels, each a pandas Index."""

    dims: tuple[Hashable, ...]
    coords: tuple[Any, ...] = field(repr=False)

    def wrap_factor(self, mode: int, factor: Array) -> Any:
        """Return a DataFrame with the labels as index and a column per component."""
        import pandas as pd

        columns = pd.RangeIndex(factor.shape[1], name="component")
        index = self.coords[mode].rename(self.dims[mode])
        return pd.DataFrame(factor, index=index, columns=columns)

    def entry_bytes(self, dtype: np.dtype[Any], order: int) -> int:
        """Return the bytes of one entry: its value and a label per mode."""
        return dtype.itemsize + order * np.dtype(np.intp).itemsize

    def label(self, mode: int, index: int) -> Any:
        """Return the label of an index."""
        return self.coords[mode][index]

    def locate(self, mode: int, label: Any) -> Array:
        """Return the indices that ``Series.loc`` selects."""
        import pandas as pd

        index = self.coords[mode]
        return np.asarray(pd.Series(np.arange(len(index)), index=index).loc[label])


@dataclass(frozen=True, eq=False)
class SeriesContainer(TableContainer):
    """A Series with a MultiIndex; it is returned over the full product of its levels."""

    words: ClassVar[str] = "a Series"
    levels: tuple[Hashable, ...]  # names of the levels, None for those without
    name: Hashable

    def wrap(self, block: Array, keys: Keys) -> Any:
        """Return a block of values as a Series; modes selected by one label are dropped."""
        import pandas as pd

        kept = [k for k, key in enumerate(keys) if is_kept(key)]
        if not kept:
            return block.reshape(-1)[0]
        parts = [self.coords[k][keys[k]] for k in kept]
        names = [self.levels[k] for k in kept]
        if len(kept) == 1:
            index = parts[0].rename(names[0])
        else:
            index = pd.MultiIndex.from_product(parts, names=names)
        return pd.Series(block.reshape(-1), index=index, name=self.name)


@dataclass(frozen=True, eq=False)
class FrameContainer(TableContainer):
    """A long DataFrame; it is returned with the same columns and a row for every entry."""

    words: ClassVar[str] = "a DataFrame"
    columns: tuple[Hashable, ...]
    value_column: Hashable

    def wrap(self, block: Array, keys: Keys) -> Any:
        """Return a block of values as rows; modes selected by one label keep their column."""
        import pandas as pd

        indices = np.indices(block.shape).reshape(block.ndim, -1)
        content: dict[Hashable, Any] = {self.value_column: block.reshape(-1)}
        for k, key in enumerate(keys):
            part = self.coords[k][key if is_kept(key) else [key]]
            content[self.dims[k]] = part.take(indices[k])
        return pd.DataFrame({name: content[name] for name in self.columns})


def read_table(
    data: Any, *, modes: Sequence[Hashable] | None = None, value_column: Hashable | None = None
) -> Observations:
    """Read a Series or DataFrame; an entry is missing if its value is NA or it has no row."""
    import pandas as pd

    names: tuple[Hashable, ...]
    if isinstance(data, pd.DataFrame):
        names, value_column = _choose_columns(data, modes, value_column)
        keys, column = [data[name] for name in names], data[value_column]
    elif isinstance(data, pd.Series) and isinstance(data.index, pd.MultiIndex):
        if modes is not None or value_column is not None:
            raise InputError(
                "modes and value_column name columns of a DataFrame, got a Series; omit them"
            )
        levels = tuple(data.index.names)
        names = tuple(f"level_{k}" if name is None else name for k, name in enumerate(levels))
        keys, column = [data.index.get_level_values(k) for k in range(len(names))], data
    else:
        raise InputError(
            f"data of pandas must be a Series with a MultiIndex or a long DataFrame, got "
            f"{type(data).__name__}; make one with data.set_index([...])['value']"
        )
    if len(data) == 0:
        raise InputError("data must have at least one observed entry, got a table without rows")
    found = [_find_labels(key, name) for key, name in zip(keys, names, strict=True)]
    labels = tuple(index for _, index in found)
    if isinstance(data, pd.DataFrame):
        columns = tuple(name for name in data.columns if name in (*names, value_column))
        container: TableContainer = FrameContainer(names, labels, columns, value_column)
    else:
        container = SeriesContainer(names, labels, levels, data.name)
    indices = np.stack([codes for codes, _ in found], axis=1).astype(np.int64, copy=False)
    _refuse_repeats(indices, container)
    if isinstance(data, pd.DataFrame) and modes is None:
        warn_wide(names, indices, labels)
    values = _as_values(column)
    observed = ~np.isnan(values)
    shape = as_shape([len(index) for index in labels])
    return Observations(indices[observed], values[observed], shape, container)


def _choose_columns(
    frame: Any, modes: Sequence[Hashable] | None, value_column: Hashable | None
) -> tuple[tuple[Hashable, ...], Hashable]:
    """Return the columns of labels and that of values, by default the last."""
    names, value_column = choose_columns(list(frame.columns), modes, value_column)
    if modes is None:
        for name in names:
            if getattr(frame[name].dtype, "kind", "O") in "fc":
                refuse_fractions(name)
    return names, value_column


def _find_labels(column: Any, name: Hashable) -> tuple[Array, Any]:
    """Return codes and sorted labels of a column; of a categorical, all its categories."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        codes = np.asarray(column.array.codes)
        labels = pd.CategoricalIndex(column.dtype.categories, dtype=column.dtype)
    else:
        try:
            codes, labels = pd.factorize(column, sort=True)
        except TypeError as error:
            raise InputError(
                f"labels of a mode must be of a type that can be sorted, got in {name!r}: {error}; "
                "convert them, for example to strings"
            ) from error
    if (codes < 0).any():
        raise InputError(
            f"every row must have a label in each mode, got none for {name!r} in row "
            f"{int(np.argmax(codes < 0))}; drop such rows"
        )
    return codes, labels


def _refuse_repeats(indices: Array, container: TableContainer) -> None:
    import pandas as pd

    repeated = pd.DataFrame(indices).duplicated().to_numpy()
    if repeated.any():
        row = int(np.argmax(repeated))
        raise InputError(
            f"every entry must be in one row, got {int(repeated.sum())} repeated rows (first: "
            f"{container.describe_entry(indices[row])} in row {row}); average the rows, "
            "for example with groupby, or drop some"
        )


def _as_values(column: Any) -> Array:
    """Return the numbers of a column of any numeric type, NaN where missing."""
    dtype = column.dtype
    if isinstance(dtype, np.dtype) or getattr(dtype, "kind", "O") not in "biuf":
        return as_numbers(column.to_numpy())
    single = dtype.kind == "f" and getattr(dtype, "itemsize", 8) == 4
    plain = np.float32 if single else np.float64
    return np.asarray(column.to_numpy(dtype=plain, na_value=np.nan))
