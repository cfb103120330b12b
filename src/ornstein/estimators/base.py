"""What the estimators share: fitting, fitted attributes, predictive draws."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.data import inputs
from ornstein.estimators import frames
from ornstein.estimators.streams import Kept, Moments, earlier_rows, past_of
from ornstein.models.families import Family
from ornstein.models.hyperparameters import Groups
from ornstein.models.ready_made import weighted_rows
from ornstein.results.predictive import Coefficients, simulate
from ornstein.results.result import Result
from ornstein.tables.fitting import FitOptions, Precision, Scale, fit_rows, hyperparameters


@dataclass(eq=False, repr=False)
class BayesianGlm(BaseEstimator):  # type: ignore[misc]
    """A generalised linear model with a normal prior on the coefficients of standardised columns.

    Parameters and attributes are described with the estimators.
    """

    prior_precision: Precision = "auto"
    _: KW_ONLY
    groups: Groups = None
    fit_intercept: bool = True
    method: str = "auto"
    batch_size: int | None = None
    chains: int = 4
    draws: int = 1000
    random_state: Any = 0

    @property
    def posterior_(self) -> Result:
        """The run, in standardised units: draws, plan, diagnosis, and what was learned.

        It has the rows, so folders, copies and pickles go without it.
        """
        check_is_fitted(self, "draws_")
        if "_result" not in vars(self):
            raise AttributeError(
                "posterior_ has the rows, so folders, copies and pickles go without it; fit again "
                "to have it. draws_ has the draws."
            )
        return self._result

    @property
    def coef_std_(self) -> Vector:
        """Posterior standard deviations of the coefficients."""
        return self.draws_.coef.std(axis=0).reshape(self.coef_.shape)

    def __getstate__(self) -> dict[str, Any]:
        """All but the run."""
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_result", None)
        return state

    def save(self, folder: str | Path, overwrite: bool = False) -> Path:
        """Save the estimator to a folder: JSON and NetCDF, no pickles.

        :func:`ornstein.estimators.load` reads it. The folder appears complete or not at all;
        ``draws.nc`` opens in ArviZ.
        """
        from ornstein.estimators.folders import save

        check_is_fitted(self, "draws_")
        return save(self, folder, overwrite)

    def sample_predictive(self, X: npt.ArrayLike, draws: int | None = None) -> npt.NDArray[Any]:
        """Simulated targets: one for every draw and row, (draws, rows).

        Parameters
        ----------
        X
            Rows.
        draws
            How many, evenly spaced among the posterior draws; all by default.
        """
        table, chosen = self._table(X), self.draws_
        if draws is not None:
            made = len(chosen.coef)
            count = checks.whole("draws", draws, high=made, why="as many were made")
            chosen = chosen.thinned(count)
        return self._targets(simulate(chosen, table, np.random.default_rng(self._seed)))

    def _targets(self, simulated: Vector) -> npt.NDArray[Any]:
        """Simulated targets as a user knows them."""
        return simulated

    def _table(self, X: npt.ArrayLike) -> Vector:
        """New rows, checked against those fitted to."""
        check_is_fitted(self, "draws_")
        return np.asarray(
            validate_data(self, frames.table(X, type(self).__name__), dtype=np.float64, reset=False)
        )

    def _options(self) -> FitOptions:
        run = {name: getattr(self, name) for name in ("chains", "draws", "method", "batch_size")}
        run |= {"key": _key(self.random_state), "progress": False}
        intercept = checks.flag("fit_intercept", self.fit_intercept)
        noise: Scale = getattr(self, "noise_scale", "auto")
        return FitOptions(self.prior_precision, noise, self.groups, intercept, run)

    def _fit_rows(
        self, family: Family, X: Vector, y: Vector, sample_weight: Any, stream: bool
    ) -> tuple[Vector, Vector]:
        """Sample, keep what all estimators keep, and return the optimum in the user's units."""
        options, before = self._options(), vars(self).get("_kept") if stream else None
        if stream and before is None and self._again():
            raise InputError(
                "partial_fit cannot continue from this fit: its method or its many parameters left "
                "no matrix of curvature. Start with partial_fit on a new estimator."
            )
        weights = None if sample_weight is None else inputs.weights(sample_weight, len(X))
        counted = np.ones(len(X)) if weights is None else weights
        moments = Moments.of(np.column_stack([X, y]).astype(float), counted)
        if before is not None:
            moments = before.moments.joined(moments)
        units = moments.units(options.fit_intercept, family.scaled)
        rows = weighted_rows(
            units.encode(X), units.encode_target(y) if family.scaled else y, weights
        )
        past = None
        if stream:
            past = earlier_rows(family, X.shape[1], options.fit_intercept, units, before)
        start = None if before is None else before.start(units)
        names = getattr(self, "feature_names_in_", None)
        result = fit_rows(family, rows, names, units, options, past, start)
        self._result, self._seed, self._chains = result, options.run["key"], len(result.flat)
        found = Coefficients.of_result(result)
        noise = np.asarray(found.noise_scale) * units.target_scale
        self.draws_ = Coefficients(found.model, *units.own(found._asdict()), noise)
        values = result.posterior.hyperparameters or {}
        learned = {name: np.asarray(value, float) for name, value in values.items()}
        given = hyperparameters(result, units)["prior_precision"]
        if result.hyper is not None and "prior_precision" in learned:
            drawn = result.hyper_draws["prior_precision"]
            precision = np.median(drawn.reshape(-1, *drawn.shape[2:]), axis=0)
        else:
            precision = np.asarray(learned.get("prior_precision", given))
        self.prior_precision_ = precision if np.ptp(precision) else float(precision.flat[0])
        kept = past_of(result, past, options.fit_intercept)
        self._kept = None if kept is None else Kept(moments, units, kept, learned)
        return units.own(result.posterior.layout.unravel(result.plan.center))

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
        found = checks.shown(random_state)
        raise InputError(
            f"random_state must be a whole number, a RandomState or None, found {found}."
        ) from None
