"""Simulated beside observed targets, and R-squared."""

import numpy as np
import pytest

import ornstein as orn
from ornstein.results import plots
from ornstein.results.explained import bayesian_r2
from ornstein.results.predictive import Coefficients, NewRows
from ornstein.results.predictive_checks import Replications


def test_too_many_zeros_are_noticed() -> None:
    rng = np.random.default_rng(0)
    right = Replications(
        rng.poisson(3.0, 500).astype(float),
        rng.poisson(3.0, (200, 500)).astype(float),
        "n",
        discrete=True,
    )
    zeros = rng.uniform(size=500) < 0.3
    wrong = Replications(np.where(zeros, 0.0, right.observed), right.simulated, "n", discrete=True)
    found = right.table()
    assert ((found["above"] > 0.005) & (found["above"] < 0.995)).all()
    line = wrong.table().loc["share of zeros"]
    assert line["observed"] == np.mean(wrong.observed == 0)
    assert line["observed"] > line["high 90%"]
    assert line["above"] == 0
    assert "share of zeros" not in Replications(wrong.observed, wrong.simulated, "n").table().index


def test_ties_count_half() -> None:
    found = Replications(np.array([0.0, 1.0]), np.array([[0.0, 1], [1, 1], [0, 0]]), "n", True)
    assert found.table()["above"]["max"] == pytest.approx(2 / 3 * 0.5)
    assert found.table()["above"]["mean"] == pytest.approx(1 / 3 + 1 / 6)


def test_classes_are_checked_by_their_shares() -> None:
    found = Replications(
        np.array([0.0, 1, 1, 1]), np.array([[0.0, 0, 1, 1]]), "k", True, ("a", "b")
    )
    assert found.table()["observed"].to_dict() == {"share of a": 0.25, "share of b": 0.75}
    with pytest.raises(orn.InputError, match="simulated targets must be"):
        Replications(np.zeros(3), np.zeros((2, 4)), "k")


@pytest.mark.parametrize("kind", ["numbers", "counts", "many", "classes"])
def test_pictures(kind: str) -> None:
    rng = np.random.default_rng(1)
    mean = {"numbers": 3.0, "counts": 3.0, "many": 300.0, "classes": 1.0}[kind]
    made = rng.poisson(mean, (50, 101)).clip(0, 2.0 if kind == "classes" else np.inf)
    classes = ("a$b", "b", "c" * 40) if kind == "classes" else ()
    found = Replications(made[0], made, "y$", kind != "numbers", classes)
    whole, statistics = plots.predictive_checks(found)
    label = {"numbers": "density", "classes": "share of rows"}.get(kind, "square root of rows")
    assert whole.axes[0].get_ylabel() == label
    assert len([ax for ax in statistics.axes if ax.get_visible()]) == len(found.statistics)


def test_r2_of_a_linear_model() -> None:
    rng = np.random.default_rng(2)
    X, coef, noise = rng.normal(size=(50, 2)), rng.normal(size=(20, 2)), rng.uniform(1, 2, 20)
    draws = Coefficients.gather("linear", coef, noise_scale=noise)
    fit = (coef @ X.T).var(axis=1)
    np.testing.assert_allclose(bayesian_r2(draws, X), fit / (fit + noise**2))


def test_r2_of_counts_and_classes() -> None:
    rng = np.random.default_rng(3)
    X, coef = rng.normal(size=(50, 2)), rng.normal(size=(20, 2))
    eta = coef @ X.T
    rate = np.exp(eta)
    expected = rate.var(axis=1) / (rate.var(axis=1) + rate.mean(axis=1))
    np.testing.assert_allclose(bayesian_r2(Coefficients.gather("poisson", coef), X), expected)
    p = 1 / (1 + np.exp(-eta))
    expected = p.var(axis=1) / (p.var(axis=1) + (p * (1 - p)).mean(axis=1))
    np.testing.assert_allclose(bayesian_r2(Coefficients.gather("logistic", coef), X), expected)
    trials = np.full(50, 4.0)
    rows = NewRows(X, trials=trials)
    counts = 16 * p.var(axis=1)
    expected = counts / (counts + 4 * (p * (1 - p)).mean(axis=1))
    np.testing.assert_allclose(bayesian_r2(Coefficients.gather("binomial", coef), rows), expected)
    with pytest.raises(orn.InputError, match="has 3"):
        bayesian_r2(Coefficients.gather("softmax", rng.normal(size=(5, 3, 2))), X)
