"""Several targets, each by an estimator of its own."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import ornstein as orn
from ornstein.estimators import (
    BayesianLinearRegressor,
    BayesianPoissonRegressor,
    MultiTargetRegressor,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 3))
Y = X @ RNG.normal(size=(3, 2)) + [1.0, -2.0] + 0.3 * RNG.normal(size=(150, 2))
ONE = BayesianLinearRegressor(method="laplace", draws=100, prior_precision="learn")


def test_every_target_is_fitted_as_alone() -> None:
    model = clone(MultiTargetRegressor(ONE)).fit(X, Y)
    alone = [clone(ONE).fit(X, y) for y in Y.T]
    np.testing.assert_array_equal(model.coef_, [one.coef_ for one in alone])
    np.testing.assert_array_equal(model.intercept_, [one.intercept_ for one in alone])
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, model.predict(X))
    np.testing.assert_array_equal(std[:, 1], alone[1].predict(X, return_std=True)[1])
    low, high = model.predict_interval(X, 0.8)
    np.testing.assert_array_equal(low[:, 0], alone[0].predict_interval(X, 0.8)[0])
    inside = ((low < Y) & (high > Y)).mean(axis=0)
    assert np.all(np.abs(inside - 0.8) < 5 * np.sqrt(0.16 / 150))
    assert cross_val_score(MultiTargetRegressor(ONE), X, Y, cv=3).min() > 0.5


def test_counts_and_the_default() -> None:
    counts = RNG.poisson(np.exp(0.3 * X[:, :2]))
    kind = BayesianPoissonRegressor(method="laplace", draws=50)
    assert (MultiTargetRegressor(kind).fit(X, counts).predict(X) > 0).all()
    assert MultiTargetRegressor().estimator is None


def test_one_estimator_says_what_takes_several_targets() -> None:
    with pytest.raises(orn.InputError, match=r"shape \(150, 2\).*MultiTargetRegressor\(Bayes"):
        clone(ONE).fit(X, Y)
