"""Tables larger than memory: NumPy files and folders of Parquet, opened and left on disk."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ornstein._base.checks import shown
from ornstein._base.errors import InputError
from ornstein.data.on_disk import InFile, RowsOnDisk, map_as_rows


def open_rows(
    path: str | Path, columns: str | int | Sequence[str] | Sequence[int] | None = None
) -> RowsOnDisk:
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
        from ornstein.data.parquet import Parquet  # takes long to import

        return Parquet(place, columns)
    if place.suffix != ".npy":
        raise InputError(f"{place} is neither a .npy file nor Parquet; convert it to one of these.")
    return _npy(place, columns)


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
    if numbers.dtype.kind not in "iu" or numbers.ndim > 1 or numbers.size == 0:
        raise InputError(f"columns must be numbers from 0 to {width - 1}, found {shown(columns)}.")
    if numbers.min() < 0 or numbers.max() >= width:
        raise InputError(
            f"columns must be from 0 to {width - 1} in {path}, found {numbers.tolist()}."
        )
    chosen = int(numbers) if numbers.ndim == 0 else numbers.astype(np.int64)
    return InFile(*found._file, chosen)
