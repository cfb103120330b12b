"""How a compiled loop reads the rows of its minibatches."""

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein._base.trees import Layout
from ornstein._base.types import Array, PyTree
from ornstein.data.batches import Batches, Order, weights_of

_WIDEST_PACKED = 80  # numbers in a row; beyond, taking packed rows apart costs more than it saves
_PADDED = 48  # beyond these, rows are padded to the widest: copied whole, they come thrice as fast


@dataclass(frozen=True)
class Reader:
    """How a loop reads rows that were laid out for it; compiled code is keyed on it."""

    batches: Batches
    rows_last: bool
    """Whether the model wants its batches feature-major."""
    packed: Layout | None = None
    """One row's layout where rows lie packed, so that one gather fetches all of a row."""
    prefetched: bool = False
    """Whether rows come step by step, read by the host (:mod:`ornstein.data.prefetch`)."""

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
            if shuffle is not None:  # to whole blocks
                shuffle = np.pad(shuffle, (0, -len(shuffle) % batches.block))

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
        return self.batches.batch_size if self.batches.replacement and not self.prefetched else 1

    def positions(self, key: Array, first: Array | int, count: int, phase: Array | int) -> Array:
        """Where the batches of ``count`` steps lie, for :meth:`take`."""
        if self.prefetched:
            return first + jnp.arange(count, dtype=jnp.int32)
        return self.batches.positions(key, first, count, phase)

    def arrange(self, rows: PyTree, permutation: Array) -> PyTree:
        """Rows in the order of a segment's permutation, ready for :meth:`take`."""
        if self.batches.replacement:
            return rows
        if self.batches.block > 1:
            return jax.tree.map(lambda leaf: self._by_blocks(leaf, permutation), rows)
        return jax.tree.map(lambda leaf: _gather(leaf, permutation, self._axis(leaf)), rows)

    def _by_blocks(self, leaf: Array, permutation: Array) -> Array:
        """Whole blocks as permuted, then the rows left over, then the first rows again."""
        N, block, axis = self.batches.num_data, self.batches.block, self._axis(leaf)
        before, behind = leaf.shape[:axis], leaf.shape[axis + 1 :]
        blocks = leaf.reshape(*before, -1, block, *behind)
        arranged = _gather(blocks, permutation, axis).reshape(*before, -1, *behind)
        left = N % block
        if not left:
            return arranged
        rest = jax.lax.slice_in_dim(leaf, N - left, N, axis=axis)
        again = jax.lax.slice_in_dim(arranged, 0, self.batches.batch_size, axis=axis)
        end = jnp.concatenate([rest, again], axis=axis)
        return jax.lax.dynamic_update_slice_in_dim(arranged, end, N - left, axis=axis)

    def take(self, arranged: PyTree, position: Array) -> tuple[PyTree, Array | None]:
        """The batch at a position, and its rows' weights."""
        if self.prefetched:
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


def _gather(leaf: Array, index: Array, axis: int = 0) -> Array:
    """Rows, or blocks of them, by number; all of them exist."""
    return leaf.at[(slice(None),) * axis + (index,)].get(mode="promise_in_bounds")
