"""Hyperparameters: learned values against what they should be, and the ways learning can fail."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import BayesianRidge

import ornstein as orn
from ornstein._base.types import Vector
from ornstein.data.datasets import Dataset
from ornstein.hyper import automatic
from ornstein.hyper.baselines import log_evidence
from ornstein.hyper.expectation import closed_step, expect, measured_scores
from ornstein.linalg.operators import as_operator
from support.hyper_posts import logistic, own, own_logistic, standardised, table
from support.problems import features

Load = Callable[[str], Dataset]
Floats = npt.NDArray[np.floating]


def log_scale(values: Any) -> Floats:
    return np.log(np.concatenate([np.reshape(leaf, -1) for leaf in jax.tree.leaves(values)]))


# The E-step -------------------------------------------------------------------------------------


def laplace(post: orn.Posterior) -> tuple[orn.Geometry, Vector]:
    geometry = orn.plan(post, "laplace").geometry
    return geometry, np.asarray(geometry.covariance.array)


@pytest.mark.parametrize("groups", [None, "columns", ["a", "b", "a", None]])
def test_closed_forms_agree_with_autodiff(groups: Any) -> None:
    X, y = table(120, 4)
    post = orn.models.linear(X, y, 2.0, 0.8, intercept=True, groups=groups)
    geometry, cov = laplace(post)
    found, score = expect(post, geometry, as_operator(cov))
    slope, complete = automatic.expected_slope(post, geometry.center, cov)
    np.testing.assert_allclose(found.score, slope, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.complete, complete, rtol=1e-9, atol=1e-9)
    value, gradient, diagonal = automatic.derivatives(post, geometry.center)
    np.testing.assert_allclose(score.value, value, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(score.slope, gradient, rtol=1e-8, atol=1e-6)
    np.testing.assert_allclose(score.diagonal, diagonal, rtol=1e-9, atol=1e-9)
    points = geometry.center + np.random.default_rng(0).normal(size=(2, 3, post.dim))
    np.testing.assert_allclose(
        measured_scores(post, score, geometry.center, points),
        automatic.scores(post, points),
        rtol=1e-8,
        atol=1e-8,
    )


@pytest.mark.parametrize("name", ["linear", "logistic", "softmax", "poisson"])
def test_mean_score_is_the_slope_of_the_evidence(name: str) -> None:
    """Fisher's identity, exact for a Gaussian posterior; Louis's information, its curvature."""
    X, y = table(200, 3)
    target = {"linear": y, "logistic": y > 0, "softmax": (y > 0) + 1 * (y > 0.5)}.get(name, y > 0)
    post = getattr(orn.models, name)(X, target, prior_precision=3.0, groups=["a", "b", "a"])
    geometry, cov = laplace(post)
    found, _ = expect(post, geometry, as_operator(cov))
    eta, learn = post.learnable.to_real(post.hyperparameters), post.learnable

    def at(eta: Floats) -> float:
        here = post.with_hyper(learn.host_values(eta))
        return log_evidence(here, laplace(here)[0])

    h = 1e-3
    steps = h * np.eye(len(eta))
    up = np.array([at(eta + step) for step in steps])
    down = np.array([at(eta - step) for step in steps])
    slope, curvature = (up - down) / (2 * h), (up + down - 2 * at(eta)) / h**2
    # Beyond linear regression, the optimum's curvature moves with the prior: of order D / N.
    rough = 1e-5 if name == "linear" else 0.1
    np.testing.assert_allclose(found.score, slope, rtol=rough, atol=rough)
    np.testing.assert_allclose(np.diag(found.information), -curvature, rtol=2 * rough, atol=rough)


def test_closed_M_step_maximises_the_expected_joint() -> None:
    """``lambda = D / E|theta|^2`` and ``sigma^2 = E RSS / N``: where gradient ascent also ends."""
    X, y = table(150, 4)
    post = orn.models.linear(X, y, groups=["a", "b", "b", "a"])
    geometry, cov = laplace(post)
    learn = post.learnable
    eta = learn.to_real(post.hyperparameters)
    assert post.learnable.ties is not None
    closed = eta + closed_step(
        post, post.learnable.ties, expect(post, geometry, as_operator(cov))[0].score
    )
    second = cov + np.outer(geometry.center, geometry.center)
    in_a = np.array([True, False, False, True])
    residual = np.asarray(y) - X @ geometry.center
    by_hand = [
        0.5 * np.log((residual @ residual + np.trace(X @ cov @ X.T)) / len(y)),
        np.log(2 / np.diag(second)[in_a].sum()),
        np.log(2 / np.diag(second)[~in_a].sum()),
    ]
    np.testing.assert_allclose(closed, by_hand, rtol=1e-9)
    for _ in range(60):  # q stays, hyperparameters move
        here = post.with_hyper(learn.host_values(eta))
        slope, complete = automatic.expected_slope(here, geometry.center, cov)
        eta = eta + np.clip(np.linalg.solve(complete, slope), -1, 1)
    np.testing.assert_allclose(closed, eta, rtol=1e-7)


def test_T2_scores_of_draws_have_the_predicted_mean_and_covariance() -> None:
    X, y = table()
    post = orn.models.linear(X, y, 4.0, 0.7)
    result = orn.sample(post, draws=4000)
    found, score = expect(post, result.plan.geometry, result.plan.predicted)
    draws = measured_scores(post, score, result.plan.center, result.flat)
    parts = draws.reshape(64, -1, draws.shape[-1])
    error = parts.mean(axis=1).std(axis=0, ddof=1) / 8
    assert (np.abs(draws.mean(axis=(0, 1)) - found.score) < 4 * error).all()
    predicted = score.covariance(result.plan.predicted)
    variances = parts.var(axis=1)
    error = variances.std(axis=0, ddof=1) / 8
    assert (np.abs(variances.mean(axis=0) - np.diag(predicted)) < 4.5 * error).all()


# Learning ---------------------------------------------------------------------------------------


def bayesian_ridge(X: Floats, y: Floats) -> Floats:
    """Logarithms of noise scale and precision; its hyperpriors, Gamma(1e-6), are negligible."""
    peer = BayesianRidge(fit_intercept=False, tol=1e-10, max_iter=2000).fit(X, y)
    return np.array([-0.5 * np.log(peer.alpha_), np.log(peer.lambda_)])


@pytest.mark.parametrize("name", ["wine", "protein", "diabetes"])
@pytest.mark.parametrize("moments", ["plan", "draws"])
def test_linear_regression_agrees_with_bayesian_ridge(
    dataset: Load, name: str, moments: str
) -> None:
    if name == "diabetes":
        X, y = standardised(*load_diabetes(return_X_y=True))
    else:
        X, y = standardised(dataset(name).X, dataset(name).y)
    found = orn.learn(orn.models.linear(X, y), moments=moments)
    error = log_scale(found.values) - bayesian_ridge(X, y)
    monte_carlo = np.array([found.errors["noise_scale"], found.errors["prior_precision"]])
    relative = monte_carlo / np.exp(log_scale(found.values))
    assert found.converged
    assert (moments == "plan") == (relative == 0).all()
    allowed = 4 * relative + found.deviations * (1e-3 if moments == "plan" else 0.02)
    assert (np.abs(error) < allowed).all(), (error, relative)
    if moments == "plan":
        mackay = orn.evidence(orn.models.linear(X, y))
        np.testing.assert_allclose(log_scale(mackay.values), bayesian_ridge(X, y), atol=1e-4)


@pytest.mark.parametrize(
    "name", ["linear", "logistic", "wine", pytest.param("skin", marks=pytest.mark.slow)]
)
def test_no_start_leads_to_the_degenerate_optimum(name: str, dataset: Load) -> None:
    """MAP over both would take lambda to infinity, theta to 0."""
    if name in ("linear", "logistic"):
        X, y = table(200, 6)
    else:
        data = dataset(name)
        X, y = standardised(data.X, data.y)
    linear = name in ("linear", "wine")
    build = orn.models.linear if linear else orn.models.logistic
    starts = [build(X, y if linear else y > 0, lam) for lam in np.logspace(-6, 6, 10)]
    ends = [log_scale(orn.learn(post, moments="plan", draws=4, chains=1).values) for post in starts]
    np.testing.assert_allclose(ends, np.broadcast_to(ends[0], np.shape(ends)), atol=0.01)
    assert -5 < ends[0][-1] < 5


@pytest.mark.slow
def test_generic_posterior_learns_the_same() -> None:
    X, y = table(150, 3)
    closed = orn.learn(orn.models.linear(X, y), draws=10)
    generic = orn.learn(own(X, y), moments="plan", draws=10)
    assert generic.converged
    assert np.abs(log_scale(generic.values) - log_scale(closed.values)).max() < 1e-3


@pytest.mark.slow
def test_generic_posterior_learns_the_same_from_draws() -> None:
    X, y = table(150, 3)
    closed = orn.learn(orn.models.linear(X, y), draws=10)
    measured = orn.learn(own(X, y), moments="draws", draws=100, chains=2)
    error = log_scale(measured.values) - log_scale(closed.values)
    relative = log_scale(measured.errors) - log_scale(measured.values)
    assert (np.abs(error) < 4 * np.exp(relative) + 0.02 * measured.deviations).all()


def test_draws_correct_a_posterior_that_is_not_gaussian() -> None:
    """And do so alike with and without closed forms."""
    X, y = table(80, 3, seed=1)
    generic, closed = own_logistic(X, y), orn.models.logistic(X, y > 0)
    assert not generic.learnable.in_likelihood
    found = orn.learn(closed, key=1)
    again = orn.learn(generic, key=2)
    assert found.converged
    assert again.converged
    error = np.hypot(
        float(found.errors["prior_precision"] / found.values["prior_precision"]),
        float(again.errors / again.values),
    )
    apart = abs(float(np.log(found.values["prior_precision"] / again.values)))
    assert apart < 4 * error + 0.04 * found.deviations[0]
    assert "draws" in found.stages


@pytest.mark.slow
def test_draws_learn_what_nuts_learns() -> None:
    """Within a tenth of the gap that the Gaussian at the optimum leaves."""
    X, y = table(200, 5)
    post = orn.models.logistic(X, y > 0)
    nuts = orn.learn(post, method="nuts", moments="draws")
    ours, gaussian = orn.learn(post), orn.learn(post, moments="plan")
    gap = log_scale(gaussian.values)[0] - log_scale(nuts.values)[0]
    left = log_scale(ours.values)[0] - log_scale(nuts.values)[0]
    errors = [
        float(f.errors["prior_precision"] / f.values["prior_precision"]) for f in (nuts, ours)
    ]
    assert gap > 0.08
    assert abs(left) < 0.1 * gap + 3 * float(np.hypot(errors[0], errors[1]))


def test_em_ends_where_newton_does() -> None:
    X, y = table()
    post = orn.models.linear(X, y, groups=["a"] * 6 + ["b"] * 6)
    newton, em = (
        orn.learn(post, ascent=ascent, draws=4, chains=1, tolerance=0.01)
        for ascent in ("newton", "em")
    )
    np.testing.assert_allclose(log_scale(em.values), log_scale(newton.values), atol=2e-3)


def test_one_precision_per_column_finds_the_columns_that_matter() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 6))
    y = X @ np.array([1.0, -2.0, 0.0, 0.0, 0.5, 0.0]) + 0.5 * rng.normal(size=500)
    names = list("abcdef")
    found = orn.learn(orn.models.linear(X, y, groups="columns", feature_names=names), draws=20)
    assert found.converged
    assert found.labels[1:] == tuple(f"prior_precision[{name}]" for name in names)
    precision = found.values["prior_precision"]
    assert (precision[[0, 1, 4]] < 10).all()
    assert (precision[[2, 3, 5]] > 50).all()
    assert np.isfinite(precision).all()
    assert any("barely constrain" in note for note in found.notes)


@pytest.mark.slow
def test_X2_columns_that_never_vary_change_nothing() -> None:
    """They get the prior's variance exactly, and say nothing of the precision."""
    X, y = table(200, 5)
    padded = np.concatenate([X, np.zeros((200, 10))], axis=1)
    for build, target in ((orn.models.linear, y), (orn.models.logistic, y > 0)):
        plain = orn.learn(build(X, target), moments="plan", draws=100)
        more = orn.learn(build(padded, target), moments="plan", draws=1000)
        np.testing.assert_allclose(log_scale(more.values), log_scale(plain.values), atol=2e-3)
        precision = float(more.values["prior_precision"])
        never = more.result.flat[..., 5:]
        assert abs(never.var() * precision - 1) < 5 * np.sqrt(2 / never.size)
        np.testing.assert_allclose(np.diag(more.result.plan.predicted_cov)[5:], 1 / precision)
    plain, more = (orn.learn(orn.models.logistic(table, y > 0)) for table in (X, padded))
    errors = [
        float(f.errors["prior_precision"] / f.values["prior_precision"]) for f in (plain, more)
    ]
    allowed = 4 * float(np.hypot(errors[0], errors[1])) + 0.04 * plain.deviations[0]
    assert abs(log_scale(more.values) - log_scale(plain.values))[0] < allowed


def test_intercept_is_left_alone_unless_asked() -> None:
    X, y = table()
    post = orn.models.linear(X, y + 30, [1.0] * 12 + [1e-4], intercept=True)
    found = orn.learn(post, draws=10)
    assert found.posterior.hyper["prior_precision"][-1] == 1e-4
    assert found.posterior.hyper["prior_precision"][0] == found.values["prior_precision"]
    asked = orn.models.linear(X, y + 30, intercept=True, groups=["w"] * 12 + ["b"])
    values = orn.learn(asked, draws=10).values
    assert values["prior_precision"][1] == pytest.approx(1 / 900, rel=0.1)


def test_learned_noise_alone_and_precision_alone() -> None:
    X, y = table()
    noise = orn.learn(orn.models.linear(X, y, learn="noise_scale"), draws=10)
    assert set(noise.values) == {"noise_scale"}
    assert float(noise.values["noise_scale"]) == pytest.approx(0.7, rel=0.1)
    precision = orn.learn(orn.models.linear(X, y, learn=["prior_precision"]), draws=10)
    assert set(precision.values) == {"prior_precision"}
    assert precision.posterior.hyper["noise_scale"] == 1.0


def test_T2_biased_samplers_say_so() -> None:
    X = features(400, 6) @ np.diag([1, 1, 3, 0.2, 0.1, 5])
    y = X @ np.array([0.1, 0.4, -0.2, 0.5, 0.8, 0.1]) + np.random.default_rng(0).normal(size=400)
    post = orn.models.linear(X, y, learn="prior_precision")
    options: dict[str, Any] = {"draws": 4, "chains": 1, "warmup": 0, "thin": 1}
    exact = orn.learn(post, **options)
    scalar = orn.learn(post, method="sgd", structure="scalar", batch_size=10, **options)
    assert exact.notes == ()
    assert exact.bias[0] == 0
    assert ": its E|theta|^2 under prior_precision is" in scalar.notes[0]
    assert "method='exact'" in str(scalar)
    difference = log_scale(scalar.values) - log_scale(exact.values)
    assert abs(difference[0]) > 0.05
    np.testing.assert_allclose(scalar.bias, difference, atol=5e-3)
    cov = scalar.result.plan.predicted_cov
    second = np.trace(cov) + scalar.result.plan.center @ scalar.result.plan.center
    assert float(scalar.values["prior_precision"]) == pytest.approx(6 / second, rel=0.01)


def test_sample_learns_when_asked() -> None:
    X, y = table(columns=4)
    post = orn.models.linear(X, y)
    result = orn.sample(post, learn_hyper=True, draws=50)
    learning = result.learning
    assert learning is not None
    assert learning.converged
    assert result.posterior.hyperparameters == learning.values
    assert learning.path["noise_scale"].shape == (len(learning.stages),)
    assert learning.path["prior_precision"][-1] == learning.values["prior_precision"]
    assert orn.sample(post, draws=50).learning is None
    same = orn.learn(post, draws=50)
    np.testing.assert_array_equal(same.result.flat, result.flat)
    assert "converged" in str(same)
    assert "Learned(noise_scale=" in repr(same)


def test_other_values_compile_nothing() -> None:
    X, y = table(100, 3)
    post = orn.models.logistic(X, y > 0)
    before = orn.plan(post, batch_size=20)
    there = post.with_hyper({"prior_precision": 2.0})
    assert there.model == post.model == before.model
    assert hash(there.model) == hash(post.model)
    generic = own_logistic(X, y)
    assert generic.with_hyper(2.0).model == generic.model
    with pytest.raises(orn.InputError, match="another prior"):
        orn.sample(there, before)


# Comparators ------------------------------------------------------------------------------------


def test_mackay_finds_the_largest_evidence() -> None:
    post = logistic()
    found = orn.evidence(post)
    ours = orn.learn(post, moments="plan", draws=4, chains=1, tolerance=1e-3)
    assert found.converged
    np.testing.assert_allclose(log_scale(found.values), log_scale(ours.values), atol=1e-3)
    assert 0 < found.well_determined[0] < post.dim


@pytest.mark.slow
def test_cross_validation_prefers_what_predicts() -> None:
    X, y = table(160, 8)
    post = orn.models.logistic(X, y > 0)
    grid = [{"prior_precision": lam} for lam in np.logspace(-4, 4, 9)]
    found = orn.cross_validate(post, grid, folds=4)
    assert found.losses.shape == found.errors.shape == (9,)
    best = int(np.argmin(found.losses))
    assert 0 < best < 8
    assert found.best == found.grid[best]
    learned = orn.learn(post, draws=4, chains=1).values
    there = orn.cross_validate(post, [learned], folds=4).losses[0]
    assert there < found.losses[best] + found.errors[best]


@pytest.mark.slow
def test_bbvi_learns_with_its_own_moments() -> None:
    X, y = table(200, 4)
    post = orn.models.linear(X, y)
    mean_field = orn.learn(post, method="bbvi", draws=20)
    exact = orn.learn(post, draws=20)
    assert mean_field.notes or mean_field.result.plan.predicted_kl < 0.01
    assert np.abs(log_scale(mean_field.values) - log_scale(exact.values)).max() < 0.2
