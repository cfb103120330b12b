"""Where minibatches come from (X7).

Five schemes, all deterministic by (key, step):

``independent``
    S rows drawn with replacement at every step.
``windows``
    A window of S successive rows at a random cyclic offset into a permuted copy that is redrawn
    every few epochs: the noise of draws without replacement, read contiguously. The rows are
    shuffled once; a new permutation then steps through them with a random stride modulo a prime,
    which makes every pair of rows equally likely to be adjacent and is several times cheaper than
    a shuffle. Long tables do not fit a cache: there, blocks of 16 shuffled rows stay together.
``weighted``
    S rows drawn with replacement, those of high leverage more often and with less weight: for
    control variates (X9), where a few rows would otherwise dominate.
``epochs``
    The ordinary loader, one shuffle and then consecutive blocks. Its noise cancels over an
    epoch; offered because people have such loaders, and planned for by X7.
``blocks``
    Rows of random blocks of adjacent rows, shuffled: for tables on disk, see
    :mod:`ornstein.data.prefetch`.
"""

import hashlib
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein._base import random_numbers
from ornstein._base.types import Array
from ornstein.storage.codec import register
from ornstein.theory import batch_noise_factor

SCHEMES: tuple[str, ...] = ("independent", "windows", "weighted", "epochs", "blocks")

Order: TypeAlias = npt.NDArray[np.int32]
"""Row numbers in the order in which one segment of steps reads them."""

_MOST_DRAWS = 8  # as a power of two
_WALKED = 2**16  # rows of permutations made together
_SHORT = 2**10  # rows of a table; the next prime is within three hundredths of longer ones
_LEAST_SHARE = 0.01
_BLOCK = 16  # single-precision numbers in a cache line, which is fetched as a whole
_LONG = 2**19  # rows beyond which blocks are kept together: their noise is then C_S to 0.8 %


@register
@dataclass(frozen=True)
class Batches:
    """How S of N rows are drawn; hashable, so compiled code can key on it.

    Weighted rows are drawn from a list of ``entries`` that names some of them several times.
    """

    scheme: str
    num_data: int
    batch_size: int
    entries: int = 0

    @property
    def replacement(self) -> bool:
        """Whether a row can come twice in a batch."""
        return self.scheme in ("independent", "weighted", "blocks")

    @property
    def noise_factor(self) -> float:
        """``C_S / C``."""
        return batch_noise_factor(self.num_data, self.batch_size, self.replacement)

    @property
    def block(self) -> int:
        """Rows that stay together in the permutations of windows."""
        long = self.num_data >= max(_LONG, 2 * self.batch_size)
        return _BLOCK if self.scheme == "windows" and long else 1

    @property
    def per_epoch(self) -> int:
        """Whole batches in one pass over the rows."""
        return max(1, self.num_data // self.batch_size)

    def segment_draws(self, thin: int, relaxation_steps: float, share: float = 1.0) -> int:
        """Kept draws, ``thin`` steps apart, to make on one permutation.

        Given the permutation, the windows' covariance scatters around ``C_S`` like that of 1.5 N/S
        independent batches. Redrawn every P steps, it adds ``share^2 P S / (1.5 N tau)`` to the
        relative Monte-Carlo variance of a chain that relaxes in tau steps and owes ``share`` of
        its variance to the minibatches: here two fifths, where variance times time is least.
        """
        share = max(share, _LEAST_SHARE)
        period = max(self.per_epoch, 0.6 * self.per_epoch * relaxation_steps / share**2)
        # A power of two, so that similar data sets share compiled code.
        return 2 ** min(max(0, round(math.log2(period / thin))), _MOST_DRAWS)

    def shuffle(self, entropy: tuple[int, ...]) -> Order | None:
        """How to shuffle the rows before a run; None where no scheme asks for it."""
        return _shuffle(entropy, -1, 0, self.num_data) if self.scheme == "windows" else None

    def write_permutations(
        self, entropy: tuple[int, ...], chain: int, segments: range, steps: int, out: Order
    ) -> None:
        """Write the permutations of segments of ``steps`` steps, one in each row of ``out``.

        For windows they permute blocks of shuffled rows: all whole ones once by a random stride,
        and the first of them again, for windows round the end.
        """
        if self.replacement:
            return
        if self.scheme == "windows":
            together = max(1, _WALKED // self.num_data)
            for start in range(0, len(segments), together):
                some = slice(start, start + together)
                self._write_walks(entropy, chain, segments[some], out[some])
            return
        kept = self.per_epoch * self.batch_size
        for segment, row in zip(segments, out, strict=True):
            first = segment * steps // self.per_epoch
            epochs = range(first, first + self._epochs_touched(steps))
            shuffles = [_shuffle(entropy, chain, epoch, self.num_data)[:kept] for epoch in epochs]
            np.concatenate(shuffles, out=row)

    def _write_walks(
        self, entropy: tuple[int, ...], chain: int, segments: range, out: Order
    ) -> None:
        blocks = self.num_data // self.block
        prime = _prime_from(blocks)
        walks = _walks([_stride(entropy, chain, number, prime) for number in segments], prime)
        if prime > blocks:
            walks = walks[walks < blocks].reshape(-1, blocks)
        out[:, :blocks] = walks
        out[:, blocks:] = walks[:, : self._blocks_again]

    @property
    def _blocks_again(self) -> int:
        """Blocks that hold a batch and the rows beyond the last whole block."""
        return -(-(self.batch_size + self.num_data % self.block) // self.block)

    def permutation_length(self, steps: int) -> int:
        """Length of a segment's permutation."""
        if self.scheme == "epochs":
            return self._epochs_touched(steps) * self.per_epoch * self.batch_size
        return 0 if self.replacement else self.num_data // self.block + self._blocks_again

    def _epochs_touched(self, steps: int) -> int:
        """Epochs that ``steps`` steps can touch, wherever they begin."""
        return (steps + self.per_epoch - 2) // self.per_epoch + 1

    def phase(self, segment: int, steps: int) -> int:
        """Steps into the epoch at which a segment begins."""
        return segment * steps % self.per_epoch

    def positions(self, key: Array, first: Array | int, count: int, phase: Array | int) -> Array:
        """Where the batches of ``count`` steps lie: offsets, or S row numbers each.

        ``key`` belongs to these steps, ``first`` counts from the segment's beginning.
        """
        if self.scheme == "epochs":
            return (first + phase + jnp.arange(count, dtype=jnp.int32)) * self.batch_size
        shape = (count, self.batch_size) if self.replacement else (count,)
        return random_numbers.below(key, shape, self.entries or self.num_data)


def multiplicity_of(leverage: npt.NDArray[np.float64]) -> Order:
    """How often to list each row: once, and as often again as its share of the leverage.

    Three entries per row in all, so that tables of one length share compiled code.
    """
    total = float(leverage.sum())
    share = leverage * (len(leverage) / total) if total > 0 else np.full(len(leverage), 2.0)
    times = np.ceil(1 + share * (1 - 1e-9)).astype(np.int32)
    left = 3 * len(times) - int(times.sum())
    times[np.argsort(-share, kind="stable")[:left]] += 1
    return times


def weights_of(multiplicity: Order) -> npt.NDArray[np.float64]:
    """``1 / (N p_n)``: with these, the mean over draws is the mean over rows."""
    return multiplicity.mean() / multiplicity


def distinct_rows(key: Array, count: int, shuffled: Array) -> Array:
    """A batch of distinct rows, drawn afresh from all row numbers, which are in random order.

    Of long tables those that a random stride modulo a prime meets, beyond the last row skipped:
    every pair is equally likely but for that, and the other rows are not visited.
    """
    num_data = len(shuffled)
    if num_data <= _SHORT:
        return shuffled[jax.lax.top_k(jax.random.bits(key, (num_data,), jnp.uint32), count)[1]]
    prime = _prime_from(num_data)
    needed = count + prime - num_data  # so many that enough of them are rows
    stride_key, start_key = jax.random.split(key)
    step = jax.random.randint(stride_key, (), 1, max(2, prime), jnp.int32).astype(jnp.uint32)
    start = jax.random.randint(start_key, (1,), 0, prime, jnp.int32).astype(jnp.uint32)
    walk, modulus = start, jnp.uint32(prime)
    while len(walk) < needed:  # sums: products would not fit 32 bits
        walk, step = jnp.concatenate([walk, (walk + step) % modulus]), (step + step) % modulus
    places = walk[:needed].astype(jnp.int32)
    return shuffled[places[jnp.argsort(places >= num_data, stable=True)[:count]]]


def _stride(entropy: tuple[int, ...], chain: int, segment: int, prime: int) -> int:
    """A random whole number from 1 to ``prime - 1``, by a hash: generators are slow to seed."""
    name = repr((entropy, chain, segment)).encode()
    digest = hashlib.blake2b(name, digest_size=16).digest()
    return 1 + int.from_bytes(digest, "little") % max(1, prime - 1)


def _walks(strides: list[int], prime: int) -> Order:
    """``i stride mod prime`` for every i, a row a stride, by parts: sums, not divisions."""
    size, by = math.isqrt(prime) + 1, np.array(strides)[:, None]
    inner = (np.arange(size) * by % prime).astype(np.uint32)
    outer = (np.arange(-(-prime // size)) * (size * by % prime) % prime).astype(np.uint32)
    walks = (outer[:, :, None] + inner[:, None, :]).reshape(len(by), -1)[:, :prime]
    # What is below the prime wraps round to large numbers.
    return np.minimum(walks, walks - np.uint32(prime)).view(np.int32)


def generator(entropy: tuple[int, ...], chain: int, *numbers: int) -> np.random.Generator:
    """The host's random numbers for a part of a chain's steps."""
    seed = np.random.SeedSequence(entropy, spawn_key=(chain + 1, *numbers))
    return np.random.Generator(np.random.SFC64(seed))


@lru_cache(maxsize=8)
def _shuffle(entropy: tuple[int, ...], chain: int, index: int, num_data: int) -> Order:
    order = np.arange(num_data, dtype=np.int32)
    generator(entropy, chain, index).shuffle(order)
    return order


@lru_cache(maxsize=64)
def _prime_from(number: int) -> int:
    """The smallest prime that is not below ``number``."""
    while any(number % factor == 0 for factor in range(2, math.isqrt(number) + 1)):
        number += 1
    return number
