"""What the steps of mixed models share: keys, lengths, and a Gaussian of the hyperparameters."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.types import Array, Vector

_WALKS = 0.25  # share of proposals that are steps of a random walk,
_STRIDE = 1.5  # in standard deviations
_FARTHEST = 6.0  # strides


def keys_of_draw(key: Array, number: Array) -> Array:
    """For the steps of a draw of a dispatch, and for reading it."""
    return jax.random.split(jax.random.fold_in(key, number))


class Tuning(NamedTuple):
    """Lengths of steps: angles of leaves and head, and the share of a proposal that is new.

    Numbers, or arrays with one for every turn.
    """

    leaf: Any
    head: Any
    hyper: Any


class Reference(NamedTuple):
    """A Gaussian near the hyperparameters' posterior."""

    mean: Any
    factor: Any  # lower
    widths: Any  # standard deviations

    @classmethod
    def of(cls, mean: Vector, cov: Vector, dtype: str) -> "Reference":
        """With a mean and a covariance."""
        parts = mean, np.linalg.cholesky(cov), np.sqrt(np.diag(cov))
        return cls(*(np.asarray(part, dtype) for part in parts))

    def marginal(self, index: Any) -> "Reference":
        """Of some of the hyperparameters."""
        if not len(index):
            return Reference(self.mean[index], jnp.zeros((0, 0)), self.widths[index])
        rows = self.factor[index]
        return Reference(self.mean[index], jnp.linalg.cholesky(rows @ rows.T), self.widths[index])

    def proposed(self, lam: Array, share: Array, key: Array) -> tuple[Array, Array]:
        """A move, and what it adds to the logarithm of a Metropolis test's ratio.

        Most keep the Gaussian: all is new where the share is 1. From where the Gaussian has no mass
        and the posterior has some, as at a standard deviation near 0, they would seldom return; so
        one in four is a step of a random walk in one number, now and then a long one.
        """
        kind, normal, walk = jax.random.split(key, 3)
        new = self.factor @ jax.random.normal(normal, lam.shape, lam.dtype)
        kept = jnp.sqrt(1 - share**2)
        drawn = self.mean + kept * (lam - self.mean) + share * new
        walks = jax.random.uniform(kind) < _WALKS
        weight = self.log_density(lam) - self.log_density(drawn)
        return (
            jnp.where(walks, self.walked(lam, lam.shape[0], walk), drawn),
            jnp.where(walks, jnp.zeros_like(weight), weight),
        )

    def walked(self, lam: Array, count: int, key: Array) -> Array:
        """A step of a random walk in one of the first numbers, as likely there as back."""
        which, length = jax.random.split(key)
        index = jax.random.randint(which, (), 0, count)
        far = jnp.clip(jax.random.t(length, 2.0, (), lam.dtype), -_FARTHEST, _FARTHEST)
        step = _STRIDE * self.widths[index] * far
        return lam.at[index].add(step)

    def log_density(self, lam: Array) -> Array:
        """Up to a constant."""
        white = jax.scipy.linalg.solve_triangular(self.factor, lam - self.mean, lower=True)
        return -0.5 * (white**2).sum()
