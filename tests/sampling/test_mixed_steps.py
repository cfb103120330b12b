"""Steps of mixed models: coordinates, marginal densities and gradients against dense ones."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ornstein as orn
from ornstein._base.types import Vector
from ornstein.curvature.arrow_anchor import find_anchor, start
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.sampling.mixed import gaussian, minibatch
from ornstein.sampling.mixed.coordinates import Around, Coordinates
from ornstein.sampling.mixed.minibatch import Sampled
from ornstein.sampling.mixed.moves import Reference, Tuning
from ornstein.sampling.mixed.passes import Chunks
from ornstein.sampling.mixed.run import narrowed
from support.mixed_models import autodiff, design, prior_precision, rows_loss, small


def around(post: MixedPosterior) -> tuple[Any, Around]:
    anchor = find_anchor(post)
    return anchor, jax.tree.map(jnp.asarray, Around.of(post, anchor, "float64"))


def test_X13_coordinates_are_the_gaussian_under_other_hyperparameters() -> None:
    post = small()
    anchor, known = around(post)
    lam = anchor.lam + np.linspace(-0.5, 0.5, len(anchor.lam))
    here = Coordinates.given(post.specification, known, jnp.asarray(lam))
    theta = np.concatenate([anchor.phi, anchor.b.ravel()])
    gradient, hessian = autodiff(post, theta)
    prior = prior_precision(post, lam)
    whole, slope = hessian + prior, gradient + prior @ theta
    mean = np.concatenate([here.phi, np.ravel(here.b)])
    np.testing.assert_allclose(mean, theta - np.linalg.solve(whole, slope), atol=1e-8)
    L = jax.tree.map(np.asarray, here.root).dense(post.dim)
    np.testing.assert_allclose(L @ L.T, np.linalg.inv(whole), atol=1e-8)
    z = here.coordinates(*here.position(*here.coordinates(known.phi, known.b)))
    for found, expected in zip(z, here.coordinates(known.phi, known.b), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-8)
    volume = float(here.log_volume_change(Coordinates.given(post.specification, known, known.lam)))
    there = np.linalg.slogdet(hessian + prior_precision(post, anchor.lam))[1]
    assert volume == pytest.approx(0.5 * (np.linalg.slogdet(whole)[1] - there), abs=1e-8)


def test_X14_a_gaussian_models_hyperparameters_have_their_marginal_density() -> None:
    """Against the normal density of all targets at once."""
    post = small("gaussian")
    rows, spec = post.rows.in_memory(), post.specification
    anchor, known = around(post)
    rng = np.random.default_rng(5)

    def dense(lam: Vector) -> float:
        U, mean = design(post), np.zeros(post.dim)
        mean[: spec.fixed] = post.prior_mean
        cov = U @ np.linalg.inv(prior_precision(post, lam)) @ U.T
        # A row of weight w has noise of variance sigma^2 / w, but for a constant of w and sigma.
        assert rows.weight is not None
        noise = np.exp(2 * lam[-1]) / rows.weight
        density = stats.multivariate_normal(U @ mean, cov + np.diag(noise)).logpdf(rows.y)
        missing = 0.5 * ((1 - rows.weight) * 2 * lam[-1]).sum()
        constants = sum(
            0.5 * g.levels * float(g.log_determinant(part))
            for g, part in zip(spec.groupings, spec.parts(jnp.asarray(lam)), strict=True)
        )
        return float(density + missing + spec.log_hyper(jnp.asarray(lam)) - constants)

    lams = [anchor.lam + 0.4 * rng.normal(size=spec.count) for _ in range(4)]
    found = [float(gaussian.marginal(spec, known, jnp.asarray(lam))[0]) for lam in lams]
    np.testing.assert_allclose(np.diff(found), np.diff([dense(lam) for lam in lams]), rtol=1e-7)


@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
def test_passes_over_chunks_are_those_over_the_rows(family: str) -> None:
    post = small(family)
    spec = post.specification
    rows = jax.tree.map(jnp.asarray, Chunks.of(post, "float64"))
    theta = 0.4 * np.random.default_rng(2).normal(size=(2, spec.dim))
    parts = [
        (jnp.asarray(t[: spec.head]), jnp.asarray(t[spec.head :].reshape(spec.leaf.width, -1)))
        for t in theta
    ]
    etas = [rows.predictor(spec, *part) for part in parts]
    lam = jnp.asarray(start(post))
    gradient, _ = autodiff(post, theta[0])
    found = np.concatenate([np.ravel(part) for part in rows.gradient(spec, etas[0], lam)])
    np.testing.assert_allclose(found, gradient, atol=1e-9)
    change = float(rows_loss(post, jnp.asarray(theta[1])) - rows_loss(post, jnp.asarray(theta[0])))
    by_leaf = rows.losses(spec, etas[1], lam) - rows.losses(spec, etas[0], lam)
    assert by_leaf.shape == (spec.leaf.levels,)
    assert float(by_leaf.sum()) == pytest.approx(change, rel=1e-9)


def test_chunks_of_unequal_groups_are_summed_by_group() -> None:
    rng = np.random.default_rng(0)
    g = np.repeat(np.arange(5), [300, 1, 2, 70, 9])
    y = rng.integers(0, 2, len(g))
    post = orn.models.mixed(None, y, {"g": g}, "bernoulli")
    rows = jax.tree.map(jnp.asarray, Chunks.of(post, "float64"))
    assert rows.group is not None
    by_leaf = rows.by_leaf(post.specification, rows.weight * rows.y)
    np.testing.assert_allclose(by_leaf, np.bincount(g, y))


def test_X10_minibatches_estimate_the_remainder_without_bias() -> None:
    post = small()
    spec = post.specification
    anchor = find_anchor(post)
    noise = np.zeros(spec.head), np.zeros((spec.leaf.width, spec.leaf.levels))
    rows = jax.tree.map(jnp.asarray, Sampled.of(post, anchor, 40_000, 1, 0.0, noise))
    theta = np.concatenate([anchor.phi, anchor.b.ravel()])
    step = 0.5 * np.random.default_rng(4).normal(size=spec.dim)
    before, hessian = autodiff(post, theta)
    after, _ = autodiff(post, theta + step)
    expected = after - before - hessian @ step
    single = jnp.asarray(step, "float32")
    d_phi, d_b = single[: spec.head], single[spec.head :].reshape(spec.leaf.width, -1)
    estimates = []
    for seed in range(20):
        batch = rows.batch(jax.random.key(seed), jnp.zeros((), int))
        found = minibatch.remainder(spec, rows.share, batch, d_phi, d_b)
        estimates.append(np.concatenate([np.ravel(part) for part in found]))
    error = np.std(estimates, axis=0, ddof=1) / np.sqrt(20)
    assert (np.abs(np.mean(estimates, axis=0) - expected) < 4.5 * error + 1e-4).all()


def test_a_reference_keeps_its_own_gaussian() -> None:
    cov = np.array([[0.5, 0.2], [0.2, 0.3]])
    reference = jax.tree.map(jnp.asarray, Reference.of(np.array([1.0, -1.0]), cov, "float64"))
    rng = np.random.default_rng(0)
    draws = jnp.asarray(rng.multivariate_normal([1.0, -1.0], cov, size=20_000))
    keys = jax.random.split(jax.random.key(0), len(draws))

    def step(lam: Any, key: Any) -> Any:
        move, test = jax.random.split(key)
        tried, weight = reference.proposed(lam, jnp.asarray(0.6), move)
        ratio = reference.log_density(tried) - reference.log_density(lam) + weight
        return jnp.where(-jax.random.exponential(test) < ratio, tried, lam)

    moved = jax.vmap(step)(draws, keys)
    assert np.mean(np.any(np.asarray(moved) != np.asarray(draws), axis=1)) > 0.8
    np.testing.assert_allclose(np.cov(np.asarray(moved).T), cov, atol=0.02)
    np.testing.assert_allclose(np.mean(moved, axis=0), [1.0, -1.0], atol=0.02)


def test_chains_leave_a_tail_that_the_reference_does_not_have() -> None:
    """The logarithm of an exponential variable, from near zero; the Gaussian is its bulk alone."""
    reference = jax.tree.map(
        jnp.asarray, Reference.of(np.array([0.0]), np.array([[0.25]]), "float64")
    )

    def target(lam: Any) -> Any:
        return (lam - jnp.exp(lam)).sum()

    def step(lam: Any, key: Any) -> tuple[Any, Any]:
        move, test = jax.random.split(jax.random.wrap_key_data(key))
        tried, weight = reference.proposed(lam, jnp.asarray(1.0), move)
        ratio = target(tried) - target(lam) + weight
        moved = jnp.where(-jax.random.exponential(test) < ratio, tried, lam)
        return moved, moved[0]

    def chain(key: Any) -> Any:
        bits = jax.random.key_data(jax.random.split(key, 600))
        return jax.lax.scan(step, jnp.full((1,), -8.0), bits)[1][200:]

    draws = np.asarray(jax.vmap(chain)(jax.random.split(jax.random.key(0), 200)))
    levels = np.array([0.02, 0.1, 0.5, 0.9])
    found = np.mean(draws[..., None] < np.log(-np.log1p(-levels)), axis=1)  # by chain
    error = found.std(axis=0) / np.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - levels) < 4 * error).all()


def test_proposals_that_were_narrowed_are_whole_again_where_they_are_accepted() -> None:
    refused = narrowed(Tuning(1.4, 1.4, 1.0), np.array([0.99, 0.6, 0.05]))
    assert refused.leaf == pytest.approx(np.pi / 2)
    assert refused.head == pytest.approx(1.4 * 0.8)
    assert refused.hyper == pytest.approx(0.4)
    assert narrowed(refused, np.array([0.99, 0.75, 0.92])).hyper == 1.0
