"""The posterior of a mixed model: rows sorted by the largest grouping, priors, units and names."""

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.models.families import Family
from ornstein.models.hyper_priors import ScalePrior
from ornstein.models.random_effects.auxiliary import AuxiliaryPrior
from ornstein.models.random_effects.covariances import Covariance
from ornstein.models.random_effects.groupings import Grouping
from ornstein.models.random_effects.specification import Specification
from ornstein.models.random_effects.units import MixedUnits

_MOST_CROSS = 2**27  # numbers that tie the head to the leaves


@dataclass(frozen=True, eq=False)
class MixedRows:
    """Rows in the order of the leaves. Indices and designs have one entry per grouping."""

    x: Vector  # (N, p), a column of ones last where there is an intercept
    y: npt.NDArray[Any]
    index: tuple[npt.NDArray[np.int32], ...]
    design: tuple[Vector | None, ...]  # (N, q); None for intercepts only
    starts: npt.NDArray[np.int64]  # of every leaf's rows
    weight: Vector | None = None
    offset: Vector | None = None
    order: npt.NDArray[np.intp] | None = None  # of every row, its number as it was given

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
        Their names. The intercept of a family that has cutpoints stands for the first of these.
    slope_columns
        Which columns of X have effects, by grouping; None where effects have columns of their own.
    units
        How columns and target were standardised, which draws are reported without.
    """

    specification: Specification
    rows: MixedRows
    levels: tuple[npt.NDArray[Any], ...]
    prior_mean: Vector
    prior_precision: Vector
    fixed_labels: tuple[str, ...]
    slope_columns: tuple[tuple[int, ...], ...] | None
    intercept: bool
    units: MixedUnits

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
        """A name for every standard deviation and correlation, and the family's own parameters."""
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


class GroupRows(NamedTuple):
    """A grouping of rows: every row's level, and the columns whose coefficients vary.

    ``blocks`` says how many effects, in turn, share a covariance; ``design`` (N, q) is None for an
    intercept only.
    """

    name: str
    levels: npt.NDArray[Any]
    level_of: npt.NDArray[np.int32]
    columns: tuple[str, ...]
    design: Vector | None
    blocks: tuple[int, ...]
    priors: tuple[ScalePrior, ...]
    concentration: float = 1.0  # of the LKJ prior of its correlations

    @property
    def size(self) -> int:
        """Effects of all levels."""
        return len(self.columns) * len(self.levels)

    def taken(self, rows: npt.NDArray[np.intp]) -> "GroupRows":
        """Some of the rows, with the levels that they have."""
        present, level_of = np.unique(self.level_of[rows], return_inverse=True)
        return self._replace(
            levels=self.levels[present],
            level_of=level_of.astype(np.int32),
            design=None if self.design is None else self.design[rows],
        )


class FixedPart(NamedTuple):
    """Fixed coefficients: a table with a column of ones last if they have an intercept."""

    x: Vector
    labels: tuple[str, ...]
    mean: Vector  # of their prior
    precision: Vector


class Target(NamedTuple):
    """What is to be explained, how much every row counts, and what is added to its predictor."""

    family: Family
    y: npt.NDArray[Any]
    weight: Vector | None = None
    offset: Vector | None = None


def by_size(groups: Sequence[GroupRows]) -> list[GroupRows]:
    """Those with most effects first: they become the leaves."""
    return sorted(groups, key=lambda group: -group.size)


def assemble(
    target: Target,
    fixed: FixedPart,
    groups: Sequence[GroupRows],
    noise_prior: ScalePrior | None,
    auxiliary: tuple[AuxiliaryPrior, ...],
    intercept: bool,
    units: MixedUnits,
    slope_columns: tuple[tuple[int, ...], ...] | None = None,
) -> MixedPosterior:
    """A posterior of checked parts; groups, units and slopes in one order, :func:`by_size`."""
    groupings = tuple(_grouping(group) for group in groups)
    spec = Specification(target.family, len(fixed.labels), groupings, noise_prior, auxiliary)
    if spec.head * spec.leaf.size > _MOST_CROSS:
        others = ", ".join(group.name for group in groups[1:])
        raise InputError(
            f"the groups {others} have {spec.head:,} effects and coefficients beside the "
            f"{spec.leaf.size:,} of {groups[0].name}: their {spec.head * spec.leaf.size:,} "
            "products do not fit in memory. Leave a group out, or join rare levels."
        )
    return MixedPosterior(
        specification=spec,
        rows=_sorted_rows(target, fixed.x, groups),
        levels=tuple(group.levels for group in groups),
        prior_mean=fixed.mean,
        prior_precision=fixed.precision,
        fixed_labels=fixed.labels,
        slope_columns=slope_columns,
        intercept=intercept,
        units=units,
    )


def _grouping(group: GroupRows) -> Grouping:
    covariances, at = [], 0
    for size in group.blocks:
        covariances.append(Covariance(group.priors[at : at + size], group.concentration))
        at += size
    return Grouping(group.name, len(group.levels), group.columns, tuple(covariances))


def _sorted_rows(target: Target, x: Vector, groups: Sequence[GroupRows]) -> MixedRows:
    leaf = groups[0].level_of
    by_leaf = np.argsort(leaf, kind="stable")

    def part(values: Any) -> Any:
        return None if values is None else values[by_leaf]

    return MixedRows(
        x=np.asfortranarray(part(x)),  # columns are read one by one
        y=part(target.y),
        index=tuple(part(group.level_of) for group in groups),
        design=tuple(part(group.design) for group in groups),
        starts=np.searchsorted(leaf[by_leaf], np.arange(len(groups[0].levels))),
        weight=part(target.weight),
        offset=part(target.offset),
        order=by_leaf,
    )
