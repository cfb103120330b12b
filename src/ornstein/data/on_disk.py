"""Rows that stay on disk: NumPy files, and what files of any kind share.

They are read by blocks or by number, never all at once.
"""

import mmap
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ornstein._base import multihost
from ornstein._base.checks import nearest, shown
from ornstein._base.errors import InputError
from ornstein.storage.records import pack, unpack

T = TypeVar("T")

_SCAN_NUMBERS = 2**22  # read at once where every row is visited
_TAKEN = 2**14  # rows read by number at once
PAGE = 2**12  # bytes
_BLOCK_BYTES = 2**14  # of adjacent rows, read from a disk in hardly more time than one row
_END = object()


class Scan(NamedTuple):
    """What all rows are like, by column: count of non-finite numbers, smallest and greatest.

    ``first_bad`` is the first row with a non-finite number, ``whole`` whether all are whole.
    """

    bad: npt.NDArray[np.int64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    whole: bool
    first_bad: int | None


class RowsOnDisk(ABC):
    """Numbers with rows along the first axis, one or two-dimensional, that stay where they are.

    Slices and row numbers, ``rows[10:20]`` or ``rows[[3, 1, 4]]``, are read when asked for, and
    come as arrays.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    source: str
    """Where they are, for messages."""
    block: int
    """Rows that are read together in hardly more time than one."""

    @abstractmethod
    def _read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Rows from ``start`` to before ``stop``, which exist."""

    @abstractmethod
    def _take(self, index: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Rows by number, in ascending order."""

    @property
    def ndim(self) -> int:
        """Axes."""
        return len(self.shape)

    def __len__(self) -> int:
        """Rows."""
        return self.shape[0]

    def __getitem__(self, rows: Any) -> npt.NDArray[Any]:
        """Rows by number, or a range of them."""
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if step == 1:
                return self._read(start, max(start, stop)).astype(self.dtype, copy=False)
            rows = np.arange(start, stop, step)
        index = np.asarray(rows)
        if index.dtype == bool:
            index = np.flatnonzero(index)
        if index.size and not (index.min() >= 0 and index.max() < len(self)):
            raise IndexError(f"{self.source} has rows 0 to {len(self) - 1}")
        flat = index.reshape(-1).astype(np.int64)
        order = np.argsort(flat, kind="stable")
        found = np.empty((len(flat), *self.shape[1:]), self.dtype)
        for first in range(0, len(flat), _TAKEN):
            some = order[first : first + _TAKEN]
            found[some] = self._take(flat[some])
        return found.reshape(index.shape + self.shape[1:])

    def __array__(self, *_: Any, **__: Any) -> npt.NDArray[Any]:
        """Refused: it would not fit memory."""
        raise TypeError(
            f"{self.source} stays where it is and is read by blocks of rows, but this needs all of "
            "it as an array. If that fits memory, use rows[:]."
        )

    def astype(self, dtype: npt.DTypeLike) -> "RowsOnDisk":
        """The same rows, converted as they are read."""
        converted = copy(self)
        converted.dtype = np.dtype(dtype)
        return converted

    @cached_property
    def scan(self) -> Scan:
        """What all rows are like, by one pass over them."""
        width = int(np.prod(self.shape[1:]))
        step = max(1, min(_SCAN_NUMBERS // max(1, width), -(-len(self) // multihost.count())))
        first_bad, whole = None, True
        bad = np.zeros(width, np.int64)
        low, high = np.full(width, np.inf), np.full(width, -np.inf)
        pieces = range(0, len(self), step)
        starts = [pieces[i] for i in multihost.share(len(pieces))]
        for start, part in zip(starts, ahead(self[s : s + step] for s in starts), strict=True):
            block = part.reshape(len(part), width)
            low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
            if self.dtype.kind != "f":
                continue
            finite = np.isfinite(block)
            if not finite.all():
                bad += (~finite).sum(axis=0)
                if first_bad is None:
                    first_bad = start + int(np.argmax(~finite.all(axis=1)))
            whole = whole and bool((block == np.rint(block)).all())
        return _joined(Scan(bad, low, high, whole, first_bad))

    def __repr__(self) -> str:
        """One line."""
        return f"RowsOnDisk({self.source}, shape={self.shape}, dtype={self.dtype})"


def _joined(scan: Scan) -> Scan:
    """What all processes of a run found, each in its share of the rows."""
    seen = map(unpack, multihost.gathered(pack(list(scan))))
    bad, low, high, whole, first = zip(*seen, strict=True)
    firsts = [row for row in first if row is not None]
    return Scan(
        np.sum(bad, axis=0, dtype=np.int64),
        np.min(low, axis=0),
        np.max(high, axis=0),
        all(whole),
        min(firsts) if firsts else None,
    )


class InFile(RowsOnDisk):
    """Rows that lie one after the other in a file, some columns of them or all.

    They are read, not mapped: mapped pages, and those around them, count as memory in use until
    the system wants them back.
    """

    def __init__(
        self,
        path: Path,
        offset: int,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        columns: npt.NDArray[np.int64] | int | None = None,
    ) -> None:
        self._file = path, offset, shape, dtype
        self._columns = columns
        self.shape, self.dtype, self.source = shape, dtype, str(path)
        if columns is not None:
            self.shape = (shape[0],) if np.ndim(columns) == 0 else (shape[0], np.size(columns))
        width = int(np.prod(shape[1:])) * dtype.itemsize
        self.block = max(1, _BLOCK_BYTES // max(1, width))

    def _read(self, start: int, stop: int) -> npt.NDArray[Any]:
        path, offset, shape, dtype = self._file
        width = int(np.prod(shape[1:]))
        at = offset + start * width * dtype.itemsize
        found = np.fromfile(path, dtype, (stop - start) * width, offset=at)
        if found.size != (stop - start) * width:
            raise OSError(f"{path} is shorter than it was when it was opened")
        return self._chosen(found.reshape(stop - start, *shape[1:]))

    def _take(self, index: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        path, offset, shape, dtype = self._file
        width = int(np.prod(shape[1:])) * dtype.itemsize
        # Rows that a page holds together are read at once, and so is what lies between them.
        breaks = np.flatnonzero(np.diff(index) > max(1, PAGE // max(1, width))) + 1
        firsts, lasts = index[np.r_[0, breaks]], index[np.r_[breaks - 1, len(index) - 1]]
        lengths = lasts - firsts + 1
        places = np.cumsum(lengths) - lengths
        found = np.empty((int(lengths.sum()), *shape[1:]), dtype)
        content = found.reshape(-1).view(np.uint8).data
        ends = ((places + lengths) * width).tolist()
        offsets = (offset + firsts * width).tolist()
        with path.open("rb", buffering=0) as file:
            number, read, begin = file.fileno(), 0, 0
            for end, at in zip(ends, offsets, strict=True):
                read += os.preadv(number, [content[begin:end]], at)
                begin = end
        if read != len(content):
            raise OSError(f"{path} is shorter than it was when it was opened")
        sizes = np.diff(np.r_[0, breaks, len(index)])
        return self._chosen(found[index - np.repeat(firsts - places, sizes)])

    def _chosen(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return rows if self._columns is None else rows[:, self._columns]


AnyRows: TypeAlias = npt.NDArray[Any] | RowsOnDisk
"""Rows in memory or on disk."""


def open_rows(
    source: Any, columns: str | int | Sequence[str] | Sequence[int] | None = None
) -> RowsOnDisk:
    """Open a table that is too large for memory; its rows are read as they are needed.

    What it returns goes where an array would: into :mod:`ornstein.models` and
    :class:`ornstein.Posterior`. Planning passes over the rows in blocks; sampling reads the rows
    of its minibatches ahead of the steps that need them. Memory maps made by ``numpy.load(...,
    mmap_mode="r")`` are treated alike.

    Parameters
    ----------
    source
        A ``.npy`` file of one or two axes, a Parquet file, or a folder of Parquet files, which are
        read in the order of their names. Or a data frame, such as an Arrow table that is mapped
        to memory or a polars DataFrame: it stays as it is, and no array is made of all of it.
    columns
        Some columns, by number for a ``.npy`` file and by name for Parquet and frames: several
        make a table, one alone makes a vector. All if not given.

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
    if not isinstance(source, str | os.PathLike):
        return _frame(source, columns)
    place = Path(source)
    if not place.exists():
        raise InputError(f"{place} does not exist.")
    if place.is_dir() or place.suffix == ".parquet":
        from ornstein._base import extras

        extras.require("tables", "open_rows of Parquet files")
        from ornstein.data.parquet import Parquet  # takes long to import

        return Parquet(place, columns)
    if place.suffix != ".npy":
        raise InputError(f"{place} is neither a .npy file nor Parquet; convert it to one of these.")
    return _npy(place, columns)


def _frame(source: Any, columns: Any) -> RowsOnDisk:
    from ornstein.data.frame_rows import FrameRows
    from ornstein.data.frames import Frame, opened

    frame = opened("source", source)
    if not isinstance(frame, Frame):
        raise InputError(
            f"source must be a path or a data frame, found {type(source).__name__}; arrays need "
            "not be opened."
        )
    return FrameRows(frame, columns)


def chosen_names(source: str, columns: Any, known: list[Any]) -> list[str]:
    """Names of columns: all, one or several, each of which there is."""
    names = known if columns is None else [columns] if isinstance(columns, str) else columns
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise InputError(f"columns of {source} go by name, found {shown(names)}.")
    if not names:
        raise InputError("columns is empty; name at least one.")
    for name in names:
        if name not in known:
            raise InputError(f"{source} has no column {name!r}.{nearest(name, known)}")
    return list(names)


def _npy(path: Path, columns: Any) -> RowsOnDisk:
    try:
        found = map_as_rows(np.load(path, mmap_mode="r", allow_pickle=False))
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{path} cannot be opened: {error}") from error
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
    fits = numbers.dtype.kind in "iu" and numbers.ndim <= 1 and numbers.size > 0
    if not fits or numbers.min() < 0 or numbers.max() >= width:
        raise InputError(
            f"columns must be numbers from 0 to {width - 1} in {path}, found {shown(columns)}."
        )
    chosen = int(numbers) if numbers.ndim == 0 else numbers.astype(np.int64)
    return InFile(*found._file, chosen)


def map_as_rows(value: Any) -> Any:
    """A memory map as rows that stay on disk; anything else as it is."""
    whole = isinstance(value, np.memmap) and isinstance(value.base, mmap.mmap)
    if not whole or value.ndim not in (1, 2) or not value.flags.c_contiguous or not value.filename:
        return value
    return InFile(Path(value.filename), value.offset, value.shape, value.dtype)


def ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items, the next one made by another thread while one is in use."""
    with ThreadPoolExecutor(1) as pool:
        following: Any = pool.submit(next, items, _END)
        while (item := following.result()) is not _END:
            following = pool.submit(next, items, _END)
            yield item
