"""The registry: every method is one row here.

To add one, write its equation as a function of :mod:`ornstein.theory` and its row in a file of this
room, or :func:`register` it; plans, runs, the command line and the contract test find it there.
"""

from collections.abc import Mapping
from types import MappingProxyType

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein.planning.methods import gaussian, langevin, sgd
from ornstein.planning.methods.contract import Method, Setting, Tuned

__all__ = ["METHODS", "Method", "Setting", "Tuned", "find", "register", "unregister"]

_METHODS = {method.name: method for method in (*sgd.METHODS, *langevin.METHODS, *gaussian.METHODS)}

METHODS: Mapping[str, Method] = MappingProxyType(_METHODS)
"""Every method by name."""


def register(method: Method) -> None:
    """Enter a method under its name."""
    if method.name in _METHODS:
        raise InputError(f"a method of the name {method.name!r} is registered already.")
    _METHODS[method.name] = method


def unregister(name: str) -> None:
    """Take a method out again."""
    del _METHODS[find(name).name]


def find(name: str) -> Method:
    """The method of that name, or an error that lists them."""
    return METHODS[checks.choice("method", name, tuple(METHODS))]
