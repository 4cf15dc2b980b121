"""`complete` as scikit-learn estimators; the only module that imports scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np

from tensormend.completion.entry import complete
from tensormend.completion.preprocessing import Center
from tensormend.core.algebra import Array
from tensormend.data.observations import Labelled, Observations, as_observations
from tensormend.errors import InputError, MissingDependencyError

try:
    from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted
except ImportError as error:
    raise MissingDependencyError(
        "tensormend.integrations.sklearn needs scikit-learn 1.6 or later, which is not installed; "
        "pip install 'tensormend[sklearn]'"
    ) from error

__all__ = ["TuckerImputer", "TuckerRegressor"]


class _TuckerEstimator(BaseEstimator):
    """What the estimators share: the parameters of `complete`, and the call of it."""

    def __init__(
        self,
        rank: Literal["auto"] | int | Sequence[int] = "auto",
        *,
        model: Literal["auto", "shrinkage", "tucker"] = "auto",
        method: Any = "auto",
        center: Center = "auto",
        standardize: int | None = None,
        value_transform: Literal["log1p"] | None = None,
        clip: tuple[float | None, float | None] | None = None,
        validation_fraction: float | None = None,
        tol: float = 1e-6,
        max_iter: int = 500,
        time_limit: float | None = None,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
        threads: int | None = None,
    ) -> None:
        self.rank = rank
        self.model = model
        self.method = method
        self.center = center
        self.standardize = standardize
        self.value_transform = value_transform
        self.clip = clip
        self.validation_fraction = validation_fraction
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.threads = threads

    def _complete(self, data: Any, **where: Any) -> None:
        self.completion_ = complete(
            data=data,
            **where,
            rank=self.rank,
            model=self.model,
            method=self.method,
            center=self.center,
            standardize=self.standardize,
            transform=self.value_transform,
            clip=self.clip,
            validation_fraction=self.validation_fraction,
            tol=self.tol,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            rng=_as_rng(self.random_state),
            threads=self.threads,
        )
        self.rank_, self.shape_ = self.completion_.rank, self.completion_.shape
        self.n_iter_ = self.completion_.n_iter


class TuckerImputer(TransformerMixin, _TuckerEstimator):
    """Fill in the missing entries of a tensor by `complete`, as a transformer.

    `fit` and `transform` take data with missing entries of any type that `complete` reads without
    further arguments, such as arrays with NaN; ``y`` is ignored.

    Parameters
    ----------
    rank : "auto", int or sequence of int, default="auto"
        Multilinear rank, one int per mode or one for all; ``"auto"`` selects a model.
    model, method, center, standardize
        As for `complete`.
    value_transform : {"log1p"} or None, default=None
        The ``transform`` of `complete`.
    clip, validation_fraction
        As for `complete`.
    tol, max_iter
        As for `complete`, for a given rank.
    time_limit
        As for `complete`.
    random_state : int, Generator, RandomState or None, default=None
        The ``rng`` of `complete`.
    threads
        As for `complete`.

    Attributes
    ----------
    completion_ : Completion
        The completion of the data that were fitted.
    rank_, shape_ : tuple of int
        Rank of the model and shape of the tensor.
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Size of the second mode, which is the number of columns of a matrix.

    See Also
    --------
    TuckerRegressor : The same for entries given by their indices.

    Examples
    --------
    >>> import tensormend as tm
    >>> truth = tm.simulate.random_tucker((20, 20, 20), 2, rng=0).todense()
    >>> observed = np.random.default_rng(1).random(truth.shape) < 0.4
    >>> filled = TuckerImputer(2, tol=1e-9).fit_transform(np.where(observed, truth, np.nan))
    >>> bool(np.allclose(filled, truth))
    True
    """

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Fit a model to data with missing entries.

        Parameters
        ----------
        X : array_like
            Data with missing entries, of any kind that `complete` takes without further arguments.
        y : array_like, optional
            Not used, present for compatibility with scikit-learn.

        Returns
        -------
        Self
            The estimator itself.
        """
        self._complete(X)
        self.n_features_in_ = self.shape_[1]
        return self

    def transform(self, X: Any) -> Any:
        """Fill in the missing entries of data from the fitted model; observed ones are kept.

        The data must have the shape that was fitted and, where both have labels, these labels;
        which entries are observed, and their values, may differ.

        Parameters
        ----------
        X : array_like
            The data that was passed to `fit`.

        Returns
        -------
        object
            The completed data.
        """
        check_is_fitted(self)
        given, fitted = as_observations(X), self.completion_
        _refuse_other_layout(given, fitted.observations)
        x = fitted.fit.x.astype(np.result_type(fitted.fit.x.dtype, given.values.dtype))
        other = replace(fitted, observations=given, fit=replace(fitted.fit, x=x))
        return other.fitted_values(keep_observed=True)

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit a model to data with missing entries and fill them in.

        Parameters
        ----------
        X : array_like
        y : array_like, optional
            Measurements, one per row of the operator.

        Returns
        -------
        object
        """
        return self.fit(X, y).completion_.data

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = tags.input_tags.allow_nan = True
        return tags


class TuckerRegressor(RegressorMixin, _TuckerEstimator):
    """Predict entries of a tensor from their indices by `complete`, as a regressor.

    Samples are entries: ``X`` holds their indices, ``m x d`` integers, and ``y`` their values, so
    that every splitter of scikit-learn splits entries.

    Parameters
    ----------
    rank : "auto", int or sequence of int, default="auto"
        Multilinear rank, one int per mode or one for all; ``"auto"`` selects a model.
    shape : sequence of int
        Shape of the tensor.
    model, method, center, standardize
        As for `complete`.
    value_transform : {"log1p"} or None, default=None
        The ``transform`` of `complete`.
    clip, validation_fraction
        As for `complete`.
    tol, max_iter
        As for `complete`, for a given rank.
    time_limit
        As for `complete`.
    random_state : int, Generator, RandomState or None, default=None
        The ``rng`` of `complete`.
    threads
        As for `complete`.

    Attributes
    ----------
    completion_ : Completion
        The completion of the tensor.
    rank_, shape_ : tuple of int
        Rank of the model and shape of the tensor.
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Number of modes.

    See Also
    --------
    TuckerImputer : The same for data with missing entries.

    Notes
    -----
    A fold may have a slice without any entry left to learn from: a `DataWarning` names it. An
    entry may be given once, so a bootstrap, which repeats entries, is refused.

    Examples
    --------
    >>> import tensormend as tm
    >>> from sklearn.model_selection import GridSearchCV
    >>> rng = np.random.default_rng(1)
    >>> truth = tm.simulate.random_tucker((20, 20, 20), 2, rng=0).todense()
    >>> indices = rng.permutation(np.argwhere(rng.random(truth.shape) < 0.4))
    >>> noisy = truth[tuple(indices.T)] + 0.1 * truth.std() * rng.standard_normal(len(indices))
    >>> search = GridSearchCV(TuckerRegressor(shape=truth.shape), {"rank": [1, 2, 3]}, cv=3)
    >>> search.fit(indices, noisy).best_params_
    {'rank': 2}
    """

    def __init__(
        self,
        rank: Literal["auto"] | int | Sequence[int] = "auto",
        *,
        shape: Sequence[int] | None = None,
        model: Literal["auto", "shrinkage", "tucker"] = "auto",
        method: Any = "auto",
        center: Center = "auto",
        standardize: int | None = None,
        value_transform: Literal["log1p"] | None = None,
        clip: tuple[float | None, float | None] | None = None,
        validation_fraction: float | None = None,
        tol: float = 1e-6,
        max_iter: int = 500,
        time_limit: float | None = None,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
        threads: int | None = None,
    ) -> None:
        self.shape = shape
        super().__init__(
            rank,
            model=model,
            method=method,
            center=center,
            standardize=standardize,
            value_transform=value_transform,
            clip=clip,
            validation_fraction=validation_fraction,
            tol=tol,
            max_iter=max_iter,
            time_limit=time_limit,
            random_state=random_state,
            threads=threads,
        )

    def fit(self, X: Any, y: Any) -> Self:
        """Fit a model to the values ``y`` at the indices ``X``.

        Parameters
        ----------
        X : array_like
            Integer array of shape ``(m, d)``, indices of the observed entries.
        y : array_like
            The observed values.

        Returns
        -------
        Self
            The estimator itself.
        """
        if self.shape is None:
            raise InputError(
                "TuckerRegressor needs the shape of the tensor, got None; give shape=, or take "
                "TuckerImputer for data with missing entries"
            )
        if y is None:
            raise InputError(
                "TuckerRegressor requires y to be passed, but the target y is None; give the "
                "values at the indices X"
            )
        self._complete(y, indices=X, shape=self.shape)
        self.n_features_in_ = len(self.shape_)
        return self

    def predict(self, X: Any) -> Array:
        """Return the fitted values at ``m x d`` indices, those it was fitted to among them.

        Parameters
        ----------
        X : array_like
            Integer array of shape ``(m, d)``, indices of entries.

        Returns
        -------
        ndarray
            One value per row.
        """
        check_is_fitted(self)
        return self.completion_.entries(X, keep_observed=False)


def _as_rng(random_state: Any) -> Any:
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(np.iinfo(np.int32).max))
    return random_state


def _refuse_other_layout(new: Observations, old: Observations) -> None:
    """Refuse data that do not have the shape and labels of those that were fitted."""
    if new.shape != old.shape:
        raise InputError(
            f"transform takes data of the shape that was fitted, {old.shape}, got {new.shape}; fit "
            "data of another shape anew"
        )
    if isinstance(new.container, Labelled) and isinstance(old.container, Labelled):
        for k, n in enumerate(old.shape):
            was, now = old.container.describe(k, range(n)), new.container.describe(k, range(n))
            if was != now:
                raise InputError(
                    f"transform takes data with the labels that were fitted, got others for "
                    f"{was[0]}; reindex the data like those, or fit anew"
                )
