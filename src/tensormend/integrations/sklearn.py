"""Estimators for scikit-learn; the only module that imports scikit-learn."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Self, TypeVar

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


_PARAMETERS = """\
model : {"auto", "shrinkage", "tucker"}, default="auto"
    Models that ``rank="auto"`` compares: shrinkage of the singular values of all unfoldings,
    Tucker tensors of increasing rank, or both.
method : str or Solver, default="auto"
    Algorithm for a given rank, a name or an instance of a class in ``tensormend.solvers``.
center : {"auto", "mean", "all"}, sequence of int or None, default="auto"
    What to subtract before the fit: the grand mean, the grand mean and effects of the slices
    of all modes or of the modes given, or nothing. ``"auto"`` centres shrinkage models and
    does not centre Tucker models.
standardize : int, default=None
    Mode whose slices are divided by their standard deviations.
value_transform : {"log1p"}, default=None
    Function of the values that is fitted in their place; the ``transform`` of `complete`.
clip : pair of float or None, default=None
    Smallest and largest predicted value, rounded to the data type of the values; ``None`` on a side
    is no bound.
validation_fraction : float, default=None
    Fraction of the observed entries to hold out; ``None`` is 0.1 for ``rank="auto"``, and
    nothing for a given rank.
tol : float, default=1e-6
    Relative residual at which a fit of given rank stops.
max_iter : int, default=500
    Maximum number of iterations of a fit of given rank.
time_limit : float, default=None
    Limit of the run time of ``fit`` in seconds; ``None`` is no limit.
random_state : int, Generator, RandomState or None, default=None
    Seed or generator of the held-out entries; the ``rng`` of `complete`. Pass an int for
    reproducible results.
threads : int, default=None
    Number of threads of the compiled kernels; ``None`` is all cores.
"""

_Class = TypeVar("_Class", bound=type)


def _describe_parameters(estimator: _Class) -> _Class:
    """Insert the parameters that both estimators have into the docstring of a class."""
    if estimator.__doc__ is not None:  # it is None if Python runs with -OO
        text = inspect.cleandoc(estimator.__doc__) + "\n"
        estimator.__doc__ = text.replace("%(parameters)s\n", _PARAMETERS)
    return estimator


class _TuckerEstimator(BaseEstimator):
    """Parameters of both estimators, and their call of `complete`."""

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

    def _complete(self, data: Any, **data_options: Any) -> None:
        """Complete the data with the parameters of the estimator, and set the fitted attributes."""
        self.completion_ = complete(
            data=data,
            **data_options,
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


@_describe_parameters
class TuckerImputer(TransformerMixin, _TuckerEstimator):
    """Imputation of the missing entries of a tensor by a low-rank model.

    Transformer that calls `complete`, for matrices and tensors of any order.

    Parameters
    ----------
    rank : "auto", int or sequence of int, default="auto"
        Multilinear rank, one int per mode or one for all modes; ``"auto"`` selects a model on
        held-out entries.
    %(parameters)s

    Attributes
    ----------
    completion_ : Completion
        The completion of the data passed to `fit`, with its ``trust`` and ``trials``.
    rank_ : tuple of int
        Multilinear rank of the model.
    shape_ : tuple of int
        Shape of the tensor.
    n_iter_ : int
        Number of iterations of all fits.
    n_features_in_ : int
        Size of the second mode, which is the number of columns of a matrix.

    See Also
    --------
    TuckerRegressor : Predict entries from their indices.
    tensormend.complete : The function that the estimator calls.

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
        X : array_like, TensorData, DataArray, Series, DataFrame or sparse.COO
            Data in any form that `complete` takes without further arguments, such as an array with
            NaN at missing entries.
        y : object, default=None
            Ignored; present for compatibility with scikit-learn.

        Returns
        -------
        TuckerImputer
            The estimator itself.

        Raises
        ------
        InputError
            If the data cannot be read, or a parameter is invalid.
        """
        self._complete(X)
        self.n_features_in_ = self.shape_[1]
        return self

    def transform(self, X: Any) -> Any:
        """Fill in missing entries from the fitted model; observed entries are kept.

        Parameters
        ----------
        X : array_like, TensorData, DataArray, Series, DataFrame or sparse.COO
            Data of the shape that was fitted and, where both are labelled, with the same labels.
            Which entries are observed, and their values, may differ from the data passed to `fit`.

        Returns
        -------
        array_like, TensorData, DataArray, Series, DataFrame or sparse.COO
            The completed data, in the type of ``X``.

        Raises
        ------
        NotFittedError
            If `fit` was not called.
        InputError
            If the shape or the labels of ``X`` differ from those that were fitted.
        """
        check_is_fitted(self)
        given, fitted = as_observations(X), self.completion_
        _refuse_other_layout(given, fitted.observations)
        x = fitted.fit.x.astype(np.result_type(fitted.fit.x.dtype, given.values.dtype))
        other = replace(fitted, observations=given, fit=replace(fitted.fit, x=x))
        return other.fitted_values(keep_observed=True)

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit a model to data with missing entries, and fill them in.

        Parameters
        ----------
        X : array_like, TensorData, DataArray, Series, DataFrame or sparse.COO
            Data as for `fit`.
        y : object, default=None
            Ignored; present for compatibility with scikit-learn.

        Returns
        -------
        array_like, TensorData, DataArray, Series, DataFrame or sparse.COO
            The completed data, in the type of ``X``; observed entries are kept.
        """
        return self.fit(X, y).completion_.data

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = tags.input_tags.allow_nan = True
        return tags


@_describe_parameters
class TuckerRegressor(RegressorMixin, _TuckerEstimator):
    """Prediction of the entries of a tensor from their indices by a low-rank model.

    Regressor that calls `complete`. A sample is an entry of the tensor: a row of ``X`` holds its
    indices, ``y`` its value. Cross-validation and searches of scikit-learn thus split entries.

    Parameters
    ----------
    rank : "auto", int or sequence of int, default="auto"
        Multilinear rank, one int per mode or one for all modes; ``"auto"`` selects a model on
        held-out entries.
    shape : sequence of int
        Shape of the tensor. Required: `fit` refuses the default, ``None``.
    %(parameters)s

    Attributes
    ----------
    completion_ : Completion
        The completion of the tensor, with its ``trust`` and ``trials``.
    rank_ : tuple of int
        Multilinear rank of the model.
    shape_ : tuple of int
        Shape of the tensor.
    n_iter_ : int
        Number of iterations of all fits.
    n_features_in_ : int
        Number of modes.

    See Also
    --------
    TuckerImputer : Fill in the missing entries of an array.
    tensormend.complete : The function that the estimator calls.

    Notes
    -----
    If a split leaves a slice without any entry, a `DataWarning` names the slice. Repeated entries,
    as in bootstrap samples, are refused.

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
        X : array_like of int of shape (m, d)
            Indices of the observed entries, each entry once.
        y : array_like of shape (m,)
            Observed values.

        Returns
        -------
        TuckerRegressor
            The estimator itself.

        Raises
        ------
        InputError
            If ``shape`` or ``y`` is missing, or ``X`` does not hold indices of the tensor.
        """
        if self.shape is None:
            raise InputError(
                "TuckerRegressor needs the shape of the tensor, got None; give shape=, or use "
                "TuckerImputer for an array with missing entries"
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
        """Return the fitted values at indices, for observed entries as well.

        Parameters
        ----------
        X : array_like of int of shape (m, d)
            Indices of entries.

        Returns
        -------
        ndarray of shape (m,)
            One value per row of ``X``.

        Raises
        ------
        NotFittedError
            If `fit` was not called.
        InputError
            If ``X`` does not hold indices of the tensor.
        """
        check_is_fitted(self)
        return self.completion_.entries(X, keep_observed=False)


def _as_rng(random_state: Any) -> Any:
    """Draw a seed from a RandomState; return any other seed or generator as it is."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(np.iinfo(np.int32).max))
    return random_state


def _refuse_other_layout(new: Observations, old: Observations) -> None:
    """Refuse data whose shape or labels differ from those that were fitted."""
    if new.shape != old.shape:
        raise InputError(
            f"transform takes data of the fitted shape, {old.shape}, got {new.shape}; call fit "
            "with data of the new shape"
        )
    if isinstance(new.container, Labelled) and isinstance(old.container, Labelled):
        for k, n in enumerate(old.shape):
            was, now = old.container.describe(k, range(n)), new.container.describe(k, range(n))
            if was != now:
                raise InputError(
                    f"transform takes data with the labels that were fitted, got others for "
                    f"{was[0]}; reindex the data like those that were fitted, or call fit again"
                )
