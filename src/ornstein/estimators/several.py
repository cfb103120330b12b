"""Regression of several targets at once, each by an estimator of its own."""

from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt
from sklearn.multioutput import MultiOutputRegressor
from sklearn.utils.validation import check_is_fitted

from ornstein._base.types import Vector
from ornstein.estimators.regressors import BayesianLinearRegressor


class MultiTargetRegressor(MultiOutputRegressor):  # type: ignore[misc]
    """One Bayesian regressor for every column of the target, with intervals.

    The targets share the columns of X and nothing else: each has its own prior precision and noise,
    and their noises are taken as independent.

    Parameters
    ----------
    estimator
        What every target is fitted with: a :class:`BayesianLinearRegressor` by default, or a
        :class:`BayesianPoissonRegressor`, not fitted.
    n_jobs
        As for scikit-learn's ``MultiOutputRegressor``.

    Attributes
    ----------
    estimators_
        The fitted estimators, one for each target.
    coef_, intercept_
        (targets, columns) and (targets,).

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> Y = np.column_stack([X[:, 0], 3 * X[:, 1] + 1]) + 0.1 * X[:, :1] ** 2
    >>> model = MultiTargetRegressor(BayesianLinearRegressor(draws=50)).fit(X, Y)
    >>> model.predict(X[:3]).shape
    (3, 2)
    >>> low, high = model.predict_interval(X[:3])
    >>> bool((low < high).all())
    True
    """

    estimator: Any

    def __init__(self, estimator: Any = None, *, n_jobs: int | None = None) -> None:
        super().__init__(estimator, n_jobs=n_jobs)

    def fit(
        self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: Any = None, **fit_params: Any
    ) -> "MultiTargetRegressor":
        """Sample the posterior of every target, (rows, targets)."""
        given = self.estimator
        try:
            self.estimator = BayesianLinearRegressor() if given is None else given
            super().fit(X, y, sample_weight, **fit_params)
        finally:
            self.estimator = given
        return self

    @property
    def coef_(self) -> Vector:
        """Coefficients, (targets, columns)."""
        check_is_fitted(self, "estimators_")
        return np.stack([one.coef_ for one in self.estimators_])

    @property
    def intercept_(self) -> Vector:
        """Intercepts, (targets,)."""
        check_is_fitted(self, "estimators_")
        return np.array([one.intercept_ for one in self.estimators_])

    @overload
    def predict(self, X: npt.ArrayLike, return_std: Literal[False] = False) -> Vector: ...

    @overload
    def predict(self, X: npt.ArrayLike, return_std: Literal[True]) -> tuple[Vector, Vector]: ...

    def predict(self, X: npt.ArrayLike, return_std: bool = False) -> Vector | tuple[Vector, Vector]:
        """Every target's mean, (rows, targets), and with ``return_std`` its standard deviation."""
        check_is_fitted(self, "estimators_")
        if not return_std:
            return np.column_stack([one.predict(X) for one in self.estimators_])
        found = [one.predict(X, return_std=True) for one in self.estimators_]
        mean, std = (np.column_stack(part) for part in zip(*found, strict=True))
        return mean, std

    def predict_interval(self, X: npt.ArrayLike, interval: float = 0.9) -> tuple[Vector, Vector]:
        """Lower and upper ends of central intervals of every target, (rows, targets) each."""
        check_is_fitted(self, "estimators_")
        found = [np.column_stack(one.predict_interval(X, interval)) for one in self.estimators_]
        return np.stack([ends[:, 0] for ends in found], 1), np.stack([e[:, 1] for e in found], 1)
