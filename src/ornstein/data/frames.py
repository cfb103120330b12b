"""Data frames of every library that narwhals knows: their columns, and the numbers in them.

Nothing is copied where a column's own memory will do. narwhals is imported when it is needed.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ornstein._base.checks import shown
from ornstein._base.errors import InputError

if TYPE_CHECKING:
    import narwhals as nw

    Series: TypeAlias = nw.Series[Any]

Content = Literal[
    "numbers",
    "truth values",
    "text",
    "categories",
    "dates or times",
    "durations",
    "complex numbers",
    "other values",
]

_BY_DTYPE: dict[str, Content] = {
    **dict.fromkeys("fiu", "numbers"),
    "b": "truth values",
    "U": "text",
    "M": "dates or times",
    "m": "durations",
    "c": "complex numbers",
}
_BY_TYPE: dict[Content, tuple[type, ...]] = {
    "text": (str,),
    "truth values": (bool, np.bool_),
    "numbers": (int, float, Decimal, np.integer, np.floating),
    "dates or times": (date, time, np.datetime64),
    "durations": (timedelta, np.timedelta64),
    "complex numbers": (complex, np.complexfloating),
}
_ENCODE = "scikit-learn's OneHotEncoder (in a ColumnTransformer), or fit it with ornstein.tables"
_REMEDIES: dict[Content, str] = {
    "numbers": "Convert it with astype(float); drop or impute missing values",
    "truth values": "Convert it with astype(float); drop or impute missing values",
    "text": f"Encode text as numbers first, e.g. with {_ENCODE}",
    "categories": f"Encode it first, e.g. with {_ENCODE}; or convert it, if they are quantities",
    "dates or times": "Turn dates into numbers first, e.g. days since the first",
    "durations": "Turn durations into numbers first, e.g. seconds",
    "complex numbers": "Split complex numbers into real and imaginary parts",
    "other values": "Turn them into columns of numbers, or leave them out",
}
_WRITTEN_NUMBER = re.compile(r"\s*[+-]?\d[\d.,'_\s]*(e[+-]?\d+)?\s*")


@dataclass(frozen=True, eq=False)
class Frame:
    """A table of columns in memory, of whatever library."""

    native: Any

    @property
    def names(self) -> list[Any]:
        """The columns' names as they are: text, unless pandas has others."""
        return list(self.native.columns) if self._like_pandas else list(_wrapped(self).columns)

    @property
    def columns(self) -> "list[Series]":
        """The columns."""
        if self._like_pandas:  # by position, as narwhals has no columns of the same name
            return [series_of(self.native.iloc[:, j]) for j in range(self.native.shape[1])]
        return list(_wrapped(self).iter_columns())

    @property
    def index(self) -> Any:
        """The labels of the rows; None unless the library has some."""
        return self.native.index if self._like_pandas else None

    def numbers(self, what: str) -> npt.NDArray[Any]:
        """All columns, (rows, columns); ``what`` is what messages call the table."""
        if self._like_pandas and all(_plain(dtype) for dtype in self.native.dtypes):
            return np.asarray(self.native)
        parts = zip(self.names, self.columns, strict=True)
        found = [numbers(f"{what}[{name!r}]", column) for name, column in parts]
        if len(found) == 1:
            return found[0][:, None]
        return np.column_stack(found) if found else np.empty(self.native.shape)

    @property
    def _like_pandas(self) -> bool:
        return hasattr(self.native, "iloc")


def _wrapped(frame: Frame) -> "nw.DataFrame[Any]":
    import narwhals as nw

    return nw.from_native(frame.native, eager_only=True)


def series_of(native: Any) -> "Series":
    """A column of any library."""
    import narwhals as nw

    return nw.from_native(native, series_only=True)


def opened(what: str, value: Any) -> "Frame | Series | None":
    """A :class:`Frame`, a narwhals series, or None if the value is neither.

    Frames whose rows are elsewhere are refused.
    """
    if isinstance(value, np.ndarray | list | tuple):
        return None
    import narwhals as nw

    native = nw.to_native(value, pass_through=True)
    if nw.dependencies.is_pandas_like_dataframe(native):
        return Frame(native)
    found = nw.from_native(native, pass_through=True, allow_series=True)
    if isinstance(found, nw.LazyFrame):
        library, kind = type(native).__module__.split(".")[0], type(native).__name__
        raise InputError(
            f"{what} is a lazy frame ({library}'s {kind}), whose rows are not there yet. Fetch "
            "them (polars: .collect(), duckdb: .arrow(), dask: .compute()), or, if they do not "
            "fit memory, write them to Parquet and use ornstein.open_rows(path)."
        )
    if isinstance(found, nw.DataFrame):
        return Frame(native)
    return found if isinstance(found, nw.Series) else None


def made(columns: Mapping[str, Any], library: Any, beside: Any = None) -> Any:
    """A frame of a library, by name, with the index of the frame beside which it will stand."""
    import narwhals as nw

    found: Any = nw.from_dict(dict(columns), backend=library).to_native()
    frame = opened("", beside)
    if isinstance(frame, Frame) and frame.index is not None and hasattr(found, "index"):
        found.index = frame.index
    return found


def like(given: Any, columns: Mapping[str, Any]) -> Any:
    """A frame of the kind of another, with its index."""
    import narwhals as nw

    found = made(columns, nw.from_native(given).implementation, given)
    return nw.from_native(found) if isinstance(given, nw.DataFrame) else found


def content(series: "Series") -> Content:
    """What a column contains."""
    import narwhals as nw

    if _is_object(series):
        return _content_of_objects(series.drop_nulls().to_list())
    dtype = series.dtype
    known: dict[Content, tuple[type, ...]] = {
        "truth values": (nw.Boolean,),
        "text": (nw.String,),
        "categories": (nw.Categorical, nw.Enum),
        "dates or times": (nw.Date, nw.Datetime, nw.Time),
        "durations": (nw.Duration,),
        "other values": (nw.List, nw.Array, nw.Struct, nw.Binary),
    }
    if dtype.is_numeric():
        return "numbers"
    found = next((content for content, kinds in known.items() if isinstance(dtype, kinds)), None)
    return found or content_of_array(_unknown(series))


def content_of_array(array: npt.NDArray[Any]) -> Content:
    """What an array contains; missing values among objects are None, NaN or pandas' own."""
    if array.dtype.kind != "O":
        return _BY_DTYPE.get(array.dtype.kind, "other values")
    missing = ("NoneType", "NAType", "NaTType")
    return _content_of_objects(v for v in array.flat if type(v).__name__ not in missing)


def _content_of_objects(values: Iterable[Any]) -> Content:
    """Of Python objects; numbers, if there are none."""
    kinds = set(map(type, values))
    if not kinds:
        return "numbers"
    if {kind.__name__ for kind in kinds} == {"Period"}:  # of pandas
        return "dates or times"
    truth = any(issubclass(kind, _BY_TYPE["truth values"]) for kind in kinds)
    for found, expected in _BY_TYPE.items():
        if all(issubclass(kind, expected) for kind in kinds):
            return "other values" if truth and found != "truth values" else found
    return "other values"


def require_numbers(what: str, series: "Series") -> None:
    """Refuse a column that contains neither numbers nor truth values."""
    found = content(series)
    if found not in ("numbers", "truth values"):
        raise InputError(not_numeric(what, found, _dtype(series), _example(series)))


def numbers(what: str, series: "Series") -> npt.NDArray[Any]:
    """A column of numbers or truth values, missing ones NaN; anything else is refused."""
    import narwhals as nw

    native, dtype = series.to_native(), series.dtype
    if _plain(getattr(native, "dtype", None)):
        return np.asarray(native)
    require_numbers(what, series)
    if not _is_object(series) and (dtype.is_numeric() or isinstance(dtype, nw.Boolean)):
        long = isinstance(dtype, nw.Decimal | nw.Int128 | nw.UInt128)
        if long or (not dtype.is_float() and series.null_count()):
            series = series.cast(nw.Float64())
        return np.asarray(series.to_numpy())
    array = _unknown(series)
    return array if array.dtype.kind in "fiub" else _numbers_of_objects(what, series)


def _numbers_of_objects(what: str, series: "Series") -> npt.NDArray[np.float64]:
    present = ~np.asarray(series.is_null().to_numpy(), bool)
    array = np.full(len(present), np.nan)
    try:
        array[present] = [float(value) for value in series.drop_nulls().to_list()]
    except (OverflowError, TypeError, ValueError) as error:
        raise InputError(f"{what} cannot be read as numbers: {error}.") from error
    return array


def not_numeric(what: str, found: Content, dtype: Any, example: Any) -> str:
    """Says what was found instead of numbers, with an example and a remedy."""
    such = f" (e.g. {shown(example)})" if example is not None else ""
    remedy = _REMEDIES[found]
    if isinstance(example, str) and _WRITTEN_NUMBER.fullmatch(example):
        remedy = "Convert numbers that are written as text, without separators of thousands"
    return f"{what} must be numeric, found {found} of dtype {dtype}{such}. {remedy}."


def _plain(dtype: Any) -> bool:
    """Whether a column is an array of numbers."""
    return isinstance(dtype, np.dtype) and dtype.kind in "fiu"


def _is_object(series: "Series") -> bool:
    """Whether a column is made of Python objects, of which narwhals sees the first few."""
    dtype = getattr(series.to_native(), "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind == "O"


def _unknown(series: "Series") -> npt.NDArray[Any]:
    """A column of a type that narwhals does not know, such as pandas' periods."""
    try:
        return np.asarray(series.to_native())
    except (TypeError, ValueError, NotImplementedError):
        return np.array([object()])


def _dtype(series: "Series") -> Any:
    native = series.to_native()
    return getattr(native, "dtype", None) or getattr(native, "type", series.dtype)


def _example(series: "Series") -> Any:
    return next(iter(series.drop_nulls().head(1).to_list()), None)
