"""Columns of Arrow tables: as numbers, and as labels."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ornstein._base.checks import few, shown
from ornstein._base.errors import InputError
from ornstein.models.families import TargetColumn

Floats = npt.NDArray[np.float64]
NUMBERS, TEXT, DATES = pa.float64(), pa.large_string(), pa.timestamp("us")


@dataclass(frozen=True, eq=False)
class Labels:
    """The distinct labels of a column as text, in order, and which one every row has.

    A missing label has code -1. Every level occurs.
    """

    levels: tuple[str, ...]
    codes: npt.NDArray[np.intp]


def distinct_names(names: list[str], where: str, hint: str = "") -> None:
    """Refuse two columns of one name."""
    twice = {name: count for name, count in Counter(names).most_common() if count > 1}
    if twice:
        raise InputError(
            f"{where} has columns of the same name: {listing(twice)}. Rename all but one.{hint}"
        )


def listing(counts: Mapping[Any, int]) -> str:
    """Names with their counts, the first five."""
    return few([f"{shown(name)} ({count:,})" for name, count in counts.items()])


def option(name: str, column: str) -> str:
    """An option that concerns a column; the command line says it in its own words."""
    return f"{name}=[{column!r}]"


def leave_out(column: str) -> str:
    """How to go on without a column."""
    return f"Leave it out: {option('drop', column)}."


def dates_remedy(column: str) -> str:
    """How to go on with a column of dates."""
    return (
        f"Have them become numbers (days since the first, weekday, season, time of day) with "
        f"{option('parse_dates', column)}, or leave the column out: {option('drop', column)}."
    )


def refuse_dates(name: str, column: Any) -> None:
    """Refuse a column of dates where numbers or labels are needed."""
    if column.type == DATES:
        raise InputError(f"Column {shown(name)} contains dates or times. {dates_remedy(name)}")


def is_numeric(column: Any) -> bool:
    """Whether a column contains numbers; else it contains labels (text, categories)."""
    return bool(column.type == NUMBERS)


def numbers(name: str, column: Any) -> Floats:
    """A column as finite numbers, missing ones NaN; text is read as numbers where it can be."""
    refuse_dates(name, column)
    if is_numeric(column):
        values = np.asarray(column.to_numpy(), np.float64)
    else:
        values = _numbers_of_labels(name, labels(name, column))
    count = int(np.isinf(values).sum())
    if count:
        raise InputError(
            f"Column {shown(name)} has {count:,} infinite values. Correct them, or make them "
            "missing and choose what to do with missing values: missing='drop'. "
            f"Or leave the column out: {option('drop', name)}."
        )
    return values


def _numbers_of_labels(name: str, found: Labels) -> Floats:
    values = parse_numbers(pa.array(found.levels, pa.string()))
    if values is None:
        wrong = np.array([not is_number(level) for level in found.levels])
        rows = np.append(wrong, False)[found.codes]
        first = found.levels[found.codes[np.argmax(rows)]]
        raise InputError(
            f"Column {shown(name)} must hold numbers: {int(rows.sum()):,} of its values do not, "
            f"the first being {shown(first)}. Correct them."
        )
    return np.append(values, np.nan)[found.codes]


def centre_and_scale(name: str, values: Floats) -> tuple[float, float]:
    """Mean and standard deviation of the values that are there."""
    present = values[~np.isnan(values)]
    with np.errstate(over="ignore", invalid="ignore"):
        centre = present[0] + np.mean(present - present[0])
        scale = np.sqrt(np.mean((present - centre) ** 2))
    if not max(1e-100, 1e-12 * abs(centre)) < scale < 1e100:
        raise InputError(
            f"Column {shown(name)} varies from {float(present.min())} to {float(present.max())}, "
            "which cannot be standardised in double precision. Change its unit, count from "
            f"another origin, or leave it out: {option('drop', name)}."
        )
    return float(centre), float(scale)


def is_number(text: str) -> bool:
    """Whether a text is one number."""
    return parse_numbers(pa.array([text], pa.string())) is not None


def parse_numbers(texts: Any) -> Floats | None:
    """Numbers of an Arrow array of texts, missing ones NaN; None unless each is a number."""
    trimmed = pc.utf8_trim_whitespace(texts)
    try:
        pc.cast(trimmed[:100], pa.float64())  # a cast that fails a million times is slow
        values = pc.cast(trimmed, pa.float64())
    except pa.ArrowInvalid:
        return None
    return np.array(values.to_numpy(zero_copy_only=False), dtype=np.float64)


def labels(name: str, column: Any) -> Labels:
    """A column as labels: categories in their own order, numbers by size, text by alphabet."""
    refuse_dates(name, column)
    if is_numeric(column):
        values = numbers(name, column)
        known = ~np.isnan(values)
        levels, places = np.unique(values[known], return_inverse=True)
        codes = np.full(len(values), -1)
        codes[known] = places
        texts = [text_of(value) for value in levels.tolist()]
    else:
        codes, texts = _codes(column)
        if column.type == TEXT:
            order = sorted(range(len(texts)), key=texts.__getitem__)
            codes, texts = _recoded(codes, np.argsort(order)), [texts[i] for i in order]
    present = dict.fromkeys(texts[code] for code in np.unique(codes[codes >= 0]))
    position = {text: i for i, text in enumerate(present)}
    codes = _recoded(codes, np.array([position.get(text, -1) for text in texts], np.intp))
    return Labels(tuple(present), codes)


def _codes(column: Any) -> tuple[npt.NDArray[Any], list[str]]:
    """Which of the distinct texts or categories every row has, and those."""
    whole = column.combine_chunks()
    encoded = whole.dictionary_encode() if column.type == TEXT else whole
    return np.asarray(encoded.indices.fill_null(-1)), encoded.dictionary.to_pylist()


def _recoded(codes: npt.NDArray[Any], new: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Codes replaced by ``new[code]``, missing ones kept."""
    return np.append(new, -1).astype(np.intp)[codes]


def text_of(value: Any) -> str:
    """A label as text; whole numbers without a decimal point."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(float(value))
    return str(value)


def missing_counts(table: pa.Table) -> dict[str, int]:
    """How many values are missing in each column that lacks some."""
    counts = {name: table[name].null_count for name in table.column_names}
    return {name: count for name, count in counts.items() if count}


def complete_rows(table: pa.Table) -> npt.NDArray[np.bool_]:
    """Which rows miss no value."""
    complete = np.ones(table.num_rows, np.bool_)
    for column in table.columns:
        if column.null_count:
            complete &= np.asarray(column.is_valid())
    return complete


class NumberTexts(Sequence[str]):
    """Sorted numbers as texts, made when they are asked for: a target may have a million."""

    def __init__(self, values: Floats) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, at: int) -> str: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...

    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        if isinstance(at, slice):
            return NumberTexts(self._values[at])
        return text_of(float(self._values[at]))


def target_column(name: str, column: Any) -> TargetColumn:
    """The column to predict as families see it; missing values are passed over."""
    present = column.drop_null()
    if is_numeric(present):
        values = numbers(name, present)
        return TargetColumn(name, NumberTexts(np.unique(values)), values)
    return TargetColumn(name, labels(name, present).levels, None)
