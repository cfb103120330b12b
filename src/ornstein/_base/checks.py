"""Checks of arguments: every message names the argument, what was found and what to do."""

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.errors import InputError
from ornstein._base.trees import Layout
from ornstein._base.types import Key, PyTree


def choice(name: str, value: Any, known: Collection[str]) -> str:
    """``value`` if it is one of ``known``, else an error that suggests the nearest."""
    if isinstance(value, str) and value in known:
        return value
    raise InputError(
        f"{name}={shown(value)} is not known; choose one of {', '.join(known)}."
        + nearest(value, known)
    )


def nearest(value: Any, known: Iterable[str]) -> str:
    """A sentence that suggests known words that ``value`` begins, or the nearest; or nothing."""
    words, given = list(known), str(value).lower()
    near = [word for word in words if word.startswith(given)][:3] if len(given) > 2 else []
    near = near or get_close_matches(given, words, n=1)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def shown(value: Any) -> str:
    """What was found, on one line of bounded length."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."


def a_or_an(word: str) -> str:
    """The word with its article."""
    return f"{'an' if word[:1] in 'aeiou' else 'a'} {word}"


def names_of(names: Iterable[Any]) -> str:
    """Names, the first five."""
    return few([shown(name) for name in names])


def few(texts: list[str], most: int = 5, joint: str = ", ") -> str:
    """The first of some texts, and how many more there are."""
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return joint.join(texts[:most]) + more


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table: its first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def positive(name: str, value: Any) -> float:
    """A finite number above zero."""
    number = _number(value)
    if not 0 < number < np.inf:
        raise InputError(f"{name} must be a finite number above 0, found {shown(value)}.")
    return number


def non_negative(name: str, value: Any) -> float:
    """A finite number, zero or above."""
    number = _number(value)
    if not 0 <= number < np.inf:
        raise InputError(f"{name} must be a finite number, 0 or above, found {shown(value)}.")
    return number


def _number(value: Any) -> float:
    """A real number as a float; NaN for anything else, truth values and text included."""
    try:
        if np.ndim(value) == 0 and np.asarray(value).dtype.kind in "fiuO":
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    return float("nan")


def whole(name: str, value: Any, low: int = 1, high: int | None = None, why: str = "") -> int:
    """A whole number in ``[low, high]``."""
    bounds = f"at least {low}" if high is None else f"between {low} and {high}"
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_whole or value < low or (high is not None and value > high):
        suffix = f" ({why})" if why else ""
        raise InputError(f"{name} must be a whole number {bounds}{suffix}, found {shown(value)}.")
    return int(value)


def same_layout(name: str, params: PyTree, layout: Layout) -> None:
    """Raise unless parameters, or their gradient, have the expected structure and shapes."""
    found = Layout.of(params)
    if found != layout:
        raise InputError(
            f"{name} does not fit the model's parameters: expected {layout.treedef} with shapes "
            f"{layout.shapes}, found {found.treedef} with shapes {found.shapes}."
        )


def flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False, found {shown(value)}.")
    return bool(value)


def random_key(key: Key) -> jax.Array:
    """A typed JAX key from an integer seed, a typed key or a raw one."""
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        if not 0 <= key < 2**32:  # beyond, JAX drops bits, and how many depends on the precision
            raise InputError(f"key must lie between 0 and 2**32 - 1 or be a JAX key, found {key}.")
        return jax.random.key(int(key))
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        if key.shape == ():
            return key
        raise InputError(f"key must be one JAX key, found an array of them, shape {key.shape}.")
    if isinstance(key, jax.Array | np.ndarray) and key.dtype == np.uint32 and key.ndim == 1:
        try:
            return jax.random.wrap_key_data(jnp.asarray(key))
        except TypeError:
            pass
    raise InputError(f"key must be an integer from 0 or one JAX key, found {shown(key)}.")


def column_names(names: Any, count: int) -> tuple[str, ...] | None:
    """Names of a table's columns, if it has any, made fit for tables and plots.

    They are on one line, printable, no two alike.
    """
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InputError(f"feature_names must be a list of names, found {shown(names)}.")
    names = [_printable(str(name)) or str(i) for i, name in enumerate(names)]
    if len(names) != count:
        raise InputError(f"feature_names has {len(names)} names for {count} columns of X.")
    return _distinct(names)


def _printable(name: str) -> str:
    """The name on one line, other control characters and lone surrogates escaped."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in " ".join(name.split())
    )


def _distinct(names: list[str]) -> tuple[str, ...]:
    """Repeated names numbered: a, a.1, a.2."""
    given, unique = set(names), dict[str, None]()
    for name in names:
        fresh, number = name, 0
        while fresh in unique or (number and fresh in given):
            number += 1
            fresh = f"{name}.{number}"
        unique[fresh] = None
    return tuple(unique)
