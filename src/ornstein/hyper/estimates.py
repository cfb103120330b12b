"""Estimates of the mean score at a plan: predicted, and corrected by rounds of draws."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from ornstein._base.types import Vector
from ornstein.hyper.approach import Trail, largest_move
from ornstein.hyper.expectation import Expectation, Score, drawn_cov, expect, measured_scores
from ornstein.hyper.settings import LearningOptions, Limits
from ornstein.hyper.steps import covariance, step_length
from ornstein.models.posterior import Posterior
from ornstein.planning.plans import Plan

_BATCHES = 8  # parts a chain is cut into for Monte-Carlo errors

Draw: TypeAlias = Callable[[Posterior, Plan, int, int, Vector | None], Vector]
"""``(post, plan, round, draws wanted in all, last draws) -> draws`` (chains, draws, D)."""


class Planned(NamedTuple):
    """Hyperparameters on the unconstrained scale, the posterior there and its plan."""

    post: Posterior
    plan: Plan
    eta: Vector


@dataclass(frozen=True, eq=False)
class Estimate:
    """The mean score over q (J,), the Monte-Carlo covariance of its error (J, J), and the E-step.

    Lengths and errors are in posterior standard deviations of the hyperparameters.
    """

    expected: Expectation
    score: Vector
    score_error: Vector

    @cached_property
    def covariance(self) -> Vector:
        """Of the hyperparameters, by the curvature of the evidence."""
        return covariance(self.expected.information, self.expected.scale)

    @cached_property
    def length(self) -> float:
        """Of the step to where the mean score vanishes."""
        return step_length(self.score, self.expected.information, self.expected.scale)

    @cached_property
    def squared_error(self) -> float:
        """Mean squared Monte-Carlo error of that step."""
        return float(np.trace(self.covariance @ self.score_error))

    @cached_property
    def error(self) -> float:
        """Its root."""
        return float(np.sqrt(max(0.0, self.squared_error)))

    @cached_property
    def errors(self) -> Vector:
        """Monte-Carlo standard errors of the hyperparameters on the unconstrained scale."""
        return np.sqrt(np.diag(self.covariance @ self.score_error @ self.covariance))


@dataclass
class Corrections:
    """Measured minus predicted scores of all rounds near a point, in batches of draws."""

    eta: Vector
    batches: list[Vector] = field(default_factory=list)

    def add(self, scores: Vector, predicted: Vector) -> None:
        """A round's scores (chains, draws, J)."""
        chains, draws, count = scores.shape
        batches = max(1, min(_BATCHES, draws // 2))
        length = draws // batches
        cut = scores[:, : batches * length].reshape(chains * batches, length, count)
        self.batches.append(cut.mean(axis=1) - predicted)

    def applied(self, predicted: Estimate) -> Estimate:
        """The predicted score plus the mean correction, whose weight of a new round is 1 / t."""
        parts = np.concatenate(self.batches)
        spread = np.atleast_2d(np.cov(parts, rowvar=False)) if len(parts) > 1 else np.inf
        error = spread / len(parts) * np.ones((parts.shape[1],) * 2)
        return Estimate(predicted.expected, predicted.score + parts.mean(axis=0), error)


@dataclass
class ScoreEstimator:
    """Estimates the mean score at one plan after another; chains go on from where they are.

    ``drawing`` says whether draws correct the prediction; off once they are too ``scattered``.
    """

    draw: Draw
    draws: int | None
    options: LearningOptions
    limits: Limits
    trail: Trail
    drawing: bool
    scattered: bool = False
    _corrections: Corrections | None = None
    _rounds_made: int = 0
    _steps_made: int = 0
    _last_draws: Vector | None = None

    def at(self, here: Planned) -> Estimate:
        """The E-step, its score corrected by draws."""
        expected, score = expect(here.post, here.plan.geometry, drawn_cov(here.plan))
        predicted = Estimate(expected, expected.score, np.zeros_like(expected.information))
        if not self.drawing:
            return predicted
        corrections, enough = self._corrections_near(here.eta), self.options.tolerance**2
        same_draws = largest_move(corrections.eta, here.eta) <= self.limits.same_draws_move
        if corrections.batches and same_draws:
            estimate = corrections.applied(predicted)
            if estimate.squared_error <= enough:
                return estimate
        for _ in range(self._rounds_at(here.plan)):
            self._add_round(corrections, here, predicted, score)
            estimate = corrections.applied(predicted)
            precise = estimate.squared_error <= enough
            if precise or self._too_scattered(estimate) or self._draws_are_spent(here.plan):
                break
        if self._too_scattered(estimate):
            self.drawing, self.scattered = False, True
            return predicted
        return estimate

    def _corrections_near(self, eta: Vector) -> Corrections:
        """Those made so far if near enough, else none."""
        kept = self._corrections
        if kept is None or largest_move(kept.eta, eta) > self.limits.same_curvature_move:
            self._corrections = kept = Corrections(eta)
        return kept

    def _rounds_at(self, plan: Plan) -> int:
        if self.options.rounds:
            return self.options.rounds
        expensive = plan.geometry.approximate
        return self.limits.rounds_where_expensive if expensive else self.limits.rounds

    def _add_round(
        self, corrections: Corrections, here: Planned, predicted: Estimate, score: Score
    ) -> None:
        """As many draws as the tolerance needs, and their scores."""
        post, plan, eta = here
        wanted = self._wanted_draws(predicted)
        flat = self.draw(post, plan, self._rounds_made, wanted, self._last_draws)
        self._rounds_made, self._last_draws = self._rounds_made + 1, flat[:, -1]
        self._steps_made += flat.shape[1] * plan.thin
        corrections.add(measured_scores(post, score, plan.center, flat), predicted.score)
        self.trail.append(("draws", eta))

    def _wanted_draws(self, predicted: Estimate) -> int:
        """Draws, in all chains, whose mean score is as precise as the tolerance."""
        expected = predicted.expected
        score_cov = expected.complete - expected.information
        independent = np.trace(predicted.covariance @ score_cov)
        enough = self.limits.draws_per_independent * independent / self.options.tolerance**2
        return int(min(enough, self.limits.max_draws)) + 1

    def _too_scattered(self, estimate: Estimate) -> bool:
        return estimate.squared_error > self.limits.scattered_error**2

    def _draws_are_spent(self, plan: Plan) -> bool:
        """Whether learning has made its share of draws, where they take long."""
        work = plan.draws * plan.thin * plan.batch_size * plan.dim
        share = self.limits.share_of_run * (self.draws or plan.draws) * plan.thin
        return work > self.limits.long_run and self._steps_made >= share
