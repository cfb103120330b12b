"""Posteriors that are not Gaussian, simulated or small: one function for every family.

Their long reference runs are in ``references.json`` (:mod:`benchmarks.references`). Everything is
drawn with fixed seeds, so that a summary stored once stays that of the same posterior. Priors are
standard normal on every coefficient, the intercept's too, unless a family says otherwise.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

import ornstein as orn

Floats = npt.NDArray[np.floating]

DEGREES = 4.0
"""Degrees of freedom of the family ``student``."""


def cancer() -> orn.Posterior:
    """Logistic: breast cancer, 569 rows, its first ten columns standardised, an intercept."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return orn.models.logistic(_standardised(X[:, :10]), y, intercept=True)


def separable() -> orn.Posterior:
    """Logistic: 200 rows of 10 columns whose classes almost never overlap; prior precision 0.1."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 10))
    eta = 4.0 * X @ rng.normal(size=10)
    return orn.models.logistic(X, _bernoulli(rng, eta), prior_precision=0.1)


def rare() -> orn.Posterior:
    """Logistic: 100,000 rows, about 100 of them positive; eight columns and one of ones.

    The intercept has prior precision 0.01: a standard normal prior would dominate the data.
    """
    X, y = _events(100_000, 9, 100.0)
    return orn.models.logistic(X, y, prior_precision=[*[1.0] * 8, 0.01])


def large(rows: int, positives: float | None = None) -> orn.Posterior:
    """Logistic regression on nine columns and one of ones, by default of equally many labels.

    The prior precision is 0.01, so that samplers without a prior have the same posterior: it moves
    means by at most a hundredth of a standard deviation.
    """
    X, y = _events(rows, 10, positives)
    return orn.models.logistic(X, y, prior_precision=0.01)


def _events(rows: int, columns: int, positives: float | None) -> tuple[Floats, Floats]:
    """Rows and labels; coefficients are half a normal draw, the last column is all ones."""
    rng = np.random.default_rng([rows, columns])
    X = rng.normal(size=(rows, columns))
    X[:, -1] = 1.0
    eta = X[:, :-1] @ (0.5 * rng.normal(size=columns - 1))
    if positives is not None:
        eta += np.log(positives / np.exp(eta).sum())
    return X, _bernoulli(rng, eta)


def zeros() -> orn.Posterior:
    """Poisson: 500 rows of 6 columns, the last all ones; about 50 counts above zero."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 6))
    X[:, -1] = 1.0
    eta = X @ np.array([0.5, -0.5, 0.3, 0.0, 0.2, -2.35])
    return orn.models.poisson(X, rng.poisson(np.exp(eta)))


def student() -> orn.Posterior:
    """Linear: 400 rows of 6 columns, Student-t noise of 4 degrees of freedom and unknown scale.

    The log scale has a standard normal prior.
    """
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 6))
    y = X @ rng.normal(size=6) + 0.5 * rng.standard_t(DEGREES, size=400)
    init = {"coef": np.zeros(6), "log_scale": 0.0}
    return orn.Posterior(_student_log_likelihood, _student_log_prior, {"x": X, "y": y}, init=init)


def _student_log_likelihood(params: Any, row: Any) -> Any:
    """Up to a constant."""
    z = (row["y"] - row["x"] @ params["coef"]) * jnp.exp(-params["log_scale"])
    return -0.5 * (DEGREES + 1) * jnp.log1p(z**2 / DEGREES) - params["log_scale"]


def _student_log_prior(params: Any) -> Any:
    return -0.5 * (params["coef"] ** 2).sum() - 0.5 * params["log_scale"] ** 2


def classes() -> orn.Posterior:
    """Softmax: 2,000 rows of 5 columns, four classes, one of them with about 15 rows."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(2000, 5))
    W = 0.7 * rng.normal(size=(4, 5))
    eta = X @ W.T + np.array([0.0, 0.5, -1.0, -5.0])
    y = np.argmax(eta + rng.gumbel(size=eta.shape), axis=1)
    return orn.models.softmax(X, y, intercept=True)


def sparse() -> orn.Posterior:
    """Logistic: 4,000 rows of 57 frequencies, mostly zero, and an intercept.

    Like counts of words in mail: a column is log-normal where it is not zero, in 2 to 40 % of the
    rows; some words occur almost only in one of the classes. Columns are standardised.
    """
    rng = np.random.default_rng(6)
    label = rng.random(4000) < 0.4
    share = rng.uniform(0.02, 0.4, size=57)
    lean = np.exp(rng.normal(scale=0.5, size=57))  # how much more often in the first class
    lean[:4], lean[4:8] = 30.0, 1 / 30.0
    chance = np.where(label[:, None], share * lean, share / lean).clip(0.001, 0.7)
    present = rng.random(chance.shape) < chance
    X = np.where(present, np.exp(rng.normal(size=chance.shape)), 0.0)
    return orn.models.logistic(_standardised(X), label.astype(int), intercept=True)


def _standardised(X: Floats) -> Floats:
    return (X - X.mean(axis=0)) / X.std(axis=0)


def _bernoulli(rng: np.random.Generator, eta: Floats) -> Floats:
    return (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))).astype(float)


FAMILIES: Mapping[str, Callable[[], orn.Posterior]] = MappingProxyType(
    {
        function.__name__: function
        for function in (cancer, separable, rare, zeros, student, classes, sparse)
    }
)
"""Every family by name."""

LARGE: Mapping[str, Callable[[], orn.Posterior]] = MappingProxyType(
    {
        "large_1e5": lambda: large(100_000),
        "large_rare": lambda: large(100_000, 100.0),
        "large_1e6": lambda: large(1_000_000),
    }
)
"""Regressions of many rows, for comparisons of speed."""
