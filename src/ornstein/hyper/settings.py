"""How to learn: what a user may set, and the limits behind it."""

from collections.abc import Mapping
from dataclasses import dataclass
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

    A *move* is the largest change of any hyperparameter on the unconstrained scale (logarithms
    for what is positive); *lengths* and *errors* are in posterior standard deviations of the
    hyperparameters, as the tolerance is.

    Attributes
    ----------
    approach_length
        The approach ends at a step of this many tolerances: short beside what the plan adds.
    approach_length_before_draws
        The same where draws follow, whose correction is about as long.
    approach_move_where_expensive
        Or at a step this short, where an expensive plan made there will hold for the rest.
    max_evaluations
        Optima that the approach may find.
    rough_optimum, far_length, far_rough_optimum
        The approach finds optima to this many times a plan's tolerance; ten times less precisely
        after a step longer than ``far_length``, since the next one moves them much further.
    same_curvature_move
        Within this move scores and curvature change smoothly: secant corrections and the
        correction by earlier draws still hold. So it is the longest step that relies on draws.
    same_draws_move
        Within this move earlier draws are used without making new ones.
    same_plan_move
        Within this move a plan's curvature and noise of the rows still hold, where planning is
        expensive and only the prior changes.
    runaway, runaway_without_optimum
        Beyond this distance from the start (a factor of 1e19, or 2e4 where there is no optimum),
        nothing constrains a hyperparameter.
    retreat, shortest_retreat
        Where a step leads to no optimum, this part of it is tried, down to the shortest step.
    scattered_error
        Monte-Carlo error of a round above which draws are too scattered to learn from.
    slowdown
        A step is undone where a draw would take this many times as many steps as before.
    long_run, share_of_run
        Where a run takes more multiplications than ``long_run``, learning makes at most
        ``share_of_run`` times its draws.
    rounds, rounds_where_expensive
        Rounds of draws at a plan, at most, if the user gives no number.
    draws_per_independent
        Draws a relaxation time apart are worth half as many independent ones.
    max_draws
        Draws of a round, in all chains, at most.
    """

    approach_length: float = 0.02
    approach_length_before_draws: float = 2.0
    approach_move_where_expensive: float = 0.1
    max_evaluations: int = 200
    rough_optimum: float = 10.0
    far_length: float = 10.0
    far_rough_optimum: float = 100.0
    same_curvature_move: float = 0.5
    same_draws_move: float = 0.1
    same_plan_move: float = 0.2
    runaway: float = 45.0
    runaway_without_optimum: float = 10.0
    retreat: float = 0.25
    shortest_retreat: float = 1e-3
    scattered_error: float = 1.0
    slowdown: float = 20.0
    long_run: float = 1e10
    share_of_run: float = 2.0
    rounds: int = 8
    rounds_where_expensive: int = 1
    draws_per_independent: float = 2.0
    max_draws: int = 10**6


LIMITS = Limits()
