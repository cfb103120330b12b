"""Sums over the rows of mixed models against dense ones, and the optimum (X14)."""

import jax.numpy as jnp
import numpy as np
import pytest

from ornstein.curvature import arrow_sums
from ornstein.curvature.arrow_anchor import find_anchor, start
from ornstein.curvature.arrow_noise import remainder_noise
from support.mixed_models import autodiff, design, prior_precision, rows_loss, small


@pytest.mark.parametrize("family", ["bernoulli", "poisson", "gaussian"])
@pytest.mark.parametrize("crossed", [True, False])
def test_X14_sums_are_the_derivatives_of_the_loss(family: str, crossed: bool) -> None:
    post = small(family, crossed)
    spec = post.specification
    theta = 0.5 * np.random.default_rng(1).normal(size=spec.dim)
    phi, b = theta[: spec.head], theta[spec.head :].reshape(spec.leaf.width, -1)
    found = arrow_sums.sums(post, phi, b, start(post))
    gradient, hessian = autodiff(post, theta)
    eta = arrow_sums.predictor(spec, post.rows.in_memory(), phi, b)
    np.testing.assert_allclose(eta, design(post) @ theta, rtol=1e-10)
    assert found.loss == pytest.approx(float(rows_loss(post, jnp.asarray(theta))), rel=1e-10)
    slope = np.concatenate([found.slope_phi, found.slope_b.ravel()])
    np.testing.assert_allclose(slope, gradient, atol=1e-9)
    assert found.data is not None
    np.testing.assert_allclose(found.data.dense(spec.dim), hessian, atol=1e-9)


@pytest.mark.parametrize("family", ["bernoulli", "poisson", "gaussian"])
def test_X14_the_anchor_is_an_optimum(family: str) -> None:
    post = small(family)
    anchor = find_anchor(post)
    theta = np.concatenate([anchor.phi, anchor.b.ravel()])
    gradient, hessian = autodiff(post, theta)
    power = float(np.exp(-2 * anchor.lam[-1])) if family == "gaussian" else 1.0
    prior = prior_precision(post, anchor.lam)
    mean = np.zeros(post.dim)
    mean[: len(post.prior_mean)] = post.prior_mean
    whole = power * hessian + prior
    slope = power * gradient + prior @ (theta - mean)
    assert slope @ np.linalg.solve(whole, slope) < 1e-7
    np.testing.assert_allclose(anchor.precision(post).dense(post.dim), whole, atol=1e-8)


def test_an_anchor_moves_to_other_hyperparameters() -> None:
    post = small()
    anchor = find_anchor(post)
    moved = anchor.moved(post, anchor.lam + 0.5)
    np.testing.assert_allclose(moved.lam, anchor.lam + 0.5)
    assert np.abs(moved.b).sum() > np.abs(anchor.b).sum()


def test_X10_noise_of_remainders_is_that_of_the_rows() -> None:
    """Against gradients of single rows, whitened by a dense root."""
    post = small(crossed=False)
    anchor = find_anchor(post)
    noise = remainder_noise(post, anchor, seed=3)
    spec, rows = post.specification, post.rows.in_memory()
    root = anchor.precision(post).root()
    L = root.dense(post.dim)
    rng = np.random.default_rng(3)
    U = design(post) @ L
    total, largest = np.zeros(post.dim), 0.0
    for _ in range(2):
        z = rng.normal(size=spec.head), rng.normal(size=(spec.leaf.width, spec.leaf.levels))
        change = U @ np.concatenate([z[0], z[1].ravel()])
        eta = arrow_sums.predictor(spec, rows, anchor.phi, anchor.b)
        p, moved = 1 / (1 + np.exp(-eta)), 1 / (1 + np.exp(-eta - change))
        left = (moved - p - p * (1 - p) * change) * rows.weight
        each = post.num_data * (U * left[:, None])
        total += (each**2).sum(axis=0) / post.num_data / 2
        largest = max(largest, np.abs(each).max())
    np.testing.assert_allclose(noise.head, total[: spec.head], rtol=1e-8)
    np.testing.assert_allclose(noise.leaf.ravel(), total[spec.head :], rtol=1e-8)
    assert noise.kick == pytest.approx(largest)
