"""Ready-made posteriors over tables. Parameters are named ``coef`` and ``intercept``."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein import _check
from ornstein._check import InputError
from ornstein._tree import Layout
from ornstein._types import LogLikelihood, LogPrior, PyTree
from ornstein.models.families import Bernoulli, Categorical, Counts, Family, Gaussian
from ornstein.models.glm import Glm
from ornstein.models.tying import Groups, tie
from ornstein.posterior import Posterior


def linear(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    prior_precision: float | Sequence[float] = 1.0,
    noise_scale: float = 1.0,
    intercept: bool = False,
    feature_names: Sequence[str] | None = None,
    groups: Groups = None,
    learn: str | Sequence[str] = ("prior_precision", "noise_scale"),
) -> Posterior:
    """Linear regression: ``y = X coef + intercept + noise_scale * normal``.

    Parameters
    ----------
    X
        Table of shape (rows, columns); an array or a DataFrame.
    y
        Target, one number per row.
    prior_precision
        Precision of the normal prior on every parameter, the intercept included; one number, or
        one per column (the intercept's last).
    noise_scale
        Standard deviation of the noise.
    intercept
        Whether to add an intercept.
    feature_names
        Names of the columns; a DataFrame's own by default.
    groups
        Which columns share a prior precision when it is learned: all but the intercept (None),
        none (``"columns"``: automatic relevance determination), or those of the same label (one
        label per column, and if wished the intercept's last; None for a precision left alone).
    learn
        The hyperparameters that :func:`ornstein.learn` may learn.

    Examples
    --------
    >>> linear([[0.0], [1.0], [2.0]], [0.1, 0.9, 2.1], intercept=True)
    Posterior(rows=3, parameters=2: coef[0], intercept)
    """
    table, names = _check.table(X, feature_names)
    target = _check.target(y, len(table)).astype(float)
    hyper = {"noise_scale": np.asarray(_check.positive("noise_scale", noise_scale))}
    prior = _Prior(prior_precision, intercept, groups, learn)
    return _glm(Gaussian(), table, target, names, prior, hyper)


def logistic(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    prior_precision: float | Sequence[float] = 1.0,
    intercept: bool = False,
    feature_names: Sequence[str] | None = None,
    groups: Groups = None,
    learn: str | Sequence[str] = "prior_precision",
) -> Posterior:
    """Logistic regression: ``y`` is 1 with probability ``sigmoid(X coef + intercept)``, else 0.

    Parameters are those of :func:`linear`; ``y`` holds 0 and 1.

    Examples
    --------
    >>> logistic([[0.0], [1.0], [2.0]], [0, 1, 1])
    Posterior(rows=3, parameters=1: coef[0])
    """
    table, names = _check.table(X, feature_names)
    target, classes = _check.labels(_check.target(y, len(table)), None)
    if classes > 2:
        raise InputError(f"y has {classes} classes; logistic takes 0 and 1. Use models.softmax.")
    prior = _Prior(prior_precision, intercept, groups, learn)
    return _glm(Bernoulli(), table, target.astype(float), names, prior, {})


def softmax(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    prior_precision: float | Sequence[float] = 1.0,
    intercept: bool = False,
    num_classes: int | None = None,
    feature_names: Sequence[str] | None = None,
    groups: Groups = None,
    learn: str | Sequence[str] = "prior_precision",
) -> Posterior:
    """Multinomial logistic regression over ``num_classes`` labels ``0 .. K-1``.

    ``coef`` has shape (classes, columns). Every class has its own coefficients, so the direction
    that moves all classes alike is known from the prior only. Other parameters as in
    :func:`linear`.

    Examples
    --------
    >>> softmax([[0.0], [1.0], [2.0]], [0, 1, 2])
    Posterior(rows=3, parameters=3: coef[0, 0], coef[1, 0], coef[2, 0])
    """
    table, names = _check.table(X, feature_names)
    target, classes = _check.labels(_check.target(y, len(table)), num_classes)
    prior = _Prior(prior_precision, intercept, groups, learn)
    return _glm(Categorical(classes), table, target, names, prior, {})


def poisson(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    prior_precision: float | Sequence[float] = 1.0,
    intercept: bool = False,
    feature_names: Sequence[str] | None = None,
    groups: Groups = None,
    learn: str | Sequence[str] = "prior_precision",
) -> Posterior:
    """Poisson regression: ``y`` counts with mean ``exp(X coef + intercept)``.

    Parameters are those of :func:`linear`; ``y`` holds whole numbers from 0.

    Examples
    --------
    >>> poisson([[0.0], [1.0], [2.0]], [0, 2, 7])
    Posterior(rows=3, parameters=1: coef[0])
    """
    table, names = _check.table(X, feature_names)
    target = _check.target(y, len(table)).astype(float)
    if target.min() < 0 or not np.array_equal(target, np.rint(target)):
        raise InputError("y must hold counts (whole numbers from 0) for a Poisson model.")
    prior = _Prior(prior_precision, intercept, groups, learn)
    return _glm(Counts(), table, target, names, prior, {})


class _Prior(NamedTuple):
    """What a user said of the prior and of what to learn; not checked yet."""

    precision: float | Sequence[float]
    intercept: bool
    groups: Groups
    learn: str | Sequence[str]


def _glm(
    family: Family,
    table: npt.NDArray[Any],
    target: npt.NDArray[Any],
    names: tuple[str, ...] | None,
    prior: _Prior,
    hyper: dict[str, Any],
) -> Posterior:
    intercept = prior.intercept
    if not isinstance(intercept, bool | np.bool_):
        raise InputError(f"intercept must be True or False, found {intercept!r}.")
    features, outputs = table.shape[1], family.outputs
    params = {"coef": np.zeros((outputs, features) if outputs > 1 else features)}
    if intercept:
        params["intercept"] = np.zeros(outputs if outputs > 1 else ())
    model = Glm(family, Layout.of(params), features, bool(intercept))
    precision = _prior_precision(prior.precision, features + bool(intercept))
    hyper = hyper | {"prior_precision": np.tile(precision, outputs)[model.order]}

    def functions(hyper: PyTree) -> tuple[LogLikelihood, LogPrior]:
        return _functions(model, hyper)

    learn = tie(model, hyper, names, prior.groups, prior.learn, functions)
    data = {"x": table, "y": target}
    named = {"coef": names} if names else {}
    return Posterior.of_model(model, *functions(hyper), data, hyper, named, learn)


def _functions(model: Glm, hyper: PyTree) -> tuple[LogLikelihood, LogPrior]:
    """Log-likelihood of a row and log-prior, in plain JAX."""
    fixed = jax.tree.map(lambda leaf: leaf.tolist(), hyper)  # as plain numbers

    def log_likelihood(params: PyTree, example: PyTree) -> Any:
        coef = params["coef"]
        eta = coef @ jnp.asarray(example["x"], coef.dtype)
        eta = eta + params["intercept"] if model.intercept else eta
        return -model.family.loss(eta, example["y"], fixed)

    def log_prior(params: PyTree) -> Any:
        theta = jnp.concatenate([jnp.reshape(leaf, (-1,)) for leaf in jax.tree.leaves(params)])
        precision = jnp.asarray(fixed["prior_precision"], theta.dtype)
        return -model.prior_loss(theta, {"prior_precision": precision})

    return log_likelihood, log_prior


def _prior_precision(given: float | Sequence[float], width: int) -> npt.NDArray[np.float64]:
    try:
        precision = np.asarray(given, float)
    except (TypeError, ValueError):
        precision = np.asarray(np.nan)
    if precision.ndim > 1 or (precision.ndim == 1 and len(precision) != width):
        raise InputError(
            f"prior_precision must be one number or {width} (one per column, the intercept's "
            f"last), found shape {precision.shape}."
        )
    if not np.all(np.isfinite(precision) & (precision > 0)):
        raise InputError(f"prior_precision must be finite and above 0, found {given!r}.")
    return np.broadcast_to(precision, (width,)).copy()
