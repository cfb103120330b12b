"""Tables with groups, on which mixed models are usually tried: stored as the CSV files they are."""

import gzip
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ornstein._base.checks import choice
from ornstein._base.errors import DatasetError
from ornstein.data.datasets.fetching import retrieve, storing
from ornstein.data.datasets.grouped import TABLES, GroupedTable
from ornstein.storage.folders import write_file

if TYPE_CHECKING:
    import pandas as pd

_ROW_NUMBER = "rownames"  # of R's data frame


def load_table(name: str, home: Path) -> "pd.DataFrame":
    """A stored table, downloaded first where the data folder lacks it; R's row numbers dropped."""
    table = TABLES[choice("name", name, TABLES)]
    path = home / table.filename
    if not os.path.exists(path):
        fetch_table(table, home)
    try:
        return _read(path, table)
    except ValueError as error:
        raise DatasetError(
            f"{path} is not the {name} table: {error}. Delete the file, or replace it with "
            f"ornstein.datasets.download({name!r})."
        ) from error


def fetch_table(
    table: GroupedTable, home: Path, progress: bool | None = None, base_url: str | None = None
) -> Path:
    """Download, check and store a table, replacing a stored one."""
    target, url = home / table.filename, table.url(base_url)
    with (
        storing(target),
        TemporaryDirectory(prefix=f".{table.name}-", dir=target.parent) as scratch,
    ):
        path = Path(scratch, f"{table.name}.csv")
        retrieve([(url, path)], progress)
        try:
            _read(path, table)
        except ValueError as error:
            raise DatasetError(
                f"what was downloaded from {url} is not the {table.name} table: {error}. Open the "
                "address in a browser to see what it serves, run the download again, or give the "
                "address of a mirror as base_url."
            ) from error
        content = path.read_bytes()
        write_file(target, [gzip.compress(content, mtime=0) if table.packed else content])
    return target


def _read(path: Path, table: GroupedTable) -> "pd.DataFrame":
    """A checked table; whatever is wrong with it is a ``ValueError``."""
    import pandas as pd  # takes long to import

    try:
        frame = pd.read_csv(path)
    except (OSError, EOFError, UnicodeError) as error:
        raise ValueError(f"it cannot be read: {error}") from error
    frame = frame.drop(columns=_ROW_NUMBER, errors="ignore")
    if tuple(frame.columns) != table.columns:
        raise ValueError(f"its columns are not {', '.join(table.columns)}")
    if len(frame) != table.rows:
        raise ValueError(f"it has {len(frame):,} rows, expected {table.rows:,}")
    for column, levels in table.groups:
        found = frame[column].nunique()
        if found != levels:
            raise ValueError(f"{column} has {found:,} levels, expected {levels:,}")
    return frame
