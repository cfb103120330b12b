"""Targets above 0: gamma, and waiting times that may be censored on the right.

A waiting time that ended is its length; one that is censored, of which it is known only that it is
longer, is minus its length so far.
"""

from dataclasses import dataclass
from typing import Self

import jax.numpy as jnp
import numpy as np
import scipy.special

from ornstein._base.checks import a_or_an, shown
from ornstein._base.errors import InputError
from ornstein._base.types import Array, PyTree, Vector
from ornstein.data.on_disk import AnyRows
from ornstein.models.families.auxiliary import Auxiliary, log_of
from ornstein.models.families.family import Family, Numbers, Rng, TargetColumn
from ornstein.models.families.numeric import exp
from ornstein.models.families.special import log_gamma


class Positive(Family):
    """What families of positive targets share."""

    canonical = False

    def mean(self, eta: Array, hyper: PyTree) -> Array:
        return jnp.exp(eta)

    @classmethod
    def of_target(cls, y: AnyRows, classes: int | None = None) -> tuple[Self, AnyRows]:
        values = np.asarray(y, float)
        wrong = np.abs(values) == 0 if issubclass(cls, Waiting) else values <= 0
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(
                f"y must be above 0 for {a_or_an(cls.name)} model, found {values[row]:g} in row "
                f"{row}."
            )
        return cls(), values

    @classmethod
    def check_column(cls, column: TargetColumn) -> None:
        super().check_column(column)
        values = np.asarray(column.values)
        if (values <= 0).any():
            raise InputError(
                f"The target {shown(column.name)} must be above 0 for {a_or_an(cls.name)} model: "
                f"{int((values <= 0).sum()):,} values are not, the first being "
                f"{values[values <= 0][0]:g}. Choose linear."
            )


@dataclass(frozen=True)
class Gamma(Positive):
    """``y`` gamma with mean ``mu = exp(eta)`` and variance ``mu^2 / shape``."""

    name = "gamma"

    @property
    def auxiliary(self) -> tuple[Auxiliary, ...]:
        return (log_of("shape", 1.0, 1.5),)

    def loss(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        log_shape = hyper["log_shape"]
        shape, log_y = jnp.exp(log_shape), jnp.log(y)
        rows = shape * (eta - log_shape + y * jnp.exp(-eta) - log_y) + log_y
        return rows + log_gamma(shape)

    def expectation(self, eta: Vector, numbers: Numbers) -> Vector:
        return exp(eta)

    def variance(self, eta: Vector, numbers: Numbers) -> Vector:
        return exp(2 * eta - numbers["log_shape"])

    def simulate(self, eta: Vector, numbers: Numbers, rng: Rng) -> Vector:
        shape = np.exp(np.clip(numbers["log_shape"], -30, 30))
        return np.asarray(exp(eta) * rng.gamma(shape, size=eta.shape) / shape)


class Waiting(Positive):
    """Waiting times; a negative one is censored."""

    may_be_censored = True


@dataclass(frozen=True)
class Exponential(Waiting):
    """``y`` exponential with mean ``exp(eta)``."""

    name = "exponential"

    def loss(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        return jnp.abs(y) * jnp.exp(-eta) + jnp.where(y > 0, eta, 0.0)

    def expectation(self, eta: Vector, numbers: Numbers) -> Vector:
        return exp(eta)

    def variance(self, eta: Vector, numbers: Numbers) -> Vector:
        return exp(2 * eta)

    def simulate(self, eta: Vector, numbers: Numbers, rng: Rng) -> Vector:
        return np.asarray(exp(eta) * rng.exponential(size=eta.shape))


@dataclass(frozen=True)
class Weibull(Waiting):
    """``P(Y > y) = exp(-(y / exp(eta))^shape)``."""

    name = "weibull"

    @property
    def auxiliary(self) -> tuple[Auxiliary, ...]:
        return (log_of("shape", 0.0, 1.0),)

    def loss(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        log_shape = hyper["log_shape"]
        shape, log_y = jnp.exp(log_shape), jnp.log(jnp.abs(y))
        exponent = shape * (log_y - eta)
        return jnp.exp(exponent) - jnp.where(y > 0, log_shape + exponent - log_y, 0.0)

    def expectation(self, eta: Vector, numbers: Numbers) -> Vector:
        return exp(eta + _log_moment(numbers, 1))

    def variance(self, eta: Vector, numbers: Numbers) -> Vector:
        first, second = _log_moment(numbers, 1), _log_moment(numbers, 2)
        return np.asarray(exp(2 * eta + second) - exp(2 * (eta + first)))

    def simulate(self, eta: Vector, numbers: Numbers, rng: Rng) -> Vector:
        shape = np.exp(np.clip(numbers["log_shape"], -30, 30))
        return exp(eta + np.log(rng.exponential(size=eta.shape)) / shape)


def _log_moment(numbers: Numbers, order: int) -> Vector:
    """Of a Weibull number: ``log E Y^order``."""
    shape = np.exp(np.clip(numbers["log_shape"], -30, 30))
    return np.asarray(scipy.special.gammaln(1 + order / shape))
