"""How to learn: what a user may set, and the limits behind it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ornstein._base import checks
from ornstein._base.types import PyTree


class LearningOptions(NamedTuple):
    """How to learn; see :func:`ornstein.learn`."""

    start: PyTree = None
    tolerance: float = 0.02
    moments: str = "auto"
    ascent: str = "newton"
    rounds: int | None = None
    max_plans: int = 20

    @classmethod
    def checked(cls, given: Mapping[str, Any]) -> "LearningOptions":
        """Options by name, after checking their values."""
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


@dataclass(frozen=True)
class Limits:
    """Thresholds of the ascent.

    A *move* is the largest change of any hyperparameter on the unconstrained scale (logarithms for
    what is positive); *lengths* and *errors* are in posterior standard deviations of the
    hyperparameters, as the tolerance is.
    """

    # The approach ends at a step of so many tolerances, about the correction where draws follow; or
    # where an expensive plan will hold.
    approach_length: float = 0.02
    approach_length_before_draws: float = 2.0
    approach_move_where_expensive: float = 0.1
    max_evaluations: int = 200
    # It finds optima to so many times a plan's tolerance, more roughly while steps are long.
    rough_optimum: float = 10.0
    far_rough_optimum: float = 100.0
    far_length: float = 10.0
    # Where a step leads to no optimum, a part of it is tried, down to the shortest.
    retreat: float = 0.25
    shortest_retreat: float = 1e-3
    # So far from the start nothing constrains a hyperparameter: a factor of 1e19, or of 2e4.
    runaway: float = 45.0
    runaway_without_optimum: float = 10.0
    # Within these moves, the score's slope and its correction by draws hold (so a step that relies
    # on draws is no longer); no new draws are made; an expensive plan keeps its statistics.
    same_curvature_move: float = 0.5
    same_draws_move: float = 0.1
    same_plan_move: float = 0.2
    # Rounds of draws at a plan, at most, if the user gives no number; and draws of a round.
    rounds: int = 8
    rounds_where_expensive: int = 1
    max_draws: int = 10**6
    draws_per_independent: float = 2.0  # for draws a relaxation time apart
    scattered_error: float = 1.0  # Monte-Carlo error above which draws teach nothing
    # Where a run takes more multiplications than this, learning makes at most so many times its
    # draws; and no step leads to where a draw takes so many times as many steps.
    long_run: float = 1e10
    share_of_run: float = 2.0
    slowdown: float = 20.0


LIMITS = Limits()
