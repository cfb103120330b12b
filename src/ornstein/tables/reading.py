"""Files become tables. Nothing in a file is executed: text and Parquet only, no pickles."""

import gzip
import os
import zlib
from collections.abc import Collection
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from ornstein._base.checks import names_of
from ornstein._base.errors import InputError
from ornstein.tables.columns import distinct_names
from ornstein.tables.text_files import NumberMarks, read_text

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")


def read(
    path: str | os.PathLike[str],
    text: Collection[str] = (),
    decimal: str = ".",
    thousands: str = "",
) -> pd.DataFrame:
    """Read a table from a CSV, TSV (plain or gzipped) or Parquet file.

    A column of a text file becomes numbers if every value in it is one, and stays text
    otherwise. Empty fields and the words NA, N/A, NaN, NULL, null, n/a, nan, #N/A and <NA> are
    missing values. Text is UTF-8, its first row names the columns, without the spaces around; a
    first column without a name, as pandas and R write row names, is called ``column 1``. Fields are
    separated by commas, or, where the first row has none, by semicolons or tabs.

    Parameters
    ----------
    path
        The file. Its suffix says what it is: .csv, .csv.gz, .tsv, .tsv.gz or .parquet.
    text
        Columns to keep as text even if every value is a number, such as
        ``encoding.text_columns`` when a later table is read.
    decimal, thousands
        How numbers are written in a text file: the mark of decimals, a point or a comma, and what
        separates groups of three digits, if anything.

    Returns
    -------
    pandas.DataFrame
        One row or more, with named columns.

    Raises
    ------
    InputError
        If the file cannot be read as a table; the message says why.
    """
    path, marks = Path(path), NumberMarks.checked(decimal, thousands)
    require_file(path)
    suffix = known_suffix(path)
    try:
        if path.stat().st_size == 0:
            raise InputError(f"{path} is empty.")
        if suffix == ".parquet":
            frame = _read_parquet(path)
        else:
            separator = "\t" if suffix.startswith(".tsv") else None
            content = gzip.decompress(path.read_bytes()) if suffix.endswith(".gz") else None
            frame = read_text(path, content, separator, text, marks)
    except InputError:
        raise
    except (pa.ArrowException, OSError, EOFError, ValueError, zlib.error) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path} cannot be read: {reason}") from error
    if frame.empty:
        raise InputError(f"{path} has no rows: it names {len(frame.columns)} columns and ends.")
    return frame


def require_file(path: Path) -> None:
    """Raise unless there is a file whose name says what it is."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; name one file in it.")
    if not known_suffix(path):
        raise InputError(
            f"{path}: the suffix does not say what the file is; choose one of "
            f"{', '.join(SUFFIXES)}."
        )
    if not path.exists():
        raise InputError(f"{path}: there is no such file.")


def known_suffix(path: Path) -> str:
    """The longest of :data:`SUFFIXES` that a file's name ends with; empty if none."""
    return max((end for end in SUFFIXES if path.name.lower().endswith(end)), key=len, default="")


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise InputError(f"{path} is not a Parquet file, or is damaged: {error}") from error
    with file:
        names = [name.strip() for name in file.schema_arrow.names]
        distinct_names(names, str(path))
        unnamed = [name for name in names if not name.strip()]
        if unnamed:
            raise InputError(f"{path} has columns without a name: {names_of(unnamed)}. Name them.")
        table = file.read().rename_columns(names)
    for i, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type):
            table = table.set_column(i, field.name, pc.cast(table.column(i), pa.float64()))
    rows_names = [name for name in names if name.startswith("__index_level_")]  # pandas' own
    return table.drop_columns(rows_names).to_pandas(ignore_metadata=True)
