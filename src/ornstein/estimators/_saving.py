"""Fitted estimators to folders: JSON and NetCDF, written whole."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ornstein._base.checks import shown
from ornstein._base.errors import InputError
from ornstein.estimators.streams import Kept
from ornstein.results.arviz import arviz_module
from ornstein.results.predictive import Coefficients
from ornstein.storage.folders import Writer, write_folder

ABOUT, DRAWS, STREAM = "estimator.json", "draws.nc", "stream.nc"
FORMAT = 1

_PLAIN = (bool, int, float, str, type(None))
DTYPES = {"b": np.bool_, "i": np.int64, "u": np.int64, "f": np.float64, "U": np.str_}


def save(estimator: Any, folder: str | Path, overwrite: bool) -> Path:
    """Write a fitted estimator."""
    draws: Coefficients = estimator.draws_
    names = getattr(estimator, "feature_names_in_", None)
    about = {
        "format": FORMAT,
        "estimator": type(estimator).__name__,
        "parameters": {
            name: _plain(name, value) for name, value in estimator.get_params(deep=False).items()
        },
        "model": draws.model,
        "columns": estimator.n_features_in_,
        "names": None if names is None else names.tolist(),
        "classes": _labels(getattr(estimator, "classes_", None)),
        "coef": estimator.coef_.tolist(),
        "intercept": np.asarray(estimator.intercept_).tolist(),
        "noise_scale": float(draws.noise_scale),
        "prior_precision": np.asarray(estimator.prior_precision_).tolist(),
        "seed": estimator._seed,
    }
    text = json.dumps(about, indent=1, allow_nan=False) + "\n"
    files: dict[str, Writer] = {
        ABOUT: lambda path: path.write_text(text),
        DRAWS: lambda path: _write_draws(path, draws, names, estimator._chains),
        STREAM: lambda path: _write_stream(path, estimator._kept),
    }
    return write_folder(folder, files, overwrite)


def _plain(name: str, value: Any) -> Any:
    """A parameter as JSON."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        pairs = [[_plain(name, key), _plain(name, number)] for key, number in value.items()]
        return {"pairs": pairs}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(name, entry) for entry in np.asarray(value, object).tolist()]
    if not isinstance(value, _PLAIN):
        raise InputError(
            f"{name}={shown(value)} can not be kept in a folder: set_params({name}=...) to plain "
            "numbers or text first."
        )
    return value


def _labels(classes: npt.NDArray[Any] | None) -> dict[str, Any] | None:
    if classes is None:
        return None
    kind = "U" if classes.dtype.kind in "OT" else classes.dtype.kind
    labels = classes.tolist()
    if kind not in DTYPES or (kind == "U" and not all(isinstance(name, str) for name in labels)):
        raise InputError(
            f"classes_ of type {classes.dtype} can not be kept in a folder: use numbers or text."
        )
    return {"kind": kind, "labels": labels}


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


def _write_stream(path: Path, kept: Kept | None) -> None:
    import xarray

    arrays: dict[str, Any] = {}
    if kept is not None:
        parts = {
            "moments": kept.moments._asdict(),
            "units": kept.units._asdict(),
            "past": kept.past._asdict(),
        }
        for prefix, part in parts.items():
            arrays |= {f"{prefix}_{name}": value for name, value in part.items()}
        arrays |= {f"learned_{name}": value for name, value in kept.learned.items()}
    variables = {
        name: (tuple(f"{name}_{i}" for i in range(np.ndim(value))), np.asarray(value, float))
        for name, value in arrays.items()
    }
    xarray.Dataset(variables).to_netcdf(str(path), engine="h5netcdf")
