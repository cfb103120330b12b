"""Logistic regression of two or more classes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from ornstein._base.checks import shown
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.data import inputs
from ornstein.estimators import frames
from ornstein.estimators.base import BayesianGlm
from ornstein.models.families import Bernoulli, Categorical, Family
from ornstein.results import predictive


@dataclass(eq=False, repr=False)
class BayesianLogisticClassifier(ClassifierMixin, BayesianGlm):  # type: ignore[misc]
    """Logistic regression; multinomial where there are more than two classes.

    Parameters
    ----------
    class_weight
        How much the rows of every class count: a mapping, ``"balanced"`` for classes that count
        alike, or None. It multiplies ``sample_weight``.
    prior_precision, groups, fit_intercept, method, batch_size, chains, draws, random_state
        As for :class:`BayesianLinearRegressor`.

    Attributes
    ----------
    classes_
        The labels.
    coef_, intercept_
        Posterior means in the columns' units, one line per class; of the second alone where there
        are two.
    coef_std_
        Posterior standard deviations.
    prior_precision_, draws_, posterior_, n_features_in_, feature_names_in_
        As for :class:`BayesianLinearRegressor`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> y = np.where(X[:, 0] + rng.logistic(size=400) > 0, "yes", "no")
    >>> model = BayesianLogisticClassifier(draws=100).fit(X, y)
    >>> model.predict([[3.0, 0.0]]).tolist(), bool(model.predict_proba([[3.0, 0.0]])[0, 1] > 0.9)
    (['yes'], True)
    """

    class_weight: Mapping[Any, float] | Literal["balanced"] | None = field(
        default=None, kw_only=True
    )

    def fit(
        self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Sample the posterior of these rows.

        Parameters
        ----------
        X, y
            Table and labels: arrays, or frames of any library that narwhals knows, whose columns
            keep their names.
        sample_weight
            How much every row counts; a whole number has the effect of that many copies.
        """
        table, labels = self._checked(X, y, reset=True)
        self.classes_, target = np.unique(labels, return_inverse=True)
        weights = self._weights(target, sample_weight)
        counted = np.unique(target if weights is None else target[weights > 0])
        if len(counted) < 2:
            raise InputError(
                f"y has one class only ({shown(self.classes_[counted].tolist()[0])}) among rows "
                "that count: there is nothing to classify."
            )
        return self._classify(table, target, weights, stream=False)

    def partial_fit(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike,
        classes: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
    ) -> Self:
        """Continue with more rows: the posterior of all rows seen so far, none of them revisited.

        The earlier rows are kept as a Gaussian in the parameters, expanded at the optimum of that
        time: Laplace's approximation, which is less exact for many small parts than for a few
        large ones.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`fit`.
        classes
            All labels that may come; needed with the first rows.
        """
        first = not self._again()
        if first and classes is None:
            raise InputError("classes must be given with the first rows of a stream.")
        if isinstance(self.class_weight, str):
            raise InputError(
                "class_weight='balanced' needs all rows at once; give partial_fit a mapping of "
                "labels to weights."
            )
        table, labels = self._checked(X, y, reset=first)
        expected = np.unique(np.asarray(classes)) if classes is not None else self.classes_
        listed, strange = shown(expected.tolist()), np.setdiff1d(labels, expected)
        if not first and not np.array_equal(expected, self.classes_):
            raise InputError(f"classes changed from {shown(self.classes_.tolist())} to {listed}.")
        if len(expected) < 2:
            raise InputError(f"classes must hold two labels or more, found {listed}.")
        if len(strange):
            label = shown(strange.tolist()[0])
            raise InputError(f"y has the label {label}, which is none of the classes {listed}.")
        self.classes_ = expected
        target = np.searchsorted(expected, labels)
        return self._classify(table, target, self._weights(target, sample_weight), stream=True)

    def predict_proba(self, X: npt.ArrayLike) -> Vector:
        """Probability of every class, averaged over the draws: (rows, classes)."""
        table = self._table(X)
        return predictive.probabilities(self.draws_, table)

    def predict_log_proba(self, X: npt.ArrayLike) -> Vector:
        """Logarithms of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """The most probable class of every row."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def _targets(self, simulated: Vector) -> npt.NDArray[Any]:
        return self.classes_[simulated.astype(int)]

    def _checked(
        self, X: npt.ArrayLike, y: npt.ArrayLike, reset: bool
    ) -> tuple[Vector, npt.NDArray[Any]]:
        table, labels = validate_data(
            self,
            frames.table(X, type(self).__name__),
            frames.labels(y),
            dtype=np.float64,
            reset=reset,
        )
        check_classification_targets(labels)
        return table, labels

    def _weights(
        self, target: npt.NDArray[np.intp], sample_weight: npt.ArrayLike | None
    ) -> Vector | None:
        """Weights of rows, those of classes included."""
        own = None if sample_weight is None else inputs.weights(sample_weight, len(target))
        if self.class_weight is None:
            return own
        classes, rows = self.classes_, np.ones(len(target)) if own is None else own
        try:
            with np.errstate(divide="ignore"):  # of a class none of whose rows counts
                by_class = compute_class_weight(
                    self.class_weight, classes=classes, y=classes[target], sample_weight=rows
                )
        except (TypeError, ValueError) as error:
            raise InputError(f"class_weight={shown(self.class_weight)}: {error}") from None
        return np.where(rows > 0, rows * np.asarray(by_class, float)[target], 0.0)

    def _classify(
        self, table: Vector, target: npt.NDArray[np.intp], weights: Vector | None, stream: bool
    ) -> Self:
        count = len(self.classes_)
        family: Family = Bernoulli() if count == 2 else Categorical(count)
        numbers = target.astype(float if count == 2 else np.int32)
        self._fit_rows(family, table, numbers, weights, stream)
        self.coef_ = np.atleast_2d(self.draws_.coef.mean(axis=0))
        self.intercept_ = np.atleast_1d(self.draws_.intercept.mean(axis=0))
        return self
