"""Validation and errors: every message names the argument, what was found and what to do."""

from difflib import get_close_matches
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein._types import Key


class OrnsteinError(Exception):
    """Base of every error the library raises on purpose."""


class InputError(OrnsteinError, ValueError):
    """An argument is wrong; the message says which, what was found and what to do."""


class UnstablePlanError(OrnsteinError, ValueError):
    """The chain would diverge (T2's stability test); the message names directions and remedy."""


class OptimumError(OrnsteinError, RuntimeError):
    """The optimum could not be found to the accuracy the plan needs."""


class DivergenceWarning(RuntimeWarning):
    """A chain became non-finite; the result keeps the draws up to there."""


def choice(name: str, value: Any, known: tuple[str, ...]) -> str:
    """``value`` if it is one of ``known``, else an error that suggests the nearest."""
    if isinstance(value, str) and value in known:
        return value
    near = get_close_matches(str(value), known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise InputError(f"{name}={value!r} is not known; choose one of {', '.join(known)}.{hint}")


def positive(name: str, value: Any) -> float:
    """A finite number above zero."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not (np.isfinite(number) and number > 0):
        raise InputError(f"{name} must be a finite number above 0, found {value!r}.")
    return number


def whole(name: str, value: Any, low: int = 1, high: int | None = None, why: str = "") -> int:
    """A whole number in ``[low, high]``."""
    bounds = f"at least {low}" if high is None else f"between {low} and {high}"
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_whole or value < low or (high is not None and value > high):
        suffix = f" ({why})" if why else ""
        raise InputError(f"{name} must be a whole number {bounds}{suffix}, found {value!r}.")
    return int(value)


def random_key(key: Key) -> jax.Array:
    """A typed JAX key from an integer seed, a typed key or a raw one."""
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        if key < 0:
            raise InputError(f"key must be a non-negative integer or a JAX key, found {key}.")
        return jax.random.key(int(key))
    if isinstance(key, jax.Array):
        if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.shape == ():
            return key
        if key.dtype == np.uint32 and key.ndim == 1:
            return jax.random.wrap_key_data(key)
    raise InputError(f"key must be a non-negative integer or one JAX key, found {key!r}.")


def column_names(X: Any, count: int, given: Any = None) -> tuple[str, ...] | None:
    """Names of a table's columns: as given, else a DataFrame's own, else none."""
    names = given if given is not None else getattr(X, "columns", None)
    if names is None:
        return None
    names = tuple(str(name) for name in names)
    if len(names) != count:
        raise InputError(f"feature_names has {len(names)} names for {count} columns of X.")
    return names


def table(X: Any, feature_names: Any = None) -> tuple[npt.NDArray[Any], tuple[str, ...] | None]:
    """A finite, numeric, two-dimensional table and its column names."""
    array = _numeric("X", X)
    if array.ndim != 2:
        raise InputError(
            f"X must be two-dimensional (rows, columns), found shape {array.shape}."
            + (" Use X.reshape(-1, 1) for a single column." if array.ndim == 1 else "")
        )
    if 0 in array.shape:
        raise InputError(f"X is empty: shape {array.shape}.")
    names = column_names(X, array.shape[1], feature_names)
    _finite("X", array, names)
    return array, names


def target(y: Any, rows: int) -> npt.NDArray[Any]:
    """A finite, numeric target with one value per row."""
    array = _numeric("y", y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError(f"y must be one-dimensional, found shape {array.shape}.")
    if len(array) != rows:
        raise InputError(f"X has {rows} rows but y has {len(array)} values; they must agree.")
    _finite("y", array, None)
    return array


def labels(y: npt.NDArray[Any], num_classes: int | None) -> tuple[npt.NDArray[np.int32], int]:
    """Integer class labels ``0 .. K-1`` and K."""
    rounded = np.rint(np.asarray(y, float))
    if not np.array_equal(rounded, y):
        raise InputError("y must hold whole-numbered class labels, found fractions.")
    if rounded.min() < 0:
        raise InputError(
            f"y must hold labels 0 .. K-1, found {int(rounded.min())}. "
            "Map them first, e.g. with numpy.unique(y, return_inverse=True)."
        )
    highest = int(rounded.max())
    if num_classes is None:
        num_classes = highest + 1
        missing = np.setdiff1d(np.arange(num_classes), rounded)
        if missing.size and num_classes > 1:
            raise InputError(
                f"y has no row of class {int(missing[0])} although its labels reach {highest}. "
                "Relabel with numpy.unique(y, return_inverse=True), or pass num_classes."
            )
    whole("num_classes", num_classes, low=2, why="a classifier needs two classes; check y")
    if highest >= num_classes:
        raise InputError(f"y has the label {highest}, outside 0 .. {num_classes - 1}.")
    if np.unique(rounded).size < 2:
        raise InputError(f"y holds one class only ({highest}): there is nothing to classify.")
    return rounded.astype(np.int32), num_classes


def _numeric(name: str, value: Any) -> npt.NDArray[Any]:
    if hasattr(value, "tocsr"):
        raise InputError(f"{name} is sparse; convert it with {name}.toarray() if it fits memory.")
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        found = next((v for v in array.ravel() if isinstance(v, str)), None)
        example = f", e.g. {found!r}" if found is not None else ""
        raise InputError(
            f"{name} must be numeric, found dtype {array.dtype}{example}. "
            "Encode text columns as numbers first."
        )
    return array.astype(np.int8) if array.dtype.kind == "b" else array


def _finite(name: str, array: npt.NDArray[Any], names: tuple[str, ...] | None) -> None:
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return
    bad = ~np.isfinite(array)
    if array.ndim == 1:
        where = f"in {int(bad.sum())} rows, the first being row {int(np.argmax(bad))}"
    else:
        counts = bad.sum(axis=0)
        shown = [
            f"{names[j] if names else f'column {j}'} ({int(counts[j])})"
            for j in np.flatnonzero(counts)[:5]
        ]
        where = "in " + ", ".join(shown) + (" and more" if (counts > 0).sum() > 5 else "")
    raise InputError(f"{name} has NaN or infinite values {where}. Drop or impute those rows.")
