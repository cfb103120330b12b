"""Means of the last ``window`` of every ``stride`` iterates of SGD (X5)."""

from typing import NamedTuple

import jax.numpy as jnp

from ornstein._base.types import Array, PyTree
from ornstein.planning.kernels.contract import Info, Kernel


class State(NamedTuple):
    """Where the chain is, the sum of the iterates of this window, and how many steps are made."""

    position: Array
    total: Array
    steps: Array


def build(inner: Kernel, window: int, stride: int) -> Kernel:
    """Average a kernel whose state is a position alone; a draw is ready every ``stride`` steps."""

    def init(key: Array, position: Array) -> State:
        begun = inner.init(key, position)
        return State(begun.position, jnp.zeros_like(begun.position), jnp.zeros((), jnp.int32))

    def advance(state: State, batch: PyTree, noise: Array | None) -> tuple[State, Info]:
        moved, info = inner.advance(inner.init(None, state.position), batch, noise)  # type: ignore[arg-type]
        total = jnp.where(state.steps > 0, state.total, 0)
        total = jnp.where(state.steps >= stride - window, total + moved.position, total)
        steps = jnp.where(state.steps + 1 >= stride, 0, state.steps + 1)
        return State(moved.position, total, steps), info

    # A product: compiled in another context, a division may round differently.
    return Kernel(init, inner.noise, advance, lambda state: state.total * (1 / window))
