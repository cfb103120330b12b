"""Closed forms against automatic differentiation, and the scaling."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import ornstein as orn
from ornstein.linalg.operators import Diagonal
from ornstein.models import log_sum_exp, softplus
from ornstein.models.grams import quadratic_forms, weighted_grams
from ornstein.models.local import Anchored, Minibatch, per_example
from support.problems import SOME_MODELS, as_generic, features, whole, zoo

MODELS = ["linear", "logistic", "softmax", "poisson"]


@pytest.mark.parametrize("intercept", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("name", SOME_MODELS)
def test_closed_forms_agree_with_autodiff(name: str, intercept: bool) -> None:
    post = zoo(intercept=intercept)[name]
    closed, generic = post.model, as_generic(post).model
    hyper = as_generic(post).hyper
    rng = np.random.default_rng(0)
    theta = jnp.asarray(rng.normal(size=post.dim) * 0.3)
    weights = jnp.asarray(rng.uniform(size=post.num_data))
    rows = post.data
    for function in ("losses", "gradients"):
        np.testing.assert_allclose(
            whole(closed, function)(theta, rows, post.hyper),
            whole(generic, function)(theta, rows, hyper),
            rtol=1e-11,
            atol=1e-11,
        )
    for function in ("gradient_sum", "hessian_sum", "hessian_diagonal_sum"):
        arguments = (weights,)
        np.testing.assert_allclose(
            whole(closed, function)(theta, rows, post.hyper, *arguments),
            whole(generic, function)(theta, rows, hyper, *arguments),
            rtol=1e-10,
            atol=1e-9,
        )
    for function in ("prior_loss", "prior_gradient", "prior_hessian", "prior_hessian_diagonal"):
        np.testing.assert_allclose(
            whole(closed, function)(theta, post.hyper),
            whole(generic, function)(theta, hyper),
            rtol=1e-12,
            atol=1e-12,
        )


def test_likelihoods_are_normalised_densities() -> None:
    x, coef = np.array([0.7, -1.2]), jnp.array([0.4, 0.3])
    eta = float(coef @ x)
    X = np.stack([x, x])
    linear = orn.models.linear(X, [0.5, 1.0], noise_scale=0.8)
    row = {"x": x, "y": np.array(0.5)}
    expected = scipy.stats.norm.logpdf(0.5, eta, 0.8)
    assert np.isclose(linear.log_likelihood({"coef": coef}, row), expected)
    poisson = orn.models.poisson(X, [3, 1])
    row = {"x": x, "y": np.array(3.0)}
    expected = scipy.stats.poisson.logpmf(3, np.exp(eta))
    assert np.isclose(poisson.log_likelihood({"coef": coef}, row), expected)
    logistic = orn.models.logistic(X, [1, 0])
    total = sum(
        np.exp(logistic.log_likelihood({"coef": coef}, {"x": x, "y": np.array(y)}))
        for y in (0.0, 1.0)
    )
    assert np.isclose(total, 1.0)
    prior = orn.models.linear(X, [0.5, 1.0], prior_precision=4.0).log_prior({"coef": coef})
    assert np.isclose(prior, scipy.stats.norm.logpdf(coef, 0, 0.5).sum())


def test_log_sum_exp_is_stable_with_the_softmax_as_slope() -> None:
    x = jnp.asarray(np.random.default_rng(0).normal(size=(6, 4)) * np.array([1, 5, 50, 500]))
    np.testing.assert_allclose(log_sum_exp(x), jax.nn.logsumexp(x, axis=-1))
    for derivative in (jax.grad, jax.hessian):
        np.testing.assert_allclose(
            jax.jit(jax.vmap(derivative(log_sum_exp)))(x),
            jax.jit(jax.vmap(derivative(jax.nn.logsumexp)))(x),
            atol=1e-12,
        )
    far = jnp.asarray([1e30, -1e30, 1e30])
    assert np.isfinite(log_sum_exp(far))
    np.testing.assert_allclose(jax.grad(log_sum_exp)(far), [0.5, 0.0, 0.5])


def test_softplus_is_stable_with_the_sigmoid_as_slope() -> None:
    x = jnp.array([-800.0, -30.0, 0.0, 30.0, 800.0])
    assert np.allclose(softplus(x), np.logaddexp(0, np.asarray(x)))
    slope = jax.vmap(jax.grad(softplus))(x)
    assert np.allclose(slope, jax.nn.sigmoid(x))


def test_softplus_of_single_numbers_has_their_precision() -> None:
    x = np.linspace(-60.0, 60.0, 20_001).astype(np.float32)
    found = np.asarray(softplus(jnp.asarray(x)), float)
    expected = np.logaddexp(0.0, x.astype(float))
    np.testing.assert_allclose(found, expected, rtol=5e-7)


def test_scaling_is_the_mean_of_per_example_losses() -> None:
    """``L = 1/N sum_n (-log p(x_n | theta)) - 1/N log p(theta)``, for any subset in expectation."""
    post = zoo()["linear"]
    theta = jnp.full(post.dim, 0.2)
    params = post.layout.unravel(theta)
    N = post.num_data
    rows = [jax.tree.map(lambda leaf, n=n: leaf[n], post.data) for n in range(N)]
    log_likelihood = jax.jit(post.log_likelihood)
    by_hand = np.mean([-log_likelihood(params, row) - post.log_prior(params) / N for row in rows])
    losses = post.model.losses(theta, post.data, post.hyper)
    prior = post.model.prior_loss(theta, post.hyper)
    assert np.isclose(per_example(losses.sum(), N, prior, N), by_hand)
    halves = [per_example(half.sum(), N // 2, prior, N) for half in jnp.split(losses, 2)]
    assert np.isclose(np.mean(np.asarray(halves)), by_hand)


@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        "logistic",
        "softmax",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("linear", "poisson")),
    ],
)
@pytest.mark.parametrize("closed", [True, False])
def test_X8_X9_local_gradients(name: str, closed: bool, anchored: bool) -> None:
    """By z it is ``W'`` times that by theta; anchored, a row counts from its own at the centre."""
    post = zoo()[name] if closed else as_generic(zoo()[name])
    plan, N = orn.plan(post, batch_size=20), post.num_data
    model, hyper, rows = post.model, post.hyper, jax.tree.map(lambda leaf: leaf[:50], post.data)
    here = jnp.asarray(plan.center)
    gradient_sum, prior_gradient = whole(model, "gradient_sum"), whole(model, "prior_gradient")
    slope = gradient_sum(here, post.data, hyper) + prior_gradient(here, hyper)
    local = model.localise(
        plan.center,
        plan.gain.sqrt(),
        hyper,
        np.float64,
        Anchored(np.asarray(slope)) if anchored else None,
    )
    factor = local.factor
    np.testing.assert_allclose(
        factor.dense(post.dim) @ factor.dense(post.dim).T, plan.gain.dense(post.dim)
    )
    z = jnp.asarray(np.random.default_rng(1).normal(size=post.dim))
    theta = jnp.asarray(plan.center + factor.matvec(np.asarray(z)))
    batch = jax.tree.map(lambda leaf: np.asarray(leaf)[:50], local.fold(post.data))
    if local.model.rows_last:
        batch = jax.tree.map(lambda leaf: np.moveaxis(leaf, 0, -1), batch)
    given = Minibatch(batch, None, 50, N)
    rows_sum = gradient_sum(theta, rows, hyper) / 50
    expected = rows_sum + prior_gradient(theta, hyper) / N
    if anchored:
        at_center = gradient_sum(here, rows, hyper) / 50
        expected = expected - at_center + (slope - prior_gradient(here, hyper)) / N
    np.testing.assert_allclose(
        jax.jit(lambda z: local.model.minibatch_gradient(z, given, local.hyper))(z),
        factor.rmatvec(np.asarray(expected)),
        rtol=1e-8,
        atol=1e-12,
    )


def test_prior_precision_per_column_reaches_the_right_parameters() -> None:
    X = features(50, 2)
    post = orn.models.softmax(X, np.arange(50) % 3, prior_precision=[1.0, 2.0, 3.0], intercept=True)
    precision = post.layout.unravel(post.hyper["prior_precision"])
    assert precision["coef"].tolist() == [[1.0, 2.0]] * 3
    assert precision["intercept"].tolist() == [3.0] * 3


@pytest.mark.parametrize(("columns", "outputs", "lines"), [(5, 3, 2), (30, 2, 1), (4, 1, 2)])
@pytest.mark.parametrize("rows", [7, 1100])
def test_weighted_grams_are_sums_of_products(
    rows: int, columns: int, outputs: int, lines: int
) -> None:
    """Few columns to a weight, many, and one output."""
    rng = np.random.default_rng(0)
    u, half = rng.normal(size=(rows, columns)), rng.normal(size=(rows, outputs, outputs))
    weights = rng.normal(size=(lines, rows))[:, :, None, None]
    matrices = weights * (half + half.swapaxes(1, 2))
    expected = np.einsum("lnab,ni,nj->laibj", matrices, u, u)
    size = outputs * columns
    with jax.enable_x64(True):
        found = weighted_grams(jnp.asarray(u), jnp.asarray(matrices))
        np.testing.assert_allclose(found, expected.reshape(lines, size, size), rtol=0, atol=1e-9)
        if outputs > 1:
            lines_off = matrices.sum(axis=-1)[..., None] * np.eye(outputs)
            balanced = jnp.asarray(matrices - lines_off)
            found = weighted_grams(jnp.asarray(u), balanced, balanced=True)
            np.testing.assert_allclose(
                found, weighted_grams(jnp.asarray(u), balanced), rtol=0, atol=1e-9
            )


@pytest.mark.parametrize(("columns", "matrices"), [(5, 3), (30, 2), (1, 1)])
@pytest.mark.parametrize("rows", [7, 300])
def test_quadratic_forms(rows: int, columns: int, matrices: int) -> None:
    """Few columns to a matrix, many, and one; matrices need not be symmetric."""
    rng = np.random.default_rng(0)
    u, M = rng.normal(size=(rows, columns)), rng.normal(size=(matrices, columns, columns))
    with jax.enable_x64(True):
        found = quadratic_forms(jnp.asarray(u), jnp.asarray(M))
    np.testing.assert_allclose(found, np.einsum("ni,pij,nj->pn", u, M, u), rtol=0, atol=1e-10)


@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize("name", ["logistic", "softmax", "poisson"])
def test_rows_folded_in_blocks_are_those_folded_at_once(name: str, anchored: bool) -> None:
    """Also where the first of them are so sure that their means are whole numbers."""
    X = features(50, 2)
    X[:8] *= 1e4
    y = np.arange(50) % 2
    post = getattr(orn.models, name)(X, y, intercept=True, sample_weight=np.arange(1, 51))
    center = np.zeros(post.dim)
    center[: post.dim // 2] = 1e-4 if name == "poisson" else 1.0
    factor = Diagonal(np.linspace(0.5, 1.5, post.dim))
    slope = Anchored(np.ones(post.dim)) if anchored else None
    local = post.model.localise(center, factor, post.hyper, np.float64, slope)
    folded = [fold(post.data) for fold in (local.fold, partial(local.fold, block_rows=6))]
    assert folded[0].keys() == folded[1].keys()
    for leaf, found in folded[1].items():
        assert len(found) == 50
        np.testing.assert_allclose(found, folded[0][leaf], rtol=1e-12, atol=1e-300)
