"""GLMs fitted in parts: a Gaussian summary stands in for the rows seen earlier."""

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
    """The earlier rows' ``-log p(y | theta)``, to second order.

    ``1/2 theta' hessian theta - slope' theta + squares / 2``, divided by the noise variance for a
    Gaussian family, whose normalising constant also counts the ``weight`` of the rows.
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
        """The earlier rows' sum of squared residuals, for a Gaussian family."""
        return float(theta @ self.hessian @ theta - 2 * self.slope @ theta + self.squares)


@dataclass(frozen=True)
class ContinuedGlm(Glm):
    """A GLM whose normal prior is multiplied by ``hyper["past"]``, a :class:`Past` as a dict.

    Exact for a Gaussian family; for others as accurate as the summary of the earlier rows.
    """

    def prior_loss(self, theta: Array, hyper: PyTree) -> Array:
        past, variance = hyper["past"], self._variance(hyper)
        bent = 0.5 * theta @ past["hessian"] @ theta - past["slope"] @ theta
        earlier = (bent + 0.5 * past["squares"]) / variance
        counted = past["weight"] * (0.5 * jnp.log(variance) + _HALF_LOG_TWO_PI)
        return super().prior_loss(theta, hyper) + earlier + counted

    def prior_gradient(self, theta: Array, hyper: PyTree) -> Array:
        past = hyper["past"]
        earlier = (past["hessian"] @ theta - past["slope"]) / self._variance(hyper)
        return super().prior_gradient(theta, hyper) + earlier

    def prior_hessian(self, theta: Array, hyper: PyTree) -> Array:
        earlier = hyper["past"]["hessian"] / self._variance(hyper)
        return jnp.diag(super().prior_hessian_diagonal(theta, hyper)) + earlier

    def prior_hessian_diagonal(self, theta: Array, hyper: PyTree) -> Array:
        earlier = jnp.diagonal(hyper["past"]["hessian"]) / self._variance(hyper)
        return super().prior_hessian_diagonal(theta, hyper) + earlier

    def local_prior(self, center: Vector, hyper: PyTree) -> tuple[Vector, Vector]:
        precision, slope = super().local_prior(center, hyper)
        past = Past(**{name: np.asarray(part, float) for name, part in hyper["past"].items()})
        variance = float(np.asarray(hyper["noise_scale"])) ** 2 if "noise_scale" in hyper else 1.0
        matrix = np.diag(precision) + past.hessian / variance
        return matrix, slope + (past.hessian @ center - past.slope) / variance

    def _variance(self, hyper: PyTree) -> Array:
        """The noise variance; 1 for families without one."""
        if "noise_scale" not in hyper:
            return jnp.ones((), hyper["past"]["slope"].dtype)
        return jnp.asarray(hyper["noise_scale"]) ** 2
