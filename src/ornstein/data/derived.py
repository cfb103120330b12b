"""Rows that are computed from others as they are read: a share of two columns, a column of ones."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ornstein.data.on_disk import AnyRows, RowsOnDisk


class Derived(RowsOnDisk):
    """What a function makes of the same rows of some tables or vectors.

    These may be in memory: only the rows that are read are computed.

    Examples
    --------
    >>> share = Derived(lambda won, of: won / of, np.array([1, 3]), np.array([2, 4]))
    >>> share[1:]
    array([0.75])
    """

    def __init__(
        self,
        function: Callable[..., npt.NDArray[Any]],
        *parts: AnyRows,
        dtype: npt.DTypeLike = float,
    ) -> None:
        self._function, self._parts = function, parts
        self.dtype = np.dtype(dtype)
        on_disk = [part for part in parts if isinstance(part, RowsOnDisk)]
        self.source = on_disk[0].source if on_disk else "an array in memory"
        self.block = min((part.block for part in on_disk), default=1)
        self.shape = (len(parts[0]), *self._read(0, 0).shape[1:])

    def _read(self, start: int, stop: int) -> npt.NDArray[Any]:
        return self._function(*(part[start:stop] for part in self._parts))

    def _take(self, index: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        return self._function(*(part[index] for part in self._parts))


def held(rows: AnyRows) -> RowsOnDisk:
    """Rows in memory, to be used beside others that are on disk; those as they are."""
    if isinstance(rows, RowsOnDisk):
        return rows
    return Derived(lambda part: part, rows, dtype=rows.dtype)
