"""Tables, targets and weights as a user gives them, checked: in memory or on disk."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ornstein._base.checks import column_names, whole
from ornstein._base.errors import InputError
from ornstein.data.frames import Frame, content_of_array, not_numeric, opened
from ornstein.data.frames import numbers as numbers_of_series
from ornstein.data.on_disk import AnyRows, RowsOnDisk, map_as_rows

if TYPE_CHECKING:
    from ornstein.data.frames import Series


def table(X: Any, feature_names: Any = None) -> tuple[AnyRows, tuple[str, ...] | None]:
    """A finite, numeric, two-dimensional table and its column names."""
    array, own = _rows("X", X)
    if array.ndim != 2:
        raise InputError(
            f"X must be two-dimensional (rows, columns), found shape {array.shape}."
            + (" Use X.reshape(-1, 1) for a single column." if array.ndim == 1 else "")
        )
    if 0 in array.shape:
        raise InputError(f"X is empty: shape {array.shape}.")
    names = column_names(own if feature_names is None else feature_names, array.shape[1])
    _finite("X", array, names)
    return array, names


def target(y: Any, rows: int) -> AnyRows:
    """A finite, numeric target with one value per row."""
    array, _ = _rows("y", y)
    if not isinstance(array, RowsOnDisk) and array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        remedy = " Open it with columns= one column." if isinstance(array, RowsOnDisk) else ""
        raise InputError(f"y must be one-dimensional, found shape {array.shape}.{remedy}")
    if len(array) != rows:
        raise InputError(f"X has {rows} rows but y has {len(array)} values; they must agree.")
    _finite("y", array, None)
    return array


def column(name: str, values: Any, rows: int) -> AnyRows:
    """Finite numbers, one per row."""
    array, _ = _rows(name, values)
    if array.shape != (rows,):
        raise InputError(
            f"{name} must hold one number for each of {rows} rows, found shape {array.shape}."
        )
    _finite(name, array, None)
    return array


def weights(sample_weight: Any, rows: int) -> npt.NDArray[np.float64]:
    """Weights of rows: finite, none below 0, some above."""
    array = _numeric("sample_weight", sample_weight)[0].astype(float)
    if array.shape != (rows,):
        raise InputError(
            f"sample_weight must hold one number for each of {rows} rows, found shape "
            f"{array.shape}."
        )
    _finite("sample_weight", array, None)
    if (array < 0).any():
        row = int(np.argmax(array < 0))
        raise InputError(
            f"sample_weight must be 0 or above, found {array[row]:g} in row {row}: a row cannot "
            "count less than not at all."
        )
    if not (array > 0).any():
        raise InputError("sample_weight is zero throughout: no row is left. Give some a weight.")
    return array


def offsets(offset: Any, rows: int) -> npt.NDArray[np.float64]:
    """Known terms of a linear predictor: finite, one for each row."""
    array = _numeric("offset", offset)[0].astype(float)
    if array.shape != (rows,):
        raise InputError(
            f"offset must hold one number for each of {rows} rows, found shape {array.shape}."
        )
    _finite("offset", array, None)
    return array


def labels(y: AnyRows, num_classes: int | None) -> tuple[AnyRows, int]:
    """Integer class labels ``0 .. K-1`` and K; of those on disk only the range is scanned."""
    if num_classes is not None:
        whole("num_classes", num_classes, low=2, why="a classifier needs two classes")
    if isinstance(y, RowsOnDisk):
        low, high = y.scan.low[0], y.scan.high[0]
        if not y.scan.whole or low < 0:
            raise InputError(
                f"y must hold class labels 0, 1, ..., found numbers from {low:g} to {high:g}"
                f"{'' if y.scan.whole else ', not all of them whole'}."
            )
        present = None
    else:
        fractions = y[np.rint(y) != y]
        if fractions.size:
            raise InputError(f"y must hold whole-numbered class labels, found {fractions[0]}.")
        present = np.unique(y)
        low, high = present[0], present[-1]
    if low == high:
        raise InputError(f"y holds one class only ({high:.0f}): there is nothing to classify.")
    if present is not None and low < 0:
        remedy = "numpy.unique(y, return_inverse=True)[1]" if present.size > 2 else "y > 0"
        raise InputError(f"y must hold labels 0 .. K-1, found {low:.0f}. Map them with {remedy}.")
    if present is not None and num_classes is None and high != present.size - 1:
        missing = int(np.argmax(present != np.arange(present.size)))
        raise InputError(
            f"y has no row of class {missing} although its labels reach {high:.0f}. Relabel "
            "with numpy.unique(y, return_inverse=True)[1]; softmax also takes num_classes."
        )
    if num_classes is not None and high >= num_classes:
        raise InputError(
            f"y has the label {high:.0f}, outside 0 .. {num_classes - 1}; raise num_classes."
        )
    return y.astype(np.int32), int(high) + 1 if num_classes is None else num_classes


def finite_numbers(name: str, value: "Frame | Series") -> npt.NDArray[Any]:
    """Numbers of a frame or series, none of them missing or infinite."""
    if isinstance(value, Frame):
        array, names = value.numbers(name), tuple(map(str, value.names))
        _finite(name, array, names)
        return array
    array = numbers_of_series(name, value)
    _finite(name, array, None)
    return array


def _rows(name: str, value: Any) -> tuple[AnyRows, Any]:
    """Numbers in memory, or those that stay on disk as they are; and names of the columns."""
    value = map_as_rows(value)
    if not isinstance(value, RowsOnDisk):
        return _numeric(name, value)
    if value.dtype.kind not in "fiub":
        raise InputError(f"{name} must be numeric, found dtype {value.dtype} in {value.source}.")
    return value, getattr(value, "columns", None)


def _numeric(name: str, value: Any) -> tuple[npt.NDArray[Any], Any]:
    """Numbers as an array, and names of the columns if it has any.

    Whole numbers beyond 32 bits become floats, which JAX does not wrap.
    """
    if hasattr(value, "tocsr"):
        raise InputError(f"{name} is sparse; convert it with {name}.toarray() if it fits memory.")
    if np.ma.is_masked(value):
        raise InputError(f"{name} has masked values. Drop or impute those rows.")
    frame = opened(name, value)
    if isinstance(frame, Frame):
        return _narrow(frame.numbers(name)), frame.names
    array = _array(name, value) if frame is None else numbers_of_series(name, frame)
    return _narrow(array), None


def _array(name: str, value: Any) -> npt.NDArray[Any]:
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is not a table of numbers: {error}") from error
    if array.dtype.kind not in "fiub":
        values = array.flat if array.dtype.kind == "O" else array.ravel()[:1].tolist()
        odd = next((value for value in values if not isinstance(value, int | float)), None)
        raise InputError(not_numeric(name, content_of_array(array), array.dtype, odd))
    return array


def _narrow(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The numbers in a type that JAX has."""
    if array.dtype.kind == "b":
        return array.astype(np.int8)
    if array.dtype.itemsize > 8:  # extended precision
        with np.errstate(over="ignore"):
            return array.astype(float)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and array.size:
        fits = int(array.min()) >= -(2**31) and int(array.max()) < 2**31
        return array if fits else array.astype(float)
    return array


def _finite(name: str, array: AnyRows, names: tuple[str, ...] | None) -> None:
    if array.dtype.kind != "f":
        return
    if isinstance(array, RowsOnDisk):
        counts, first = array.scan.bad, array.scan.first_bad
    elif np.isfinite(array).all():
        return
    else:
        bad = ~np.isfinite(array).reshape(len(array), -1)
        counts, first = bad.sum(axis=0), int(np.argmax(bad.any(axis=1)))
    if not counts.any():
        return
    if array.ndim == 1:
        where = f"in {int(counts[0])} rows, the first being row {first}"
    else:
        shown = [
            f"{names[j] if names else f'column {j}'} ({int(counts[j])})"
            for j in np.flatnonzero(counts)[:5]
        ]
        where = "in " + ", ".join(shown) + (" and more" if (counts > 0).sum() > 5 else "")
        where += f", the first being in row {first}"
    raise InputError(f"{name} has NaN or infinite values {where}. Drop or impute those rows.")
