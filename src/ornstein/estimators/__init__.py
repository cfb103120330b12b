"""Estimators with scikit-learn's interface, for tables that fit memory.

Prior precision and noise are learned unless given, columns are standardised inside, and every
prediction comes with its uncertainty.

>>> from sklearn.datasets import load_diabetes
>>> X, y = load_diabetes(return_X_y=True)
>>> model = BayesianLinearRegressor(draws=200).fit(X[:400], y[:400])
>>> low, high = model.predict_interval(X[400:])
>>> bool(0.8 < ((low < y[400:]) & (y[400:] < high)).mean())
True
"""

from ornstein.estimators._classifier import BayesianLogisticClassifier
from ornstein.estimators._loading import load
from ornstein.estimators._regressors import BayesianLinearRegressor, BayesianPoissonRegressor

__all__ = [
    "BayesianLinearRegressor",
    "BayesianLogisticClassifier",
    "BayesianPoissonRegressor",
    "load",
]
