"""Rows that count more or less than once, and rows that only a Gaussian is left of."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ornstein as orn
from ornstein.curvature.estimation import geometry
from ornstein.curvature.optimum import find_optimum
from ornstein.linalg.operators import Dense, Diagonal
from ornstein.models.contract import Spread
from ornstein.models.families import Bernoulli, Family, Gaussian
from ornstein.models.glm import Past
from ornstein.models.local import Anchored, Minibatch
from ornstein.models.ready_made import Prior, build
from support.montecarlo import Floats, assert_covariance, rejects_covariance
from support.problems import SOME_MODELS, as_generic, features, whole, zoo

MODELS = ["linear", "logistic", "softmax", "poisson"]


def weighted(name: str, rows: int = 240, **options: Any) -> tuple[orn.Posterior, Floats]:
    """A posterior of every model whose rows have weights, and the weights."""
    post = zoo(rows)[name]
    weights = np.random.default_rng(5).integers(0, 5, rows).astype(float)
    make = getattr(orn.models, name)
    again = make(post.data["x"], post.data["y"], intercept=True, sample_weight=weights, **options)
    return again, weights


@pytest.mark.parametrize("name", SOME_MODELS)
def test_whole_weights_are_repeated_rows(name: str) -> None:
    post, weights = weighted(name)
    plain = zoo()[name].data
    times = weights.astype(int)
    repeated = getattr(orn.models, name)(
        plain["x"].repeat(times, axis=0), plain["y"].repeat(times), intercept=True
    )
    assert post.num_data == (weights > 0).sum()
    assert repeated.num_data == weights.sum()
    theta = find_optimum(repeated)
    np.testing.assert_allclose(find_optimum(post), theta, rtol=1e-9, atol=1e-12)
    here, there = (geometry(p, p.layout.unravel(theta)) for p in (post, repeated))
    for part in ("hessian", "prior_hessian"):
        np.testing.assert_allclose(
            post.num_data * getattr(here, part).dense(post.dim),
            repeated.num_data * getattr(there, part).dense(post.dim),
            rtol=1e-11,
            atol=1e-10,
        )
    found, expected = (
        orn.learn(p, moments="plan", method="laplace", draws=10) for p in (post, repeated)
    )
    for value, other in zip(*(jax.tree.leaves(f.values) for f in (found, expected)), strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-8)
    weighted_evidence, evidence = (orn.evidence(p).log_evidence for p in (post, repeated))
    np.testing.assert_allclose(weighted_evidence, evidence, rtol=1e-9)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[pytest.mark.slow] if n in ("linear", "poisson") else [])
        for n in MODELS
    ],
)
def test_weighted_closed_forms_agree_with_autodiff(name: str) -> None:
    post, _ = weighted(name)
    generic = as_generic(post)
    rng = np.random.default_rng(0)
    theta = jnp.asarray(rng.normal(size=post.dim) * 0.3)
    some = jnp.asarray(rng.uniform(size=post.num_data))
    for function, given in (
        ("losses", ()),
        ("gradients", ()),
        ("gradient_sum", (some,)),
        ("second_sums", (some,)),
        ("hessian_sum", (some,)),
        ("hessian_diagonal_sum", (some,)),
    ):
        closed, automatic = (
            whole(p.model, function)(theta, post.data, p.hyper, *given) for p in (post, generic)
        )
        np.testing.assert_allclose(closed, automatic, rtol=1e-9, atol=1e-8)
    if name == "linear":  # whose deviations no quadrature approximates
        cov = jnp.asarray(np.diag(rng.uniform(0.5, 1, post.dim)))
        steps = jnp.diag(jnp.sqrt(jnp.diagonal(cov) * post.dim))
        points = theta[None] + jnp.concatenate([steps, -steps])
        spread = Spread(theta, cov, points)
        for function, given in (("deviation_lengths", ()), ("deviation_sums", (some[None],))):
            closed, automatic = (
                whole(p.model, function)(spread, post.data, p.hyper, *given)
                for p in (post, generic)
            )
            np.testing.assert_allclose(closed, automatic, rtol=1e-9)


def past_of(rng: np.random.Generator, dim: int, squares: float, weight: float) -> Past:
    root = rng.normal(size=(dim, dim))
    return Past(root @ root.T, rng.normal(size=dim), np.asarray(squares), np.asarray(weight))


def continued(family: Family, squares: float = 0.0, weight: float = 0.0) -> orn.Posterior:
    X = features(200, 3)
    rng = np.random.default_rng(1)
    rows = {"x": X, "y": rng.integers(0, 2, 200).astype(float), "w": rng.uniform(0.5, 2, 200)}
    hyper = {"noise_scale": np.asarray(0.7)} if isinstance(family, Gaussian) else None
    past = past_of(rng, 4, squares, weight)
    return build(family, rows, None, Prior([1.0, 2.0, 3.0, 0.1], True), hyper, past)


@pytest.mark.parametrize(
    "post", [continued(Gaussian(), 5.0, 7.0), continued(Bernoulli())], ids=["linear", "logistic"]
)
def test_the_prior_with_earlier_rows_agrees_with_autodiff(post: orn.Posterior) -> None:
    generic, theta = as_generic(post), jnp.asarray([0.3, -0.2, 0.5, 0.1])
    for function in ("prior_loss", "prior_gradient", "prior_hessian", "prior_hessian_diagonal"):
        closed, automatic = (whole(p.model, function)(theta, p.hyper) for p in (post, generic))
        np.testing.assert_allclose(closed, automatic, rtol=1e-10)


def posterior(name: str) -> orn.Posterior:
    if name == "linear after others":
        return continued(Gaussian(), 5.0, 7.0)
    return continued(Bernoulli()) if name == "logistic after others" else weighted(name)[0]


@pytest.mark.parametrize(
    ("name", "structure", "anchored"),
    [
        ("linear", "diagonal", False),
        ("logistic", "dense", True),
        ("softmax", "dense", True),
        ("softmax", "diagonal", False),
        ("poisson", "dense", False),
        ("linear after others", "dense", True),
        ("linear after others", "diagonal", False),
        ("logistic after others", "dense", False),
    ],
)
def test_X8_X9_weighted_local_gradients(name: str, structure: str, anchored: bool) -> None:
    post = posterior(name)
    N, model, hyper = post.num_data, post.model, post.hyper
    rng = np.random.default_rng(1)
    center = 0.2 * rng.normal(size=post.dim)
    here = jnp.asarray(center)
    gradient_sum, prior_gradient = whole(model, "gradient_sum"), whole(model, "prior_gradient")
    slope = gradient_sum(here, post.data, hyper) + prior_gradient(here, hyper)
    root = np.diag(rng.uniform(0.5, 2, post.dim)) + 0.1
    gain = Dense(root) if structure == "dense" else Diagonal(np.diag(root).copy())
    given = Anchored(np.asarray(slope)) if anchored else None
    local = model.localise(center, gain, hyper, np.float64, given)
    z = jnp.asarray(rng.normal(size=post.dim))
    theta = jnp.asarray(center + local.factor.matvec(np.asarray(z)))
    rows = jax.tree.map(lambda leaf: leaf[:50], post.data)
    batch = jax.tree.map(lambda leaf: np.asarray(leaf)[:50], local.fold(post.data))
    if local.model.rows_last:
        batch = jax.tree.map(lambda leaf: np.moveaxis(leaf, 0, -1), batch)
    drawn = jnp.asarray(rng.uniform(size=50))
    batched = Minibatch(batch, drawn, 50, N)
    expected = gradient_sum(theta, rows, hyper, drawn) / 50
    expected = expected + prior_gradient(theta, hyper) / N
    if anchored:
        at_center = gradient_sum(here, rows, hyper, drawn) / 50
        expected = expected - at_center + (slope - prior_gradient(here, hyper)) / N
    np.testing.assert_allclose(
        jax.jit(lambda z: local.model.minibatch_gradient(z, batched, local.hyper))(z),
        local.factor.rmatvec(np.asarray(expected)),
        rtol=1e-8,
        atol=1e-10,
    )


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("linear", {"batch_size": 20}),
        ("linear", {"method": "sgd", "batch_size": 5}),
        ("linear", {"batch_size": 60, "structure": "kronecker", "batches": "weighted"}),
    ],
)
def test_T2_draws_of_weighted_rows_have_the_predicted_covariance(
    name: str, options: dict[str, Any]
) -> None:
    post, _ = weighted(name, rows=1200)
    result = orn.sample(post, draws=3000, key=1, **options)
    cov = result.plan.predicted.dense(post.dim)
    assert_covariance(result.flat, result.plan.center, cov)
    unweighted = orn.plan(zoo(1200)[name], **options).predicted.dense(post.dim)
    assert rejects_covariance(result.flat, result.plan.center, unweighted)


def test_X2_earlier_rows_shape_the_draws() -> None:
    """A stream's second half, drawn by the Gaussian of its first."""
    X = features(600, 3)
    y = X @ np.array([1.0, -0.5, 0.2]) + np.random.default_rng(1).normal(size=600)
    whole = orn.models.linear(X, y)
    first = X[:300].T @ X[:300], X[:300].T @ y[:300], np.asarray(y[:300] @ y[:300])
    past = Past(*first, np.asarray(300.0))
    rows = {"x": X[300:], "y": y[300:]}
    prior = Prior(1.0, False, learn=("prior_precision", "noise_scale"))
    half = build(Gaussian(), rows, None, prior, {"noise_scale": np.asarray(1.0)}, past)
    cov = orn.plan(whole).geometry.covariance.dense(whole.dim)
    plan = orn.plan(half, batch_size=30)
    np.testing.assert_allclose(plan.predicted_cov, cov, rtol=1e-8)
    np.testing.assert_allclose(plan.center, find_optimum(whole), rtol=1e-9)
    result = orn.sample(half, plan, draws=2000)
    assert_covariance(result.flat, find_optimum(whole), cov)
    learned, expected = (orn.learn(p, draws=10).values for p in (half, whole))
    for name, value in expected.items():
        np.testing.assert_allclose(learned[name], value, rtol=1e-6)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 2.0], r"one number for each of 240 rows, found shape \(2,\)"),
        (np.full(240, -1.0), "0 or above, found -1 in row 0"),
        (np.zeros(240), "zero throughout"),
        (np.full(240, np.nan), "sample_weight has NaN"),
        (["a"] * 240, "sample_weight must be numeric"),
    ],
)
def test_bad_weights(weights: Any, message: str) -> None:
    rows = zoo()["linear"].data
    with pytest.raises(orn.InputError, match=message):
        orn.models.linear(rows["x"], rows["y"], sample_weight=weights)
