"""Rows that come in parts: their units, and what the earlier ones said."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.curvature.structures import contract
from ornstein.models.families import Family
from ornstein.models.glm import Past, flat_order
from ornstein.results.result import Result
from ornstein.storage import codec
from ornstein.tables.encoding import Units

_CONSTANT = 1e-12  # standard deviation relative to the mean below which a column does not vary


@codec.register
class Moments(NamedTuple):
    """Of columns: the rows' total weight, their means, and sums of squares about them."""

    weight: float
    mean: Vector
    scatter: Vector

    @classmethod
    def of(cls, table: Vector, weights: Vector) -> "Moments":
        """Of rows with weights."""
        total = float(weights.sum())
        origin = table[int(np.argmax(weights > 0))]
        mean = origin + weights @ (table - origin) / total
        return cls(total, mean, weights @ (table - mean) ** 2)

    def joined(self, other: "Moments") -> "Moments":
        """Of the rows of both."""
        total = self.weight + other.weight
        step = other.mean - self.mean
        between = step**2 * (self.weight * other.weight / total)
        return Moments(
            total, self.mean + step * (other.weight / total), self.scatter + other.scatter + between
        )

    def units(self, centred: bool, with_target: bool) -> Units:
        """Mean and standard deviation, or 0 and the root mean square; the target is last.

        Columns that do not vary keep their unit.
        """
        variance = self.scatter / self.weight
        if centred:
            centre, spread = self.mean, np.sqrt(variance)
            scale = np.where(spread > _CONSTANT * np.abs(self.mean), spread, 1.0)
        else:
            spread = np.sqrt(variance + self.mean**2)
            centre, scale = np.zeros_like(spread), np.where(spread > 0, spread, 1.0)
        target = (float(centre[-1]), float(scale[-1])) if with_target else (0.0, 1.0)
        return Units(centre[:-1], scale[:-1], *target)


@codec.register
class Kept(NamedTuple):
    """What a stream continues from; the moments are of the columns and, last, the target.

    ``past`` and what was learned are in these units.
    """

    moments: Moments
    units: Units
    past: Past
    learned: dict[str, Vector]

    def start(self, units: Units) -> dict[str, Vector]:
        """What was learned, in new units."""
        found = dict(self.learned)
        if "noise_scale" in found:
            own = found["noise_scale"] * self.units.target_scale
            found["noise_scale"] = own / units.target_scale
        return found


def earlier_rows(
    family: Family, features: int, intercept: bool, units: Units, before: Kept | None
) -> Past:
    """What the rows before these said, in these rows' units: exactly, both being linear."""
    dim = family.outputs * (features + intercept)
    if dim > contract.LIMITS.dense:
        raise InputError(
            f"partial_fit keeps a matrix over all parameters, and {dim:,} are too many (at most "
            f"{contract.LIMITS.dense:,}); use fit on all rows."
        )
    if before is None:
        return Past.none(dim)
    past, old = before.past, before.units
    design = np.diag(np.append(old.scale / units.scale, [1.0] * intercept))
    if intercept:
        design[:features, features] = (old.centre - units.centre) / units.scale
    order = flat_order(family.outputs, features, intercept)
    full = np.kron(np.eye(family.outputs), design)[order][:, order]
    a = old.target_scale / units.target_scale
    b = (old.target_centre - units.target_centre) / units.target_scale
    ones = past.hessian[:, -1] if intercept else np.zeros(len(past.slope))
    total = past.slope[-1] if intercept else 0.0
    return Past(
        hessian=full @ past.hessian @ full.T,
        slope=full @ (a * past.slope + b * ones),
        squares=np.asarray(a**2 * past.squares + 2 * a * b * total + b**2 * past.weight),
        weight=past.weight,
    )


def past_of(result: Result, past: Past | None, intercept: bool) -> Past | None:
    """What these rows and those before them said; None where that is too large a matrix."""
    post, geometry = result.posterior, result.plan.geometry
    if geometry.structure != "dense":
        return None
    if post.quadratic:
        return _added(past or Past.none(post.dim), post.data, intercept)
    N, theta = geometry.num_data, geometry.center
    precision = np.asarray(post.hyper["prior_precision"], float)
    hessian = geometry.precision.dense(geometry.dim) - np.diag(precision)
    slope = hessian @ theta - (N * geometry.gradient - precision * theta)
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
