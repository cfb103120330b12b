"""Where minibatches come from (X7).

Five schemes, all deterministic by (key, step):

``independent``
    S rows drawn with replacement at every step.
``windows``
    A window of S neighbours at a random cyclic offset into a shuffled copy that is redrawn every
    few epochs: the noise of draws without replacement, read contiguously. The rows are shuffled
    once; a redraw then steps through them with a random stride modulo a prime, which makes every
    pair of rows equally likely to be neighbours and is several times cheaper than a shuffle. Long
    tables do not fit a cache: there, 16 rows of the shuffled copy stay together.
``weighted``
    S rows drawn with replacement, those of high leverage more often and with less weight: for
    control variates (X9), where a few rows would otherwise dominate.
``epochs``
    The ordinary loader, one shuffle and then consecutive blocks. Its noise cancels over an
    epoch; offered because people have such loaders, and planned for by X7.
``blocks``
    Rows of random blocks of neighbours, shuffled: for tables on disk, see
    :mod:`ornstein.data.prefetch`.
"""

import hashlib
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein._base import random_numbers
from ornstein._base.trees import Layout
from ornstein._base.types import Array, PyTree
from ornstein.storage.codec import register
from ornstein.theory import batch_noise_factor

SCHEMES: tuple[str, ...] = ("independent", "windows", "weighted", "epochs", "blocks")

Order: TypeAlias = npt.NDArray[np.int32]
"""Row numbers in reading order, for one segment of steps."""

_MOST_DRAWS = 8  # as a power of two
_WALKED = 2**16  # rows of reading orders made together
_SHORT = 2**10  # rows of a table; the next prime is within three hundredths of longer ones
_LEAST_SHARE = 0.01
_LINE = 16  # single-precision numbers in a line of memory, which is fetched as a whole
_LONG = 2**19  # rows beyond which lines are kept together: their noise is then C_S to 0.8 %
_WIDEST_PACKED = 80  # numbers in a row; beyond, taking packed rows apart costs more than it saves
_PADDED = 48  # beyond these, rows are padded to the widest: copied whole, they come thrice as fast


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
    def line(self) -> int:
        """Rows that stay together in reading orders of windows."""
        long = self.num_data >= max(_LONG, 2 * self.batch_size)
        return _LINE if self.scheme == "windows" and long else 1

    @property
    def per_epoch(self) -> int:
        """Whole batches in one pass over the rows."""
        return max(1, self.num_data // self.batch_size)

    def segment_draws(self, thin: int, relaxation_steps: float, share: float = 1.0) -> int:
        """Kept draws, ``thin`` steps apart, to make on one reading order.

        Given the order, the windows' covariance scatters around ``C_S`` like that of 1.5 N/S
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
        if self.scheme != "windows":
            return None
        return _shuffle(entropy, -1, 0, self.num_data)

    def orders(
        self, entropy: tuple[int, ...], chain: int, segments: range, steps: int, out: Order
    ) -> None:
        """Write reading orders of segments of ``steps`` steps, one a line.

        For windows they are of lines of shuffled rows: all whole ones once by a random stride, and
        the first of them again, for windows round the end.
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
        for segment, line in zip(segments, out, strict=True):
            first = segment * steps // self.per_epoch
            epochs = range(first, first + self._epochs_touched(steps))
            shuffles = [_shuffle(entropy, chain, epoch, self.num_data)[:kept] for epoch in epochs]
            np.concatenate(shuffles, out=line)

    def _write_walks(
        self, entropy: tuple[int, ...], chain: int, segments: range, out: Order
    ) -> None:
        lines = self.num_data // self.line
        prime = _prime_from(lines)
        walks = _walks([_stride(entropy, chain, number, prime) for number in segments], prime)
        if prime > lines:
            walks = walks[walks < lines].reshape(-1, lines)
        out[:, :lines] = walks
        out[:, lines:] = walks[:, : self._lines_again]

    @property
    def _lines_again(self) -> int:
        """Lines that hold a batch and the rows beyond the last whole line."""
        return -(-(self.batch_size + self.num_data % self.line) // self.line)

    def order_length(self, steps: int) -> int:
        """Length of a segment's reading order."""
        if self.scheme == "epochs":
            return self._epochs_touched(steps) * self.per_epoch * self.batch_size
        return 0 if self.replacement else self.num_data // self.line + self._lines_again

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


@dataclass(frozen=True)
class Reader:
    """How a loop reads rows that were laid out for it; compiled code is keyed on it.

    Attributes
    ----------
    batches
        Which rows.
    rows_last
        Whether the model wants its batches feature-major.
    packed
        One row's layout where rows lie packed, so that one gather fetches all of a row.
    fed
        Whether rows come step by step, read by the host (:mod:`ornstein.data.prefetch`).
    """

    batches: Batches
    rows_last: bool
    packed: Layout | None = None
    fed: bool = False

    @classmethod
    def lay_out(
        cls,
        batches: Batches,
        rows_last: bool,
        rows: PyTree,
        entropy: tuple[int, ...],
        multiplicity: Order | None = None,
    ) -> tuple["Reader", PyTree]:
        """The reader, and host rows as it wants them; weighted rows come so many times."""
        if not batches.replacement:
            shuffle = batches.shuffle(entropy)
            if shuffle is not None:  # to whole lines
                shuffle = np.pad(shuffle, (0, -len(shuffle) % batches.line))

            def lay(leaf: npt.NDArray[Any]) -> npt.NDArray[Any]:
                leaf = leaf if shuffle is None else np.take(leaf, shuffle, axis=0)
                return np.ascontiguousarray(np.moveaxis(leaf, 0, -1)) if rows_last else leaf

            return cls(batches, rows_last), jax.tree.map(lay, rows)
        leaves, treedef = jax.tree.flatten(rows)
        packed = None
        width = sum(math.prod(leaf.shape[1:]) for leaf in leaves)
        if len({leaf.dtype for leaf in leaves}) == 1 and width <= _WIDEST_PACKED:
            packed = Layout(treedef, tuple(leaf.shape[1:] for leaf in leaves))
            flat = [leaf.reshape(batches.num_data, -1) for leaf in leaves]
            if width > _PADDED:
                flat.append(np.zeros((batches.num_data, _WIDEST_PACKED - width), flat[0].dtype))
            rows = np.concatenate(flat, axis=1)
        reader = cls(batches, rows_last, packed)
        if multiplicity is None:
            return reader, rows
        entries = np.repeat(np.arange(batches.num_data, dtype=np.int32), multiplicity)
        return reader, {"rows": rows, "entries": entries, "weights": weights_of(multiplicity)}

    @property
    def random_numbers(self) -> int:
        """How many a step takes to find its batch."""
        return self.batches.batch_size if self.batches.replacement and not self.fed else 1

    def positions(self, key: Array, first: Array | int, count: int, phase: Array | int) -> Array:
        """Where the batches of ``count`` steps lie, for :meth:`take`."""
        if self.fed:
            return first + jnp.arange(count, dtype=jnp.int32)
        return self.batches.positions(key, first, count, phase)

    def arrange(self, rows: PyTree, order: Array) -> PyTree:
        """Rows in a segment's reading order, ready for :meth:`take`."""
        if self.batches.replacement:
            return rows
        if self.batches.line > 1:
            return jax.tree.map(lambda leaf: self._by_lines(leaf, order), rows)
        return jax.tree.map(lambda leaf: _gather(leaf, order, self._axis(leaf)), rows)

    def _by_lines(self, leaf: Array, order: Array) -> Array:
        """Whole lines in their order, then the rows left over, then the first rows again."""
        N, line, axis = self.batches.num_data, self.batches.line, self._axis(leaf)
        before, behind = leaf.shape[:axis], leaf.shape[axis + 1 :]
        lines = leaf.reshape(*before, -1, line, *behind)
        arranged = _gather(lines, order, axis).reshape(*before, -1, *behind)
        left = N % line
        if not left:
            return arranged
        rest = jax.lax.slice_in_dim(leaf, N - left, N, axis=axis)
        again = jax.lax.slice_in_dim(arranged, 0, self.batches.batch_size, axis=axis)
        end = jnp.concatenate([rest, again], axis=axis)
        return jax.lax.dynamic_update_slice_in_dim(arranged, end, N - left, axis=axis)

    def take(self, arranged: PyTree, position: Array) -> tuple[PyTree, Array | None]:
        """The batch at a position, and its rows' weights."""
        if self.fed:
            batch = jax.tree.map(
                lambda leaf: jax.lax.dynamic_index_in_dim(leaf, position, keepdims=False), arranged
            )
            return self._turned(batch), None
        if self.batches.scheme == "weighted":
            index = _gather(arranged["entries"], position)
            weights = _gather(arranged["weights"], index)
            return self._rows(arranged["rows"], index), weights
        if self.batches.replacement:
            return self._rows(arranged, position), None

        def window(leaf: Array) -> Array:
            return jax.lax.dynamic_slice_in_dim(
                leaf, position, self.batches.batch_size, self._axis(leaf)
            )

        return jax.tree.map(window, arranged), None

    def _rows(self, rows: PyTree, index: Array) -> PyTree:
        batch = jax.tree.map(lambda leaf: _gather(leaf, index), rows)
        return self._turned(batch if self.packed is None else self.packed.unravel(batch))

    def _turned(self, batch: PyTree) -> PyTree:
        return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, self._axis(leaf)), batch)

    def _axis(self, leaf: Array) -> int:
        return leaf.ndim - 1 if self.rows_last else 0


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
    """A batch of distinct rows, drawn afresh from all row numbers, which lie in no order.

    Of long tables those that a random stride modulo a prime meets, beyond the last row skipped:
    every pair is equally likely but for that, and the other rows are not looked at.
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


def _gather(leaf: Array, index: Array, axis: int = 0) -> Array:
    """Rows, or lines of them, by number, which are known to exist."""
    return leaf.at[(slice(None),) * axis + (index,)].get(mode="promise_in_bounds")


def _stride(entropy: tuple[int, ...], chain: int, segment: int, prime: int) -> int:
    """A random whole number from 1 to ``prime - 1``, by a hash: generators are slow to seed."""
    name = repr((entropy, chain, segment)).encode()
    digest = hashlib.blake2b(name, digest_size=16).digest()
    return 1 + int.from_bytes(digest, "little") % max(1, prime - 1)


def _walks(strides: list[int], prime: int) -> Order:
    """``i stride mod prime`` for every i, a line a stride, by blocks: sums, not divisions."""
    size, by = math.isqrt(prime) + 1, np.array(strides)[:, None]
    inner = (np.arange(size) * by % prime).astype(np.uint32)
    outer = (np.arange(-(-prime // size)) * (size * by % prime) % prime).astype(np.uint32)
    walks = (outer[:, :, None] + inner[:, None, :]).reshape(len(by), -1)[:, :prime]
    # What is below the prime wraps round to large numbers.
    return np.minimum(walks, walks - np.uint32(prime)).view(np.int32)


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
    while any(number % factor == 0 for factor in range(2, math.isqrt(number) + 1)):
        number += 1
    return number
