"""The covariance of a term's effects by numbers on the real line.

Logarithms of the standard deviations come first, then partial correlations through ``tanh``, from
which the correlation matrix's Cholesky factor is made (Lewandowski, Kurowicka and Joe 2009): their
distribution LKJ makes them independent.
"""

import math
from dataclasses import dataclass
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np

from ornstein._base.types import Array, Vector
from ornstein.linalg import small
from ornstein.models.hyper_priors import ScalePrior


@dataclass(frozen=True)
class Covariance:
    """Of k effects: a prior for every standard deviation, and LKJ's concentration."""

    priors: tuple[ScalePrior, ...]
    concentration: float = 1.0

    @property
    def size(self) -> int:
        """K."""
        return len(self.priors)

    @property
    def count(self) -> int:
        """Numbers on the real line."""
        return self.size * (self.size + 1) // 2

    def factor(self, lam: Array) -> Array:
        """Lower Cholesky factor of the covariance, (k, k)."""
        k = self.size
        sds, partial = jnp.exp(lam[:k]), jnp.tanh(lam[k:])
        rows, at = [], 0
        for i in range(k):
            left, row = jnp.ones((), lam.dtype), []
            for _ in range(i):
                row.append(partial[at] * jnp.sqrt(left))
                left, at = left * (1 - partial[at] ** 2), at + 1
            row += [jnp.sqrt(left), *[jnp.zeros((), lam.dtype)] * (k - 1 - i)]
            rows.append(sds[i] * jnp.stack(row))
        return jnp.stack(rows)

    def precision(self, lam: Array) -> Array:
        """The inverse covariance."""
        root = jnp.asarray(small.lower_inverse(self.factor(lam)[:, :, None]))[:, :, 0]
        return root.T @ root

    def log_determinant(self, lam: Array) -> Array:
        """Of the precision."""
        lower = self.factor(lam)
        return -2 * jnp.log(jnp.diagonal(lower)).sum()

    def log_prior(self, lam: Array) -> Array:
        """Log-density of the numbers on the real line."""
        k = self.size
        found = jnp.zeros((), lam.dtype)
        for prior, log_sd in zip(self.priors, lam[:k], strict=True):
            found = found + prior.log_density(jnp.exp(log_sd)) + log_sd
        at = k
        for i in range(k):
            for j in range(i):
                shape = self.concentration + 0.5 * (k - 2 - j)
                # log(1 - tanh^2 x), stable far out
                log_rest = 2 * (math.log(2.0) - lam[at] - jnp.logaddexp(0.0, -2 * lam[at]))
                found = found + shape * log_rest - _log_normaliser(shape)
                at += 1
        return found

    def start(self, sds: Vector) -> Vector:
        """Given standard deviations, and no correlation."""
        return np.concatenate([np.log(sds), np.zeros(self.count - self.size)])

    def described(self, draws: Vector) -> tuple[Vector, Vector]:
        """Standard deviations (..., k) and correlations (..., k (k - 1) / 2) of draws (..., n)."""
        k, lower = self.size, self._correlation_factor(draws)
        matrix = lower @ np.swapaxes(lower, -1, -2)
        pairs = [matrix[..., i, j] for i in range(k) for j in range(i)]
        empty = np.zeros((*draws.shape[:-1], 0))
        return np.exp(draws[..., :k]), np.stack(pairs, axis=-1) if pairs else empty

    def host_factor(self, draws: Vector) -> Vector:
        """:meth:`factor` of draws (..., n), on the host."""
        return np.exp(draws[..., : self.size, None]) * self._correlation_factor(draws)

    def _correlation_factor(self, draws: Vector) -> Vector:
        k, partial, at = self.size, np.tanh(draws[..., self.size :]), 0
        lower = np.zeros((*draws.shape[:-1], k, k))
        for i in range(k):
            left = np.ones(draws.shape[:-1])
            for j in range(i):
                lower[..., i, j] = partial[..., at] * np.sqrt(left)
                left, at = left * (1 - partial[..., at] ** 2), at + 1
            lower[..., i, i] = np.sqrt(left)
        return lower


@dataclass(frozen=True)
class GivenScale:
    """Of one effect whose standard deviation is given: no numbers, the rest as a covariance has it.

    So are the coefficients of a fixed factor's levels, whose prior this is.
    """

    sd: float

    size = 1
    count = 0

    def factor(self, lam: Array) -> Array:
        """The standard deviation, (1, 1)."""
        return jnp.full((1, 1), self.sd, lam.dtype)

    def precision(self, lam: Array) -> Array:
        """Its inverse square."""
        return jnp.full((1, 1), self.sd**-2, lam.dtype)

    def log_determinant(self, lam: Array) -> Array:
        """Of the precision."""
        return jnp.asarray(-2 * math.log(self.sd), lam.dtype)

    def log_prior(self, lam: Array) -> Array:
        """There is nothing to draw."""
        return jnp.zeros((), lam.dtype)

    def start(self, sds: Vector) -> Vector:
        """Nothing."""
        return np.zeros(0 * len(sds))

    def described(self, draws: Vector) -> tuple[Vector, Vector]:
        """No standard deviations or correlations that were drawn."""
        return draws[..., :0], draws[..., :0]


AnyCovariance: TypeAlias = Covariance | GivenScale


def _log_normaliser(shape: float) -> float:
    """Of ``(1 - r^2)^(shape - 1)`` over correlations r."""
    return (2 * shape - 1) * math.log(2.0) + 2 * math.lgamma(shape) - math.lgamma(2 * shape)
