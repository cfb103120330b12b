"""Estimators with scikit-learn's interface, for tables that fit memory.

Prior precision and noise are learned unless given, columns are standardised internally, and every
prediction comes with its uncertainty. Read ``base`` first; ``streams`` is about ``partial_fit``.

>>> from sklearn.datasets import load_diabetes
>>> X, y = load_diabetes(return_X_y=True)
>>> model = BayesianLinearRegressor(draws=200).fit(X[:400], y[:400])
>>> low, high = model.predict_interval(X[400:])
>>> bool(0.8 < ((low < y[400:]) & (y[400:] < high)).mean())
True
"""

from ornstein._base import extras

extras.require("sklearn", "ornstein.estimators")

from ornstein.estimators.classifier import BayesianLogisticClassifier
from ornstein.estimators.folders import load
from ornstein.estimators.formula import BayesianFormulaRegressor
from ornstein.estimators.regressors import BayesianLinearRegressor, BayesianPoissonRegressor
from ornstein.estimators.several import MultiTargetRegressor

__all__ = [
    "BayesianFormulaRegressor",
    "BayesianLinearRegressor",
    "BayesianLogisticClassifier",
    "BayesianPoissonRegressor",
    "MultiTargetRegressor",
    "load",
]
