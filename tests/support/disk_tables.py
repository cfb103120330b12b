"""Small tables on disk."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import ornstein as orn
from support.montecarlo import Floats

ROWS = 3000


def rows(count: int = ROWS, columns: int = 4) -> Floats:
    """Standard normal numbers."""
    return np.random.default_rng(0).normal(size=(count, columns)).astype(np.float32)


def npy(folder: Path, array: Any, name: str = "rows.npy") -> Path:
    """A file of an array."""
    np.save(folder / name, array)
    return folder / name


def parquet(folder: Path, array: Floats, files: int = 3, group: int = 300) -> Path:
    """A folder of Parquet files with the columns c0, c1, ..."""
    place = folder / "table"
    place.mkdir()
    names = [f"c{j}" for j in range(array.shape[1])]
    for number, part in enumerate(np.array_split(array, files)):
        table = pa.table({name: part[:, j] for j, name in enumerate(names)})
        pq.write_table(table, place / f"part-{number}.parquet", row_group_size=group)
    return place


def opened(folder: Path, array: Floats, kind: str) -> orn.RowsOnDisk:
    """The rows of an array, on disk."""
    return orn.open_rows(npy(folder, array) if kind == "npy" else parquet(folder, array))
