"""`TuckerCompletion`: `complete` as a scikit-learn estimator; the file that names scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np

from tensormend.completion.entry import complete
from tensormend.core.algebra import Array
from tensormend.data.observations import Labelled, Observations, as_observations
from tensormend.errors import InputError, MissingDependencyError

try:
    from sklearn.base import BaseEstimator
    from sklearn.metrics import r2_score
    from sklearn.utils import RegressorTags, TransformerTags
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.validation import check_is_fitted
except ImportError as error:
    raise MissingDependencyError(
        "TuckerCompletion needs scikit-learn 1.6 or later, which is not installed; pip install "
        "'tensormend[sklearn]'"
    ) from error

__all__ = ["TuckerCompletion"]


def _takes_data(estimator: TuckerCompletion) -> bool:
    if estimator.shape is not None:
        raise AttributeError(
            "with shape= the estimator is fitted to places and values and has predict and score; "
            "take the completed array from completion_.data"
        )
    return True


def _takes_places(estimator: TuckerCompletion) -> bool:
    if estimator.shape is None:
        raise AttributeError(
            "without shape= the estimator is fitted to data with holes and has transform; give "
            "shape= to fit places and values, or take entries from completion_.entries(indices)"
        )
    return True


class TuckerCompletion(BaseEstimator):
    """Fill the holes of a tensor by `complete`, as a scikit-learn estimator.

    ``shape`` says what the estimator is. Without it, it is a transformer: `fit` and `transform`
    take data with holes, of any kind that `complete` reads without further arguments, and ``y``
    is ignored. With it, it is a regressor from places to values: `fit`, `predict` and `score` take
    the places of known entries, ``m x d`` integers, and their values, so that every splitter of
    scikit-learn splits entries.

    Parameters
    ----------
    rank : ``"auto"``, or the multilinear rank, one int per mode or one for all (less where a mode
        has less room)
    shape : shape of the tensor of which places and values are given; ``None`` for data with holes
    model, method, center, scale, log, clip, holdout, time_limit, threads : as for `complete`
    tol, max_iter : as for `recover`, for a given rank; ``None`` for what these are there
    random_state : seed, generator or ``RandomState``; the ``rng`` of `complete`

    Attributes
    ----------
    completion_ : the `Completion`: completed ``data``, ``trust``, ``trials``, labelled ``factors``
    rank_, shape_ : rank of the model and shape of the tensor
    n_iter_ : number of iterations of the last fit
    n_features_in_ : with ``shape`` the number of modes, else the size of the second, which is the
        number of columns of a matrix

    Notes
    -----
    A fold may have a slice without any entry left to learn from: a `DataWarning` names it. An
    entry may be given once, so a bootstrap, which repeats entries, is refused.

    Examples
    --------
    >>> import tensormend as tm
    >>> rng = np.random.default_rng(1)
    >>> truth = tm.simulate.random_tucker((20, 20, 20), 2, rng=0).todense()
    >>> known = rng.random(truth.shape) < 0.4
    >>> filled = TuckerCompletion(2, tol=1e-9).fit_transform(np.where(known, truth, np.nan))
    >>> bool(np.allclose(filled, truth))
    True

    >>> from sklearn.model_selection import GridSearchCV
    >>> places = rng.permutation(np.argwhere(known))
    >>> search = GridSearchCV(TuckerCompletion(shape=truth.shape), {"rank": [1, 2, 3]}, cv=3)
    >>> noisy = truth[tuple(places.T)] + 0.1 * truth.std() * rng.standard_normal(len(places))
    >>> search.fit(places, noisy).best_params_
    {'rank': 2}
    """

    def __init__(
        self,
        rank: Literal["auto"] | int | Sequence[int] = "auto",
        *,
        shape: Sequence[int] | None = None,
        model: Literal["auto", "shrinkage", "tucker"] = "auto",
        method: Any = "auto",
        center: Literal["auto"] | bool | Sequence[int] = "auto",
        scale: int | None = None,
        log: bool = False,
        clip: tuple[float | None, float | None] | None = None,
        holdout: float | None = None,
        tol: float | None = None,
        max_iter: int | None = None,
        time_limit: float | None = None,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
        threads: int | None = None,
    ) -> None:
        self.rank = rank
        self.shape = shape
        self.model = model
        self.method = method
        self.center = center
        self.scale = scale
        self.log = log
        self.clip = clip
        self.holdout = holdout
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.threads = threads

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit a model to data with holes or, with ``shape``, to values ``y`` at places ``X``."""
        self.completion_ = complete(
            **self._given(X, y),
            rank=self.rank,
            model=self.model,
            method=self.method,
            center=self.center,
            scale=self.scale,
            log=self.log,
            clip=self.clip,
            holdout=self.holdout,
            time_limit=self.time_limit,
            rng=_as_rng(self.random_state),
            threads=self.threads,
            **{k: getattr(self, k) for k in ("tol", "max_iter") if getattr(self, k) is not None},
        )
        self.rank_, self.shape_ = self.completion_.x.rank, self.completion_.x.shape
        self.n_iter_ = self.completion_.n_iter
        self.n_features_in_ = self.shape_[1] if self.shape is None else len(self.shape_)
        return self

    @available_if(_takes_data)
    def transform(self, X: Any) -> Any:
        """Fill the unknown entries of data from the fitted model; known ones stay as they are.

        The data must have the shape that was fitted and, where both have labels, these labels;
        which entries are known, and their values, may differ.
        """
        check_is_fitted(self)
        known, fitted = as_observations(X), self.completion_
        _refuse_other_places(known, fitted.known)
        x = fitted.x.astype(np.result_type(fitted.x.dtype, known.values.dtype))
        return replace(fitted, known=known, x=x).fitted_values(keep_observed=True)

    @available_if(_takes_data)
    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit a model to data with holes and fill these."""
        return self.fit(X, y).completion_.data

    @available_if(_takes_places)
    def predict(self, X: Any) -> Array:
        """Return what the model says at ``m x d`` places, those it was fitted to among them."""
        check_is_fitted(self)
        return self.completion_.entries(X, keep_observed=False)

    @available_if(_takes_places)
    def score(self, X: Any, y: Any) -> float:
        """Return the R² of what is predicted at places, as scikit-learn's regressors do."""
        return float(r2_score(y, self.predict(X)))

    def _given(self, X: Any, y: Any) -> dict[str, Any]:
        """Return what `complete` takes for the data."""
        if self.shape is None:
            return {"data": X}
        if y is None:
            raise InputError(
                "with shape= TuckerCompletion requires y to be passed, but the target y is None; "
                "give the values at the places X, or leave shape= out for data with holes"
            )
        return {"data": y, "indices": X, "shape": self.shape}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = self.shape is None
        tags.input_tags.allow_nan = self.shape is None
        if self.shape is None:
            tags.transformer_tags = TransformerTags()
        else:
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
            tags.target_tags.required = True
        return tags


def _as_rng(random_state: Any) -> Any:
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(np.iinfo(np.int32).max))
    return random_state


def _refuse_other_places(new: Observations, old: Observations) -> None:
    """Refuse data that are not laid out as those that were fitted."""
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
