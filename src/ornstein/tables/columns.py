"""What a column contains: numbers or labels. Anything else is refused by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ornstein._base.checks import few, shown
from ornstein._base.errors import InputError
from ornstein.models.families import TargetColumn

Floats = npt.NDArray[np.float64]
Kind = Literal["numbers", "labels"]

_OBJECT_KINDS: dict[str, Kind] = {
    "string": "labels",
    "boolean": "labels",
    "integer": "numbers",
    "floating": "numbers",
    "mixed-integer-float": "numbers",
    "decimal": "numbers",
    "empty": "numbers",
}
_TIMES = ("date", "datetime", "datetime64", "time", "timedelta", "timedelta64", "period")


@dataclass(frozen=True, eq=False)
class Labels:
    """The distinct labels of a column as text, in order, and which one every row has.

    A missing label has code -1. Every level occurs.
    """

    levels: tuple[str, ...]
    codes: npt.NDArray[np.intp]


def named(frame: Any) -> pd.DataFrame:
    """The table with its column names as text, no two alike."""
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"frame must be a pandas DataFrame, found {type(frame).__name__}.")
    names = [str(name) for name in frame.columns]
    distinct_names(names, "The table")
    return frame if names == list(frame.columns) else frame.set_axis(names, axis=1)


def distinct_names(names: list[str], where: str, hint: str = "") -> None:
    """Refuse two columns of one name."""
    seen = pd.Series(names, dtype=object).value_counts()
    twice = {name: int(count) for name, count in seen.items() if count > 1}
    if twice:
        raise InputError(
            f"{where} has columns of the same name: {listing(twice)}. Rename all but one.{hint}"
        )


def listing(counts: Mapping[Any, int]) -> str:
    """Names with their counts, the first five."""
    return few([f"{shown(name)} ({count:,})" for name, count in counts.items()])


def kind(name: str, series: "pd.Series[Any]") -> Kind:
    """Whether a column contains numbers or labels (text, categories, truth values).

    Dates, complex numbers, bytes, lists and mixtures are refused.
    """
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype) or pd.api.types.is_bool_dtype(dtype):
        return "labels"
    if pd.api.types.is_complex_dtype(dtype):
        raise InputError(
            f"Column {shown(name)} contains complex numbers; split them into two columns."
        )
    if pd.api.types.is_numeric_dtype(dtype):
        return "numbers"
    inferred = pd.api.types.infer_dtype(series, skipna=True)
    if inferred in _OBJECT_KINDS:
        return _OBJECT_KINDS[inferred]
    if inferred in _TIMES:
        raise InputError(
            f"Column {shown(name)} contains dates or times. Turn them into numbers, such as days "
            "since the first, or leave the column out."
        )
    raise InputError(
        f"Column {shown(name)} contains {_types(series)}; a column must hold numbers throughout or "
        "text throughout. Convert it, or leave it out."
    )


def _types(series: "pd.Series[Any]") -> str:
    """The types of a column's values, an example of each."""
    examples = {type(value).__name__: value for value in reversed(list(series.dropna()))}
    shown_types = [f"{name} (such as {shown(value)})" for name, value in examples.items()]
    return " and ".join(reversed(shown_types[-3:])) or f"values of type {series.dtype}"


def numbers(name: str, series: "pd.Series[Any]") -> Floats:
    """A column as finite numbers, missing ones NaN; text is read as numbers where it can be."""
    if kind(name, series) == "labels":
        values = _numbers_of_labels(name, labels(name, series))
    else:
        try:
            values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        except (OverflowError, TypeError, ValueError) as error:
            raise InputError(f"Column {shown(name)} cannot be read as numbers: {error}.") from error
    count = int(np.isinf(values).sum())
    if count:
        raise InputError(
            f"Column {shown(name)} has {count:,} infinite values. Correct them, or make them "
            "missing and choose what to do with missing values."
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
            "which cannot be standardised in double precision. Change its unit, or count from "
            "another origin."
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


def labels(name: str, series: "pd.Series[Any]") -> Labels:
    """A column as labels: categories in their own order, numbers by size, text by alphabet."""
    if isinstance(series.dtype, pd.CategoricalDtype):
        codes = np.asarray(series.cat.codes, np.intp)
        texts = [_text(value) for value in series.cat.categories]
    elif kind(name, series) == "numbers":
        codes, values = pd.factorize(numbers(name, series), sort=True)
        texts = [_text(value) for value in values]
    else:
        codes, words = pd.factorize(series)
        order = sorted(range(len(words)), key=lambda i: str(words[i]))
        codes = _recoded(codes, np.argsort(order))
        texts = [_text(words[i]) for i in order]
    present = dict.fromkeys(texts[code] for code in np.unique(codes[codes >= 0]))
    position = {text: i for i, text in enumerate(present)}
    codes = _recoded(codes, np.array([position.get(text, -1) for text in texts], np.intp))
    return Labels(tuple(present), codes)


def _recoded(codes: npt.NDArray[Any], new: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Codes replaced by ``new[code]``, missing ones kept."""
    return np.append(new, -1).astype(np.intp)[codes]


def _text(value: Any) -> str:
    """A label as text; whole numbers without a decimal point."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(float(value))
    return str(value)


def target_column(name: str, series: "pd.Series[Any]") -> TargetColumn:
    """The column to predict as families see it; missing values are passed over."""
    present = series.dropna()
    values = numbers(name, present) if kind(name, present) == "numbers" else None
    return TargetColumn(name, labels(name, present).levels, values)
