"""Control variates (X9): the noise they leave, the batch they need, the covariance they give."""

from dataclasses import replace
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import ornstein as orn
from ornstein.curvature.control_variates import anchor, batch_size
from ornstein.linalg.operators import Dense
from ornstein.results.diagnosis import Diagnosis
from support.montecarlo import assert_covariance, rejects_covariance
from support.problems import SOME_MODELS, Floats, as_generic, features, regression, zoo


def spread(post: orn.Posterior) -> tuple[orn.Geometry, Floats]:
    """Geometry at the optimum, and the posterior's covariance there."""
    known = orn.plan(post, control_variates=False).geometry
    return known, np.linalg.inv(known.precision.dense(post.dim))


def test_X9_noise_of_linear_regression_in_closed_form() -> None:
    """``E (x' Sigma x) x x' / sigma^4``, less the square of the mean."""
    post = regression(rows=300, noise_scale=2.0)
    known, cov = spread(post)
    X = post.data["x"]
    leverage = np.einsum("ni,ij,nj->n", X, cov, X) / 4
    mean = X.T @ X / 300 / 4
    expected = (X.T * leverage) @ X / 300 / 4 - mean @ cov @ mean
    found = anchor(post, known, Dense(cov), scheme="windows", order=1)
    np.testing.assert_allclose(found.noise_cov.array, expected, rtol=1e-9)
    np.testing.assert_allclose(found.strongest, 300 * leverage.max())
    kicks = (X.T * (300 * leverage) ** 2 * leverage) @ X / 4
    along = np.linalg.eigvals(np.linalg.solve(known.hessian.array, kicks)).real.max()
    np.testing.assert_allclose(found.fourth, along)
    assert along <= np.mean((300 * leverage) ** 4)
    assert found.row == leverage.argmax()
    generic = anchor(as_generic(post), known, Dense(cov), scheme="windows", order=1)
    np.testing.assert_allclose(generic.noise_cov.array, expected, rtol=1e-7)
    np.testing.assert_allclose(generic.strongest, found.strongest, rtol=1e-6)


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("softmax", "poisson")]


@pytest.mark.parametrize("name", ["logistic", *SLOW])
@pytest.mark.parametrize("closed", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_X9_noise_is_the_mean_over_the_posterior(name: str, closed: bool) -> None:
    post = zoo(rows=4000)[name]
    known, cov = spread(post)
    model = post if closed else as_generic(post)
    seen = anchor(model, known, Dense(cov), scheme="windows", order=1)
    thetas = np.random.default_rng(0).multivariate_normal(known.center, cov, size=400)
    here = np.asarray(post.model.gradients(jnp.asarray(known.center), post.data, post.hyper))
    moved = [
        np.cov(
            np.asarray(post.model.gradients(jnp.asarray(t), post.data, post.hyper)) - here,
            rowvar=False,
        )
        for t in thetas
    ]
    root = np.linalg.cholesky(np.linalg.inv(known.hessian.array))
    found, *relative = (4000 * root.T @ m @ root for m in (seen.noise_cov.array, *moved))
    error = np.std(relative, axis=0) / np.sqrt(len(thetas))
    # Points around the anchor are right to third order: what the fourth adds is below 2 %.
    slack = 0.02 * np.linalg.eigvalsh(found)[-1]
    assert np.all(np.abs(np.mean(relative, axis=0) - found) < 4 * error + slack)


@pytest.mark.parametrize("batches", ["independent", "windows", "weighted"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_X9_T2_covariance_of_linear_regression(batches: str, dtype: str) -> None:
    post = regression(rows=2000)
    plan = orn.plan(post, "exact", batches=batches, batch_size=24, control_variates="first")
    assert plan.relaxation_steps < 2
    result = orn.sample(post, plan, key=5, draws=6000, dtype=dtype)
    assert_covariance(result.flat, plan.center, plan.predicted_cov)
    assert rejects_covariance(result.flat, plan.center, 1.15 * plan.predicted_cov)


@pytest.mark.parametrize("name", SOME_MODELS[1:])
@pytest.mark.parametrize("closed", [True, False])
def test_X9_T2_covariance_of_the_zoo(name: str, closed: bool) -> None:
    post = zoo(rows=16_000)[name]
    post = post if closed else as_generic(post)
    result = orn.sample(post, key=6, draws=3000, method="exact", control_variates="first")
    assert result.plan.control_variates
    value, floor = result.measured_kl("predicted")
    assert value < 2.5 * floor + 0.005


def test_X9_the_anchor_need_not_be_the_optimum() -> None:
    """The slope there is known, so the draws still gather around the optimum."""
    post = regression(rows=2000)
    best = orn.plan(post, control_variates=False)
    cov = np.linalg.inv(best.posterior_precision)
    moved = best.center + 2 * np.sqrt(np.diag(cov))
    plan = orn.plan(post, at={"coef": moved}, batch_size=200, control_variates="first")
    result = orn.sample(post, plan, key=3, draws=4000)
    error = np.sqrt(np.diag(cov) / 16_000)
    assert np.all(np.abs(result.flat.mean(axis=(0, 1)) - best.center) < 5 * error)


def test_X9_the_cost_of_a_draw_does_not_grow_with_the_rows() -> None:
    plans = [
        orn.plan(regression(rows=rows, columns=5), control_variates="first")
        for rows in (2000, 20_000, 200_000)
    ]
    rows = [plan.batch_size * plan.relaxation_steps for plan in plans]
    assert max(rows) < 2 * min(rows)
    plain = [
        orn.plan(regression(rows=rows, columns=5), batch_size=100, control_variates=False)
        for rows in (2000, 20_000)
    ]
    assert plain[1].relaxation_steps > 8 * plain[0].relaxation_steps


def uneven() -> orn.Posterior:
    """A regression in which one row of 5000 has most of a column's leverage."""
    X = features(5000, 3)
    X[17] *= 60
    y = X @ np.ones(3) + np.random.default_rng(0).normal(size=5000)
    return orn.models.linear(X, y)


def test_X9_a_row_of_high_leverage_asks_for_larger_batches() -> None:
    first = partial(orn.plan, method="exact", batches="windows", control_variates="first")
    even = first(regression(rows=5000))
    odd = first(uneven())
    assert odd.anchor is not None
    assert odd.anchor.row == 17
    assert odd.batch_size > 5 * even.batch_size
    small = first(uneven(), batch_size=30)
    assert any("row 17 has leverage" in text for text in small.warnings)
    assert not any("leverage" in text for text in even.warnings)
    wanted, safe = batch_size(odd.geometry, odd.anchor)
    assert wanted == odd.batch_size
    assert safe <= wanted or wanted == 1250


@pytest.mark.parametrize("closed", [True, False])
def test_X9_rows_drawn_by_leverage_keep_batches_small(closed: bool) -> None:
    post = uneven() if closed else as_generic(uneven())
    plan = orn.plan(post, "exact", control_variates="first")
    assert plan.batches.scheme == "weighted"
    assert plan.batch_size <= 64
    assert plan.warnings == ()
    result = orn.sample(post, plan, key=8, draws=6000)
    assert_covariance(result.flat, plan.center, np.linalg.inv(plan.posterior_precision))
    assert result.diagnose()["A1"].verdict == "ok"


def test_X9_rows_of_like_leverage_are_drawn_alike() -> None:
    X = np.random.default_rng(0).choice([-1.0, 1.0], size=(4000, 3))
    plan = orn.plan(orn.models.linear(X, X[:, 0]), control_variates="first")
    assert plan.batches.scheme != "weighted"
    assert plan.anchor is not None
    assert plan.anchor.multiplicity is None


@pytest.mark.parametrize("outlier", [1.0, 8.0, 60.0])
def test_X9_what_the_strongest_row_alone_decides_is_decided_rightly(
    outlier: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether by leverage or alike, of all that is known of both."""
    X = features(2000, 3)
    X[7] *= outlier
    post = orn.models.linear(X, X.sum(axis=1))
    known = orn.geometry(post, {"coef": np.ones(3)})
    cov = known.covariance
    found = [anchor(post, known, cov, size=size, order=1) for size in (None, 64)]
    monkeypatch.setattr("ornstein.curvature.control_variates._least", lambda *_: 0.0)
    for size, early in zip((None, 64), found, strict=True):
        late = anchor(post, known, cov, size=size, order=1)
        assert (early.multiplicity is None) == (late.multiplicity is None)
        assert early.fourth == late.fourth


def test_X9_the_strongest_row_throws_the_chain_no_further_than_twice_its_distance() -> None:
    post = regression()
    known = orn.geometry(post, {"coef": np.zeros(post.dim)})
    cov = known.covariance
    alike = anchor(post, known, cov, scheme="windows", order=1)
    alike = replace(alike, strongest=500.0, fourth=0.0)
    assert batch_size(known, alike)[1] == 250


def test_X9_subsampled_rows_still_anchor_at_the_true_slope() -> None:
    post = regression(rows=4000)
    plan = orn.plan(post, geometry_rows=1000, batch_size=100)
    assert "some rows only" in str(plan)
    assert plan.anchor is not None
    scale = np.sqrt(np.diag(plan.posterior_precision))
    assert np.abs(plan.anchor.slope / scale).max() < 1e-4
    result = orn.sample(post, plan, key=1, draws=3000)
    truth = np.linalg.inv(post.data["x"].T @ post.data["x"] + np.eye(3))
    ratio = np.diag(np.cov(result.flat.reshape(-1, 3), rowvar=False)) / np.diag(truth)
    assert np.all(np.abs(ratio - 1) < 0.15)


def diagnosis(at: Floats) -> Diagnosis:
    """Of a logistic regression anchored at a point."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(3000, 2))
    y = rng.uniform(size=3000) < scipy.stats.logistic.cdf(X @ np.array([0.5, -0.5]))
    post = orn.models.logistic(X, y)
    plan = orn.plan(post, at={"coef": at}, batch_size=200, control_variates="first", tolerance=None)
    return orn.sample(post, plan, key=9, draws=400).diagnose()


def test_X9_the_diagnosis_sees_whether_the_anchor_holds() -> None:
    near = diagnosis(np.array([0.5, -0.5]))
    assert near["anchor"].verdict == "ok"
    assert near["anchor"].number < 0.05
    far = diagnosis(np.array([6.0, 6.0]))
    assert far["anchor"].verdict != "ok"
    assert far["anchor"].number > 5 * near["anchor"].number
    assert far["A2"].verdict != "ok"


def test_X9_a_plan_anchored_on_other_rows_is_refused() -> None:
    """Its slope and targets are those rows': draws would follow them, not these."""
    plan = orn.plan(regression(seed=0))
    for other in (regression(seed=1), regression(seed=0, prior_precision=2.0)):
        with pytest.raises(orn.InputError, match="other rows or another prior"):
            orn.sample(other, plan)
    orn.sample(regression(seed=0), plan, draws=8)


def test_control_variates_are_refused_where_they_make_no_sense() -> None:
    post = regression()
    with pytest.raises(orn.InputError, match="relies on the noise"):
        orn.plan(post, "sandwich", control_variates=True)
    with pytest.raises(orn.InputError, match=r"control_variates='yes'.*first, second"):
        orn.plan(post, control_variates="yes")
    with pytest.raises(orn.InputError, match="control_variates must be True or False"):
        orn.plan(post, "exact", control_variates=3)  # type: ignore[call-overload]
    with pytest.raises(orn.InputError, match="some rows only"):
        orn.plan(post, control_variates="second", geometry_rows=100)
    with pytest.raises(orn.InputError, match="epoch"):
        orn.plan(post, batches="epochs", control_variates=True)
    for method in ("sgd", "momentum"):
        with pytest.raises(orn.InputError, match="relies on the noise"):
            orn.plan(post, method, control_variates=True)
    with pytest.raises(orn.InputError, match="stop moving"):
        orn.plan(post, rho=0.0)
    with pytest.raises(orn.InputError, match="control_variates=True"):
        orn.plan(post, "sgd", batches="weighted")
    assert not orn.plan(post, batches="epochs", batch_size=60).control_variates
    assert not orn.plan(post, at={"coef": np.zeros(3)}).control_variates
    assert not orn.plan(post, "sgd", "dense").control_variates


def test_the_least_injected_noise() -> None:
    """X1 where the minibatches' noise keeps the chain from oscillating, else X2 with rho = 1."""
    post = regression(rows=2000)
    plain = orn.plan(post, batch_size=100, control_variates=False)
    assert plain.injected_cov is None
    assert plain.stability_margin > 0.5
    large = orn.plan(post, batch_size=1500, control_variates=False)
    assert large.injected_cov is not None
    for plan in (plain, large):
        target = np.linalg.inv(plan.posterior_precision)
        np.testing.assert_allclose(plan.predicted_cov, target, rtol=1e-8)
