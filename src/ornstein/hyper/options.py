"""How to learn."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ornstein import _check
from ornstein._types import PyTree


class Options(NamedTuple):
    """How to learn; see :func:`ornstein.learn`."""

    start: PyTree = None
    tolerance: float = 0.02
    moments: str = "auto"
    ascent: str = "newton"
    rounds: int | None = None
    max_plans: int = 20

    @classmethod
    def checked(cls, given: Mapping[str, Any]) -> "Options":
        """Options by name, each with a sensible value."""
        for name in given:
            _check.choice("learn_hyper", name, cls._fields)
        made = cls(**given)
        _check.positive("tolerance", made.tolerance)
        _check.choice("moments", made.moments, ("auto", "plan", "draws"))
        _check.choice("ascent", made.ascent, ("newton", "em"))
        if made.rounds is not None:
            _check.whole("rounds", made.rounds)
        _check.whole("max_plans", made.max_plans)
        return made
