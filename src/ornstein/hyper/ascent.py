"""Variational EM: the hyperparameters at which the sampler's own score has mean zero.

1. *Approach*: from optimum to optimum, with the Gaussian posterior's moments (of some rows where
   all would take long), until Newton's step on the evidence is a fiftieth of the tolerance, or
   twice the tolerance where draws will follow, or so short that a dear plan made there will hold
   for what is left: it is made, and leads much nearer.
2. *Plan* the sampler there. Its stationary distribution is q: by T2, ``N(optimum, predicted_cov)``.
3. Where the posterior is not Gaussian, *rounds* of draws: the chains go on from where they are, and
   the running mean of measured less predicted scores corrects the prediction. Every round counts
   by its number of draws, so that the weight of a new one decreases as ``1 / t``.
4. Step, and plan again, until the step is short. A step that rests on draws is no longer than a
   factor of 1.6, and is taken back where the chains there would mix so much slower that sampling
   would take far longer. Where draws take long, learning makes at most twice as many as the run
   it precedes; where plans do, curvature and noise of the rows are kept while no hyperparameter
   moves by more than a fifth, and only the optimum is found again.

**When it stops.** When the step to where the mean score vanishes is shorter than ``tolerance``
posterior standard deviations of the hyperparameters, plus twice its Monte-Carlo error, and that
error is below ``tolerance`` too (or the draws are spent). Half the squared length is what the step
would add to the log evidence: 0.0002 nats at the default, and as much again by Monte-Carlo error. A
last step that without that error, whose square adds to its own, is longer than ``tolerance`` is
made, and planned for; a shorter one is not worth a plan.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

from ornstein._base.errors import InputError
from ornstein._base.types import PyTree, Vector
from ornstein.curvature.geometry import Geometry
from ornstein.hyper.approach import (
    SLOWLY,
    STANDS,
    STILL,
    Trail,
    approach,
    from_there,
    next_step,
    plans_stand,
    refuse_runaway,
)
from ornstein.hyper.climb import Climb, covariance, distance
from ornstein.hyper.expectation import Expectation, drawn_cov, expect, measured_scores
from ornstein.hyper.notes import inexact, notes
from ornstein.hyper.options import Options
from ornstein.hyper.record import Learning
from ornstein.models.posterior import Posterior
from ornstein.planning.planner import plan as make_plan
from ornstein.planning.planner import replan
from ornstein.planning.plans import Plan

_HOPELESS = 1.0  # Monte-Carlo error, in the same units as the tolerance
_SLOWER = 20  # times as many steps for a draw as before
_SHARE = 2  # times the run's own draws, which learning may make where they take long
_LONG = 1e10  # multiplications
_ROUNDS = 8
_CORRELATED = 2.0  # draws a relaxation time apart are worth half as many independent ones
_MOST_DRAWS = 10**6
_BATCHES = 8  # batches a chain is cut into for Monte-Carlo errors

_SCATTERED = (
    "; the draws scatter too widely to learn from, and the plan's moments are used (row A4 of the "
    "diagnosis)"
)

Draw: TypeAlias = Callable[[Posterior, Plan, int, int, Vector | None], Vector]
"""``(post, plan, round, draws wanted in all, last draws) -> draws`` (chains, draws, D)."""


@dataclass
class _Corrections:
    """Measured less predicted scores, and the covariance of their mean."""

    at: Vector
    parts: list[Vector] = field(default_factory=list)

    def near(self, eta: Vector) -> "_Corrections":
        """These, if made near enough."""
        return self if np.abs(eta - self.at).max() <= SLOWLY else _Corrections(eta)

    def add(self, scores: Vector, predicted: Vector) -> None:
        """A round's scores (chains, draws, J), cut into batches."""
        chains, draws, count = scores.shape
        batches = max(1, min(_BATCHES, draws // 2))
        length = draws // batches
        cut = scores[:, : batches * length].reshape(chains * batches, length, count)
        self.parts.append(cut.mean(axis=1) - predicted)

    def mean(self) -> tuple[Vector, Vector]:
        """The mean over all batches, and its covariance."""
        parts = np.concatenate(self.parts)
        spread = np.atleast_2d(np.cov(parts, rowvar=False)) if len(parts) > 1 else np.inf
        return parts.mean(axis=0), spread / len(parts) * np.ones((parts.shape[1],) * 2)


class _End(NamedTuple):
    """Where the search came to rest, or gave up."""

    post: Posterior
    plan: Plan
    eta: Vector
    found: Expectation
    error: Vector
    converged: bool
    message: str


def ascend(
    post: Posterior,
    plan_options: Mapping[str, Any],
    options: Options,
    draw: Draw,
    draws: int | None = None,
) -> tuple[Posterior, Plan, Learning]:
    """Learn; returns the posterior at the learned values, its plan and the record.

    ``draws`` are those that each chain is to make afterwards, the plan's own if not given.
    """
    began = perf_counter()
    known, trail = post.learnable, Trail()
    start = post.hyperparameters if options.start is None else options.start
    eta = known.to_real(known.checked("start", start))
    if plan_options.get("at") is not None:
        raise InputError(
            "at= fixes the optimum, which moves with the hyperparameters; leave it out."
        )
    search = _Search(post, dict(plan_options), options, draw, draws, trail)
    drawn = search.moments == "draws"
    search.post, eta, search.seen = approach(post, eta, options, trail, drawn)
    resting = eta.copy()
    end = search.run(eta)
    cov = covariance(end.found.information, np.diag(end.found.complete))
    deviations = np.sqrt(np.diag(cov))
    plans = trail.stages.count("plan")
    values = known.host_values(end.eta)
    learning = Learning(
        values=values,
        errors=_in_own_units(end, values),
        deviations=deviations,
        bias=end.eta - resting if inexact(end.plan) else np.zeros_like(eta),
        path=known.host_values(np.stack(trail.etas)),
        stages=tuple(trail.stages),
        replans=plans - 1,
        converged=end.converged,
        message=end.message,
        notes=tuple(notes(end.post, end.plan, end.eta, resting, deviations)),
        seconds=perf_counter() - began,
        labels=tuple(known.labels),
        layout=known.layout,
    )
    return end.post, end.plan, learning


def _in_own_units(end: _End, values: PyTree) -> PyTree:
    """Monte-Carlo errors of the values themselves, by the slope of their constraints."""
    known, h = end.post.learnable, 1e-5
    above, below = known.host_values(end.eta + h), known.host_values(end.eta - h)
    errors = known.layout.unravel(end.error)
    return jax.tree.map(
        lambda up, down, error, value: (np.abs(up - down) / (2 * h) * error).reshape(value.shape),
        above,
        below,
        errors,
        values,
    )


class _Search:
    """Plans and rounds of draws."""

    def __init__(
        self,
        post: Posterior,
        plan_options: dict[str, Any],
        options: Options,
        draw: Draw,
        draws: int | None,
        trail: Trail,
    ) -> None:
        self.post, self.plan_options, self.options = post, plan_options, options
        self.draw, self.draws, self.trail = draw, draws, trail
        self.steps, self.remark = 0, ""
        automatic = "plan" if post.quadratic else "draws"
        self.moments = automatic if options.moments == "auto" else options.moments
        self.round = 0
        self.last: Vector | None = None
        self.seen: Geometry | None = None
        self.planned: tuple[Plan, Vector] | None = None

    def run(self, eta: Vector) -> _End:
        """Plan, measure, step, until the step is short."""
        options, origin = self.options, eta
        climb, corrections = Climb.start(len(eta)), _Corrections(eta)
        step, plan, slow = np.zeros_like(eta), None, False
        for plans in range(1, options.max_plans + 1):
            refuse_runaway(self.post, eta, origin)
            before, last = self.post, plan
            plan = self._plan(eta)
            if last is not None and plan.thin > _SLOWER * last.thin:
                slow = True
                self.remark += (
                    f"; a draw takes {plan.thin:,} steps at {self._shown(eta)}, {last.thin} here"
                )
                self.post, plan, eta = before, last, eta - step
                self.trail.note(eta, "back")
                break
            corrections = corrections.near(eta)
            found, score, error = self._expect(plan, corrections)
            scale = np.diag(found.complete)
            length = distance(score, found.information, scale)
            cov = covariance(found.information, scale)
            noise = np.sqrt(max(0.0, float(np.trace(cov @ error))))
            if length <= options.tolerance + 2 * noise or plans == options.max_plans:
                break
            step, climb = next_step(self.post, climb, found, score, options.ascent)
            step = self._limited(step)
            eta = eta + step
        near = length <= options.tolerance + 2 * noise
        converged = near and noise <= options.tolerance and not slow
        if np.sqrt(max(0.0, length**2 - noise**2)) > options.tolerance and not slow:
            eta = eta + self._limited(next_step(self.post, climb, found, score, "newton")[0])
            plan = self._plan(eta)
        message = (
            f"{'converged' if converged else 'not converged'}: the last step was {length:.3f} of "
            f"the hyperparameters' posterior standard deviations (tolerance {options.tolerance:g}, "
            f"Monte-Carlo error {noise:.3f}){self.remark}"
        )
        errors = np.sqrt(np.diag(cov @ error @ cov))
        assert plan is not None
        return _End(self.post, plan, eta, found, errors, converged, message)

    def _spent(self, plan: Plan) -> bool:
        """Whether learning has made its share of draws, where they take long."""
        work = plan.draws * plan.thin * plan.batch_size * plan.dim
        return work > _LONG and self.steps >= _SHARE * (self.draws or plan.draws) * plan.thin

    def _limited(self, step: Vector) -> Vector:
        """Not so long that what was drawn counts no more."""
        if self.moments == "plan":
            return step
        return step * min(1.0, SLOWLY / max(float(np.abs(step).max()), np.finfo(float).tiny))

    def _shown(self, eta: Vector) -> str:
        values = self.post.learnable.layout.ravel(self.post.learnable.host_values(eta))
        named = zip(self.post.learnable.labels, values, strict=True)
        return ", ".join(f"{name} = {value:.3g}" for name, value in list(named)[:3])

    def _plan(self, eta: Vector) -> Plan:
        near = self._standing(eta)
        make = (
            partial(make_plan, **self.plan_options) if near is None else partial(replan, near=near)
        )
        plan = from_there(make, self.post, eta, self.seen)
        if near is None:
            self.planned = plan, eta
        self.seen = plan.geometry
        values = self.post.learnable.host_values(eta)
        self.post = self.post.with_hyper(values, self.post.layout.unravel(plan.center))
        if self.plan_options.get("batch_size") is None:  # as before, and compiled code with it
            self.plan_options["batch_size"] = plan.batch_size
        self.trail.note(eta, "plan")
        return plan

    def _standing(self, eta: Vector) -> Plan | None:
        """The last plan made from the rows, where that takes long and it still holds here."""
        if self.planned is None:
            return None
        plan, at = self.planned
        stands = plan.is_chain and plans_stand(self.post, plan.geometry)
        return plan if stands and np.abs(eta - at).max() <= STANDS else None

    def _expect(self, plan: Plan, corrections: _Corrections) -> tuple[Expectation, Vector, Vector]:
        """The E-step, its score corrected by draws, and the covariance of their error."""
        post, count = self.post, len(self.post.learnable.labels)
        found, local = expect(post, plan.geometry, drawn_cov(plan))
        if self.moments == "plan":
            return found, found.score, np.zeros((count, count))
        cov = covariance(found.information, np.diag(found.complete))
        tolerance = self.options.tolerance
        scatter = found.complete - found.information  # the score's covariance
        enough = _CORRELATED * np.trace(cov @ scatter) / tolerance**2
        wanted = int(min(enough, _MOST_DRAWS)) + 1
        eta, rounds = self.trail.etas[-1], self.options.rounds or (1 if _dear(plan) else _ROUNDS)
        if corrections.parts and np.abs(eta - corrections.at).max() <= STILL:
            correction, error = corrections.mean()
            if np.trace(cov @ error) <= tolerance**2:
                return found, found.score + correction, error
        for _ in range(rounds):
            flat = self.draw(post, plan, self.round, wanted, self.last)
            self.round, self.last = self.round + 1, flat[:, -1]
            self.steps += flat.shape[1] * plan.thin
            corrections.add(measured_scores(post, local, plan.center, flat), found.score)
            self.trail.note(self.trail.etas[-1], "round")
            correction, error = corrections.mean()
            noise = float(np.trace(cov @ error))
            if noise <= tolerance**2 or noise > _HOPELESS**2 or self._spent(plan):
                break
        if noise > _HOPELESS**2:
            self.moments, self.remark = "plan", _SCATTERED
            return found, found.score, np.zeros((count, count))
        return found, found.score + correction, error


def _dear(plan: Plan) -> bool:
    """Whether a plan, and a round of draws, are as much as learning should cost."""
    return plan.geometry.approximate
