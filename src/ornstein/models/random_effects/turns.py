"""Large groupings in turn: of several that are crossed, one at a time has the leaves (X14).

While one moves, the effects of the other large groupings are held, so that they are a known part
of the predictor: what is left is a mixed model whose head is small. Groupings of few levels, whose
effects fit in that head, belong to every turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ornstein.linalg.small import namespace
from ornstein.models.random_effects.groupings import Grouping
from ornstein.models.random_effects.specification import Specification


class HeadLimits(NamedTuple):
    """Sizes of heads."""

    products: int = 2**27  # numbers that tie a head to its leaves, in memory
    beside: int = 40  # parameters of a turn's head, up to which small groupings belong to it
    cheap: int = 2**23  # multiplications of a factorisation with a dense head that are few anyway
    per_row: int = 50  # as many as take as long as a row in a turn


LIMITS = HeadLimits()


@dataclass(frozen=True)
class Turn:
    """A grouping's effects and the head's move, those of the ``held`` groupings do not.

    Hashable: part of compiled code. Groupings are numbers of ``whole``'s.
    """

    whole: Specification
    number: int
    kept: tuple[int, ...]
    held: tuple[int, ...]

    @cached_property
    def spec(self) -> Specification:
        """The turn's own model."""
        own = self.whole
        groupings = tuple(own.groupings[number] for number in (self.number, *self.kept))
        return Specification(own.family, own.fixed, groupings, own.noise_prior, own.auxiliary)

    @cached_property
    def hyper(self) -> npt.NDArray[np.intp]:
        """Which of all hyperparameters its model has."""
        parts = self.whole.parts(np.arange(self.whole.count))
        own = np.arange(self.whole.scales, self.whole.count)
        return np.concatenate([*(parts[number] for number in (self.number, *self.kept)), own])

    def taken(self, place: "Place") -> tuple[Any, Any]:
        """Head and leaves of its model."""
        beside = [place.effects[number].reshape(-1) for number in self.kept]
        return namespace(place.fixed).concatenate([place.fixed, *beside]), place.effects[
            self.number
        ]

    def put(self, place: "Place", phi: Any, b: Any) -> "Place":
        """The same place with head and leaves of its model."""
        effects = list(place.effects)
        effects[self.number] = b
        for number, part in zip(self.kept, self.spec.places(), strict=True):
            effects[number] = phi[part].reshape(self.whole.groupings[number].width, -1)
        return Place(phi[: self.spec.fixed], tuple(effects))


class Place(NamedTuple):
    """Fixed coefficients, (p,), and the effects of every grouping, (q, levels)."""

    fixed: Any
    effects: tuple[Any, ...]

    @classmethod
    def of(cls, spec: Specification, phi: Any, b: Any) -> "Place":
        """From head and leaves."""
        own = zip(spec.others, spec.places(), strict=True)
        others = [phi[place].reshape(grouping.width, -1) for grouping, place in own]
        return cls(phi[: spec.fixed], (b, *others))

    def joined(self) -> tuple[Any, Any]:
        """Head and leaves."""
        beside = [effects.reshape(-1) for effects in self.effects[1:]]
        return namespace(self.fixed).concatenate([self.fixed, *beside]), self.effects[0]


def turns_of(spec: Specification) -> tuple[Turn, ...]:
    """One for every grouping that is too large for the others' heads, the largest first."""
    large = _large(spec.fixed, spec.groupings)
    kept = tuple(range(large, len(spec.groupings)))
    return tuple(
        Turn(spec, number, kept, tuple(other for other in range(large) if other != number))
        for number in range(large)
    )


def _large(fixed: int, groupings: Sequence[Grouping]) -> int:
    """How many, of groupings sorted by size."""
    head, large = fixed, len(groupings)
    while large > 1 and head + groupings[large - 1].size <= LIMITS.beside:
        head += groupings[large - 1].size
        large -= 1
    return large


def in_memory(spec: Specification) -> bool:
    """Whether one arrow holds the model, all effects but the leaves' in its head."""
    return spec.head * spec.leaf.size <= LIMITS.products


def fits(spec: Specification) -> bool:
    """Whether an arrow holds the model, or one for each turn."""
    return in_memory(spec) or all(in_memory(turn.spec) for turn in turns_of(spec))


def quicker_by_turns(spec: Specification, rows: int, rounds: float = 1.0) -> bool:
    """Whether so many rounds of turns take less time than a factorisation with a dense head.

    So it is where that head does not fit in memory; a small head is quick enough.
    """
    turns = len(turns_of(spec))
    if turns == 1:
        return False
    dense = spec.head**2 * (spec.leaf.size + spec.head)
    return not in_memory(spec) or dense > max(LIMITS.cheap, LIMITS.per_row * rows * turns * rounds)
