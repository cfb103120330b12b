"""Dataclasses, containers and arrays as plain JSON values, and back. One codec for every file.

A class is written and read only if it was registered, so no file can make anything else:

>>> from typing import NamedTuple
>>> @register
... class Span(NamedTuple):
...     low: float
...     high: float
>>> encode({"at": Span(0.5, 2.0)})
{'at': {'$type': 'Span', 'low': 0.5, 'high': 2.0}}
>>> decode(encode({"at": Span(0.5, 2.0)}))
{'at': Span(low=0.5, high=2.0)}

An object that is met again is written as its number and is one object again when read. The reader
is strict: unknown types, missing or further fields, and values that do not fit their annotation are
a :class:`DamagedError`, whose message says where.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

import jax
import numpy as np
import numpy.typing as npt

from ornstein._base.checks import shown
from ornstein._base.errors import InputError

C = TypeVar("C", bound=type[Any])
T = TypeVar("T")

_TYPES: dict[str, type[Any]] = {}
_GIVEN: dict[type[Any], tuple[str, ...]] = {}

_WORDS = {bool: "true or false", int: "a whole number", str: "a text", NoneType: "null"}


class DamagedError(ValueError):
    """What was read is not what :func:`encode` writes."""


def register(kind: C, given: tuple[str, ...] = ()) -> C:
    """Let a frozen dataclass or a NamedTuple be written and read; may decorate it.

    Fields that are ``given`` are not written, and None when read: the reader fills them in.
    """
    if _TYPES.setdefault(kind.__name__, kind) is not kind:
        raise ValueError(f"another class is registered as {kind.__name__}")
    _GIVEN[kind] = given
    return kind


def encode(
    value: Any, array: Callable[[npt.NDArray[Any]], Any] = np.ndarray.tolist, lists: bool = False
) -> Any:
    """A value as JSON: dicts, lists, texts, numbers and None.

    It may nest registered objects, mappings, lists, tuples, arrays, texts, numbers and None; the
    rest is a TypeError. ``array`` makes what stands for an array, nested lists by default. With
    ``lists``, tuples become lists: where the reader knows better or does not care.
    """
    return _Writer(array, lists).value(value)


class _Writer:
    def __init__(self, array: Callable[[npt.NDArray[Any]], Any], lists: bool) -> None:
        self.array, self.lists = array, lists
        self.arrays: dict[int, Any] = {}  # what stands for them, by identity
        self.objects: dict[int, int] = {}  # their numbers
        self.held: list[Any] = []  # alive, so that no identity comes twice

    def value(self, value: Any) -> Any:
        if isinstance(value, np.generic):
            return value.item()
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.ndarray | jax.Array):
            if id(value) not in self.arrays:
                self.arrays[id(value)] = self.array(np.asarray(value))
                self.held.append(value)
            return self.arrays[id(value)]
        if type(value) in _GIVEN:
            return self.object(value)
        if isinstance(value, list | tuple):
            parts = [self.value(part) for part in value]
            return parts if self.lists or isinstance(value, list) else {"$tuple": parts}
        if isinstance(value, Mapping):
            if all(isinstance(name, str) and not name.startswith("$") for name in value):
                return {name: self.value(part) for name, part in value.items()}
            return {"$pairs": [[self.value(k), self.value(v)] for k, v in value.items()]}
        raise TypeError(f"a file cannot hold a {type(value).__name__}")

    def object(self, value: Any) -> dict[str, Any]:
        if id(value) in self.objects:
            return {"$same": self.objects[id(value)]}
        kind = type(value)
        parts = {name: self.value(getattr(value, name)) for name in _names(kind)}
        self.objects[id(value)] = len(self.objects)
        self.held.append(value)
        return {"$type": kind.__name__, **parts}


def decode(tree: Any, array: Callable[[Any], npt.NDArray[Any]] | None = None) -> Any:
    """What :func:`encode` was given; ``array`` turns what stands for an array into one."""
    return _Reader(array).value(tree, "")


class _Reader:
    def __init__(self, array: Callable[[Any], npt.NDArray[Any]] | None) -> None:
        self.array = array
        self.made: list[Any] = []

    def value(self, tree: Any, where: str) -> Any:
        if isinstance(tree, list):
            return [self.value(part, f"{where}[{i}]") for i, part in enumerate(tree)]
        if not isinstance(tree, dict):
            return tree
        if "$type" in tree:
            return self.object(tree, where)
        tag = next((name for name in tree if name.startswith("$")), None)
        if tag is None:
            return {name: self.value(part, f"{where}.{name}") for name, part in tree.items()}
        try:
            (content,) = tree.values()
            if tag == "$array" and self.array is not None:
                return self.array(content)
            if tag == "$same":
                return self.made[content]
            if tag == "$tuple":
                return tuple(self.value(list(content), where))
            if tag == "$pairs":
                return dict(map(tuple, self.value(list(content), where)))
        except (TypeError, ValueError, IndexError) as error:
            if isinstance(error, DamagedError):
                raise
            _fail(where, f"what {tag} stands for", tree)
        return _fail(where, "of a known kind", tag)

    def object(self, tree: dict[str, Any], where: str) -> Any:
        name = tree["$type"]
        kind = _TYPES.get(name) if isinstance(name, str) else None
        if kind is None:
            _fail(f"{where}.$type", "a known type", name)
        names, hints = _names(kind), get_type_hints(kind)
        if set(tree) != {"$type", *names}:
            _fail(where, f"an object of {', '.join(names)}", sorted(set(tree) - {"$type"}))
        values = dict.fromkeys(_GIVEN[kind])
        for name in names:
            place = f"{where}.{name}"
            values[name] = _fitted(self.value(tree[name], place), hints[name], place)
        try:
            self.made.append(kind(**values))
        except (TypeError, ValueError) as error:
            raise DamagedError(f"{where.lstrip('.') or kind.__name__}: {error}") from error
        return self.made[-1]


def _fitted(value: Any, hint: Any, where: str) -> Any:
    """A value that fits an annotation: lists become tuples or arrays where it says so."""
    kind, parts = _origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        for part in parts:
            with suppress(DamagedError):
                return _fitted(value, part, where)
        return _fitted(value, parts[0], where)
    if kind is Literal:
        return value if value in parts else _fail(where, f"one of {parts}", value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind in (np.ndarray, jax.Array):
        if isinstance(value, np.ndarray) or is_number:
            return value
        with suppress(TypeError, ValueError):
            return np.asarray(value if isinstance(value, list) else "", float)
        _fail(where, "an array of numbers", value)
    if kind in (tuple, list) and parts:
        if not isinstance(value, list | tuple):
            _fail(where, "a list", value)
        each = parts if kind is tuple and ... not in parts else parts[:1] * len(value)
        if len(each) != len(value):
            _fail(where, f"a list of {len(each)}", value)
        found = (
            _fitted(part, inner, f"{where}[{i}]")
            for i, (part, inner) in enumerate(zip(value, each, strict=True))
        )
        return kind(found)
    if kind in (dict, Mapping):
        if not isinstance(value, dict):
            _fail(where, "an object", value)
        inner = parts[1] if parts else Any
        return {name: _fitted(part, inner, f"{where}.{name}") for name, part in value.items()}
    if kind is float:
        return value if is_number else _fail(where, "a number", value)
    if kind in _WORDS:
        return value if type(value) is kind else _fail(where, _WORDS[kind], value)
    if kind in _GIVEN and not isinstance(value, kind):
        _fail(where, f"an object of type {kind.__name__}", value)
    return value


def _origin(hint: Any) -> Any:
    """What an annotation is a case of; aliases that ``type`` makes (NumPy 2.5's) are followed."""
    kind = get_origin(hint) or hint
    return _origin(kind.__value__) if hasattr(kind, "__value__") else kind


def _names(kind: type[Any]) -> tuple[str, ...]:
    names = [f.name for f in fields(kind)] if is_dataclass(kind) else list(kind._fields)
    return tuple(name for name in names if name not in _GIVEN[kind])


def _fail(where: str, expected: str, found: Any) -> NoReturn:
    place = where.lstrip(".") or "the whole"
    raise DamagedError(f"{place} must be {expected}, found {shown(found)}")


def to_json(value: Any, version: int) -> str:
    """A registered object as JSON for people to read, in ASCII; tuples and arrays as lists."""
    record = encode(value, lists=True)
    return json.dumps({"version": version, **record}, indent=1, allow_nan=False)


def from_json(text: str | bytes, kind: type[T], version: int, what: str) -> T:
    """Read what :func:`to_json` wrote; anything else is an InputError that names ``what``."""
    try:
        found = json.loads(text, object_pairs_hook=_without_repeats)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{what} is damaged: it is not JSON ({error}).") from error
    if not isinstance(found, dict):
        raise InputError(f"{what} is damaged: the whole must be an object, found {shown(found)}.")
    written = found.pop("version", None)
    if type(written) is not int or written != version:
        raise InputError(
            f"{what} has version {shown(written)}; this release reads version {version}. Make it "
            "again, or use the release that wrote it."
        )
    try:
        value: T = _fitted(decode({"$type": kind.__name__, **found}), kind, "")
    except (DamagedError, RecursionError) as error:
        raise InputError(f"{what} is damaged: {str(error).rstrip('.')}.") from error
    return value


def _without_repeats(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("an object names a key twice")
    return record
