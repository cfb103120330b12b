"""Rows that the host reads ahead of the steps that need them: from disk, and for many devices.

Which rows depends on the key, the chain and the segment alone. ``independent`` rows are drawn one
by one. On disks adjacent rows come nearly for free, so ``blocks`` are read at random places, as
many as a segment needs, and their rows shuffled before they are dealt out to its batches: no row is
more likely than another, each is used once, and where adjacent rows are no more alike than others
the noise is that of independent rows.

Over many devices the table is cut into *shards* of adjacent rows and every batch takes the same
number of rows from each: whoever holds a shard reads no other, and batches do not depend on how
many devices share them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
import numpy.typing as npt

from ornstein._base.trees import num_rows
from ornstein._base.types import PyTree
from ornstein.data.batches import Batches, generator
from ornstein.data.on_disk import RowsOnDisk

SCHEMES = ("independent", "blocks")
_MOST_SHARDS = 64
_SHARD_ROWS = 500  # at least


@dataclass(frozen=True)
class Prefetch:
    """Reads the rows of a segment of one chain ahead of its steps."""

    batches: Batches
    data: PyTree
    """All rows, in memory or on disk."""
    fold: Callable[[PyTree], PyTree]
    """What the model makes of rows for its loop."""
    entropy: tuple[int, ...]
    """The run's key as plain numbers."""
    shards: int = 1

    def numbers(self, chain: int, segment: int, steps: int, shard: int) -> npt.NDArray[np.int64]:
        """Numbers of the rows a shard gives to each step, (steps, S / shards)."""
        rng = generator(self.entropy, chain, segment, shard)
        N, size = self.batches.num_data, self.batches.batch_size // self.shards
        low, high = shard * N // self.shards, (shard + 1) * N // self.shards
        if self.batches.scheme == "independent":
            return rng.integers(low, high, (steps, size))
        block, wanted = rows_per_block(self.data), steps * size
        starts = rng.integers(0, high - low, -(-wanted // block))
        # Round the shard's end, so that no row is more likely than another.
        rows = low + (starts[:, None] + np.arange(block)).reshape(-1) % (high - low)
        return rng.permutation(rows)[:wanted].reshape(steps, size)

    def rows(self, chain: int, segment: int, steps: int, shards: range | None = None) -> PyTree:
        """Rows for every step of a segment from some of the shards, (steps, rows, ...)."""
        chosen = range(self.shards) if shards is None else shards
        numbers = [self.numbers(chain, segment, steps, shard) for shard in chosen]
        index = np.concatenate(numbers, axis=1)
        rows = self.fold(jax.tree.map(lambda leaf: leaf[index.reshape(-1)], self.data))
        return jax.tree.map(lambda leaf: leaf.reshape(*index.shape, *leaf.shape[1:]), rows)

    @property
    def step_bytes(self) -> int:
        """Memory that one step's rows take."""
        row = self.fold(jax.tree.map(lambda leaf: leaf[:1], self.data))
        return self.batches.batch_size * sum(leaf.nbytes for leaf in jax.tree.leaves(row))


def shards_of(batches: Batches) -> int:
    """Shards that batches are taken from, whoever reads them: a power of two that divides a batch.

    Of V shards in random order a batch has ``1 - V/N`` of the noise of independent rows.
    """
    few = max(1, batches.num_data // _SHARD_ROWS)
    divides = batches.batch_size & -batches.batch_size
    return min(divides, _MOST_SHARDS, 1 << (few.bit_length() - 1))


def rows_per_block(data: PyTree) -> int:
    """Rows to read together, 1 in memory."""
    blocks = [leaf.block for leaf in jax.tree.leaves(data) if isinstance(leaf, RowsOnDisk)]
    return min(max(1, num_rows(data) // 16), *blocks) if blocks else 1
