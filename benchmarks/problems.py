"""Posteriors to sample: the paper's three data sets, a larger one, and synthetic regressions."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import ornstein as orn
from ornstein.data import datasets

_COVERTYPE_ROWS = 500_000
_NUMERIC = 10  # columns of covertype that are not indicators


@dataclass(frozen=True)
class Problem:
    """A posterior and how it is run."""

    name: str
    title: str
    post: orn.Posterior
    batch_size: int
    """Rows per minibatch of the rivals that have them."""
    budget: float
    """Seconds a contestant may sample."""
    plain_batch_size: int | None = None
    """Rows per minibatch of our plain gradients; None leaves them to the library."""


def wine() -> Problem:
    """Linear regression, 4,898 rows of 11 columns divided by their largest absolute value."""
    data = datasets.load("wine")
    post = orn.models.linear(data.X / np.abs(data.X).max(axis=0), data.y)
    return Problem("wine", "wine, linear", post, batch_size=100, budget=30)


def protein() -> Problem:
    """Linear regression, 45,730 rows of 9 columns, at the noise least squares leaves."""
    data = datasets.load("protein")
    X = data.X / np.abs(data.X).max(axis=0)
    residual = data.y - X @ np.linalg.lstsq(X, data.y)[0]
    post = orn.models.linear(X, data.y, noise_scale=float(residual.std(ddof=X.shape[1])))
    return Problem("protein", "protein, linear", post, batch_size=100, budget=30)


def skin() -> Problem:
    """Logistic regression, 245,057 rows of 3 standardised columns."""
    data = datasets.load("skin")
    post = orn.models.logistic(_standardised(data.X.astype(float)), data.y)
    return Problem("skin", "skin, logistic", post, batch_size=10_000, budget=30)


def covertype() -> Problem:
    """Softmax regression of 7 classes, 500,000 rows of 54 columns, prior precision 1."""
    data = datasets.load("covertype")
    rows = np.random.default_rng(2016).permutation(len(data.X))[:_COVERTYPE_ROWS]
    X = data.X[rows].astype(np.float32)
    X[:, :_NUMERIC] = _standardised(X[:, :_NUMERIC])
    post = orn.models.softmax(X, data.y[rows].astype(np.int32) - 1)
    return Problem("covertype", "covertype, softmax", post, batch_size=1000, budget=60)


def synthetic(model: str, num_data: int, dim: int, budget: float) -> Problem:
    """Linear or logistic regression on a Gaussian design whose columns share a common part."""
    rng = np.random.default_rng([num_data, dim])
    X = rng.standard_normal((num_data, dim), dtype=np.float32)
    X += np.float32(0.5) * rng.standard_normal((num_data, 1), dtype=np.float32)
    coef = rng.standard_normal(dim, dtype=np.float32) / np.float32(np.sqrt(dim))
    eta = X @ coef
    if model == "linear":
        post = orn.models.linear(X, eta + rng.standard_normal(num_data, dtype=np.float32))
    else:
        noise = rng.logistic(size=num_data).astype(np.float32)
        post = orn.models.logistic(X, (eta + noise > 0).astype(np.int8))
    title = f"{model}, N={num_data:,}, D={dim:,}"
    size = max(1, num_data // 50)
    return Problem(model, title, post, batch_size=size, budget=budget, plain_batch_size=size)


def _standardised(X: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    return (X - X.mean(axis=0)) / X.std(axis=0)


REAL = {"wine": wine, "protein": protein, "skin": skin, "covertype": covertype}
