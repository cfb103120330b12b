"""Counts that vary more than a Poisson count, or have more zeros."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.special

from ornstein._base.types import Array, PyTree, Vector
from ornstein.models.families.auxiliary import Auxiliary, log_of, logit_of
from ornstein.models.families.classes import softplus
from ornstein.models.families.family import Numbers, Rng
from ornstein.models.families.numeric import Counts, exp
from ornstein.models.families.special import log_gamma

_MOST = 1e15  # mean of a simulated count


@dataclass(frozen=True)
class NegativeBinomial(Counts):
    """``y`` with mean ``mu = exp(eta)`` and variance ``mu + mu^2 / shape``."""

    name = "negative_binomial"
    ratio = "rate ratio"
    canonical = False

    @property
    def auxiliary(self) -> tuple[Auxiliary, ...]:
        return (log_of("shape", 1.0, 1.5),)

    def loss(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        log_shape = hyper["log_shape"]
        shape = jnp.exp(log_shape)
        counted = log_gamma(y + 1.0) + log_gamma(shape) - log_gamma(y + shape)
        return counted + shape * softplus(eta - log_shape) + y * softplus(log_shape - eta)

    def mean(self, eta: Array, hyper: PyTree) -> Array:
        return jnp.exp(eta)

    def expectation(self, eta: Vector, numbers: Numbers) -> Vector:
        return exp(eta)

    def variance(self, eta: Vector, numbers: Numbers) -> Vector:
        return np.asarray(exp(eta) + exp(2 * eta - numbers["log_shape"]))

    def simulate(self, eta: Vector, numbers: Numbers, rng: Rng) -> Vector:
        shape = np.exp(np.clip(numbers["log_shape"], -30, 30))
        rate = rng.gamma(shape, size=eta.shape) / shape
        return rng.poisson(np.minimum(exp(eta) * rate, _MOST)).astype(float)


class ManyZeros(Counts):
    """Poisson counts, but for a share of the rows that are zero for another reason."""

    canonical = False

    @property
    def auxiliary(self) -> tuple[Auxiliary, ...]:
        return (logit_of("zero_share", 0.0, 1.5),)

    def mean(self, eta: Array, hyper: PyTree) -> Array:
        return jnp.exp(eta)

    def _counted(self, numbers: Numbers) -> Any:
        """The share of the other rows."""
        return scipy.special.expit(-np.asarray(numbers["logit_zero_share"]))


@dataclass(frozen=True)
class ZeroInflatedPoisson(ManyZeros):
    """0 with probability ``zero_share``; else Poisson with mean ``exp(eta)``, 0 included."""

    name = "zero_inflated_poisson"

    def loss(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        logit, rate = hyper["logit_zero_share"], jnp.exp(eta)
        some = rate - y * eta + log_gamma(y + 1.0)
        return softplus(logit) + jnp.where(y == 0, rate - softplus(logit + rate), some)

    def expectation(self, eta: Vector, numbers: Numbers) -> Vector:
        return np.asarray(self._counted(numbers) * exp(eta))

    def variance(self, eta: Vector, numbers: Numbers) -> Vector:
        share, rate = self._counted(numbers), exp(eta)
        return np.asarray(share * rate * (1 + (1 - share) * rate))

    def simulate(self, eta: Vector, numbers: Numbers, rng: Rng) -> Vector:
        counts = rng.poisson(np.minimum(exp(eta), _MOST)).astype(float)
        return np.where(rng.uniform(size=eta.shape) < self._counted(numbers), counts, 0.0)


@dataclass(frozen=True)
class HurdlePoisson(ManyZeros):
    """0 with probability ``zero_share``; else Poisson with rate ``exp(eta)``, given it is not 0."""

    name = "hurdle_poisson"

    def loss(self, eta: Array, y: Array, hyper: PyTree) -> Array:
        logit, rate = hyper["logit_zero_share"], jnp.exp(eta)
        truncated = rate - y * eta + log_gamma(y + 1.0) + log1mexp(rate, eta)
        return jnp.where(y == 0, softplus(-logit), softplus(logit) + truncated)

    def expectation(self, eta: Vector, numbers: Numbers) -> Vector:
        return np.asarray(self._counted(numbers) * self._truncated(eta))

    def variance(self, eta: Vector, numbers: Numbers) -> Vector:
        share, mean = self._counted(numbers), self._truncated(eta)
        squares = mean * (1 + exp(eta))
        return np.asarray(share * squares - (share * mean) ** 2)

    def simulate(self, eta: Vector, numbers: Numbers, rng: Rng) -> Vector:
        rate = np.minimum(exp(eta), _MOST)
        first = -np.log1p(rng.uniform(size=eta.shape) * np.expm1(-rate))  # of a rate, within it
        counts = 1 + rng.poisson(np.maximum(rate - first, 0.0)).astype(float)
        return np.where(rng.uniform(size=eta.shape) < self._counted(numbers), counts, 0.0)

    def _truncated(self, eta: Vector) -> Vector:
        """Mean of a count that is not 0."""
        rate = exp(np.maximum(eta, -30.0))
        return np.asarray(rate / -np.expm1(-rate))


def log1mexp(rate: Array, log_rate: Array) -> Array:
    """``log(1 - exp(-rate))``, also of a rate that is 0 in its precision."""
    small = log_rate < -12.0
    safe = jnp.where(small, jnp.ones_like(rate), rate)
    return jnp.where(small, log_rate - 0.5 * rate, jnp.log(-jnp.expm1(-safe)))
