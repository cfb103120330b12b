"""Text becomes columns, by Arrow's reader: numbers at once, and what is no number as text."""

import csv
import io
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ornstein._base.checks import choice, shown
from ornstein._base.errors import InputError
from ornstein.storage import codec
from ornstein.tables.columns import Floats, distinct_names, parse_numbers

MISSING_WORDS = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null")
_BLOCK = 1 << 24  # bytes; no header or row of a text file may be longer
_PROBE = 1 << 16  # bytes that show which columns are numbers


@codec.register
class NumberMarks(NamedTuple):
    """How numbers are written: the mark of decimals, and what separates thousands, if anything."""

    decimal: str = "."
    thousands: str = ""

    @classmethod
    def checked(cls, decimal: str, thousands: str) -> "NumberMarks":
        """NumberMarks that can be told apart."""
        choice("decimal", decimal, (".", ","))
        if thousands not in ("", ",", ".", " ", "'", "_"):
            raise InputError(
                "thousands must be a comma, a point, a space, an apostrophe or an underscore, "
                f"found {shown(thousands)}."
            )
        if decimal == thousands:
            raise InputError(f"decimal and thousands are both {shown(decimal)}; choose two marks.")
        return cls(decimal, thousands)

    @property
    def usual(self) -> bool:
        """Whether numbers are as Arrow reads them."""
        return self == USUAL

    def plain(self, texts: Any) -> Any:
        """Numbers written with these marks, as they are usually written; None if some is not.

        Thousands count in groups of three only, so that 1.5 is not taken for 15.
        """
        group, point = re.escape(self.thousands), re.escape(self.decimal)
        whole = rf"\d{{1,3}}({group}\d{{3}})+|\d+" if self.thousands else r"\d+"
        number = rf"^\s*[+-]?(({whole})({point}\d*)?|{point}\d+)([eE][+-]?\d+)?\s*$"
        if not pc.all(pc.match_substring_regex(texts, number)).as_py():
            return None
        if self.thousands:
            texts = pc.replace_substring(texts, self.thousands, "")
        return pc.replace_substring(texts, self.decimal, ".")


USUAL = NumberMarks()
"""A decimal point, and no mark of thousands."""


def read_text(
    path: Path,
    content: bytes | None,
    separator: str | None,
    text: Collection[str],
    marks: NumberMarks,
) -> pd.DataFrame:
    """A file as a frame; ``content`` is what it has where that was unpacked already."""
    start = _start(path) if content is None else content[:_BLOCK]
    separator = separator or _separator(start)
    names = _header(path, start, separator)
    blank = len(start) - len(start.lstrip(b"\r\n"))
    layout = _Layout(path, content, separator, names, 1 + start[:blank].count(b"\n"))
    if "\ufffd" in "".join(names):
        layout.refuse_undecodable()
    numeric = frozenset(names).difference(text) if marks.usual else frozenset()
    if len(start) > _PROBE:
        numeric = layout.numeric(start[:_PROBE], numeric)
    table = layout.parsed(numeric)
    columns: dict[str, Any] = {}
    for name in names:
        columns[name] = _column(table.column(0), name in text, marks)
        table = table.remove_column(0)  # so that its memory is free
    pa.default_memory_pool().release_unused()
    return pd.DataFrame(columns, copy=False)


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_BLOCK)


def _column(column: Any, keep: bool, marks: NumberMarks) -> Any:
    if column.type == pa.float64():
        return _whole(np.array(column.to_numpy(), np.float64))
    column = _without_missing_words(column)
    if not keep:
        texts = column if marks.usual else marks.plain(column)
        values = None if texts is None else parse_numbers(texts)
        if values is not None:
            return _whole(values)
    return column.to_pandas()


def _whole(values: Floats) -> npt.NDArray[Any]:
    """Whole numbers as integers, where none is missing and none loses a digit."""
    if np.all(np.abs(values) <= 2**53) and np.array_equal(values, np.rint(values)):
        return values.astype(np.int64)
    return values


def _separator(start: bytes) -> str:
    """A comma, unless the first line has none and another separator instead."""
    first = start.lstrip().split(b"\n", 1)[0]
    return next((mark for mark in ",;\t" if mark.encode() in first), ",")


def _header(path: Path, start: bytes, separator: str) -> list[str]:
    if b"\0" in start[:1000]:
        raise InputError(f"{path} is not text in UTF-8. Save it as UTF-8.")
    lines = io.TextIOWrapper(io.BytesIO(start), "utf-8-sig", errors="replace", newline="")
    try:
        names = next((row for row in csv.reader(lines, delimiter=separator) if row), None)
    except csv.Error as error:
        raise InputError(f"{path}: its first row cannot be read: {error}.") from error
    if names is None:
        raise InputError(f"{path} is empty.")
    names = [name.strip() for name in names]
    if len(names) > 1 and not names[0] and all(names[1:]) and "column 1" not in names:
        names[0] = "column 1"
    unnamed = [str(i) for i, name in enumerate(names, start=1) if not name]
    if unnamed:
        raise InputError(
            f"{path} has columns without a name in its first row, by number: "
            f"{', '.join(unnamed[:10])}. Name or remove them."
        )
    distinct_names(names, str(path), " Its first row must hold the columns' names.")
    return names


@dataclass(frozen=True)
class _Layout:
    """A file and how its fields are told apart."""

    path: Path
    content: bytes | None
    separator: str
    names: list[str]
    above: int  # lines above the first row, that of the names included

    def numeric(self, start: bytes, possible: frozenset[str]) -> frozenset[str]:
        """Of some columns those that begin with numbers; all where the beginning is no table."""
        try:
            whole = start[: start.rindex(b"\n")]
            some = self._table(pa.BufferReader(whole), frozenset(), [])
        except (ValueError, pa.ArrowException):
            return possible
        found = {name: _without_missing_words(some.column(name)) for name in possible}
        return frozenset(name for name, one in found.items() if parse_numbers(one) is not None)

    def parsed(self, numeric: frozenset[str]) -> Any:
        """The fields as an Arrow table: numbers of some columns, and texts.

        Columns that turn out not to be numbers throughout are read as text again. Rows of the
        wrong length are refused.
        """
        while True:
            wrong: list[Any] = []
            try:
                table = self._table(self._source(), numeric, wrong)
            except pa.ArrowInvalid as error:
                if wrong:
                    raise InputError(
                        f"{self.path}: row {wrong[0].number} (the first row being row 1) has "
                        f"{wrong[0].actual_columns} fields and the first row {len(self.names)}: "
                        f"{shown(wrong[0].text)}."
                    ) from error
                place = re.search(r"CSV column #(\d+)", str(error))
                name = None if place is None else self.names[int(place[1])]
                if name in numeric:
                    numeric -= {name}
                    continue
                self.refuse_undecodable()
                raise
            self._refuse_open_quote(table)
            return table

    def _source(self) -> Any:
        return pa.OSFile(str(self.path)) if self.content is None else pa.BufferReader(self.content)

    def _table(self, source: Any, numeric: frozenset[str], wrong: list[Any]) -> Any:
        def refuse(row: Any) -> str:
            wrong.append(row)
            return "error"

        types = {name: pa.float64() if name in numeric else pa.string() for name in self.names}
        return pyarrow.csv.read_csv(
            source,
            read_options=pyarrow.csv.ReadOptions(
                use_threads=False,  # so that a wrong row is known by number
                column_names=self.names,
                skip_rows_after_names=self.above,
                block_size=_BLOCK,
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self.separator, newlines_in_values=True, invalid_row_handler=refuse
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=types, null_values=list(MISSING_WORDS), strings_can_be_null=False
            ),
        )

    def refuse_undecodable(self) -> None:
        """Say which line is not UTF-8, if one is not."""
        content = self.path.read_bytes() if self.content is None else self.content
        try:
            content.decode()
        except UnicodeDecodeError as error:
            number = len(content[: error.start + 1].splitlines())
            line = content.splitlines()[number - 1]
            raise InputError(
                f"{self.path}: line {number} is not text in UTF-8: {shown(line)}. Save it as UTF-8."
            ) from error

    def _refuse_open_quote(self, table: Any) -> None:
        """A quote that is never closed would swallow the rest of the file."""
        last = table.column(table.num_columns - 1)[-1].as_py() if table.num_rows else ""
        if isinstance(last, str) and "\n" in last and not self._end().endswith(b'"'):
            raise InputError(
                f"{self.path}: a quotation mark opened in row {table.num_rows + 1} (the first row "
                f"being row 1) is never closed: {shown(last)}."
            )

    def _end(self) -> bytes:
        if self.content is not None:
            return self.content[-_BLOCK:].rstrip()
        with self.path.open("rb") as file:
            file.seek(max(0, self.path.stat().st_size - _BLOCK))
            return file.read().rstrip()


def _without_missing_words(column: Any) -> Any:
    words = pa.array(MISSING_WORDS, pa.string())
    missing = pc.is_in(pc.utf8_trim_whitespace(column), value_set=words)
    if not pc.any(missing).as_py():
        return column
    # Not pc.if_else, which damages parts of columns up to pyarrow 22.
    return column.take(pa.array(np.arange(len(column)), mask=np.asarray(missing)))
