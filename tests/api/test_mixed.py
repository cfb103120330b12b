"""Mixed models from rows to draws: against exact posteriors, and what results offer."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

import ornstein as orn
from ornstein._base.types import Vector
from ornstein.models import Effects
from ornstein.planning.mixed import plan_mixed
from ornstein.results.arviz import ess
from support.mixed_models import small


def grouped(groups: int, rows: int, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    g = np.repeat(np.arange(groups), rows)
    X = rng.normal(size=(len(g), 1))
    eta = 0.5 * X[:, 0] + rng.normal(size=groups)[g]
    return X, (rng.uniform(size=len(g)) < expit(eta)).astype(int), g


def exact_intercepts(y: Vector, g: Vector, scale: float, sd: float) -> tuple[Vector, Vector]:
    """Quantiles of intercept and sd of a logistic model of random intercepts, by quadrature."""
    nodes, mass = np.polynomial.hermite_e.hermegauss(60)
    ones, sizes = np.bincount(g, y), np.bincount(g)
    betas, sds = np.linspace(-5, 5, 161), np.exp(np.linspace(-5, 2.2, 161))
    log = np.empty((len(betas), len(sds)))
    for i, beta in enumerate(betas):
        eta = beta + sds[:, None] * nodes
        for_one, for_none = np.log(expit(eta)), np.log(expit(-eta))
        total = np.zeros(len(sds))
        for one, size in zip(ones, sizes, strict=True):
            lik = np.exp(one * for_one + (size - one) * for_none)
            total += np.log(lik @ (mass / mass.sum()))
        log[i] = total + stats.norm(0, scale).logpdf(beta)
        log[i] += stats.halfnorm(0, sd).logpdf(sds) + np.log(sds)
    weight = np.exp(log - log.max())

    def quantiles(along: Vector, marginal: Vector) -> Vector:
        share = (np.cumsum(marginal) - 0.5 * marginal) / marginal.sum()
        return np.interp([0.05, 0.25, 0.5, 0.75, 0.95], share, along)

    return quantiles(betas, weight.sum(1)), quantiles(sds, weight.sum(0))


def six_groups() -> tuple[orn.MixedPosterior, Any, Any]:
    """Of four binary rows: a funnel, far from a Gaussian."""
    rng = np.random.default_rng(3)
    g = np.repeat(np.arange(6), 4)
    y = (rng.uniform(size=24) < expit(0.3 + 1.5 * rng.normal(size=6)[g])).astype(int)
    prior = orn.HalfNormal(1.5)
    post = orn.models.mixed(None, y, {"g": g}, "bernoulli", prior_scale=2.0, sd_prior=prior)
    return post, y, g


def test_X13_draws_of_few_rows_a_group_have_the_exact_posterior() -> None:
    post, y, g = six_groups()
    result = orn.sample(post, key=0, draws=3000)
    assert result.plan.steps == "tested"
    for name, expected in zip(
        ["intercept", "sd(g)"], exact_intercepts(y, g, 2.0, 1.5), strict=True
    ):
        draws = result[name]
        below = [(draws < cut).mean() for cut in expected]
        levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
        error = np.sqrt(levels * (1 - levels) / (0.7 * float(ess(draws))))
        assert (np.abs(below - levels) < 4 * error).all(), (name, below)


def test_X14_gaussian_draws_have_the_exact_posterior() -> None:
    """Balanced intercepts: means and sds by quadrature over both standard deviations."""
    rng = np.random.default_rng(1)
    g = np.repeat(np.arange(8), 5)
    y = 1.0 + 0.8 * rng.normal(size=8)[g] + rng.normal(size=40)
    priors = {"sd_prior": orn.HalfNormal(1.0), "noise_prior": orn.HalfNormal(2.0)}
    post = orn.models.mixed(None, y, {"g": g}, prior_scale=3.0, **priors)  # type: ignore[arg-type]
    result = orn.sample(post, key=2, draws=3000)
    assert result.plan.steps == "gaussian"
    logs = np.linspace(-4.5, 1.5, 90)
    log = np.empty((90, 90))
    same = (g[:, None] == g[None]).astype(float)
    for i, a in enumerate(np.exp(logs)):
        for j, s in enumerate(np.exp(logs)):
            cov = a**2 * same + s**2 * np.eye(40) + 9.0
            log[i, j] = stats.multivariate_normal(np.zeros(40), cov).logpdf(y)
            log[i, j] += stats.halfnorm(0, 1).logpdf(a) + stats.halfnorm(0, 2).logpdf(s)
            log[i, j] += np.log(a * s)
    weight = np.exp(log - log.max())
    for name, marginal in (("sd(g)", weight.sum(1)), ("sigma", weight.sum(0))):
        share = marginal / marginal.sum()
        mean = share @ np.exp(logs)
        sd = np.sqrt(share @ (np.exp(logs) - mean) ** 2)
        draws = result[name]
        assert abs(draws.mean() - mean) < 4 * sd / np.sqrt(float(ess(draws))), name
        assert draws.std() == pytest.approx(sd, rel=0.12)


def test_X10_few_rows_a_step_agree_with_all_of_them() -> None:
    """Forty rows a group: the same draws within Monte-Carlo error, by a twentieth of the rows."""
    X, y, g = grouped(300, 40)
    post = orn.models.mixed(X, y, {"g": g}, "bernoulli")
    few = orn.sample(post, key=0, batch_size=2000, draws=300)
    every = orn.sample(post, key=1, draws=300)
    assert (few.plan.steps, every.plan.steps) == ("minibatch", "tested")
    for name in few.names:
        a, b = few[name].astype(float), every[name]
        error = np.sqrt(a.var() / float(ess(a)) + b.var() / float(ess(b)))
        assert abs(a.mean() - b.mean()) < 4 * error + 0.05 * b.std(), name
        assert a.std() == pytest.approx(b.std(), rel=0.2), name


@pytest.fixture(scope="module")
def result() -> orn.MixedResult:
    X, y, g = grouped(20, 6)
    names = np.array([f"s{number}" for number in range(20)])
    groups = {"school": Effects(names[g], slopes=("x",)), "year": np.arange(len(g)) % 3}
    with jax.numpy_dtype_promotion("strict"):
        post = orn.models.mixed(X, y, groups, "bernoulli", feature_names=["x"])
        return orn.sample(post, key=0, draws=100)


def test_draws_are_read_by_name(result: orn.MixedResult) -> None:
    assert result["b[school=s3: x]"].shape == (4, 100)
    np.testing.assert_array_equal(
        result["b[school=s0: x]"], result.effects_of("school")[:, :, 1, 0]
    )
    assert result["cor(school: 1, x)"].min() > -1
    assert result.summary().index.tolist() == result.names
    table = result.effects("school")
    assert len(table) == 40
    assert table.loc["b[school=s3: x]", "mean"] == pytest.approx(result["b[school=s3: x]"].mean())
    with pytest.raises(orn.InputError, match=r"Did you mean 'sd\(year\)'"):
        result["sd(yaer)"]
    assert "MixedResult(chains=4, draws=100" in repr(result)


def test_draws_go_to_arviz_and_to_a_folder(result: orn.MixedResult, tmp_path: Path) -> None:
    tree = result._tree()
    assert tree["posterior"]["b[school]"].sel(school="s3", school_effect="x").shape == (4, 100)
    folder = result.save(tmp_path / "run")
    assert {path.name for path in folder.iterdir()} >= {"draws.nc", "plan.txt", "summary.csv"}


def test_unseen_levels_are_predicted_from_their_distribution(result: orn.MixedResult) -> None:
    X = np.zeros((4, 1))
    groups: dict[str, Any] = {"school": ["s1", "new", "new", "other"], "year": [0, 0, 0, 0]}
    eta = result.predictors(X, groups)
    assert eta.shape == (400, 4)
    np.testing.assert_array_equal(eta[:, 1], eta[:, 2])
    known = result["intercept"] + result["b[school=s1: 1]"] + result["b[year=0]"]
    np.testing.assert_allclose(eta[:, 0], known.reshape(-1))
    spread = np.sqrt(np.mean(result["sd(school: 1)"] ** 2))
    beyond = eta[:, 3] - (result["intercept"] + result["b[year=0]"]).reshape(-1)
    assert beyond.std() == pytest.approx(spread, rel=0.3)
    predicted = result.predict(X, groups)
    assert predicted.std[1] > predicted.std[0]
    assert ((predicted.mean > 0) & (predicted.mean < 1)).all()
    with pytest.raises(orn.InputError, match="which the model has not"):
        result.predict(X, {"shcool": [0] * 4})
    with pytest.raises(orn.InputError, match="X must have the model's 1 columns"):
        result.predict(np.zeros((2, 3)), {})


def test_chains_of_crossed_groups_do_not_wait_for_each_other() -> None:
    """Side by side in two threads, with a head of dozens: factorisations of LAPACK's, batched."""
    rng = np.random.default_rng(0)
    brood, place = rng.integers(0, 120, 400), rng.integers(0, 64, 400)
    effects = 0.8 * rng.normal(size=120)[brood] + 0.5 * rng.normal(size=64)[place]
    groups = {"brood": brood, "place": place}
    post = orn.models.mixed(None, rng.poisson(np.exp(effects)), groups, "poisson")
    result = orn.sample(post, key=0, chains=2, draws=25, progress=False)
    assert result.plan.steps == "tested"
    assert result.lam.shape == (2, 25, 2)
    assert np.isfinite(result.phi).all()


def test_the_same_key_gives_the_same_draws() -> None:
    post, _, _ = six_groups()
    first, second = (orn.sample(post, key=7, draws=25) for _ in range(2))
    np.testing.assert_array_equal(first.lam, second.lam)
    np.testing.assert_array_equal(first.b, second.b)


def test_plans_choose_steps_by_what_rows_leave() -> None:
    assert plan_mixed(small("gaussian")).steps == "gaussian"
    X, y, g = grouped(300, 200)
    many = orn.plan(orn.models.mixed(X, y, {"g": g}, "bernoulli"))
    assert many.steps == "minibatch"
    assert many.batch_size < 20_000
    assert many.angle == pytest.approx(np.pi / 2)  # nearly Gaussian: every step makes a draw
    assert many.thin == 1
    assert "rotation steps with few rows" in str(many)
    X, y, g = grouped(15_000, 4)
    few = orn.plan(orn.models.mixed(X, y, {"g": g}, "bernoulli"))
    assert few.steps == "tested"
    assert "4 rows a group" in few.why


def test_arguments_of_other_models_are_refused_by_name() -> None:
    post = small(crossed=False)
    with pytest.raises(orn.InputError, match="'method'"):
        orn.plan(post, method="exact")  # type: ignore[call-overload]
    with pytest.raises(orn.InputError, match="'thin'"):
        orn.sample(post, thin=2)  # type: ignore[call-overload]
    with pytest.raises(orn.InputError, match="needs no rows"):
        orn.plan(small("gaussian"), batch_size=10)
    with pytest.raises(orn.InputError, match="models of one group"):
        orn.plan(small(), batch_size=10)
    plan = orn.plan(post)
    with pytest.raises(orn.InputError, match="Plan again"):
        orn.sample(small(), plan)
    linear = orn.models.linear(np.ones((5, 1)), np.arange(5.0))
    with pytest.raises(orn.InputError, match="made for a mixed model"):
        orn.sample(linear, plan)  # type: ignore[call-overload]
