"""Between the units of a table and the standardised ones its posterior works in."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ornstein import models
from ornstein._base.checks import positive, shown
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.data.inputs import table as checked_table
from ornstein.data.inputs import target as checked_target
from ornstein.models.posterior import Posterior
from ornstein.tables._columns import Floats
from ornstein.tables._encoding import Encoding

INTERCEPT_PRECISION = 0.01
"""Prior precision of the intercept: weak, as it stands for a base rate and not for an effect."""


def posterior(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    encoding: Encoding,
    prior_precision: float | Sequence[float] | None = None,
    noise_scale: float | None = None,
) -> Posterior:
    """The posterior of an encoded table, over ``coef`` and ``intercept`` in standardised units.

    What is not given can be learned: see :func:`ornstein.learn`.

    Parameters
    ----------
    X, y
        Encoded rows, as :func:`~ornstein.tables.learn` gives them.
    encoding
        What was learned with them.
    prior_precision
        Precision of the normal prior on every standardised coefficient; the intercept's is 0.01.
        Or one number per column of ``X`` and the intercept's last. By default 1, to start from.
    noise_scale
        Standard deviation of a linear model's noise, in the target's own unit. By default that of
        the residuals of least squares, to start from.
    """
    shared: dict[str, Any] = {"intercept": True, "feature_names": encoding.features}
    given = 1.0 if prior_precision is None else prior_precision
    precision = _with_intercept(given, len(encoding.features))
    free = ["prior_precision"] if prior_precision is None else []
    if encoding.model == "linear" and noise_scale is None:
        free.append("noise_scale")
    shared["learn"] = free
    if encoding.model == "linear":
        noise = (
            estimate_noise(X, y)
            if noise_scale is None
            else positive("noise_scale", noise_scale) / encoding.target.scale
        )
        return models.linear(X, y, precision, noise_scale=noise, **shared)
    if noise_scale is not None:
        raise InputError(
            f"noise_scale={shown(noise_scale)} is for linear models; a {encoding.model} model has "
            "none. Leave it out."
        )
    if encoding.model == "softmax":
        classes = len(encoding.target.classes or ())
        return models.softmax(X, y, precision, num_classes=classes, **shared)
    build = models.logistic if encoding.model == "logistic" else models.poisson
    return build(X, y, precision, **shared)


def _with_intercept(given: float | Sequence[float], features: int) -> Sequence[float]:
    if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str):
        return given
    return [positive("prior_precision", given)] * features + [INTERCEPT_PRECISION]


def estimate_noise(X: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Standard deviation of ``y`` around its least-squares fit with an intercept.

    Unbiased in the variance: the sum of squares is divided by rows less rank.
    """
    table, _ = checked_table(X)
    target = checked_target(y, len(table)).astype(np.float64)
    design = np.column_stack([table, np.ones(len(table))])
    coef, _, rank, _ = np.linalg.lstsq(design, target)
    free = len(table) - int(rank)
    if free < 1:
        raise InputError(
            f"{len(table)} rows cannot tell the noise from {table.shape[1]} columns. Pass "
            "noise_scale, or use fewer columns."
        )
    noise = float(np.sqrt(np.sum((target - design @ coef) ** 2) / free))
    if noise <= 1e-7 * float(np.std(target)):
        raise InputError(
            "The columns determine the target exactly, so that no noise can be estimated. Leave "
            "out the column that gives it away, or pass noise_scale."
        )
    return noise


def unstandardise(encoding: Encoding, draws: Mapping[str, npt.ArrayLike]) -> dict[str, Floats]:
    """Draws of ``coef`` and ``intercept`` in the units of the table's columns and target.

    Parameters
    ----------
    encoding
        What the posterior was made with.
    draws
        ``coef``, (..., columns) or (..., classes, columns), and ``intercept``, (...) or
        (..., classes), as in ``result.draws``.

    Returns
    -------
    dict
        The same shapes, float64. A numeric column's coefficient is per unit of that column; a
        level's is its difference from the column's first level; the intercept belongs to a row
        of zeros and first levels. For a linear model all are in the target's unit.
    """
    if not {"coef", "intercept"} <= set(draws):
        raise InputError(f"draws must hold coef and intercept, found {shown(sorted(draws))}.")
    coef = np.asarray(draws["coef"], np.float64)
    intercept = np.asarray(draws["intercept"], np.float64)
    features = len(encoding.centre)
    if coef.ndim == 0 or coef.shape != (*intercept.shape, features):
        raise InputError(
            f"draws['coef'] must have the shape of draws['intercept'], {intercept.shape}, and an "
            f"axis of {features} columns; found {coef.shape}."
        )
    target = encoding.target
    own = in_own_units(
        coef, intercept, encoding.centre, encoding.scale, target.centre, target.scale
    )
    return {"coef": own[0], "intercept": own[1]}


def in_own_units(
    coef: Vector,
    intercept: Vector,
    centre: Vector,
    scale: Vector,
    target_centre: float = 0.0,
    target_scale: float = 1.0,
) -> tuple[Floats, Floats]:
    """Coefficients and intercepts of ``(x - centre) / scale`` as those of x, for any target."""
    per_unit: Floats = np.asarray(coef / scale, np.float64)
    return target_scale * per_unit, target_centre + target_scale * (intercept - per_unit @ centre)
