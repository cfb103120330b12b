"""Mixed models of families with parameters of their own: against quadrature, and against NUTS."""

from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, gammaln, logsumexp

import ornstein as orn
from ornstein._base.types import Vector
from ornstein.experiments.mixed_nuts import nuts
from ornstein.results.arviz import ess

LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


def test_X13_a_shape_is_drawn_with_the_effects_exactly() -> None:
    """Gamma targets, six groups of five: quantiles of intercept, sd and shape by quadrature."""
    rng = np.random.default_rng(4)
    g = np.repeat(np.arange(6), 5)
    y = np.exp(0.2 + 0.7 * rng.normal(size=6)[g]) * rng.gamma(2.0, size=30) / 2.0
    prior = orn.HalfNormal(1.0)
    post = orn.models.mixed(None, y, {"g": g}, "gamma", prior_scale=1.0, sd_prior=prior)
    result = orn.sample(post, key=0, draws=2000, progress=False)
    for name, (along, marginal) in _exact_gamma(y, g).items():
        share = (np.cumsum(marginal) - 0.5 * marginal) / marginal.sum()
        cuts, draws = np.interp(LEVELS, share, along), result[name]
        below = [(draws < cut).mean() for cut in cuts]
        error = np.sqrt(LEVELS * (1 - LEVELS) / (0.7 * float(ess(draws))))
        assert (np.abs(below - LEVELS) < 4 * error).all(), (name, below)


def _exact_gamma(y: Vector, g: Any) -> dict[str, tuple[Vector, Vector]]:
    """Grids and marginal masses of intercept, sd and shape."""
    nodes, mass = np.polynomial.hermite_e.hermegauss(40)
    betas = np.linspace(-2.5, 3, 45)
    log_sds, log_shapes = np.linspace(-4.5, 1.2, 45), np.linspace(-1.2, 2.6, 45)
    beta, log_sd, log_shape = np.meshgrid(betas, log_sds, log_shapes, indexing="ij")
    sd, shape = np.exp(log_sd), np.exp(log_shape)
    total = stats.norm(0, 1).logpdf(beta) + stats.halfnorm(0, 1).logpdf(sd) + log_sd
    total += stats.norm(1, 1.5).logpdf(log_shape)
    for group in range(6):
        own = y[g == group]
        by_node = []
        for node in nodes:
            eta = beta + sd * node
            log = len(own) * (shape * (log_shape - eta) - gammaln(shape))
            log += (shape - 1) * np.log(own).sum() - shape * np.exp(-eta) * own.sum()
            by_node.append(log)
        total += logsumexp(np.stack(by_node), axis=0, b=(mass / mass.sum())[:, None, None, None])
    weight = np.exp(total - total.max())
    return {
        "intercept": (betas, weight.sum((1, 2))),
        "sd(g)": (np.exp(log_sds), weight.sum((0, 2))),
        "shape": (np.exp(log_shapes), weight.sum((0, 1))),
    }


def simulated(family: str) -> dict[str, Any]:
    """Forty groups of twelve rows, an intercept and a slope."""
    rng = np.random.default_rng(0)
    g = np.repeat(np.arange(40), 12)
    n, x = len(g), rng.normal(size=480)
    eta = 0.3 + 0.4 * x + 0.7 * rng.normal(size=40)[g]
    counts, rest = rng.poisson(np.exp(eta)), rng.uniform(size=n)
    made: dict[str, dict[str, Any]] = {
        "negative_binomial": {"y": rng.poisson(np.exp(eta) * rng.gamma(2.0, size=n) / 2)},
        "zero_inflated_poisson": {"y": counts * (rest < 0.7)},
        "hurdle_poisson": {"y": np.where(rest < 0.3, 0, 1 + counts)},
        "gamma": {"y": np.exp(eta) * rng.gamma(3.0, size=n) / 3},
        "exponential": {"y": np.exp(eta) * rng.exponential(size=n), "event": rest < 0.8},
        "weibull": {"y": np.exp(eta) * rng.exponential(size=n) ** 0.7, "event": rest < 0.8},
        "beta": {"y": np.clip(rng.beta(6 * expit(eta), 6 * expit(-eta)), 1e-6, 1 - 1e-6)},
        "student_t": {"y": eta + 0.5 * rng.standard_t(4, size=n)},
        "binomial": {"y": rng.binomial(5, expit(eta)), "trials": np.full(n, 5)},
        "ordinal": {"y": np.digitize(eta + rng.logistic(size=n), [-1.0, 0.5, 1.5])},
    }
    found = made[family]
    if "event" in found:
        found["event"] = found["event"].astype(int)
    return {**found, "X": x[:, None], "groups": {"g": g}, "feature_names": ["x"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    "family",
    [
        *("negative_binomial", "zero_inflated_poisson", "hurdle_poisson", "gamma", "exponential"),
        *("weibull", "beta", "student_t", "binomial", "ordinal"),
    ],
)
def test_every_family_agrees_with_NUTS(family: str) -> None:
    """Means within 0.1 posterior standard deviations, quantiles within 0.15, and chance."""
    post = orn.models.mixed(family=family, **simulated(family))
    result = orn.sample(post, key=0, draws=2500, progress=False)
    with jax.debug_key_reuse(False):
        drawn = nuts(post, warmup=500, draws=1500)
    for name, expected in drawn.items():
        if name not in result.names:
            continue
        draws, sd = result[name], expected.std()
        chance = 3 * np.sqrt(1 / float(ess(draws)) + 1 / float(ess(expected)))
        assert abs(draws.mean() - expected.mean()) < (0.1 + chance) * sd, name
        for level in (0.05, 0.95):
            gap = np.quantile(draws, level) - np.quantile(expected, level)
            assert abs(gap) < (0.15 + 2 * chance) * sd, (name, level)


@pytest.mark.slow
def test_classes_in_an_order_have_cutpoints_and_no_intercept() -> None:
    given = simulated("ordinal")
    post = orn.models.mixed(family="ordinal", **given)
    result = orn.sample(post, key=1, draws=50, progress=False)
    assert result.names == ["x", "sd(g)", "cutpoints[0]", "cutpoints[1]", "cutpoints[2]"]
    cuts = np.stack([result[f"cutpoints[{k}]"] for k in range(3)], axis=-1)
    assert (np.diff(cuts, axis=-1) > 0).all()
    predicted = result.predict(np.array([[-3.0], [3.0]]), {"g": [0, 0]})
    assert predicted.mean[0] < predicted.mean[1]
