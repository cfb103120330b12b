"""Small posteriors with hyperparameters, ready-made and of one's own."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

import ornstein as orn

Floats = npt.NDArray[np.floating]


def standardised(X: Any, y: Any) -> tuple[Floats, Floats]:
    X, y = np.asarray(X, float), np.asarray(y, float)
    return (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()


def table(rows: int = 300, columns: int = 12, seed: int = 3) -> tuple[Floats, Floats]:
    """A regression in which the prior matters: few strong columns, many weak."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    return X, X @ (rng.normal(size=columns) * 0.3) + 0.7 * rng.normal(size=rows)


def logistic(rows: int = 400, columns: int = 10, **options: Any) -> orn.Posterior:
    X, y = table(rows, columns)
    return orn.models.logistic(X, y > 0, **options)


def own(X: Floats, y: Floats) -> orn.Posterior:
    """Linear regression by hand: nothing in closed form."""

    def log_likelihood(params: Any, row: Any, hyper: Any) -> Any:
        residual = (row["y"] - params["coef"] @ row["x"]) / hyper["sigma"]
        return -0.5 * residual**2 - jnp.log(hyper["sigma"])

    def log_prior(params: Any, hyper: Any) -> Any:
        coef = params["coef"]
        return 0.5 * (coef.size * jnp.log(hyper["tau"]) - hyper["tau"] * coef @ coef)

    return orn.Posterior(
        log_likelihood,
        log_prior,
        {"x": X, "y": y},
        init={"coef": np.zeros(X.shape[1])},
        hyper={"sigma": 1.0, "tau": 1.0},
    )


def own_logistic(X: Floats, y: Floats) -> orn.Posterior:
    def log_likelihood(params: Any, row: Any, hyper: Any) -> Any:
        del hyper
        eta = params @ row["x"]
        return row["y"] * eta - orn.models.softplus(eta)

    def log_prior(params: Any, hyper: Any) -> Any:
        return 0.5 * (params.size * jnp.log(hyper) - hyper * params @ params)

    data = {"x": X, "y": (y > 0).astype(float)}
    return orn.Posterior(log_likelihood, log_prior, data, np.zeros(X.shape[1]), hyper=1.0)
