"""The approach: from optimum to optimum, to where the Gaussian posterior's mean score vanishes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np

from ornstein._base.errors import InputError, OptimumError
from ornstein._base.types import Vector
from ornstein.curvature.estimation import Geometry
from ornstein.hyper.climb import Climb, corrected, distance
from ornstein.hyper.expectation import (
    Expectation,
    closed_information,
    closed_step,
    expect,
    foreseen,
    look,
    posterior_cov,
)
from ornstein.hyper.options import Options
from ornstein.models.posterior import Posterior

_APPROACH = 0.02  # of the tolerance
_NEAR = 2.0  # the same, where draws will correct it
_LOOKS = 200
_ROUGH = 10.0  # times the tolerance of a plan's optimum; ten times that from afar
_AFAR = 10.0  # posterior standard deviations of the hyperparameters
_RUNAWAY = 45.0  # on the unconstrained scale: a factor of 1e19
_FAR = 10.0  # the same, where there is no optimum any more
SLOWLY = 0.5  # what was seen within this distance on that scale still counts
STILL = 0.1  # the same, so nearly that draws need not be made again,
STANDS = 0.2  # and that what a plan saw of the rows holds

Found = TypeVar("Found")


@dataclass
class Trail:
    """Where the ascent has been."""

    etas: list[Vector] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)

    def note(self, eta: Vector, stage: str) -> None:
        """Another step: where, and what was done there."""
        self.etas.append(eta)
        self.stages.append(stage)


def next_step(
    post: Posterior, climb: Climb, found: Expectation, score: Vector, ascent: str
) -> tuple[Vector, Climb]:
    """Newton's on the evidence, or variational EM's M-step.

    Where the M-step is known in closed form, Newton's looks for where it vanishes: next to the
    score it is nearly linear in ``eta``, so that fewer steps are made from afar.
    """
    if ascent == "newton":
        if post.learnable.ties is not None:
            known = np.maximum(np.diag(closed_information(post, score)), 0.0)
            score = known * closed_step(post, score)
        return climb.step(score, found.information, np.diag(found.complete))
    if post.learnable.ties is not None:
        return closed_step(post, score), climb
    return climb.step(score, found.complete, np.diag(found.complete))


def approach(
    post: Posterior, eta: Vector, options: Options, trail: Trail, drawn: bool
) -> tuple[Posterior, Vector, Geometry | None]:
    """To where the mean score of the Gaussian posterior vanishes, and what was seen last."""
    climb, origin, last = Climb.start(len(eta)), eta, eta
    before: Vector | None = None
    seen: Geometry | None = None
    length = np.inf
    for _ in range(_LOOKS):
        refuse_runaway(post, eta, origin)
        coarse = length > _AFAR
        slack = _ROUGH * (10 if coarse else 1)
        rough = partial(look, few_rows=True, slack=slack, near=seen)
        try:
            post, seen = from_there(rough, post, eta, seen)
        except OptimumError:
            refuse_runaway(post, eta, origin, _FAR)
            if np.abs(eta - last).max() < 1e-3:
                raise
            eta = last + 0.25 * (eta - last)
            continue
        trail.note(eta, "look")
        found, _ = expect(post, seen, posterior_cov(seen))
        if before is not None and np.abs(eta - last).max() <= SLOWLY:
            fall = before - found.score
            found = found._replace(information=corrected(found.information, eta - last, fall))
        before = None if coarse else found.score
        length = distance(found.score, found.information, np.diag(found.complete))
        step, climb = next_step(post, climb, found, found.score, options.ascent)
        last, eta = eta, eta + step
        enough = _NEAR if drawn else _APPROACH
        if length <= enough * options.tolerance:
            break
        if drawn and plans_stand(post, seen) and np.abs(step).max() <= STILL:
            break
    return post, eta, seen


def plans_stand(post: Posterior, seen: Geometry) -> bool:
    """Whether plans are dear, and hold where no hyperparameter has moved by much."""
    within_prior = not post.learnable.in_likelihood and not post.on_disk
    return seen.in_factors and within_prior


def from_there(
    search: Callable[[Posterior], Found], post: Posterior, eta: Vector, seen: Geometry | None
) -> Found:
    """What a search at other hyperparameters finds, by what was seen at the last optimum.

    From there itself where that leads astray: far extrapolations may.
    """
    values = post.learnable.host_values(eta)
    if seen is not None:
        try:
            return search(foreseen(post, values, seen))
        except OptimumError:
            pass
    return search(post.with_hyper(values))


def refuse_runaway(post: Posterior, eta: Vector, origin: Vector, limit: float = _RUNAWAY) -> None:
    """Raise where a hyperparameter has gone so far that nothing will stop it."""
    far = int(np.argmax(np.abs(eta - origin)))
    if abs(eta[far] - origin[far]) > limit:
        raise InputError(
            f"{post.learnable.labels[far]} grows or shrinks without end: nothing holds it. A "
            "log_prior that takes hyperparameters must be normalised, e.g. 0.5 log(precision) - "
            "0.5 precision theta^2 for a normal; or fix this hyperparameter."
        )
