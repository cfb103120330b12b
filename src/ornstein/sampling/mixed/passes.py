"""All rows on the device, a group's together in chunks of one length, the last one padded.

Sums over a group are sums along a chunk, and over the few chunks that it has. Chunks lie along the
last axis, so that a processor works on many of them at once.
"""

import functools
import operator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.types import Array, Vector
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.models.random_effects.specification import Specification

_OVERHEAD = 4  # rows that a chunk costs beside its own
_UNROLLED = 32  # rows of a chunk up to which their sum is written out


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Chunks:
    """Rows as (length, chunks), columns first; weights are zero where there is no row."""

    x: Any  # (p, w, C)
    y: Any
    weight: Any
    offset: Any
    group: Any  # of a chunk; None where every group has one
    index: tuple[Any, ...]  # of the other groupings, (w, C)
    design: tuple[Any, ...]  # (q, w, C); None for intercepts

    @classmethod
    def of(cls, post: MixedPosterior, dtype: str) -> "Chunks":
        """The rows of a posterior."""
        rows = post.rows.in_memory()
        assert rows.starts is not None
        sizes = np.diff([*rows.starts, rows.size])
        length = _length(sizes)
        counts = -(-sizes // length)
        group = np.repeat(np.arange(len(sizes)), counts)
        within = np.arange(rows.size) - np.repeat(rows.starts, sizes)
        first = np.concatenate([[0], np.cumsum(counts)[:-1]])
        place = (np.repeat(first, sizes) * length) + within
        shape = len(group), length

        def put(values: Vector, fill: float = 0.0) -> Vector:
            kind = np.dtype(dtype) if values.dtype.kind == "f" else values.dtype
            found = np.full(shape[0] * length, fill, kind)
            found[place] = values
            return np.ascontiguousarray(found.reshape(shape).T)

        def index(values: Any) -> Any:
            found = np.zeros(shape[0] * length, np.int32)
            found[place] = values
            return np.ascontiguousarray(found.reshape(shape).T)

        zero = np.zeros((), dtype)
        return cls(
            x=np.stack([put(column) for column in rows.x.T]),
            y=put(rows.y, float(rows.y[0])),
            weight=put(np.ones(rows.size) if rows.weight is None else rows.weight),
            offset=zero if rows.offset is None else put(rows.offset),
            group=None if len(group) == len(sizes) else group.astype(np.int32),
            index=tuple(index(own) for own in rows.index[1:]),
            design=tuple(
                None if own is None else np.stack([put(column) for column in own.T])
                for own in rows.design
            ),
        )

    def predictor(self, spec: Specification, phi: Array, b: Array) -> Array:
        """Of every row, (w, C)."""
        return self.with_leaves(self.of_head(spec, phi), b)

    def of_head(self, spec: Specification, phi: Array) -> Array:
        """What the head and the offset add to the predictor."""
        found = jnp.einsum("p,pwc->wc", phi[: spec.fixed], self.x)
        found = found + self.offset
        for grouping, place, index, design in zip(
            spec.others, spec.places(), self.index, self.design[1:], strict=True
        ):
            effects = phi[place].reshape(grouping.width, -1)[:, index]
            found = found + (effects[0] if design is None else (effects * design).sum(axis=0))
        return found

    def with_leaves(self, found: Array, b: Array) -> Array:
        """The predictor, given what the head adds."""
        own = b if self.group is None else b[:, self.group]
        if self.design[0] is None:
            return found + own
        return found + (own[:, None] * self.design[0]).sum(axis=0)

    def gradient(self, spec: Specification, eta: Array, lam: Array) -> tuple[Array, Array]:
        """Of the sum of losses, by head and leaves."""
        residual = self.residual(spec, eta, lam)
        return self.head_sums(spec, residual), self.leaf_sums(spec, residual)

    def residual(self, spec: Specification, eta: Array, lam: Array) -> Array:
        """Of every row, weighted."""
        return self.weight * spec.family.residual(eta, self.y, spec.numbers(lam))

    def head_sums(self, spec: Specification, residual: Array) -> Array:
        """Residuals against the head's columns."""
        flat = residual.reshape(-1)
        # One by one, as a product of matrices takes far longer where one is so long and narrow.
        pieces = [jnp.stack([jnp.vdot(column.reshape(-1), flat) for column in self.x])]
        for grouping, index, design in zip(spec.others, self.index, self.design[1:], strict=True):
            columns = residual[None] if design is None else residual[None] * design
            for column in columns:
                sums = jax.ops.segment_sum(column.reshape(-1), index.reshape(-1), grouping.levels)
                pieces.append(sums)
        return jnp.concatenate(pieces)

    def leaf_sums(self, spec: Specification, residual: Array) -> Array:
        """Residuals against the leaves' columns, (q, G)."""
        design = self.design[0]
        if design is None:
            return self.by_leaf(spec, residual)[None]
        return jnp.stack([self.by_leaf(spec, residual * column) for column in design])

    def by_leaf(self, spec: Specification, values: Array) -> Array:
        """Sums over the rows of every leaf, (G,)."""
        if 2 < len(values) <= _UNROLLED:
            halves = values[::2], values[1::2]
            values = jnp.stack([functools.reduce(operator.add, half) for half in halves])
        # A product, as a sum would be made anew wherever it is used.
        sums = jnp.ones(len(values), values.dtype) @ values
        if self.group is None:
            return sums
        return jax.ops.segment_sum(sums, self.group, spec.leaf.levels, indices_are_sorted=True)

    def losses(self, spec: Specification, eta: Array, lam: Array) -> Array:
        """Summed by leaf, (G,): differences of these are precise where those of totals are not."""
        return self.by_leaf(spec, self.weight * spec.family.loss(eta, self.y, spec.numbers(lam)))


def _length(sizes: Any) -> int:
    """Rows of a chunk: what leaves the least to do, padding included."""
    largest = int(sizes.max())
    tried = [largest, *(2**k for k in range(2, 11) if 2**k < largest)]
    work = {length: (-(-sizes // length)).sum() * (length + _OVERHEAD) for length in tried}
    return min(work, key=lambda length: work[length])
