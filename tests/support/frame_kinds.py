"""One table as data frames of every kind, and columns of every type in each of them."""

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import narwhals as nw
import pandas as pd
import polars as pl
import pyarrow as pa


class Kind(NamedTuple):
    """How a kind of frame is made: of a pandas frame, and of one column of Python values."""

    of_pandas: Callable[[pd.DataFrame], Any]
    of_values: Callable[[list[Any]], Any]


def _arrow(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


def _of_arrow(values: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"b": pd.arrays.ArrowExtensionArray(pa.array(values))})


KINDS: dict[str, Kind] = {
    "pandas": Kind(lambda frame: frame, lambda values: pd.DataFrame({"b": values})),
    "pandas nullable": Kind(
        lambda frame: frame.convert_dtypes(),
        lambda values: pd.DataFrame({"b": values}).convert_dtypes(),
    ),
    "pandas of Arrow": Kind(
        lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
        _of_arrow,
    ),
    "polars": Kind(pl.from_pandas, lambda values: pl.DataFrame({"b": values})),
    "pyarrow": Kind(_arrow, lambda values: pa.table({"b": values})),
    "narwhals": Kind(
        lambda frame: nw.from_native(pl.from_pandas(frame)),
        lambda values: nw.from_native(pa.table({"b": values})),
    ),
}

NUMERIC: dict[str, list[Any]] = {
    "floats": [1.5, -2.0, 3.0] * 4,
    "whole": [1, 2, 4] * 4,
    "decimals": [Decimal("1.5"), Decimal("-2.25"), Decimal(3)] * 4,
    "truth": [True, False, True] * 4,
}
"""Columns that are numbers to a model."""

ODD: dict[str, tuple[list[Any], str]] = {
    "date": ([date(2020, 1, 1)], "dates"),
    "datetime": ([datetime(2020, 1, 1)], "dates"),
    "time": ([time(12)], "dates"),
    "duration": ([timedelta(1)], "[Dd]urations"),
    "text": (["oak", "elm"], "Encode text.*OneHotEncoder"),
    "written numbers": (["1,234", "5,678"], "without separators of thousands"),
    "list": ([[1, 2]], "leave them out"),
    "struct": ([{"a": 1}], "leave them out"),
    "binary": ([b"x"], "leave them out"),
}
"""Columns that no model takes, and what to do with them."""


def categories(kind: str, values: list[str], order: list[str]) -> Any:
    """A frame of a column of categories in an order of their own."""
    if kind == "polars":
        return pl.DataFrame({"b": pl.Series(values, dtype=pl.Enum(order))})
    return KINDS[kind].of_pandas(pd.DataFrame({"b": pd.Categorical(values, order)}))
