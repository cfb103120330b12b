"""Stochastic gradient Fisher scoring that estimates the noise covariance on the way (R5, R6)."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from ornstein._base.types import Array, PyTree
from ornstein.linalg.operators import Operator
from ornstein.planning.kernels.contract import Info, Kernel, gaussian

Moments: TypeAlias = Callable[[Array, PyTree], tuple[Array, Array]]
"""``(position, batch) -> minibatch gradient, covariance of its rows' gradients``."""


class Fisher(NamedTuple):
    """Constants of the recipe.

    Attributes
    ----------
    step_size, num_data, noise_factor
        ``eps``, N and ``C_S / C``.
    extra_noise
        ``E E'``.
    noise_cov
        C as first guessed; it weighs as much as one minibatch.
    """

    step_size: Array
    num_data: Array
    noise_factor: Array
    extra_noise: Array
    noise_cov: Array


class State(NamedTuple):
    """Where the chain is, the mean of the rows' covariances so far, and of how many batches."""

    position: Array
    noise_cov: Array
    batches: Array


def build(
    moments: Moments,
    dim: int,
    dtype: object,
    structure: str,
    extra_factor: Operator | None,
    constants: Fisher,
) -> Kernel:
    """``theta <- theta - H (eps ghat - eps^(1/2) E xi)``, H by the covariance estimated so far.

    ``structure`` is that of ``H``: dense, diagonal or scalar.
    """
    eps, N = constants.step_size, constants.num_data

    def init(key: Array, position: Array) -> State:
        del key
        return State(position, constants.noise_cov, jnp.ones((), position.dtype))

    def advance(state: State, batch: PyTree, noise: Array | None) -> tuple[State, Info]:
        slope, scatter = moments(state.position, batch)
        count = state.batches + 1
        noise_cov = state.noise_cov + (scatter - state.noise_cov) / count
        push = eps * slope if noise is None else eps * slope - jnp.sqrt(eps) * noise
        total = eps * constants.noise_factor * noise_cov + constants.extra_noise
        move = 2 / N * solve(total, push)
        return State(state.position - move, noise_cov, count), Info(slope)

    def solve(total: Array, push: Array) -> Array:
        if structure == "dense":
            return jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(total), push)
        spread = jnp.diagonal(total)
        return push / (spread.mean() if structure == "scalar" else spread)

    return Kernel(init, gaussian(extra_factor, dim, dtype), advance)
