"""Scores of predictions agree with scikit-learn's and with what the truth would score."""

import numpy as np
import pytest
import sklearn.metrics

import ornstein as orn
from ornstein.models.families import FAMILIES
from ornstein.results.predictive import Coefficients, NewRows
from ornstein.results.scores import MEANINGS, of_classes, trivial

RNG = np.random.default_rng(0)


def test_scores_of_classes_are_scikit_learns() -> None:
    chances = RNG.dirichlet(np.ones(3), size=500)
    y = np.array([RNG.choice(3, p=p) for p in chances])
    found = of_classes(chances, y)
    assert found["accuracy"] == sklearn.metrics.accuracy_score(y, chances.argmax(axis=1))
    assert found["log loss"] == pytest.approx(sklearn.metrics.log_loss(y, chances))
    area = sklearn.metrics.roc_auc_score(y, chances, multi_class="ovr")
    assert found["AUC"] == pytest.approx(area)
    assert found["calibration error"] < 0.1, "labels drawn by the probabilities themselves"
    two = np.column_stack([1 - chances[:, 0], chances[:, 0]])
    area = sklearn.metrics.roc_auc_score(y == 0, chances[:, 0])
    assert of_classes(two, (y == 0).astype(int))["AUC"] == pytest.approx(area)
    sure = np.column_stack([np.full(500, 0.99), np.full(500, 0.01)])
    half = np.arange(500) % 2
    assert of_classes(sure, half)["calibration error"] == pytest.approx(0.49)


def test_scores_of_numbers_are_those_of_the_truth() -> None:
    X = RNG.normal(size=(4000, 2))
    y = X @ [2.0, -1.0] + 0.5 * RNG.normal(size=4000)
    draws = Coefficients.gather("linear", np.tile([2.0, -1.0], (400, 1)), noise_scale=0.5)
    found = orn.score(draws, X, y, learned_from=y, scale=10.0)
    assert found.values["R^2"] == pytest.approx(sklearn.metrics.r2_score(y, X @ [2.0, -1.0]))
    assert found.values["RMSE"] == pytest.approx(5.0, rel=0.05)
    assert found.values["log score"] == pytest.approx(
        -0.5 - 0.5 * np.log(2 * np.pi) - np.log(5.0), abs=4 * np.sqrt(0.5 / 4000)
    )
    assert found.values["90% coverage"] == pytest.approx(0.9, abs=0.025)
    assert found.baseline["R^2"] == pytest.approx(0.0, abs=1e-12)
    assert found.baseline["RMSE"] == pytest.approx(10 * y.std())
    assert found.baseline["90% coverage"] == pytest.approx(0.9, abs=0.05)
    assert found.better
    backwards = Coefficients.gather("linear", np.tile([-2.0, 1.0], (400, 1)), noise_scale=0.5)
    assert not orn.score(backwards, X, y, learned_from=y).better
    assert "(guess" in str(found)
    with pytest.raises(orn.InputError, match="one value for each of 4000 rows"):
        orn.score(draws, X, y[:10])


def test_a_trivial_guess_has_the_targets_distribution() -> None:
    counts = RNG.poisson(3 * RNG.gamma(2, size=500) / 2).astype(float)
    guess = trivial(FAMILIES["negative_binomial"](), counts)
    assert np.exp(guess.intercept[0]) == pytest.approx(counts.mean(), rel=0.02)
    shape = np.exp(guess.auxiliary["log_shape"][0])
    spread = counts.mean() + counts.mean() ** 2 / shape
    assert spread == pytest.approx(counts.var(), rel=0.25)
    shares = trivial(FAMILIES["ordinal"].of(3), np.repeat([0.0, 1.0, 2.0], [10, 20, 70]))
    no_columns = NewRows(np.zeros((1, 0)))
    found = orn.predictive.probabilities(shares, no_columns)
    np.testing.assert_allclose(found[0], [0.1, 0.2, 0.7], atol=0.01)


def test_censored_waits_are_scored_by_their_order() -> None:
    """Only pairs of which it is known which wait was longer count."""
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    draws = Coefficients.gather("exponential", [[1.0]])
    found = orn.score(draws, X, np.array([1.0, -2.0, 3.0, 4.0]))
    assert found.values["concordance"] == 1.0
    assert "RMSE" not in found.values
    worse = orn.score(draws, X, np.array([1.0, -2.0, 4.0, 3.0]))
    assert worse.values["concordance"] == pytest.approx(0.75)


def test_every_score_is_explained() -> None:
    X = np.zeros((3, 1))
    for model, y in (("linear", [0.0, 1.0, 2.0]), ("exponential", [1.0, -2.0, 1.0])):
        table = orn.score(Coefficients.gather(model, [[1.0]], noise_scale=1.0), X, y).table()
        assert list(table["meaning"]) == [MEANINGS[name] for name in table.index]
