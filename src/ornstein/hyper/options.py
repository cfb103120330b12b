"""How to learn."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ornstein._base import checks
from ornstein._base.types import PyTree


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
            checks.choice("learn_hyper", name, cls._fields)
        made = cls(**given)
        checks.positive("tolerance", made.tolerance)
        checks.choice("moments", made.moments, ("auto", "plan", "draws"))
        checks.choice("ascent", made.ascent, ("newton", "em"))
        if made.rounds is not None:
            checks.whole("rounds", made.rounds)
        checks.whole("max_plans", made.max_plans)
        return made
