"""The problems of the benchmark: what is drawn from a seed, and how it is handed to a worker."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tensormend.core.algebra import Array
from tensormend.core.tucker import Tucker, degrees_of_freedom
from tensormend.operators import Sampling
from tensormend.simulate import conditioned_tucker, random_tucker, sample_indices

__all__ = ["ACCURACY", "GRID", "RACES", "Case", "Given", "load_problem", "save_problem"]

ACCURACY = 1e-10
ENOUGH = 6  # samples per degree of freedom below which a cell of the grid is left out


@dataclass(frozen=True)
class Case:
    """A random tensor of low multilinear rank of which some entries are observed.

    Attributes
    ----------
    name : str
        What tables and records call it.
    n : int
        The shape is ``n`` in each of ``order`` modes.
    rank : int
        The same in every mode.
    ratio : float
        Fraction of the entries observed.
    order : int, default=3
        The shape is ``n`` in each of ``order`` modes.
    condition : float, optional
        Condition number of mode 1, or ``None`` for a Gaussian core.
    accuracy : float, default=ACCURACY
        True relative error that a run must reach to be timed.
    seed : int, default=0
        Seed of the tensor; the entries have the next.
    """

    name: str
    n: int
    rank: int
    ratio: float
    order: int = 3
    condition: float | None = None
    accuracy: float = ACCURACY
    seed: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor."""
        return (self.n,) * self.order

    @property
    def size(self) -> int:
        """Number of entries observed."""
        return round(self.ratio * math.prod(self.shape))

    @property
    def samples_per_degree(self) -> float:
        """Entries observed per degree of freedom."""
        return self.size / degrees_of_freedom(self.shape, (self.rank,) * self.order)

    def as_record(self) -> dict[str, Any]:
        """Return what a record says of the case."""
        return {**asdict(self), "size": self.size}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Case:
        """Return the case of a record."""
        return cls(**{name: record[name] for name in cls.__dataclass_fields__})


@dataclass(frozen=True, eq=False)
class Given:
    """What a contestant is given: entries and rank; and the truth, for the true error."""

    shape: tuple[int, ...]
    rank: tuple[int, ...]
    indices: Array
    values: Array
    truth: Tucker

    @cached_property
    def full(self) -> Array:
        """The true tensor as a dense array, for methods that work with such."""
        return self.truth.todense()

    @cached_property
    def mask(self) -> Array:
        """Boolean array, true where an entry is observed."""
        mask = np.zeros(self.shape, dtype=bool)
        mask[tuple(self.indices.T)] = True
        return mask

    @cached_property
    def filled(self) -> Array:
        """The observed entries in a dense array, zero elsewhere."""
        data = np.zeros(self.shape)
        data[tuple(self.indices.T)] = self.values
        return data


def draw_problem(case: Case) -> Given:
    """Draw the tensor and the entries of a case."""
    if case.condition is None:
        truth = random_tucker(case.shape, case.rank, rng=case.seed)
    else:
        truth = conditioned_tucker(case.shape, case.rank, case.condition, rng=case.seed)
    indices = sample_indices(case.shape, case.ratio, rng=case.seed + 1)
    values = Sampling(case.shape, indices).forward(truth)
    return Given(case.shape, truth.rank, indices, values, truth)


def save_problem(case: Case, folder: Path) -> Path:
    """Draw a case and write its arrays into a new folder below ``folder``."""
    target = folder / f"{case.name}-{case.seed}"
    target.mkdir()
    given = draw_problem(case)
    arrays = {"indices": given.indices, "values": given.values, **given.truth.as_arrays()}
    for name, array in arrays.items():
        np.save(target / f"{name}.npy", array)
    return target


def load_problem(folder: str | Path) -> Given:
    """Read what `save_problem` wrote."""
    arrays = {path.stem: np.load(path) for path in Path(folder).glob("*.npy")}
    indices, values = arrays.pop("indices"), arrays.pop("values")
    truth = Tucker.from_arrays(arrays)
    return Given(truth.shape, truth.rank, indices, values, truth)


RACES = {
    "n100": Case("n100", 100, 5, 0.3),
    "n300": Case("n300", 300, 5, 0.3),
    "n300-constant": Case("n300-constant", 300, 5, 0.3),
    "n400": Case("n400", 400, 5, 0.02),
    "n1000": Case("n1000", 1000, 5, 0.01),
}
"""The headline problems of the full suite."""


def _make_grid() -> list[Case]:
    cells = [
        Case(f"n{n}-r{rank}-{ratio:g}", n, rank, ratio)
        for n in (60, 100, 200)
        for rank in (3, 5, 10)
        for ratio in (0.3, 0.1, 0.03)
    ]
    cells.append(Case("n100-r5-0.3-ill", 100, 5, 0.3, condition=100.0))
    cells.append(Case("n100-r5-0.1-ill", 100, 5, 0.1, condition=100.0))
    return [case for case in cells if case.samples_per_degree >= ENOUGH]


GRID = _make_grid()
"""Where ``auto`` is held against each of our methods."""
