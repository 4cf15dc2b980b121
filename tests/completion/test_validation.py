"""Patterns of missing entries, and the folds that imitate them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensormend.completion.validation import Pattern, draw_folds, find_pattern

pytestmark = pytest.mark.numerical


def test_entries_missing_at_random_have_no_pattern() -> None:
    for fraction in (0.1, 0.5, 0.9):
        observed = np.random.default_rng(0).random((20, 10, 12)) > fraction
        assert find_pattern(np.argwhere(observed), observed.shape) == Pattern(None, 0.0)


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_missing_fibres_are_found_among_single_missing_entries(mode: int) -> None:
    shape = (20, 18, 19)
    rng = np.random.default_rng(mode)
    single = tuple(1 if k == mode else n for k, n in enumerate(shape))
    observed = (rng.random(single) > 0.3) & (rng.random(shape) > 0.2)
    pattern = find_pattern(np.argwhere(observed), shape)
    assert pattern.mode == mode
    lost = ~observed.any(axis=mode, keepdims=True) & ~observed
    assert pattern.fraction == pytest.approx(lost.sum() / (~observed).sum())


def test_full_data_and_a_single_missing_entry() -> None:
    observed = np.ones((4, 5), dtype=bool)
    assert find_pattern(np.argwhere(observed), observed.shape) == Pattern(None, 0.0)
    observed[2, 3] = False
    assert find_pattern(np.argwhere(observed), observed.shape) == Pattern(None, 0.0)


def test_more_fibres_than_can_have_a_flag() -> None:
    shape = (10**6, 10**6, 5)
    rng = np.random.default_rng(0)
    indices = np.stack([rng.integers(0, n, 1000) for n in shape], axis=1)
    assert find_pattern(indices, shape).mode is None  # almost every fibre is empty by chance too


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), fraction=st.floats(0.2, 0.95), fibres=st.booleans())
def test_folds_are_disjoint_and_leave_every_slice_an_entry(
    seed: int, fraction: float, fibres: bool
) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(2, 9, 3))
    observed = rng.random((1, *shape[1:]) if fibres else shape) < fraction
    observed = np.broadcast_to(observed, shape).copy()
    observed[0, 0, 0] = True
    indices = np.argwhere(observed)
    folds = draw_folds(indices, shape, rng)
    held = np.concatenate([fold.held for fold in folds]) if folds else np.zeros(0, dtype=int)
    assert len(np.unique(held)) == len(held)
    for fold in folds:
        assert fold.weights.sum() == pytest.approx(1)
        kept = fold.kept(len(indices))
        assert len(kept) + len(fold.held) == len(indices)
        for k in range(3):
            assert set(indices[kept, k]) == set(indices[:, k])


def test_fibres_are_held_out_whole_and_count_once() -> None:
    rng = np.random.default_rng(0)
    observed = np.broadcast_to(rng.random((1, 30, 20)) > 0.3, (40, 30, 20))
    indices = np.argwhere(observed)
    folds = draw_folds(indices, observed.shape, rng)
    assert len(folds) == 3  # 42 fibres in a tenth, and 100 wanted
    for fold in folds:
        columns = indices[fold.held][:, 1:]
        _, counts = np.unique(columns, axis=0, return_counts=True)
        assert set(counts) == {40}
        assert len(np.unique(fold.clusters)) == len(counts)


def test_weights_follow_the_missing_entries() -> None:
    rng = np.random.default_rng(0)
    observed = (rng.random((1, 40, 30)) > 0.2) & (rng.random((50, 40, 30)) > 0.2)
    indices = np.argwhere(observed)
    pattern = find_pattern(indices, observed.shape)
    fold = draw_folds(indices, observed.shape, rng, pattern=pattern)[0]
    sizes = np.bincount(np.unique(fold.clusters, return_inverse=True)[1])
    in_fibre = sizes[np.unique(fold.clusters, return_inverse=True)[1]] > 1
    assert 0 < in_fibre.sum() < len(fold.held)
    assert fold.weights[in_fibre].sum() == pytest.approx(pattern.fraction)


def test_large_data_hold_out_no_more_than_enough() -> None:
    indices = np.stack(np.unravel_index(np.arange(1_500_000), (1000, 50, 30)), axis=1)
    folds = draw_folds(indices, (1000, 50, 30), np.random.default_rng(0))
    assert [len(fold.held) for fold in folds] == [100_000]


def test_small_data_have_several_folds() -> None:
    observed = np.random.default_rng(0).random((10, 10, 10)) < 0.5
    folds = draw_folds(np.argwhere(observed), observed.shape, np.random.default_rng(1))
    assert len(folds) == 5
