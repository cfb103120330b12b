"""Where minibatches come from (X7).

Three schemes, all deterministic by (key, step):

``independent``
    S rows drawn with replacement at every step.
``windows``
    A window of S neighbours at a random cyclic offset into a shuffled copy that is redrawn every
    few epochs: the noise of draws without replacement, read contiguously. The rows are shuffled
    once; a redraw then steps through them with a random stride modulo a prime, which makes every
    pair of rows equally likely to be neighbours and is several times cheaper than a shuffle.
``epochs``
    The ordinary loader, one shuffle and then consecutive blocks. Its noise cancels over an
    epoch; offered because people have such loaders, and planned for by X7.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import isqrt, log2
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein._types import Array, PyTree
from ornstein.theory import batch_noise_factor

SCHEMES: tuple[str, ...] = ("independent", "windows", "epochs")

Order: TypeAlias = npt.NDArray[np.int32]
"""Row numbers in reading order, for one segment of steps."""

_MOST_DRAWS = 5  # as a power of two


@dataclass(frozen=True)
class Batches:
    """How S of N rows are drawn; hashable, so compiled code can key on it."""

    scheme: str
    num_data: int
    batch_size: int

    @property
    def replacement(self) -> bool:
        """Whether a row can come twice in a batch."""
        return self.scheme == "independent"

    @property
    def noise_factor(self) -> float:
        """``C_S / C``."""
        return batch_noise_factor(self.num_data, self.batch_size, self.replacement)

    @property
    def per_epoch(self) -> int:
        """Whole batches in one pass over the rows."""
        return max(1, self.num_data // self.batch_size)

    def segment_draws(self, thin: int, relaxation_steps: float) -> int:
        """Kept draws, ``thin`` steps apart, to make on one reading order.

        Given the order, the windows' covariance scatters around ``C_S`` like that of 1.5 N/S
        independent batches. Redrawn every P steps, it adds ``P S / (1.5 N tau)`` to the relative
        Monte-Carlo variance of a chain that relaxes in tau steps: here a quarter.
        """
        period = max(self.per_epoch, 0.4 * self.per_epoch * relaxation_steps)
        # A power of two, so that similar data sets share compiled code.
        return 2 ** min(max(0, round(log2(period / thin))), _MOST_DRAWS)

    def order(self, entropy: tuple[int, ...], chain: int, segment: int, steps: int) -> Order:
        """Reading order of one segment of ``steps`` steps."""
        if self.scheme == "independent":
            return np.empty(0, np.int32)
        if self.scheme == "windows":
            prime = _prime_from(self.num_data)
            stride = int(_generator(entropy, chain, segment).integers(1, max(prime, 2)))
            walk = np.arange(prime) * stride % prime
            order = _shuffle(entropy, -1, 0, self.num_data)[walk[walk < self.num_data]]
            return np.concatenate([order, order[: self.batch_size]])
        kept = self.per_epoch * self.batch_size
        first = segment * steps // self.per_epoch
        epochs = range(first, first + self._epochs_touched(steps))
        shuffles = [_shuffle(entropy, chain, epoch, self.num_data)[:kept] for epoch in epochs]
        return np.concatenate(shuffles)

    def order_length(self, steps: int) -> int:
        """Length of a segment's reading order."""
        if self.scheme == "epochs":
            return self._epochs_touched(steps) * self.per_epoch * self.batch_size
        return 0 if self.scheme == "independent" else self.num_data + self.batch_size

    def _epochs_touched(self, steps: int) -> int:
        """Epochs that ``steps`` steps can touch, wherever they begin."""
        return (steps + self.per_epoch - 2) // self.per_epoch + 1

    def phase(self, segment: int, steps: int) -> int:
        """Steps into the epoch at which a segment begins."""
        return segment * steps % self.per_epoch

    def arrange(self, rows: PyTree, order: Array, rows_last: bool) -> PyTree:
        """Rows in reading order (feature-major if asked), ready for :meth:`take`."""
        if self.scheme == "independent":
            return rows
        ordered = jax.tree.map(lambda leaf: leaf[order], rows)
        return _rows_last(ordered) if rows_last else ordered

    def positions(self, key: Array, first: Array | int, count: int, phase: Array | int) -> Array:
        """Where the batches of ``count`` steps lie: offsets, or S row numbers each.

        ``key`` belongs to these steps, ``first`` counts from the segment's beginning.
        """
        if self.scheme == "epochs":
            return (first + phase + jnp.arange(count, dtype=jnp.int32)) * self.batch_size
        shape = (count, self.batch_size) if self.scheme == "independent" else (count,)
        return _below(jax.random.bits(key, shape, jnp.uint32), self.num_data)

    def take(self, arranged: PyTree, position: Array, rows_last: bool) -> PyTree:
        """The batch at a position."""
        if self.scheme == "independent":
            batch = jax.tree.map(lambda leaf: leaf[position], arranged)
            return _rows_last(batch) if rows_last else batch

        def window(leaf: Array) -> Array:
            axis = leaf.ndim - 1 if rows_last else 0
            return jax.lax.dynamic_slice_in_dim(leaf, position, self.batch_size, axis)

        return jax.tree.map(window, arranged)


def _generator(entropy: tuple[int, ...], chain: int, index: int) -> np.random.Generator:
    seed = np.random.SeedSequence(entropy, spawn_key=(chain + 1, index))
    return np.random.Generator(np.random.SFC64(seed))


@lru_cache(maxsize=8)
def _shuffle(entropy: tuple[int, ...], chain: int, index: int, num_data: int) -> Order:
    order = np.arange(num_data, dtype=np.int32)
    _generator(entropy, chain, index).shuffle(order)
    return order


@lru_cache(maxsize=64)
def _prime_from(number: int) -> int:
    """The smallest prime that is not below ``number``."""
    while any(number % factor == 0 for factor in range(2, isqrt(number) + 1)):
        number += 1
    return number


def _rows_last(rows: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), rows)


def _below(bits: Array, bound: int) -> Array:
    """Uniform whole numbers below ``bound``: the high word of ``bits * bound``, by halves."""
    low, high = bits & 0xFFFF, bits >> 16
    bound_low, bound_high = jnp.uint32(bound & 0xFFFF), jnp.uint32(bound >> 16)
    middle = high * bound_low + ((low * bound_low) >> 16)
    carry = low * bound_high + (middle & 0xFFFF)
    return (high * bound_high + (middle >> 16) + (carry >> 16)).astype(jnp.int32)
