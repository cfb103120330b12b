"""An estimator of a formula: tables in, predictions out."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ornstein._base.types import Vector
from ornstein.results import predictive
from ornstein.results.arviz import interval_ends
from ornstein.tables.fit_tables import fit_table
from ornstein.tables.formulas import learn_formula
from ornstein.tables.model import TableModel


@dataclass(eq=False)
class BayesianFormulaRegressor(BaseEstimator):  # type: ignore[misc]
    """A formula and a family, with scikit-learn's interface. The target is a column of the table.

    Parameters
    ----------
    formula
        Such as ``y ~ x + bs(age, df=5) + (1|school) + offset(log(n))``.
    family
        Name of the family; guessed from the target if not given.
    missing
        ``refuse`` missing values, or ``drop`` the rows that have any.
    prior_precision
        Of standardised coefficients of fixed effects; 0.16 if not given.
    priors
        Normal priors of single standardised coefficients and of auxiliary parameters, by name.
    draws, method, random_state
        As for :func:`ornstein.sample`; the last one is its key.

    Attributes
    ----------
    model_
        The fitted :class:`ornstein.tables.TableModel`: ``summary()``, ``save(folder)``.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"x": np.arange(60.0) % 7, "y": np.arange(60) % 5})
    >>> model = BayesianFormulaRegressor("y ~ poly(x, 2)", family="poisson", draws=50).fit(frame)
    >>> model.predict(frame.head(3)).shape
    (3,)
    """

    formula: str
    family: str | None = None
    missing: str = "refuse"
    prior_precision: float | None = None
    priors: Any = None
    draws: int | None = None
    method: str = "auto"
    random_state: int = 0

    def fit(self, X: Any, y: None = None) -> Self:
        """Sample the posterior of a table's rows; ``y`` is in the table, and ignored here."""
        del y
        table = learn_formula(X, self.formula, self.family, self.missing)
        self.model_: TableModel = fit_table(
            table,
            prior_precision=self.prior_precision,
            priors=self.priors,
            draws=self.draws,
            key=self.random_state,
            method=self.method,
            progress=False,
        )
        return self

    def predict(self, X: Any) -> Any:
        """The target's mean in every row, or its most probable class."""
        found = self._predicted(X)
        return np.asarray(found["predicted" if "predicted" in found else "mean"])

    def predict_proba(self, X: Any) -> Vector:
        """Of every class, for families of classes."""
        rows = self._fitted.new_rows(X)
        return predictive.probabilities(self._fitted.draws, rows)

    def predict_interval(self, X: Any, interval: float = 0.9) -> tuple[Vector, Vector]:
        """Ends of central intervals that contain a new target that often."""
        found = self._predicted(X, interval)
        low, high = (np.asarray(found[name], float) for name in interval_ends(interval))
        return low, high

    def save(self, folder: str | Path, overwrite: bool = False) -> Path:
        """Save to a folder, without pickles; ``ornstein.tables.TableModel.load`` reads it."""
        return self._fitted.save(folder, overwrite=overwrite)

    @property
    def _fitted(self) -> TableModel:
        check_is_fitted(self, "model_")
        return self.model_

    def _predicted(self, X: Any, interval: float = 0.9) -> Any:
        return self._fitted.predict(X, interval)
