"""Steps of the hyperparameters: from far away, too far, and by noisy scores."""

import numpy as np
import pytest

import ornstein as orn
from ornstein.hyper import ascent, expectation, steps
from ornstein.hyper.approach import Trail, approach_by_optima
from ornstein.hyper.estimates import Estimate
from ornstein.hyper.expectation import Expectation
from ornstein.hyper.settings import LIMITS, LearningOptions, Limits
from support.montecarlo import Floats
from support.problems import softmax_table


@pytest.mark.parametrize(("start", "optima"), [(1e4, 5), (1e2, 3), (1e-4, 4)])
def test_few_optima_lead_from_far_away(start: float, optima: int) -> None:
    """Newton's step on the M-step; on the score it took seven to nine optima."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 10))
    y = (rng.random(2000) < 1 / (1 + np.exp(-X @ rng.normal(size=10)))).astype(int)
    found = orn.learn(orn.models.logistic(X, y, prior_precision=start), draws=20, progress=False)
    assert found.converged
    assert found.stages.count("optimum") <= optima
    assert found.values["prior_precision"] == pytest.approx(1.468, abs=0.02)


def test_counts_are_learned_from_where_extrapolation_leads_astray() -> None:
    """Large counts under a prior so strong that curvature at its optimum says little of others."""
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(300, 3))) + 1
    y = rng.poisson(np.exp(X @ np.array([2.0, 1.0, 0.5])))
    values = [
        orn.learn(orn.models.poisson(X, y, prior_precision=start), moments="plan", draws=10).values[
            "prior_precision"
        ]
        for start in (1.0, 1e8)
    ]
    np.testing.assert_allclose(values[1], values[0], rtol=1e-3)


def test_a_closed_step_is_finite_whatever_monte_carlo_leaves() -> None:
    post = orn.models.linear(np.eye(3), np.arange(3.0))
    ties = post.learnable.ties
    assert ties is not None
    step = expectation.closed_step(post, ties, np.array([-10.0, 10.0]))
    assert np.isfinite(step).all()


def test_steps_turn_back_when_they_overshoot() -> None:
    bounds = steps.StepBounds.first(1)
    flat, one = np.array([[1e-6]]), np.array([1.0])
    first, bounds = bounds.step(np.array([1.0]), flat, one)
    second, bounds = bounds.step(np.array([1.0]), flat, one)
    third, bounds = bounds.step(np.array([-1.0]), flat, one)
    assert first == 4.0
    assert second == 8.0
    assert third == -4.0
    assert steps.step_length(np.array([1.0]), -flat, one) == np.inf
    length = steps.step_length(np.array([0.3]), np.array([[9.0]]), np.array([10.0]))
    assert length == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("length", "error", "short", "converged", "last"),
    [
        (0.01, 0.0, True, True, False),
        (0.05, 0.0, False, False, True),
        (0.05, 0.019, True, True, True),  # 0.046 without the error
        (0.02, 0.019, True, True, False),
        (0.09, 0.05, True, False, True),  # known too imprecisely
        (0.11, 0.01, False, False, True),
    ],
)
def test_when_a_step_is_short(
    length: float, error: float, short: bool, converged: bool, last: bool
) -> None:
    one = np.eye(1)
    estimate = Estimate(Expectation(np.zeros(1), one, one), np.array([length]), error**2 * one)
    assert ascent.step_is_short(estimate, 0.02) == short
    assert ascent.is_converged(estimate, 0.02) == converged
    assert ascent.worth_a_last_step(estimate, 0.02) == last


@pytest.mark.usefixtures("no_matrices")
def test_the_approach_ends_where_an_expensive_plan_will_hold() -> None:
    """Elsewhere it goes on to a step as short as asked for."""
    post = orn.models.softmax(*softmax_table(), prior_precision=30.0)
    eta = post.learnable.to_real(post.hyperparameters)

    def ended(drawing: bool, limits: Limits) -> tuple[int, float]:
        trail: Trail = []
        options = LearningOptions(tolerance=1e-4)
        _, there, seen = approach_by_optima(post, eta, options, trail, drawing, limits)
        assert seen is not None
        assert seen.structure == "per-class"
        return len(trail), float(np.abs(there - trail[-1][1]).max())

    optima, step = ended(True, LIMITS)
    assert 0.0001 < step <= LIMITS.approach_move_where_expensive
    for drawing in (True, False):
        more, shorter = ended(drawing, Limits(approach_move_where_expensive=0.0))
        assert more > optima
        assert shorter < step / 4


def test_as_many_draws_are_wanted_as_the_tolerance_takes() -> None:
    """Two for each that would do if they were independent."""
    post = orn.models.logistic(*softmax_table(classes=2))
    asked = []

    def draw(post: orn.Posterior, plan: orn.Plan, number: int, wanted: int, last: object) -> Floats:
        del number, last
        found, score = expectation.expect(post, plan.geometry, expectation.drawn_cov(plan))
        spread = score.covariance(expectation.drawn_cov(plan))[0, 0]
        asked.append((wanted, 2 * spread / found.information[0, 0] / 0.3**2))
        rng = np.random.default_rng(0)
        return rng.multivariate_normal(plan.center, plan.predicted_cov, size=(4, 50))

    ascent.ascend(post, {}, LearningOptions(tolerance=0.3, rounds=1), draw)
    assert asked
    for wanted, enough in asked:
        assert wanted - 1 <= enough * (1 + 1e-9) < wanted + 1e-6
