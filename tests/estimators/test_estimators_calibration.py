"""Intervals and probabilities against held-out rows of real data."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ornstein.data.datasets import Dataset
from ornstein.estimators import BayesianLinearRegressor, BayesianLogisticClassifier
from support.montecarlo import Floats

Load = Callable[[str], Dataset]

BOOTSTRAPS = 500


def halves(rows: int, seed: int = 0) -> tuple[Any, Any]:
    order = np.random.default_rng(seed).permutation(rows)
    return order[: rows // 2], order[rows // 2 :]


@pytest.mark.parametrize("name", ["wine", pytest.param("protein", marks=pytest.mark.slow)])
def test_intervals_cover_what_they_say(dataset: Load, name: str) -> None:
    data = dataset(name)
    X, y = data.X.astype(float), data.y.astype(float)
    train, test = halves(len(X))
    test = test[:8000]
    model = BayesianLinearRegressor(draws=250).fit(X[train], y[train])
    low, high = model.predict_interval(X[test], interval=0.9)
    assert 0.88 <= ((low <= y[test]) & (y[test] <= high)).mean() <= 0.92


def calibration_error(chances: Floats, happened: Floats, weights: Floats) -> float:
    """Mean distance of what was said from what happened, over ten bins of every class."""
    total = 0.0
    for said, true in zip(chances.T, happened.T, strict=True):
        bins = np.minimum((10 * said).astype(int), 9)
        off = np.bincount(bins, weights * (true - said), minlength=10)
        total += float(np.abs(off).sum())
    return total / float(weights.sum()) / chances.shape[1]


def assert_no_worse(ours: Floats, theirs: Floats, labels: Any, binned: bool = True) -> None:
    """Log loss and calibration error, up to the sampling error of the differences.

    Three standard errors, by the rows' scatter and by the bootstrap.
    """
    happened = np.eye(ours.shape[1])[labels]
    losses = [-np.log(chances[np.arange(len(labels)), labels]) for chances in (ours, theirs)]
    worse = losses[0] - losses[1]
    assert worse.mean() < 3 * worse.std() / np.sqrt(len(worse))
    if not binned:
        return
    rng = np.random.default_rng(0)
    counts = rng.multinomial(len(labels), np.full(len(labels), 1 / len(labels)), BOOTSTRAPS)
    resampled = [
        calibration_error(ours, happened, w) - calibration_error(theirs, happened, w)
        for w in counts.astype(float)
    ]
    ones = np.ones(len(labels))
    off = calibration_error(ours, happened, ones) - calibration_error(theirs, happened, ones)
    assert off < 3 * np.std(resampled)


def compare(X: Floats, labels: Any, train: Any, test: Any, binned: bool = True) -> None:
    model = BayesianLogisticClassifier(draws=250).fit(X[train], labels[train])
    peer = make_pipeline(
        StandardScaler(),
        LogisticRegressionCV(
            scoring="neg_log_loss", max_iter=2000, use_legacy_attributes=False, l1_ratios=(0,)
        ),
    ).fit(X[train], labels[train])
    assert_no_worse(model.predict_proba(X[test]), peer.predict_proba(X[test]), labels[test], binned)


@pytest.mark.slow
def test_probabilities_of_a_small_table_are_no_worse_than_cross_validated() -> None:
    """By the log loss: bins of 284 rows, most of them certain, say little of calibration."""
    X, labels = load_breast_cancer(return_X_y=True)
    compare(X, labels, *halves(len(X)), binned=False)


@pytest.mark.slow
def test_probabilities_of_skin_are_no_worse_than_cross_validated(dataset: Load) -> None:
    data = dataset("skin")
    train, test = halves(len(data.X))
    X, labels = data.X.astype(float), data.y.astype(int)
    compare(X, labels, train[:10_000], test[:20_000])


@pytest.mark.slow
def test_probabilities_of_digits_are_no_worse_than_cross_validated() -> None:
    X, labels = load_digits(return_X_y=True)
    X = X.reshape(-1, 4, 2, 4, 2).sum(axis=(2, 4)).reshape(-1, 16)  # four pixels in one
    compare(X, labels, *halves(len(X)))
