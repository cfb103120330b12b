"""The compiled inner loop of one chain: segments of draws of steps.

A *segment* is a few kept draws made on one reading order of the rows. A *draw* is ``thin`` steps,
of which only the last iterate is kept. Random numbers are drawn for a whole segment at once, or,
where that would take too much memory, for *blocks* of steps; they depend on the chain's key, the
segment and the step alone.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ornstein._types import Array, PyTree
from ornstein.data import Batches
from ornstein.kernels import Kernel, first_order, momentum
from ornstein.kernels.contract import State
from ornstein.model import LocalModel
from ornstein.operators import Diagonal, Operator

_BULK = 2**21  # random numbers drawn at once


@dataclass(frozen=True)
class Loop:
    """What compiled code is keyed on."""

    model: LocalModel
    batches: Batches
    dim: int
    thin: int
    segment_draws: int
    dtype: str
    has_momentum: bool

    @property
    def segment_steps(self) -> int:
        """Steps in a segment."""
        return self.segment_draws * self.thin

    @property
    def bulk(self) -> int:
        """Steps whose random numbers may be drawn at once."""
        width = self.dim + (self.batches.batch_size if self.batches.replacement else 1)
        return max(1, _BULK // width)

    @property
    def block(self) -> int:
        """Steps in a block: the largest divisor of ``thin`` that keeps to the bulk bound."""
        return next(b for b in range(min(self.bulk, self.thin), 0, -1) if self.thin % b == 0)


class Problem(NamedTuple):
    """Arrays of the loop, shared by all chains."""

    rows: PyTree
    hyper: PyTree
    noise_factor: Operator | None
    friction: Array


class Segments(NamedTuple):
    """What distinguishes a chunk's segments: number, reading order, phase in the epoch."""

    number: Array
    order: Array
    phase: Array


def build_kernel(loop: Loop, problem: Problem) -> Kernel:
    """The kernel in whitened coordinates, where every gain is the identity (X8)."""

    def gradient(z: Array, batch: PyTree) -> Array:
        S, N = loop.batches.batch_size, loop.batches.num_data
        return loop.model.minibatch_gradient(z, batch, problem.hyper, S, N)

    unit = Diagonal(jnp.ones((), loop.dtype))
    if loop.has_momentum:
        return momentum.build(
            gradient, loop.dim, loop.dtype, unit, problem.noise_factor, problem.friction
        )
    return first_order.build(gradient, loop.dim, loop.dtype, unit, problem.noise_factor)


@partial(jax.jit, static_argnums=(0, 1))
def advance(
    loop: Loop, watch: bool, problem: Problem, key: Array, state: State, segments: Segments
) -> tuple[State, Array | None]:
    """Run segments of one chain; returns the state and the kept positions.

    With ``watch``, returns for every step whether its position is finite, instead.
    """
    kernel = build_kernel(loop, problem)
    batch_key, noise_key = jax.random.fold_in(key, 0), jax.random.fold_in(key, 1)
    batches, rows_last = loop.batches, loop.model.rows_last

    def segment(state: State, this: Segments) -> tuple[State, Array | None]:
        rows = batches.arrange(problem.rows, this.order, rows_last)
        batch_root = jax.random.fold_in(batch_key, this.number)
        noise_root = jax.random.fold_in(noise_key, this.number)

        def one(state: State, random: tuple[Array, Array | None]) -> tuple[State, Array | None]:
            position, noise = random
            state, _ = kernel.advance(state, batches.take(rows, position, rows_last), noise)
            return state, jnp.isfinite(state.position).all() if watch else None

        def random(first: Array | int, count: int) -> tuple[Array, Array | None]:
            key = jax.random.fold_in(batch_root, first)
            positions = batches.positions(key, first, count, this.phase)
            if kernel.noise is None:
                return positions, None
            return positions, kernel.noise(jax.random.fold_in(noise_root, first), (count,))

        def block(state: State, first: Array) -> tuple[State, Array | None]:
            return jax.lax.scan(one, state, random(first, loop.block))

        def draw_in_blocks(state: State, first: Array) -> tuple[State, Array | None]:
            starts = first + jnp.arange(0, loop.thin, loop.block, dtype=jnp.int32)
            state, finite = jax.lax.scan(block, state, starts)
            return state, finite if watch else state.position

        def draw(state: State, ready: tuple[Array, Array | None]) -> tuple[State, Array | None]:
            state, finite = jax.lax.scan(one, state, ready)
            return state, finite if watch else state.position

        if loop.segment_steps <= loop.bulk:
            ready = random(0, loop.segment_steps)
            by_draw = (loop.segment_draws, loop.thin)
            ready = jax.tree.map(lambda leaf: leaf.reshape(by_draw + leaf.shape[1:]), ready)
            return jax.lax.scan(draw, state, ready)
        firsts = jnp.arange(0, loop.segment_steps, loop.thin, dtype=jnp.int32)
        return jax.lax.scan(draw_in_blocks, state, firsts)

    return jax.lax.scan(segment, state, segments)
