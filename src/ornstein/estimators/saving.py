"""Fitted estimators to folders: JSON, NetCDF and a record, written whole."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ornstein._base.checks import shown
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.results.arviz import arviz_module
from ornstein.results.predictive import Coefficients
from ornstein.storage import codec, records
from ornstein.storage.folders import Writer, write_file, write_folder

ABOUT, DRAWS, STREAM = "estimator.json", "draws.nc", "stream.orn"
VERSION = 2

DTYPES = {"b": np.bool_, "i": np.int64, "u": np.int64, "f": np.float64, "U": np.str_}


@codec.register
@dataclass(frozen=True)
class About:
    """A fitted estimator but for its draws and its stream; classes with the kind of their dtype."""

    estimator: str
    parameters: dict[str, Any]
    columns: int
    names: tuple[str, ...] | None
    classes: tuple[str, list[Any]] | None
    coef: Vector
    intercept: Vector
    prior_precision: Vector
    noise_scale: float
    seed: int


def save(estimator: Any, folder: str | Path, overwrite: bool) -> Path:
    """Write a fitted estimator."""
    draws: Coefficients = estimator.draws_
    names = getattr(estimator, "feature_names_in_", None)
    about = About(
        estimator=type(estimator).__name__,
        parameters=_parameters(estimator),
        columns=estimator.n_features_in_,
        names=None if names is None else tuple(names.tolist()),
        classes=_labels(getattr(estimator, "classes_", None)),
        coef=estimator.coef_,
        intercept=estimator.intercept_,
        prior_precision=estimator.prior_precision_,
        noise_scale=float(draws.noise_scale),
        seed=estimator._seed,
    )
    text = codec.to_json(about, VERSION) + "\n"
    files: dict[str, Writer] = {
        ABOUT: lambda path: path.write_text(text),
        DRAWS: lambda path: _write_draws(path, draws, names, estimator._chains),
        STREAM: lambda path: write_file(path, records.pieces(estimator._kept)),
    }
    return write_folder(folder, files, overwrite)


def _parameters(estimator: Any) -> dict[str, Any]:
    """As the constructor was given them, all of them fit for a file."""
    found = estimator.get_params(deep=False)
    for name, value in found.items():
        try:
            codec.encode(value)
        except TypeError:
            raise InputError(
                f"{name}={shown(value)} cannot be kept in a folder: set_params({name}=...) to "
                "plain numbers or text first."
            ) from None
    return dict(found)


def _labels(classes: npt.NDArray[Any] | None) -> tuple[str, list[Any]] | None:
    if classes is None:
        return None
    kind = "U" if classes.dtype.kind in "OT" else classes.dtype.kind
    labels = classes.tolist()
    if kind not in DTYPES or (kind == "U" and not all(isinstance(name, str) for name in labels)):
        raise InputError(
            f"classes_ of type {classes.dtype} cannot be kept in a folder: use numbers or text."
        )
    return kind, labels


def _write_draws(path: Path, draws: Coefficients, names: Any, chains: int) -> None:
    shape = chains, len(draws.coef) // chains
    posterior = {
        "coef": draws.coef.reshape(*shape, *draws.coef.shape[1:]),
        "intercept": draws.intercept.reshape(*shape, *draws.intercept.shape[1:]),
    }
    classes = ["class"] * (draws.coef.ndim - 2)
    dims = {"coef": [*classes, "column"], "intercept": classes}
    coords = {} if names is None else {"column": [str(name) for name in names]}
    found = arviz_module().from_dict(posterior=posterior, dims=dims, coords=coords)
    found.to_netcdf(str(path), engine="h5netcdf")
