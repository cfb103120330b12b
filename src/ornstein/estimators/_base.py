"""What the estimators share: fitted attributes, streams, targets to expect."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ornstein._base import checks
from ornstein._base.checks import shown
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.estimators._fitting import Fit, Kept, Options, Precision, fit_rows
from ornstein.estimators._saving import save
from ornstein.models.shared_priors import Groups
from ornstein.results.predictive import Coefficients, simulate
from ornstein.results.result import Result


class BayesianGlm(BaseEstimator):  # type: ignore[misc]
    """A generalised linear model with a normal prior on the coefficients of standardised columns.

    Attributes are described with the estimators.
    """

    draws_: Coefficients
    n_features_in_: int
    prior_precision_: float | Vector
    _kept: Kept | None
    _result: Result
    _seed: int
    _chains: int

    def __init__(
        self,
        prior_precision: Precision = "learn",
        *,
        groups: Groups = None,
        fit_intercept: bool = True,
        method: str = "exact",
        batch_size: int | None = None,
        chains: int = 4,
        draws: int = 1000,
        random_state: Any = 0,
    ) -> None:
        self.prior_precision = prior_precision
        self.groups = groups
        self.fit_intercept = fit_intercept
        self.method = method
        self.batch_size = batch_size
        self.chains = chains
        self.draws = draws
        self.random_state = random_state

    @property
    def posterior_(self) -> Result:
        """The run, in standardised units: draws, plan, diagnosis, and what was learned.

        It holds the rows, so it is not kept in folders, copies and pickles.
        """
        check_is_fitted(self, "draws_")
        if "_result" not in vars(self):
            raise AttributeError(
                "posterior_ holds the rows, so it is not kept in folders, copies and pickles; fit "
                "again for it. draws_ has the draws."
            )
        return self._result

    def __getstate__(self) -> dict[str, Any]:
        """All but the run."""
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_result", None)
        return state

    def save(self, folder: str | Path, overwrite: bool = False) -> Path:
        """Keep the estimator in a folder: JSON and NetCDF, no pickles.

        :func:`ornstein.estimators.load` reads it. The folder appears complete or not at all;
        ``draws.nc`` opens in ArviZ.
        """
        check_is_fitted(self, "draws_")
        return save(self, folder, overwrite)

    def sample_predictive(self, X: npt.ArrayLike, draws: int | None = None) -> npt.NDArray[Any]:
        """Targets as the model would make them: one for every draw and row, (draws, rows).

        Parameters
        ----------
        X
            Rows.
        draws
            How many, evenly spaced among those that were made; all by default.
        """
        table, chosen = self._table(X), self.draws_
        if draws is not None:
            made = len(chosen.coef)
            count = checks.whole("draws", draws, high=made, why="as many were made")
            at = np.linspace(0, made - 1, count).astype(int)
            chosen = chosen._replace(coef=chosen.coef[at], intercept=chosen.intercept[at])
        return self._targets(simulate(chosen, table, np.random.default_rng(self._seed)))

    def _targets(self, simulated: Vector) -> npt.NDArray[Any]:
        """Simulated targets as a user knows them."""
        return simulated

    def _table(self, X: npt.ArrayLike) -> Vector:
        """New rows, checked against those fitted to."""
        check_is_fitted(self, "draws_")
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False))

    def _options(self) -> Options:
        return Options(
            prior_precision=self.prior_precision,
            noise_scale=getattr(self, "noise_scale", 1.0),
            groups=self.groups,
            fit_intercept=self.fit_intercept,
            method=self.method,
            batch_size=self.batch_size,
            chains=self.chains,
            draws=self.draws,
            key=_key(self.random_state),
        )

    def _fit_rows(
        self,
        model: str,
        classes: int,
        X: Vector,
        y: npt.NDArray[Any],
        sample_weight: npt.ArrayLike | None,
        stream: bool,
    ) -> Fit:
        """Sample, and keep what all estimators keep."""
        options = self._options()
        names = getattr(self, "feature_names_in_", None)
        before = vars(self).get("_kept") if stream else None
        if stream and before is None and "draws_" in vars(self):
            raise InputError(
                "partial_fit can not go on from this fit: its method or its many parameters left "
                "no matrix of curvature. Begin with partial_fit on a new estimator."
            )
        fit = fit_rows(model, classes, X, y, sample_weight, names, options, stream, before)
        self._result, self._kept, self._seed = fit.result, fit.kept, int(options.key)
        self._chains = len(fit.result.flat)
        self.draws_ = fit.draws
        self.prior_precision_ = (
            float(fit.prior_precision) if fit.prior_precision.ndim == 0 else fit.prior_precision
        )
        return fit

    def _again(self) -> bool:
        """Whether a stream has begun."""
        return "draws_" in vars(self)


def _key(random_state: Any) -> int:
    """A key from what scikit-learn takes for a random state."""
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return checks.whole("random_state", random_state, low=0, high=2**32 - 1)
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError:
        raise InputError(
            f"random_state must be a whole number, a RandomState or None, found "
            f"{shown(random_state)}."
        ) from None
