"""A mixed model of arrays: what users say, checked and made into parts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.data import inputs
from ornstein.data.derived import Derived, held
from ornstein.data.on_disk import AnyRows, RowsOnDisk, map_as_rows
from ornstein.data.passes import mean_and_sd
from ornstein.models.families import FAMILIES, family_name
from ornstein.models.hyper_priors import HalfStudentT, ScalePrior
from ornstein.models.priors import Normal, Priors
from ornstein.models.random_effects.auxiliary import auxiliary_priors
from ornstein.models.random_effects.contrasts import (
    FixedEffects,
    around_baseline,
    contrasts,
    shares_of,
    spreads,
    with_baseline,
)
from ornstein.models.random_effects.groupings import INTERCEPT, Effects, levels_of
from ornstein.models.random_effects.named_priors import SIGMA, named_priors
from ornstein.models.random_effects.posterior import (
    FixedPart,
    GroupRows,
    MixedPosterior,
    assemble,
    by_size,
)
from ornstein.models.random_effects.targets import target_of
from ornstein.models.random_effects.units import MixedUnits

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
        Table of shape (rows, columns), an array or a data frame, or rows on disk
        (:func:`ornstein.open_rows`); None for an intercept only.
    y
        Target, one number per row; classes in an order are whole numbers from 0. On disk as well,
        if need be, as may be labels and all that follows with one number per row.
    groups
        By name, the level of every row (effects are then intercepts),
        :class:`ornstein.models.Effects` for slopes too, or :class:`ornstein.models.FixedEffects`
        for the fixed effects of a factor of many levels.
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
        deviations, and for the intercept as much where the columns have their means. Fixed effects
        of a factor take the number too, in the target's unit.
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
    kind, given = FAMILIES[family_name("linear" if family == "normal" else family)], _groups(groups)
    on_disk = any(
        isinstance(map_as_rows(part), RowsOnDisk)
        for part in (
            X,
            y,
            sample_weight,
            offset,
            trials,
            event,
            *(e.labels for e in given.values()),
        )
    )
    intercept = intercept or not kind.intercept
    table, names = _table(X, y, feature_names, intercept, on_disk)
    rows = len(table)
    found_y = inputs.target(y, rows)
    target = target_of(kind, found_y, trials, event, sample_weight, offset, on_disk)
    centre, spread = mean_and_sd(table)
    y_mean, unit = map(float, mean_and_sd(target.y)) if kind.scaled else (0.0, 1.0)
    if unit == 0:
        raise InputError("y has one value only: there is nothing to explain.")
    slopes = {
        name: _slopes(name, effects, names) if isinstance(effects, Effects) else ()
        for name, effects in given.items()
    }
    concentration = checks.positive("correlation_concentration", correlation_concentration)
    beside, plain = 0.0, list[GroupRows]()
    of_all = None if prior_scale is None or np.ndim(prior_scale) else float(prior_scale)  # type: ignore[arg-type]
    full = not intercept  # the first fixed factor then has a coefficient for every level
    for name, effects in given.items():
        if isinstance(effects, Effects):
            made = _group_rows(name, effects, slopes[name], table, names, sd_prior, unit, spread)
            plain.append(made._replace(concentration=concentration))
        else:
            made, own_share = _fixed_rows(name, effects, rows, WIDE * unit, of_all, full)
            plain, beside, full = [*plain, made], beside + own_share, False
    labels = (*names, "intercept") if intercept else names
    reported = labels if kind.intercept else names
    own_names = [one.reported for one in target.family.auxiliary]
    noisy = kind.scaled and not own_names
    chosen = named_priors([*reported, *own_names], plain, noisy, priors)
    found, own = by_size([chosen.of_group(group) for group in plain]), chosen.normal
    auxiliary, first = auxiliary_priors(target.family, target.y, own)
    scale = WIDE * unit / np.where(spread > 0, spread, 1.0)
    mean, precision = _fixed_prior(
        scale, centre, y_mean, intercept, prior_scale, WIDE * unit, first, beside
    )
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
        MixedUnits.none(len(names), tuple(group.divided_by for group in found)),
        tuple(slopes.get(group.name, ()) for group in found),
    )


def with_ones(table: Any) -> Any:
    """A table with the intercept's column, in memory or on disk."""
    if isinstance(table, RowsOnDisk):
        return Derived(with_ones, table)
    return np.concatenate([table, np.ones((len(table), 1))], axis=1)


def _table(
    X: Any, y: Any, feature_names: Any, intercept: bool, on_disk: bool
) -> tuple[AnyRows, tuple[str, ...]]:
    if X is None:
        if not intercept:
            raise InputError("X is None and intercept is False: there is no fixed coefficient.")
        empty = np.zeros((np.shape(y)[0], 0))
        return held(empty) if on_disk else empty, ()
    table, names = inputs.table(X, feature_names)
    own = names or tuple(f"coef[{j}]" for j in range(table.shape[1]))
    return held(table).astype(float) if on_disk else np.asarray(table, float), own


def _groups(groups: Any) -> dict[str, Effects | FixedEffects]:
    if not isinstance(groups, Mapping) or not groups:
        raise InputError(
            "groups must map names to the levels of the rows, e.g. {'school': ids}; found "
            f"{checks.shown(groups)}."
        )
    return {
        str(name): part if isinstance(part, Effects | FixedEffects) else Effects(part)
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
    table: AnyRows,
    names: tuple[str, ...],
    sd_prior: ScalePrior | Mapping[str, ScalePrior] | None,
    unit: float,
    spread: Vector,
) -> GroupRows:
    levels, index = levels_of(name, effects.labels, len(table))
    columns = (*([INTERCEPT] if effects.intercept else []), *(names[j] for j in slopes))
    design = None
    if slopes and not isinstance(table, RowsOnDisk):
        own = table[:, list(slopes)]
        design = np.concatenate([np.ones((len(own), 1)), own], axis=1) if effects.intercept else own
    correlated = checks.flag(f"groups[{name!r}].correlated", effects.correlated)
    blocks = (len(columns),) if correlated else (1,) * len(columns)
    own_prior = sd_prior.get(name) if isinstance(sd_prior, Mapping) else sd_prior
    if own_prior is not None:
        priors: tuple[ScalePrior, ...] = (own_prior,) * len(columns)
    else:
        scales = [WIDE * unit] if effects.intercept else []
        scales += [WIDE * unit / (float(spread[j]) or 1.0) for j in slopes]
        priors = tuple(HalfStudentT(3.0, scale) for scale in scales)
    return GroupRows(name, levels, index, columns, design, blocks, priors)


def _fixed_rows(
    name: str, effects: FixedEffects, rows: int, wide: float, given: float | None, full: bool
) -> tuple[GroupRows, float]:
    """A fixed factor, and what its prior adds to the intercept's variance at the baseline."""
    levels, level_of = levels_of(name, effects.labels, rows)
    shares = shares_of(level_of, len(levels))
    scales, sd = (spreads(shares), wide) if given is None else (np.ones(len(levels)), given)
    named = (f"{name}[", "]") if full else (f"{name}[T.", "]")
    scales = scales if full else with_baseline(scales)
    made = contrasts(name, levels, level_of, scales, sd, named)
    return made, 0.0 if full else around_baseline(shares, scales, sd)


def _fixed_prior(
    scale: Vector,
    centre: Vector,
    y_mean: float,
    intercept: bool,
    given: Any,
    wide: float,
    first: Normal | None,
    beside: float,
) -> tuple[Vector, Vector]:
    """Mean and precision of the coefficients' prior, the intercept's last.

    ``scale`` is the default standard deviation of columns whose means are ``centre``, and ``wide``
    an intercept's where columns have their means; ``first`` is the prior of an intercept that
    stands for the first cutpoint; ``beside`` is what fixed factors add to its variance.
    """
    width = len(scale) + intercept
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
    if intercept:
        if first is None:
            mean[-1] = y_mean
        around = (scale * centre) ** 2
        own = wide if first is None else first.sd
        scale = np.append(scale, np.sqrt(own**2 + around.sum() + beside))
    return mean, scale**-2.0
