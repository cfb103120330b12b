"""What every kernel offers."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, TypeAlias

from ornstein._base import random_numbers
from ornstein._base.types import Array, PyTree
from ornstein.linalg.operators import Operator, dim_of

Gradient: TypeAlias = Callable[[Array, PyTree], Array]
"""``(position, batch) -> minibatch gradient``."""

State: TypeAlias = Any
"""A NamedTuple with a ``position``, and what else the next step needs."""


class Info(NamedTuple):
    """Diagnostics of a step."""

    gradient: Array


class Advance(Protocol):
    """One step, its randomness given."""

    def __call__(self, state: State, batch: PyTree, noise: Array | None) -> tuple[State, Info]:
        """Move."""


Noise: TypeAlias = Callable[[Array, tuple[int, ...]], Array]
"""``(key, shape) -> noise`` of shape ``(*shape, D)``."""


class Kernel(NamedTuple):
    """A sampler's step, split so that the noise of many steps can be drawn at once.

    Attributes
    ----------
    init
        ``(key, position) -> state``.
    noise
        ``(key, shape) -> injected noise of that many steps``, or None where the method injects
        none.
    advance
        ``(state, batch, noise) -> (state, info)``.
    read
        ``state -> the draw it stands for``: its position, unless said otherwise.
    """

    init: Callable[[Array, Array], State]
    noise: Noise | None
    advance: Advance
    read: Callable[[State], Array] = attrgetter("position")

    def step(self, key: Array, state: State, batch: PyTree) -> tuple[State, Info]:
        """One step, drawing its own noise."""
        return self.advance(state, batch, None if self.noise is None else self.noise(key, ()))


def gaussian(factor: Operator | None, dim: int, dtype: Any) -> Noise | None:
    """Draws ``N(0, F F')``; None for no noise."""
    if factor is None:
        return None
    size = dim_of(factor) or dim

    def draw(key: Array, shape: tuple[int, ...]) -> Array:
        return factor.matvec(random_numbers.normals(key, (*shape, size), dtype))  # type: ignore[return-value]

    return draw
