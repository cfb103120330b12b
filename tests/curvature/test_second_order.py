"""Second-order control variates (X10): the batch estimates only what is not quadratic."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ornstein as orn
from ornstein.curvature.control_variates import anchor
from ornstein.linalg.operators import Dense
from ornstein.models.local import Anchored, Minibatch
from support.montecarlo import assert_covariance
from support.problems import as_generic, regression, zoo


def gradient_of_all_rows(post: orn.Posterior, theta: Any) -> Any:
    slope = post.model.gradient_sum(theta, jax.tree.map(jnp.asarray, post.data), post.hyper)
    return slope + post.model.prior_gradient(theta, post.hyper)


@pytest.mark.parametrize("name", ["linear", "logistic", "softmax", "poisson"])
@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
def test_X10_gradients_are_the_quadratics_and_the_batchs_remainder(
    name: str, closed: bool, weighted: bool
) -> None:
    """In any coordinates; and the posterior's own where the batch has all rows."""
    post = zoo(rows=200, intercept=True)[name]
    post = post if closed else as_generic(post)
    known = orn.geometry(post, post.layout.unravel(np.full(post.dim, 0.05)))
    N, center = post.num_data, jnp.asarray(known.center)
    anchored = Anchored(N * known.gradient, known.precision.dense(post.dim))
    root = Dense(np.linalg.cholesky(known.covariance.dense(post.dim)) + 0.01)
    local = post.model.localise(known.center, root, post.hyper, np.float64, anchored)
    W = local.factor.dense(post.dim)
    np.testing.assert_allclose(W @ W.T, root.array @ root.array.T)
    z = jnp.asarray(np.random.default_rng(1).normal(size=post.dim))
    delta = jnp.asarray(W) @ z
    folded = local.fold(post.data)
    for count in (40, N):
        rows = jax.tree.map(lambda leaf, n=count: jnp.asarray(leaf[:n]), post.data)
        batch = jax.tree.map(lambda leaf, n=count: jnp.asarray(leaf[:n]), folded)
        if local.model.rows_last:
            batch = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), batch)
        weights = jnp.linspace(0.5, 1.5, count) if weighted else None

        def slope(theta: Any, rows: Any = rows, weights: Any = weights) -> Any:
            return post.model.gradient_sum(theta, rows, post.hyper, weights)

        there, along = jax.jvp(slope, (center,), (delta,))
        prior, bent = jax.jvp(
            lambda t: post.model.prior_gradient(t, post.hyper), (center,), (delta,)
        )
        left = N / count * (slope(center + delta) - there - along)
        left = left + post.model.prior_gradient(center + delta, post.hyper) - prior - bent
        expected = anchored.slope + anchored.hessian @ np.asarray(delta) + left
        drawn = Minibatch(batch, weights, count, N)
        found = local.model.minibatch_gradient(z, drawn, local.hyper)
        np.testing.assert_allclose(N * found, W.T @ np.asarray(expected), rtol=1e-7, atol=1e-8)
        if count == N and not weighted:
            whole = gradient_of_all_rows(post, center + delta)
            np.testing.assert_allclose(N * found, W.T @ np.asarray(whole), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", ["logistic", "poisson", "softmax"])
@pytest.mark.parametrize("closed", [True, False])
def test_X10_noise_is_the_remainders_over_the_posterior(name: str, closed: bool) -> None:
    """Their mean square, of which a model without closed forms knows a few directions."""
    post = zoo(rows=2000)[name]
    known = orn.plan(post, control_variates=False).geometry
    cov = known.covariance
    seen = anchor(post if closed else as_generic(post), known, cov, scheme="windows", order=2)
    thetas = np.random.default_rng(0).multivariate_normal(known.center, cov.dense(post.dim), 600)
    center = jnp.asarray(known.center)

    def squares(theta: Any) -> Any:
        def gradients(at: Any) -> Any:
            return post.model.gradients(at, post.data, post.hyper)

        here, along = jax.jvp(gradients, (center,), (theta - center,))
        left = gradients(theta) - here - along
        return (left.T @ left / post.num_data) @ jnp.asarray(cov.array)

    traces = np.asarray(jax.lax.map(lambda t: jnp.trace(squares(t)), jnp.asarray(thetas)))
    found = float(np.trace(seen.noise_cov.array @ cov.array))
    error = traces.std() / np.sqrt(len(traces))
    # Points of two or of 32 directions stand for the Gaussian where there is no quadrature.
    slack = 0.02 if closed and name != "softmax" else 0.5
    assert abs(found - traces.mean()) < 4 * error + slack * traces.mean()


def test_X10_noise_falls_with_the_square_of_the_rows() -> None:
    """``D^2 / (N S)`` where that of the first order is ``D / S``."""

    def noise(rows: int, order: int) -> float:
        post = zoo(rows=rows)["logistic"]
        known = orn.geometry(post, post.layout.unravel(orn.plan(post).center))
        found = anchor(post, known, known.covariance, scheme="windows", order=order)
        return float(np.trace(known.hessian.inverse().array @ found.noise_cov.array) * rows)

    first, second = ([noise(rows, order) for rows in (1000, 16_000)] for order in (1, 2))
    assert first[1] / first[0] == pytest.approx(1, rel=0.3)
    assert second[1] / second[0] == pytest.approx(1 / 16, rel=0.3)


@pytest.mark.parametrize("name", ["logistic", "softmax", "poisson"])
@pytest.mark.parametrize("method", ["exact", "rotation"])
def test_X10_T2_covariance_of_the_zoo(name: str, method: str) -> None:
    post = zoo(rows=16_000)[name]
    result = orn.sample(post, key=6, draws=3000, method=method)
    assert result.plan.anchor is not None
    assert result.plan.anchor.order == 2
    assert "second order (X10)" in str(result.plan)
    value, floor = result.measured_kl("predicted")
    assert value < 2.5 * floor + 0.005


@pytest.mark.parametrize("batches", ["independent", "windows", "weighted"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_X10_a_gaussian_posterior_has_no_noise_left(batches: str, dtype: str) -> None:
    post = regression(rows=500)
    plan = orn.plan(post, batches=batches, batch_size=2)
    np.testing.assert_allclose(plan.noise_cov.array, 0, atol=1e-20)
    assert plan.relaxation_steps == pytest.approx(1)
    result = orn.sample(post, plan, key=5, draws=4000, dtype=dtype)
    assert_covariance(result.flat, plan.center, np.linalg.inv(plan.posterior_precision))


def test_X10_the_first_order_is_taken_where_the_second_is_no_better() -> None:
    """Rows that bend sharply at the anchor and hardly elsewhere: tangents lead far astray."""
    sign = np.tile([1.0, -1.0], 1000)
    post = orn.Posterior(
        lambda at, row: -0.02 * row["sign"] * jnp.sqrt(1 + (30 * at[0]) ** 2),
        lambda at: -0.5 * at @ at,
        {"sign": sign},
        init=np.zeros(1),
    )
    plan = orn.plan(post, "exact", batch_size=200)
    assert plan.anchor is not None
    assert plan.anchor.order == 1
    assert "first order (X9): the second leaves more noise" in str(plan)
    forced = orn.plan(post, "exact", batch_size=200, control_variates="second")
    assert forced.anchor is not None
    assert forced.anchor.order == 2
    assert forced.noise_cov.array > 5 * plan.noise_cov.array
