"""Several classes: multinomial logistic regression."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from ornstein._base.checks import names_of, shown
from ornstein._base.types import Array, PyTree, Vector
from ornstein.data import inputs
from ornstein.data.on_disk import AnyRows
from ornstein.models.families.family import Family, Noise, Rng, TargetColumn


@jax.custom_jvp
def log_sum_exp(x: Array) -> Array:
    """``log sum exp(x)`` over the last axis, stable, its derivative the softmax."""
    top = x.max(axis=-1, keepdims=True)
    return jnp.log(jnp.exp(x - top).sum(axis=-1)) + top[..., 0]


@log_sum_exp.defjvp
def _log_sum_exp_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (dx,) = primals, tangents
    return log_sum_exp(x), (jax.nn.softmax(x, axis=-1) * dx).sum(axis=-1)


@dataclass(frozen=True)
class Categorical(Family):
    """``y`` in ``0 .. K-1`` with probabilities ``softmax(eta)``."""

    outputs: int = 2

    name = "softmax"
    balanced = True
    most_classes = 100
    if_more = (
        "Group the rare ones, or, if it is a quantity, make it numbers throughout and choose "
        "linear."
    )

    def loss(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        return log_sum_exp(eta) - (self._one_hot(y, eta) * eta).sum(axis=-1)

    def residual(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        return jax.nn.softmax(eta, axis=-1) - self._one_hot(y, eta)

    def curvature(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        p = jax.nn.softmax(eta, axis=-1)
        identity = jnp.eye(self.outputs, dtype=p.dtype)[None]
        return p[:, :, None] * (identity - p[:, None, :])

    def mean(self, eta: Array, hyper: PyTree) -> Array:
        return jax.nn.softmax(eta, axis=-1)

    def fold(self, x: Vector, offset: Vector, y: Vector) -> dict[str, Vector]:
        """Labels become rows of 0 and 1."""
        one_hot = np.eye(self.outputs)[y] if y.ndim == 1 else y
        return {"x": x, "offset": offset, "y": one_hot}

    def folded_residual(self, along: Array, rows: PyTree, hyper: PyTree) -> Array:
        """``p - onehot(y)``; with outputs first, rows fill a processor's lanes."""
        return jax.nn.softmax(along + rows["offset"].T, axis=0) - rows["y"].T

    def probabilities(self, eta: Vector) -> Vector:
        return np.asarray(scipy.special.softmax(eta, axis=1))

    def simulate(self, eta: Vector, noise_scale: Noise, rng: Rng) -> Vector:
        uniform = rng.uniform(size=(len(eta), eta.shape[2]))
        cumulative = np.cumsum(self.probabilities(eta), axis=1)
        return (uniform[:, None] > cumulative).sum(axis=1).clip(max=eta.shape[1] - 1).astype(float)

    @classmethod
    def of(cls, classes: int) -> Self:
        return cls(classes)

    @classmethod
    def of_target(cls, y: AnyRows, classes: int | None = None) -> tuple[Self, AnyRows]:
        target, found = inputs.labels(y, classes)
        return cls(found), target

    @classmethod
    def recognise(cls, column: TargetColumn) -> str | None:
        """Text, categories and truth values with more than two levels."""
        if column.values is not None or len(column.levels) < 3:
            return None
        cls.check_column(column)
        count = len(column.levels)
        return f"{shown(column.name)} has {count} classes: {names_of(column.levels)}."

    @classmethod
    def parameter_labels(cls, features: Sequence[str], classes: Sequence[str]) -> list[str]:
        coefs = [f"{name} [{label}]" for label in classes for name in features]
        return coefs + [f"intercept [{label}]" for label in classes]

    def _one_hot(self, y: Array, eta: Array) -> Array:
        return jax.nn.one_hot(y, self.outputs, dtype=eta.dtype)
