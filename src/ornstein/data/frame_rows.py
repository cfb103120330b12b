"""Rows of a data frame that become an array by blocks, as they are needed."""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ornstein._base.errors import InputError
from ornstein.data.frames import Frame, numbers, require_numbers, series_of
from ornstein.data.on_disk import PAGE, RowsOnDisk, chosen_names

if TYPE_CHECKING:
    from ornstein.data.frames import Series


class FrameRows(RowsOnDisk):
    """Columns of a data frame: in memory, or of Arrow files that are mapped to it."""

    def __init__(self, frame: Frame, columns: Any) -> None:
        kind = type(frame.native)
        self.source = f"the {kind.__module__.split('.')[0]} {kind.__name__}"
        one = isinstance(columns, str)
        by_name = dict(zip(frame.names, frame.columns, strict=True))
        if len(by_name) < len(frame.names):
            raise InputError(f"{self.source} has columns of the same name. Rename all but one.")
        names = chosen_names(self.source, columns, list(by_name))
        self._columns = [_Column(name, by_name[name]) for name in names]
        rows = len(self._columns[0].series)
        self.shape = (rows,) if one else (rows, len(names))
        if not one:
            self.columns = tuple(names)
        self.dtype = np.result_type(*(column.dtype for column in self._columns))
        self.block = PAGE // self.dtype.itemsize  # rows of a column, which lie side by side

    def _read(self, start: int, stop: int) -> npt.NDArray[Any]:
        return self._joined(stop - start, [column.read(start, stop) for column in self._columns])

    def _take(self, index: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        return self._joined(len(index), [column.take(index) for column in self._columns])

    def _joined(self, rows: int, parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        if self.ndim == 1:
            return parts[0]
        found = np.empty((rows, len(parts)), self.dtype)
        for j, part in enumerate(parts):
            found[:, j] = part
        return found


class _Column:
    """A column of numbers, a part of which is read at a time."""

    def __init__(self, name: Any, series: "Series") -> None:
        self.name, self.series = f"column {name!r}", series
        require_numbers(self.name, series)
        # Arrow takes rows from several chunks by joining them all: take from each.
        chunks = getattr(series.to_native(), "chunks", None)
        self._pieces = [series] if chunks is None else _series_of(chunks)
        self._ends = np.cumsum([len(piece) for piece in self._pieces])
        dtype = numbers(self.name, series[:0]).dtype
        if dtype.kind == "b":
            dtype = np.dtype(np.int8)
        wide = dtype.kind in "iu" and dtype.itemsize == 8  # of which JAX might keep 32 bits
        gaps = dtype.kind in "iub" and series.null_count() > 0
        self.dtype = np.dtype(np.float64) if wide or gaps else dtype

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Rows from one to before another."""
        return self._numbers(self.series[start:stop])

    def take(self, index: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Rows by number, in ascending order."""
        found = np.empty(len(index), self.dtype)
        bounds = [0, *np.searchsorted(index, self._ends).tolist()]
        first = 0
        for piece, (low, high) in zip(self._pieces, pairwise(bounds), strict=True):
            if low < high:
                found[low:high] = self._numbers(piece[index[low:high] - first])
            first += len(piece)
        return found

    def _numbers(self, part: "Series") -> npt.NDArray[Any]:
        return numbers(self.name, part).astype(self.dtype, copy=False)


def _series_of(chunks: list[Any]) -> "list[Series]":
    import pyarrow as pa

    return [series_of(pa.chunked_array([chunk])) for chunk in chunks if len(chunk)]
