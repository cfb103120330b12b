"""Rows of a mixed model: all in memory, or on disk and read by blocks or by number."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.data.on_disk import RowsOnDisk, ahead
from ornstein.data.passes import mean_and_sd

_BLOCK_NUMBERS = 2**20  # of a block of rows: 8 MiB, near a core
_DENSE_SHARE = 64  # numbers of the Hessian per row, at most, that a block adds to
_BESIDE = 8  # numbers that a pass makes of a row, beside its columns


@dataclass(frozen=True, eq=False)
class MixedRows:
    """Rows in memory. Indices and designs have one entry per grouping.

    All rows are in the order of the leaves; a block of them may be in any.
    """

    x: Vector  # (N, p), a column of ones last where there is an intercept
    y: npt.NDArray[Any]
    index: tuple[npt.NDArray[np.integer[Any]], ...]
    design: tuple[Vector | None, ...]  # (N, q); None for intercepts only
    starts: npt.NDArray[np.int64] | None = None  # of every leaf's rows, where they are in order
    weight: Vector | None = None
    offset: Vector | None = None
    order: npt.NDArray[np.intp] | None = None  # of every row, its number as it was given

    @property
    def size(self) -> int:
        """N."""
        return len(self.y)

    @property
    def on_disk(self) -> bool:
        """Whether rows stay on disk."""
        return False

    @cached_property
    def total_weight(self) -> float:
        """N, or the sum of the weights."""
        return float(self.size if self.weight is None else self.weight.sum())

    @property
    def target_sd(self) -> float:
        """Of the targets."""
        return float(np.std(self.y))

    def design_products(self, number: int) -> Vector:
        """Mean products of a grouping's columns, (q, q)."""
        design = self.design[number]
        return np.ones((1, 1)) if design is None else design.T @ design / self.size

    def blocks(self) -> Iterator["MixedRows"]:
        """All rows, in one block."""
        yield self

    def in_memory(self) -> "MixedRows":
        """These."""
        return self

    def as_given(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Of all rows, in the order in which these were given."""
        if self.order is None:
            return values
        found = np.empty_like(values)
        found[self.order] = values
        return found

    def taken(self, rows: npt.NDArray[np.intp] | slice) -> "MixedRows":
        """Some of the rows, in the order asked for."""

        def part(values: Any) -> Any:
            return None if values is None else values[rows]

        return MixedRows(
            x=self.x[rows],
            y=self.y[rows],
            index=tuple(own[rows] for own in self.index),
            design=tuple(part(own) for own in self.design),
            weight=part(self.weight),
            offset=part(self.offset),
        )

    def by_leaf(self, values: Vector, leaves: int) -> Vector:
        """Sums over the rows of every leaf."""
        if self.starts is not None:
            return np.add.reduceat(values, self.starts)
        return np.asarray(np.bincount(self.index[0], values, leaves), float)


@dataclass(frozen=True, eq=False)
class MixedRowsOnDisk:
    """Rows that stay on disk, in the order in which they are stored.

    Some of the columns may be in memory, read in the same way (:func:`ornstein.data.derived.held`).
    """

    x: RowsOnDisk
    y: RowsOnDisk
    index: tuple[RowsOnDisk, ...]
    slopes: tuple[tuple[int, ...], ...]  # columns of x that have effects, by grouping
    ones: tuple[bool, ...]  # whether a grouping has an intercept
    by_level: tuple[Vector | None, ...]  # a fixed factor's column, by level
    weight: RowsOnDisk | None
    offset: RowsOnDisk | None
    block_rows: int

    @staticmethod
    def rows_of_a_block(columns: int, hessian: int) -> int:
        """So many that they stay near a core, and that adding up Hessians takes little beside."""
        return max(1024, _BLOCK_NUMBERS // (columns + _BESIDE), hessian // _DENSE_SHARE)

    @property
    def size(self) -> int:
        """N."""
        return len(self.y)

    @property
    def on_disk(self) -> bool:
        """Whether rows stay on disk."""
        return True

    @cached_property
    def total_weight(self) -> float:
        """N, or the sum of the weights."""
        if self.weight is None:
            return float(self.size)
        return float(mean_and_sd(self.weight)[0]) * self.size

    @cached_property
    def target_sd(self) -> float:
        """Of the targets."""
        return float(mean_and_sd(self.y)[1])

    def design_products(self, number: int) -> Vector:
        """Mean products of a grouping's columns, (q, q)."""
        return self._products[number]

    @cached_property
    def _products(self) -> list[Vector]:
        found: list[Vector] = [
            np.zeros(2 * [len(own) + ones]) if own else np.ones((1, 1))
            for own, ones in zip(self.slopes, self.ones, strict=True)
        ]
        if not any(self.slopes):
            return found
        for x in ahead(self.x[at] for at in self._slices()):
            for total, own, ones in zip(found, self.slopes, self.ones, strict=True):
                design = _design(x, own, ones)
                total += 0.0 if design is None else design.T @ design / self.size
        return found

    @property
    def bytes_in_memory(self) -> int:
        """What a model of the same rows in memory would take."""
        columns = self.x.shape[1] + sum(map(len, self.slopes)) + _BESIDE
        return 8 * columns * self.size

    def in_memory(self) -> MixedRows:
        """Refused."""
        raise InputError(f"this takes all rows together, and they stay on disk. {self.remedy}")

    @property
    def remedy(self) -> str:
        """What to do where all rows are needed."""
        size = self.bytes_in_memory / 2**30
        return f"Read them with rows[:] if about {size:.2g} GiB fit in memory."

    def blocks(self) -> Iterator[MixedRows]:
        """Consecutive rows, the next ones read while some are in use."""
        return ahead(self.taken(at) for at in self._slices())

    def _slices(self) -> list[slice]:
        step = self.block_rows
        return [slice(a, min(a + step, self.size)) for a in range(0, self.size, step)]

    def taken(self, rows: npt.NDArray[np.intp] | slice) -> MixedRows:
        """Some of the rows, in the order asked for."""

        def part(values: RowsOnDisk | None) -> Any:
            return None if values is None else values[rows]

        x = np.asfortranarray(self.x[rows], float)
        index = tuple(own[rows].astype(np.intp) for own in self.index)
        return MixedRows(
            x=x,
            y=self.y[rows],
            index=index,
            design=tuple(
                _design(x, own, ones) if values is None else values[at][:, None]
                for own, ones, values, at in zip(
                    self.slopes, self.ones, self.by_level, index, strict=True
                )
            ),
            weight=part(self.weight),
            offset=part(self.offset),
        )


AnyMixedRows: TypeAlias = MixedRows | MixedRowsOnDisk


def _design(x: Vector, slopes: tuple[int, ...], ones: bool) -> Vector | None:
    """A grouping's columns; None for an intercept only."""
    if not slopes:
        return None
    own = x[:, list(slopes)]
    return np.concatenate([np.ones((len(x), 1)), own], axis=1) if ones else own
