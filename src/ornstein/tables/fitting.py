"""From standardised rows to a run, in one way for the command line and the estimators."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.api.sampling import sample_whole
from ornstein.curvature.structures import contract
from ornstein.data import inputs
from ornstein.data.on_disk import AnyRows, RowsOnDisk
from ornstein.models.families import Family
from ornstein.models.glm import Past
from ornstein.models.hyperparameters import Groups
from ornstein.models.posterior import Posterior
from ornstein.models.priors import Priors
from ornstein.models.ready_made import Prior, build
from ornstein.planning.methods import AUTO, find
from ornstein.results.result import Result
from ornstein.tables import collinear
from ornstein.tables.encoding import Encoding, Units

if TYPE_CHECKING:
    from ornstein.tables.formulas.encoding import FormulaEncoding

Unknown: TypeAlias = Literal["auto", "draw", "learn"]
"""To be drawn with the coefficients, learned, or (``auto``) drawn where that is possible."""

Precision: TypeAlias = float | Sequence[float] | Unknown
"""A number, one for each column, or unknown."""

Scale: TypeAlias = float | Unknown

UNKNOWN: tuple[Unknown, ...] = ("auto", "draw", "learn")

T = TypeVar("T")

INTERCEPT_PRECISION = 0.01
"""Prior precision of the intercept: weak, as it stands for a base rate and not for an effect."""

LEAST_NOISE = 1e-4
"""Of a learned noise scale, relative to the target's standard deviation."""

_TOLERANCE = 0.1  # of learning from draws, in posterior standard deviations: 0.005 nats
_START = 0.5  # of a learned noise scale, relative to the target's standard deviation


class FitOptions(NamedTuple):
    """How to fit, as a user gave it: not checked yet."""

    prior_precision: Precision = "auto"  # of standardised coefficients
    noise_scale: Scale = "auto"  # of a target that has a unit, in that unit
    groups: Groups = None  # columns that share an unknown precision, as for models.linear
    fit_intercept: bool = True
    run: Mapping[str, Any] = {}  # arguments of ornstein.sample, such as key, draws and method
    start: Sequence[float] | None = None  # precisions of columns: fixed, or to start from
    priors: Priors = None  # of single parameters, by name


def or_unknown(value: T | None, how: Unknown = "auto") -> T | Unknown:
    """What was given; unknown if nothing was."""
    return how if value is None else value


def fit_rows(
    family: Family,
    rows: Mapping[str, AnyRows],
    names: Sequence[str] | None,
    units: Units,
    options: FitOptions,
    past: Past | None = None,
    start: Mapping[str, Vector] | None = None,
) -> Result:
    """Draw or learn what is not given, and sample.

    ``rows`` are standardised and suit the family: ``x``, ``y`` and perhaps weights ``w``. ``past``
    is what earlier rows said, ``start`` the hyperparameters to start learning from. A noise scale
    that is learned cannot vanish: columns that determine the target leave :data:`LEAST_NOISE`.
    """
    dim = family.outputs * (rows["x"].shape[1] + bool(options.fit_intercept))
    wanted = {given for given in (options.prior_precision, options.noise_scale) if _is_word(given)}
    if "draw" in wanted and past is not None:
        raise InputError(
            "prior_precision='draw' needs all rows at once, and partial_fit has parts: use 'learn'."
        )
    drawing = "draw" in wanted or ("learn" not in wanted and _can_draw(rows, options, dim, past))
    if past is None and family.quadratic and dim <= contract.LIMITS.dense:
        past = Past.none(dim)
    post = build_posterior(family, rows, names, units, options, past)
    if post.hyperparameters is None:
        return sample_whole(post, **options.run)
    if start is None:
        post = _with_differences(post, family, rows, names, units, options, past)
    if drawing:
        return sample_whole(post, hyper="draw", **options.run)
    # Laplace's draws have the plan's moments, and nothing to add to them.
    learning: dict[str, Any] = {"moments": "plan"}
    method = find(options.run.get("method", AUTO)).method
    if not post.quadratic and method.engine != "laplace":
        learning = {"moments": "draws", "tolerance": _TOLERANCE}
    if start is not None and set(start) == set(post.hyperparameters):
        learning["start"] = dict(start)
    return sample_whole(post, learn_hyper=learning, **options.run)


def _with_differences(
    post: Posterior,
    family: Family,
    rows: Mapping[str, AnyRows],
    names: Sequence[str] | None,
    units: Units,
    options: FitOptions,
    past: Past | None,
) -> Posterior:
    """A posterior in which nearly collinear columns are not shrunk away, if there are any."""
    X = rows["x"]
    unknown = _is_word(options.prior_precision) and options.groups is None
    if not unknown or isinstance(X, RowsOnDisk) or post.dim > contract.LIMITS.dense:
        return post
    columns = collinear.nearly_collinear(X)
    if not columns:
        return post
    grouped = None
    if len(columns) < X.shape[1]:
        own = options._replace(groups=collinear.groups(X.shape[1], columns))
        grouped = build_posterior(family, rows, names, units, own, past)
    return collinear.chosen(post, grouped, X, columns)


def _is_word(given: object) -> bool:
    return isinstance(given, str)


def _can_draw(
    rows: Mapping[str, AnyRows], options: FitOptions, dim: int, past: Past | None
) -> bool:
    """Whether unknown hyperparameters can be drawn, and few: precisions of columns are learned."""
    run = options.run
    return (
        past is None
        and dim <= contract.LIMITS.dense
        and options.groups != "columns"
        and run.get("method", AUTO) in (AUTO, "rotation")
        and run.get("structure") in (None, "dense")
        and run.get("control_variates") in (None, True, "second")
        and not any(isinstance(part, RowsOnDisk) for part in rows.values())
    )


def settled(result: Result) -> Posterior:
    """A run's posterior at its hyperparameters; where they were drawn, at their medians."""
    post = result.posterior
    if result.hyper is None:
        return post
    middle = np.median(result.hyper.reshape(-1, result.hyper.shape[-1]), axis=0)
    return post.with_hyper(post.learnable.host_values(middle))


def hyperparameters(result: Result, units: Units) -> dict[str, Any]:
    """A run's prior precision of coefficients, one number if they share it, and noise scale.

    The noise scale is in the target's unit; of what was drawn, medians.
    """
    post = settled(result)
    precision = post.layout.unravel(np.asarray(post.hyper["prior_precision"]))["coef"]
    flat = precision.reshape(-1, precision.shape[-1])[0]
    values = {"prior_precision": flat.tolist() if np.ptp(flat) else float(flat[0])}
    if "noise_scale" in post.hyper:
        values["noise_scale"] = float(post.hyper["noise_scale"]) * units.target_scale
    return values


def is_determined(result: Result) -> bool:
    """Whether the columns determine the target, so that no noise but the least was learned."""
    learned = {} if result.learning is None else result.learning.values
    return "noise_scale" in learned and float(learned["noise_scale"]) < 3 * LEAST_NOISE


def build_posterior(
    family: Family,
    rows: Mapping[str, AnyRows],
    names: Sequence[str] | None,
    units: Units,
    options: FitOptions,
    past: Past | None = None,
    noise: float = _START,
) -> Posterior:
    """The posterior of standardised rows; ``noise`` is what a learned noise scale starts from."""
    features = rows["x"].shape[1]
    intercept = checks.flag("fit_intercept", options.fit_intercept) and family.intercept
    learn = ["prior_precision"] if isinstance(options.prior_precision, str) else []
    numbers = {}
    if family.scaled and not family.auxiliary:
        if isinstance(options.noise_scale, str):
            checks.choice("noise_scale", options.noise_scale, UNKNOWN)
            learn.append("noise_scale")
            past = None if past is None else _with_least_noise(past, rows)
        else:
            noise = checks.positive("noise_scale", options.noise_scale) / units.target_scale
        numbers["noise_scale"] = np.asarray(noise)
    elif not isinstance(options.noise_scale, str):
        raise InputError(
            f"noise_scale={checks.shown(options.noise_scale)} is for linear models; a "
            f"{family.name} model has none. Leave it out."
        )
    precision = _precisions(options, features, intercept)
    prior = Prior(precision, intercept, options.groups, learn, options.priors)
    return build(family, rows, checks.column_names(names, features), prior, numbers, past)


def _precisions(options: FitOptions, features: int, intercept: bool) -> list[float]:
    """Of every column, and the intercept's last."""
    given, own = options.prior_precision, [INTERCEPT_PRECISION] * intercept
    if isinstance(given, str):
        checks.choice("prior_precision", given, UNKNOWN)
        return [*(options.start or [1.0] * features), *own]
    if np.ndim(given) == 0:
        return [checks.positive("prior_precision", given)] * features + own
    each = [checks.positive("prior_precision", value) for value in np.asarray(given).tolist()]
    if len(each) not in (features, features + intercept):
        raise InputError(
            "prior_precision must be 'auto', 'draw', 'learn', a number, or one for each of "
            f"{features} columns"
            f"{' (and the intercept, last)' if intercept else ''}; found {len(each)}."
        )
    return each if len(each) == features + intercept else each + own


def _with_least_noise(past: Past, rows: Mapping[str, Any]) -> Past:
    """A residual for every row, so that columns which determine the target leave some noise."""
    total = float(past.weight) + float(rows["w"].sum() if "w" in rows else len(rows["y"]))
    return past._replace(squares=past.squares + LEAST_NOISE**2 * total)


# Encoded tables ---------------------------------------------------------------------------------


def refuse_many(encoding: Encoding) -> None:
    """Raise for columns of so many levels that only a fit looks them up."""
    if encoding.many:
        raise InputError(
            f"Column {checks.shown(encoding.many[0].name)} has {len(encoding.many[0].levels):,} "
            "levels. Models that look so many up are fitted by tables.fit_table (ornstein fit) "
            "only; elsewhere, group its rare levels or leave it out."
        )


def encoded_rows(X: npt.ArrayLike, y: npt.ArrayLike, encoding: Encoding) -> dict[str, AnyRows]:
    """Rows of an encoded table, checked."""
    refuse_many(encoding)
    table, _ = inputs.table(X)
    classes = encoding.target.classes
    kind = type(encoding.family)
    _, target = kind.of_target(inputs.target(y, len(table)), len(classes) if classes else None)
    return {"x": table, "y": target}


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
        Or one number per column of ``X``, and optionally the intercept's last. By default 1, to
        start from.
    noise_scale
        Standard deviation of a linear model's noise, in the target's own unit. By default that of
        the residuals of least squares, to start from.
    """
    rows, family = encoded_rows(X, y, encoding), encoding.family
    options = FitOptions(or_unknown(prior_precision), or_unknown(noise_scale))
    own_noise = family.scaled and not family.auxiliary
    noise = estimate_noise(X, y) if own_noise and noise_scale is None else _START
    return build_posterior(family, rows, encoding.features, encoding.units, options, noise=noise)


def estimate_noise(X: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Standard deviation of ``y`` around its least-squares fit with an intercept.

    Unbiased in the variance: the sum of squares is divided by rows less rank. Columns that
    determine the target leave :data:`LEAST_NOISE` of the target's standard deviation.
    """
    table, _ = inputs.table(X)
    target = inputs.target(y, len(table)).astype(np.float64)
    design = np.column_stack([table, np.ones(len(table))])
    coef, _, rank, _ = np.linalg.lstsq(design, target)
    free = max(1, len(table) - int(rank))
    noise = float(np.sqrt(np.sum((target - design @ coef) ** 2) / free))
    return max(noise, LEAST_NOISE * float(np.std(target)))


def unstandardise(
    encoding: "Encoding | FormulaEncoding", draws: Mapping[str, npt.ArrayLike]
) -> dict[str, Vector]:
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
        raise InputError(
            f"draws must contain coef and intercept, found {checks.shown(sorted(draws))}."
        )
    params = {name: np.asarray(draws[name], np.float64) for name in ("coef", "intercept")}
    shape, features = params["intercept"].shape, len(encoding.units.centre)
    if params["coef"].ndim == 0 or params["coef"].shape != (*shape, features):
        raise InputError(
            f"draws['coef'] must have the shape of draws['intercept'], {shape}, and an axis of "
            f"{features} columns; found {params['coef'].shape}."
        )
    coef, intercept = encoding.units.own(params)
    return {"coef": coef, "intercept": intercept}
