"""``v <- (1 - mu) v - K ghat(theta) + Q^(1/2) xi; theta <- theta + v``: SGD with momentum (X4)."""

from typing import NamedTuple

import jax.numpy as jnp

from ornstein._base.types import Array, PyTree
from ornstein.linalg.operators import Operator
from ornstein.planning.kernels.contract import Gradient, Info, Kernel, gaussian


class State(NamedTuple):
    """Where the chain is and how it moves."""

    position: Array
    velocity: Array


def init(key: Array, position: Array) -> State:
    """Begin at a position, at rest."""
    del key
    return State(position, jnp.zeros_like(position))


def build(
    gradient: Gradient,
    dim: int,
    dtype: object,
    gain: Operator,
    noise_factor: Operator | None,
    friction: Array | float,
) -> Kernel:
    """The kernel for a gain ``K``, injected noise and friction ``mu`` (1: first order)."""

    def advance(state: State, batch: PyTree, noise: Array | None) -> tuple[State, Info]:
        slope = gradient(state.position, batch)
        velocity = (1 - friction) * state.velocity - gain.matvec(slope)
        velocity = velocity if noise is None else velocity + noise
        return State(state.position + velocity, velocity), Info(slope)

    return Kernel(init, gaussian(noise_factor, dim, dtype), advance)
