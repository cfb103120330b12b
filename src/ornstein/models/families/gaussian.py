"""Numbers with normal noise: linear regression."""

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from ornstein._base.checks import shown
from ornstein._base.types import Array, PyTree, Vector
from ornstein.models.families.family import Family, Noise, Rng, TargetColumn

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class Gaussian(Family):
    """``y = eta + noise_scale * normal``."""

    name = "linear"
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

    def expectation(self, eta: Vector) -> Vector:
        return eta

    def variance(self, means: Vector, noise_scale: Noise) -> Vector:
        return np.reshape(np.asarray(noise_scale, float) ** 2, (-1, 1))

    def simulate(self, eta: Vector, noise_scale: Noise, rng: Rng) -> Vector:
        scale = np.broadcast_to(noise_scale, (len(eta),))
        return np.asarray(eta + scale[:, None] * rng.standard_normal(eta.shape))

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
