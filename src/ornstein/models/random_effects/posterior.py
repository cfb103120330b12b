"""The posterior of a mixed model: rows, priors, units and names."""

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.data.derived import held
from ornstein.data.on_disk import AnyRows, RowsOnDisk
from ornstein.models.families import Family
from ornstein.models.hyper_priors import ScalePrior
from ornstein.models.random_effects.auxiliary import AuxiliaryPrior
from ornstein.models.random_effects.covariances import Covariance, GivenScale
from ornstein.models.random_effects.groupings import INTERCEPT, Grouping
from ornstein.models.random_effects.rows import AnyMixedRows, MixedRows, MixedRowsOnDisk
from ornstein.models.random_effects.specification import Specification
from ornstein.models.random_effects.turns import fits
from ornstein.models.random_effects.units import MixedUnits


@dataclass(frozen=True, eq=False)
class MixedPosterior:
    """The posterior of a mixed model; made by :func:`ornstein.models.mixed`.

    Attributes
    ----------
    specification
        Its densities.
    rows
        The data: sorted by the largest grouping in memory, as they are stored on disk.
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
    rows: AnyMixedRows
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
    def on_disk(self) -> bool:
        """Whether some rows stay on disk."""
        return self.rows.on_disk

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
        name, place = self.specification.family.name, " on disk" if self.on_disk else ""
        count = f"rows={self.num_data}{place}, fixed={len(self.fixed_labels)}"
        return f"MixedPosterior({name}, {count}, {terms})"


class GroupRows(NamedTuple):
    """A grouping of rows: every row's level, and the columns whose coefficients vary.

    ``blocks`` says how many effects, in turn, share a covariance; ``design`` (N, q) is None for an
    intercept only, and where rows are on disk, whose slopes are columns of the table. ``scales``
    are what columns were divided by, (q,), or level by level, (1, levels); None for nothing. A
    fixed factor has the standard deviation of its prior, and :attr:`Grouping.named`.
    """

    name: str
    levels: npt.NDArray[Any]
    level_of: AnyRows
    columns: tuple[str, ...]
    design: Vector | None
    blocks: tuple[int, ...]
    priors: tuple[ScalePrior, ...]
    concentration: float = 1.0  # of the LKJ prior of its correlations
    scales: Vector | None = None
    given: float = 0.0
    named: tuple[str, str] | None = None

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
            scales=self.scales if self.named is None else _of_levels(self.scales, present),
        )

    @property
    def divided_by(self) -> Vector:
        """The scales."""
        return np.ones(len(self.columns)) if self.scales is None else self.scales


def _of_levels(scales: Vector | None, present: npt.NDArray[np.intp]) -> Vector | None:
    return None if scales is None else scales[:, present]


class FixedPart(NamedTuple):
    """Fixed coefficients: a table with a column of ones last if they have an intercept."""

    x: AnyRows
    labels: tuple[str, ...]
    mean: Vector  # of their prior
    precision: Vector


class Target(NamedTuple):
    """What is to be explained, how much every row counts, and what is added to its predictor."""

    family: Family
    y: AnyRows
    weight: AnyRows | None = None
    offset: AnyRows | None = None


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
    if not fits(spec):
        raise InputError(
            f"the {spec.fixed:,} fixed coefficients beside the {spec.leaf.size:,} effects of "
            f"{groups[0].name} do not fit in memory: their products are "
            f"{spec.fixed * spec.leaf.size:,} numbers. Leave columns out, or join rare levels."
        )
    return MixedPosterior(
        specification=spec,
        rows=_rows(target, fixed.x, groups, slope_columns, spec.head * spec.leaf.size),
        levels=tuple(group.levels for group in groups),
        prior_mean=fixed.mean,
        prior_precision=fixed.precision,
        fixed_labels=fixed.labels,
        slope_columns=slope_columns,
        intercept=intercept,
        units=units,
    )


def _grouping(group: GroupRows) -> Grouping:
    if group.named is not None:
        given = (GivenScale(group.given),)
        return Grouping(group.name, len(group.levels), group.columns, given, group.named)
    covariances, at = [], 0
    for size in group.blocks:
        covariances.append(Covariance(group.priors[at : at + size], group.concentration))
        at += size
    return Grouping(group.name, len(group.levels), group.columns, tuple(covariances))


def _rows(
    target: Target,
    x: AnyRows,
    groups: Sequence[GroupRows],
    slopes: tuple[tuple[int, ...], ...] | None,
    hessian: int,
) -> AnyMixedRows:
    """Rows on disk as they are, others sorted; ``hessian`` is the size of its largest part."""
    if not isinstance(x, RowsOnDisk):
        return sorted_rows(target, x, groups)
    assert slopes is not None
    columns = x.shape[1] + sum(map(len, slopes))

    def there(rows: AnyRows | None) -> RowsOnDisk | None:
        return None if rows is None else held(rows)

    return MixedRowsOnDisk(
        x=x,
        y=held(target.y),
        index=tuple(held(group.level_of) for group in groups),
        slopes=slopes,
        ones=tuple(group.columns[0] == INTERCEPT for group in groups),
        by_level=tuple(
            None if group.named is None else 1 / group.divided_by[0] for group in groups
        ),
        weight=there(target.weight),
        offset=there(target.offset),
        block_rows=MixedRowsOnDisk.rows_of_a_block(columns, hessian),
    )


def sorted_rows(target: Target, x: Any, groups: Sequence[GroupRows]) -> MixedRows:
    """Rows in the order of the leaves."""
    leaf = np.asarray(groups[0].level_of)
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
