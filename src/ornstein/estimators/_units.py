"""Columns standardised inside an estimator: over weighted rows, or over a stream of them."""

from typing import NamedTuple

import numpy as np

from ornstein._base.types import Vector
from ornstein.models.earlier_rows import Past
from ornstein.storage.codec import register
from ornstein.tables import in_own_units

_CONSTANT = 1e-12  # standard deviation relative to the mean below which a column does not vary


@register
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
            total,
            self.mean + step * (other.weight / total),
            self.scatter + other.scatter + between,
        )

    def units(self, centred: bool) -> tuple[Vector, Vector]:
        """Centre and scale: mean and standard deviation, or 0 and the root mean square.

        Columns that do not vary keep their unit.
        """
        variance = self.scatter / self.weight
        if not centred:
            scale = np.sqrt(variance + self.mean**2)
            return np.zeros_like(scale), np.where(scale > 0, scale, 1.0)
        scale = np.sqrt(variance)
        return self.mean, np.where(scale > _CONSTANT * np.abs(self.mean), scale, 1.0)


@register
class Units(NamedTuple):
    """What is subtracted from and divides the columns and the target."""

    centre: Vector
    scale: Vector
    target_centre: float = 0.0
    target_scale: float = 1.0

    def encode(self, table: Vector) -> Vector:
        """The columns, standardised."""
        encoded: Vector = (table - self.centre) / self.scale
        return encoded

    def encode_target(self, target: Vector) -> Vector:
        """The target, standardised."""
        return (target - self.target_centre) / self.target_scale

    def own(self, coef: Vector, intercept: Vector) -> tuple[Vector, Vector]:
        """Coefficients and intercepts in the columns' and the target's own units."""
        return in_own_units(coef, intercept, *self)

    def carry(self, past: Past, new: "Units", outputs: int, order: Vector) -> Past:
        """What earlier rows said in these units, said in new ones: exactly, both being linear.

        ``order`` is where the entries of the parameters' vector stand in the (outputs, design)
        matrix, whose last column is the intercept's where it is wider than the table.
        """
        features = len(self.scale)
        intercept = len(order) > outputs * features
        design = np.diag(np.append(self.scale / new.scale, [1.0] * intercept))
        if intercept:
            design[:features, features] = (self.centre - new.centre) / new.scale
        full = np.kron(np.eye(outputs), design)[order][:, order]
        a = self.target_scale / new.target_scale
        b = (self.target_centre - new.target_centre) / new.target_scale
        ones = past.hessian[:, -1] if intercept else np.zeros(len(past.slope))
        total = past.slope[-1] if intercept else 0.0
        return Past(
            hessian=full @ past.hessian @ full.T,
            slope=full @ (a * past.slope + b * ones),
            squares=np.asarray(a**2 * past.squares + 2 * a * b * total + b**2 * past.weight),
            weight=past.weight,
        )
