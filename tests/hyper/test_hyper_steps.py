"""Steps of the hyperparameters: from afar, too far, and by scores that noise has bent."""

import numpy as np
import pytest

import ornstein as orn
from ornstein.hyper import approach, ascent, climb, expectation
from ornstein.hyper.options import Options
from support.montecarlo import Floats
from support.problems import softmax_table


@pytest.mark.parametrize(("start", "looks"), [(1e4, 5), (1e2, 3), (1e-4, 4)])
def test_few_looks_lead_from_afar(start: float, looks: int) -> None:
    """Newton's step is for where the M-step vanishes; for the score it took seven to nine looks."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 10))
    y = (rng.random(2000) < 1 / (1 + np.exp(-X @ rng.normal(size=10)))).astype(int)
    found = orn.learn(orn.models.logistic(X, y, prior_precision=start), draws=20, progress=False)
    assert found.converged
    assert found.stages.count("look") <= looks
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
    step = expectation.closed_step(post, np.array([-10.0, 10.0]))
    assert np.isfinite(step).all()


def test_climb_turns_back_when_it_overshoots() -> None:
    walk = climb.Climb.start(1)
    flat, one = np.array([[1e-6]]), np.array([1.0])
    first, walk = walk.step(np.array([1.0]), flat, one)
    second, walk = walk.step(np.array([1.0]), flat, one)
    third, walk = walk.step(np.array([-1.0]), flat, one)
    assert first == 4.0
    assert second == 8.0
    assert third == -4.0
    assert climb.distance(np.array([1.0]), -flat, one) == np.inf
    assert climb.distance(np.array([0.3]), np.array([[9.0]]), np.array([10.0])) == pytest.approx(
        0.1
    )


@pytest.mark.usefixtures("no_matrices")
def test_the_approach_ends_where_a_dear_plan_will_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere it goes on to a step as short as asked for."""
    post, options = (
        orn.models.softmax(*softmax_table(), prior_precision=30.0),
        Options(tolerance=1e-4),
    )
    eta = post.learnable.to_real(post.hyperparameters)

    def ended(drawn: bool) -> tuple[int, float]:
        trail = approach.Trail()
        _, there, seen = approach.approach(post, eta, options, trail, drawn)
        assert seen is not None
        assert seen.structure == "per-class"
        return len(trail.etas), float(np.abs(there - trail.etas[-1]).max())

    looks, step = ended(drawn=True)
    assert 0.0001 < step <= approach.STILL
    monkeypatch.setattr(approach, "STILL", 0.0)
    for drawn in (True, False):
        more, shorter = ended(drawn)
        assert more > looks
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

    ascent.ascend(post, {}, Options(tolerance=0.3, rounds=1), draw)
    assert asked
    for wanted, enough in asked:
        assert wanted - 1 <= enough * (1 + 1e-9) < wanted + 1e-6
