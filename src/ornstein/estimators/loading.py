"""Fitted estimators from folders. The reader is strict: what is damaged is refused."""

from pathlib import Path
from typing import Any, TypeAlias

import jax
import numpy as np
import numpy.typing as npt

from ornstein._base.checks import shown
from ornstein._base.errors import CheckpointError, InputError
from ornstein._base.types import Vector
from ornstein.estimators.classifier import BayesianLogisticClassifier
from ornstein.estimators.regressors import BayesianLinearRegressor, BayesianPoissonRegressor
from ornstein.estimators.saving import ABOUT, DRAWS, DTYPES, STREAM, VERSION, About
from ornstein.estimators.streams import Kept
from ornstein.results.predictive import Coefficients
from ornstein.storage import codec, records

Estimator: TypeAlias = (
    BayesianLinearRegressor | BayesianLogisticClassifier | BayesianPoissonRegressor
)

_KINDS: dict[str, type[Estimator]] = {
    kind.__name__: kind
    for kind in (BayesianLinearRegressor, BayesianLogisticClassifier, BayesianPoissonRegressor)
}


def load(folder: str | Path) -> Estimator:
    """Read the estimator that ``save`` wrote; anything else is an :class:`ornstein.InputError`.

    It predicts as before and takes more rows by ``partial_fit``, but has no ``posterior_``.

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
    try:
        text = (place / ABOUT).read_text()
    except (OSError, ValueError) as error:
        raise _damaged(place / ABOUT, error) from None
    about = codec.from_json(text, About, VERSION, str(place / ABOUT))
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


def _rebuilt(about: About) -> Estimator:
    """The estimator but for draws and stream; errors of any kind mean damage."""
    estimator = _KINDS[about.estimator](**about.parameters)
    columns = about.columns
    if columns < 1:
        raise ValueError(f"{columns} columns")
    estimator.n_features_in_ = columns
    if about.names is not None:
        if len(about.names) != columns:
            raise ValueError(f"names {shown(about.names)}")
        estimator.feature_names_in_ = np.asarray(about.names, object)
    shape: tuple[int, ...] = (columns,)
    if isinstance(estimator, BayesianLogisticClassifier):
        estimator.classes_ = _classes(about)
        count = len(estimator.classes_)
        shape = (1 if count == 2 else count, columns)
    estimator.coef_ = _numbers("coef", about.coef, shape)
    intercept = _numbers("intercept", about.intercept, shape[:-1])
    estimator.intercept_ = intercept if shape[:-1] else float(intercept)
    precision = _numbers("prior_precision", about.prior_precision)
    estimator.prior_precision_ = precision if precision.ndim else float(precision)
    if isinstance(estimator, BayesianLinearRegressor):
        estimator.noise_scale_ = float(_numbers("noise_scale", about.noise_scale, ()))
    estimator._seed = about.seed
    return estimator


def _classes(about: About) -> npt.NDArray[Any]:
    if about.classes is None:
        raise ValueError("no classes")
    kind, found = about.classes
    labels: npt.NDArray[Any] = np.asarray(found, DTYPES[kind])
    if labels.ndim != 1 or len(np.unique(labels)) != len(labels) or len(labels) < 2:
        raise ValueError(f"classes {shown(found)}")
    return labels


def _numbers(name: str, found: Any, shape: tuple[int, ...] | None = None) -> Vector:
    values = np.asarray(found, float)
    if (shape is not None and values.shape != shape) or not np.isfinite(values).all():
        raise ValueError(f"{name} of shape {values.shape}")
    return values


def _posterior(path: Path) -> dict[str, Vector]:
    """All variables of the draws."""
    import xarray

    try:
        with xarray.open_dataset(path, group="posterior", engine="h5netcdf") as found:
            return {str(name): np.asarray(v.values, float) for name, v in found.data_vars.items()}
    except (OSError, KeyError, ValueError, RuntimeError, TypeError) as error:
        raise _damaged(path, error) from None


def _read_draws(path: Path, estimator: Estimator, about: About) -> tuple[int, Coefficients]:
    found = _posterior(path)
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
    noise = about.noise_scale if model == "linear" else 0.0
    return len(coef), Coefficients.gather(model, coef, intercept, noise)


def _read_stream(path: Path, estimator: Estimator) -> Kept | None:
    try:
        kept = records.unpack(path.read_bytes())
        if kept is None:
            return None
        if not isinstance(kept, Kept):
            raise ValueError(f"no stream: {shown(kept)}")
        leaves = jax.tree.leaves(kept)
        if not all(np.isfinite(np.asarray(leaf, float)).all() for leaf in leaves):
            raise ValueError("it is not finite")
        dim = estimator.coef_.size + estimator.fit_intercept * np.size(estimator.intercept_)
        columns = estimator.n_features_in_
        fits = np.shape(kept.past.hessian) == (dim, dim) and np.shape(kept.past.slope) == (dim,)
        fits = fits and np.shape(kept.units.scale) == np.shape(kept.units.centre) == (columns,)
        if not fits or np.shape(kept.moments.mean) != (columns + 1,):
            raise ValueError("shapes do not fit")
    except (OSError, CheckpointError, TypeError, ValueError) as error:
        raise _damaged(path, error) from None
    return kept
