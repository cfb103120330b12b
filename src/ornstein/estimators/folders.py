"""Fitted estimators in folders: JSON, NetCDF and a record, written whole."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ornstein._base import checks
from ornstein._base.checks import shown
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.estimators.classifier import BayesianLogisticClassifier
from ornstein.estimators.regressors import BayesianLinearRegressor, BayesianPoissonRegressor
from ornstein.results import arviz
from ornstein.results.predictive import Coefficients
from ornstein.storage import codec, records
from ornstein.storage.folders import write_file, write_folder
from ornstein.tables.folders import DRAWS, Record, read_draws, read_record, write_record

Estimator: TypeAlias = (
    BayesianLinearRegressor | BayesianLogisticClassifier | BayesianPoissonRegressor
)

_KINDS: dict[str, type[Estimator]] = {
    kind.__name__: kind
    for kind in (BayesianLinearRegressor, BayesianLogisticClassifier, BayesianPoissonRegressor)
}
_ABOUT, _STREAM = "estimator.json", "stream.orn"


@codec.register
@dataclass(frozen=True, kw_only=True)
class EstimatorRecord(Record):
    """A fitted estimator but for its draws and its stream."""

    estimator: str
    parameters: dict[str, Any]
    names: tuple[str, ...] | None
    classes: list[Any] | None
    coef: Vector
    intercept: Vector
    prior_precision: Vector
    noise_scale: Vector  # one number, or one of every draw
    seed: int

    def __post_init__(self) -> None:
        """Refuse what no estimator has."""
        kind = _KINDS[checks.choice("estimator", self.estimator, _KINDS)]
        if set(self.parameters) != set(kind._get_param_names()):
            raise InputError(f"parameters are not those of {self.estimator}.")
        numbers = (self.coef, self.intercept, self.prior_precision, self.noise_scale)
        if not all(np.isfinite(part).all() for part in numbers):
            raise InputError("some of its numbers are not finite.")
        *outputs, columns = np.shape(self.coef)
        if np.shape(self.intercept) != tuple(outputs):
            raise InputError("intercept does not fit coef.")
        if self.names is not None and len(self.names) != columns:
            raise InputError(f"names must be {columns}, found {shown(self.names)}.")
        labels = self.classes or []
        count = len(np.unique(labels))
        expected = (
            [1 if count == 2 else count] if issubclass(kind, BayesianLogisticClassifier) else []
        )
        if outputs != expected or count != len(labels) or 0 in outputs:
            raise InputError(f"classes do not fit coef: {shown(self.classes)}.")

    @property
    def model(self) -> str:
        """The name of its model."""
        kind = _KINDS[self.estimator]
        if issubclass(kind, BayesianLogisticClassifier):
            return "logistic" if len(self.classes or ()) == 2 else "softmax"
        return kind._family.name


def save(estimator: Any, folder: str | Path, overwrite: bool) -> Path:
    """Write a fitted estimator."""
    draws: Coefficients = estimator.draws_
    names = getattr(estimator, "feature_names_in_", None)
    record = EstimatorRecord(
        estimator=type(estimator).__name__,
        parameters=_parameters(estimator),
        names=None if names is None else tuple(names.tolist()),
        classes=_classes(getattr(estimator, "classes_", None)),
        coef=estimator.coef_,
        intercept=estimator.intercept_,
        prior_precision=estimator.prior_precision_,
        noise_scale=np.asarray(draws.noise_scale, float),
        seed=estimator._seed,
    )
    return write_folder(
        folder,
        {
            DRAWS: lambda path: _write_draws(path, draws, names, estimator._chains),
            _STREAM: lambda path: write_file(path, records.pieces(estimator._kept)),
            _ABOUT: lambda path: write_record(path, record, (DRAWS, _STREAM)),
        },
        overwrite,
    )


def _parameters(estimator: Any) -> dict[str, Any]:
    """As the constructor was given them, all of them fit for a file."""
    found = dict(estimator.get_params(deep=False))
    for name, value in found.items():
        try:
            codec.encode(value)
        except TypeError:
            raise InputError(
                f"{name}={shown(value)} cannot be kept in a folder: set_params({name}=...) to "
                "plain numbers or text first."
            ) from None
    return found


def _classes(labels: npt.NDArray[Any] | None) -> list[Any] | None:
    found: list[Any] | None = None if labels is None else labels.tolist()
    if found and {type(label) for label in found} not in ({bool}, {int}, {float}, {str}):
        raise InputError(
            f"classes_={shown(found)} cannot be kept in a folder: use numbers or text."
        )
    return found


def _write_draws(path: Path, draws: Coefficients, names: Any, chains: int) -> None:
    shape = chains, len(draws.coef) // chains
    posterior = {
        "coef": draws.coef.reshape(*shape, *draws.coef.shape[1:]),
        "intercept": draws.intercept.reshape(*shape, *draws.intercept.shape[1:]),
    }
    classes = ["class"] * (draws.coef.ndim - 2)
    dims = {"coef": [*classes, "column"], "intercept": classes}
    coords = {} if names is None else {"column": [str(name) for name in names]}
    arviz.write(arviz.to_tree({"posterior": posterior}, dims, coords), path)


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
    record = read_record(place / _ABOUT, EstimatorRecord, (DRAWS, _STREAM))
    estimator = _KINDS[record.estimator](**record.parameters)
    estimator.coef_ = record.coef
    estimator.n_features_in_ = record.coef.shape[-1]
    if record.names is not None:
        estimator.feature_names_in_ = np.asarray(record.names, object)
    if record.classes is not None:
        estimator.classes_ = np.asarray(record.classes)
    estimator.intercept_, estimator.prior_precision_ = record.intercept, record.prior_precision
    shape = record.coef.shape if record.model == "softmax" else record.coef.shape[-1:]
    coef, intercept, _ = read_draws(place / DRAWS, shape)
    estimator.draws_ = Coefficients.gather(record.model, coef, intercept, record.noise_scale)
    estimator._chains, estimator._seed = len(coef), record.seed
    estimator._kept = records.unpack((place / _STREAM).read_bytes())
    return estimator
