"""The registry: every method is one row here.

To add one, write its equation as a function of :mod:`ornstein.theory` and its row in a file of this
room; plans, runs, the command line and the contract test find it there.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any, NamedTuple

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein.planning.methods import gaussian, hamiltonian, langevin, sgd
from ornstein.planning.methods.contract import Method, Setting, Tuned

__all__ = [
    "AUTO",
    "METHODS",
    "VARIANTS",
    "Method",
    "Setting",
    "Tuned",
    "Variant",
    "find",
    "resolve",
]

_ROWS = (*hamiltonian.METHODS, *sgd.METHODS, *langevin.METHODS, *gaussian.METHODS)
_METHODS = {method.name: method for method in _ROWS}

METHODS: Mapping[str, Method] = MappingProxyType(_METHODS)
"""Every method by name."""


AUTO = "auto"
"""The name of no method: a plan chooses one that suits."""


@contextmanager
def registered(method: Method) -> Iterator[None]:
    """A method known by its name for a while."""
    if method.name in _METHODS:
        raise InputError(f"a method of the name {method.name!r} is registered already.")
    _METHODS[method.name] = method
    try:
        yield
    finally:
        del _METHODS[method.name]


class Variant(NamedTuple):
    """A method, the structure of its gain and whether gradients are anchored; None: by default."""

    method: Method
    structure: str | None = None
    control_variates: bool | None = None


def _variants() -> Iterator[tuple[str, Variant]]:
    for method in METHODS.values():
        for structure in (None, *method.structures):
            name = method.name if structure is None else f"{method.name}-{structure}"
            yield name, Variant(method, structure)
            if method.control_variates is not None:
                other = not method.control_variates
                yield f"{name}-{'cv' if other else 'plain'}", Variant(method, structure, other)


VARIANTS: Mapping[str, Variant] = MappingProxyType(dict(_variants()))
"""Every name under which a method is known, wherever one is named.

``sgd`` is a method with the structure that suits, ``sgd-diagonal`` has a structure of its own, and
``-cv`` or ``-plain`` says whether gradients are anchored where that is not the method's default.
"""


def find(name: str) -> Variant:
    """The variant of that name, or an error that lists the methods and suggests the nearest.

    Of :data:`AUTO`, the one that is chosen where nothing speaks against it.
    """
    if name == AUTO:
        return Variant(METHODS["rotation"])
    variants = dict(_variants())  # those registered since, too
    with suppress(KeyError, TypeError):
        return variants[name]
    raise InputError(
        f"method={checks.shown(name)} is not known; choose one of {', '.join(METHODS)}, or one "
        f"with a structure, such as 'sgd-diagonal'.{checks.nearest(name, variants)}"
    )


def resolve(
    name: str, structure: str | None = None, control_variates: bool | None = None
) -> Variant:
    """A method with what its name and the arguments say of it, which must not contradict."""
    variant = find(name)
    arguments: dict[str, Any] = {"structure": structure, "control_variates": control_variates}
    given = {name: value for name, value in arguments.items() if value is not None}
    for argument, value in given.items():
        if getattr(variant, argument) not in (None, value):
            raise InputError(
                f"method={name!r} contradicts {argument}={checks.shown(value)}; use "
                f"method={variant.method.name!r} with it."
            )
    return variant._replace(**given)
