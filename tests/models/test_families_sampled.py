"""Draws of every family against NUTS, and how often their intervals cover the truth."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ornstein as orn

Floats = np.ndarray[Any, np.dtype[np.float64]]
models, Normal = orn.models, orn.Normal
ROWS = 300
COEF = np.array([0.5, -0.3])

pytestmark = pytest.mark.slow


def table(rows: int = ROWS) -> Floats:
    return np.random.default_rng(0).normal(size=(rows, 2))


def simulated(name: str, rows: int) -> orn.Posterior:
    """A table that the family fits, with the default priors."""
    rng = np.random.default_rng(1)
    X = table(rows)
    eta = X @ COEF + 0.5
    m, p = np.exp(eta), 1 / (1 + np.exp(-eta))
    some = rng.uniform(size=rows) > 0.3
    censor = rng.exponential(6.0, size=rows)
    times = {"exponential": m * rng.exponential(size=rows), "weibull": m * rng.weibull(1.7, rows)}
    with_one: dict[str, Any] = {"intercept": True}
    if name in times:
        time = times[name]
        build = getattr(models, name)
        found: orn.Posterior = build(
            X, np.minimum(time, censor), (time <= censor).astype(int), **with_one
        )
        return found
    if name == "binomial":
        trials = rng.integers(1, 6, rows)
        return models.binomial(X, rng.binomial(trials, p), trials, **with_one)
    if name == "ordinal":
        return models.ordinal(X, np.digitize(eta + rng.logistic(size=rows), [-0.5, 0.8, 1.7]))
    targets: dict[str, Callable[[], Floats]] = {
        "negative_binomial": lambda: rng.poisson(m * rng.gamma(2.0, size=rows) / 2).astype(float),
        "zero_inflated_poisson": lambda: some * rng.poisson(m).astype(float),
        "hurdle_poisson": lambda: some * np.maximum(rng.poisson(m), 1.0),
        "gamma": lambda: m * rng.gamma(3.0, size=rows) / 3,
        "student_t": lambda: eta + 0.5 * rng.standard_t(4, size=rows),
        "beta": lambda: rng.beta(8 * p, 8 * (1 - p)),
    }
    made: orn.Posterior = getattr(models, name)(X, targets[name](), **with_one)
    return made


NAMES = [
    *("binomial", "negative_binomial", "zero_inflated_poisson", "hurdle_poisson", "gamma"),
    *("exponential", "weibull", "student_t", "beta", "ordinal"),
]


@pytest.mark.pilot
@pytest.mark.parametrize("name", NAMES)
def test_draws_agree_with_nuts(name: str) -> None:
    """Means within 0.1 posterior sds, quantiles within 0.15, beyond Monte-Carlo error."""
    post = simulated(name, 200)
    draws = orn.sample(post, draws=1000, progress=False).flat
    truth = orn.sample(post, method="nuts", draws=1000, progress=False).flat
    sd = truth.std(axis=(0, 1))
    means = (draws.mean(axis=(0, 1)) - truth.mean(axis=(0, 1))) / sd
    assert np.abs(means).max() < 0.1 + 3 * np.sqrt(2 / 2000)
    ends = [
        np.quantile(part.reshape(-1, post.dim), [0.05, 0.95], axis=0) for part in (draws, truth)
    ]
    assert (np.abs(ends[0] - ends[1]) / sd).max() < 0.15 + 3 * 2.1 / np.sqrt(2000)


def drawn_from_the_prior(name: str) -> Any:
    """A model whose prior gives sane tables: a posterior, or what calibrate takes for binomial."""
    X, y = table(), np.resize([1.0, 2.0, 3.0], ROWS)
    options: dict[str, Any] = {"intercept": True, "prior_precision": [4.0, 4.0, 1.0]}
    priors = {
        "negative_binomial": {"shape": Normal(1.0, 0.5)},
        "zero_inflated_poisson": {"zero_share": Normal(-0.5, 0.5)},
        "hurdle_poisson": {"zero_share": Normal(-0.5, 0.5)},
        "gamma": {"shape": Normal(1.0, 0.5)},
        "weibull": {"shape": Normal(0.3, 0.4)},
        "student_t": {"df": Normal(1.5, 0.4), "noise_scale": Normal(0.0, 0.4)},
        "beta": {"precision": Normal(2.0, 0.5)},
    }
    if name == "ordinal":
        return models.ordinal(X, np.resize([0, 1, 2, 3], ROWS), prior_precision=4.0)
    if name == "binomial":
        trials = np.resize([1, 2, 5], ROWS)

        def prior(rng: np.random.Generator) -> Any:
            return {"coef": 0.5 * rng.normal(size=2), "intercept": rng.normal()}

        def simulate(params: Any, rng: np.random.Generator) -> orn.Posterior:
            p = 1 / (1 + np.exp(-X @ params["coef"] - params["intercept"]))
            return models.binomial(X, rng.binomial(trials, p), trials, **options)

        return prior, simulate
    y = y / 4 if name == "beta" else y
    return getattr(models, name)(X, y, priors=priors.get(name), **options)


@pytest.mark.parametrize("name", NAMES)
def test_intervals_cover_the_truth(name: str) -> None:
    """Of 200 simulated tables, 90 % intervals of coefficients cover 86 to 94 %.

    Chance alone leaves that range for one of three coefficients in a tenth of all runs; the bounds
    are wider by as much.
    """
    found = orn.calibrate(
        drawn_from_the_prior(name),
        200,
        method="rotation",
        draws=250,
        tolerance=None,
        progress=False,
    )
    inside = ((found.ranks > 0.05) & (found.ranks < 0.95)).mean(axis=0)
    coef = inside[[label.startswith("coef") for label in found.labels]]
    assert 0.86 <= coef.mean() <= 0.94
    assert (np.abs(inside - 0.9) < 0.04 + 1.5 * np.sqrt(0.09 / 200)).all()
    assert found.p_value > 1e-3
