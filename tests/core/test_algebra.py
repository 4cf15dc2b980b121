"""Dense tensor algebra against slow loops over the definitions."""

from __future__ import annotations

import itertools
import math
import string
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensormend.core.algebra import (
    Array,
    as_rank,
    as_shape,
    check_count,
    check_memory,
    check_number,
    inner,
    is_inexact,
    matricize,
    mode_product,
    multi_mode_product,
    multilinear_rank,
    norm,
    normalize_mode,
    power_of_two,
    squared_norm,
    tensorize,
)
from tensormend.errors import InputError, MemoryLimitError, TensormendError

pytestmark = pytest.mark.numerical

DTYPES = ("float32", "float64", "complex64", "complex128")
ROUNDING = 256  # eps per unit of size: sums of at most a few hundred terms of size one
LONG_SUM = 2**17 * 2.0**-53  # double precision: blocks of so many terms, at worst one by one

dtypes = st.sampled_from(DTYPES)
seeds = st.integers(0, 2**32 - 1)
shapes = st.lists(st.integers(1, 5), min_size=2, max_size=5).map(tuple)
many = settings(deadline=None, max_examples=100)


def gaussian(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    draw = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        draw = draw + 1j * rng.standard_normal(shape)
    return draw.astype(dtype)


def close(got: Any, expected: Any, dtype: str) -> bool:
    """Tell whether two arrays agree to rounding, relative to the largest entry."""
    assert np.shape(got) == np.shape(expected)
    scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    tol = ROUNDING * float(np.finfo(dtype).eps) * scale
    return bool(np.max(np.abs(np.asarray(got) - expected), initial=0.0) <= tol)


@many
@given(shape=shapes, data=st.data())
def test_matricize_puts_every_entry_where_the_formula_says(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    mode = data.draw(st.integers(-len(shape), len(shape) - 1))
    k = mode % len(shape)
    x = np.arange(math.prod(shape), dtype=float).reshape(shape)  # every entry is different
    matrix = matricize(x, mode)
    assert matrix.shape == (shape[k], math.prod(shape) // shape[k])
    for index in itertools.product(*map(range, shape)):
        column = 0
        for at, i in enumerate(index):
            if at != k:
                column += i * math.prod(shape[m] for m in range(at) if m != k)
        assert matrix[index[k], column] == x[index]


@many
@given(shape=shapes, dtype=dtypes, seed=seeds, data=st.data())
def test_tensorize_inverts_matricize(
    shape: tuple[int, ...], dtype: str, seed: int, data: st.DataObject
) -> None:
    mode = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = gaussian(np.random.default_rng(seed), shape, dtype)
    back = tensorize(matricize(x, mode), mode, shape)
    assert back.dtype == x.dtype
    assert back.flags.c_contiguous
    np.testing.assert_array_equal(back, x)


def test_matricize_takes_any_memory_layout() -> None:
    x = np.arange(60.0).reshape(3, 4, 5)
    np.testing.assert_array_equal(matricize(np.asfortranarray(x), 1), matricize(x, 1))
    np.testing.assert_array_equal(matricize(x[::-1, ::2], 2), matricize(x[::-1, ::2].copy(), 2))


def test_tensorize_refuses_a_matrix_of_another_shape() -> None:
    with pytest.raises(InputError, match=r"\(3, 8\) to fold along mode 1 .* got \(8, 3\)"):
        tensorize(np.zeros((8, 3)), 1, (2, 3, 4))


@many
@given(shape=shapes, rows=st.integers(1, 6), dtype=dtypes, seed=seeds, data=st.data())
def test_mode_product_is_einsum_and_a_product_of_the_unfolding(
    shape: tuple[int, ...], rows: int, dtype: str, seed: int, data: st.DataObject
) -> None:
    mode = data.draw(st.integers(-len(shape), len(shape) - 1))
    k = mode % len(shape)
    rng = np.random.default_rng(seed)
    x, a = gaussian(rng, shape, dtype), gaussian(rng, (rows, shape[k]), dtype)
    got = mode_product(x, a, mode)
    assert got.dtype == np.dtype(dtype)
    letters = string.ascii_lowercase[: len(shape)]
    out = letters.replace(letters[k], "z")
    assert close(got, np.einsum(f"{letters},z{letters[k]}->{out}", x, a), dtype)
    assert close(matricize(got, k), a @ matricize(x, k), dtype)


@pytest.mark.parametrize("matrix_shape", [(4, 2), (3,), (3, 3, 3)])
def test_mode_product_refuses_a_matrix_that_does_not_fit(matrix_shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"3 columns to multiply mode 1 .*\(2, 3, 4\)"):
        mode_product(np.zeros((2, 3, 4)), np.zeros(matrix_shape), 1)


@many
@given(shape=shapes, dtype=dtypes, seed=seeds, adjoint=st.booleans(), data=st.data())
def test_multi_mode_product_is_the_product_mode_by_mode(
    shape: tuple[int, ...], dtype: str, seed: int, adjoint: bool, data: st.DataObject
) -> None:
    order = len(shape)
    skip = data.draw(st.none() | st.integers(-order, order - 1))
    absent = data.draw(st.sets(st.integers(0, order - 1)))
    rng = np.random.default_rng(seed)
    x = gaussian(rng, shape, dtype)
    matrices: list[Array | None] = []
    expected = x
    for k, n in enumerate(shape):
        rows = int(rng.integers(1, 5))
        a = gaussian(rng, (n, rows) if adjoint else (rows, n), dtype)
        matrices.append(None if k in absent else a)
        if k not in absent and (skip is None or k != skip % order):
            plain = a.conj().T if adjoint else a
            expected = np.moveaxis(np.tensordot(plain, expected, axes=(1, k)), 0, k)
    assert close(multi_mode_product(x, matrices, adjoint=adjoint, skip=skip), expected, dtype)


def test_multi_mode_product_refuses_another_number_of_matrices() -> None:
    with pytest.raises(InputError, match=r"3 modes\), got 2"):
        multi_mode_product(np.zeros((2, 3, 4)), [np.eye(2), np.eye(3)])


@many
@given(shape=shapes, dtype=dtypes, seed=seeds)
def test_inner_conjugates_the_first_and_norm_is_its_root(
    shape: tuple[int, ...], dtype: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x, y = gaussian(rng, shape, dtype), gaussian(rng, shape, dtype)
    tol = ROUNDING * float(np.finfo(dtype).eps) * norm(x) * norm(y)
    assert abs(inner(x, y) - np.sum(np.conj(x) * y)) <= tol
    assert abs(inner(x, y) - np.conj(inner(y, x))) <= tol
    assert norm(x) ** 2 == pytest.approx(
        inner(x, x).real, rel=ROUNDING * float(np.finfo(dtype).eps)
    )
    assert norm(x.T) == pytest.approx(norm(x), rel=ROUNDING * float(np.finfo(dtype).eps))


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_single_precision_is_summed_in_double(dtype: str) -> None:
    """As if the numbers were double: single precision keeps six digits of so long a sum at best."""
    rng = np.random.default_rng(0)
    x, y = (gaussian(rng, (100, 200, 50), dtype) for _ in range(2))
    left, right = (z.astype(np.result_type(dtype, np.float64)) for z in (x, y))
    size = math.sqrt(np.sum(np.abs(left) ** 2))
    assert norm(x) == pytest.approx(size, rel=LONG_SUM)
    part = np.sum(np.abs(left[:, ::3]) ** 2)
    assert squared_norm(x[:, ::3].T) == pytest.approx(part, rel=LONG_SUM)
    assert abs(inner(x, y) - np.sum(left.conj() * right)) <= LONG_SUM * norm(x) * norm(y)


def test_inner_is_linear_in_the_second() -> None:
    x = np.array([[1j, 0], [0, 0]])
    assert inner(x, 1j * x) == 1j
    assert inner(1j * x, x) == -1j


def test_inner_refuses_two_shapes() -> None:
    with pytest.raises(InputError, match=r"one shape, got \(2, 3\) and \(3, 2\)"):
        inner(np.zeros((2, 3)), np.zeros((3, 2)))


@settings(deadline=None, max_examples=40)
@given(rank=st.lists(st.integers(1, 3), min_size=2, max_size=4), dtype=dtypes, seed=seeds)
def test_multilinear_rank_of_a_tensor_made_of_that_rank(
    rank: list[int], dtype: str, seed: int
) -> None:
    rank = [min(r, math.prod(rank) // r) for r in rank]
    rank = [min(r, math.prod(rank) // r) for r in rank]
    rng = np.random.default_rng(seed)
    x = gaussian(rng, tuple(rank), dtype)
    for k, r in enumerate(rank):  # orthonormal factors: the condition is that of the core
        q = np.linalg.qr(gaussian(rng, (r + 3, r), dtype))[0]
        x = mode_product(x, q, k)
    core_rank = tuple(
        int(np.linalg.matrix_rank(matricize(x, k), tol=1e-3 * norm(x))) for k in range(x.ndim)
    )
    if core_rank == tuple(rank):  # a nearly singular draw has no clear rank
        assert multilinear_rank(x) == tuple(rank)
        assert multilinear_rank(x, tol=1e-4) == tuple(rank)
    assert multilinear_rank(x, tol=2.0) == (0,) * x.ndim


def test_multilinear_rank_of_special_tensors() -> None:
    assert multilinear_rank(np.zeros((2, 3, 4))) == (0, 0, 0)
    assert multilinear_rank(np.ones((2, 3, 4), dtype=int)) == (1, 1, 1)
    x = np.zeros((3, 3, 3))
    x[0, 0, 0], x[1, 1, 1], x[2, 2, 2] = 1, 1e-3, 1e-6
    assert multilinear_rank(x) == (3, 3, 3)
    assert multilinear_rank(x, tol=1e-4) == (2, 2, 2)
    assert multilinear_rank(x, tol=1e-2) == (1, 1, 1)


@pytest.mark.parametrize(
    ("rank", "expected"),
    [
        (2, (2, 2, 2)),
        (5, (4, 5, 5)),
        (np.int64(2), (2, 2, 2)),
        ([1, 2, 2], (1, 2, 2)),
        (np.array([4, 2, 2]), (4, 2, 2)),
        ((4, 5, 6), (4, 5, 6)),
    ],
)
def test_as_rank_takes_an_int_or_one_per_mode(rank: Any, expected: tuple[int, ...]) -> None:
    got = as_rank(rank, (4, 5, 6))
    assert got == expected
    assert all(type(r) is int for r in got)


@pytest.mark.parametrize(
    ("rank", "message"),
    [
        ((2, 2), r"one per mode \(3 modes\), got \(2, 2\); for example rank=\(2, 2, 2\)"),
        ((), r"one per mode \(3 modes\), got \(\); for example rank=\(1, 1, 1\)"),
        (0, r"1 or more in every mode, got 0 in mode 0"),
        ((2, 0, 2), r"1 or more in every mode, got 0 in mode 1"),
        ((2, 2, -1), r"1 or more in every mode, got -1 in mode 2"),
        (7, r"got rank 7 in mode 0 of size 4; use at most 4 there"),
        ((4, 4, 7), r"got rank 7 in mode 2 of size 6; use at most 6 there"),
        (
            (1, 2, 1),
            r"product of the other ranks .* got \(1, 2, 1\): 2 > 1 in mode 1; use at most 1",
        ),
        ((2, 2, 5), r"\(2, 2, 5\): 5 > 4 in mode 2; use at most 4 there or raise the others"),
        ((2.5, 2, 2), r"rank must be integers, got \(2.5, 2, 2\)"),
        (2.5, r"rank must be integers, got 2.5"),
    ],
)
def test_as_rank_says_what_is_wrong(rank: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_rank(rank, (4, 5, 6))


@many
@given(shape=shapes, data=st.data())
def test_as_rank_gives_one_int_the_room_there_is(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    rank = data.draw(st.integers(1, max(shape)))
    got = as_rank(rank, shape)
    assert as_rank(got, shape) == got  # exists
    for k, r in enumerate(got):
        others = math.prod(got[:k] + got[k + 1 :])
        assert r == min(rank, shape[k], others)  # and no mode could have more


@many
@given(shape=shapes, data=st.data())
def test_as_rank_accepts_exactly_the_ranks_that_exist(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    rank = tuple(data.draw(st.integers(1, n)) for n in shape)
    exists = all(r <= math.prod(rank[:k] + rank[k + 1 :]) for k, r in enumerate(rank))
    if exists:
        assert as_rank(rank, shape) == rank
        core = np.random.default_rng(0).standard_normal(rank)
        assert multilinear_rank(core, tol=1e-9) == rank
    else:
        with pytest.raises(InputError, match="no tensor has"):
            as_rank(rank, shape)


def test_as_shape_takes_sequences_of_integers() -> None:
    sizes: Any = [2, np.int32(3)]
    assert as_shape(sizes) == (2, 3)
    assert as_shape(np.zeros((2, 1, 3)).shape) == (2, 1, 3)


@pytest.mark.parametrize("shape", [(), (5,), (5, 0), (3, -1, 2)])
def test_as_shape_refuses(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"at least two modes, each of size 1 or more, got \("):
        as_shape(shape)


def test_as_shape_does_not_round() -> None:
    with pytest.raises(InputError, match=r"shape must be integers, got \(2.5, 3\)"):
        as_shape((2.5, 3))  # type: ignore[arg-type]


@pytest.mark.parametrize(("mode", "expected"), [(0, 0), (2, 2), (-1, 2), (-3, 0)])
def test_normalize_mode(mode: int, expected: int) -> None:
    assert normalize_mode(mode, 3) == expected


@pytest.mark.parametrize("mode", [3, -4])
def test_modes_out_of_range_are_refused_everywhere(mode: int) -> None:
    x = np.zeros((2, 2, 2))
    message = f"between -3 and 2 for a tensor of order 3, got {mode}"
    with pytest.raises(InputError, match=message):
        normalize_mode(mode, 3)
    with pytest.raises(InputError, match=message):
        matricize(x, mode)
    with pytest.raises(InputError, match=message):
        tensorize(np.zeros((2, 4)), mode, (2, 2, 2))
    with pytest.raises(InputError, match=message):
        mode_product(x, np.eye(2), mode)
    with pytest.raises(InputError, match=message):
        multi_mode_product(x, [None, None, None], skip=mode)


def test_check_memory_refuses_above_the_limit_and_names_the_array() -> None:
    check_memory((2**10, 2**10, 2**7), np.float64, 2**30, "the panel")  # exactly the limit
    check_memory((10**9, 10**9), np.float64, None, "the panel")
    with pytest.raises(MemoryLimitError, match=r"the panel of shape \(1024, 1024, 256\).*2 GiB"):
        check_memory((2**10, 2**10, 2**8), np.float64, 2**30, "the panel")
    with pytest.raises(MemoryError, match=r"limit of 1 GiB; ask for entries"):
        check_memory((2**10, 2**10, 2**7), np.complex128, 2**30, "the panel")
    with pytest.raises(MemoryLimitError, match=r"limit of 1 GiB; use a smaller rank$"):
        check_memory((2**30, 2), np.float32, 2**30, "the panel", "use a smaller rank")
    with pytest.raises(TensormendError):  # no overflow of 64-bit integers
        check_memory(np.array([2**32, 2**32]), np.float64, 2**30, "the panel")  # type: ignore[arg-type]


@many
@given(exponent=st.integers(-1074, 1023))
def test_powers_of_two_are_not_above_the_number(exponent: int) -> None:
    power = math.ldexp(1.0, exponent)
    assert power_of_two(power) == power
    below = float(np.nextafter(power, 0))
    assert power_of_two(below) == (power / 2 if below else 1.0)
    if exponent > -1074:  # 1.5 of the least number is rounded
        assert power_of_two(1.5 * power) == power


def test_powers_of_two_of_ends_and_of_other_types() -> None:
    assert power_of_two(0.0) == 1.0
    assert power_of_two(1.0) == 1.0
    assert power_of_two(float(np.nextafter(1024, 0))) == 512.0
    assert power_of_two(float(np.finfo(float).max)) == 2.0**1023
    assert power_of_two(float(np.finfo(float).smallest_subnormal)) == 2.0**-1074
    assert power_of_two(np.float32(3.0)) == 2.0  # type: ignore[arg-type]
    assert power_of_two(float(np.finfo(np.float32).max)) == 2.0**127


def test_is_inexact_knows_the_four_types() -> None:
    assert all(is_inexact(np.dtype(name)) for name in DTYPES)
    for name in ("int64", "float16", "longdouble", "bool", "object"):
        assert not is_inexact(np.dtype(name))


# settings


@pytest.mark.parametrize("value", [True, "1", None, 1j, math.nan, 0.0, -1, [1.0]])
def test_check_number_refuses(value: Any) -> None:
    with pytest.raises(InputError, match=r"gain must be a positive number, got "):
        check_number("gain", value, "a positive number", lambda number: number > 0)


@pytest.mark.parametrize("value", [1, 0.5, np.float32(2), np.int8(3), math.inf])
def test_check_number_accepts(value: Any) -> None:
    check_number("gain", value, "a positive number", lambda number: number > 0)


def test_check_number_accepts_none_only_if_optional() -> None:
    check_number("gain", None, "positive", lambda number: number > 0, optional=True)
    with pytest.raises(InputError, match=r"gain must be positive, or None, got -1"):
        check_number("gain", -1, "positive", lambda number: number > 0, optional=True)


@pytest.mark.parametrize("value", [True, 2.0, "2", None, 0])
def test_check_count_refuses(value: Any) -> None:
    with pytest.raises(InputError, match=r"size must be an integer, 1 or more, got "):
        check_count("size", value, 1)


def test_check_count_accepts() -> None:
    check_count("size", 1, 1)
    check_count("size", np.int64(7), 1)
