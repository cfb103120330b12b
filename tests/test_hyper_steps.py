"""Steps of the hyperparameters: from afar, too far, and by scores that noise has bent."""

import numpy as np
import pytest

import ornstein as orn
from ornstein.hyper import climb, expectation


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
