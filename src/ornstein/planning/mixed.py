"""Plans for mixed models: which steps, how many rows each, and where from."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ornstein import theory
from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.curvature.arrow_anchor import MixedAnchor, find_anchor
from ornstein.curvature.arrow_noise import RemainderNoise, remainder_noise
from ornstein.curvature.turns_anchor import (
    TurnsAnchor,
    coupling,
    find_turns,
    left_by_round,
)
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.models.random_effects.rows import MixedRowsOnDisk
from ornstein.models.random_effects.turns import in_memory, quicker_by_turns

ANGLE = 0.8  # of steps with few rows; two make a draw
_QUARTER = math.pi / 2  # the same where the posterior is nearly Gaussian: one makes a draw
_BEND = 0.15  # up to which it is: a quarter turn then errs by a hundredth in variances
_NOISE = 0.3  # of a velocity's refreshment that the rows' noise may make up
_KICK = 1.5  # standard deviations by which a row may move a coordinate
_FEWEST = 200  # rows of a batch
_SMALL = 50_000  # rows up to which all are used
_SHARE = 1 / 30  # of the rows, beyond which steps with all of them, tested, are worth their cost
_DRAWS = 500  # a chain
_LEAST_DRAWS = 25
_MOST_READ = 200_000_000  # rows, by all draws of a chain, that steps with all of them should read,
_FEWEST_DRAWS = 200  # for no fewer draws
_MOST_NUMBERS = 2**27  # of all draws: 512 MiB
_UNKNOWN = 0.25  # share of the effects' variance up to which steps on disk go without a test
_MOST_AHEAD = 2**19  # numbers that a chain reads from disk for a draw: 50 MiB for 25 of them
_LEFT = 0.15  # of the slowest direction from draw to draw, for which rounds of turns are made,
_MOST_ROUNDS = 20  # but not more for a draw
_FEWEST_OF_TURNS = 150  # draws, that these are enough
_SLOW = 0.2  # share of draws that count, of the slowest direction
_WORDS = {
    "gaussian": "hyperparameters with the effects integrated out, then exact draws of the rest",
    "tested": "rotation steps with all rows, every group's accepted by a test of its own (X11)",
    "minibatch": "rotation steps with few rows, control variates of second order (X10, X11)",
    "turns": "every large group in turn with the coefficients, the others held",
}


@dataclass(frozen=True, eq=False)
class MixedPlan:
    """What to run; ``print(plan)`` is a readable table.

    Attributes
    ----------
    steps
        ``gaussian``, ``tested``, ``minibatch`` or ``turns``.
    anchor
        Optimum, Hessian and hyperparameters to count from.
    batch_size
        Rows of a step; 0 where none are needed.
    angle, keep, thin
        Of rotation steps with few rows: how far a step turns, how much of the velocity it keeps,
        and steps per draw; ``thin`` also rounds of turns per draw.
    noise
        What the rows' remainders leave in gradients; None where all rows are used.
    on_disk
        Whether rows stay on disk.
    draws
        Suggested draws per chain.
    why
        Why these steps.
    turns, coupling, left
        Groups that take turns, how strongly their effects depend on each other (0 to 1), and what a
        round leaves of the slowest direction.
    """

    steps: str
    anchor: MixedAnchor | TurnsAnchor
    batch_size: int
    num_data: int
    dim: int
    head: int
    labels: tuple[str, ...]
    draws: int
    why: str
    angle: float = math.pi / 2
    keep: float = 0.0
    thin: int = 1
    noise: RemainderNoise | None = None
    on_disk: bool = False
    turns: tuple[str, ...] = ()
    coupling: float = 0.0
    left: float = 0.0

    @property
    def slowest(self) -> float:
        """Of turns, the share of draws that count as effective in the slowest direction."""
        kept = float(self.left**self.thin)
        return (1 - kept) / (1 + kept)

    @property
    def lengths(self) -> tuple[int, ...]:
        """The shape of the steps' lengths: every turn has its own."""
        return (len(self.turns),) if self.turns else ()

    @property
    def method(self) -> str:
        """As other plans have it."""
        return f"mixed ({self.steps})"

    @property
    def injected(self) -> tuple[Vector, Vector]:
        """Standard deviations of the velocity's noise, by head and leaves: less where rows add."""
        assert self.noise is not None
        found = []
        for variance in (self.noise.head, self.noise.leaf):
            added = theory.kick(self.angle) ** 2 * variance / self.batch_size
            own = theory.velocity_noise(self.angle, self.keep, added)
            found.append(np.sqrt(np.maximum(own, 0.0)))
        return found[0], found[1]

    def __repr__(self) -> str:
        """One line."""
        return f"MixedPlan({self.steps}, batch_size={self.batch_size}, draws={self.draws})"

    @property
    def target(self) -> str:
        """What draws aim at, as other plans have it."""
        return "posterior"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Of groups that all but determine each other's effects."""
        if self.slowest >= _SLOW:
            return ()
        return (
            f"the effects of {checks.names_of(self.turns)} can hardly be told apart (coupling "
            f"{self.coupling:.4f}): one of these groups is nested in another, or parts of the data "
            f"share no levels. In that direction {1 / self.slowest:,.0f} draws count as one: trust "
            "these effects, and the standard deviations, only after many draws (draws=), or leave "
            "one of the groups out.",
        )

    def lines(self) -> list[tuple[str, str]]:
        """What will be run: names and texts."""
        rows = "none" if not self.batch_size else f"{self.batch_size:,}"
        if self.on_disk and self.batch_size:
            rows += ", read ahead"
        place = " on disk" if self.on_disk else ""
        structure = f"arrow, exact; {self.head:,} parameters held densely (X14)"
        if self.turns:
            structure = f"arrow of each of {checks.names_of(self.turns)} in turn (X14)"
        lines = [
            ("method", _WORDS[self.steps]),
            ("because", self.why),
            ("rows, parameters", f"{self.num_data:,}{place}, {self.dim:,}"),
            ("structure", structure),
            ("rows of a step", rows),
        ]
        if self.steps == "minibatch":
            lines.append(("rotation", f"by {self.angle:.3g} a step, {self.thin} steps a draw"))
        if self.turns:
            makes = "one makes" if self.thin == 1 else f"{self.thin} make"
            lines.append(
                (
                    "coupling",
                    f"{self.coupling:.3g}: a round of turns leaves {self.left:.2g} of the slowest "
                    f"direction; {makes} a draw",
                )
            )
        return [*lines, *(("warning", text) for text in self.warnings)]

    def __str__(self) -> str:
        """A readable table."""
        lines = [*self.lines(), ("suggested run", f"{self.draws:,} draws a chain")]
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in lines)


def plan_mixed(post: MixedPosterior, batch_size: int | None = None, **unknown: Any) -> MixedPlan:
    """The optimum, and the steps that suit: those with few rows where their noise allows it."""
    if unknown:
        raise InputError(
            f"a mixed model's plan takes batch_size only, found {checks.names_of(unknown)}."
        )
    N, spec = post.num_data, post.specification
    if batch_size is not None:
        checks.whole("batch_size", batch_size, high=N, why=f"the data has {N} rows")
    if post.on_disk:
        _require_few(post)
    in_turn = None if post.on_disk else _in_turn(post)

    def planned(
        anchor: MixedAnchor | TurnsAnchor, steps: str, size: int, why: str, **more: Any
    ) -> MixedPlan:
        names, draws = tuple(post.fixed_labels), min(_DRAWS, _MOST_NUMBERS // (4 * spec.dim))
        if steps in ("tested", "turns"):
            fewest = _FEWEST_OF_TURNS if steps == "turns" else _FEWEST_DRAWS
            passes = more.get("thin", 1) * max(1, len(more.get("turns", ())))
            draws = min(draws, max(_MOST_READ // (passes * N), fewest))
        draws = max(draws, _LEAST_DRAWS)
        given = steps, anchor, size, N, spec.dim, spec.head, names, draws, why
        return MixedPlan(*given, on_disk=post.on_disk, **more)

    if in_turn:
        if batch_size is not None:
            raise InputError(
                "several groups are large, and take turns with all rows; leave batch_size out."
            )
        why = f"beside {spec.leaf.name}, there are {spec.head:,} effects and coefficients"
        return planned(steps="turns", size=N, why=why, **in_turn._asdict())
    anchor = find_anchor(post)
    made = partial(planned, anchor)
    if spec.noise_prior is not None:
        if batch_size is not None:
            raise InputError("a Gaussian mixed model needs no rows; leave batch_size out.")
        return made("gaussian", 0, "given the standard deviations the posterior is Gaussian")
    if not post.on_disk and (batch_size == N or (batch_size is None and N <= _SMALL)):
        return made("tested", N, "all rows are few enough")
    if spec.others or spec.auxiliary:
        drawn = checks.few(spec.hyper_labels()[-len(spec.auxiliary) :])
        what = "there are several groups" if spec.others else f"{drawn} is drawn too"
        if batch_size is not None:
            raise InputError(
                f"{what}, and batch_size is for models of one group and no parameters of the "
                "family's own: steps take all rows. Leave it out."
            )
        return made("tested", N, what)
    noise = remainder_noise(post, anchor)
    angle, thin = (_QUARTER, 1) if noise.bend < _BEND else (ANGLE, 2)
    keep, kick = theory.critical_keep(angle), theory.kick(angle)
    by_noise = kick**2 * noise.largest / (_NOISE * (1 - keep**2))
    by_row = kick * noise.kick / _KICK
    wanted = math.ceil(max(_FEWEST, by_noise, by_row, noise.on_scales))
    per = f"with {N / spec.leaf.levels:.3g} rows a group"
    if post.on_disk:
        most = _MOST_AHEAD // (thin * (spec.fixed + spec.leaf.width + 4))
        if batch_size is not None:
            checks.whole("batch_size", batch_size, high=most, why="25 draws' rows are held at once")
        if noise.share > _UNKNOWN:
            raise _all_needed(post, f"{per}, steps need a test to be exact")
        if wanted > min(N, most):
            raise _all_needed(post, f"{per}, few rows would be too noisy")
    elif batch_size is None and wanted > _SHARE * N:
        return made("tested", N, f"{per}, few rows would be too noisy")
    why = f"{wanted:,} rows leave little noise"
    more = {"angle": angle, "keep": keep, "thin": thin, "noise": noise}
    return made("minibatch", batch_size or wanted, why, **more)


def _require_few(post: MixedPosterior) -> None:
    """Raise early if a model's steps take all rows, which are on disk."""
    spec = post.specification
    if spec.noise_prior is None and spec.others:
        raise _all_needed(post, "there are several groups")
    if not in_memory(spec):
        raise _all_needed(post, "several groups are large, and take turns")


def _all_needed(post: MixedPosterior, why: str) -> InputError:
    assert isinstance(post.rows, MixedRowsOnDisk)
    return InputError(
        f"{why}: every step takes all rows, and they stay on disk. {post.rows.remedy}"
    )


class _InTurn(NamedTuple):
    """What a plan says of turns."""

    anchor: TurnsAnchor
    turns: tuple[str, ...]
    coupling: float
    left: float
    thin: int


def _in_turn(post: MixedPosterior) -> _InTurn | None:
    """If large groupings should take turns: one dense head is too large, or slower."""
    spec = post.specification
    if not quicker_by_turns(spec, post.num_data):
        return None
    anchor = find_turns(post)
    names = tuple(spec.groupings[model.turn.number].name for model in anchor.models)
    coupled = coupling(post, anchor)
    left = left_by_round(coupled, len(names))
    if not quicker_by_turns(spec, post.num_data, 1 / (1 - left)):
        return None
    rounds = math.ceil(math.log(_LEFT) / math.log(max(left, 1e-9)))
    return _InTurn(anchor, names, coupled, left, min(rounds, _MOST_ROUNDS))
