"""Engines: Laplace's approximation, variational inference, NUTS."""

import dataclasses
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.stats

import ornstein as orn
from ornstein._base.errors import TargetWarning
from ornstein._base.trees import cast
from ornstein.data.datasets import Dataset
from ornstein.linalg.operators import Dense, Diagonal, as_operator
from ornstein.sampling.engines import ENGINES, bbvi, nuts
from ornstein.sampling.engines.bbvi import Elbo, NormalFit
from ornstein.sampling.engines.laplace import local_root
from ornstein.sampling.settings import OpenProgress, Report, Run, Settings
from ornstein.theory import gaussian_kl
from support.montecarlo import assert_covariance, rejects_covariance
from support.problems import Floats, as_generic, features, regression, zoo

Load = Callable[[str], Dataset]


def silent(total: int) -> Any:
    del total
    return nullcontext(lambda _done, _total: None)


def run(
    post: orn.Posterior,
    plan: orn.Plan,
    key: int = 0,
    chains: int = 4,
    draws: int = 1000,
    dtype: str = "float64",
    dispersion: float = 2.0,
    progress: OpenProgress = silent,
) -> Run:
    settings = Settings(chains, draws, 1, 0, dispersion, dtype, None)
    return ENGINES[plan.engine](post, plan, jax.random.key(key), settings, progress)


def with_options(plan: orn.Plan, **options: Any) -> orn.Plan:
    return dataclasses.replace(plan, options={**plan.options, **options})


def conditional(plan: orn.Plan) -> Floats:
    """The best product of Gaussians: the posterior's conditional variances."""
    return np.diag(1 / np.diag(plan.posterior_precision))


def fitted_kl(done: Run, plan: orn.Plan) -> float:
    """T3 of the fitted NormalFit itself."""
    cov = done.path["cov"]
    cov = np.diag(cov) if cov.ndim == 1 else cov
    return gaussian_kl(cov, plan.posterior_precision, done.path["mean"] - plan.center)


class Reports:
    """A progress bar that remembers."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    @contextmanager
    def __call__(self, total: int) -> Iterator[Report]:
        assert total > 0
        yield lambda done, total: self.seen.append((done, total))

    def check(self) -> None:
        done = [done for done, _ in self.seen]
        assert done == sorted(done)
        assert all(done <= total for done, total in self.seen)
        assert self.seen[-1][0] == self.seen[-1][1]


def poisson_rate() -> tuple[orn.Posterior, Callable[[Floats], Floats]]:
    """Eight counts with one parameter, and the log density of that parameter."""
    x, y = np.linspace(0.2, 1.4, 8), np.array([0, 1, 0, 0, 1, 2, 0, 1])

    def log_density(theta: Floats) -> Floats:
        theta = np.asarray(theta)[..., None]
        return (y * theta * x - np.exp(theta * x)).sum(axis=-1) - 0.5 * theta[..., 0] ** 2

    return orn.models.poisson(x[:, None], y), log_density


def test_laplace_draws_the_gaussian_at_the_optimum() -> None:
    post = regression(rows=400)
    plan = orn.plan(post, "laplace")
    done = run(post, plan, key=1, draws=4000, dtype="float32")
    assert done.flat.dtype == np.float64
    assert done.steps == 4000
    exact = np.linalg.inv(plan.posterior_precision)
    assert_covariance(done.flat, plan.center, exact)
    assert rejects_covariance(done.flat, plan.center, 1.1 * exact)


@pytest.mark.parametrize("only_diagonal_known", [False, True])
def test_laplace_on_diagonals(only_diagonal_known: bool) -> None:
    post = regression(rows=400)
    plan = orn.plan(post, "laplace", "diagonal")
    expected = conditional(plan)
    if only_diagonal_known:
        at = post.layout.unravel(plan.center)
        plan = dataclasses.replace(plan, geometry=orn.geometry(post, at, "diagonal"))
        assert plan.posterior_precision.ndim == 1
    done = run(post, plan, key=2, draws=4000)
    assert_covariance(done.flat, plan.center, expected)


def test_laplace_refuses_a_point_that_is_no_minimum() -> None:
    post = regression(rows=400)
    plan = orn.plan(post, "laplace")
    saddle = np.diag([1.0, 2.0, -1.0])
    for hessian in (saddle, np.diag(saddle), saddle[[0, 2, 1]] + 2 * np.eye(3)):
        known = dataclasses.replace(plan.geometry, hessian=as_operator(hessian))
        with pytest.raises(orn.InputError, match="no strict minimum"):
            run(post, dataclasses.replace(plan, geometry=known))


@pytest.mark.parametrize("method", ["laplace", "bbvi", "nuts"])
def test_keys_decide_and_fewer_chains_are_the_first_of_more(method: str) -> None:
    post = regression(rows=200, columns=2)
    plan = orn.plan(post, method, batch_size=20)
    many = run(post, plan, key=3, chains=3, draws=40)
    few = run(post, plan, key=3, chains=2, draws=40)
    other = run(post, plan, key=4, chains=2, draws=40)
    np.testing.assert_array_equal(many.flat[:2], few.flat)
    assert not np.isclose(few.flat, other.flat).any()
    assert len(np.unique(many.flat[:, 0, 0])) == 3
    shorter = run(post, plan, key=3, chains=2, draws=25)
    np.testing.assert_allclose(shorter.flat, few.flat[:, :25], rtol=1e-12)


@pytest.mark.parametrize("method", ["laplace", "bbvi", "nuts"])
def test_progress_ends_where_it_said(method: str) -> None:
    post = regression(rows=200, columns=2)
    reports = Reports()
    run(post, orn.plan(post, method, batch_size=20), draws=100, progress=reports)
    reports.check()


@pytest.mark.parametrize("structure", ["dense", "diagonal"])
def test_T3_the_elbo_is_the_evidence_less_the_divergence(structure: str) -> None:
    """Exact for a linear regression, whose evidence is a NormalFit density."""
    X = features(60, 3)
    y = X @ np.ones(3) + np.random.default_rng(0).normal(size=60)
    post = orn.models.linear(X, y, prior_precision=2.0, noise_scale=0.7)
    evidence = scipy.stats.multivariate_normal(
        np.zeros(60), 0.49 * np.eye(60) + X @ X.T / 2
    ).logpdf(y)
    precision = X.T @ X / 0.49 + 2 * np.eye(3)
    center = np.linalg.solve(precision, X.T @ y / 0.49)
    mean = center + np.array([0.03, -0.02, 0.01])
    root = np.array([[0.1, 0, 0], [0.02, 0.2, 0], [-0.05, 0.01, 0.08]])
    root = root if structure == "dense" else np.diag(np.diag(root))
    q = NormalFit(mean, Dense(root) if structure == "dense" else Diagonal(np.diag(root)))
    elbo = Elbo(post, as_operator(precision), jax.random.key(0))(q)
    expected = evidence - gaussian_kl(root @ root.T, precision, mean - center)
    assert abs(elbo - expected) < 1e-9 * abs(expected)


@pytest.mark.parametrize("dense", [False, True])
def test_the_step_follows_the_gradient_of_the_elbo(dense: bool) -> None:
    """At fixed normals, by automatic differentiation of a loss that is not quadratic."""
    mix = jnp.asarray(features(5, 3))

    def loss(z: jax.Array) -> jax.Array:
        return jnp.logaddexp(0.0, mix @ z).sum() + (z**4).sum()

    rng = np.random.default_rng(1)
    mean, log_scale, xi = (jnp.asarray(rng.normal(size=3)) for _ in range(3))
    below = jnp.tril(jnp.asarray(rng.normal(size=(3, 3))), -1) if dense else None
    params = bbvi._Params(mean, log_scale, below)

    def negative_elbo(params: bbvi._Params) -> jax.Array:
        offset = params.along(xi)
        ends = loss(params.mean + offset) + loss(params.mean - offset)
        return 0.5 * ends - params.log_scale.sum()

    expected = jax.grad(negative_elbo)(params)
    offset = params.along(xi)
    found = params.slope(jax.grad(loss)(mean + offset), jax.grad(loss)(mean - offset), xi)
    if expected.below is not None:
        expected = expected._replace(below=jnp.tril(expected.below, -1))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-12), found, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("structure", ["dense", "diagonal"])
def test_bbvi_fits_a_regression_and_draws_from_the_fit(structure: str, dtype: str) -> None:
    post = regression(rows=1000)
    plan = orn.plan(post, "bbvi", structure, batch_size=50)
    done = run(post, plan, key=5, draws=4000, dtype=dtype)
    exact = (
        conditional(plan) if structure == "diagonal" else np.linalg.inv(plan.posterior_precision)
    )
    assert fitted_kl(done, plan) - plan.predicted_kl < 0.01
    cov = done.path["cov"]
    assert cov.shape == ((3,) if structure == "diagonal" else (3, 3))
    cov = np.diag(cov) if structure == "diagonal" else cov
    assert_covariance(done.flat, done.path["mean"], cov)
    assert rejects_covariance(done.flat, done.path["mean"], 1.1 * cov)
    assert gaussian_kl(cov, np.linalg.inv(exact)) < 0.01


def test_bbvi_without_control_variates() -> None:
    post = regression(rows=1000)
    plan = with_options(orn.plan(post, "bbvi", "dense", batch_size=50), control_variates=False)
    done = run(post, plan, key=6, draws=2)
    assert fitted_kl(done, plan) < 0.03


@pytest.mark.parametrize("anchored", [True, False])
def test_bbvi_finds_the_best_gaussian_where_that_is_not_laplace(anchored: bool) -> None:
    """One parameter and few counts: the optimum over mean and scale by quadrature."""
    post, log_density = poisson_rate()
    nodes, mass = np.polynomial.hermite_e.hermegauss(60)
    mass = mass / mass.sum()

    def negative_elbo(params: Floats) -> float:
        mean, log_scale = params
        return float(-mass @ log_density(mean + np.exp(log_scale) * nodes) - log_scale)

    best = scipy.optimize.minimize(negative_elbo, np.zeros(2), tol=1e-10)
    plan = with_options(
        orn.plan(post, "bbvi", batch_size=4), control_variates=anchored, tolerance=1e-3
    )
    done = run(post, plan, draws=2)

    def deficit(mean: float, variance: float) -> float:
        return negative_elbo(np.array([mean, 0.5 * np.log(variance)])) - float(best.fun)

    laplace = deficit(float(plan.center[0]), 1 / float(plan.posterior_precision[0, 0]))
    assert laplace > 0.015
    assert deficit(float(done.path["mean"][0]), float(done.path["cov"][0])) < 0.003


@pytest.mark.slow
def test_bbvi_of_a_generic_model_is_the_same() -> None:
    post = zoo()["softmax"]
    found = []
    for p in (post, as_generic(post)):
        plan = with_options(orn.plan(p, "bbvi", "diagonal", batch_size=30), max_steps=2048)
        with pytest.warns(TargetWarning):
            found.append(run(p, plan, key=7, draws=2).path)
    scale = np.sqrt(found[0]["cov"])
    assert np.abs((found[0]["mean"] - found[1]["mean"]) / scale).max() < 1e-6
    np.testing.assert_allclose(found[0]["cov"], found[1]["cov"], rtol=1e-6)
    np.testing.assert_allclose(found[0]["elbo"], found[1]["elbo"], rtol=1e-9)


def test_bbvi_stops_by_its_rule() -> None:
    post = regression(rows=1000)
    plan = with_options(orn.plan(post, "bbvi", "dense", batch_size=50), control_variates=False)
    for tolerance in (1.0, 0.01):
        done = run(post, with_options(plan, tolerance=tolerance), draws=2)
        small = np.abs(np.diff(done.path["elbo"])) < tolerance
        assert small[-2:].all()
        assert not any(all(pair) for pair in pairwise(small[:-1]))
        assert done.path["steps"][-1] == done.steps
        np.testing.assert_array_equal(
            np.diff(done.path["steps"], prepend=0)[:3], [2048, 4096, 8192]
        )


@pytest.mark.parametrize(("max_steps", "rounds"), [(100, 1), (5000, 1), (9000, 2)])
def test_bbvi_says_when_it_gives_up(max_steps: int, rounds: int) -> None:
    post = regression(rows=1000)
    plan = with_options(orn.plan(post, "bbvi", batch_size=50), max_steps=max_steps)
    reports = Reports()
    with pytest.warns(TargetWarning, match="did not settle in .* steps"):
        done = run(post, plan, draws=10, progress=reports)
    assert done.status.ok
    assert max_steps / 2 < done.steps <= max_steps
    assert len(done.path["elbo"]) == rounds
    assert done.flat.shape == (4, 10, 3)
    reports.check()


@pytest.mark.parametrize("method", ["bbvi", "nuts"])
def test_a_density_that_is_not_finite_everywhere(method: str) -> None:
    """Rates of exponentials, unconstrained: the logarithm fails where draws will come."""
    post = orn.Posterior(
        lambda rate, x: jnp.log(rate) - rate * x,
        lambda rate: -rate,
        np.array([1.0, 2.0]),
        init=1.0,
    )
    plan = orn.plan(post, method, batch_size=1, at=0.5)
    done = run(post, plan, chains=2, draws=20, dispersion=20.0)
    assert not done.status.ok
    assert "tighter prior" in done.status.message
    assert done.flat.shape == (2, 0, 1)


def test_nuts_draws_a_gaussian_posterior() -> None:
    post = regression(rows=400)
    plan = orn.plan(post, "nuts")
    done = run(post, plan, key=8, draws=2000, dtype="float32", dispersion=5.0)
    exact = np.linalg.inv(plan.posterior_precision)
    assert_covariance(done.flat, plan.center, exact)
    assert rejects_covariance(done.flat, plan.center, 1.3 * exact)
    assert done.steps == np.ceil(done.path["gradients"].mean())
    assert done.steps > 2500  # a gradient a draw, at least
    assert (done.path["divergences"] == 0).all()


@pytest.mark.slow
def test_nuts_draws_a_posterior_that_is_not_gaussian() -> None:
    post, log_density = poisson_rate()
    plan = orn.plan(post, "nuts")
    done = run(post, plan, key=9, draws=2000)
    grid = np.linspace(-6, 4, 20_001)
    mass = np.exp(log_density(grid) - log_density(grid).max())
    mass /= mass.sum()
    mean = mass @ grid
    variance = np.atleast_2d(mass @ (grid - mean) ** 2)
    assert_covariance(done.flat, np.atleast_1d(mean), variance)
    assert rejects_covariance(done.flat, plan.center, np.linalg.inv(plan.posterior_precision))


@pytest.mark.parametrize("name", ["softmax", "poisson"])
def test_nuts_density_in_blocks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Value and gradient of many blocks, the last one filled up, are those of one."""
    post = zoo()[name]
    plan = orn.plan(post, "nuts")
    monkeypatch.setattr(nuts, "block_rows", lambda _post: 100)
    problem = nuts._problem(post, plan.center, local_root(plan))
    assert problem.weights.shape == (3, 100)
    z = jnp.asarray(np.random.default_rng(0).normal(size=plan.dim))

    def whole(z: jax.Array) -> jax.Array:
        theta = jnp.asarray(plan.center) + problem.factor.matvec(z)
        losses = post.model.losses(theta, cast(post.data, np.float64), post.hyper)
        return -losses.sum() - post.model.prior_loss(theta, post.hyper)

    density = partial(nuts._log_density, post.model, problem)
    found, expected = (jax.value_and_grad(f)(z) for f in (density, whole))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-10), found, expected)


def test_nuts_says_when_trajectories_diverge() -> None:
    draws, number = [np.zeros((5, 1)), np.zeros((5, 1))], jnp.asarray
    state = SimpleNamespace(logdensity=0.0)
    smooth, broken = (
        nuts.NutsChain(state, number(1.0), number(1.0), number(9), number(n)) for n in (0, 3)
    )
    assert nuts._ending(draws, [smooth, smooth]).ok
    with pytest.warns(orn.DivergenceWarning, match="3 of 10 NUTS trajectories diverged"):
        assert nuts._ending(draws, [smooth, broken]).ok


def test_nuts_without_blackjax(monkeypatch: pytest.MonkeyPatch) -> None:
    post = regression(rows=100)
    monkeypatch.setitem(sys.modules, "blackjax", None)
    with pytest.raises(orn.MissingExtraError, match=r"pip install 'ornstein\[reference\]'"):
        run(post, orn.plan(post, "nuts"))


@pytest.mark.parametrize(
    ("name", "structure"),
    [
        ("wine", "dense"),
        ("wine", "diagonal"),
        ("skin", "dense"),
        *(
            pytest.param("protein", structure, marks=pytest.mark.slow)
            for structure in ("dense", "diagonal")
        ),
    ],
)
def test_bbvi_on_real_rows(dataset: Load, name: str, structure: str) -> None:
    data = dataset(name)
    X = data.X.astype(float)
    if name == "skin":
        post = orn.models.logistic((X - X.mean(axis=0)) / X.std(axis=0), data.y)
    else:
        post = orn.models.linear(X / np.abs(X).max(axis=0), data.y)
    plan = orn.plan(post, "bbvi", structure, batch_size=10_000 if name == "skin" else 100)
    done = run(post, plan, key=10, draws=2, dtype="float32")
    best = 0.0
    if structure == "diagonal":
        best = gaussian_kl(conditional(plan), plan.posterior_precision)
        assert name != "wine" or abs(best - 14.82) < 0.005
    assert 0 < fitted_kl(done, plan) - best < 0.03
    assert done.steps <= 130_000
