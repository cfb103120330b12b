"""A model of a user's table: fitted, kept in a folder, and asked about new rows."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ornstein import tables
from ornstein._base.checks import shown
from ornstein._base.errors import InputError
from ornstein._base.types import Key
from ornstein.api.sampling import sample_whole
from ornstein.results import plots, predictive
from ornstein.results.predictive import Coefficients
from ornstein.results.result import Result
from ornstein.storage.folders import Writer, write_folder
from ornstein.storage.records import digest

_PICTURED = 20_000
FILES = ("draws.nc", "plan.json", "summary.csv", "table.json", "report.html", "predictions.csv")


@dataclass(frozen=True)
class TableModel:
    """Draws of a model's coefficients in standardised units, and how a table becomes its rows."""

    encoding: tables.Encoding
    draws: Coefficients

    def predict(self, frame: pd.DataFrame, interval: float = 0.9) -> pd.DataFrame:
        """One line per row of a table: what to expect of the target.

        ``mean``, ``sd`` and the interval's ends for numbers and counts, in the target's own units;
        ``predicted`` and one probability per class for classes.
        """
        X, target = self.encoding.encode(frame), self.encoding.target
        if target.classes is not None:
            chances = predictive.probabilities(self.draws, X)
            best = np.asarray(target.classes, object)[chances.argmax(axis=1)]
            columns = {f"p({name})": chances[:, i] for i, name in enumerate(target.classes)}
            return pd.DataFrame({"predicted": best, **columns})
        found = predictive.summarise(self.draws, X, interval)
        low, high = _ends(interval)
        names = {"mean": "mean", "low": low, "high": high}
        columns = {
            names[part]: target.centre + target.scale * getattr(found, part) for part in names
        }
        return pd.DataFrame({**columns, "sd": target.scale * found.std})


def fit_table(
    learned: tables.Learned,
    prior_precision: float | None = None,
    noise_scale: float | None = None,
    key: Key = 0,
    draws: int | None = None,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
    **plan_options: Any,
) -> tuple[TableModel, Result, list[str]]:
    """Fit an encoded table: the model, the run, and what to tell its user.

    Parameters
    ----------
    learned
        What :func:`ornstein.tables.learn` made of the table.
    prior_precision, noise_scale
        Of standardised coefficients, and in the target's unit; learned if not given.
    key, draws, progress, checkpoint
        As for :func:`ornstein.sample`.
    **plan_options
        Passed to :func:`ornstein.plan`.
    """
    encoding = learned.encoding
    post = tables.posterior(learned.X, learned.y, encoding, prior_precision, noise_scale)
    result = sample_whole(
        post,
        key=key,
        draws=draws,
        progress=progress,
        checkpoint=checkpoint,
        learn_hyper=post.hyperparameters is not None,
        **plan_options,
    )
    said = [*learned.notes, *_learning_remarks(encoding, result)]
    return TableModel(encoding, _coefficients(encoding, result)), result, said


def read_new(path: Path, encoding: tables.Encoding) -> pd.DataFrame:
    """A table of rows to predict, of which every column that the model needs can be encoded."""
    frame = tables.read(path, text=encoding.text_columns)
    try:
        encoding.encode(frame)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return frame


def hyperparameters(encoding: tables.Encoding, result: Result) -> dict[str, dict[str, Any]]:
    """By name: the value, whether it was learned, and how it ended.

    The prior precision is that of standardised coefficients, the noise scale in the target's unit.
    """
    learning, post = result.learning, result.posterior
    precision = post.layout.unravel(np.asarray(post.hyper["prior_precision"]))["coef"]
    flat = precision.reshape(-1, precision.shape[-1])[0]
    values: dict[str, Any] = {
        "prior_precision": flat.tolist() if np.ptp(flat) else float(flat[0]),
    }
    if encoding.model == "linear":
        values["noise_scale"] = float(post.hyper["noise_scale"]) * encoding.target.scale
    learned = set() if learning is None else set(learning.values)
    return {name: {"value": value, "learned": name in learned} for name, value in values.items()}


def _learning_remarks(encoding: tables.Encoding, result: Result) -> list[str]:
    """A sentence on what was learned."""
    if result.learning is None:
        return []
    units = {
        "prior_precision": "of standardised coefficients",
        "noise_scale": f"in the unit of {shown(encoding.target.name)}",
    }
    learned = [
        f"{name.replace('_', ' ')} {entry['value']:.4g} ({units[name]})"
        for name, entry in hyperparameters(encoding, result).items()
        if entry["learned"]
    ]
    remarks = [f"Learned: {', '.join(learned)}."]
    if not result.learning.converged:
        remarks.append(f"Learning has {result.learning.message}.")
    return remarks + [f"While learning, {note}." for note in result.learning.notes]


def _coefficients(encoding: tables.Encoding, result: Result) -> Coefficients:
    hyper = result.posterior.hyper
    noise = float(np.asarray(hyper["noise_scale"])) if encoding.model == "linear" else 0.0
    return Coefficients.gather(
        encoding.model, result.draws["coef"], result.draws["intercept"], noise
    )


def summary(encoding: tables.Encoding, result: Result, interval: float = 0.9) -> pd.DataFrame:
    """Every coefficient in the units of the table: mean, sd, interval, ESS and R-hat."""
    own = result.summary(interval)
    natural = tables.unstandardise(encoding, result.draws)
    flat = np.concatenate(
        [
            natural["coef"].reshape(-1, _size(natural["coef"])),
            natural["intercept"].reshape(-1, _size(natural["intercept"])),
        ],
        axis=1,
    )
    tail = (1 - predictive.mass(interval)) / 2
    ends = np.quantile(flat, [tail, 1 - tail], axis=0)
    frame = pd.DataFrame(
        {
            "mean": flat.mean(axis=0),
            "sd": flat.std(axis=0, ddof=1),
            **dict(zip(_ends(interval), ends, strict=True)),
        },
        index=pd.Index(_labels(encoding), name="parameter"),
    )
    quality = own[["ess_bulk", "r_hat"]].to_numpy()
    frame[["ess_bulk", "r_hat"]] = quality if len(quality) == len(frame) else np.nan
    return frame


def _ends(interval: float) -> tuple[str, str]:
    """Names of an interval's ends."""
    return f"low {100 * interval:g}%", f"high {100 * interval:g}%"


def about(model: TableModel, result: Result) -> dict[str, str]:
    """Facts about a run, for a report."""
    encoding, post = model.encoding, result.posterior
    return {
        "target": encoding.target.name,
        "model": f"{encoding.model} regression with intercept",
        "rows": f"{post.num_data:,}",
        "columns": f"{len(encoding.features):,} after encoding",
        "prior": "normal, zero mean, on standardised coefficients",
        **{
            name.replace("_", " "): _stated(entry)
            for name, entry in hyperparameters(encoding, result).items()
        },
        "missing values": encoding.missing,
    }


def _stated(entry: Mapping[str, Any]) -> str:
    """A hyperparameter and where it is from."""
    values = np.atleast_1d(entry["value"])
    number = f"{values[0]:.4g}" if len(values) == 1 else f"one for each of {len(values)} columns"
    return f"{number}, {'learned' if entry['learned'] else 'given'}"


def fit_picture(model: TableModel, frame: pd.DataFrame) -> tuple[str, str, tuple[Figure, ...]]:
    """Heading, caption and pictures of how predictions agree with (at most 20,000) rows."""
    encoding = model.encoding
    complete = encoding.complete(frame) & frame[encoding.target.name].notna().to_numpy()
    rows = frame[complete]
    rows = rows.iloc[:: max(1, len(rows) // _PICTURED)]
    X, y = encoding.encode(rows), encoding.encode_target(rows)
    if encoding.target.classes is None:
        found = predictive.summarise(model.draws, X)
        return (
            "Residuals and coverage",
            "Residuals of the rows fitted to should show no pattern; intervals of every mass "
            "should hold that share of them. In standardised units.",
            plots.residuals(found.mean, found.std, y),
        )
    chances = predictive.probabilities(model.draws, X)
    happened = np.eye(chances.shape[1])[y.astype(int)]
    if chances.shape[1] == 2:
        chances, happened = chances[:, 1], happened[:, 1]
    return (
        "Calibration",
        "What was given a probability should come true as often: points on the line. Of the rows "
        "fitted to.",
        (plots.reliability(chances.reshape(-1), happened.reshape(-1)),),
    )


def _size(values: np.ndarray[Any, Any]) -> int:
    """Entries beyond the axes of chains and draws."""
    return int(np.prod(values.shape[2:]))


def _labels(encoding: tables.Encoding) -> list[str]:
    features = encoding.features
    if encoding.model != "softmax":
        return [*features, "intercept"]
    classes = encoding.target.classes or ()
    coefs = [f"{name} [{label}]" for label in classes for name in features]
    return coefs + [f"intercept [{label}]" for label in classes]


def save(
    folder: str | Path,
    model: TableModel,
    result: Result,
    extra: Mapping[str, Writer] | None = None,
    overwrite: bool = False,
) -> Path:
    """Keep a run in a folder, written whole or not at all; ``extra`` files go with it."""
    noise = float(np.asarray(model.draws.noise_scale))
    about = {
        "format": 1,
        "noise_scale": noise,
        "hyperparameters": hyperparameters(model.encoding, result),
        "encoding": json.loads(model.encoding.to_json()),
    }

    def write_about(path: Path) -> None:
        draws = digest(path.with_name("draws.nc").read_bytes())
        path.write_text(json.dumps({**about, "draws": draws}, indent=1) + "\n")

    files: dict[str, Writer] = {
        **result.files(),
        "summary.csv": lambda path: summary(model.encoding, result).to_csv(path),
        "table.json": write_about,
        **(extra or {}),
    }
    return write_folder(folder, files, overwrite, FILES)


def load(folder: str | Path) -> TableModel:
    """What :func:`save` kept; anything else is an `InputError`."""
    place = Path(folder)
    about, draws = place / "table.json", place / "draws.nc"
    for path in (about, draws):
        if not path.is_file():
            raise InputError(f"{place} is no run folder: it has no {path.name}.")
    try:
        found = json.loads(about.read_text())
        encoding = tables.Encoding.from_json(json.dumps(found["encoding"]))
        noise, version, seal = float(found["noise_scale"]), found["format"], found.get("draws")
    except InputError as error:
        raise InputError(f"{about}: {error}") from None
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{about} is damaged ({shown(str(error))}); fit again.") from None
    if version != 1:
        raise InputError(f"{about} has format {shown(version)}; this version reads 1.")
    if seal is not None and seal != digest(draws.read_bytes()):  # NetCDF notices little itself
        raise InputError(f"{draws} is damaged, or does not belong to {about.name}; fit again.")
    return TableModel(encoding, _read_draws(draws, encoding, noise))


def _read_draws(path: Path, encoding: tables.Encoding, noise: float) -> Coefficients:
    import xarray

    try:
        with xarray.open_dataset(path, group="posterior", engine="h5netcdf") as found:
            coef, intercept = (np.asarray(found[name].values, float) for name in _NAMES)
    except (OSError, KeyError, ValueError, RuntimeError) as error:
        raise InputError(f"{path} is damaged ({shown(str(error))}); fit again.") from None
    width = (len(encoding.target.classes or ()),) if encoding.model == "softmax" else ()
    if coef.shape[2:] != (*width, len(encoding.features)) or intercept.shape[2:] != width:
        raise InputError(f"{path} does not belong to this folder's table.json; fit again.")
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all() and coef.size):
        raise InputError(f"{path} holds no finite draws; fit again.")
    return Coefficients.gather(encoding.model, coef, intercept, noise)


_NAMES = ("coef", "intercept")
