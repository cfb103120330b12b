"""The registry: every method is one row here.

To add one, write its equation as a function of :mod:`ornstein.theory` and its row in a file of this
room; plan, runner, command line and the contract test find it by itself.
"""

from collections.abc import Mapping
from types import MappingProxyType

from ornstein._base import checks
from ornstein.planning.methods import gaussian, langevin, sgd
from ornstein.planning.methods.contract import Method, Setting, Tuned

__all__ = ["METHODS", "Method", "Setting", "Tuned", "find"]

METHODS: Mapping[str, Method] = MappingProxyType(
    {method.name: method for method in (*sgd.METHODS, *langevin.METHODS, *gaussian.METHODS)}
)
"""Every method by name."""


def find(name: str) -> Method:
    """The method of that name, or an error that lists them."""
    return METHODS[checks.choice("method", name, tuple(METHODS))]
