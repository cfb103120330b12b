"""The approach: from optimum to optimum, until the Gaussian posterior's mean score vanishes."""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias, TypeVar

import numpy as np

from ornstein._base.errors import InputError, OptimumError
from ornstein._base.types import Vector
from ornstein.curvature.geometry import Geometry
from ornstein.hyper.expectation import expect, foreseen, geometry_at_optimum
from ornstein.hyper.settings import LIMITS, LearningOptions, Limits
from ornstein.hyper.steps import StepBounds, next_step, secant_information, step_length
from ornstein.models.posterior import Posterior

Found = TypeVar("Found")
Trail: TypeAlias = list[tuple[str, Vector]]
"""What was done (``optimum``, ``plan``, ``draws``, ``undone``) at which hyperparameters, on the
unconstrained scale."""


def approach_by_optima(
    post: Posterior,
    eta: Vector,
    options: LearningOptions,
    trail: Trail,
    drawing: bool,
    limits: Limits = LIMITS,
) -> tuple[Posterior, Vector, Geometry | None]:
    """Where the mean score of the Gaussian posterior vanishes, and the geometry seen last.

    ``drawing`` says that draws will correct what is found here.
    """
    bounds, origin, last = StepBounds.first(len(eta)), eta, eta
    previous_score: Vector | None = None
    geometry: Geometry | None = None
    length = np.inf
    for _ in range(limits.max_evaluations):
        refuse_runaway(post, eta, origin, limits.runaway)
        far = length > limits.far_length
        slack = limits.far_rough_optimum if far else limits.rough_optimum
        evaluate = partial(geometry_at_optimum, few_rows=True, slack=slack, near=geometry)
        try:
            post, geometry = search_at(evaluate, post, eta, geometry)
        except OptimumError:
            refuse_runaway(post, eta, origin, limits.runaway_without_optimum)
            if largest_move(last, eta) < limits.shortest_retreat:
                raise
            eta = last + limits.retreat * (eta - last)
            continue
        trail.append(("optimum", eta))
        expected, _ = expect(post, geometry, geometry.calibrated_covariance)
        if previous_score is not None and largest_move(last, eta) <= limits.same_curvature_move:
            fall = previous_score - expected.score
            updated = secant_information(expected.information, eta - last, fall)
            expected = expected._replace(information=updated)
        previous_score = None if far else expected.score
        length = step_length(expected.score, expected.information, expected.scale)
        step, bounds = next_step(post, bounds, expected, expected.score, options.ascent)
        last, eta = eta, eta + step
        enough = limits.approach_length_before_draws if drawing else limits.approach_length
        if length <= enough * options.tolerance:
            break
        near_enough = np.abs(step).max() <= limits.approach_move_where_expensive
        if drawing and near_enough and plans_hold_nearby(post, geometry):
            break
    return post, eta, geometry


def largest_move(before: Vector, after: Vector) -> float:
    """The largest change of any hyperparameter on the unconstrained scale."""
    return float(np.abs(after - before).max())


def plans_hold_nearby(post: Posterior, geometry: Geometry) -> bool:
    """Whether a plan's statistics of the rows are worth keeping while the prior changes a little.

    They are where planning is expensive, as with an approximate curvature, the hyperparameters are
    the prior's only, and the rows are in memory.
    """
    return geometry.approximate and not post.learnable.in_likelihood and not post.on_disk


def search_at(
    search: Callable[[Posterior], Found], post: Posterior, eta: Vector, geometry: Geometry | None
) -> Found:
    """What a search finds at other hyperparameters, started where the last geometry predicts.

    Where that fails, as it may after a long step, it starts at the last optimum itself.
    """
    values = post.learnable.host_values(eta)
    if geometry is not None:
        try:
            return search(foreseen(post, values, geometry))
        except OptimumError:
            pass
    return search(post.with_hyper(values))


def refuse_runaway(post: Posterior, eta: Vector, origin: Vector, limit: float) -> None:
    """Raise where a hyperparameter is so far from the start that nothing will stop it."""
    far = int(np.argmax(np.abs(eta - origin)))
    if abs(eta[far] - origin[far]) > limit:
        raise InputError(
            f"{post.learnable.labels[far]} grows or shrinks without limit: nothing constrains it. "
            "A log_prior that takes hyperparameters must be normalised, e.g. 0.5 log(precision) - "
            "0.5 precision theta^2 for a normal; or fix this hyperparameter."
        )
