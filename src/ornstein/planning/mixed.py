"""Plans for mixed models: which steps, how many rows each, and where from."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ornstein import theory
from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.curvature.arrow_anchor import MixedAnchor, find_anchor
from ornstein.curvature.arrow_noise import RemainderNoise, remainder_noise
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.models.random_effects.rows import MixedRowsOnDisk

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
_MOST_READ = 100_000_000  # rows, by all draws of a chain, that steps with all of them should read,
_FEWEST_DRAWS = 100  # for no fewer draws
_MOST_NUMBERS = 2**27  # of all draws: 512 MiB
_UNKNOWN = 0.25  # share of the effects' variance up to which steps on disk go without a test
_MOST_AHEAD = 2**19  # numbers that a chain reads from disk for a draw: 50 MiB for 25 of them
_WORDS = {
    "gaussian": "hyperparameters with the effects integrated out, then exact draws of the rest",
    "tested": "rotation steps with all rows, every group's accepted by a test of its own (X11)",
    "minibatch": "rotation steps with few rows, control variates of second order (X10, X11)",
}


@dataclass(frozen=True, eq=False)
class MixedPlan:
    """What to run; ``print(plan)`` is a readable table.

    Attributes
    ----------
    steps
        ``gaussian``, ``tested`` or ``minibatch``.
    anchor
        Optimum, Hessian and hyperparameters to count from.
    batch_size
        Rows of a step; 0 where none are needed.
    angle, keep, thin
        Of rotation steps with few rows: how far a step turns, how much of the velocity it keeps,
        and steps per draw.
    noise
        What the rows' remainders leave in gradients; None where all rows are used.
    on_disk
        Whether rows stay on disk.
    draws
        Suggested draws per chain.
    why
        Why these steps.
    """

    steps: str
    anchor: MixedAnchor
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
        """None."""
        return ()

    def lines(self) -> list[tuple[str, str]]:
        """What will be run: names and texts."""
        rows = "none" if not self.batch_size else f"{self.batch_size:,}"
        if self.on_disk and self.batch_size:
            rows += ", read ahead"
        place = " on disk" if self.on_disk else ""
        lines = [
            ("method", _WORDS[self.steps]),
            ("because", self.why),
            ("rows, parameters", f"{self.num_data:,}{place}, {self.dim:,}"),
            ("structure", f"arrow, exact; {self.head:,} parameters held densely (X14)"),
            ("rows of a step", rows),
        ]
        if self.steps == "minibatch":
            lines.append(("rotation", f"by {self.angle:.3g} a step, {self.thin} steps a draw"))
        return lines

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
    anchor = find_anchor(post)

    def made(steps: str, size: int, why: str, **more: Any) -> MixedPlan:
        names, draws = tuple(post.fixed_labels), min(_DRAWS, _MOST_NUMBERS // (4 * spec.dim))
        if steps == "tested":
            draws = min(draws, max(_MOST_READ // N, _FEWEST_DRAWS))
        draws = max(draws, _LEAST_DRAWS)
        given = steps, anchor, size, N, spec.dim, spec.head, names, draws, why
        return MixedPlan(*given, on_disk=post.on_disk, **more)

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


def _all_needed(post: MixedPosterior, why: str) -> InputError:
    assert isinstance(post.rows, MixedRowsOnDisk)
    return InputError(
        f"{why}: every step takes all rows, and they stay on disk. {post.rows.remedy}"
    )
