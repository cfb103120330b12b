"""Mixed models: rows sorted by the largest grouping, priors, names; and the public builder."""

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.data import inputs
from ornstein.data.on_disk import RowsOnDisk
from ornstein.models.families import FAMILIES
from ornstein.models.hyper_priors import HalfStudentT, ScalePrior
from ornstein.models.random_effects.covariances import Covariance
from ornstein.models.random_effects.groupings import INTERCEPT, Effects, Grouping, levels_of
from ornstein.models.random_effects.specification import Specification

_ALIASES = {"gaussian": "linear", "normal": "linear", "bernoulli": "logistic"}
_WIDE = 2.5  # standard deviation of a coefficient's default prior, in units of target and column
_MOST_CROSS = 2**27  # numbers that tie the head to the leaves


@dataclass(frozen=True, eq=False)
class MixedRows:
    """Rows in the order of the leaves. Indices and designs have one entry per grouping."""

    x: Vector  # (N, p), a column of ones last where there is an intercept
    y: Vector
    index: tuple[npt.NDArray[np.int32], ...]
    design: tuple[Vector | None, ...]  # (N, q); None for intercepts only
    starts: npt.NDArray[np.int64]  # of every leaf's rows
    weight: Vector | None = None
    offset: Vector | None = None

    @property
    def size(self) -> int:
        """N."""
        return len(self.y)


@dataclass(frozen=True, eq=False)
class MixedPosterior:
    """The posterior of a mixed model; made by :func:`ornstein.models.mixed`.

    Attributes
    ----------
    specification
        Its densities.
    rows
        The data, sorted.
    levels
        The levels of every grouping, in the order of the specification.
    prior_mean, prior_precision
        Of the fixed coefficients.
    fixed_labels
        Their names.
    slope_columns
        Which columns of X have effects, by grouping.
    """

    specification: Specification
    rows: MixedRows
    levels: tuple[npt.NDArray[Any], ...]
    prior_mean: Vector
    prior_precision: Vector
    fixed_labels: tuple[str, ...]
    slope_columns: tuple[tuple[int, ...], ...]
    intercept: bool

    @property
    def num_data(self) -> int:
        """Number of rows."""
        return self.rows.size

    @property
    def dim(self) -> int:
        """Number of parameters, hyperparameters apart."""
        return self.specification.dim

    @property
    def labels(self) -> list[str]:
        """A name for every parameter: fixed coefficients, then effects by grouping."""
        spec = self.specification
        own = zip(spec.groupings, self.levels, strict=True)
        effects = [grouping.effect_labels(levels.tolist()) for grouping, levels in own]
        return [*self.fixed_labels, *functools.reduce(operator.iadd, effects[1:], []), *effects[0]]

    @property
    def hyper_labels(self) -> list[str]:
        """A name for every standard deviation and correlation."""
        return self.specification.hyper_labels()

    def __repr__(self) -> str:
        terms = ", ".join(
            f"{grouping.name} ({grouping.levels:,} levels: {', '.join(grouping.columns)})"
            for grouping in self.specification.groupings
        )
        name = self.specification.family.name
        return (
            f"MixedPosterior({name}, rows={self.num_data}, fixed={len(self.fixed_labels)}, {terms})"
        )


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
) -> MixedPosterior:
    """A mixed model: ``X coef + intercept`` and effects of groups, for any number of rows.

    The effects of a factor's levels are normal with mean zero; their standard deviations and
    correlations are drawn with everything else. Several factors may be crossed or nested.

    Parameters
    ----------
    X
        Table of shape (rows, columns), an array or a data frame; None for an intercept only.
    y
        Target, one number per row.
    groups
        By name, the level of every row (effects are then intercepts), or
        :class:`ornstein.models.Effects` for slopes too.
    family
        ``gaussian``, ``bernoulli`` or ``poisson``, or another family of one predictor without
        parameters of its own.
    intercept
        Whether to add an intercept.
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
        Prior of the noise's standard deviation, likewise.
    correlation_concentration
        Of the LKJ prior of correlations: 1 makes all correlation matrices alike, more favours
        small correlations.
    sample_weight
        How much every row counts: its log-likelihood is multiplied by it.
    offset
        Known part of the predictor, one number per row.

    Examples
    --------
    >>> mixed([[0.0], [1.0], [2.0], [1.0]], [0, 1, 1, 0], {"school": [7, 7, 9, 9]}, "bernoulli")
    MixedPosterior(logistic, rows=4, fixed=2, school (2 levels: 1))
    """
    intercept = checks.flag("intercept", intercept)
    target = inputs.target(y, np.shape(y)[0] if X is None else len(inputs.table(X)[0]))
    table, names = _table(X, feature_names, len(target), intercept)
    kind = FAMILIES[checks.choice("family", _ALIASES.get(family, family), tuple(FAMILIES))]
    if isinstance(target, RowsOnDisk) or isinstance(table, RowsOnDisk):
        raise InputError("a mixed model needs its rows in memory: read them with rows[:].")
    made, target = kind.of_target(target)
    if made.outputs > 1 or made.auxiliary or target.ndim > 1:
        what = "several predictors" if made.outputs > 1 else "parameters or targets of its own"
        raise InputError(
            f"family={family!r} has {what}, which mixed models do not take yet. Use 'bernoulli', "
            "'poisson' or 'gaussian'; counts of successes and failures are rows of 1 and 0 with "
            "sample_weight."
        )
    target = np.asarray(target, float)
    unit = float(np.std(target)) if made.scaled else 1.0
    if unit == 0:
        raise InputError("y has one value only: there is nothing to explain.")
    given = _groups(groups)
    columns = {name: _slopes(name, effects, names) for name, effects in given.items()}
    found = {name: levels_of(name, e.labels, len(target)) for name, e in given.items()}
    order = sorted(given, key=lambda name: -_effects(given[name]) * len(found[name][0]))
    spread = np.std(table, axis=0)
    groupings = tuple(
        _grouping(
            name,
            given[name],
            columns[name],
            names,
            len(found[name][0]),
            _sd_priors(name, given[name], columns[name], sd_prior, unit, spread),
            checks.positive("correlation_concentration", correlation_concentration),
        )
        for name in order
    )
    noise = None
    if made.scaled:
        noise = noise_prior if noise_prior is not None else HalfStudentT(3.0, _WIDE * unit)
    labels = (*names, "intercept") if intercept else names
    spec = Specification(made, len(labels), groupings, noise)
    if spec.head * spec.leaf.size > _MOST_CROSS:
        raise InputError(
            f"the groups {', '.join(order[1:])} have {spec.head:,} effects and coefficients beside "
            f"the {spec.leaf.size:,} of {order[0]}: their {spec.head * spec.leaf.size:,} products "
            "do not fit in memory. Leave a group out, or join rare levels."
        )
    mean, precision = _fixed_prior(table, target, intercept, prior_scale, unit, made.scaled)
    rows = _sorted_rows(table, target, intercept, order, given, columns, found)
    rows = _with_optional(rows, found[order[0]][1], sample_weight, offset)
    return MixedPosterior(
        specification=spec,
        rows=rows,
        levels=tuple(found[name][0] for name in order),
        prior_mean=mean,
        prior_precision=precision,
        fixed_labels=labels,
        slope_columns=tuple(columns[name] for name in order),
        intercept=intercept,
    )


def _table(X: Any, feature_names: Any, rows: int, intercept: bool) -> tuple[Any, tuple[str, ...]]:
    if X is None:
        if not intercept:
            raise InputError("X is None and intercept is False: there is no fixed coefficient.")
        return np.zeros((rows, 0)), ()
    table, names = inputs.table(X, feature_names)
    return table, names or tuple(f"coef[{j}]" for j in range(table.shape[1]))


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


def _effects(effects: Effects) -> int:
    return len(effects.slopes) + bool(effects.intercept)


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


def _sd_priors(
    name: str,
    effects: Effects,
    columns: tuple[int, ...],
    given: ScalePrior | Mapping[str, ScalePrior] | None,
    unit: float,
    spread: Vector,
) -> tuple[ScalePrior, ...]:
    own = given.get(name) if isinstance(given, Mapping) else given
    if own is not None:
        return (own,) * _effects(effects)
    scales = [_WIDE * unit] if effects.intercept else []
    scales += [_WIDE * unit / (float(spread[j]) or 1.0) for j in columns]
    return tuple(HalfStudentT(3.0, scale) for scale in scales)


def _grouping(
    name: str,
    effects: Effects,
    columns: tuple[int, ...],
    names: tuple[str, ...],
    levels: int,
    priors: tuple[ScalePrior, ...],
    concentration: float,
) -> Grouping:
    own = (*([INTERCEPT] if effects.intercept else []), *(names[j] for j in columns))
    if checks.flag(f"groups[{name!r}].correlated", effects.correlated):
        covariances: tuple[Covariance, ...] = (Covariance(priors, concentration),)
    else:
        covariances = tuple(Covariance((prior,)) for prior in priors)
    return Grouping(name, levels, own, covariances)


def _fixed_prior(
    table: Vector, y: Vector, intercept: bool, given: Any, unit: float, scaled: bool
) -> tuple[Vector, Vector]:
    """Mean and precision of the coefficients' prior, the intercept's last."""
    width = table.shape[1] + intercept
    mean = np.zeros(width)
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
    scale = _WIDE * unit / np.where(spread > 0, spread, 1.0)
    if intercept:
        if scaled:
            mean[-1] = np.mean(y)
        around = (scale * np.mean(table, axis=0)) ** 2
        scale = np.append(scale, np.sqrt((_WIDE * unit) ** 2 + around.sum()))
    return mean, scale**-2


def _sorted_rows(
    table: Vector,
    y: Vector,
    intercept: bool,
    order: list[str],
    given: Mapping[str, Effects],
    columns: Mapping[str, tuple[int, ...]],
    found: Mapping[str, tuple[Any, Any]],
) -> MixedRows:
    leaf = found[order[0]][1]
    by_leaf = np.argsort(leaf, kind="stable")
    x = np.asarray(table, float)[by_leaf]
    if intercept:
        x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    designs = []
    for name in order:
        own = x[:, list(columns[name])]
        if given[name].intercept:
            own = np.concatenate([np.ones((len(x), 1)), own], axis=1)
        plain = given[name].intercept and not columns[name]
        designs.append(None if plain else own)
    starts = np.searchsorted(leaf[by_leaf], np.arange(len(found[order[0]][0])))
    index = tuple(found[name][1][by_leaf] for name in order)
    columns_first = np.asfortranarray(x)  # which are read one by one
    return MixedRows(columns_first, y[by_leaf], index, tuple(designs), starts)


def _with_optional(rows: MixedRows, leaf: Any, sample_weight: Any, offset: Any) -> MixedRows:
    """With weights and offsets, sorted alike."""
    by_leaf = np.argsort(leaf, kind="stable")
    weight = None if sample_weight is None else inputs.weights(sample_weight, rows.size)[by_leaf]
    known = None
    if offset is not None:
        known = np.asarray(inputs.target(offset, rows.size), float)[by_leaf]
    return MixedRows(rows.x, rows.y, rows.index, rows.design, rows.starts, weight, known)
