"""``theta <- theta - K ghat(theta) + Q^(1/2) xi``: SGD, preconditioned SGD, SGFS and SGLD (T2)."""

from typing import NamedTuple

from ornstein._base.types import Array, PyTree
from ornstein.linalg.operators import Operator
from ornstein.planning.kernels.contract import Gradient, Info, Kernel, gaussian


class State(NamedTuple):
    """Where the chain is."""

    position: Array


def init(key: Array, position: Array) -> State:
    """Begin at a position."""
    del key
    return State(position)


def build(
    gradient: Gradient, dim: int, dtype: object, gain: Operator, noise_factor: Operator | None
) -> Kernel:
    """The kernel for a gain ``K`` and a factor of the injected covariance ``Q``."""

    def advance(state: State, batch: PyTree, noise: Array | None) -> tuple[State, Info]:
        slope = gradient(state.position, batch)
        position = state.position - gain.matvec(slope)
        return State(position if noise is None else position + noise), Info(slope)

    return Kernel(init, gaussian(noise_factor, dim, dtype), advance)
