"""Random problems: seeds, ranks, condition numbers, uniform samples and noise levels."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from tensormend.core.algebra import Array, matricize
from tensormend.core.truncate import thosvd
from tensormend.core.tucker import Tucker
from tensormend.errors import InputError
from tensormend.simulate import (
    add_noise,
    conditioned_tucker,
    gaussian_tucker,
    noise_level,
    random_tucker,
    sample_fibres,
    sample_indices,
)

pytestmark = pytest.mark.numerical

DTYPES = ("float32", "float64", "complex64", "complex128")
ROUNDING = 1024  # eps per unit, for orthonormal factors and singular values of small tensors
UNLIKELY = 1e-3  # a fixed seed whose statistic is rarer than this would be a bad draw or a bias
NOISE = 0.02  # 1e5 draws give a variance to sqrt(2 / 1e5), about 0.0045; four of these

many = settings(deadline=None, max_examples=60)
seeds = st.integers(0, 2**32 - 1)


def eps(dtype: Any) -> float:
    return float(np.finfo(dtype).eps)


def assert_orthonormal(x: Tucker) -> None:
    for u in x.factors:
        gap = np.linalg.norm(u.conj().T @ u - np.eye(u.shape[1]))
        assert gap <= ROUNDING * eps(x.dtype)


def bits(x: Tucker) -> list[bytes]:
    return [part.tobytes() for part in (x.core, *x.factors)]


MAKERS: list[Callable[[Any], Tucker]] = [
    lambda rng: gaussian_tucker((5, 6, 7), (2, 3, 2), rng=rng),
    lambda rng: random_tucker((5, 6, 7), (2, 3, 2), rng=rng, dtype=np.complex64),
    lambda rng: conditioned_tucker((5, 6, 7), 3, 10.0, rng=rng),
]


@pytest.mark.parametrize("make", MAKERS)
def test_a_seed_reproduces_a_tensor(make: Callable[[Any], Tucker]) -> None:
    assert bits(make(7)) == bits(make(7)) == bits(make(np.random.default_rng(7)))
    assert bits(make(7)) != bits(make(8))
    assert bits(make(None)) != bits(make(None))
    rng = np.random.default_rng(7)
    assert bits(make(rng)) != bits(make(rng))  # a generator moves on


@many
@given(
    rank=st.lists(st.integers(2, 3), min_size=2, max_size=4),
    dtype=st.sampled_from(DTYPES),
    seed=seeds,
)
def test_random_tensors_have_the_shape_rank_and_type_asked_for(
    rank: list[int], dtype: str, seed: int
) -> None:
    rank = rank if len(rank) > 2 else [2, 2]
    shape = tuple(r + 3 for r in rank)
    for make in (gaussian_tucker, random_tucker):
        x = make(shape, rank, rng=seed, dtype=dtype)
        assert x.shape == shape
        assert x.rank == tuple(rank)
        assert x.dtype == np.dtype(dtype)
        assert_orthonormal(x)
    assert gaussian_tucker(shape, 2, rng=seed, dtype=dtype).multilinear_rank() == (2,) * len(shape)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gaussian_tucker_truncates_a_gaussian_array(dtype: str) -> None:
    shape, rank = (7, 8, 9), (2, 3, 4)
    x = gaussian_tucker(shape, rank, rng=3, dtype=dtype)
    rng = np.random.default_rng(3)
    z = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        z = z + 1j * rng.standard_normal(shape)
    expected = thosvd(z.astype(dtype), rank)
    assert bits(x) == bits(expected)
    assert x.multilinear_rank() == rank


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_tucker_has_a_standard_gaussian_core(dtype: str) -> None:
    x = random_tucker((30, 30, 30), 30, rng=0, dtype=dtype)
    parts = [x.core.real, x.core.imag] if x.dtype.kind == "c" else [x.core]
    for part in parts:
        assert abs(np.mean(part)) < NOISE
        assert np.var(part) == pytest.approx(1, abs=2 * NOISE)
    assert x.norm() == pytest.approx(np.linalg.norm(x.core), rel=ROUNDING * eps(dtype))


@pytest.mark.parametrize("make", [gaussian_tucker, random_tucker])
def test_ranks_and_shapes_are_checked(make: Callable[..., Tucker]) -> None:
    with pytest.raises(InputError, match="size of its mode"):
        make((3, 4, 5), 6)
    with pytest.raises(InputError, match="at least two modes"):
        make((3,), 1)


def condition_numbers(x: Tucker) -> list[float]:
    values = [np.linalg.svd(matricize(x.todense(), k), compute_uv=False) for k in range(x.ndim)]
    return [float(s[0] / s[r - 1]) for s, r in zip(values, x.rank, strict=True)]


@many
@given(
    rank=st.integers(1, 6),
    condition=st.floats(1, 1e3),
    dtype=st.sampled_from(DTYPES),
    seed=seeds,
)
def test_conditioned_tucker_is_conditioned_in_mode_1_alone(
    rank: int, condition: float, dtype: str, seed: int
) -> None:
    condition = condition if rank > 1 else 1.0
    x = conditioned_tucker((8, 7, 9), rank, condition, rng=seed, dtype=dtype)
    assert x.rank == (rank,) * 3
    assert x.dtype == np.dtype(dtype)
    assert_orthonormal(x)
    tol = ROUNDING * eps(dtype)
    first, second, third = condition_numbers(x)
    assert first == pytest.approx(1, rel=tol)
    assert second == pytest.approx(condition, rel=tol * condition)
    assert third == pytest.approx(1, rel=tol)
    s = np.linalg.svd(matricize(x.todense(), 1), compute_uv=False)[:rank]
    assert np.max(np.abs(s - np.linspace(1, 1 / condition, rank))) <= tol


@many
@given(sigma=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6))
def test_the_core_of_the_paper_does_this_for_any_singular_values(sigma: list[float]) -> None:
    r = len(sigma)
    core = np.zeros((r, r, r))
    for j in itertools.product(range(1, r + 1), repeat=3):
        if sum(j) % r == 0:
            core[j[0] - 1, j[1] - 1, j[2] - 1] = sigma[j[1] - 1] / math.sqrt(r)
    tol = ROUNDING * eps("float64") * max(sigma)
    flat = np.linalg.norm(sigma) / math.sqrt(r)
    for mode in range(3):
        expected = np.array(sorted(sigma, reverse=True) if mode == 1 else [flat] * r)
        s = np.linalg.svd(matricize(core, mode), compute_uv=False)
        assert np.max(np.abs(s - expected)) <= tol


def test_conditioned_tucker_has_the_core_of_the_paper() -> None:
    core = conditioned_tucker((5, 5, 5), 3, 4.0, rng=0).core
    sigma = [1, 0.625, 0.25]
    for j in itertools.product((1, 2, 3), repeat=3):
        expected = sigma[j[1] - 1] / math.sqrt(3) if sum(j) % 3 == 0 else 0
        assert core[j[0] - 1, j[1] - 1, j[2] - 1] == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("shape", "rank", "condition", "message"),
    [
        ((5, 5), 2, 2.0, r"order 3, got shape \(5, 5\)"),
        ((5, 5, 5), 2, 0.5, "condition must be a finite number, 1 or more, got 0.5"),
        ((5, 5, 5), 1, 2.0, "condition must be 1, since the rank is 1, got 2.0"),
        ((5, 5, 5), 2, math.nan, "condition must be a finite number, 1 or more, got nan"),
        ((5, 5, 5), 6, 2.0, r"size of its mode"),
    ],
)
def test_conditioned_tucker_refuses(
    shape: tuple[int, ...], rank: int, condition: float, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        conditioned_tucker(shape, rank, condition)


# samples


@settings(deadline=None, max_examples=100)
@given(
    shape=st.lists(st.integers(1, 7), min_size=2, max_size=4).map(tuple), seed=seeds, data=st.data()
)
def test_samples_are_distinct_sorted_and_as_many_as_asked(
    shape: tuple[int, ...], seed: int, data: st.DataObject
) -> None:
    total = math.prod(shape)
    count = data.draw(st.integers(1, total))
    indices = sample_indices(shape, count, rng=seed)
    assert indices.shape == (count, len(shape))
    assert indices.dtype == np.int32
    assert np.all(indices >= 0)
    assert np.all(indices < np.array(shape))
    flat = np.ravel_multi_index(tuple(indices.T), shape)
    assert np.all(np.diff(flat) > 0)
    np.testing.assert_array_equal(indices, sample_indices(shape, count, rng=seed))


@pytest.mark.parametrize(
    ("amount", "count"),
    [
        (1, 1),
        (1.0, 60),
        (0.5, 30),
        (np.float64(0.5), 30),
        (np.float32(0.5), 30),
        (0.26, 16),  # 15.6 entries
        (np.int64(7), 7),
        (60, 60),
        (1 / 60, 1),
    ],
)
def test_a_float_is_a_fraction_and_an_int_a_count(amount: Any, count: int) -> None:
    assert len(sample_indices((3, 4, 5), amount, rng=0)) == count


@pytest.mark.parametrize("amount", [0, -1, 61, 0.0, -0.5, 1.5, 2.0, 1e-6, math.nan, math.inf])
def test_amounts_that_name_no_sample_are_refused(amount: float) -> None:
    with pytest.raises(InputError, match=f"fraction between 0 and 1 or a count.* 60, got {amount}"):
        sample_indices((3, 4, 5), amount)


def test_shapes_of_more_than_63_bits() -> None:
    shape = (2**31, 2**31, 2**31)
    indices = sample_indices(shape, 1000, rng=0)
    assert len(np.unique(indices, axis=0)) == 1000
    assert np.array_equal(indices, indices[np.lexsort(indices.T[::-1])])
    assert (indices.max(axis=0) < 2**31).all()
    assert (indices.max(axis=0) > 2**30).all()


def test_uniform_factors_have_free_signs() -> None:
    signs = [conditioned_tucker((6, 6, 6), 2, 3.0, rng=k).factors[0][0, 0] > 0 for k in range(20)]
    assert 4 < sum(signs) < 16


def test_large_modes_have_large_indices() -> None:
    indices = sample_indices((2**40, 2), 1000, rng=0)
    assert indices.dtype == np.int64
    assert indices[:, 0].max() > 2**38


@pytest.mark.parametrize("count", [1, 2, 7, 8, 20, 29, 31, 45, 59])
def test_every_entry_is_equally_likely(count: int) -> None:
    shape, repeats = (3, 4, 5), 1500
    rng = np.random.default_rng(count)
    drawn = np.zeros(shape)
    for _ in range(repeats):
        drawn[tuple(sample_indices(shape, count, rng=rng).T)] += 1
    p = count / 60
    # Counts of sampling without replacement: the chi-square statistic is smaller by 1 - p, and
    # has 59 degrees of freedom as the counts sum to repeats * count.
    statistic = float(np.sum((drawn - repeats * p) ** 2)) / (repeats * p * (1 - p)) * 59 / 60
    assert UNLIKELY < scipy.stats.chi2.sf(statistic, 59) < 1 - UNLIKELY


@pytest.mark.parametrize("count", [2, 3, 4])
def test_every_set_is_equally_likely(count: int) -> None:
    total, repeats = 6, 3000
    rng = np.random.default_rng(100 + count)
    sets = dict.fromkeys(itertools.combinations(range(total), count), 0)
    for _ in range(repeats):
        rows = sample_indices((2, 3), count, rng=rng)
        sets[tuple(int(i) for i in np.ravel_multi_index(tuple(rows.T), (2, 3)))] += 1
    assert scipy.stats.chisquare(list(sets.values())).pvalue > UNLIKELY


@pytest.mark.parametrize("fraction", [0.01, 0.12, 0.13, 0.4, 0.6, 0.95])
def test_large_samples_are_spread_evenly(fraction: float) -> None:
    shape = (50, 60, 40)
    indices = sample_indices(shape, fraction, rng=1)
    for k, n in enumerate(shape):
        counts = np.bincount(indices[:, k], minlength=n)
        # a slice holds a hypergeometric number of entries: variance smaller by about 1 - fraction
        mean = len(indices) / n
        statistic = float(np.sum((counts - mean) ** 2)) / (mean * (1 - fraction))
        assert UNLIKELY < scipy.stats.chi2.sf(statistic, n - 1) < 1 - UNLIKELY


def test_sampling_a_huge_tensor_takes_little_memory() -> None:
    count = 100_000
    tracemalloc.start()
    try:
        indices = sample_indices((2000, 2000, 2000), count, rng=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(indices) == count
    assert peak < 60 * count  # seven integers an entry; a byte for each would be 80 000 an entry


# noise


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("snr", [-10.0, 0.0, 30.0])
def test_noise_has_the_ratio_asked_for(dtype: str, snr: float) -> None:
    x = random_tucker((50, 50, 40), 3, rng=0, dtype=dtype)
    signal = x.todense()
    sigma = noise_level(x, snr)
    noisy = add_noise(signal, sigma, rng=1)
    assert noisy.dtype == np.dtype(dtype)
    noise = (noisy - signal).astype(np.complex128)
    energy = float(np.linalg.norm(signal.astype(np.complex128))) ** 2
    expected = math.prod(x.shape) * sigma**2
    assert 10 * math.log10(energy / expected) == pytest.approx(snr, abs=1e-4)
    assert float(np.linalg.norm(noise)) ** 2 == pytest.approx(expected, rel=NOISE)
    if x.dtype.kind == "c":
        assert np.mean(noise.real**2) == pytest.approx(sigma**2 / 2, rel=NOISE)
        assert np.mean(noise.imag**2) == pytest.approx(sigma**2 / 2, rel=NOISE)
        assert abs(np.mean(noise.real * noise.imag)) < NOISE * sigma**2


def test_noise_is_gaussian_and_reproduced_by_its_seed() -> None:
    y = np.zeros(100_000)
    noise = add_noise(y, 2.0, rng=5)
    np.testing.assert_array_equal(noise, add_noise(y, 2.0, rng=np.random.default_rng(5)))
    assert np.any(noise != add_noise(y, 2.0, rng=6))
    assert scipy.stats.kstest(noise / 2.0, "norm").pvalue > UNLIKELY
    assert not y.any()  # the measurements given are left alone


@pytest.mark.parametrize("y", [[0] * 1000, np.zeros((10, 100), dtype=int), [0.0] * 1000])
def test_noise_on_integers_is_not_rounded(y: Array) -> None:
    noisy = add_noise(y, 0.1, rng=0)
    assert noisy.dtype == np.float64
    assert noisy.shape == np.shape(y)
    assert float(np.std(noisy)) == pytest.approx(0.1, rel=0.1)


def test_no_noise_changes_nothing() -> None:
    y = np.arange(5.0)
    np.testing.assert_array_equal(add_noise(y, 0.0, rng=0), y)


@pytest.mark.parametrize("mode", [0, 1, 2, -1])
def test_fibres_are_whole_distinct_and_in_order(mode: int) -> None:
    shape = (4, 5, 6)
    indices = sample_fibres(shape, 0.5, mode, rng=0)
    observed = np.zeros(shape, dtype=bool)
    observed[tuple(indices.T)] = True
    assert observed.sum() == len(indices)
    assert (observed.all(axis=mode) == observed.any(axis=mode)).all()
    assert observed.any(axis=mode).sum() == round(0.5 * observed.size / shape[mode])
    assert (np.argwhere(observed) == indices).all()


def test_fibres_of_a_matrix_are_rows_or_columns() -> None:
    assert sample_fibres((3, 4), 1, mode=1, rng=0).shape == (4, 2)
    assert sample_fibres((3, 4), 4, mode=0, rng=0).shape == (12, 2)
