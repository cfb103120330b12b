"""Two classes: logistic regression."""

from dataclasses import dataclass
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from ornstein._base.checks import names_of, shown
from ornstein._base.errors import InputError
from ornstein._base.types import Array, PyTree, Vector
from ornstein.data import inputs
from ornstein.data.on_disk import AnyRows
from ornstein.models.families.family import Family, Noise, Rng, TargetColumn


@jax.custom_jvp
def softplus(x: Array) -> Array:
    """``log(1 + exp(x))``, stable, its derivative the sigmoid."""
    return jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


@softplus.defjvp
def _softplus_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (dx,) = primals, tangents
    return softplus(x), jax.nn.sigmoid(x) * dx


@dataclass(frozen=True)
class Bernoulli(Family):
    """``y = 1`` with probability ``sigmoid(eta)``, else 0."""

    name = "logistic"
    most_classes = 2
    if_more = "Choose softmax."

    def loss(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        return softplus(eta) - y * eta

    def curvature(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        p = jax.nn.sigmoid(eta)
        return p * (1 - p)

    def mean(self, eta: Array, hyper: PyTree) -> Array:
        return jax.nn.sigmoid(eta)

    def fold(self, x: Vector, offset: Vector, y: Vector) -> dict[str, Vector]:
        """With the sign ``1 - 2y`` in the features the loss is ``softplus`` whatever the label."""
        if not np.isin(y, (0, 1)).all():
            return {"x": x, "offset": offset, "y": y}
        sign = (1 - 2 * y).astype(x.dtype)
        return {"x": sign[:, None] * x, "offset": sign * offset}

    def folded_residual(self, along: Array, rows: PyTree, hyper: PyTree) -> Array:
        """``sigmoid``, less the target where it is a mean."""
        p = jax.nn.sigmoid(along + rows["offset"])
        return p - rows["y"] if "y" in rows else p

    def probabilities(self, eta: Vector) -> Vector:
        one = scipy.special.expit(eta)
        return np.stack([1 - one, one], axis=1)

    def simulate(self, eta: Vector, noise_scale: Noise, rng: Rng) -> Vector:
        return (rng.uniform(size=eta.shape) < scipy.special.expit(eta)).astype(float)

    @classmethod
    def of_target(cls, y: AnyRows, classes: int | None = None) -> tuple[Self, AnyRows]:
        target, found = inputs.labels(y, classes)
        if found > 2:
            raise InputError(f"y has {found} classes; logistic takes 0 and 1. Use models.softmax.")
        return cls(), target.astype(float)

    @classmethod
    def recognise(cls, column: TargetColumn) -> str | None:
        """Two distinct values, of whatever type."""
        if len(column.levels) != 2:
            return None
        return f"{shown(column.name)} has two distinct values: {names_of(column.levels)}."
