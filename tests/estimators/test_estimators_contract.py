"""scikit-learn's own checks of the estimators."""

from collections.abc import Iterator
from typing import Any
from unittest import SkipTest

import jax
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from ornstein.estimators import (
    BayesianLinearRegressor,
    BayesianLogisticClassifier,
    BayesianPoissonRegressor,
)

KINDS = (BayesianLinearRegressor, BayesianLogisticClassifier, BayesianPoissonRegressor)

# Draws by minibatches are not those of the same rows repeated, as for scikit-learn's SGDClassifier;
# their distribution is, which test_weights shows. A linear model predicts by its exact mean.
RANDOM = {"check_sample_weight_equivalence_on_dense_data": "other minibatches, other draws"}


@pytest.fixture(autouse=True)
def _quickly_compiled() -> Iterator[None]:
    """Some hundred small fits, no two alike: compiling is all they cost."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def passes(check: Any, estimator: Any) -> None:
    """Run a check; that of array APIs, which the estimators do not claim, asks for a variable."""
    try:
        check(estimator)
    except SkipTest as reason:
        if "SCIPY_ARRAY_API" not in str(reason):
            raise


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [BayesianLinearRegressor(method="laplace", chains=2, draws=20)]
)
def test_linear(estimator: Any, check: Any) -> None:
    passes(check, estimator)


@pytest.mark.slow
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [kind(method="laplace", chains=2, draws=20) for kind in KINDS[1:]]
)
def test_laplace(estimator: Any, check: Any) -> None:
    passes(check, estimator)


@pytest.mark.slow
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [kind(chains=2, draws=20) for kind in KINDS],
    expected_failed_checks=lambda estimator: (
        {} if isinstance(estimator, BayesianLinearRegressor) else RANDOM
    ),
)
def test_exact(estimator: Any, check: Any) -> None:
    passes(check, estimator)
