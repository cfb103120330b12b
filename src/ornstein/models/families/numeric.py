"""Targets that are numbers: linear regression, and Poisson regression of counts."""

import math
from dataclasses import dataclass
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.checks import a_or_an, shown
from ornstein._base.errors import InputError
from ornstein._base.types import Array, PyTree, Vector
from ornstein.data.on_disk import AnyRows, RowsOnDisk
from ornstein.models.families.family import Family, Numbers, Rng, TargetColumn

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
MAX_COUNT = 1000
"""Whole numbers from 0 up to this one are taken for counts."""


@dataclass(frozen=True)
class Gaussian(Family):
    """``y = eta + noise_scale * normal``."""

    name = "linear"
    meaning = "measurements"
    quadratic = True
    scaled = True

    def loss(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        scale = hyper["noise_scale"]
        return 0.5 * ((y - eta) / scale) ** 2 + jnp.log(scale) + _HALF_LOG_TWO_PI

    def residual(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        return (eta - y) / hyper["noise_scale"] ** 2

    def curvature(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        return jnp.ones_like(eta) / hyper["noise_scale"] ** 2

    def mean(self, eta: Array, hyper: PyTree) -> Array:
        return eta

    def fold(self, x: Vector, offset: Vector, y: Vector) -> dict[str, Vector]:
        """The target counts from the offset."""
        return {"x": x, "y": y - offset}

    def folded_residual(self, along: Array, rows: PyTree, hyper: PyTree) -> Array:
        return self.residual(along, rows["y"], hyper)

    def folded_loss(self, along: Array, rows: PyTree, hyper: PyTree) -> Array:
        return along * (0.5 * along - rows["y"]) / hyper["noise_scale"] ** 2

    def folded_remainder(self, along: Array, rows: PyTree, hyper: PyTree) -> Array:
        """Nothing: the loss is quadratic."""
        return jnp.zeros_like(along)

    folded_remainder_loss = folded_remainder

    def expectation(self, eta: Vector, numbers: Numbers) -> Vector:
        return eta

    def variance(self, eta: Vector, numbers: Numbers) -> Vector:
        return np.broadcast_to(numbers["noise_scale"] ** 2, eta.shape)

    def simulate(self, eta: Vector, numbers: Numbers, rng: Rng) -> Vector:
        return np.asarray(eta + numbers["noise_scale"] * rng.standard_normal(eta.shape))

    @classmethod
    def recognise(cls, column: TargetColumn) -> str | None:
        """Any numbers that no other family takes."""
        if column.values is None:
            return None
        name = shown(column.name)
        if not column.whole:
            return f"{name} has numbers from {column.span}."
        return (
            f"{name} has whole numbers from {column.span}, taken for measurements; if they are "
            "class labels choose softmax, if they are counts poisson."
        )


def exp(eta: Vector) -> Vector:
    """Without overflow."""
    return np.asarray(np.exp(np.minimum(eta, 700.0)))


class Counts(Family):
    """What families of counts share: which targets suit."""

    discrete = True

    @classmethod
    def of_target(cls, y: AnyRows, classes: int | None = None) -> tuple[Self, AnyRows]:
        if isinstance(y, RowsOnDisk):
            fits = y.scan.whole and y.scan.low[0] >= 0
        else:
            fits = bool(y.min() >= 0 and np.array_equal(y, np.rint(y)))
        if not fits:
            raise InputError(
                f"y must hold counts (whole numbers from 0) for {a_or_an(cls.name)} model."
            )
        return super().of_target(y, classes)

    @classmethod
    def check_column(cls, column: TargetColumn) -> None:
        super().check_column(column)
        values = np.asarray(column.values)
        wrong = (values < 0) | (values != np.rint(values))
        if wrong.any():
            raise InputError(
                f"The target {shown(column.name)} must hold counts (whole numbers from 0) for a "
                f"{cls.name} model: {int(wrong.sum()):,} values are not, the first being "
                f"{values[wrong][0]:g}. Choose linear."
            )


@dataclass(frozen=True)
class Poisson(Counts):
    """``y`` Poisson with mean ``exp(eta)``."""

    name = "poisson"
    meaning = "counts"
    ratio = "rate ratio"

    def loss(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        return jnp.exp(eta) - y * eta + jax.scipy.special.gammaln(y + 1.0)

    def curvature(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        return jnp.exp(eta)

    def mean(self, eta: Array, hyper: PyTree) -> Array:
        return jnp.exp(eta)

    def expectation(self, eta: Vector, numbers: Numbers) -> Vector:
        return exp(eta)

    def variance(self, eta: Vector, numbers: Numbers) -> Vector:
        return exp(eta)

    def simulate(self, eta: Vector, numbers: Numbers, rng: Rng) -> Vector:
        return rng.poisson(np.minimum(exp(eta), 1e15)).astype(float)

    @classmethod
    def recognise(cls, column: TargetColumn) -> str | None:
        """More than two whole numbers that begin at 0 and stay small."""
        values = column.values
        if values is None or len(column.levels) < 3 or not column.whole:
            return None
        if values.min() != 0 or values.max() > MAX_COUNT:
            return None
        return (
            f"{shown(column.name)} has whole numbers from {column.span}, taken for counts; if they "
            "are class labels choose softmax, if they are measurements linear, if they vary more "
            "than a Poisson count negative_binomial."
        )
