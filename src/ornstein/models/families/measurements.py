"""Measurements that a normal distribution does not fit: with outliers, and shares."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from ornstein._base.checks import shown
from ornstein._base.errors import InputError
from ornstein._base.types import Array, PyTree, Vector
from ornstein.data.on_disk import AnyRows
from ornstein.models.families.auxiliary import Auxiliary, log_of
from ornstein.models.families.family import Family, Numbers, Rng, TargetColumn
from ornstein.models.families.special import log_gamma


@dataclass(frozen=True)
class StudentT(Family):
    """``y = eta + noise_scale * t`` with ``df`` degrees of freedom: outliers pull less."""

    name = "student_t"
    canonical = False
    scaled = True

    @property
    def auxiliary(self) -> tuple[Auxiliary, ...]:
        return (log_of("df", 2.5, 1.0), log_of("noise_scale", -0.5, 1.5))

    def auxiliary_means(self, y: Vector) -> dict[str, Vector]:
        found = super().auxiliary_means(y)
        spread = float(np.std(y))
        found["log_noise_scale"] = found["log_noise_scale"] + (np.log(spread) if spread else 0.0)
        return found

    def auxiliary_reported(
        self, values: Mapping[str, Vector], shift: Vector | float = 0.0, scale: float = 1.0
    ) -> dict[str, Vector]:
        found = super().auxiliary_reported(values)
        return {**found, "noise_scale": scale * found["noise_scale"]}

    def loss(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        log_df, log_scale = hyper["log_df"], hyper["log_noise_scale"]
        df = jnp.exp(log_df)
        squares = ((y - eta) * jnp.exp(-log_scale)) ** 2
        rows = 0.5 * (df + 1.0) * jnp.log1p(squares * jnp.exp(-log_df))
        constant = (
            log_gamma(0.5 * df) - log_gamma(0.5 * (df + 1.0)) + 0.5 * (jnp.log(jnp.pi) + log_df)
        )
        return rows + constant + log_scale

    def mean(self, eta: Array, hyper: PyTree) -> Array:
        return eta

    def expectation(self, eta: Vector, numbers: Numbers) -> Vector:
        return eta

    def variance(self, eta: Vector, numbers: Numbers) -> Vector:
        """Infinite for two degrees of freedom or fewer."""
        df = np.exp(numbers["log_df"])
        with np.errstate(divide="ignore", invalid="ignore"):
            own = np.where(df > 2, df / (df - 2), np.inf)
        return np.broadcast_to(own * np.exp(2 * numbers["log_noise_scale"]), eta.shape)

    def simulate(self, eta: Vector, numbers: Numbers, rng: Rng) -> Vector:
        noise = rng.standard_t(np.exp(numbers["log_df"]), size=eta.shape)
        return np.asarray(eta + np.exp(numbers["log_noise_scale"]) * noise)


@dataclass(frozen=True)
class Beta(Family):
    """Mean ``m = sigmoid(eta)`` and variance ``m (1 - m) / (1 + precision)``."""

    name = "beta"
    canonical = False

    @property
    def auxiliary(self) -> tuple[Auxiliary, ...]:
        return (log_of("precision", 2.0, 1.5),)

    def loss(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        precision = jnp.exp(hyper["log_precision"])
        a, b = precision * jax.nn.sigmoid(eta), precision * jax.nn.sigmoid(-eta)
        constant = log_gamma(a) + log_gamma(b) - log_gamma(precision)
        return constant - (a - 1.0) * jnp.log(y) - (b - 1.0) * jnp.log1p(-y)

    def mean(self, eta: Array, hyper: PyTree) -> Array:
        return jax.nn.sigmoid(eta)

    def expectation(self, eta: Vector, numbers: Numbers) -> Vector:
        return np.asarray(scipy.special.expit(eta))

    def variance(self, eta: Vector, numbers: Numbers) -> Vector:
        p = scipy.special.expit(eta)
        return np.asarray(p * (1 - p) / (1 + np.exp(numbers["log_precision"])))

    def simulate(self, eta: Vector, numbers: Numbers, rng: Rng) -> Vector:
        p, precision = scipy.special.expit(eta), np.exp(np.clip(numbers["log_precision"], -30, 30))
        least = np.finfo(float).tiny
        return rng.beta(np.maximum(precision * p, least), np.maximum(precision * (1 - p), least))

    @classmethod
    def of_target(cls, y: AnyRows, classes: int | None = None) -> tuple[Self, AnyRows]:
        values = np.asarray(y, float)
        wrong = (values <= 0) | (values >= 1)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(
                f"y must lie between 0 and 1 for a beta model, found {values[row]:g} in row {row}."
            )
        return cls(), values

    @classmethod
    def check_column(cls, column: TargetColumn) -> None:
        super().check_column(column)
        values = np.asarray(column.values)
        wrong = (values <= 0) | (values >= 1)
        if wrong.any():
            raise InputError(
                f"The target {shown(column.name)} must lie between 0 and 1 for a beta model: "
                f"{int(wrong.sum()):,} values do not, the first being {values[wrong][0]:g}. Counts "
                "of successes call for binomial, by a formula; percentages divide by 100."
            )
