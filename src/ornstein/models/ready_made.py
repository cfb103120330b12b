"""Ready-made posteriors over tables. Parameters are named ``coef`` and ``intercept``."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.trees import Layout
from ornstein._base.types import LogLikelihood, LogPrior, PyTree
from ornstein.data import inputs
from ornstein.data.on_disk import AnyRows, RowsOnDisk
from ornstein.models.auxiliary_glm import AuxiliaryGlm
from ornstein.models.families import Bernoulli, Categorical, Family, Gaussian, Poisson
from ornstein.models.glm import ContinuedGlm, Glm, Past
from ornstein.models.hyperparameters import Groups, glm_hyperparameters
from ornstein.models.posterior import Posterior
from ornstein.models.priors import Priors, named_priors, prior_precisions, without_fixed


def linear(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    prior_precision: float | Sequence[float] = 1.0,
    noise_scale: float = 1.0,
    intercept: bool = False,
    feature_names: Sequence[str] | None = None,
    groups: Groups = None,
    learn: str | Sequence[str] = ("prior_precision", "noise_scale"),
    sample_weight: npt.ArrayLike | None = None,
    offset: npt.ArrayLike | None = None,
    priors: Priors = None,
) -> Posterior:
    """Linear regression: ``y = X coef + intercept + noise_scale * normal``.

    Parameters
    ----------
    X
        Table of shape (rows, columns): an array, or a data frame of pandas, polars, pyarrow or any
        library that narwhals knows.
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
        Names of the columns; a data frame's own by default.
    groups
        Which columns share a prior precision when it is learned: all but the intercept (None),
        none (``"columns"``: automatic relevance determination), or those with the same label (one
        label per column, and optionally the intercept's last; None for a precision that is not
        learned).
    learn
        The hyperparameters that :func:`ornstein.learn` may learn.
    sample_weight
        How much every row counts: its log-likelihood is multiplied by it. A whole number has the
        effect of that many copies of the row; rows of weight 0 are left out.
    offset
        What is added to every row's linear predictor, such as the logarithm of an exposure.
    priors
        Normal priors of single parameters by name (columns, ``intercept``), such as
        ``{"age": ornstein.Normal(0.0, 0.5)}``; their precisions are fixed.

    Examples
    --------
    >>> linear([[0.0], [1.0], [2.0]], [0.1, 0.9, 2.1], intercept=True)
    Posterior(rows=3, parameters=2: coef[0], intercept)
    """
    prior = Prior(prior_precision, intercept, groups, learn, priors)
    hyper = {"noise_scale": np.asarray(checks.positive("noise_scale", noise_scale))}
    return of_family(
        Gaussian, X, y, prior, feature_names, sample_weight, hyper=hyper, offset=offset
    )


def logistic(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    prior_precision: float | Sequence[float] = 1.0,
    intercept: bool = False,
    feature_names: Sequence[str] | None = None,
    groups: Groups = None,
    learn: str | Sequence[str] = "prior_precision",
    sample_weight: npt.ArrayLike | None = None,
    offset: npt.ArrayLike | None = None,
    priors: Priors = None,
) -> Posterior:
    """Logistic regression: ``y`` is 1 with probability ``sigmoid(X coef + intercept)``, else 0.

    Parameters are those of :func:`linear`; ``y`` holds 0 and 1.

    Examples
    --------
    >>> logistic([[0.0], [1.0], [2.0]], [0, 1, 1])
    Posterior(rows=3, parameters=1: coef[0])
    """
    prior = Prior(prior_precision, intercept, groups, learn, priors)
    return of_family(Bernoulli, X, y, prior, feature_names, sample_weight, offset=offset)


def softmax(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    prior_precision: float | Sequence[float] = 1.0,
    intercept: bool = False,
    num_classes: int | None = None,
    feature_names: Sequence[str] | None = None,
    groups: Groups = None,
    learn: str | Sequence[str] = "prior_precision",
    sample_weight: npt.ArrayLike | None = None,
    priors: Priors = None,
) -> Posterior:
    """Multinomial logistic regression over ``num_classes`` labels ``0 .. K-1``.

    ``coef`` has shape (classes, columns). Every class has its own coefficients, so the prior
    alone determines the direction that moves all classes alike. Other parameters are those of
    :func:`linear`.

    Examples
    --------
    >>> softmax([[0.0], [1.0], [2.0]], [0, 1, 2])
    Posterior(rows=3, parameters=3: coef[0, 0], coef[1, 0], coef[2, 0])
    """
    prior = Prior(prior_precision, intercept, groups, learn, priors)
    return of_family(Categorical, X, y, prior, feature_names, sample_weight, num_classes)


def poisson(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    prior_precision: float | Sequence[float] = 1.0,
    intercept: bool = False,
    feature_names: Sequence[str] | None = None,
    groups: Groups = None,
    learn: str | Sequence[str] = "prior_precision",
    sample_weight: npt.ArrayLike | None = None,
    offset: npt.ArrayLike | None = None,
    priors: Priors = None,
) -> Posterior:
    """Poisson regression: ``y`` counts with mean ``exp(X coef + intercept)``.

    Parameters are those of :func:`linear`; ``y`` holds whole numbers from 0.

    Examples
    --------
    >>> poisson([[0.0], [1.0], [2.0]], [0, 2, 7])
    Posterior(rows=3, parameters=1: coef[0])
    """
    prior = Prior(prior_precision, intercept, groups, learn, priors)
    return of_family(Poisson, X, y, prior, feature_names, sample_weight, offset=offset)


class Prior(NamedTuple):
    """The prior and what to learn, as a user gave them; not checked yet.

    ``by_name`` has priors of single parameters: of columns, the intercept and auxiliary ones. Their
    precisions are fixed.
    """

    precision: float | Sequence[float]
    intercept: bool
    groups: Groups = None
    learn: str | Sequence[str] = "prior_precision"
    by_name: Priors = None


def of_family(
    kind: type[Family],
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    prior: Prior,
    feature_names: Sequence[str] | None = None,
    sample_weight: npt.ArrayLike | None = None,
    num_classes: int | None = None,
    hyper: PyTree = None,
    offset: npt.ArrayLike | None = None,
) -> Posterior:
    """The posterior of a family and of rows as a user gives them; what a builder calls."""
    table, names = inputs.table(X, feature_names)
    family, target = kind.of_target(inputs.target(y, len(table)), num_classes)
    rows = weighted_rows(table, target, sample_weight, offset)
    return build(family, rows, names, prior, hyper)


def weighted_rows(
    table: AnyRows,
    target: AnyRows,
    sample_weight: npt.ArrayLike | None,
    offset: npt.ArrayLike | None = None,
) -> dict[str, AnyRows]:
    """Rows for :func:`build`, weights and offsets checked; those of weight 0 are left out."""
    rows = {"x": table, "y": target}
    if offset is not None:
        rows["offset"] = inputs.offsets(offset, len(table))
    if sample_weight is None:
        return rows
    if isinstance(table, RowsOnDisk) or isinstance(target, RowsOnDisk):
        raise InputError(
            "sample_weight is for rows in memory. For a table on disk, leave out the rows that "
            "should not count, and repeat the others as often as they should."
        )
    weights = inputs.weights(sample_weight, len(table))
    kept = weights > 0
    return {**{name: leaf[kept] for name, leaf in rows.items()}, "w": weights[kept]}


def build(
    family: Family,
    rows: Mapping[str, AnyRows],
    names: tuple[str, ...] | None,
    prior: Prior,
    hyper: PyTree = None,
    past: Past | None = None,
) -> Posterior:
    """The posterior of a family, of rows that were checked to suit it.

    ``hyper`` has the family's own numbers; ``past`` stands for earlier rows.
    """
    intercept = checks.flag("intercept", prior.intercept)
    if intercept and not family.intercept:
        raise InputError(
            f"intercept=True: {checks.a_or_an(family.name)} model has cutpoints for it; leave "
            "it out."
        )
    features, outputs = rows["x"].shape[1], family.outputs
    if "offset" in rows and outputs > 1:
        raise InputError(
            f"offset is for models of one predictor; {checks.a_or_an(family.name)} model has more."
        )
    params = {"coef": np.zeros((outputs, features) if outputs > 1 else features)}
    if intercept:
        params["intercept"] = np.zeros(outputs if outputs > 1 else ())
    for one in family.auxiliary:
        params[one.name] = np.zeros(one.shape)
    kind = Glm if past is None else ContinuedGlm
    kind = AuxiliaryGlm if family.auxiliary else kind
    model = kind(family, Layout.of(params), features, intercept)
    precision = prior_precisions(prior.precision, features + intercept)
    numbers = {**(hyper or {}), "prior_precision": np.tile(precision, outputs)[model.order]}
    numbers, fixed = named_priors(model, numbers, names, prior.by_name, rows["y"])
    hyper = numbers if past is None else {**numbers, "past": past._asdict()}
    functions = partial(_functions, model)
    groups = without_fixed(prior.groups, fixed, model, names)
    learn = glm_hyperparameters(model, numbers, names, groups, prior.learn, functions)
    named = {"coef": names} if names else {}
    post = Posterior.of_model(model, *functions(hyper), rows, hyper, named, learn)
    if family.auxiliary:
        post.constrain = partial(_reported, family)
        post.init = model.layout.unravel(numbers["prior_mean"])
    return post


def _reported(family: Family, params: PyTree, hyper: PyTree = None) -> PyTree:
    """Parameters, the auxiliary ones in their own range."""
    del hyper
    hidden = {one.name for one in family.auxiliary}
    shown = {name: leaf for name, leaf in params.items() if name not in hidden}
    return shown | {one.reported: one.range.compiled(params[one.name]) for one in family.auxiliary}


class _Fixed:
    """The model's numbers, hidden from the search for captured arrays."""

    __slots__ = ("numbers",)

    def __init__(self, numbers: PyTree) -> None:
        self.numbers = numbers

    def cast(self, dtype: npt.DTypeLike) -> PyTree:
        """New arrays in a precision: JAX remembers those it has seen by identity."""
        return jax.tree.map(lambda leaf: jnp.asarray(np.array(leaf, dtype)), self.numbers)


def _functions(model: Glm, hyper: PyTree) -> tuple[LogLikelihood, LogPrior]:
    """Log-likelihood of a row and log-prior, in plain JAX."""
    fixed = _Fixed(hyper)
    own = {one.name for one in model.family.auxiliary}

    def log_likelihood(params: PyTree, example: PyTree) -> Any:
        coef = params["coef"]
        eta = coef @ jnp.asarray(example["x"], coef.dtype)
        eta = eta + params["intercept"] if model.intercept else eta
        eta = eta + jnp.asarray(example["offset"], eta.dtype) if "offset" in example else eta
        numbers = {**fixed.cast(coef.dtype), **{n: params[n] for n in params if n in own}}
        loss = model.family.loss(eta, example["y"], numbers)
        return -loss * jnp.asarray(example["w"], loss.dtype) if "w" in example else -loss

    def log_prior(params: PyTree) -> Any:
        theta = jnp.concatenate([jnp.reshape(leaf, (-1,)) for leaf in jax.tree.leaves(params)])
        return -model.prior_loss(theta, fixed.cast(theta.dtype))

    return log_likelihood, log_prior
