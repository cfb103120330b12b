"""NumPy constants that a user's function captures, turned into arguments.

JAX (still so in 0.12.0) remembers the device form of a captured NumPy array by the array's identity
alone. Planning runs in double precision and a loop in single: an array that both meet keeps the
dtype of the first, and tracing or compiling fails. As arguments the constants follow the precision
of the call, and the user's own arrays are never touched. Since 0.12, an array once captured
keeps its dtype as an argument, too: outside compiled code, functions get copies (`fresh`).

Arrays are found in closures, defaults, partials and module globals, also inside lists, tuples,
dicts and objects' attributes, and through functions of the same module. Whole numbers stay
constants, since they may be shapes or indices, but as copies of at most 32 bits.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import jax
import numpy as np

_JITTED = type(jax.jit(lambda x: x))


def constants(function: Callable[..., Any]) -> list[np.ndarray[Any, Any]]:
    """Copies of the captured floating-point arrays, in a fixed order."""
    found: list[np.ndarray[Any, Any]] = []

    def note(array: np.ndarray[Any, Any]) -> Any:
        found.append(array.copy())
        return array

    _Rebuild(note).value(function)
    return found


def bind(function: Callable[..., Any], values: Sequence[Any]) -> Callable[..., Any]:
    """The function with its captured arrays replaced, in the order of :func:`constants`."""
    remaining = iter(values)
    return _Rebuild(lambda array: next(remaining, array)).value(function)


def fresh(values: Any) -> Any:
    """Copies of arrays, for a call outside compiled code: JAX has met none of them before."""
    return jax.tree.map(np.array, values)


class _Rebuild:
    """Copies functions; every captured floating-point array goes through ``replace``."""

    def __init__(self, replace: Callable[[Any], Any]) -> None:
        self.replace = replace
        self.made: dict[int, Any] = {}

    def value(self, value: Any) -> Any:
        """A function, or what it captures, with its arrays replaced; anything else as it is."""
        if isinstance(value, np.ndarray):
            if value.dtype.kind == "f":
                return self.replace(value)
            return value.astype(np.int32) if value.dtype in (np.int64, np.uint64) else value
        if isinstance(value, list | tuple | dict) and _holds_array(value):
            return jax.tree.map(self.value, value)
        if id(value) in self.made:
            return self.made[id(value)]
        if isinstance(value, partial):
            keywords = {name: self.value(part) for name, part in value.keywords.items()}
            return partial(self.value(value.func), *map(self.value, value.args), **keywords)
        if isinstance(value, MethodType):
            return MethodType(self.value(value.__func__), self.instance(value.__self__))
        if isinstance(value, _JITTED):
            inner = getattr(value, "__wrapped__", None)
            return value if inner is None else self.value(inner)
        return self.plain(value) if isinstance(value, FunctionType) else self.instance(value)

    def instance(self, owner: Any) -> Any:
        """A shallow copy of an object whose attributes hold arrays; any other as it is."""
        attributes = getattr(owner, "__dict__", None)
        if isinstance(owner, type | ModuleType) or not attributes:
            return owner
        if not _holds_array(list(attributes.values())):
            return owner
        twin = copy.copy(owner)
        for name, value in attributes.items():
            object.__setattr__(twin, name, self.value(value))
        return twin

    def plain(self, function: FunctionType) -> FunctionType:
        """A Python function with its closure, defaults and globals visited."""
        made = FunctionType(
            function.__code__,
            dict(function.__globals__),
            function.__name__,
            function.__defaults__,
            tuple(type(cell)() for cell in function.__closure__ or ()) or None,
        )
        self.made[id(function)] = made  # before its parts: it may call itself
        for old, new in zip(function.__closure__ or (), made.__closure__ or (), strict=True):
            try:
                new.cell_contents = self.value(old.cell_contents)
            except ValueError:  # not assigned yet
                continue
        for name in dict.fromkeys(_global_names(function.__code__)):
            if name not in function.__globals__:
                continue  # an attribute, or a builtin
            value = function.__globals__[name]
            inner = getattr(value, "__wrapped__", value) if isinstance(value, _JITTED) else value
            is_function = isinstance(inner, FunctionType | MethodType | partial)
            if not is_function or getattr(inner, "__module__", None) == function.__module__:
                made.__globals__[name] = self.value(value)
        made.__defaults__ = tuple(map(self.value, function.__defaults__ or ())) or None
        keywords = function.__kwdefaults__
        made.__kwdefaults__ = {k: self.value(v) for k, v in keywords.items()} if keywords else None
        return made


def _holds_array(tree: Any) -> bool:
    return any(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(tree))


def _global_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)
