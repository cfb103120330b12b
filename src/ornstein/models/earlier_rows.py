"""A generalised linear model of rows that come after others, of which only a Gaussian is kept."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from ornstein._base.types import Array, PyTree, Vector
from ornstein.models.glm import Glm
from ornstein.storage.codec import register

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


@register
class Past(NamedTuple):
    """What earlier rows said: their ``-log p(y | theta)`` to second order.

    ``1/2 theta' hessian theta - slope' theta + squares / 2``, over the noise's variance for a
    Gaussian family, where ``weight`` rows also count in its normalisation.
    """

    hessian: Vector
    slope: Vector
    squares: Vector
    weight: Vector

    @classmethod
    def none(cls, dim: int) -> "Past":
        """No rows."""
        return cls(np.zeros((dim, dim)), np.zeros(dim), np.zeros(()), np.zeros(()))

    def squared_residuals(self, theta: Vector) -> float:
        """Of a Gaussian family: the sum of squared residuals of the earlier rows."""
        return float(theta @ self.hessian @ theta - 2 * self.slope @ theta + self.squares)


@dataclass(frozen=True)
class ContinuedGlm(Glm):
    """A GLM whose prior is normal and multiplied by ``hyper["past"]``, a :class:`Past` as a dict.

    Exact for a Gaussian family; else as good as the Gaussian that stands for the earlier rows.
    """

    def prior_loss(self, theta: Array, hyper: PyTree) -> Array:
        """Independent normals, and the earlier rows."""
        past, variance = hyper["past"], self._variance(hyper)
        bent = 0.5 * theta @ past["hessian"] @ theta - past["slope"] @ theta
        earlier = (bent + 0.5 * past["squares"]) / variance
        counted = past["weight"] * (0.5 * jnp.log(variance) + _HALF_LOG_TWO_PI)
        return super().prior_loss(theta, hyper) + earlier + counted

    def prior_gradient(self, theta: Array, hyper: PyTree) -> Array:
        """Slope of both."""
        past = hyper["past"]
        earlier = (past["hessian"] @ theta - past["slope"]) / self._variance(hyper)
        return super().prior_gradient(theta, hyper) + earlier

    def prior_hessian(self, theta: Array, hyper: PyTree) -> Array:
        """Curvature of both."""
        earlier = hyper["past"]["hessian"] / self._variance(hyper)
        return jnp.diag(super().prior_hessian_diagonal(theta, hyper)) + earlier

    def prior_hessian_diagonal(self, theta: Array, hyper: PyTree) -> Array:
        """Its diagonal."""
        earlier = jnp.diagonal(hyper["past"]["hessian"]) / self._variance(hyper)
        return super().prior_hessian_diagonal(theta, hyper) + earlier

    def local_prior(self, center: Vector, hyper: PyTree) -> tuple[Vector, Vector]:
        """Precision as a matrix, and slope."""
        precision, slope = super().local_prior(center, hyper)
        past = Past(**{name: np.asarray(part, float) for name, part in hyper["past"].items()})
        variance = float(np.asarray(hyper["noise_scale"])) ** 2 if "noise_scale" in hyper else 1.0
        matrix = np.diag(precision) + past.hessian / variance
        return matrix, slope + (past.hessian @ center - past.slope) / variance

    def _variance(self, hyper: PyTree) -> Array:
        """Of the noise; 1 for families that have none."""
        if "noise_scale" not in hyper:
            return jnp.ones((), hyper["past"]["slope"].dtype)
        return jnp.asarray(hyper["noise_scale"]) ** 2
