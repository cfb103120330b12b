"""Passes over all rows in blocks of bounded memory, shared by the processes of a run."""

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import jax
import numpy as np

from ornstein._base import multihost
from ornstein._base.trees import num_rows
from ornstein._base.types import PyTree, Vector
from ornstein.data.on_disk import AnyRows, RowsOnDisk, ahead
from ornstein.storage.records import digest

_FINGERPRINT_ROWS = 4096
_MOMENT_NUMBERS = 2**20  # read at once for means and standard deviations


def fingerprint(tree: PyTree) -> str:
    """A short text that tells arrays apart, from their shapes and a few thousand rows."""
    contents = []
    for leaf in jax.tree.leaves(tree):
        array = leaf if isinstance(leaf, RowsOnDisk) else np.atleast_1d(np.asarray(leaf))
        rows = array[:: max(1, len(array) // _FINGERPRINT_ROWS)]
        contents += [repr((array.shape, array.dtype.str)).encode(), rows.tobytes()]
    return digest(*contents)


def blocks(data: PyTree, block_rows: int, shared: bool = False) -> Iterator[tuple[PyTree, Vector]]:
    """Consecutive blocks of equal length with the rows' weights, for bounded-memory passes.

    The last block is filled up with copies of its first row at weight zero, so that compiled code
    sees one shape only. Those ``shared`` among the processes of a run are this one's: at least one,
    if of weight zero.
    """
    total = num_rows(data)
    sharing = multihost.count() if shared else 1
    block_rows = min(block_rows, -(-total // sharing))
    starts = range(0, total, block_rows)
    mine = multihost.share(len(starts)) if shared else range(len(starts))
    made = (_block(data, starts[i], block_rows, total) for i in mine)
    if not mine:
        made = ((rows, 0 * ones) for rows, ones in [_block(data, 0, block_rows, total)])
    on_disk = any(isinstance(leaf, RowsOnDisk) for leaf in jax.tree.leaves(data))
    return ahead(made) if on_disk else made


def _block(data: PyTree, start: int, block_rows: int, total: int) -> tuple[PyTree, Vector]:
    missing = max(0, start + block_rows - total)
    weights = np.ones(block_rows)
    weights[block_rows - missing :] = 0.0

    def block(leaf: Any) -> Any:
        part = leaf[start : start + block_rows]
        return np.concatenate([part, np.repeat(part[:1], missing, axis=0)]) if missing else part

    return jax.tree.map(block, data), weights


def sum_over_blocks(
    data: PyTree, block_rows: int, function: Callable[[PyTree, Vector], PyTree]
) -> PyTree:
    """Sum over blocks of what a function makes of their rows and weights, on the host.

    The processes of a run share the blocks.
    """
    parts = (
        jax.tree.map(np.asarray, function(rows, weights))
        for rows, weights in blocks(data, block_rows, shared=True)
    )
    return multihost.total(reduce(lambda total, part: jax.tree.map(np.add, total, part), parts))


def mean_and_sd(rows: AnyRows) -> tuple[Vector, Vector]:
    """Of every column."""
    if not isinstance(rows, RowsOnDisk):
        return np.mean(rows, axis=0), np.std(rows, axis=0)
    step = max(1, _MOMENT_NUMBERS // max(1, int(np.prod(rows.shape[1:]))))
    count, mean, squares = 0, np.zeros(rows.shape[1:]), np.zeros(rows.shape[1:])
    for part in ahead(rows[start : start + step] for start in range(0, len(rows), step)):
        block = np.asarray(part, float)
        own, total = block.mean(axis=0), count + len(block)
        squares += ((block - own) ** 2).sum(axis=0)
        squares += (own - mean) ** 2 * (count * len(block) / total)
        mean += (own - mean) * (len(block) / total)
        count = total
    return mean, np.sqrt(squares / count)
