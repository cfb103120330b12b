"""What a plan says of its draws' distance from the posterior, and the pilots that measure it."""

import json
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import ornstein as orn
from ornstein.api import pilots
from ornstein.api.judged import FUNNEL, Pilot
from ornstein.api.pilots import piloted
from ornstein.curvature.row_sums import gradients_at
from ornstein.planning import planner
from ornstein.planning.foreseen import remainder
from ornstein.storage.codec import decode, encode

pytestmark = pytest.mark.pilot


def logistic(rows: int, columns: int, strength: float = 1.0, seed: int = 0) -> orn.Posterior:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    slopes = strength * rng.normal(size=columns)
    return orn.models.logistic(X, rng.random(rows) < 1 / (1 + np.exp(-X @ slopes)))


def funnel() -> orn.Posterior:
    """Neal's: the logarithm of a scale, and what has that scale."""

    def log_prior(params: Any) -> Any:
        v, x = params["v"], params["x"]
        return -0.5 * (v / 2) ** 2 - 0.5 * jnp.sum(x**2) * jnp.exp(-v) - 0.5 * x.size * v

    def log_likelihood(params: Any, row: Any) -> Any:
        return -0.005 * (row - params["v"]) ** 2

    init = {"v": 0.0, "x": np.full(4, 0.1)}
    return orn.Posterior(log_likelihood, log_prior, np.linspace(0, 1, 30), init=init)


SMALL = logistic(120, 4, strength=2.0)


def test_a_gaussian_posterior_needs_no_pilot() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    post = orn.models.linear(X, X[:, 0] + rng.normal(size=100))
    plan = orn.plan(post)
    error = plan.predicted_error
    assert error is not None
    assert error.known == "the posterior is Gaussian"
    assert error.mean == 0
    assert error.sd < 1e-6
    assert plan.dispersion == 2
    slow = orn.plan(post, "sgd", batch_size=10)
    assert slow.predicted_error is not None
    variances = slow.predicted_cov.diagonal() / slow.target_cov.diagonal()
    assert slow.predicted_error.sd == pytest.approx(np.abs(np.sqrt(variances) - 1).max())


def test_X10_the_noise_of_rows_bounds_the_remainder() -> None:
    post = logistic(3000, 3)
    plan = planner.plan(post)
    root = np.linalg.cholesky(plan.geometry.covariance.dense(3))
    z = np.random.default_rng(1).normal(size=(400, 3))
    slopes = gradients_at(post, plan.center + z @ root.T, post.data) @ root - z
    beta = remainder(post, plan)
    assert np.sqrt((slopes**2).sum(axis=1).mean()) < beta < 0.3


def test_X10_a_prior_that_is_not_gaussian_counts() -> None:
    X = np.random.default_rng(0).normal(size=(4000, 2))

    def log_likelihood(params: Any, row: Any) -> Any:
        return -0.5 * (row["y"] - params @ row["x"]) ** 2

    def posterior(log_prior: Any) -> orn.Posterior:
        data = {"x": X, "y": X[:, 0]}
        return orn.Posterior(log_likelihood, log_prior, data, init=np.ones(2))

    normal = posterior(lambda params: -0.5 * jnp.sum(params**2))
    sharp = posterior(lambda params: -2 * jnp.log1p((100 * params[1]) ** 2))
    assert remainder(normal, planner.plan(normal)) < 1e-3
    assert remainder(sharp, planner.plan(sharp)) > 0.1


def test_a_nearly_gaussian_posterior_needs_no_pilot() -> None:
    error = orn.plan(logistic(60_000, 2)).predicted_error
    assert error is not None
    assert error.known == "nearly Gaussian"
    assert 0 < error.mean < 0.01
    assert 0 < error.sd < 0.05


def test_other_posteriors_are_piloted() -> None:
    plan = orn.plan(SMALL)
    error = plan.predicted_error
    assert error is not None
    assert error.known == "pilot"
    assert error.mean - 2 * error.mean_mc_error < 0.05
    assert error.sd - 2 * error.sd_mc_error < 0.05
    assert plan.dispersion == 1
    assert "(measured by a pilot)" in str(plan)
    assert json.loads(plan.to_json())["predicted_error"]["known"] == "pilot"
    assert decode(encode(error)) == error
    result = orn.sample(SMALL)
    assert result.settings.dispersion == 1
    assert result.plan.predicted_error == error
    assert orn.check(SMALL, result.flat).verdict == "ok"


def quartic() -> orn.Posterior:
    def log_likelihood(params: Any, row: Any) -> Any:
        return -0.5 * jnp.sum((params - row) ** 2) - 4 * jnp.sum((params - row) ** 4)

    data = np.random.default_rng(0).normal(size=(50, 1)) * [[0.01]]
    return orn.Posterior(log_likelihood, lambda params: -0.5 * params @ params, data, np.zeros(1))


def test_X11_steps_on_few_rows_are_tested() -> None:
    post = quartic()
    plan = orn.plan(post)
    assert plan.batch_size == post.num_data
    assert "every step passes a Metropolis test" in str(plan)
    assert plan.predicted_error is not None
    assert plan.predicted_error.sd < 0.05
    assert orn.check(post, orn.sample(post, plan).flat).verdict == "ok"
    given = orn.plan(post, metropolis=False)
    assert "Metropolis" not in str(given)


@pytest.mark.parametrize("options", [{"method": "rotation", "batch_size": 50}, {"method": "exact"}])
def test_more_careful_steps_where_a_pilot_is_off(options: dict[str, Any]) -> None:
    post = quartic()
    careless = orn.plan(post, **options, tolerance=None)
    plan = orn.plan(post, **options)
    assert plan.stability_margin > careless.stability_margin
    np.testing.assert_array_equal(plan.center, careless.center)
    assert plan.predicted_error is not None
    assert plan.predicted_error.sd < 0.1
    assert orn.check(post, orn.sample(post, plan).flat).verdict == "ok"


def test_what_is_given_is_not_changed() -> None:
    plan = orn.plan(SMALL, angle=1.5, batch_size=4, tolerance=1e-6)
    assert plan.rule.angle == 1.5  # type: ignore[attr-defined]
    assert plan.batch_size == 4
    assert "off by" in plan.warnings[-1]
    larger = orn.plan(SMALL, angle=1.5, tolerance=1e-6)
    assert larger.rule.angle == 1.5  # type: ignore[attr-defined]


def test_a_warning_says_what_no_step_can_mend() -> None:
    plan = orn.plan(funnel(), batch_size=30, tolerance=0.02)
    assert "pilot" in plan.warnings[-1]
    assert "use method='nuts', or reparametrise" in plan.warnings[-1]
    assert plan.predicted_error is not None
    json.loads(plan.to_json(), parse_constant=pytest.fail)


def test_a_pilot_that_became_non_finite_is_not_within_any_tolerance() -> None:
    said = "a chain of the pilot became non-finite at step 3"
    pilot = Pilot(planner.plan(SMALL), None, said, left=True)
    assert not pilot.within(1e9)
    assert str(pilot.error) == "unbounded (the pilot found no draws of the posterior)"
    assert pilot.error.to_record()["mean"] is None
    assert pilot.warning.startswith(
        "a chain of the pilot became non-finite at step 3: the posterior"
    )


def test_steps_that_are_tested_are_judged_by_their_mixing_where_gradients_cannot() -> None:
    """A Metropolis test leaves no other error; and a plan says that it was not measured."""
    nan = np.full(2, np.nan)
    parts = (nan, nan, nan, nan, nan, nan)
    undecided = orn.Accuracy(*parts, ("a", "b"), draws=9, rows=9, lowest_curvature=(0.2, 0.6))
    plan = planner.plan(SMALL)
    steps = pilots.tested(plan, 4)
    mixing, stuck = (Pilot(steps, undecided, slowness=one) for one in (10.0, 100.0))
    assert mixing.passes(0.05)
    assert mixing.planned.unmeasured == FUNNEL
    assert mixing.planned.predicted_error is None
    assert not stuck.passes(0.05)
    assert stuck.warning.startswith("the pilot's chains mix too slowly")
    untested = Pilot(plan, undecided)
    assert not untested.passes(0.05)
    assert untested.warning.startswith(FUNNEL)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"tolerance": None}, "tolerance=None"),
        ({"method": "laplace"}, "method='laplace' has no steps to tune"),
        ({"method": "sandwich", "batch_size": 20}, "the draws aim at the sandwich covariance"),
    ],
)
def test_why_no_pilot_was_run(options: dict[str, Any], why: str) -> None:
    plan = orn.plan(SMALL, **options)
    assert plan.predicted_error is None
    assert plan.unmeasured == why
    assert f"not measured: {why}" in str(plan)


def test_no_pilot_over_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose plans could differ by rounding."""
    made = planner.plan(SMALL)
    monkeypatch.setattr("jax.process_count", lambda: 2)
    plan = piloted(SMALL, made, 0.05, {}, on_mesh=True)
    assert plan.unmeasured.startswith("the run is spread over several processes")


def test_plans_do_not_depend_on_the_key_of_a_run() -> None:
    first, second = (orn.sample(SMALL, key=key, draws=10).plan for key in (1, 2))
    assert first.predicted_error == second.predicted_error


def test_the_plan_after_learning_is_piloted() -> None:
    result = orn.sample(SMALL, draws=50, learn_hyper=True, tolerance=0.2)
    assert result.plan.predicted_error is not None
    assert result.plan.tolerance == 0.2


def test_draws_by_the_tolerance() -> None:
    X = np.random.default_rng(0).normal(size=(100, 2))
    post = orn.models.linear(X, X[:, 0])
    few = orn.sample(post, draws="auto", tolerance=0.2)
    assert 100 <= few.flat.shape[0] * few.flat.shape[1] < 200
    usual = orn.sample(post, draws="auto")
    assert usual.flat.shape[0] * usual.flat.shape[1] >= 1600


@pytest.mark.slow
def test_no_key_of_a_hierarchical_model_becomes_non_finite() -> None:
    """A scale over five slopes, as in docs/numpyro.md."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5))
    y = X @ [1.0, -0.5, 0.2, 0.0, 2.0] + 0.5 * rng.normal(size=2000)

    def log_likelihood(params: Any, row: Any) -> Any:
        noise = params["log_noise"]
        return -0.5 * ((row["y"] - params["w"] @ row["x"]) * jnp.exp(-noise)) ** 2 - noise

    def log_prior(params: Any) -> Any:
        scale, noise = params["log_scale"], params["log_noise"]
        slopes = -0.5 * jnp.sum(params["w"] ** 2) * jnp.exp(-2 * scale) - 5 * scale
        return slopes - 0.5 * (jnp.exp(2 * scale) + jnp.exp(2 * noise)) + scale + noise

    init = {"log_noise": 0.0, "log_scale": 0.0, "w": np.zeros(5)}
    post = orn.Posterior(log_likelihood, log_prior, {"x": X, "y": y}, init=init)
    plan = orn.plan(post)
    assert plan.dispersion == 1
    for key in range(30):
        result = orn.sample(post, plan, key=key, draws=200)
        assert result.status.ok
