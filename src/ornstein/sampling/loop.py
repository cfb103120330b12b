"""The compiled inner loop of one chain: segments of draws of steps, in whitened coordinates (X8).

A *segment* is a few kept draws made on one permutation of the rows. A *draw* is ``thin`` steps, of
which only the last iterate is kept. Random numbers are made in *blocks*, as many as stay in a
core's cache: for some whole draws, or for a part of one. They depend on the chain's key, the
segment and the step alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental.xla_metadata import set_xla_metadata

from ornstein._base.trees import cast, to_device
from ornstein._base.types import Array, PyTree
from ornstein.data.readers import Reader
from ornstein.linalg.operators import Diagonal, Factor, Operator
from ornstein.models.local import LocalModel, Minibatch
from ornstein.planning.plans import Plan
from ornstein.planning.rules.contract import Inputs, Rule, State

ROWS = "rows"
"""The axis of a mesh along which the rows of a batch are spread."""

_BULK = 2**15  # random numbers made at once,
_ROWS_BULK = 2**17  # and where each row of a batch takes one
_SMALL = 2**13  # bytes of a batch whose step one compiled kernel makes faster than many
_NARROW = 32  # parameters of such steps
_KERNEL = {"xla_cpu_small_call": "true", "inlineable": "false"}


@dataclass(frozen=True)
class Loop:
    """What compiled code is keyed on, beside the rule."""

    model: LocalModel
    reader: Reader
    dim: int
    thin: int
    segment_draws: int
    dtype: str
    parts: int = 0  # devices that share a batch, along the axis ``rows`` of a mesh
    beside: int = 0  # numbers of a draw beside the position

    @property
    def width(self) -> int:
        """Numbers of a draw."""
        return self.dim + self.beside

    @property
    def segment_steps(self) -> int:
        """Steps in a segment."""
        return self.segment_draws * self.thin

    @property
    def block(self) -> int:
        """Steps whose random numbers are made at once: 2^k draws, or a divisor of ``thin``."""
        by_row = self.reader.random_numbers > 1
        bulk = max(1, (_ROWS_BULK if by_row else _BULK) // (self.dim + self.reader.random_numbers))
        if self.thin > bulk:
            return next(b for b in range(bulk, 0, -1) if self.thin % b == 0)
        draws = 1
        while draws < self.segment_draws and 2 * draws * self.thin <= bulk:
            draws *= 2
        return draws * self.thin

    def is_small(self, rule: Rule) -> bool:
        """Whether a step is so little work that calling its operations takes longer."""
        batches = self.reader.batches
        batch_bytes = batches.batch_size * (self.dim + 1) * jnp.dtype(self.dtype).itemsize
        contiguous = batches.scheme in ("windows", "epochs") and not self.parts
        simple = self.model.plain_operations and rule.plain_operations
        return contiguous and simple and batch_bytes <= _SMALL and self.dim <= _NARROW


class Problem(NamedTuple):
    """Arrays of the loop, shared by all chains."""

    rows: PyTree
    hyper: PyTree
    noise_factor: Factor | None
    rule: Rule

    @classmethod
    def of(
        cls,
        plan: Plan,
        factor: Factor,
        rows: PyTree,
        hyper: PyTree,
        dtype: Any,
        rule: Rule | None = None,
    ) -> "Problem":
        """The arrays for the coordinates z of ``theta = center + W z``, W the factor (X8).

        With another rule than the plan's, where more is drawn than its parameters.
        """
        rule = (rule or plan.rule).whitened(factor, plan.dim)
        injected = plan.injected_cov
        root = None if injected is None else factor.whiten(injected.sqrt(), plan.dim)
        noise = rule.noise_factor(root)
        return cls(
            rows=to_device(rows),
            hyper=to_device(cast(hyper, dtype)),
            noise_factor=None if noise is None else to_device(noise.astype(dtype)),
            rule=to_device(cast(rule, dtype)),
        )


class Segments(NamedTuple):
    """What distinguishes a chunk's segments: number, permutation, phase in the epoch."""

    number: Array
    order: Array
    phase: Array
    rows: PyTree = None  # of every step, where the host reads them


def step_inputs(loop: Loop, problem: Problem, gain: Operator | None = None) -> Inputs:
    """What the rule's steps use; in whitened coordinates the gain is the identity (X8)."""

    def minibatch(batch: tuple[PyTree, Array | None]) -> Minibatch:
        batches = loop.reader.batches
        return Minibatch(*batch, batches.batch_size // max(1, loop.parts), batches.num_data)

    def gradient(z: Array, batch: tuple[PyTree, Array | None]) -> Array:
        # Parts are of equal size: the mean of their means is that of the batch, the prior in it.
        return _shared(loop, loop.model.minibatch_gradient(z, minibatch(batch), problem.hyper))

    def loss(z: Array, batch: tuple[PyTree, Array | None]) -> Array:
        return _shared(loop, loop.model.minibatch_loss(z, minibatch(batch), problem.hyper))

    def moments(z: Array, batch: tuple[PyTree, Array | None]) -> tuple[Array, Array]:
        part = minibatch(batch)
        if not loop.parts:
            return loop.model.gradient_moments(z, part, problem.hyper)
        rows = loop.model.row_gradients(z, part, problem.hyper)
        centred = rows - _shared(loop, rows.mean(axis=1))[:, None]
        squares = jax.lax.psum(centred @ centred.T, ROWS)
        return gradient(z, batch), squares / (loop.parts * part.size - 1)

    gain = Diagonal(jnp.ones((), loop.dtype)) if gain is None else gain
    noise = problem.noise_factor
    return Inputs(gradient, gain, noise, loop.dim, loop.dtype, loop.thin, moments, loss)


def _shared(loop: Loop, mean: Array) -> Array:
    """The mean over devices that share a batch."""
    return jax.lax.pmean(mean, ROWS) if loop.parts else mean


def _scan(small: bool, body: Callable[..., Any], state: State, ready: PyTree) -> Any:
    """``lax.scan``; of small steps as one kernel of the processor.

    XLA marks loops over a few numbers so by itself and calls the operations of all others one by
    one, at a fraction of a microsecond each. Other backends know no such mark.
    """

    def run(state: State, ready: PyTree) -> Any:
        return jax.lax.scan(body, state, ready)

    if not small or jax.default_backend() != "cpu":
        return run(state, ready)
    return set_xla_metadata(jax.jit(run)(state, ready), **_KERNEL)


@partial(jax.jit, static_argnums=(0, 1))
def advance(
    loop: Loop, watch: bool, problem: Problem, key: Array, state: State, segments: Segments
) -> tuple[State, Array | None]:
    """Run segments of one chain; returns the state and the kept positions.

    With ``watch``, returns for every step whether its position is finite, instead.
    """
    rule, inputs = problem.rule, step_inputs(loop, problem)
    batch_key, noise_key = jax.random.fold_in(key, 0), jax.random.fold_in(key, 1)
    reader, small = loop.reader, loop.is_small(rule) and not watch

    def segment(state: State, this: Segments) -> tuple[State, Array | None]:
        rows = this.rows if reader.prefetched else reader.arrange(problem.rows, this.order)
        batch_root = jax.random.fold_in(batch_key, this.number)
        noise_root = jax.random.fold_in(noise_key, this.number)

        def one(state: State, random: tuple[Array, Array | None]) -> tuple[State, Array | None]:
            position, noise = random
            state, _ = rule.advance(inputs, state, reader.take(rows, position), noise)
            return state, jnp.isfinite(state.position).all() if watch else None

        def random(first: Array) -> tuple[Array, Array | None]:
            key = jax.random.fold_in(batch_root, first)
            positions = reader.positions(key, first, loop.block, this.phase)
            noise_key = jax.random.fold_in(noise_root, first)
            return positions, rule.noise(inputs, noise_key, (loop.block,))

        def draw(state: State, ready: tuple[Array, Array | None]) -> tuple[State, Array | None]:
            state, finite = jax.lax.scan(one, state, ready)
            return state, finite if watch else rule.read(state)

        def some_draws(state: State, first: Array) -> tuple[State, Array | None]:
            by_draw = (loop.block // loop.thin, loop.thin)
            ready = jax.tree.map(lambda leaf: leaf.reshape(by_draw + leaf.shape[1:]), random(first))
            return _scan(small, draw, state, ready)

        def part_of_draw(state: State, first: Array) -> tuple[State, Array | None]:
            return _scan(small, one, state, random(first))

        def long_draw(state: State, first: Array) -> tuple[State, Array | None]:
            firsts = first + jnp.arange(0, loop.thin, loop.block, dtype=jnp.int32)
            state, finite = jax.lax.scan(part_of_draw, state, firsts)
            return state, finite if watch else rule.read(state)

        stride, body = (
            (loop.block, some_draws) if loop.block >= loop.thin else (loop.thin, long_draw)
        )
        return jax.lax.scan(body, state, jnp.arange(0, loop.segment_steps, stride, dtype=jnp.int32))

    return jax.lax.scan(segment, state, segments)
