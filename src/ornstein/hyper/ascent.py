"""Variational EM: the hyperparameters at which the sampler's own score has mean zero.

1. *Approach*: from optimum to optimum, with the Gaussian posterior's moments (of a subset of rows
   where all would take long), until Newton's step on the evidence is a fiftieth of the tolerance;
   or twice the tolerance where draws follow; or so short that an expensive plan made there will
   hold for the rest.
2. *Plan* the sampler there. Its stationary distribution is q, ``N(optimum, predicted_cov)`` (T2).
3. Where the posterior is not Gaussian, *rounds of draws*: the chains go on from where they are, and
   the running mean of measured minus predicted scores corrects the prediction. Every round counts
   by its number of draws, so the weight of a new one decreases as ``1 / t``.
4. *Step*, and plan again, until the step is short. A step that relies on draws is no longer than a
   factor of 1.6, and is undone where the chains there would mix so much more slowly that sampling
   would take far longer. Where draws take long, learning makes at most twice as many as the run
   it precedes; where plans do, curvature and noise of the rows are kept while no hyperparameter
   moves by more than a fifth, and only the optimum is found again.

**When it stops.** When the step to where the mean score vanishes is shorter than ``tolerance``
posterior standard deviations of the hyperparameters, plus twice its Monte-Carlo error, and that
error is below ``tolerance`` too (or the draws are spent). Half the squared length is what the step
would add to the log evidence: 0.0002 nats at the default. A last step is made, and planned for, if
it is longer than ``tolerance`` without the error, whose square adds to its own.

All thresholds are in :class:`~ornstein.hyper.settings.Limits`.
"""

from collections.abc import Mapping
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.curvature.geometry import Geometry
from ornstein.hyper.approach import (
    Trail,
    approach_by_optima,
    largest_move,
    plans_hold_nearby,
    refuse_runaway,
    search_at,
)
from ornstein.hyper.estimates import Draw, Estimate, Planned, ScoreEstimator
from ornstein.hyper.learning import Learning, Outcome, to_learning
from ornstein.hyper.settings import LIMITS, LearningOptions, Limits
from ornstein.hyper.steps import StepBounds, next_step
from ornstein.models.posterior import Posterior
from ornstein.planning.planner import plan as make_plan
from ornstein.planning.planner import replan
from ornstein.planning.plans import Plan


def ascend(
    post: Posterior,
    plan_options: Mapping[str, Any],
    options: LearningOptions,
    draw: Draw,
    draws: int | None = None,
) -> tuple[Posterior, Plan, Learning]:
    """Learn; returns the posterior at the learned values, its plan and the record.

    ``draws`` is the number that each chain is to make afterwards, the plan's own if not given.
    """
    began = perf_counter()
    if plan_options.get("at") is not None:
        raise InputError(
            "at= fixes the optimum, which moves with the hyperparameters; leave it out."
        )
    learnable = post.learnable
    start = post.hyperparameters if options.start is None else options.start
    search = Search(post, plan_options, options, draw, draws)
    outcome = search.run(learnable.to_real(learnable.checked("start", start)))
    learning = to_learning(outcome, search.trail, perf_counter() - began)
    return outcome.here.post, outcome.here.plan, learning


class Search:
    """The ascent of one posterior's hyperparameters.

    ``full_plan`` is the last plan made from the rows, whose statistics the current one may keep.
    """

    def __init__(
        self,
        post: Posterior,
        plan_options: Mapping[str, Any],
        options: LearningOptions,
        draw: Draw,
        draws: int | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self.post, self.plan_options, self.options = post, dict(plan_options), options
        self.limits, self.trail = limits, Trail()
        moments = options.moments
        drawing = moments == "draws" or (moments == "auto" and not post.quadratic)
        self.estimator = ScoreEstimator(draw, draws, options, limits, self.trail, drawing)
        self.geometry: Geometry | None = None
        self.full_plan: Planned | None = None

    def run(self, eta: Vector) -> Outcome:
        """Approach, plan, estimate the mean score and step, until the step is short."""
        options, tolerance = self.options, self.options.tolerance
        self.post, origin, self.geometry = approach_by_optima(
            self.post, eta, options, self.trail, self.estimator.drawing, self.limits
        )
        here, bounds, slower = self._plan(origin), StepBounds.first(len(eta)), None
        estimate = self.estimator.at(here)
        for _ in range(options.max_plans - 1):
            if step_is_short(estimate, tolerance):
                break
            step, bounds = next_step(
                here.post, bounds, estimate.expected, estimate.score, options.ascent
            )
            eta = here.eta + self._bounded(step)
            refuse_runaway(here.post, eta, origin, self.limits.runaway)
            there = self._plan(eta)
            if there.plan.thin > self.limits.slowdown * here.plan.thin:
                self.trail.append(("undone", here.eta))
                slower = there
                break
            here, estimate = there, self.estimator.at(there)
        if slower is None and worth_a_last_step(estimate, tolerance):
            step, _ = next_step(here.post, bounds, estimate.expected, estimate.score, "newton")
            here = self._plan(here.eta + self._bounded(step))
        return Outcome(
            here=here,
            estimate=estimate,
            gaussian_eta=origin,
            tolerance=tolerance,
            converged=slower is None and is_converged(estimate, tolerance),
            scattered=self.estimator.scattered,
            slower=slower,
        )

    def _plan(self, eta: Vector) -> Planned:
        """A plan at other hyperparameters, from the rows or from a plan that still holds."""
        kept = self._plan_that_holds(eta)
        anew = partial(make_plan, **self.plan_options)
        make = anew if kept is None else partial(replan, near=kept)
        plan = search_at(make, self.post, eta, self.geometry)
        self.geometry = plan.geometry
        values = self.post.learnable.host_values(eta)
        self.post = self.post.with_hyper(values, self.post.layout.unravel(plan.center))
        here = Planned(self.post, plan, eta)
        if kept is None:
            self.full_plan = here
        if self.plan_options.get("batch_size") is None:  # so that compiled code is used again
            self.plan_options["batch_size"] = plan.batch_size
        self.trail.append(("plan", eta))
        return here

    def _plan_that_holds(self, eta: Vector) -> Plan | None:
        """The last plan made from the rows, if planning is expensive and it still holds here."""
        if self.full_plan is None:
            return None
        plan = self.full_plan.plan
        holds = plan.is_chain and plans_hold_nearby(self.post, plan.geometry)
        near = largest_move(self.full_plan.eta, eta) <= self.limits.same_plan_move
        return plan if holds and near else None

    def _bounded(self, step: Vector) -> Vector:
        """No longer than what draws at its start can tell."""
        if not self.estimator.drawing:
            return step
        longest = max(float(np.abs(step).max()), np.finfo(float).tiny)
        return step * min(1.0, self.limits.same_curvature_move / longest)


def step_is_short(estimate: Estimate, tolerance: float) -> bool:
    """Whether the step is within the tolerance, as far as its Monte-Carlo error tells."""
    return estimate.length <= tolerance + 2 * estimate.error


def is_converged(estimate: Estimate, tolerance: float) -> bool:
    """Whether the step is short, and known as precisely as it should be."""
    return step_is_short(estimate, tolerance) and estimate.error <= tolerance


def worth_a_last_step(estimate: Estimate, tolerance: float) -> bool:
    """Whether the step is long without the Monte-Carlo error, whose square adds to its own."""
    return bool(np.sqrt(max(0.0, estimate.length**2 - estimate.error**2)) > tolerance)
