"""Sampled entries in fibre order against plain sorted lists of indices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensormend.core.algebra import Array
from tensormend.core.fibres import Fibres, check_indices, choose_modes
from tensormend.errors import InputError

pytestmark = pytest.mark.numerical

INTEGERS = ("int8", "int32", "int64", "uint16", "uint64")

many = settings(deadline=None, max_examples=100)
seeds = st.integers(0, 2**32 - 1)


@st.composite
def index_sets(draw: st.DrawFn) -> tuple[tuple[int, ...], Array]:
    """Draw a shape of order 2 to 6 and distinct indices in any order and integer type."""
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=2, max_size=6)))
    total = math.prod(shape)
    fraction = draw(st.sampled_from([0.05, 0.3, 1.0]))
    rng = np.random.default_rng(draw(seeds))
    flat = rng.choice(total, max(1, round(fraction * min(total, 300))), replace=False)
    if draw(st.booleans()):
        flat = np.sort(flat)
    indices = np.stack(np.unravel_index(flat, shape), axis=1)
    return shape, indices.astype(draw(st.sampled_from(INTEGERS)))


def tree_order(shape: tuple[int, ...], leaf_mode: int) -> tuple[int, ...]:
    return (*(k for k in range(len(shape)) if k != leaf_mode), leaf_mode)


def expected_order(indices: Array, modes: tuple[int, ...]) -> list[int]:
    rows = [tuple(int(row[k]) for k in modes) for row in indices]
    return sorted(range(len(rows)), key=lambda i: rows[i])


def identity_or(permutation: Array | None, size: int) -> list[int]:
    return list(range(size)) if permutation is None else [int(i) for i in permutation]


@many
@given(drawn=index_sets(), data=st.data())
def test_build_sorts_the_entries_and_says_how(
    drawn: tuple[tuple[int, ...], Array], data: st.DataObject
) -> None:
    shape, indices = drawn
    signed = data.draw(st.integers(-len(shape), len(shape) - 1))
    leaf_mode = signed % len(shape)
    modes = tree_order(shape, leaf_mode)
    fibres, permutation = Fibres.build(shape, indices, signed)
    assert fibres.shape == shape
    assert fibres.modes == modes
    assert fibres.leaf_mode == leaf_mode
    assert fibres.size == len(indices)
    expected = expected_order(indices, modes)
    assert identity_or(permutation, len(indices)) == expected
    assert (permutation is None) == (expected == sorted(expected))
    stored = fibres.indices()
    assert stored.dtype == np.int64
    np.testing.assert_array_equal(stored, indices[expected])
    for k in range(len(shape)):
        np.testing.assert_array_equal(fibres.coordinates(k), stored[:, k])
        np.testing.assert_array_equal(fibres.coordinates(k - len(shape)), stored[:, k])


@many
@given(drawn=index_sets(), data=st.data())
def test_the_tree_holds_every_prefix_once(
    drawn: tuple[tuple[int, ...], Array], data: st.DataObject
) -> None:
    shape, indices = drawn
    leaf_mode = data.draw(st.integers(0, len(shape) - 1))
    fibres, _ = Fibres.build(shape, indices, leaf_mode)
    rows = sorted(tuple(int(row[k]) for k in fibres.modes) for row in indices)
    assert len(fibres.nodes) == len(fibres.starts) == len(shape) - 1
    for level, (nodes, starts) in enumerate(zip(fibres.nodes, fibres.starts, strict=True)):
        prefixes = sorted({row[: level + 1] for row in rows})
        children = sorted({row[: level + 2] for row in rows})
        assert [int(i) for i in nodes] == [prefix[-1] for prefix in prefixes]
        assert nodes.dtype == np.uint32
        assert starts.dtype == np.int64
        assert starts[0] == 0
        assert [int(i) for i in np.diff(starts)] == [
            sum(child[:-1] == prefix for child in children) for prefix in prefixes
        ]
    assert [int(i) for i in fibres.leaves] == [row[-1] for row in rows]
    assert fibres.leaves.dtype == np.uint32
    assert fibres.n_fibres == len({row[:-1] for row in rows})


@many
@given(drawn=index_sets(), data=st.data())
def test_columns_count_the_fibres_in_c_order(
    drawn: tuple[tuple[int, ...], Array], data: st.DataObject
) -> None:
    shape, indices = drawn
    leaf_mode = data.draw(st.integers(0, len(shape) - 1))
    fibres, _ = Fibres.build(shape, indices, leaf_mode)
    others = tree_order(shape, leaf_mode)[:-1]
    numbers = np.ravel_multi_index(
        tuple(indices[:, k].astype(np.int64) for k in others), tuple(shape[k] for k in others)
    )
    np.testing.assert_array_equal(fibres.columns, np.unique(numbers))
    assert fibres.n_columns == math.prod(shape[k] for k in others)


@many
@given(drawn=index_sets(), data=st.data())
def test_along_brings_values_into_the_order_of_another_mode(
    drawn: tuple[tuple[int, ...], Array], data: st.DataObject
) -> None:
    shape, indices = drawn
    leaf_mode, mode = (data.draw(st.integers(0, len(shape) - 1)) for _ in range(2))
    fibres, _ = Fibres.build(shape, indices, leaf_mode)
    other, permutation = fibres.along(mode)
    assert other.leaf_mode == mode
    assert other.modes == tree_order(shape, mode)
    order = identity_or(permutation, fibres.size)
    np.testing.assert_array_equal(other.indices(), fibres.indices()[order])
    assert order == expected_order(fibres.indices(), other.modes)
    again, same = fibres.along(mode - len(shape))
    assert again is other  # sorted once and kept, by whichever name of the mode
    assert same is permutation


def test_along_the_leaf_mode_is_the_same_object() -> None:
    fibres, _ = Fibres.build((3, 4), np.array([[0, 1], [2, 3]]), 0)
    assert fibres.along(0) == (fibres, None)


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([[0, 0]], r"m x 3 array.*shape \(3, 4, 5\),.* got an array of shape \(1, 2\)"),
        ([0, 0, 0], r"m x 3 array.*got an array of shape \(3,\)"),
        (np.zeros((2, 3, 1), dtype=int), r"got an array of shape \(2, 3, 1\)"),
        (np.zeros((0, 3), dtype=int), r"at least one entry, got none"),
        ([[0, 0, 0], [1, 1, 1.5]], r"must be integers, got float64; convert"),
        ([[0, 0, 0.0]], r"must be integers, got float64; convert"),
        ([[True, False, True]], r"must be integers, got bool"),
        ([[0, 0, 0], [1, 1, 1], [1, 4, 1]], r"mode 1 .* between 0 and 3, got 4 in row 2"),
        ([[0, 0, 0], [-1, 1, 1], [3, 0, 0]], r"mode 0 .* between 0 and 2, got -1 in row 1"),
        ([[0, 0, 5], [0, 0, 0]], r"mode 2 .* between 0 and 4, got 5 in row 0; .* from 0"),
        (np.array([[0, 0, 2**63]], dtype=np.uint64), r"mode 2 .*got 9223372036854775808 in row 0"),
    ],
)
def test_bad_indices_are_refused_by_name(indices: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Fibres.build((3, 4, 5), indices)
    with pytest.raises(InputError, match=message):
        check_indices(indices, (3, 4, 5))


def test_check_indices_returns_what_it_was_given() -> None:
    indices = np.array([[2, 3, 4], [0, 0, 0]], dtype=np.int8)
    assert check_indices(indices, (3, 4, 5)) is indices


@pytest.mark.parametrize("leaf_mode", [0, 1, 2])
@pytest.mark.parametrize("shape", [(3, 4, 5), (2**31, 2**31, 2**31)])
def test_repeated_entries_are_counted_and_the_first_named(
    leaf_mode: int, shape: tuple[int, ...]
) -> None:
    indices = np.array([[2, 3, 4], [0, 1, 2], [2, 3, 4], [1, 1, 1], [2, 3, 4]])
    with pytest.raises(InputError, match=r"got 2 repeated \(first: \(2, 3, 4\)\); average or drop"):
        Fibres.build(shape, indices, leaf_mode)


def test_neighbours_in_one_fibre_are_not_repeats() -> None:
    indices = np.array([[0, 1, 2], [0, 1, 3], [0, 2, 2], [1, 1, 2]])
    assert Fibres.build((3, 4, 5), indices)[0].size == 4


@settings(deadline=None, max_examples=30)
@given(order=st.integers(3, 6), seed=seeds, leaf_mode=st.integers(0, 2))
def test_shapes_of_more_than_64_bits_are_sorted_too(order: int, seed: int, leaf_mode: int) -> None:
    shape = (2**32 - 1,) * order
    rng = np.random.default_rng(seed)
    few = rng.integers(
        0, 2**32 - 1, (order, 3)
    )  # few coordinates, so that fibres have several entries
    indices = np.unique(few[np.arange(order), rng.integers(0, 3, (40, order))], axis=0)
    indices = rng.permutation(indices)
    fibres, permutation = Fibres.build(shape, indices, leaf_mode)
    expected = expected_order(indices, tree_order(shape, leaf_mode))
    assert identity_or(permutation, len(indices)) == expected
    np.testing.assert_array_equal(fibres.indices(), indices[expected])
    other, back = fibres.along(order - 1)
    order_back = identity_or(back, len(indices))
    np.testing.assert_array_equal(other.indices(), fibres.indices()[order_back])
    assert fibres.n_columns == (2**32 - 1) ** (order - 1)


def test_modes_above_32_bits_are_refused() -> None:
    with pytest.raises(InputError, match=r"mode sizes above 4294967295 are not supported"):
        Fibres.build((2**32, 3), np.array([[0, 0]]))


def test_a_leaf_mode_out_of_range_is_refused() -> None:
    with pytest.raises(InputError, match="between -2 and 1"):
        Fibres.build((3, 4), np.array([[0, 0]]), 2)


def test_unobserved_indices_are_found_in_long_lists() -> None:
    # index 3 of mode 1 occurs in the last entry only, index 2 never
    rows = np.arange(1000)
    indices = np.stack([rows, np.where(rows < 999, rows % 2, 3)], axis=1)
    for leaf_mode in (0, 1):
        fibres, _ = Fibres.build((1001, 4), indices, leaf_mode)
        assert fibres.unobserved(0).tolist() == [1000]
        assert fibres.unobserved(1).tolist() == [2]


def test_short_leaves_are_the_same_entries() -> None:
    indices = np.array([[0, 65_535], [1, 7], [1, 9]])
    fibres, _ = Fibres.build((2, 65_536), indices)
    short = fibres.with_short_leaves()
    assert short.leaves.dtype == np.uint16
    assert np.array_equal(short.indices(), fibres.indices())
    wide, _ = Fibres.build((2, 65_537), indices)
    assert wide.with_short_leaves() is wide


@pytest.mark.parametrize(
    ("shape", "rank", "size", "stored", "expected"),
    [
        ((50, 50, 50), (3, 3, 3), 10_000, None, (0, 1, 2)),  # C order, of equals
        ((50, 50, 50), (3, 3, 3), 10_000, (2, 1, 0), (2, 1, 0)),  # no sort, of equals
        ((5, 2000, 30), (3, 3, 3), 60_000, None, (0, 2, 1)),  # long fibres, few nodes
        ((5, 2000, 30), (3, 3, 3), 60_000, (0, 1, 2), (0, 2, 1)),  # worth a sort
        (
            (60, 60, 60),
            (2, 20, 20),
            50_000,
            None,
            (1, 2, 0),
        ),  # the cost of a leaf mode grows with its rank
    ],
)
def test_tree_order_follows_the_cost_model(
    shape: tuple[int, ...],
    rank: tuple[int, ...],
    size: int,
    stored: tuple[int, ...] | None,
    expected: tuple[int, ...],
) -> None:
    assert choose_modes(shape, rank, size, stored) == expected
