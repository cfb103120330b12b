"""From checked rows to draws in their own units; of a stream, together with the rows before."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.types import Key, Vector
from ornstein.api.sampling import sample
from ornstein.curvature.structures.limits import LIMITS
from ornstein.data import inputs
from ornstein.data.on_disk import AnyRows
from ornstein.estimators._units import Moments, Units
from ornstein.models.earlier_rows import Past
from ornstein.models.families import Bernoulli, Categorical, Counts, Family, Gaussian
from ornstein.models.glm import flat_order
from ornstein.models.posterior import Posterior
from ornstein.models.ready_made import Prior, build, weighted_rows
from ornstein.models.shared_priors import Groups
from ornstein.results.predictive import Coefficients
from ornstein.results.result import Result
from ornstein.storage.codec import register
from ornstein.tables import INTERCEPT_PRECISION

Precision: TypeAlias = float | Sequence[float] | Literal["learn"]
"""A number, one for each column, or to be learned."""

Scale: TypeAlias = float | Literal["learn"]

_TOLERANCE = 0.1  # of learning from draws, in posterior standard deviations: 0.005 nats
_LEAST_NOISE = 1e-4  # of a learned noise scale, relative to the target's standard deviation


class Options(NamedTuple):
    """How to fit; what a user gave, not checked yet. ``noise_scale`` is in the target's unit."""

    prior_precision: Precision
    noise_scale: Scale
    groups: Groups
    fit_intercept: bool
    method: str
    batch_size: int | None
    chains: int
    draws: int
    key: Key


@register
class Kept(NamedTuple):
    """What a stream goes on from.

    Attributes
    ----------
    moments
        Of the columns, and last the target.
    units
        That ``past`` is said in.
    past
        The rows' log-likelihood to second order, around the optimum.
    learned
        Hyperparameters that were learned, from which to go on; the noise scale in the target's
        own unit.
    """

    moments: Moments
    units: Units
    past: Past
    learned: dict[str, Vector]


class Fit(NamedTuple):
    """What an estimator keeps.

    Attributes
    ----------
    result
        The run, in standardised units.
    draws
        In the columns' and the target's own units.
    center
        The posterior's optimum in those units: coefficients and intercepts.
    prior_precision
        On standardised coefficients; one number, or one per group.
    kept
        What a stream goes on from; None where there are too many parameters.
    """

    result: Result
    draws: Coefficients
    center: tuple[Vector, Vector]
    prior_precision: Vector
    kept: Kept | None


def family_of(model: str, classes: int) -> Family:
    """The family of a model's name."""
    if model == "softmax":
        return Categorical(classes)
    others: dict[str, Family] = {
        "linear": Gaussian(),
        "logistic": Bernoulli(),
        "poisson": Counts(),
    }
    return others[model]


def fit_rows(
    model: str,
    classes: int,
    X: Vector,
    y: npt.NDArray[Any],
    sample_weight: npt.ArrayLike | None,
    names: Sequence[str] | None,
    options: Options,
    stream: bool = False,
    before: Kept | None = None,
) -> Fit:
    """Sample the posterior of rows that are known to be fit for the model."""
    family = family_of(model, classes)
    weights = None if sample_weight is None else inputs.weights(sample_weight, len(X))
    intercept = checks.flag("fit_intercept", options.fit_intercept)
    moments = Moments.of(
        np.column_stack([X, y]).astype(float), np.ones(len(X)) if weights is None else weights
    )
    if before is not None:
        moments = before.moments.joined(moments)
    units = _units(moments, intercept, model == "linear")
    target = units.encode_target(y) if model == "linear" else y
    rows = weighted_rows(units.encode(X), target, weights)
    past = _past(family, X.shape[1], intercept, stream, units, before)
    post = _posterior(family, rows, names, options, units, past)
    result = sample(
        post,
        key=options.key,
        chains=options.chains,
        draws=options.draws,
        progress=False,
        learn_hyper=_learning(post, options, units, before),
        method=options.method,
        batch_size=options.batch_size,
    )
    return _gathered(model, result, units, past, moments, intercept)


def _units(moments: Moments, intercept: bool, with_target: bool) -> Units:
    centre, scale = moments.units(intercept)
    target = (float(centre[-1]), float(scale[-1])) if with_target else (0.0, 1.0)
    return Units(centre[:-1], scale[:-1], *target)


def _past(
    family: Family,
    features: int,
    intercept: bool,
    stream: bool,
    units: Units,
    before: Kept | None,
) -> Past | None:
    """What the rows before these said; None where that is left out of the model."""
    dim = family.outputs * (features + intercept)
    if dim > LIMITS.dense:
        if stream:
            raise InputError(
                f"partial_fit keeps a matrix over all parameters, and {dim:,} are too many (at "
                f"most {LIMITS.dense:,}); use fit on all rows."
            )
        return None
    if before is not None:
        order = flat_order(family.outputs, features, intercept)
        return before.units.carry(before.past, units, family.outputs, order)
    return Past.none(dim) if stream or isinstance(family, Gaussian) else None


def _posterior(
    family: Family,
    rows: Mapping[str, AnyRows],
    names: Sequence[str] | None,
    options: Options,
    units: Units,
    past: Past | None,
) -> Posterior:
    features, intercept = rows["x"].shape[1], bool(options.fit_intercept)
    precision, learn = _precisions(options.prior_precision, features)
    numbers = {}
    if isinstance(family, Gaussian):
        numbers["noise_scale"] = np.asarray(_noise(options.noise_scale, units))
        if isinstance(options.noise_scale, str):
            learn = ("noise_scale", *learn)
            past = None if past is None else _with_least_noise(past, rows)
    prior = Prior(
        [*precision, *[INTERCEPT_PRECISION] * intercept], intercept, options.groups, learn
    )
    return build(family, rows, checks.column_names(None, features, names), prior, numbers, past)


def _precisions(given: Precision, features: int) -> tuple[list[float], tuple[str, ...]]:
    """Of every column, and the name of what is to be learned of them."""
    if isinstance(given, str):
        checks.choice("prior_precision", given, ("learn",))
        return [1.0] * features, ("prior_precision",)
    if np.ndim(given) == 0:
        return [checks.positive("prior_precision", given)] * features, ()
    each = [checks.positive("prior_precision", value) for value in np.asarray(given).tolist()]
    if len(each) != features:
        raise InputError(
            f"prior_precision must be 'learn', a number, or one for each of {features} columns; "
            f"found {len(each)}."
        )
    return each, ()


def _noise(given: Scale, units: Units) -> float:
    """In units of the target's standard deviation; to start from, where it is learned."""
    if isinstance(given, str):
        checks.choice("noise_scale", given, ("learn",))
        return 0.5
    return checks.positive("noise_scale", given) / units.target_scale


def _with_least_noise(past: Past, rows: Mapping[str, Any]) -> Past:
    """A residual for every row, so that columns which determine the target leave some noise."""
    total = float(past.weight) + float(rows["w"].sum() if "w" in rows else len(rows["y"]))
    return past._replace(squares=past.squares + _LEAST_NOISE**2 * total)


def _learning(
    post: Posterior, options: Options, units: Units, before: Kept | None
) -> Literal[False] | dict[str, Any]:
    """How to learn what is to be learned, from where a stream has come."""
    if post.hyperparameters is None:
        return False
    # Laplace's draws have the plan's moments, and nothing to add to them.
    learning: dict[str, Any] = {"moments": "plan"}
    if not post.quadratic and options.method != "laplace":
        learning = {"moments": "draws", "tolerance": _TOLERANCE}
    if before is None or set(before.learned) != set(post.hyperparameters):
        return learning
    start = dict(before.learned)
    if "noise_scale" in start:
        start["noise_scale"] = start["noise_scale"] / units.target_scale
    return {**learning, "start": start}


def _gathered(
    model: str,
    result: Result,
    units: Units,
    past: Past | None,
    moments: Moments,
    intercept: bool,
) -> Fit:
    post = result.posterior
    noise = float(np.asarray(post.hyper.get("noise_scale", 0.0))) * units.target_scale
    coef, shift = _own(post.layout.unravel(result.flat), units)
    values = post.hyperparameters or {}
    learned = {name: np.asarray(value, float) for name, value in values.items()}
    if "noise_scale" in learned:
        learned["noise_scale"] = np.asarray(noise)
    features = len(units.scale)
    each = post.layout.unravel(np.asarray(post.hyper["prior_precision"], float))["coef"]
    precision = learned.get("prior_precision", each.reshape(-1, features)[0])
    kept = _kept_past(result, past, intercept)
    return Fit(
        result=result,
        draws=Coefficients.gather(model, coef, shift, noise),
        center=_own(post.layout.unravel(result.plan.center), units),
        prior_precision=precision if np.ptp(precision) else precision.reshape(-1)[0],
        kept=None if kept is None else Kept(moments, units, kept, learned),
    )


def _own(params: dict[str, Vector], units: Units) -> tuple[Vector, Vector]:
    """Coefficients and intercepts in their own units; without an intercept, zeros."""
    coef = params["coef"]
    return units.own(coef, params.get("intercept", np.zeros(coef.shape[:-1])))


def _kept_past(result: Result, past: Past | None, intercept: bool) -> Past | None:
    """What these rows and those before them said; None where that is too large a matrix."""
    post, known = result.posterior, result.plan.geometry
    if known.structure != "dense":
        return None
    if past is not None and post.quadratic:
        return _added(past, post.data, intercept)
    N, theta = known.num_data, known.center
    precision = np.asarray(post.hyper["prior_precision"], float)
    hessian = known.precision.dense(known.dim) - np.diag(precision)
    slope = hessian @ theta - (N * known.gradient - precision * theta)
    return Past(hessian, slope, np.zeros(()), np.zeros(()))


def _added(past: Past, rows: dict[str, npt.NDArray[Any]], intercept: bool) -> Past:
    """Of a Gaussian family, at unit noise: sums of products over the rows."""
    x, y = rows["x"], rows["y"]
    design = np.column_stack([x, np.ones(len(x))]) if intercept else x
    weights = rows.get("w", np.ones(len(x)))
    weighted = design * weights[:, None]
    return Past(
        past.hessian + weighted.T @ design,
        past.slope + weighted.T @ y,
        np.asarray(past.squares + weights @ y**2),
        np.asarray(past.weight + weights.sum()),
    )
