"""``theta <- theta - H_t (eps ghat - eps^(1/2) E xi)``, ``H_t = (2/N) (eps C_t / S + E E')^-1``.

Stochastic gradient Fisher scoring with C estimated online: ``C_t`` is the mean of the covariances
of the rows' gradients in all batches so far (R5, R6).
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from ornstein import theory
from ornstein._base.types import Array, PyTree, Vector
from ornstein.linalg.operators import Dense, Factor, as_operator
from ornstein.planning.rules.contract import Info, Inputs, LinearChain, Rule, register


class Estimated(NamedTuple):
    """Where the chain is, the mean of the rows' covariances so far, and of how many batches."""

    position: Array
    noise_cov: Array
    batches: Array


@register
@dataclass(frozen=True, eq=False)
class Running(Rule):
    """A first-order step whose gain follows the noise seen so far.

    Covariances are those with the gain to which the estimate converges.
    """

    name: ClassVar[str] = "running"
    title: ClassVar[str] = "A running estimate of the noise"
    beyond_optax: ClassVar[str | None] = "the rows' own gradients"
    plain_operations: ClassVar[bool] = False

    structure: str = field(metadata={"static": True})  # of H: dense, diagonal or scalar
    step_size: float  # eps
    num_data: float
    noise_ratio: float  # C_S / C
    extra_noise: Vector  # E E'
    noise_cov: Vector  # C at the optimum: the first estimate, which weighs as one minibatch

    def epoch_covariance(self, per_epoch: int, chain: LinearChain) -> Vector:
        K, A, C_S, Q = chain
        return theory.epoch_covariance(K, A, C_S, per_epoch, Q)

    @property
    def own_noise(self) -> Vector:
        return self.extra_noise

    def whitened(self, factor: Factor, dim: int) -> Self:
        """Covariances of gradients become ``W' M W``."""
        W = factor.dense(dim)

        def mapped(M: Vector) -> Vector:
            return W.T @ as_operator(M).dense(dim) @ W

        return replace(self, extra_noise=mapped(self.extra_noise), noise_cov=mapped(self.noise_cov))

    def noise_factor(self, root: Factor | None) -> Factor | None:
        """``E``, which the gain multiplies."""
        return None if root is None else Dense(np.asarray(self.extra_noise)).sqrt()

    def begin(self, position: Array) -> Estimated:
        return Estimated(position, jnp.asarray(self.noise_cov), jnp.ones((), position.dtype))

    def advance(
        self, inputs: Inputs, state: Estimated, batch: PyTree, noise: Array | None
    ) -> tuple[Estimated, Info]:
        """Estimate, then move."""
        eps = self.step_size
        slope, scatter = inputs.moments(state.position, batch)
        count = state.batches + 1
        noise_cov = state.noise_cov + (scatter - state.noise_cov) / count
        push = eps * slope if noise is None else eps * slope - jnp.sqrt(eps) * noise
        total = eps * self.noise_ratio * noise_cov + self.extra_noise
        move = 2 / self.num_data * self._solve(total, push)
        return Estimated(state.position - move, noise_cov, count), Info(slope)

    def _solve(self, total: Array, push: Array) -> Array:
        if self.structure == "dense":
            return jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(total), push)
        spread = jnp.diagonal(total)
        return push / (spread.mean() if self.structure == "scalar" else spread)

    def lines(self) -> list[tuple[str, str]]:
        return [("noise covariance", "estimated online")]
