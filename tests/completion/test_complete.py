"""`complete`: the model it selects, how it reports it, and what it refuses."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pytest

import tensormend as tm
from cases import decaying
from tensormend.completion.cost import generous_rank
from tensormend.completion.selection import choose_model, strengths
from tensormend.core import kernels
from tensormend.data.observations import Observations
from tensormend.errors import DataWarning, InputError

pytestmark = pytest.mark.numerical


def with_missing(x: Any, ratio: float, seed: int = 0) -> Any:
    return np.where(np.random.default_rng(seed).random(x.shape) < ratio, x, np.nan)


def rmse(filled: Any, x: Any, data: Any) -> float:
    return float(np.sqrt(np.mean((filled - x)[np.isnan(data)] ** 2)))


@pytest.mark.parametrize(
    ("shape", "rank", "ratio"),
    [
        ((30, 30, 30), (3, 3, 3), 0.2),
        ((40, 30, 20), (2, 4, 3), 0.25),
        ((30, 40), (2, 2), 0.5),
        ((12, 10, 11, 9), (2, 2, 2, 2), 0.3),
    ],
)
def test_the_rank_of_exact_data_is_found(
    shape: tuple[int, ...], rank: tuple[int, ...], ratio: float
) -> None:
    truth = tm.simulate.random_tucker(shape, rank, rng=0).todense()
    result = tm.complete(with_missing(truth, ratio), rng=0)
    assert result.rank == rank
    assert np.allclose(result.data, truth, atol=1e-6 * np.abs(truth).max())
    assert result.trust.verdict.name == "RELIABLE"
    assert {trial.model for trial in result.trials} == {"shrinkage", "tucker"}
    assert f"rank {rank}" in str(result.best_trial)


def test_noise_does_not_raise_the_rank() -> None:
    truth = tm.simulate.random_tucker((40, 40, 40), (2, 4, 3), rng=0).todense()
    truth /= truth.std()
    noisy = truth + 1e-3 * np.random.default_rng(1).standard_normal(truth.shape)
    data = with_missing(noisy, 0.2)
    result = tm.complete(data, rng=0)
    assert result.rank == (2, 4, 3)
    assert rmse(result.fitted_values(), truth, data) < 5e-4


def test_decaying_spectra_are_shrunk() -> None:
    x = decaying((30, 31, 32))
    noisy = x + 0.1 * np.random.default_rng(3).standard_normal(x.shape)
    data = with_missing(noisy, 0.3)
    result = tm.complete(data, rng=0)
    assert result.fit.method == "shrink"
    best_rank = min(
        rmse(tm.complete(data, r, max_iter=60).fitted_values(), x, data) for r in range(1, 6)
    )
    assert rmse(result.fitted_values(), x, data) < best_rank
    chosen = min(result.trials, key=lambda trial: trial.error)
    assert result.trust.rmse == pytest.approx(chosen.error, rel=0.02)


def test_the_choice_is_close_to_the_best_strength() -> None:
    """One hold-out comes within 3% of what an oracle would choose."""
    x = decaying((30, 31, 32)) + 5
    noisy = x + 0.2 * np.random.default_rng(3).standard_normal(x.shape)
    data = with_missing(noisy, 0.3)
    got = rmse(tm.complete(data, rng=0, model="shrinkage").fitted_values(), x, data)
    observed = ~np.isnan(data)
    mean = noisy[observed].mean()
    operator = tm.DenseSampling(x.shape, np.argwhere(observed))
    oracle = np.inf
    for strength in np.geomspace(0.1, 0.001, 12):
        solver = tm.solvers.Shrink(strength, initial_strength=0.3)
        fit = tm.recover(operator, noisy[observed] - mean, x.shape, method=solver).x
        oracle = min(oracle, rmse(fit.todense() + mean, x, data))
    assert got < 1.03 * oracle


def test_held_out_errors_are_honest() -> None:
    """The held-out error is that of missing entries, within its standard error and a margin."""
    x = decaying((30, 31, 32)) + 0.3 * np.random.default_rng(3).standard_normal((30, 31, 32))
    data = with_missing(x, 0.4)
    result = tm.complete(data, rng=0)
    error = rmse(result.fitted_values(), x, data)
    assert abs(result.trust.rmse - error) < 3 * result.trust.standard_error + 0.05 * error


def test_whole_fibres_are_held_out_if_whole_fibres_are_missing() -> None:
    rng = np.random.default_rng(0)
    effects = rng.standard_normal(25)[None, :, None] + rng.standard_normal(20)
    x = decaying((24, 25, 20)) + 3 * effects + 0.2 * rng.standard_normal((24, 25, 20))
    data = np.where(rng.random((1, 25, 20)) < 0.5, x, np.nan)
    result = tm.complete(data, rng=0)
    assert any("by fibres along mode 0" in note for note in result.notes)
    assert {trial.center for trial in result.trials if trial.model == "shrinkage"} == {
        (),
        (0, 1, 2),
    }
    error = rmse(result.fitted_values(), x, data)
    assert abs(result.trust.rmse - error) < 3 * result.trust.standard_error + 0.1 * error


def test_the_seed_decides() -> None:
    data = with_missing(decaying((15, 16, 17)), 0.4)
    first, again = (tm.complete(data, rng=5) for _ in range(2))
    assert np.array_equal(first.data, again.data)
    assert first.trials == again.trials


def test_preprocessing_is_inverted() -> None:
    rng = np.random.default_rng(0)
    rates = np.exp(decaying((20, 21, 22)) + 2)
    counts = rng.poisson(rates)
    observed = rng.random(counts.shape) < 0.5
    result = tm.complete(
        counts, observed=observed, transform="log1p", standardize=1, clip=(0, None), rng=0
    )
    assert result.data[observed].tolist() == counts[observed].tolist()
    assert result.fitted_values().min() >= 0
    assert result.preprocessing.value_transform == "log1p"
    assert result.preprocessing.standardize == 1
    indices = np.array([[0, 1, 2], [5, 6, 7]])
    assert np.allclose(
        result.entries(indices, keep_observed=False), result.fitted_values()[tuple(indices.T)]
    )
    assert np.allclose(result[3, :, 5], result.data[3, :, 5])


def test_a_given_rank_takes_preprocessing_too() -> None:
    truth = tm.simulate.random_tucker((20, 21, 22), 2, rng=0).todense() + 100
    data = with_missing(truth, 0.4)
    result = tm.complete(data, 2, center="mean", tol=1e-9)
    assert result.preprocessing.mean == pytest.approx(np.nanmean(data))
    assert np.allclose(result.data[~np.isnan(data)], data[~np.isnan(data)])
    assert result.trials == ()
    assert result.trust.in_sample
    assert result.trust.verdict.name == "NOT_ASSESSED"
    held = tm.complete(data, 3, validation_fraction=0.1, rng=0, tol=1e-9).trust
    assert not held.in_sample
    assert held.verdict.name == "RELIABLE"
    assert held.n_held == round(0.1 * np.isfinite(data).sum())


def test_constant_data() -> None:
    data = with_missing(np.full((6, 7, 8), 3.0), 0.5)
    result = tm.complete(data, rng=0)
    assert np.allclose(result.data, 3.0)
    assert result.success


def test_complex_data() -> None:
    truth = tm.simulate.random_tucker((20, 20, 20), 2, rng=0, dtype="complex128").todense()
    observed = np.random.default_rng(1).random(truth.shape) < 0.4
    result = tm.complete(truth, observed=observed, rng=0)
    assert np.allclose(result.data, truth)


def test_single_precision_is_kept() -> None:
    data = with_missing(decaying((12, 13, 14)), 0.5).astype(np.float32)
    result = tm.complete(data, rng=0)
    assert result.data.dtype == np.float32


def test_callbacks_are_called_after_every_trial_and_iteration() -> None:
    calls: list[tm.CompletionProgress] = []
    result = tm.complete(with_missing(decaying((12, 13, 14)), 0.5), rng=0, callback=calls.append)
    assert tuple(now.trial for now in calls if now.trial) == result.trials
    steps = [now for now in calls if now.trial is None]
    assert [now.n_iter for now in steps] == list(range(1, len(steps) + 1))
    assert result.n_iter == len(steps)
    n_last = result.fit.n_iter
    assert [now.stage for now in steps[-n_last:]] == ["fit"] * n_last
    assert {now.stage for now in steps} == {"search", "weights", "fit"}
    assert all(0 < now.fraction < 1 for now in steps)
    assert all(a.seconds <= b.seconds for a, b in pairwise(calls))
    errors = [now.validation_error for now in steps if now.stage == "search"]
    assert np.nanmin(errors) < next(error for error in errors if np.isfinite(error))


def test_callbacks_are_called_with_a_given_rank() -> None:
    calls: list[tm.CompletionProgress] = []
    data = with_missing(tm.simulate.random_tucker((12, 13, 14), 2, rng=0).todense(), 0.5)
    result = tm.complete(data, 2, rng=0, validation_fraction=0.1, callback=calls.append)
    assert [now.residual for now in calls] == result.fit.history.residual[1:].tolist()
    assert [now.validation_error for now in calls] == result.fit.history.validation_error[
        1:
    ].tolist()
    assert {(now.stage, now.note) for now in calls} == {("fit", "rank (2, 2, 2)")}


@pytest.mark.parametrize("after", [1, 5, 40, 70])
def test_a_callback_may_end_a_search(after: int) -> None:
    data = with_missing(decaying((12, 13, 14)), 0.5)
    result = tm.complete(data, rng=0, callback=lambda now: now.n_iter >= after)
    whole = tm.complete(data, rng=0)
    assert np.isfinite(result.data).all()
    assert len(result.trials) < len(whole.trials)
    assert any("a callback ended the search" in note for note in result.notes)
    assert result.trust.n_held > 0


def test_a_callback_may_end_a_fit() -> None:
    data = with_missing(tm.simulate.random_tucker((12, 13, 14), 2, rng=0).todense(), 0.5)
    result = tm.complete(data, 2, rng=0, callback=lambda now: now.n_iter >= 2)
    assert result.status is tm.Status.STOPPED
    assert result.n_iter == 2


def test_a_time_limit_is_kept() -> None:
    x = decaying((60, 61, 62))
    data = with_missing(x, 0.5)
    clock = time.perf_counter()
    result = tm.complete(data, rng=0, time_limit=1.0)
    assert time.perf_counter() - clock < 5  # a limit of seconds, not of milliseconds
    assert np.isfinite(result.data).all()


def test_a_time_limit_that_cuts_the_search_says_so() -> None:
    data = with_missing(decaying((40, 41, 42)), 0.5)
    result = tm.complete(data, rng=0, time_limit=1e-3)
    assert any("time limit" in note for note in result.notes)
    assert np.isfinite(result.data).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": "best"}, r"rank must be 'auto', one int or one per mode, got 'best'"),
        ({"method": "rgd"}, r"method='rgd' needs a rank; give one, or use model= to choose"),
        ({"model": "shrink"}, r"model must be one of auto, shrinkage, tucker, got 'shrink'"),
        ({"model": "rank", "rank": 2}, r"model must be one of auto, shrinkage, tucker"),
        ({"model": "shrinkage", "rank": 2}, r"model='shrinkage' finds its own rank; leave rank="),
        ({"tol": 1e-3}, r"tol needs a rank; give one, or leave the option out"),
        (
            {"validation_fraction": 0.7},
            r"validation_fraction must be a fraction of the observed entries, above 0",
        ),
        ({"validation_fraction": (1, 2)}, r"validation_fraction must be a fraction of"),
        (
            {"time_limit": 0},
            r"time_limit must be positive to select a model, got 0; give more time",
        ),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tm.complete(with_missing(np.ones((4, 5, 6)), 0.5), **options)


def test_a_run_that_does_not_fit_is_refused_before_it_starts() -> None:
    data = with_missing(decaying((20, 21, 22)), 0.5)
    for rank in ("auto", 2):
        with pytest.raises(tm.errors.MemoryLimitError, match=r"the run needs about .* allowed"):
            tm.complete(data, rank, memory_limit=2**20)


def test_the_estimate_of_a_search_grows_with_the_data() -> None:
    small, large = (tm.estimate_cost(with_missing(np.ones((n, n, n)), 0.5)) for n in (20, 60))
    assert small.bytes < large.bytes
    assert 0 < small.seconds < large.seconds
    assert "of memory" in str(large)


def test_too_few_entries_to_choose_by() -> None:
    with pytest.raises(InputError, match="at least two observed entries, got 1; give a rank"):
        tm.complete([1.0], indices=[[0, 1]], shape=(3, 4))
    with pytest.raises(InputError, match="no entry can be held out of 2"):
        tm.complete([1.0, 2.0], indices=[[0, 1], [1, 2]], shape=(3, 4))


def test_only_one_kind_of_model() -> None:
    data = with_missing(tm.simulate.random_tucker((15, 15, 15), 2, rng=0).todense(), 0.4)
    assert {t.model for t in tm.complete(data, rng=0, model="shrinkage").trials} == {"shrinkage"}
    assert {t.model for t in tm.complete(data, rng=0, model="tucker").trials} == {"tucker"}


def test_generous_ranks_exist() -> None:
    assert generous_rank((5, 6, 7)) == (5, 6, 7)
    assert generous_rank((100, 3, 2)) == (6, 3, 2)
    assert generous_rank((100, 100, 100), 10**6) == (40, 40, 40)
    assert generous_rank((10**5, 10**5, 50), 10**5) == (1, 1, 1)
    assert math.prod(generous_rank((40,) * 5, 10**5)) <= 10**5


def test_passes_and_dense_products_choose_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    x = decaying((20, 21, 22)) + 0.1 * np.random.default_rng(3).standard_normal((20, 21, 22))
    observed = np.random.default_rng(0).random(x.shape) < 0.3
    entries = Observations(np.argwhere(observed), x[observed], x.shape)
    dense = choose_model(entries, rng=0)
    monkeypatch.setattr("tensormend.completion.cost.search.DENSE_BYTES", 0)
    sparse = choose_model(entries, rng=0)
    assert sparse.trial.strength == dense.trial.strength
    assert sparse.trial.error == pytest.approx(dense.trial.error, rel=1e-3)


# difficult data


def correlated_channels() -> Any:
    rng = np.random.default_rng(0)
    image = decaying((40, 50)) + 0.5 * rng.standard_normal((40, 50))
    return image[:, :, None] * np.array([1.0, 0.9, 1.1]) + 0.05 * rng.standard_normal((40, 50, 3))


def test_missing_pixels_of_a_colour_image_are_missing_fibres() -> None:
    x = correlated_channels()
    data = np.where(np.random.default_rng(1).random((40, 50, 1)) < 0.3, x, np.nan)
    result = tm.complete(data, rng=0)
    assert any("by fibres along mode 2" in note for note in result.notes)
    error = rmse(result.fitted_values(), x, data)
    assert abs(result.trust.rmse - error) < 0.25 * error


def test_noise_on_an_offset_is_not_determined() -> None:
    x = 1e6 + np.random.default_rng(0).standard_normal((15, 16, 17))
    trust = tm.complete(with_missing(x, 0.5), rng=0).trust
    assert trust.verdict.name != "RELIABLE"


def test_a_matrix_with_unobserved_rows() -> None:
    data = with_missing(tm.simulate.random_tucker((50, 40), 3, rng=0).todense(), 0.6)
    data[[3, 7, 20]] = np.nan
    with pytest.warns(DataWarning, match=r"no observation at all at index 3, 7, 20 \(3 of 50\)"):
        result = tm.complete(data, rng=0)
    with pytest.warns(DataWarning, match="little more than a mean"):
        tm.complete(data, rng=0, model="shrinkage")
    assert np.isfinite(result.data).all()
    assert result.trust.empty_slices[0].tolist() == [3, 7, 20]
    assert any("one by one" in note for note in result.notes)


@pytest.mark.parametrize("scale", [1e18, 1e-25])
def test_the_size_of_single_precision_data_does_not_matter(scale: float) -> None:
    x = decaying((12, 13, 14)) + 0.1 * np.random.default_rng(0).standard_normal((12, 13, 14))
    data = with_missing(x, 0.5).astype(np.float32)
    plain, scaled = tm.complete(data, rng=0), tm.complete(data * np.float32(scale), rng=0)
    assert scaled.trials[-1].strength == plain.trials[-1].strength
    assert scaled.trust.rmse == pytest.approx(scale * plain.trust.rmse, rel=1e-3)


@pytest.mark.parametrize("scale", [1e160, 1e-170])
def test_the_size_of_double_precision_data_does_not_matter(scale: float) -> None:
    data = with_missing(decaying((12, 13, 14)), 0.5)
    plain, scaled = tm.complete(data, rng=0), tm.complete(data * scale, rng=0)
    assert scaled.trials[-1].strength == plain.trials[-1].strength
    assert np.allclose(scaled.data / scale, plain.data, atol=1e-6)


def test_zeros() -> None:
    data = with_missing(np.zeros((6, 7, 8)), 0.5)
    models: tuple[Literal["auto", "tucker"], ...] = ("auto", "tucker")
    for model in models:
        result = tm.complete(data, rng=0, model=model)
        assert not result.data.any()


@pytest.mark.skipif(not kernels.is_native, reason="takes minutes with the NumPy kernels")
def test_order_five_beyond_what_can_be_formed() -> None:
    shape = (40,) * 5
    truth = tm.simulate.random_tucker(shape, 2, rng=0)
    indices = tm.simulate.sample_indices(shape, 100_000 / 40**5, rng=1)
    result = tm.complete(
        truth.entries(indices), indices=indices, shape=shape, rng=0, model="tucker"
    )
    assert result.rank == (2,) * 5
    assert tm.estimate_cost(truth.entries(indices), indices=indices, shape=shape).bytes < 2**30


def test_a_given_rank_is_assessed_on_fibres_if_fibres_are_missing() -> None:
    rng = np.random.default_rng(0)
    x = decaying((24, 25, 20)) + 0.2 * rng.standard_normal((24, 25, 20))
    data = np.where(rng.random((1, 25, 20)) < 0.4, x, np.nan)
    result = tm.complete(data, 4, validation_fraction=0.1, rng=0, max_iter=50)
    error = rmse(result.fitted_values(), x, data)
    assert result.trust.rmse > 0.3 * error
    assert result.assessment.groups is not None
    assert len(np.unique(result.assessment.groups)) < len(result.assessment.held)


def test_a_fit_is_assessed_on_validation_data() -> None:
    truth = tm.simulate.random_tucker((15, 16, 17), 2, rng=0).todense()
    data = with_missing(truth, 0.5)
    hidden = np.argwhere(np.isnan(data))[:300]
    trust = tm.complete(data, 2, validation_data=(hidden, truth[tuple(hidden.T)] + 1.0)).trust
    assert trust.n_held == 300
    assert trust.rmse == pytest.approx(1.0, rel=1e-3)
    assert not trust.in_sample


def test_noise_is_estimated_from_fitted_entries() -> None:
    truth = tm.simulate.random_tucker((20, 20, 20), 2, rng=0).todense()
    x = truth + 0.1 * np.random.default_rng(1).standard_normal(truth.shape)
    trust = tm.complete(with_missing(x, 0.4), 8, validation_fraction=0.2, rng=0, max_iter=100).trust
    assert trust.noise_std < 0.13
    assert any("overfits" in reason for reason in trust.reasons)


def test_a_limit_in_a_later_fold_keeps_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    x = decaying((24, 25, 20)) + 0.1 * np.random.default_rng(0).standard_normal((24, 25, 20))
    data = np.where(np.random.default_rng(1).random((1, 25, 20)) < 0.4, x, np.nan)
    calls = 0
    follow = strengths._follow

    def late(search: Any, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            search.deadline = -1.0
        return follow(search, *arguments)

    monkeypatch.setattr("tensormend.completion.selection.strengths._follow", late)
    result = tm.complete(data, rng=0, model="shrinkage", time_limit=1000)
    assert calls == 2
    assert result.trials[-1].strength < 0.1  # a path cut short would end at its strong end


def test_centrings_and_limits_that_are_refused() -> None:
    data = with_missing(np.ones((4, 5, 6)), 0.5)
    with pytest.raises(
        InputError, match="center must be None, 'auto', 'mean', 'all' or a sequence of modes"
    ):
        tm.complete(data, center="bogus")  # type: ignore[arg-type]
    with pytest.raises(
        InputError, match="time_limit must be a number, 0 or more, or None, got '1'"
    ):
        tm.complete(data, time_limit="1")  # type: ignore[arg-type]
    with pytest.raises(InputError):
        tm.complete([1.0, 2.0, 3.0], indices=[[0, 1], [1, 9], [2, 2]], shape=(3, 4))
    means = tm.complete(with_missing(decaying((10, 11, 12)) + 3, 0.6), center=[0, 1], rng=0)
    assert set(means.preprocessing.effects) == {0, 1}


def test_the_selection_is_described_by_the_names_of_modes() -> None:
    x = decaying((14, 15, 10)) + 0.1 * np.random.default_rng(0).standard_normal((14, 15, 10))
    observed = np.random.default_rng(1).random((14, 15, 1)) < 0.5
    data = np.where(observed, x, np.nan)
    named = tm.complete(tm.TensorData(data, dims=("city", "day", "hour")), center=[0], rng=0)
    assert any(note.endswith("held out by fibres along mode 'hour'") for note in named.notes)
    assert "the grand mean and effects of mode 'city' subtracted" in str(named.best_trial)
    plain = tm.complete(tm.TensorData(data), center=[0], rng=0)
    assert any(note.endswith("held out by fibres along mode 2") for note in plain.notes)
    assert "the grand mean and effects of mode 0 subtracted" in str(plain.best_trial)


def test_trials_describe_themselves() -> None:
    trial = tm.Trial("shrinkage", (0, 2), 0.01, (3, 3, 3), 0.5, 0.01, (1.0, 8.0, 0.5))
    assert str(trial) == (
        "shrinkage of strength 0.01, stronger in mode 1 (x8), weaker in mode 2 (x0.5), the grand "
        "mean and effects of mode 0, mode 2 subtracted, held-out error 0.5 ± 0.01"
    )
    named = replace(trial, mode_names=("x", "y", "band"))
    assert "stronger in y (x8), weaker in band (x0.5)" in str(named)
    assert named == trial
    ranked = replace(trial, model="tucker", center=None)
    assert str(ranked).startswith("Tucker model of rank (3, 3, 3), no centring, held-out error")


def test_every_iteration_is_counted_and_timed() -> None:
    data = with_missing(tm.simulate.random_tucker((15, 15, 15), 2, rng=0).todense(), 0.4)
    calls: list[tm.CompletionProgress] = []
    started = time.perf_counter()
    result = tm.complete(data, rng=0, callback=calls.append)
    assert result.best_trial is not None
    assert result.best_trial.model == "tucker"
    assert result.n_iter == sum(now.trial is None for now in calls) > result.fit.n_iter
    assert calls[-1].seconds <= result.seconds <= time.perf_counter() - started
    given = tm.complete(data, 2, rng=0)
    assert given.n_iter == given.fit.n_iter > 0


def test_every_stage_is_reported_and_counted() -> None:
    """Search, weights, ranks and final fit of one run: n_iter is the number of iterations."""
    truth = tm.simulate.random_tucker((15, 15, 15), 2, rng=0).todense()
    noise = 1e-4 * truth.std() * np.random.default_rng(1).standard_normal(truth.shape)
    calls: list[tm.CompletionProgress] = []
    result = tm.complete(with_missing(truth + noise, 0.4), rng=0, callback=calls.append)
    steps = [now for now in calls if now.trial is None]
    assert [now.n_iter for now in steps] == list(range(1, result.n_iter + 1))
    assert {now.stage for now in steps} == {"search", "weights", "rank", "fit"}
    assert sum(now.stage == "fit" for now in steps) == result.fit.n_iter
    assert [str(now.trial) for now in calls if now.trial] == list(map(str, result.trials))  # NaN


@pytest.mark.parametrize("stage", ["search", "weights", "rank", "fit"])
def test_a_time_limit_ends_every_stage(stage: str) -> None:
    """Iterations of one stage are slow: only as many are made as the limit has time for."""
    limit, pause = 3.0, 1.5
    if stage == "fit":
        data = with_missing(decaying((12, 13, 14)), 0.5)  # shrinkage, with five final iterations
    else:
        data = with_missing(tm.simulate.random_tucker((15, 15, 15), 2, rng=0).todense(), 0.4)
    slow: list[tm.CompletionProgress] = []

    def wait(now: tm.CompletionProgress) -> None:
        if now.stage == stage and now.trial is None:
            slow.append(now)
            time.sleep(pause)

    result = tm.complete(data, rng=0, time_limit=limit, callback=wait)
    assert 0 < len(slow) <= limit / pause
    if stage == "fit":
        assert result.status is tm.Status.TIME_LIMIT
    else:
        assert any("the time limit ended the search" in note for note in result.notes)
    assert np.isfinite(result.data).all()


@pytest.mark.parametrize("stage", ["search", "weights", "rank", "fit"])
def test_a_callback_ends_every_stage(stage: str) -> None:
    if stage == "fit":
        data = with_missing(decaying((12, 13, 14)), 0.5)
    else:
        data = with_missing(tm.simulate.random_tucker((15, 15, 15), 2, rng=0).todense(), 0.4)
    stages: list[str] = []

    def stop(now: tm.CompletionProgress) -> bool:
        if now.trial is None:
            stages.append(now.stage)
        return now.stage == stage

    result = tm.complete(data, rng=0, callback=stop)
    assert stages.count(stage) == 1
    assert stages[-1] == "fit"
    assert result.n_iter == len(stages)


def test_center_auto_has_one_rule() -> None:
    """Shrinkage subtracts the grand mean; Tucker models of any rank subtract nothing."""
    data = with_missing(tm.simulate.random_tucker((15, 15, 15), 2, rng=0).todense() + 0.5, 0.5)
    result = tm.complete(data, rng=0)
    centrings = {(trial.model, trial.center) for trial in result.trials}
    assert centrings == {("shrinkage", ()), ("tucker", None)}
    explicit = tm.complete(data, rng=0, preprocessing=tm.Preprocessing(center="auto"))
    assert np.array_equal(explicit.data, result.data)
    rules: dict[Any, Any] = {"shrinkage": "mean", "tucker": None}
    for model, center in rules.items():
        by_rule = tm.complete(data, rng=0, model=model)
        given = tm.complete(data, rng=0, model=model, center=center)
        assert np.array_equal(by_rule.data, given.data)
        assert (by_rule.preprocessing.mean is None) == (center is None)
    by_rank = tm.complete(data, 3, rng=0)
    assert by_rank.preprocessing.is_identity
    assert np.array_equal(by_rank.data, tm.complete(data, 3, center=None, rng=0).data)


def test_several_callbacks_are_all_called() -> None:
    data = with_missing(decaying((8, 9, 10)), 0.6)
    first: list[tm.CompletionProgress] = []
    second: list[tm.CompletionProgress] = []
    tm.complete(data, 2, rng=0, callback=[first.append, second.append], max_iter=5)
    assert first == second
    assert len(first) == 5
    stop = [lambda _: True, second.append]
    result = tm.complete(data, 2, rng=0, callback=stop)
    assert result.status.name == "STOPPED"
    assert len(second) == 6
    with pytest.raises(InputError, match="callback must be a function of a CompletionProgress"):
        tm.complete(data, 2, callback=True)  # type: ignore[arg-type]


def test_a_bar_shows_the_progress(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = with_missing(decaying((8, 9, 10)), 0.6)
    plain, silent = (tm.complete(data, rng=0, progress=is_shown) for is_shown in (False, True))
    assert capsys.readouterr() == ("", "")  # a file or pipe is not a terminal
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = tm.complete(data, rng=0, progress=True)
    streams = capsys.readouterr()
    assert streams.out == ""
    assert "iteration " in streams.err
    assert np.array_equal(plain.data, shown.data)
    assert np.array_equal(plain.data, silent.data)


def test_an_initial_tensor_is_in_the_units_of_the_fit() -> None:
    truth = tm.simulate.random_tucker((12, 13, 14), 2, rng=0)
    data = with_missing(truth.todense() + 100, 0.6)
    result = tm.complete(with_missing(truth.todense(), 0.6), 2, init=truth)
    assert result.fit.history.residual[0] < 1e-12
    clipped = tm.complete(with_missing(truth.todense(), 0.6), 2, init=truth, clip=(-1e3, 1e3))
    assert clipped.fit.history.residual[0] < 1e-12
    for options in ({"center": "mean"}, {"standardize": 0}, {"transform": "log1p"}):
        with pytest.raises(InputError, match="because the fit is in other units, got a Tucker"):
            tm.complete(data, 2, init=truth, **options)


def test_preprocessing_may_be_given_as_one() -> None:
    rng = np.random.default_rng(0)
    counts = with_missing(rng.poisson(np.exp(decaying((10, 11, 12)) + 2)).astype(float), 0.6)
    settings = tm.Preprocessing("log1p", standardize=1, clip=(0, None))
    one = tm.complete(counts, preprocessing=settings, rng=0)
    other = tm.complete(counts, transform="log1p", standardize=1, clip=(0, None), rng=0)
    assert np.array_equal(one.data, other.data)
    with pytest.raises(InputError, match="preprocessing= takes the place of center, clip; give"):
        tm.complete(counts, preprocessing=settings, center=[0], clip=(0, 9))
    with pytest.raises(InputError, match=r"must be a tensormend\.Preprocessing, got dict"):
        tm.complete(counts, preprocessing={})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["truth", "truth_tol", "operator", "y", "holdout", "mask"])
def test_what_complete_cannot_use_is_no_option(name: str) -> None:
    options: dict[str, Any] = {name: 1}
    with pytest.raises(TypeError, match=rf"complete\(\) got .* unexpected .*'{name}'"):
        tm.complete(np.ones((3, 4, 5)), 1, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"validation_fraction": 0.1, "validation_data": ([[0, 0, 0]], [1.0])}, "cannot both"),
        ({"validation_data": ([[0, 0, 0]], [1.0])}, "validation_data needs a rank; give one"),
        ({"init": "random", "step": 1.0}, "step, init needs a rank"),
        ({"measurement_dtype": np.float32}, "measurement_dtype needs a rank"),
        ({"time_limit": -1.0}, "time_limit must be a number, 0 or more"),
        ({"checkpoint": tm.Checkpoint("x", extra=dict)}, "must have no extra= in complete"),
    ],
)
def test_options_that_cannot_be_used_together_are_refused(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        tm.complete(with_missing(np.ones((4, 5, 6)), 0.5), **options)


def test_validation_data_are_compared_in_the_units_of_the_fit() -> None:
    truth = np.exp(0.1 * decaying((12, 13, 14)))
    data = with_missing(truth, 0.7)
    hidden = np.argwhere(np.isnan(data))
    pair = hidden, truth[tuple(hidden.T)]
    result = tm.complete(data, 4, transform="log1p", center="mean", validation_data=pair, rng=0)
    assert result.fit.history.validation_error[-1] < 0.2
    assert result.trust.n_held == len(hidden)
    errors = result.entries(hidden) - pair[1]
    assert result.trust.rmse == pytest.approx(np.sqrt(np.mean(errors**2)))
