"""Small synthetic tables."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
import pytest

import ornstein as orn

Floats = npt.NDArray[np.floating]

SOME_MODELS = [
    "linear",
    "softmax",
    pytest.param("logistic", marks=pytest.mark.slow),
    pytest.param("poisson", marks=pytest.mark.slow),
]
"""Of the zoo: those that differ most, and with the slow tests the others."""


def features(rows: int, columns: int, seed: int = 0) -> Floats:
    """Correlated columns of unequal scale."""
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(columns, columns)) / np.sqrt(columns) + np.eye(columns)
    return rng.normal(size=(rows, columns)) @ mix * np.geomspace(0.5, 2.0, columns)


def regression(
    rows: int = 600, columns: int = 3, seed: int = 0, **options: object
) -> orn.Posterior:
    """A well-specified linear regression of unit noise."""
    X = features(rows, columns, seed)
    rng = np.random.default_rng(seed + 1)
    y = X @ rng.normal(size=columns) + rng.normal(size=rows)
    return orn.models.linear(X, y, **options)  # type: ignore[arg-type]


def mild_regression(rows: int) -> orn.Posterior:
    """A linear regression on three columns of nearly equal scale, hardly correlated."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(rows, 3)) * np.array([1.0, 1.2, 0.8]) + 0.3 * rng.normal(size=(rows, 1))
    return orn.models.linear(X, X @ np.array([0.5, -1.0, 0.2]) + rng.normal(size=rows))


def zoo(rows: int = 240, intercept: bool = True) -> dict[str, orn.Posterior]:
    """One small posterior of every model."""
    X = features(rows, 2)
    rng = np.random.default_rng(2)
    eta = X @ np.array([0.5, -0.4])
    label = (rng.uniform(size=rows) < 1 / (1 + np.exp(-eta))).astype(int)
    return {
        "linear": orn.models.linear(X, eta + rng.normal(size=rows), intercept=intercept),
        "logistic": orn.models.logistic(X, label, intercept=intercept),
        "softmax": orn.models.softmax(X, label + (X[:, 0] > 1), intercept=intercept),
        "poisson": orn.models.poisson(X, rng.poisson(np.exp(0.3 * eta)), intercept=intercept),
    }


def as_generic(post: orn.Posterior) -> orn.Posterior:
    """The same posterior without its closed forms."""
    return orn.Posterior(post.log_likelihood, post.log_prior, post.data, init=post.init)


def whole(model: object, function: str) -> Callable[..., Any]:
    """A function of a model, compiled as one: its operations one by one take far longer."""
    return jax.jit(getattr(model, function))


def softmax_table(
    rows: int = 1500, classes: int = 4, columns: int = 5, seed: int = 0
) -> tuple[Floats, Floats]:
    """Correlated columns, of which the third never varies."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns)) @ rng.normal(size=(columns, columns))
    X[:, 2] = 0.0
    W = 0.5 * rng.normal(size=(classes, columns))
    return X, np.argmax(X @ W.T + rng.gumbel(size=(rows, classes)), axis=1)
