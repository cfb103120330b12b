"""Tables of any library as Arrow columns of four types: numbers, text, categories and dates.

Truth values become text; what is missing is null. Anything else is refused by name.
"""

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ornstein._base.checks import names_of, nearest, shown
from ornstein._base.errors import InputError
from ornstein._base.problems import Problems
from ornstein.data.frames import Content, Frame, content, numbers, opened
from ornstein.tables.columns import (
    DATES,
    NUMBERS,
    TEXT,
    dates_remedy,
    distinct_names,
    option,
    text_of,
)

if TYPE_CHECKING:
    from ornstein.data.frames import Series

_REFUSED: dict[Content, str] = {
    "durations": ". Turn them into numbers, such as seconds",
    "complex numbers": ". Split them into two columns",
}


def arrow_table(
    frame: Any,
    names: Iterable[str] | None = None,
    but: Collection[str] = (),
    problems: Problems | None = None,
) -> pa.Table:
    """Some columns of a table, or all, under names that are text, no two alike.

    Columns named in ``but`` are left out. What is wrong with a column is raised, or added to the
    problems that are given; the table goes without that column then.
    """
    found, own = _opened(frame), Problems() if problems is None else problems
    known = _names(found)
    chosen = known if names is None else list(names)
    _require(known, [*chosen, *but])
    places = dict(zip(known, found.columns, strict=True))
    taken = {}
    for name in chosen:
        with own.noted():
            if name not in but:
                taken[name] = _column(name, places[name])
    if problems is None:
        own.raise_all("The table")
    return pa.table(taken)


def column_names(frame: Any) -> list[str]:
    """Names of a table's columns as text, no two alike."""
    return _names(_opened(frame))


def require_columns(frame: Any, names: list[str]) -> None:
    """Refuse a table that lacks columns."""
    _require(_names(_opened(frame)), names)


def _opened(frame: Any) -> Frame:
    found = opened("frame", frame)
    if not isinstance(found, Frame):
        raise InputError(
            "frame must be a table of pandas, polars, pyarrow or another library that narwhals "
            f"knows, such as a pandas DataFrame, found {type(frame).__name__}."
        )
    return found


def _names(frame: Frame) -> list[str]:
    names = [str(name) for name in frame.names]
    distinct_names(names, "The table")
    return names


def _require(known: list[str], names: list[str]) -> None:
    absent = [name for name in names if name not in known]
    if absent:
        raise InputError(
            f"The table has no column {names_of(absent)}. It has {names_of(known)}."
            + nearest(absent[0], known)
        )


def _column(name: str, series: "Series") -> Any:
    found = content(series)
    if found == "numbers":
        values = numbers(f"Column {shown(name)}", series)
        with np.errstate(over="ignore"):  # of extended precision
            return pa.array(values.astype(np.float64, copy=False), NUMBERS, from_pandas=True)
    if found == "truth values":
        return pc.if_else(series.to_arrow(), pa.scalar("True", TEXT), pa.scalar("False", TEXT))
    if found == "text":
        return _text(name, series)
    if found == "categories":
        return _categories(series)
    if found == "dates or times":
        return _dates(name, series)
    if found in _REFUSED:
        raise InputError(
            f"Column {shown(name)} contains {found}{_REFUSED[found]}, or leave the column out: "
            f"{option('drop', name)}."
        )
    raise InputError(
        f"Column {shown(name)} contains {_types(series)}; a column must hold numbers throughout or "
        f"text throughout. Convert it, or leave it out: {option('drop', name)}."
    )


def _dates(name: str, series: "Series") -> Any:
    """Dates and times, in UTC; times of the day alone, and periods, are refused."""
    found = series.to_arrow()
    if not (pa.types.is_date(found.type) or pa.types.is_timestamp(found.type)):
        raise InputError(f"Column {shown(name)} contains dates or times. {dates_remedy(name)}")
    return found.cast(pa.timestamp("us", getattr(found.type, "tz", None)), safe=False).cast(DATES)


def _text(name: str, series: "Series") -> Any:
    try:
        return series.to_arrow().cast(TEXT)
    except UnicodeEncodeError as error:
        raise InputError(
            f"Column {shown(name)} contains text that is not Unicode, such as "
            f"{shown(error.object)}. Correct it, or leave the column out: {option('drop', name)}."
        ) from error


def _categories(series: "Series") -> Any:
    """Categories in their own order, which is the alphabet's for those of polars but its Enum."""
    import narwhals as nw

    native = series.to_native()
    if isinstance(native, pd.Series) and isinstance(native.dtype, pd.CategoricalDtype):
        parts = [(np.asarray(native.cat.codes), native.cat.categories.to_list())]
    else:
        found: Any = native if isinstance(native, pa.ChunkedArray) else series.to_arrow()
        parts = [
            (np.asarray(part.indices.cast(pa.int32()).fill_null(-1)), part.dictionary.to_pylist())
            for part in getattr(found, "chunks", [found])
        ]
    texts = [[value if value is None else text_of(value) for value in some] for _, some in parts]
    levels = list(dict.fromkeys(text for some in texts for text in some if text is not None))
    if series.implementation.is_polars() and not isinstance(series.dtype, nw.Enum):
        levels.sort()
    place = {None: -1} | {text: i for i, text in enumerate(levels)}
    codes = [np.zeros(0, np.int32)]
    for (own, _), some in zip(parts, texts, strict=True):
        codes.append(np.array([*(place[text] for text in some), -1], np.int32)[own])
    joined = np.concatenate(codes)
    indices = pa.array(joined, mask=joined < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(levels, TEXT))


def _types(series: "Series") -> str:
    """The types of a column's values, an example of each."""
    examples = {type(value).__name__: value for value in reversed(series.drop_nulls().to_list())}
    shown_types = [f"{name} (such as {shown(value)})" for name, value in examples.items()]
    return " and ".join(reversed(shown_types[-3:])) or f"values of type {series.dtype}"
