"""Files become tables. Nothing in a file is executed: text and Parquet only, no pickles."""

import csv
import gzip
import io
import os
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from ornstein._base.checks import names_of, shown
from ornstein._base.errors import InputError
from ornstein.tables.columns import Floats, distinct_names, parse_numbers

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
MISSING_WORDS = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null")
_BLOCK = 1 << 24  # bytes; no header or row of a text file may be longer


def read(path: str | os.PathLike[str], text: Collection[str] = ()) -> pd.DataFrame:
    """Read a table from a CSV, TSV (plain or gzipped) or Parquet file.

    A column of a text file becomes numbers if every value in it is one, and stays text
    otherwise. Empty fields and the words NA, N/A, NaN, NULL, null, n/a, nan, #N/A and <NA> are
    missing values. Text is UTF-8, its first row names the columns; fields are separated by
    commas, or, where the first row has none, by semicolons or tabs.

    Parameters
    ----------
    path
        The file. Its suffix says what it is: .csv, .csv.gz, .tsv, .tsv.gz or .parquet.
    text
        Columns to keep as text even if every value is a number, such as
        ``encoding.text_columns`` when a later table is read.

    Returns
    -------
    pandas.DataFrame
        One row or more, with named columns.

    Raises
    ------
    InputError
        If the file cannot be read as a table; the message says why.
    """
    path = Path(path)
    suffix = known_suffix(path)
    if not suffix:
        raise InputError(
            f"{path}: the suffix does not say what the file is; choose one of "
            f"{', '.join(SUFFIXES)}."
        )
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder; name one file in it.")
        if path.stat().st_size == 0:
            raise InputError(f"{path} is empty.")
        if suffix == ".parquet":
            frame = _read_parquet(path)
        else:
            content = path.read_bytes()
            if suffix.endswith(".gz"):
                content = gzip.decompress(content)
            frame = _read_text(path, content, "\t" if suffix.startswith(".tsv") else None, text)
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such file.") from error
    except (pa.ArrowException, OSError, EOFError, ValueError, zlib.error) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path} cannot be read: {reason}") from error
    if frame.empty:
        raise InputError(f"{path} has no rows: it names {len(frame.columns)} columns and ends.")
    return frame


def known_suffix(path: Path) -> str:
    """The longest of :data:`SUFFIXES` that a file's name ends with; empty if none."""
    return max((end for end in SUFFIXES if path.name.lower().endswith(end)), key=len, default="")


def _read_text(
    path: Path, content: bytes, separator: str | None, text: Collection[str]
) -> pd.DataFrame:
    separator = separator or _separator(content)
    names = _header(path, content, separator)
    _refuse_undecodable(path, content)
    table = _parse(path, content, separator, names)
    columns: dict[str, Any] = {}
    for name in names:
        column = _without_missing_words(table.column(name))
        values = None if name in text else parse_numbers(column)
        columns[name] = column.to_pandas() if values is None else _whole(values)
    return pd.DataFrame(columns)


def _whole(values: Floats) -> npt.NDArray[Any]:
    """Whole numbers as integers, where none is missing and none loses a digit."""
    if np.all(np.abs(values) <= 2**53) and np.array_equal(values, np.rint(values)):
        return values.astype(np.int64)
    return values


def _separator(content: bytes) -> str:
    """A comma, unless the first line has none and another separator instead."""
    first = content[:_BLOCK].lstrip().split(b"\n", 1)[0]
    return next((mark for mark in ",;\t" if mark.encode() in first), ",")


def _header(path: Path, content: bytes, separator: str) -> list[str]:
    start = content[:_BLOCK]
    if b"\0" in start[:1000]:
        raise InputError(f"{path} is not text in UTF-8. Save it as UTF-8.")
    lines = io.TextIOWrapper(io.BytesIO(start), "utf-8-sig", errors="replace", newline="")
    try:
        names = next((row for row in csv.reader(lines, delimiter=separator) if row), None)
    except csv.Error as error:
        raise InputError(f"{path}: its first row cannot be read: {error}.") from error
    if names is None:
        raise InputError(f"{path} is empty.")
    unnamed = [str(i) for i, name in enumerate(names, start=1) if not name.strip()]
    if unnamed:
        raise InputError(
            f"{path} has columns without a name in its first row, by number: "
            f"{', '.join(unnamed[:10])}. Name or remove them."
        )
    distinct_names(names, str(path), " Its first row must hold the columns' names.")
    return names


def _parse(path: Path, content: bytes, separator: str, names: list[str]) -> Any:
    """The fields as an Arrow table of texts; rows of the wrong length are refused."""
    wrong: list[Any] = []

    def refuse(row: Any) -> str:
        wrong.append(row)
        return "error"

    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(content),
            read_options=pyarrow.csv.ReadOptions(
                use_threads=False,  # so that a wrong row is known by number
                column_names=names,
                block_size=_BLOCK,
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=separator, newlines_in_values=True, invalid_row_handler=refuse
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string())
            ),
        )
    except pa.ArrowInvalid as error:
        if wrong:
            raise InputError(
                f"{path}: row {wrong[0].number} (the first row being row 1) has "
                f"{wrong[0].actual_columns} fields and the first row {len(names)}: "
                f"{shown(wrong[0].text)}."
            ) from error
        raise
    _refuse_open_quote(path, content, table)
    return table.slice(1)


def _refuse_undecodable(path: Path, content: bytes) -> None:
    """Raise for what is not UTF-8, before Arrow meets it in a row that it would report."""
    try:
        content.decode()
    except UnicodeDecodeError as error:
        number = len(content[: error.start + 1].splitlines())
        line = content.splitlines()[number - 1]
        raise InputError(
            f"{path}: line {number} is not text in UTF-8: {shown(line)}. Save it as UTF-8."
        ) from error


def _refuse_open_quote(path: Path, content: bytes, table: Any) -> None:
    """A quote that is never closed would swallow the rest of the file."""
    last = table.column(table.num_columns - 1)[-1].as_py() if table.num_rows else ""
    if "\n" in last and not content[-_BLOCK:].rstrip().endswith(b'"'):
        raise InputError(
            f"{path}: a quotation mark opened in row {table.num_rows} (the first row being row 1) "
            f"is never closed: {shown(last)}."
        )


def _without_missing_words(column: Any) -> Any:
    words = pa.array(MISSING_WORDS, pa.string())
    missing = pc.is_in(pc.utf8_trim_whitespace(column), value_set=words)
    if not pc.any(missing).as_py():
        return column
    # Not pc.if_else, which damages parts of columns up to pyarrow 22.
    return column.take(pa.array(np.arange(len(column)), mask=np.asarray(missing)))


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise InputError(f"{path} is not a Parquet file, or is damaged: {error}") from error
    with file:
        names = file.schema_arrow.names
        distinct_names(names, str(path))
        unnamed = [name for name in names if not name.strip()]
        if unnamed:
            raise InputError(f"{path} has columns without a name: {names_of(unnamed)}. Name them.")
        table = file.read()
    for i, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type):
            table = table.set_column(i, field.name, pc.cast(table.column(i), pa.float64()))
    rows_names = [name for name in names if name.startswith("__index_level_")]  # pandas' own
    return table.drop_columns(rows_names).to_pandas(ignore_metadata=True)
