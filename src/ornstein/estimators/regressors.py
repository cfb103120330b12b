"""Linear and Poisson regression."""

from dataclasses import dataclass
from typing import Any, Literal, Self, overload

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_tweedie_score
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.estimators import frames
from ornstein.estimators.base import BayesianGlm
from ornstein.models.families import Family, Gaussian, Poisson
from ornstein.results import predictive
from ornstein.results.arviz import interval_ends
from ornstein.tables.fitting import Scale


class _BayesianRegressor(frames.OutputMixin, RegressorMixin, BayesianGlm):  # type: ignore[misc]
    """Targets that are numbers."""

    _family: type[Family]

    def fit(
        self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Sample the posterior of these rows.

        Parameters
        ----------
        X, y
            Table and target, numbers without gaps: arrays, or frames of any library that narwhals
            knows, whose columns keep their names.
        sample_weight
            How much every row counts; a whole number has the effect of that many copies.
        """
        return self._regress(X, y, sample_weight, stream=False)

    def partial_fit(
        self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Continue with more rows: the posterior of all rows seen so far, none of them revisited.

        The earlier rows are kept as a Gaussian in the parameters, expanded at the optimum of that
        time. For a linear model that is exact; otherwise it is Laplace's approximation, which is
        less exact for many small parts than for a few large ones. Parameters are those of
        :meth:`fit`.
        """
        return self._regress(X, y, sample_weight, stream=True)

    @overload
    def predict(self, X: npt.ArrayLike, return_std: Literal[False] = False) -> Vector: ...

    @overload
    def predict(self, X: npt.ArrayLike, return_std: Literal[True]) -> tuple[Vector, Vector]: ...

    def predict(self, X: npt.ArrayLike, return_std: bool = False) -> Vector | tuple[Vector, Vector]:
        """The target's mean, and with ``return_std`` its standard deviation.

        The standard deviation is that of a new target: of the coefficients and of the noise.
        """
        table = self._table(X)
        if self._family.quadratic:  # the optimum is the mean, without Monte-Carlo error
            mean: Vector = table @ self.coef_ + self.intercept_
        else:
            mean = predictive.expectation(self.draws_, table)
        return (mean, predictive.spread(self.draws_, table)) if return_std else mean

    def predict_interval(self, X: npt.ArrayLike, interval: float = 0.9) -> Any:
        """Lower and upper ends of central intervals that contain a new target that often.

        Two arrays, or a frame with two columns if :meth:`set_output` asks for one.
        """
        table = self._table(X)
        found = predictive.summarise(self.draws_, table, interval, self._seed)
        ends = zip(interval_ends(interval), (found.low, found.high), strict=True)
        return self._contained(X, dict(ends))

    def _regress(
        self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: Any, stream: bool
    ) -> Self:
        numbers, own = frames.target(y), type(self).__name__
        shape: tuple[int, ...] = getattr(numbers, "shape", ())
        if len(shape) == 2 and shape[1] > 1:
            raise InputError(
                f"y must have one column for {own}, found shape {shape}. For several targets: "
                f"MultiTargetRegressor({own}())."
            )
        first, fewest = not (stream and self._again()), 1 if stream else 2
        table, target = validate_data(
            self,
            frames.table(X, own),
            numbers,
            dtype=float,
            y_numeric=True,
            reset=first,
            ensure_min_samples=fewest,
        )
        target = np.asarray(target, float)
        if self.__sklearn_tags__().target_tags.positive_only and target.min() < 0:
            least = f"{target.min():g}"
            raise InputError(
                f"y must hold counts or rates, 0 or above, for a Poisson model; found {least}."
            )
        coef, intercept = self._fit_rows(self._family(), table, target, sample_weight, stream)
        if not self._family.quadratic or self._result.hyper is not None:
            # Else the optimum is the mean, without Monte-Carlo error.
            coef, intercept = self.draws_.coef.mean(axis=0), self.draws_.intercept
        self.coef_, self.intercept_ = coef, float(np.mean(intercept))
        return self


@dataclass(eq=False, repr=False)
class BayesianLinearRegressor(_BayesianRegressor):
    """Linear regression with normal noise.

    Parameters
    ----------
    prior_precision
        Of the normal prior on the coefficients of standardised columns and target: a number, one
        for each column, or unknown. The intercept's is 0.01. What is unknown is drawn with the
        coefficients (``"draw"``), so that intervals include its uncertainty, or learned
        (``"learn"``): one value. ``"auto"`` draws where that is possible: up to 2,000
        coefficients, the default method, :meth:`fit`.
    noise_scale
        Standard deviation of the noise in the target's unit: a number, or unknown likewise.
    groups
        Which columns share a learned precision, as for :func:`ornstein.models.linear`: all (None),
        none (``"columns"``), or those of one label.
    fit_intercept
        Whether to have an intercept. Without, columns and target are scaled but not centred.
    method, batch_size
        As for :func:`ornstein.plan`.
    chains, draws
        Chains, and kept draws of each.
    random_state
        A whole number for the same draws at every call, a RandomState, or None.

    Attributes
    ----------
    coef_, intercept_
        Posterior means in the units of columns and target.
    coef_std_
        Posterior standard deviations.
    noise_scale_, prior_precision_
        As learned or given, or medians of what was drawn; the precision is that of standardised
        coefficients.
    draws_
        Draws of coefficients, intercept and noise in the units of columns and target.
    posterior_
        The run, in standardised units: see :class:`ornstein.Result`.
    n_features_in_, feature_names_in_
        Columns, and their names if they have any.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = X @ [1.0, 0.5, -2.0] + 0.5 * rng.normal(size=200)
    >>> model = BayesianLinearRegressor(draws=100).fit(X, y)
    >>> model.coef_.round(1).tolist(), round(model.noise_scale_, 1)
    ([1.0, 0.5, -2.0], 0.5)
    """

    _family = Gaussian

    noise_scale: Scale = "auto"

    @property
    def noise_scale_(self) -> float:
        """As learned or given, in the target's unit; the median where it is drawn."""
        return float(np.median(self.draws_.noise_scale))


class BayesianPoissonRegressor(_BayesianRegressor):
    """Poisson regression of counts, the logarithm of whose mean is linear.

    Targets may be rates, with the exposure as ``sample_weight``: counts per year weighted by years
    have the likelihood of the counts. Intervals are then those of a target with exposure 1.

    Parameters
    ----------
    prior_precision, groups, fit_intercept, method, batch_size, chains, draws, random_state
        As for :class:`BayesianLinearRegressor`.

    Attributes
    ----------
    coef_, intercept_
        Posterior means in the columns' units, on the logarithmic scale.
    coef_std_
        Posterior standard deviations.
    prior_precision_, draws_, posterior_, n_features_in_, feature_names_in_
        As for :class:`BayesianLinearRegressor`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = rng.poisson(np.exp(1.0 + X @ [0.5, -0.5]))
    >>> model = BayesianPoissonRegressor(draws=100).fit(X, y)
    >>> model.coef_.round(1).tolist()
    [0.5, -0.5]
    """

    _family = Poisson

    def score(
        self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> float:
        """Share of the Poisson deviance explained, D², as scikit-learn's PoissonRegressor has."""
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))

    def __sklearn_tags__(self) -> Tags:
        """Targets may not be negative."""
        tags: Tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
