"""Rows of Parquet files that stay on disk; imported when one is opened, as pyarrow is large."""

import bisect
import threading
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ornstein._base.errors import InputError
from ornstein.data.on_disk import RowsOnDisk, chosen_names

_SMALLEST_BLOCK = 256  # rows of a row group, which is decoded as a whole
_GROUP_SHARE = 16


class Parquet(RowsOnDisk):
    """Columns of a Parquet file or of all in a folder, decoded by groups of rows."""

    def __init__(self, path: Path, columns: Any) -> None:
        files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not files:
            raise InputError(f"{path} has no .parquet files.")
        opened = [_opened(file) for file in files]
        schema = opened[0].schema_arrow
        for name, file in zip(files, opened, strict=True):
            if not file.schema_arrow.equals(schema):
                raise InputError(f"{name} has other columns than {files[0]}.")
        one = isinstance(columns, str)
        self._names = chosen_names(str(path), columns, schema.names)
        self.dtype = _common_dtype(path, schema, self._names)
        groups = {
            (file, number): file.metadata.row_group(number).num_rows
            for file in opened
            for number in range(file.num_row_groups)
        }
        self._groups = [group for group, rows in groups.items() if rows]
        lengths = [groups[group] for group in self._groups]
        self._ends = np.cumsum(lengths).tolist()
        self.shape = (sum(lengths),) if one else (sum(lengths), len(self._names))
        self.source = str(path)
        if not one:
            self.columns = tuple(self._names)
        smallest = min(lengths, default=1)
        self.block = max(min(_SMALLEST_BLOCK, smallest), smallest // _GROUP_SHARE)
        self._last: tuple[int, npt.NDArray[Any]] | None = None
        self._lock = threading.Lock()

    def _read(self, start: int, stop: int) -> npt.NDArray[Any]:
        parts = [np.empty((0, *self.shape[1:]), self.dtype)]
        while start < stop:
            number = bisect.bisect_right(self._ends, start)
            first = self._ends[number - 1] if number else 0
            part = self._group(number)[start - first : stop - first]
            parts.append(part)
            start += len(part)
        return parts[1] if len(parts) == 2 else np.concatenate(parts)

    def _take(self, index: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        numbers = np.searchsorted(self._ends, index, side="right")
        found = np.empty((len(index), *self.shape[1:]), self.dtype)
        for number in np.unique(numbers):
            first = self._ends[number - 1] if number else 0
            here = numbers == number
            found[here] = self._group(int(number))[index[here] - first]
        return found

    def _group(self, number: int) -> npt.NDArray[Any]:
        """A group of rows, decoded; the last one is kept, as adjacent rows follow."""
        with self._lock:
            if self._last is None or self._last[0] != number:
                file, group = self._groups[number]
                table = file.read_row_group(group, columns=self._names)
                arrays = [_numbers(table.column(name)) for name in self._names]
                self._last = number, arrays[0] if self.ndim == 1 else np.column_stack(arrays)
            return self._last[1]


def _opened(file: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(file, memory_map=False)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{file} cannot be read as Parquet: {error}") from error


def _common_dtype(path: Path, schema: Any, names: list[str]) -> np.dtype[Any]:
    """A type that holds all columns; whole numbers that may be missing become floats."""
    dtypes = []
    for name in names:
        kind = schema.field(name).type
        tests = pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean
        if not any(test(kind) for test in tests):
            raise InputError(
                f"{path}: column {name!r} must hold numbers, found {kind}. Name others, "
                "or encode it as numbers first."
            )
        dtypes.append(np.dtype(np.int8 if pa.types.is_boolean(kind) else kind.to_pandas_dtype()))
    common = np.result_type(*dtypes)
    nullable = any(schema.field(name).nullable for name in names)
    if common.kind in "iu" and nullable:
        return np.dtype(np.float32 if common.itemsize <= 2 else np.float64)
    return common


def _numbers(column: Any) -> npt.NDArray[Any]:
    """Missing values as NaN, which every model rejects."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return np.asarray(column.to_numpy())
