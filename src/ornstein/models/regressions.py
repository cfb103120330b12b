"""Ready-made posteriors of further families; those of the first ones are in ``ready_made``.

Auxiliary parameters (a shape, a zero share, cutpoints) are drawn with the coefficients, on the real
line; draws and summaries show them in their own range.
"""

from collections.abc import Sequence
from typing import TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.data import inputs
from ornstein.models import families
from ornstein.models.families import Family
from ornstein.models.hyperparameters import Groups
from ornstein.models.posterior import Posterior
from ornstein.models.priors import Priors
from ornstein.models.ready_made import Prior, of_family


class ModelOptions(TypedDict, total=False):
    """Options of every model here: those of :func:`~ornstein.models.linear`."""

    prior_precision: float | Sequence[float]
    intercept: bool
    feature_names: Sequence[str] | None
    groups: Groups
    learn: str | Sequence[str]
    sample_weight: npt.ArrayLike | None
    offset: npt.ArrayLike | None
    priors: Priors


def binomial(
    X: npt.ArrayLike, y: npt.ArrayLike, trials: npt.ArrayLike, **options: Unpack[ModelOptions]
) -> Posterior:
    """Binomial regression: ``y`` of ``trials`` succeed, with probability ``sigmoid(X coef)``.

    Options are those of :func:`linear`; so are those of the models below.

    Examples
    --------
    >>> binomial([[0.0], [1.0], [2.0]], [1, 3, 9], trials=[10, 10, 10])
    Posterior(rows=3, parameters=1: coef[0])
    """
    share, count = successes(y, trials)
    weight = options.get("sample_weight")
    counted = count if weight is None else count * inputs.weights(weight, len(count))
    options["sample_weight"] = counted
    return _of(families.Binomial, X, share, **options)


def negative_binomial(
    X: npt.ArrayLike, y: npt.ArrayLike, **options: Unpack[ModelOptions]
) -> Posterior:
    """Counts that vary more than Poisson's: mean ``m = exp(X coef)``, variance ``m + m^2 / shape``.

    The prior of ``log(shape)`` is normal with mean 1 and standard deviation 1.5; set another by
    ``priors={"shape": ornstein.Normal(0.0, 1.0)}``.

    Examples
    --------
    >>> negative_binomial([[0.0], [1.0], [2.0]], [0, 2, 7])
    Posterior(rows=3, parameters=2: coef[0], log_shape)
    """
    return _of(families.NegativeBinomial, X, y, **options)


def zero_inflated_poisson(
    X: npt.ArrayLike, y: npt.ArrayLike, **options: Unpack[ModelOptions]
) -> Posterior:
    """Poisson counts of mean ``exp(X coef)``, but for a ``zero_share`` of rows that are 0 anyway.

    The prior of the share's logit is normal with mean 0 and standard deviation 1.5.

    Examples
    --------
    >>> zero_inflated_poisson([[0.0], [1.0], [2.0]], [0, 2, 7])
    Posterior(rows=3, parameters=2: coef[0], logit_zero_share)
    """
    return _of(families.ZeroInflatedPoisson, X, y, **options)


def hurdle_poisson(
    X: npt.ArrayLike, y: npt.ArrayLike, **options: Unpack[ModelOptions]
) -> Posterior:
    """A ``zero_share`` of rows is 0; the others are Poisson counts given that they are not 0.

    The prior of the share's logit is normal with mean 0 and standard deviation 1.5.

    Examples
    --------
    >>> hurdle_poisson([[0.0], [1.0], [2.0]], [0, 2, 7])
    Posterior(rows=3, parameters=2: coef[0], logit_zero_share)
    """
    return _of(families.HurdlePoisson, X, y, **options)


def gamma(X: npt.ArrayLike, y: npt.ArrayLike, **options: Unpack[ModelOptions]) -> Posterior:
    """Gamma regression of positive numbers: mean ``m = exp(X coef)``, variance ``m^2 / shape``.

    The prior of ``log(shape)`` is normal with mean 1 and standard deviation 1.5.

    Examples
    --------
    >>> gamma([[0.0], [1.0], [2.0]], [0.3, 2.1, 7.0])
    Posterior(rows=3, parameters=2: coef[0], log_shape)
    """
    return _of(families.Gamma, X, y, **options)


def exponential(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    event: npt.ArrayLike | None = None,
    **options: Unpack[ModelOptions],
) -> Posterior:
    """Waiting times of mean ``exp(X coef)``, censored on the right where ``event`` is 0.

    Parameters
    ----------
    X
        Table, (rows, columns).
    y
        How long every row was watched, above 0.
    event
        1 where the wait ended then, 0 where it only is known to be longer; all ended by default.
    **options
        As for :func:`linear`.

    Examples
    --------
    >>> exponential([[0.0], [1.0], [2.0]], [0.3, 2.1, 7.0], event=[1, 1, 0])
    Posterior(rows=3, parameters=1: coef[0])
    """
    return _of(families.Exponential, X, waiting(y, event), **options)


def weibull(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    event: npt.ArrayLike | None = None,
    **options: Unpack[ModelOptions],
) -> Posterior:
    """Waiting times ``y`` with ``P(Y > y) = exp(-(y / exp(X coef))^shape)``.

    The prior of ``log(shape)`` is standard normal. ``event`` and options are those of
    :func:`exponential`.

    Examples
    --------
    >>> weibull([[0.0], [1.0], [2.0]], [0.3, 2.1, 7.0], event=[1, 1, 0])
    Posterior(rows=3, parameters=2: coef[0], log_shape)
    """
    return _of(families.Weibull, X, waiting(y, event), **options)


def student_t(X: npt.ArrayLike, y: npt.ArrayLike, **options: Unpack[ModelOptions]) -> Posterior:
    """Linear regression with Student's noise: ``y = X coef + noise_scale * t(df)``.

    The prior of ``log(df)`` is normal with mean 2.5 and standard deviation 1 (2.4 to 63 degrees of
    freedom in 90 %), that of ``log(noise_scale)`` normal with mean ``log(sd(y)) - 0.5`` and
    standard deviation 1.5.

    Examples
    --------
    >>> student_t([[0.0], [1.0], [2.0]], [0.3, 2.1, 7.0])
    Posterior(rows=3, parameters=3: coef[0], log_df, log_noise_scale)
    """
    return _of(families.StudentT, X, y, **options)


def beta(X: npt.ArrayLike, y: npt.ArrayLike, **options: Unpack[ModelOptions]) -> Posterior:
    """Shares between 0 and 1: mean ``m = sigmoid(X coef)``, variance ``m(1 - m)/(1 + precision)``.

    The prior of ``log(precision)`` is normal with mean 2 and standard deviation 1.5.

    Examples
    --------
    >>> beta([[0.0], [1.0], [2.0]], [0.3, 0.1, 0.7])
    Posterior(rows=3, parameters=2: coef[0], log_precision)
    """
    return _of(families.Beta, X, y, **options)


def ordinal(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    num_classes: int | None = None,
    **options: Unpack[ModelOptions],
) -> Posterior:
    """Classes in an order, ``0 .. K-1``: ``P(y <= k) = sigmoid(cutpoints[k] - X coef)``.

    There is no intercept. Sampled are the first cutpoint and the logarithms of the gaps; their
    priors are normal, centred on classes of equal shares, with standard deviations 2.5 and 1.

    Examples
    --------
    >>> ordinal([[0.0], [1.0], [2.0]], [0, 1, 2])
    Posterior(rows=3, parameters=3: coef[0], raw_cutpoints[0], raw_cutpoints[1])
    """
    return _of(families.Ordinal, X, y, num_classes=num_classes, **options)


def _of(
    kind: type[Family],
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
    num_classes: int | None = None,
) -> Posterior:
    prior = Prior(prior_precision, intercept, groups, learn, priors)
    return of_family(kind, X, y, prior, feature_names, sample_weight, num_classes, offset=offset)


def successes(y: npt.ArrayLike, trials: npt.ArrayLike) -> tuple[Vector, Vector]:
    """Shares of successes and numbers of trials, checked."""
    count = np.asarray(inputs.target(trials, len(np.asarray(trials))), float)
    won = np.asarray(inputs.target(y, len(count)), float)
    wrong = (count < 1) | (count != np.rint(count)) | (won != np.rint(won))
    wrong |= (won < 0) | (won > count)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            "y must count successes, whole numbers from 0 to trials, of at least 1 trial; found "
            f"{won[row]:g} of {count[row]:g} in row {row}."
        )
    return won / count, count


def waiting(y: npt.ArrayLike, event: npt.ArrayLike | None) -> Vector:
    """Waiting times as families take them: negative where censored; checked."""
    time = np.asarray(inputs.target(y, len(np.asarray(y))), float)
    if (time <= 0).any():
        row = int(np.argmax(time <= 0))
        raise InputError(f"y must hold waiting times above 0, found {time[row]:g} in row {row}.")
    if event is None:
        return time
    ended = np.asarray(inputs.target(event, len(time)))
    if not np.isin(ended, (0, 1)).all():
        row = int(np.argmax(~np.isin(ended, (0, 1))))
        raise InputError(
            "event must hold 1 where the wait ended and 0 where it is censored, found "
            f"{ended[row]:g} in row {row}."
        )
    if not ended.any():
        raise InputError("event is 0 throughout: no wait ended, so there is nothing to learn.")
    return np.where(ended == 1, time, -time)
