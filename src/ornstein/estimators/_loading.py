"""Fitted estimators from folders. The reader is strict: what is damaged is refused."""

import json
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ornstein._base.checks import shown
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.estimators._saving import ABOUT, DRAWS, DTYPES, FORMAT, STREAM
from ornstein.estimators.classifier import BayesianLogisticClassifier
from ornstein.estimators.regressors import BayesianLinearRegressor, BayesianPoissonRegressor
from ornstein.estimators.streams import Kept, Moments
from ornstein.models.earlier_rows import Past
from ornstein.results.predictive import Coefficients
from ornstein.tables.units import Units

Estimator: TypeAlias = (
    BayesianLinearRegressor | BayesianLogisticClassifier | BayesianPoissonRegressor
)

_KINDS: dict[str, type[Estimator]] = {
    kind.__name__: kind
    for kind in (BayesianLinearRegressor, BayesianLogisticClassifier, BayesianPoissonRegressor)
}


def load(folder: str | Path) -> Estimator:
    """Read the estimator that ``save`` wrote; anything else is an :class:`ornstein.InputError`.

    It predicts as it did and can go on with ``partial_fit``, but has no ``posterior_``.

    Examples
    --------
    >>> import tempfile
    >>> X = np.linspace(-1, 1, 50)[:, None]
    >>> model = BayesianLinearRegressor(draws=50).fit(X, X[:, 0] ** 2)
    >>> with tempfile.TemporaryDirectory() as home:
    ...     again = load(model.save(f"{home}/model"))
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    place = Path(folder)
    for name in (ABOUT, DRAWS, STREAM):
        if not (place / name).is_file():
            raise InputError(f"{place} holds no estimator: it has no {name}.")
    about = _read_about(place / ABOUT)
    try:
        estimator = _rebuilt(about)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _damaged(place / ABOUT, error) from None
    estimator._chains, estimator.draws_ = _read_draws(place / DRAWS, estimator, about)
    estimator._kept = _read_stream(place / STREAM, estimator)
    estimator.coef_std_ = estimator.draws_.coef.std(axis=0).reshape(estimator.coef_.shape)
    return estimator


def _damaged(path: Path, why: Any) -> InputError:
    return InputError(f"{path} is damaged ({shown(str(why))}); save the estimator again.")


def _read_about(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
        version = found["format"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise _damaged(path, error) from None
    if version != FORMAT:
        raise InputError(f"{path} has format {shown(version)}; this version reads {FORMAT}.")
    return dict(found)


def _rebuilt(about: dict[str, Any]) -> Estimator:
    """The estimator with all that the JSON holds; errors of any kind mean damage."""
    given = {name: _parameter(value) for name, value in about["parameters"].items()}
    estimator = _KINDS[about["estimator"]](**given)
    columns = about["columns"]
    if not isinstance(columns, int) or columns < 1:
        raise ValueError(f"{shown(columns)} columns")
    estimator.n_features_in_ = columns
    if about["names"] is not None:
        if len(about["names"]) != columns or not all(isinstance(n, str) for n in about["names"]):
            raise ValueError(f"names {shown(about['names'])}")
        estimator.feature_names_in_ = np.asarray(about["names"], object)
    shape: tuple[int, ...] = (columns,)
    if isinstance(estimator, BayesianLogisticClassifier):
        estimator.classes_ = _classes(about["classes"])
        count = len(estimator.classes_)
        shape = (1 if count == 2 else count, columns)
    estimator.coef_ = _numbers("coef", about, shape)
    intercept = _numbers("intercept", about, shape[:-1])
    estimator.intercept_ = intercept if shape[:-1] else float(intercept)
    precision = _numbers("prior_precision", about)
    estimator.prior_precision_ = precision if precision.ndim else float(precision)
    if isinstance(estimator, BayesianLinearRegressor):
        estimator.noise_scale_ = float(_numbers("noise_scale", about, ()))
    estimator._seed = int(_numbers("seed", about, ()))
    return estimator


def _parameter(value: Any) -> Any:
    return dict(map(tuple, value["pairs"])) if isinstance(value, dict) else value


def _classes(found: dict[str, Any]) -> npt.NDArray[Any]:
    labels: npt.NDArray[Any] = np.asarray(found["labels"], DTYPES[found["kind"]])
    if labels.ndim != 1 or len(np.unique(labels)) != len(labels) or len(labels) < 2:
        raise ValueError(f"classes {shown(found['labels'])}")
    return labels


def _numbers(name: str, about: dict[str, Any], shape: tuple[int, ...] | None = None) -> Vector:
    values = np.asarray(about[name], float)
    if (shape is not None and values.shape != shape) or not np.isfinite(values).all():
        raise ValueError(f"{name} of shape {values.shape}")
    return values


def _variables(path: Path, group: str | None) -> dict[str, Vector]:
    """All variables of a NetCDF file."""
    import xarray

    try:
        with xarray.open_dataset(path, group=group, engine="h5netcdf") as found:
            return {str(name): np.asarray(v.values, float) for name, v in found.data_vars.items()}
    except (OSError, KeyError, ValueError, RuntimeError, TypeError) as error:
        raise _damaged(path, error) from None


def _read_draws(
    path: Path, estimator: Estimator, about: dict[str, Any]
) -> tuple[int, Coefficients]:
    found = _variables(path, "posterior")
    model = "linear" if isinstance(estimator, BayesianLinearRegressor) else "poisson"
    own: tuple[int, ...] = (estimator.n_features_in_,)
    if isinstance(estimator, BayesianLogisticClassifier):
        several = len(estimator.classes_) > 2
        model = "softmax" if several else "logistic"
        own = estimator.coef_.shape if several else own
    if not {"coef", "intercept"} <= set(found):
        raise _damaged(path, "coef and intercept are missing")
    coef, intercept = found["coef"], found["intercept"]
    if coef.ndim < 3 or coef.shape[2:] != own or intercept.shape != coef.shape[:-1]:
        raise InputError(f"{path} does not belong to this folder's {ABOUT}; save again.")
    if not (coef.size and np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise _damaged(path, "no finite draws")
    noise = float(about["noise_scale"]) if model == "linear" else 0.0
    return len(coef), Coefficients.gather(model, coef, intercept, noise)


def _read_stream(path: Path, estimator: Estimator) -> Kept | None:
    found = _variables(path, None)
    if not found:
        return None
    parts: dict[str, dict[str, Any]] = {"moments": {}, "units": {}, "past": {}, "learned": {}}
    try:
        for name, values in found.items():
            prefix, field = name.split("_", 1)
            parts[prefix][field] = values
            if not np.isfinite(values).all():
                raise ValueError(f"{name} is not finite")
        parts["units"] |= {name: float(parts["units"][name]) for name in _TARGET}
        moments = {**parts["moments"], "weight": float(parts["moments"]["weight"])}
        kept = Kept(
            Moments(**moments),
            Units(**parts["units"]),
            Past(**parts["past"]),
            parts["learned"],
        )
        dim = estimator.coef_.size + estimator.fit_intercept * np.size(estimator.intercept_)
        columns = estimator.n_features_in_
        fits = kept.past.hessian.shape == (dim, dim) and kept.past.slope.shape == (dim,)
        fits = fits and kept.units.scale.shape == kept.units.centre.shape == (columns,)
        if not fits or kept.moments.mean.shape != (columns + 1,):
            raise ValueError("shapes do not fit")
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, error) from None
    return kept


_TARGET = ("target_centre", "target_scale")
