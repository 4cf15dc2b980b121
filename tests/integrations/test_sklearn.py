"""The estimators in scikit-learn's hands: its own checks, searches, pipelines, copies."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from sklearn.base import clone, is_regressor
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import tensormend as tm
from kinds import (
    DAYS,
    INDICES,
    KINDS,
    OBSERVED,
    SHAPE,
    TRUTH,
    WITH_NAN,
    make_dataarray,
    make_series,
)
from tensormend.errors import InputError
from tensormend.integrations.sklearn import TuckerImputer, TuckerRegressor

pytestmark = pytest.mark.numerical

VALUES = TRUTH[OBSERVED]
SHUFFLED = np.random.default_rng(0).permutation(len(INDICES))


def of_indices(**options: Any) -> TuckerRegressor:
    return TuckerRegressor(2, shape=SHAPE, tol=1e-10, **options)


# scikit-learn's own checks

WHOLE = "a tensor is filled as a whole, so transform takes the shape that was fitted, not rows"
WORDS = "refused as it should be, in tensormend's words"
NOT_FOR_TENSORS = {
    "check_complex_data": "complex tensors are welcome",
    "check_dtype_object": "arrays of objects are refused, as by complete",
    "check_estimators_empty_data_messages": WORDS,
    "check_fit2d_predict1d": WORDS,
    "check_fit_idempotent": WHOLE,
    "check_methods_subset_invariance": WHOLE,
    "check_n_features_in_after_fitting": WHOLE,
}


@parametrize_with_checks([TuckerImputer(1)], expected_failed_checks=lambda _: NOT_FOR_TENSORS)
def test_checks_of_a_transformer(estimator: Any, check: Any) -> None:
    check(estimator)


# All others fit random matrices of some number of columns, which are no indices of a tensor; what
# they are about is tested below.
FOR_INDICES = {
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_estimators_unfitted",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_requires_y_none",
    "check_set_params",
    "check_valid_tag_types",
}


def test_checks_of_a_regressor() -> None:
    found = set()
    for estimator, check in estimator_checks_generator(of_indices()):
        name = check.func.__name__
        if name in FOR_INDICES:
            check(estimator)
            found.add(name)
    assert found == FOR_INDICES


# data with missing entries


@pytest.mark.parametrize("name", [name for name in KINDS if KINDS[name].given().keys() == {"data"}])
def test_every_kind_is_filled_as_complete_does(name: str) -> None:
    case = KINDS[name]
    data = case.given()["data"]
    estimator = TuckerImputer(2, max_iter=3)
    expected = case.back(tm.complete(data, 2, max_iter=3).data)
    for filled in (estimator.fit_transform(data), estimator.transform(data)):
        assert type(filled) is case.type
        np.testing.assert_array_equal(case.back(filled), expected)
    assert estimator.shape_ == SHAPE
    assert estimator.rank_ == (2, 2, 2)
    assert estimator.n_iter_ == 3


def test_options_are_those_of_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.where(OBSERVED, TRUTH - TRUTH.min(), np.nan)
    options: dict[str, Any] = {
        "rank": 1,
        "model": "tucker",
        "method": "rcg",
        "center": (0,),
        "standardize": 1,
        "value_transform": "log1p",
        "clip": (0, None),
        "validation_fraction": 0.2,
        "tol": 1e-3,
        "max_iter": 4,
        "time_limit": 60.0,
        "threads": 1,
    }
    found: dict[str, Any] = {}

    def watched(**given: Any) -> tm.Completion:
        found.update(given)
        return tm.complete(**given)

    monkeypatch.setattr("tensormend.integrations.sklearn.complete", watched)
    got = TuckerImputer(**options, random_state=7).fit(data).completion_
    assert found.pop("data") is data
    assert set(options) | {"random_state"} == set(TuckerImputer().get_params())
    assert set(options) | {"random_state", "shape"} == set(TuckerRegressor().get_params())
    options["transform"] = options.pop("value_transform")
    assert found == options | {"rng": 7}
    np.testing.assert_array_equal(
        got.fitted_values(), tm.complete(data, **options, rng=7).fitted_values()
    )


def test_by_default_a_model_is_chosen() -> None:
    completion = TuckerImputer(random_state=0).fit(WITH_NAN).completion_
    assert completion.trials
    np.testing.assert_array_equal(completion.data, tm.complete(WITH_NAN, rng=0).data)
    with pytest.raises(InputError, match="tol needs a rank"):
        TuckerImputer(tol=1e-3).fit(WITH_NAN)


def test_other_data_are_filled_from_the_fitted_model() -> None:
    estimator = TuckerImputer(2, tol=1e-10).fit(WITH_NAN.astype(np.float32))
    other = np.where(OBSERVED, np.nan, TRUTH + np.pi)
    filled = estimator.transform(other)
    np.testing.assert_array_equal(filled[~OBSERVED], other[~OBSERVED])  # to the last bit
    np.testing.assert_allclose(filled[OBSERVED], VALUES, atol=1e-3)
    assert np.isnan(other[OBSERVED]).all()
    turned = estimator.transform(np.where(OBSERVED, np.nan, 1j))
    np.testing.assert_array_equal(turned[~OBSERVED], 1j)
    labelled = estimator.transform(make_dataarray(other))
    xr.testing.assert_identical(labelled, make_dataarray(filled))


def test_data_of_another_layout_are_refused() -> None:
    estimator = TuckerImputer(2, max_iter=1).fit(WITH_NAN)
    message = r"of the fitted shape, \(6, 7, 8\), got \(6, 7, 7\); call fit with data"
    with pytest.raises(InputError, match=message):
        estimator.transform(WITH_NAN[:, :, 1:])
    data = make_dataarray()
    estimator.fit(data)
    message = "with the labels that were fitted, got others for mode 'day'; reindex"
    with pytest.raises(InputError, match=message):
        estimator.transform(data.assign_coords(day=DAYS.shift(1)))
    with pytest.raises(InputError, match="got others for mode 'band'"):
        estimator.transform(data.rename(band="level"))
    estimator.fit(make_series())
    other = make_series().rename(index={"A": "Z"}, level="city")
    with pytest.raises(InputError, match="got others for mode 'city'"):
        estimator.transform(other)


def test_the_target_of_a_later_step_is_ignored() -> None:
    first, second = (TuckerImputer(2, max_iter=2).fit_transform(WITH_NAN, y) for y in (None, [1]))
    np.testing.assert_array_equal(first, second)


def test_a_pipeline_goes_on_with_what_is_filled() -> None:
    flatten = FunctionTransformer(lambda x: x.reshape(len(x), -1))
    pipeline = make_pipeline(TuckerImputer(2, tol=1e-10), flatten, PCA(2))
    assert pipeline.fit_transform(WITH_NAN).shape == (6, 2)
    assert pipeline[-1].explained_variance_ratio_.sum() == pytest.approx(1)  # the rank is 2
    np.testing.assert_allclose(
        pipeline.transform(WITH_NAN), pipeline[1:].transform(TRUTH), atol=1e-5
    )


# indices and values


def test_places_are_predicted_by_the_model() -> None:
    train, test = SHUFFLED[:200], SHUFFLED[200:]
    noisy = VALUES + 0.01 * np.random.default_rng(1).standard_normal(len(VALUES))
    estimator = of_indices().fit(INDICES[train], noisy[train])
    assert estimator.n_features_in_ == 3
    np.testing.assert_allclose(estimator.predict(INDICES[test]), VALUES[test], atol=0.2)
    found = estimator.predict(INDICES[train])
    assert not np.isclose(found, noisy[train], rtol=1e-6).any()  # not the values it was given
    model = estimator.completion_.fitted_values()
    np.testing.assert_allclose(found, model[tuple(INDICES[train].T)], atol=1e-12)
    score = estimator.score(INDICES[test], noisy[test])
    assert score == r2_score(noisy[test], estimator.predict(INDICES[test]))
    assert 0.999 < score < 1


def test_predictions_do_not_depend_on_their_company() -> None:
    estimator = of_indices().fit(INDICES, VALUES)
    whole = estimator.predict(INDICES)
    parts = [estimator.predict(part) for part in np.array_split(INDICES, 5)]
    np.testing.assert_allclose(np.concatenate(parts), whole, atol=1e-12)
    np.testing.assert_allclose(estimator.predict(INDICES[SHUFFLED]), whole[SHUFFLED], atol=1e-12)


def test_fitting_again_changes_nothing() -> None:
    estimator = TuckerRegressor(shape=SHAPE, random_state=3).fit(INDICES, VALUES)
    before, first = dict(vars(estimator)), estimator.predict(INDICES)
    assert vars(estimator) == before
    np.testing.assert_array_equal(estimator.fit(INDICES, VALUES).predict(INDICES), first)


def test_tables_of_places_will_do() -> None:
    frame = pd.DataFrame(INDICES, columns=["city", "day", "level"])
    estimator = of_indices().fit(frame, pd.Series(VALUES))
    np.testing.assert_array_equal(
        estimator.predict(frame), of_indices().fit(INDICES, VALUES).predict(INDICES)
    )


def noisy_entries(rank: Any) -> tuple[Any, Any, tuple[int, ...]]:
    rng = np.random.default_rng(1)
    truth = tm.simulate.random_tucker((12, 13, 14), rank, rng=0).todense()
    indices = np.argwhere(rng.random(truth.shape) < 0.5)
    values = truth[tuple(indices.T)]
    return indices, values + 0.1 * values.std() * rng.standard_normal(len(values)), truth.shape


def test_a_grid_search_over_entries_finds_the_rank() -> None:
    indices, values, shape = noisy_entries((2, 3, 2))
    search = GridSearchCV(
        TuckerRegressor(shape=shape, tol=1e-3),
        {"rank": [1, 2, (2, 3, 2), 3]},
        cv=KFold(4, shuffle=True, random_state=0),
        scoring=["r2", "neg_root_mean_squared_error"],
        refit="neg_root_mean_squared_error",
    ).fit(indices, values)
    assert search.best_params_ == {"rank": (2, 3, 2)}
    assert np.argmax(search.cv_results_["mean_test_r2"]) == 2
    assert search.best_estimator_.rank_ == (2, 3, 2)
    assert len(search.best_estimator_.completion_.observations.values) == len(values)
    assert search.predict(indices[:5]).shape == (5,)


def test_a_pipeline_from_labels_to_values() -> None:
    labels = np.stack([np.array([f"{k}-{i:02}" for i in INDICES[:, k]]) for k in range(3)], axis=1)
    estimator = make_pipeline(OrdinalEncoder(dtype=int), of_indices())
    np.testing.assert_allclose(estimator.fit(labels, VALUES).predict(labels), VALUES, atol=1e-6)
    folds = KFold(3, shuffle=True, random_state=0)
    assert cross_val_score(estimator, labels, VALUES, cv=folds).min() > 0.999
    estimator.set_params(tuckerregressor__rank=1)
    assert estimator.fit(labels, VALUES).score(labels, VALUES) < 0.99


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (INDICES, None, "requires y to be passed, but the target y is None; give the values at"),
        (INDICES * 1.0, VALUES, "indices must be integers, got float64; convert with"),
        (INDICES[:, :2], VALUES, r"indices must be an m x 3 array"),
        (INDICES, VALUES[1:], r"one value per row of indices"),
        (INDICES[[0, 0]], VALUES[[0, 0]], "indices must name every entry once, got 1 repeated"),
    ],
)
def test_refusals(X: Any, y: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        of_indices().fit(X, y)


# two classes, two contracts


def test_each_class_has_its_own_methods() -> None:
    data, indices = TuckerImputer(2), of_indices()
    assert not is_regressor(data)
    assert is_regressor(indices)
    for method in ("transform", "fit_transform"):
        assert hasattr(data, method)
        assert not hasattr(indices, method)
    for method in ("predict", "score"):
        assert hasattr(indices, method)
        assert not hasattr(data, method)
    with pytest.raises(TypeError, match="should have a 'score' method"):
        GridSearchCV(data, {"rank": [1, 2]}).fit(INDICES, VALUES)


def test_a_regressor_needs_the_shape() -> None:
    with pytest.raises(InputError, match="needs the shape of the tensor, got None; give shape="):
        TuckerRegressor(2).fit(INDICES, VALUES)


def test_nothing_comes_before_a_fit() -> None:
    with pytest.raises(NotFittedError):
        TuckerImputer(2).transform(WITH_NAN)
    with pytest.raises(NotFittedError):
        of_indices().score(INDICES, VALUES)


def test_clones_have_the_parameters_and_not_the_fit() -> None:
    estimator = TuckerRegressor((2, 3, 2), shape=[20, 21, 22], random_state=1)
    copy = clone(estimator.set_params(tol=1e-4))
    assert copy.get_params() == estimator.get_params()
    assert repr(copy) == repr(estimator)
    assert "rank=(2, 3, 2), shape=[20, 21, 22], tol=0.0001)" in repr(copy).replace("\n", " ")
    assert not hasattr(clone(of_indices().fit(INDICES, VALUES)), "completion_")


def test_pickles_predict_alike() -> None:
    indices = of_indices().fit(INDICES, VALUES)
    again = pickle.loads(pickle.dumps(indices))  # noqa: S301
    np.testing.assert_array_equal(again.predict(INDICES), indices.predict(INDICES))
    data = TuckerImputer(2, max_iter=2).fit(make_dataarray())
    again = pickle.loads(pickle.dumps(data))  # noqa: S301
    xr.testing.assert_identical(again.transform(make_dataarray()), data.completion_.data)


@pytest.mark.parametrize("make", [int, np.random.default_rng, np.random.RandomState])
def test_randomness_of_every_sort(make: Any) -> None:
    first, again, other = (
        TuckerImputer(1, validation_fraction=0.2, max_iter=1, random_state=make(seed)).fit(WITH_NAN)
        for seed in (5, 5, 6)
    )
    held = first.completion_.assessment.held
    np.testing.assert_array_equal(held, again.completion_.assessment.held)
    assert not np.array_equal(held, other.completion_.assessment.held)


def test_without_scikit_learn_the_extra_is_named() -> None:
    code = "import sys; sys.modules['sklearn'] = None; import tensormend.integrations.sklearn"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    assert "pip install 'tensormend[sklearn]'" in run.stderr
    assert "MissingDependencyError" in run.stderr
