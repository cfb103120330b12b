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
    """How a kind of frame is made: of a pandas frame, and of columns of Python values."""

    of_pandas: Callable[[pd.DataFrame], Any]
    of_columns: Callable[..., Any]


def _arrow(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


def _polars(frame: pd.DataFrame) -> pl.DataFrame:
    """Categories in their own order, which a Categorical of polars has not."""
    orders: dict[Any, pl.Enum] = {
        str(name): pl.Enum(column.dtype.categories)
        for name, column in frame.items()
        if isinstance(column.dtype, pd.CategoricalDtype)
    }
    return pl.from_pandas(frame).cast(orders)


def _backed_by_arrow(**columns: list[Any]) -> pd.DataFrame:
    arrays = {name: pa.array(values) for name, values in columns.items()}
    return pd.DataFrame({k: pd.arrays.ArrowExtensionArray(array) for k, array in arrays.items()})


KINDS: dict[str, Kind] = {
    "pandas": Kind(lambda frame: frame, lambda **columns: pd.DataFrame(columns)),
    "pandas nullable": Kind(
        lambda frame: frame.convert_dtypes(),
        lambda **columns: pd.DataFrame(columns).convert_dtypes(),
    ),
    "pandas of Arrow": Kind(
        lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"), _backed_by_arrow
    ),
    "polars": Kind(_polars, lambda **columns: pl.DataFrame(columns)),
    "pyarrow": Kind(_arrow, lambda **columns: pa.table(columns)),
    "narwhals": Kind(
        lambda frame: nw.from_native(_polars(frame)),
        lambda **columns: nw.from_native(pa.table(columns)),
    ),
}

NUMERIC: dict[str, list[Any]] = {
    "floats": [1.5, -2.0, 3.0] * 4,
    "whole": [1, 2, 4] * 4,
    "decimals": [Decimal("1.50"), Decimal("-2.25"), Decimal("3.00")] * 4,
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


def categories(kind: str, values: list[Any], order: list[str], **columns: Any) -> Any:
    """A frame of a column of categories in an order of their own, and of others."""
    return KINDS[kind].of_pandas(pd.DataFrame({"b": pd.Categorical(values, order), **columns}))
