"""Coordinates that follow drawn hyperparameters (X13)."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import ornstein as orn
from ornstein._base.precision import double_precision
from ornstein.models.hyper_targets import hyper_target, known_at
from ornstein.sampling.conditional import Shape


def rows(intercept: bool = False) -> orn.Posterior:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)) * [1.0, 2.0, 0.5, 0.1]
    y = X @ [0.5, -0.3, 0.0, 1.0] + rng.normal(size=60)
    return orn.models.linear(X, y, intercept=intercept)


@pytest.mark.parametrize("change", [(0.0, 0.0), (0.7, -3.0), (-0.5, 8.0)])
def test_X13_of_a_linear_regression_the_gaussian_is_exact(change: tuple[float, float]) -> None:
    """For any noise scale and prior precision, from the shape at one pair of them."""
    post = rows()
    target = hyper_target(post, None)
    plan = orn.plan(post)
    assert plan.anchor is not None
    precision = plan.geometry.precision.dense(plan.dim)
    known = known_at(post, target, plan.center, plan.anchor.slope, precision)
    factor = plan.gain.sqrt()
    shape = Shape.of(target, known, factor, float(post.num_data))
    assert shape is not None
    with double_precision():
        eta = jnp.asarray(known["eta"] + np.array(change))
        power, diagonal = target.curvature(eta, known)
        slope = factor.rmatvec(target.slope_change(eta, jnp.asarray(plan.center), known))
        own = shape.given(power, diagonal, jnp.asarray(slope) / post.num_data)
        mean = plan.center + factor.matvec(own.position(jnp.zeros(plan.dim)))
        root = np.asarray(factor.dense(plan.dim)) @ (np.asarray(own.axes) * np.asarray(own.scale))
    X, y = np.asarray(post.data["x"]), np.asarray(post.data["y"])
    noise, prior = float(np.exp(-2 * eta[0])), float(np.exp(eta[1]))
    expected = np.linalg.inv(noise * X.T @ X + prior * np.eye(plan.dim))
    np.testing.assert_allclose(root @ root.T / post.num_data, expected, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(mean, noise * expected @ X.T @ y, rtol=1e-6, atol=1e-9)


def test_coordinates_can_be_undone_and_carry_gradients() -> None:
    post = rows(intercept=True)
    target = hyper_target(post, None)
    plan = orn.plan(post)
    assert plan.anchor is not None
    known = known_at(post, target, plan.center, plan.anchor.slope, np.eye(plan.dim))
    shape = Shape.of(target, known, plan.gain.sqrt(), 60.0)
    assert shape is not None
    with double_precision():
        own = shape.given(jnp.array(2.0), jnp.arange(1.0, 6.0), jnp.ones(plan.dim))
        z = jnp.arange(1.0, 6.0)
        np.testing.assert_allclose(own.position(own.coordinates(z)), z, rtol=1e-12)
        w = own.coordinates(z)
        step = 1e-6 * jnp.ones_like(w)
        moved = 0.5 * jnp.sum(own.position(w + step) ** 2) - 0.5 * jnp.sum(z**2)
        assert float(moved) == pytest.approx(float(own.slope(z) @ step), rel=1e-4)
        jacobian = np.asarray(own.axes) * np.asarray(own.scale)
        assert float(own.log_volume) == pytest.approx(np.linalg.slogdet(jacobian)[1])


def absent_effects() -> orn.Posterior:
    """A logistic regression with thirty groups that do not differ: a funnel."""
    rng = np.random.default_rng(0)
    group, x = np.repeat(np.arange(30), 10), rng.normal(size=300)
    y = (rng.random(300) < 1 / (1 + np.exp(-x))).astype(float)
    X = np.column_stack([x, np.eye(30)[group]])
    return orn.models.logistic(X, y, groups=[None] + ["g"] * 30, intercept=True)


@pytest.mark.slow
def test_X13_chains_pass_through_a_funnel() -> None:
    result = orn.sample(absent_effects(), hyper="draw", key=0, draws=300)
    summary = result.summary()
    assert summary["r_hat"].max() < 1.05
    sd = result.hyper_draws["prior_precision"] ** -0.5
    low, high = np.quantile(sd, [0.05, 0.95])
    assert low < 0.1
    assert high > 0.4


@pytest.mark.slow
def test_X13_draws_in_a_funnel_agree_with_nuts() -> None:
    numpyro = pytest.importorskip("numpyro")
    import jax

    dist = numpyro.distributions
    post = absent_effects()
    prior = orn.HalfNormal(1.0)
    result = orn.sample(post, hyper="draw", hyper_prior=prior, key=1, draws=2000)
    X = np.asarray(post.data["x"])
    fixed = np.asarray(post.hyper["prior_precision"]) * np.ones(post.dim)

    def model() -> None:
        sd = numpyro.sample("sd", dist.HalfNormal(1.0))
        slope = numpyro.sample("slope", dist.Normal(0.0, fixed[0] ** -0.5))
        level = numpyro.sample("level", dist.Normal(0.0, fixed[-1] ** -0.5))
        z = numpyro.sample("z", dist.Normal(0, 1).expand([30]))
        eta = level + slope * X[:, 0] + sd * (jnp.asarray(X[:, 1:31]) @ z)
        numpyro.sample("y", dist.Bernoulli(logits=eta), obs=jnp.asarray(post.data["y"]))

    kernel = numpyro.infer.NUTS(model, target_accept_prob=0.95)
    mcmc = numpyro.infer.MCMC(kernel, num_warmup=2000, num_samples=20_000, progress_bar=False)
    with jax.debug_key_reuse(False), jax.numpy_dtype_promotion("standard"):
        mcmc.run(jax.random.key(0))
    truth: dict[str, Any] = {k: np.asarray(v) for k, v in mcmc.get_samples().items()}
    found = {
        "sd": result.hyper_draws["prior_precision"] ** -0.5,
        "slope": np.asarray(result.draws["coef"])[..., 0],
    }
    for name, draws in found.items():
        for share in (0.05, 0.25, 0.5, 0.75, 0.95):
            gap = np.quantile(draws, share) - np.quantile(truth[name], share)
            assert abs(gap) < 0.1 * truth[name].std(), (name, share)
