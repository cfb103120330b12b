"""scikit-learn's own checks of the estimators."""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from ornstein.estimators import (
    BayesianLinearRegressor,
    BayesianLogisticClassifier,
    BayesianPoissonRegressor,
)

KINDS = (BayesianLinearRegressor, BayesianLogisticClassifier, BayesianPoissonRegressor)


@parametrize_with_checks([kind(method="laplace", chains=2, draws=50) for kind in KINDS])
def test_laplace(estimator: Any, check: Any) -> None:
    check(estimator)
