"""Tables larger than memory: NumPy files and folders of Parquet, opened and left on disk."""

import bisect
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ornstein._base.checks import nearest, shown
from ornstein._base.errors import InputError
from ornstein.data.on_disk import InFile, Stored, on_disk

_FEWEST_NEIGHBOURS = 256  # of a group of rows, which is decoded as a whole
_GROUP_SHARE = 16


def open_rows(
    path: str | Path, columns: str | int | Sequence[str] | Sequence[int] | None = None
) -> Stored:
    """Open a table that is too large for memory; its rows are read as they are needed.

    What it returns goes where an array would: into :mod:`ornstein.models` and
    :class:`ornstein.Posterior`. Planning passes over the rows in blocks; sampling reads the rows
    of its minibatches ahead of the steps that need them. Memory maps made by ``numpy.load(...,
    mmap_mode="r")`` are treated alike.

    Parameters
    ----------
    path
        A ``.npy`` file of one or two axes, a Parquet file, or a folder of Parquet files, which are
        read in the order of their names.
    columns
        Some columns, by number for a ``.npy`` file and by name for Parquet: several make a table,
        one alone makes a vector. All if not given.

    Raises
    ------
    InputError
        If there is no such table, or a column is not made of numbers.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "rows.npy"
    >>> np.save(path, np.arange(12.0).reshape(4, 3))
    >>> X, y = open_rows(path, columns=[0, 1]), open_rows(path, columns=2)
    >>> X.shape, y[1:3]
    ((4, 2), array([5., 8.]))
    """
    place = Path(path)
    if not place.exists():
        raise InputError(f"{place} does not exist.")
    if place.is_dir() or place.suffix == ".parquet":
        return _Parquet(place, columns)
    if place.suffix != ".npy":
        raise InputError(
            f"{place} is neither a .npy file nor Parquet; of other tables, write one of these."
        )
    return _npy(place, columns)


def _npy(path: Path, columns: Any) -> Stored:
    try:
        found = on_disk(np.load(path, mmap_mode="r", allow_pickle=False))
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{path} can not be opened: {error}") from error
    if not isinstance(found, InFile):
        raise InputError(
            f"{path} must hold rows one after the other along its first axis, one or two axes in "
            f"all; found shape {found.shape}{'' if found.flags.c_contiguous else ', by columns'}."
        )
    if found.dtype.kind not in "fiub":
        raise InputError(f"{path} must hold numbers, found dtype {found.dtype}.")
    if columns is None:
        return found
    if found.ndim != 2:
        raise InputError(f"{path} has one axis and no columns; leave columns out.")
    width = found.shape[1]
    numbers = np.asarray(columns)
    if numbers.dtype.kind not in "iu" or numbers.ndim > 1 or numbers.size == 0:
        raise InputError(f"columns must be numbers from 0 to {width - 1}, found {shown(columns)}.")
    if numbers.min() < 0 or numbers.max() >= width:
        raise InputError(
            f"columns must be from 0 to {width - 1} in {path}, found {numbers.tolist()}."
        )
    chosen = int(numbers) if numbers.ndim == 0 else numbers.astype(np.int64)
    return InFile(*found._file, chosen)


class _Parquet(Stored):
    """Columns of a Parquet file or of all in a folder, decoded by groups of rows."""

    def __init__(self, path: Path, columns: Any) -> None:
        files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not files:
            raise InputError(f"{path} holds no .parquet files.")
        self._files = [_opened(file) for file in files]
        schema = self._files[0].schema_arrow
        for name, file in zip(files, self._files, strict=True):
            if not file.schema_arrow.equals(schema):
                raise InputError(f"{name} has other columns than {files[0]}.")
        known = list(schema.names)
        names = known if columns is None else [columns] if isinstance(columns, str) else columns
        self._names = _checked_names(path, names, known)
        self.dtype = _common_dtype(path, schema, self._names)
        groups = [
            (file, number, file.metadata.row_group(number).num_rows)
            for file in self._files
            for number in range(file.num_row_groups)
        ]
        self._groups = [(file, number) for file, number, rows in groups if rows]
        self._ends = np.cumsum([rows for *_, rows in groups if rows]).tolist()
        rows = self._ends[-1] if self._ends else 0
        one = isinstance(columns, str)
        self.shape = (rows,) if one else (rows, len(self._names))
        self.source = str(path)
        if not one:
            self.columns = tuple(self._names)
        smallest = min((rows for *_, rows in groups if rows), default=1)
        self.neighbours = max(min(_FEWEST_NEIGHBOURS, smallest), smallest // _GROUP_SHARE)
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
        """A group of rows, decoded; the last one is kept, as neighbours follow."""
        with self._lock:
            if self._last is None or self._last[0] != number:
                file, group = self._groups[number]
                table = file.read_row_group(group, columns=self._names)
                arrays = [_numbers(table.column(name)) for name in self._names]
                flat = arrays[0] if len(self.shape) == 1 else np.column_stack(arrays)
                self._last = number, flat.astype(self.dtype, copy=False)
            return self._last[1]

    def astype(self, dtype: npt.DTypeLike) -> Stored:
        """The same rows, converted as they are read."""
        converted = super().astype(dtype)
        assert isinstance(converted, _Parquet)
        converted._last = None
        return converted


def _opened(file: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(file, memory_map=False)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{file} can not be read as Parquet: {error}") from error


def _checked_names(path: Path, names: Any, known: list[str]) -> list[str]:
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise InputError(f"columns of {path} go by name, found {shown(names)}.")
    if not names:
        raise InputError("columns is empty; name at least one.")
    for name in names:
        if name not in known:
            raise InputError(f"{path} has no column {name!r}.{nearest(name, known)}")
    return list(names)


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
    """Missing values as NaN, which every model refuses."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return np.asarray(column.to_numpy())
