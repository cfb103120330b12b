"""A mixed model of arrays: what users say, checked and made into parts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.data import inputs
from ornstein.data.on_disk import RowsOnDisk
from ornstein.models.families import FAMILIES, Binomial, Family, family_name
from ornstein.models.families.durations import Waiting
from ornstein.models.hyper_priors import HalfStudentT, ScalePrior
from ornstein.models.priors import Normal, Priors
from ornstein.models.random_effects.auxiliary import auxiliary_priors
from ornstein.models.random_effects.groupings import INTERCEPT, Effects, levels_of
from ornstein.models.random_effects.named_priors import SIGMA, named_priors
from ornstein.models.random_effects.posterior import (
    FixedPart,
    GroupRows,
    MixedPosterior,
    Target,
    assemble,
    by_size,
)
from ornstein.models.random_effects.units import MixedUnits
from ornstein.models.regressions import successes, waiting

WIDE = 2.5
"""Standard deviation of a coefficient's default prior, and scale of a standard deviation's, in
units of target and column."""


def mixed(
    X: npt.ArrayLike | None,
    y: npt.ArrayLike,
    groups: Mapping[str, Any],
    family: str = "gaussian",
    intercept: bool = True,
    feature_names: Sequence[str] | None = None,
    prior_scale: float | Sequence[float] | None = None,
    sd_prior: ScalePrior | Mapping[str, ScalePrior] | None = None,
    noise_prior: ScalePrior | None = None,
    correlation_concentration: float = 1.0,
    sample_weight: npt.ArrayLike | None = None,
    offset: npt.ArrayLike | None = None,
    trials: npt.ArrayLike | None = None,
    event: npt.ArrayLike | None = None,
    priors: Priors = None,
) -> MixedPosterior:
    """A mixed model: ``X coef + intercept`` and effects of groups, for any number of rows.

    The effects of a factor's levels are normal with mean zero; their standard deviations and
    correlations are drawn with everything else, and so are the family's own parameters, such as a
    shape. Several factors may be crossed or nested.

    Parameters
    ----------
    X
        Table of shape (rows, columns), an array or a data frame; None for an intercept only.
    y
        Target, one number per row; classes in an order are whole numbers from 0.
    groups
        By name, the level of every row (effects are then intercepts), or
        :class:`ornstein.models.Effects` for slopes too.
    family
        ``gaussian``, ``bernoulli``, ``poisson``, or any other family of one predictor:
        ``binomial``, ``negative_binomial``, ``zero_inflated_poisson``, ``hurdle_poisson``,
        ``gamma``, ``exponential``, ``weibull``, ``beta``, ``student_t``, ``ordinal``.
    intercept
        Whether to add an intercept; an ordinal model has cutpoints instead.
    feature_names
        Names of the columns; a data frame's own by default.
    prior_scale
        Standard deviation of the coefficients' normal prior: one number, or one per column, the
        intercept's last. By default 2.5 in units of the target's and the column's standard
        deviations, and for the intercept as much where the columns have their means.
    sd_prior
        Prior of the effects' standard deviations, or a mapping by group; by default
        ``HalfStudentT(3, 2.5)`` in the same units.
    noise_prior
        Prior of a Gaussian noise's standard deviation, likewise.
    correlation_concentration
        Of the LKJ prior of correlations: 1 makes all correlation matrices alike, more favours
        small correlations.
    sample_weight
        How much every row counts: its log-likelihood is multiplied by it.
    offset
        Known part of the predictor, one number per row.
    trials
        Of a binomial model, of which ``y`` succeeded.
    event
        Of an exponential or Weibull model: 1 where the wait ended, 0 where it is known only to be
        longer than ``y``.
    priors
        Priors of single parameters by the names of the result: ``orn.Normal`` of coefficients and
        of the family's own parameters, as for :func:`ornstein.models.negative_binomial`;
        ``orn.HalfNormal`` and its like of standard deviations (``sd(school)``, ``sd(school: x)``,
        ``sigma``); ``orn.LKJ`` of a group's correlations (``cor(school)``).

    Examples
    --------
    >>> mixed([[0.0], [1.0], [2.0], [1.0]], [0, 1, 1, 0], {"school": [7, 7, 9, 9]}, "bernoulli")
    MixedPosterior(logistic, rows=4, fixed=2, school (2 levels: 1))
    """
    intercept = checks.flag("intercept", intercept)
    rows = np.shape(y)[0] if X is None else len(inputs.table(X)[0])
    kind = FAMILIES[family_name("linear" if family == "normal" else family)]
    target = _target(kind, inputs.target(y, rows), trials, event, sample_weight, offset)
    intercept = intercept or not kind.intercept
    table, names = _table(X, feature_names, rows, intercept)
    unit = float(np.std(target.y)) if kind.scaled else 1.0
    if unit == 0:
        raise InputError("y has one value only: there is nothing to explain.")
    given = _groups(groups)
    slopes = {name: _slopes(name, effects, names) for name, effects in given.items()}
    concentration = checks.positive("correlation_concentration", correlation_concentration)
    plain = [
        _group_rows(name, effects, slopes[name], table, names, sd_prior, unit)._replace(
            concentration=concentration
        )
        for name, effects in given.items()
    ]
    labels = (*names, "intercept") if intercept else names
    reported = labels if kind.intercept else names
    own_names = [one.reported for one in target.family.auxiliary]
    noisy = kind.scaled and not own_names
    chosen = named_priors([*reported, *own_names], plain, noisy, priors)
    found, own = by_size([chosen.of_group(group) for group in plain]), chosen.normal
    auxiliary, first = auxiliary_priors(target.family, target.y, own)
    mean, precision = _fixed_prior(table, target, intercept, prior_scale, unit, first)
    for name in set(own) & set(reported):
        mean[labels.index(name)] = own[name].mean
        precision[labels.index(name)] = own[name].sd ** -2.0
    noise = None
    if noisy:
        usual = noise_prior if noise_prior is not None else HalfStudentT(3.0, WIDE * unit)
        noise = chosen.scales.get(SIGMA, usual)
    return assemble(
        target,
        FixedPart(with_ones(table) if intercept else table, labels, mean, precision),
        found,
        noise,
        auxiliary,
        intercept and kind.intercept,
        MixedUnits.none(len(names), [len(group.columns) for group in found]),
        tuple(slopes[group.name] for group in found),
    )


def with_ones(table: Vector) -> Vector:
    """A table with the intercept's column."""
    return np.concatenate([table, np.ones((len(table), 1))], axis=1)


def refuse_several(family: Family, given: str) -> None:
    """Raise for a family of several predictors."""
    if family.outputs > 1:
        raise InputError(
            f"family={given!r} has several predictors, which random effects cannot be added to "
            "yet. Use 'ordinal' for classes in an order, 'bernoulli' for one class against the "
            "others."
        )


def _target(
    kind: type[Family], y: Any, trials: Any, event: Any, sample_weight: Any, offset: Any
) -> Target:
    """The target as its family takes it; trials become weights."""
    if isinstance(y, RowsOnDisk):
        raise InputError("a mixed model needs its rows in memory: read them with rows[:].")
    rows = len(y)
    weight: Vector | None = None
    if sample_weight is not None:
        weight = np.asarray(inputs.weights(sample_weight, rows), float)
    if (trials is not None) != (kind is Binomial):
        raise InputError(
            "family='binomial' needs trials, the number of trials of every row."
            if kind is Binomial
            else f"trials is for family='binomial'; a {kind.name} model has none."
        )
    if event is not None and not issubclass(kind, Waiting):
        raise InputError(f"event is for waiting times; a {kind.name} model has none.")
    if kind is Binomial:
        y, count = successes(y, trials)
        weight = count if weight is None else weight * count
    elif issubclass(kind, Waiting):
        y = waiting(y, event)
    refuse_several(kind(), kind.name)
    family, y = kind.of_target(y)
    known = None if offset is None else np.asarray(inputs.target(offset, rows), float)
    return Target(family, as_target(family, y), weight, known)


def as_target(family: Family, y: Any) -> npt.NDArray[Any]:
    """Numbers, and class numbers of more than two classes as such."""
    return np.asarray(y, np.int32 if family.most_classes > 2 else float)


def _table(X: Any, feature_names: Any, rows: int, intercept: bool) -> tuple[Any, tuple[str, ...]]:
    if X is None:
        if not intercept:
            raise InputError("X is None and intercept is False: there is no fixed coefficient.")
        return np.zeros((rows, 0)), ()
    table, names = inputs.table(X, feature_names)
    if isinstance(table, RowsOnDisk):
        raise InputError("a mixed model needs its rows in memory: read them with rows[:].")
    own = names or tuple(f"coef[{j}]" for j in range(table.shape[1]))
    return np.asarray(table, float), own


def _groups(groups: Any) -> dict[str, Effects]:
    if not isinstance(groups, Mapping) or not groups:
        raise InputError(
            "groups must map names to the levels of the rows, e.g. {'school': ids}; found "
            f"{checks.shown(groups)}."
        )
    return {
        str(name): part if isinstance(part, Effects) else Effects(part)
        for name, part in groups.items()
    }


def _slopes(name: str, effects: Effects, names: tuple[str, ...]) -> tuple[int, ...]:
    """Numbers of the columns whose coefficients vary."""
    found = []
    if isinstance(effects.slopes, str):
        raise InputError(f"groups[{name!r}].slopes must be a sequence of columns, not a text.")
    for column in effects.slopes:
        if isinstance(column, str):
            checks.choice(f"groups[{name!r}].slopes", column, names)
            found.append(names.index(column))
        else:
            last = len(names) - 1
            found.append(checks.whole(f"groups[{name!r}].slopes", column, low=0, high=last))
    if not found and not effects.intercept:
        raise InputError(f"groups[{name!r}] has no effects: neither an intercept nor slopes.")
    return tuple(found)


def _group_rows(
    name: str,
    effects: Effects,
    slopes: tuple[int, ...],
    table: Vector,
    names: tuple[str, ...],
    sd_prior: ScalePrior | Mapping[str, ScalePrior] | None,
    unit: float,
) -> GroupRows:
    levels, index = levels_of(name, effects.labels, len(table))
    columns = (*([INTERCEPT] if effects.intercept else []), *(names[j] for j in slopes))
    design = None
    if slopes:
        own = table[:, list(slopes)]
        design = np.concatenate([np.ones((len(own), 1)), own], axis=1) if effects.intercept else own
    correlated = checks.flag(f"groups[{name!r}].correlated", effects.correlated)
    blocks = (len(columns),) if correlated else (1,) * len(columns)
    own_prior = sd_prior.get(name) if isinstance(sd_prior, Mapping) else sd_prior
    if own_prior is not None:
        priors: tuple[ScalePrior, ...] = (own_prior,) * len(columns)
    else:
        scales = [WIDE * unit] if effects.intercept else []
        scales += [WIDE * unit / (float(np.std(table[:, j])) or 1.0) for j in slopes]
        priors = tuple(HalfStudentT(3.0, scale) for scale in scales)
    return GroupRows(name, levels, index, columns, design, blocks, priors)


def _fixed_prior(
    table: Vector,
    target: Target,
    intercept: bool,
    given: Any,
    unit: float,
    first: Normal | None,
) -> tuple[Vector, Vector]:
    """Mean and precision of the coefficients' prior, the intercept's last.

    ``first`` is the prior of an intercept that stands for the first cutpoint.
    """
    width = table.shape[1] + intercept
    mean = np.zeros(width)
    if first is not None:
        mean[-1] = first.mean
    if given is not None:
        scale = np.asarray(given, float)
        if scale.ndim > 1 or (scale.ndim == 1 and len(scale) != width):
            raise InputError(
                f"prior_scale must be one number or {width} (one per column, the intercept's "
                f"last), found shape {scale.shape}."
            )
        if not (scale > 0).all():
            raise InputError(f"prior_scale must be above 0, found {checks.shown(given)}.")
        return mean, np.broadcast_to(scale**-2, (width,)).copy()
    spread = np.std(table, axis=0)
    scale = WIDE * unit / np.where(spread > 0, spread, 1.0)
    if intercept:
        if target.family.scaled:
            mean[-1] = np.mean(target.y)
        around = (scale * np.mean(table, axis=0)) ** 2
        own = WIDE * unit if first is None else first.sd
        scale = np.append(scale, np.sqrt(own**2 + around.sum()))
    return mean, scale**-2.0
