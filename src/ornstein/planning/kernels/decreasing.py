"""First-order steps that decrease, gain and noise variance alike (R8)."""

from typing import NamedTuple

import jax.numpy as jnp

from ornstein._base.types import Array, PyTree
from ornstein.linalg.operators import Operator
from ornstein.planning.kernels.contract import Gradient, Info, Kernel, gaussian


class State(NamedTuple):
    """Where the chain is and how many steps it has made."""

    position: Array
    steps: Array


def init(key: Array, position: Array) -> State:
    """Begin at a position, at full step."""
    del key
    return State(position, jnp.zeros((), jnp.int32))


def build(
    gradient: Gradient,
    dim: int,
    dtype: object,
    gain: Operator,
    noise_factor: Operator | None,
    power: Array | float,
    after: Array | float,
) -> Kernel:
    """The kernel whose gain and noise variance are ``(1 + t / after)^-power`` of the first."""

    def advance(state: State, batch: PyTree, noise: Array | None) -> tuple[State, Info]:
        slope = gradient(state.position, batch)
        scale = (1 + state.steps.astype(slope.dtype) / after) ** -power
        position = state.position - scale * gain.matvec(slope)
        position = position if noise is None else position + jnp.sqrt(scale) * noise
        return State(position, state.steps + 1), Info(slope)

    return Kernel(init, gaussian(noise_factor, dim, dtype), advance)
