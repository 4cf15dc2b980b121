"""`inspect`: what is known, what is missing and how, which ranks the data carry."""

from __future__ import annotations

import numpy as np
import pytest

import tensormend as tm
from tensormend.core.tucker import degrees_of_freedom
from tensormend.errors import InputError

pytestmark = pytest.mark.numerical

SHAPE = (20, 21, 22)


def observe(rank: int, ratio: float, noise: float = 0.0) -> np.ndarray:
    truth = tm.simulate.random_tucker(SHAPE, rank, rng=0).todense()
    data = truth + noise * truth.std() * np.random.default_rng(1).standard_normal(SHAPE)
    return np.where(np.random.default_rng(2).random(SHAPE) < ratio, data, np.nan)


@pytest.mark.parametrize(("rank", "noise"), [(1, 0.0), (3, 0.0), (3, 0.1)])
def test_the_rank_of_low_rank_data_is_found(rank: int, noise: float) -> None:
    found = tm.inspect(observe(rank, 0.4, noise), time_limit=20)
    assert found.best_rank is not None
    assert found.best_rank.rank == (rank,) * 3
    assert found.best_rank.error < 1.5 * noise + 1e-5


def test_ranks_have_two_entries_per_unknown() -> None:
    data = observe(2, 0.3)
    found = tm.inspect(data, time_limit=0)
    assert found.best_rank is None
    assert found.n_observed == np.sum(~np.isnan(data))
    for trial in found.ranks:
        assert trial.entries_each == found.n_observed / degrees_of_freedom(SHAPE, trial.rank)
        assert trial.entries_each >= 2
        assert np.isnan(trial.error)
    assert found.largest_rank == (8, 8, 8)  # 12 would have 1.5


def test_too_few_entries_carry_no_rank() -> None:
    data = np.full(SHAPE, np.nan)
    data[np.arange(20), np.arange(20), np.arange(20)] = 1.0
    found = tm.inspect(data)
    assert found.ranks == ()
    assert found.largest_rank is None
    assert found.best_rank is None


def test_values_modes_and_holes_are_described() -> None:
    data = observe(2, 0.9)
    data[:, 4, 5] = np.nan
    data[7] = np.nan
    labels = np.array([f"city {k}" for k in range(20)])
    names = ("place", "day", "hour")
    loaded = tm.TensorData(data, dims=names, coords=(labels, None, None))
    found = tm.inspect(loaded, time_limit=0)
    place, day, _ = found.modes
    assert (place.name, place.size, place.n_empty_slices, place.empty_slices) == (
        "place",
        20,
        1,
        "city 7",
    )
    assert (day.n_empty_slices, day.empty_slices) == (0, "")
    assert place.least == 0 < place.most
    assert place.n_empty_fibres >= 1
    known = data[~np.isnan(data)]
    assert found.values.least == known.min()
    assert found.values.mean == pytest.approx(known.mean())
    assert found.values.largest == known.max()
    assert found.values.std == pytest.approx(known.std())
    assert found.observed_fraction == len(known) / data.size
    assert found.cost.bytes > 0


def test_whole_fibres_are_noticed() -> None:
    indices = tm.simulate.sample_fibres(SHAPE, 0.6, mode=1, rng=0)
    found = tm.inspect(np.ones(len(indices)), indices=indices, shape=SHAPE, time_limit=0)
    assert found.pattern.mode == 1


def test_folds_are_counted() -> None:
    assert tm.inspect(np.where(np.eye(6) > 0, np.nan, 1.0), time_limit=0).n_folds == 5
    assert tm.inspect(observe(2, 0.9), time_limit=0).n_folds < 5


def test_ranks_fit_uneven_shapes() -> None:
    data = np.random.default_rng(0).standard_normal((2, 30, 40))
    found = tm.inspect(data, time_limit=0)
    assert all(trial.rank[0] <= 2 for trial in found.ranks)
    assert found.largest_rank is not None
    assert max(found.largest_rank) > 2


def test_time_is_kept() -> None:
    found = tm.inspect(observe(3, 0.5, 0.1), time_limit=0.01)
    assert sum(not np.isnan(trial.error) for trial in found.ranks) <= 2


def test_negative_time_is_refused() -> None:
    with pytest.raises(InputError, match="time_limit must be 0 or more"):
        tm.inspect(observe(1, 0.5), time_limit=-1)
