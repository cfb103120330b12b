"""What every method's chains promise, as checks: for the registry's rows, and for a new one."""

import warnings
from typing import Any

import jax
import numpy as np

import ornstein as orn
from ornstein.sampling.loop import advance
from support.montecarlo import assert_covariance, rejects_covariance
from support.problems import mild_regression, regression, zoo


def known_noise(post: orn.Posterior, plan: orn.Plan) -> None:
    """The test bed is near T2's premises: noise constant over the posterior to a few per cent."""
    root = np.linalg.cholesky(plan.geometry.noise_cov.dense(plan.dim))
    spread = np.linalg.cholesky(np.linalg.inv(plan.posterior_precision))
    for normal in np.random.default_rng(0).normal(size=(5, plan.dim)):
        params = plan.layout.unravel(plan.center + spread @ normal)
        half = np.linalg.solve(root, orn.geometry(post, params).noise_cov.dense(post.dim))
        ratios = np.linalg.eigvalsh(np.linalg.solve(root, half.T))
        assert np.all(np.abs(ratios - 1) < 0.05)


def mild_or_dense(structure: str) -> orn.Posterior:
    """A test bed that a gain of that structure mixes in some hundred steps."""
    return regression(rows=4000) if structure == "dense" else mild_regression(rows=4000)


def predicted_covariance(method: str, structure: str, dtype: str = "float32") -> None:
    """T2: a long chain has the covariance the plan says."""
    post = mild_or_dense(structure)
    plan = orn.plan(post, method, structure, batch_size=200)
    known_noise(post, plan)
    result = orn.sample(post, plan, key=11, draws=3000, dtype=dtype)
    assert result.status.ok
    assert_covariance(result.flat, plan.center, plan.predicted_cov)
    assert rejects_covariance(result.flat, plan.center, 1.3 * plan.predicted_cov)


def extreme_starts(method: str, structure: str) -> None:
    """Chains end finite, or say that they did not."""
    post = mild_or_dense(structure)
    plan = orn.plan(post, method, structure, batch_size=200)
    for dispersion in (0.0, 1e6):
        result = orn.sample(post, plan, key=0, draws=50, dispersion=dispersion, dtype="float32")
        assert result.status.ok
        assert np.isfinite(result.flat).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", orn.DivergenceWarning)
        result = orn.sample(post, plan, key=0, draws=50, dispersion=1e38, dtype="float32")
    assert np.isfinite(result.flat).all()
    assert result.status.ok or "non-finite" in result.status.message


def any_pytree(method: str, structure: str) -> None:
    """Draws come in the parameters' own pytree."""
    X = np.random.default_rng(0).normal(size=(400, 2))
    y = X @ np.array([1.0, -0.5]) + np.random.default_rng(1).normal(size=400)

    def log_likelihood(params: Any, row: Any) -> Any:
        eta = row["x"] @ params["slope"]["w"] + params["level"][0]
        return -0.5 * (row["y"] - eta) ** 2

    def log_prior(params: Any) -> Any:
        return -0.5 * sum((leaf**2).sum() for leaf in jax.tree.leaves(params))

    init = {"level": (np.zeros(()),), "slope": {"w": np.zeros(2)}}
    post = orn.Posterior(log_likelihood, log_prior, {"x": X, "y": y}, init=init)
    result = orn.sample(post, method=method, structure=structure, batch_size=40, draws=20)
    assert str(jax.tree.structure(result.draws)) == str(jax.tree.structure(init))
    assert result.draws["slope"]["w"].shape == (4, 20, 2)


def same_key_same_draws(method: str, structure: str) -> None:
    """Whatever the chunks, the draws and the chains asked for."""
    post = regression(rows=500)
    plan = orn.plan(post, method, structure, batch_size=25)
    first = orn.sample(post, plan, key=1, draws=70, chunk=1)
    for chunk in (2, 7, None):
        again = orn.sample(post, plan, key=1, draws=70, chunk=chunk)
        assert np.array_equal(first.flat, again.flat)
    longer = orn.sample(post, plan, key=1, draws=90)
    assert np.array_equal(first.flat, longer.flat[:, :70])
    fewer_chains = orn.sample(post, plan, key=1, chains=2, draws=70)
    assert np.array_equal(first.flat[:2], fewer_chains.flat)
    typed = orn.sample(post, plan, key=jax.random.key(1), draws=70)
    assert np.array_equal(first.flat, typed.flat)
    other = orn.sample(post, plan, key=2, draws=70)
    assert not np.array_equal(first.flat, other.flat)
    assert not np.array_equal(first.flat[0], first.flat[1])


def nothing_compiled_twice(method: str, structure: str) -> None:
    """A second call of equal shape compiles nothing."""
    first = regression(rows=500)
    second = orn.models.linear(first.data["x"], first.data["y"] + 0.01)
    plan = orn.plan(first, method, structure, batch_size=25)
    thin = max(5, plan.rule.min_thin)
    orn.sample(first, plan, draws=40, thin=thin, warmup=thin)
    compiled = advance._cache_size()  # type: ignore[attr-defined]
    plan = orn.plan(second, method, structure, batch_size=25)
    orn.sample(second, plan, key=9, draws=40, thin=thin, warmup=thin)
    assert advance._cache_size() == compiled  # type: ignore[attr-defined]


def promises_kept(method: str, structure: str) -> None:
    """A plan carries what its attributes say."""
    classes = structure == "per-class"
    post = zoo(rows=500)["softmax"] if classes else regression(rows=500)
    plan = orn.plan(post, method, structure, batch_size=25)
    dim = post.dim
    assert plan.method == method
    assert plan.structure == structure
    assert plan.equation
    cov = np.diag(plan.predicted_cov) if classes else plan.predicted_cov
    assert cov.shape == (dim, dim)
    assert np.linalg.eigvalsh(cov).min() > 0
    assert 0 < plan.stability_margin < 1
    assert plan.relaxation_steps >= 1
    assert np.isfinite(plan.predicted_kl)
    assert plan.gain.dense(dim).shape == (dim, dim)


CHECKS = [
    predicted_covariance,
    extreme_starts,
    any_pytree,
    same_key_same_draws,
    nothing_compiled_twice,
    promises_kept,
]
