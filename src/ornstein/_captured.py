"""NumPy constants that a user's function captures, turned into arguments.

JAX (seen in 0.10) remembers the device form of a captured NumPy array by the array's identity
alone: met again in the other precision it keeps its old dtype, and tracing fails. As arguments the
constants follow the precision of the call, and the user's own arrays are never touched.

Seen are floating-point arrays in closures, defaults, partials and module globals, also through
functions of the same module.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import CodeType, FunctionType
from typing import Any

import numpy as np


def constants(function: Callable[..., Any]) -> list[np.ndarray[Any, Any]]:
    """Copies of the captured floating-point arrays, in a fixed order."""
    found: list[np.ndarray[Any, Any]] = []

    def note(array: np.ndarray[Any, Any]) -> Any:
        found.append(array.copy())
        return array

    _rebuild(function, note, ())
    return found


def bind(function: Callable[..., Any], values: Sequence[Any]) -> Callable[..., Any]:
    """The function with its captured arrays replaced, in the order of :func:`constants`."""
    if not values:
        return function
    remaining = iter(values)
    return _rebuild(function, lambda _: next(remaining), ())


def _rebuild(function: Any, replace: Callable[[Any], Any], within: tuple[int, ...]) -> Any:
    """A copy of a function in which every captured array went through ``replace``."""
    if id(function) in within:  # a recursive function: its inner self stays as it is
        return function
    within = (*within, id(function))

    def visit(value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            return replace(value)
        if isinstance(value, partial | FunctionType) or hasattr(value, "__wrapped__"):
            return _rebuild(value, replace, within)
        return value

    if isinstance(function, partial):
        keywords = {name: visit(value) for name, value in function.keywords.items()}
        return partial(visit(function.func), *map(visit, function.args), **keywords)
    if not isinstance(function, FunctionType):
        inner = getattr(function, "__wrapped__", None)  # a jitted function
        return function if inner is None else _rebuild(inner, replace, within)
    cells = function.__closure__ or ()
    closure = tuple(type(cell)(visit(cell.cell_contents)) for cell in cells)
    changed = {}
    for name in dict.fromkeys(_global_names(function.__code__)):
        value = function.__globals__.get(name)
        same_module = getattr(value, "__module__", None) == function.__module__
        if isinstance(value, np.ndarray) or (isinstance(value, FunctionType) and same_module):
            changed[name] = visit(value)
    copy = FunctionType(
        function.__code__,
        {**function.__globals__, **changed},
        function.__name__,
        tuple(map(visit, function.__defaults__ or ())) or None,
        closure or None,
    )
    defaults = function.__kwdefaults__
    copy.__kwdefaults__ = {k: visit(v) for k, v in defaults.items()} if defaults else None
    return copy


def _global_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)
