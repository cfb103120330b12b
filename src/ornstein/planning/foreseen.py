"""How far draws will be from the posterior, where that is known without making any.

With ``theta = center + W z``, ``W W' = (N A)^-1``, a posterior is Gaussian but for the gradient of
its remainder R, whose size over the posterior, ``beta = (E |grad R|^2)^(1/2)``, the noise of second
order control variates bounds: ``|sum_n r_n|^2 <= N sum_n |r_n|^2``. It moves the mean by at most
beta, and a variance by beta at most.
"""

import math
from functools import partial

import jax
import numpy as np

from ornstein._base.precision import double_precision
from ornstein._base.types import Array, PyTree, Vector
from ornstein.models.contract import Model
from ornstein.models.posterior import Posterior
from ornstein.planning.plans import GAUSSIAN, NEARLY_GAUSSIAN, Plan, PredictedError
from ornstein.planning.rules import Rotation

_NEARLY = 0.2  # beta, beyond which its higher powers are not small
_POINTS = 32  # around the optimum, for a prior's remainder


def foreseen(post: Posterior, plan: Plan, tolerance: float) -> PredictedError | None:
    """The error of a plan for a posterior that is Gaussian, or so nearly that it is tolerated."""
    if not _known(plan):
        return None
    spread = _spread_error(plan)
    if post.quadratic:
        return PredictedError(0.0, spread, GAUSSIAN)
    beta = remainder(post, plan) if plan.is_chain else math.inf
    if not beta < _NEARLY:
        return None
    # A chain's mean obeys E grad U = 0 as the posterior's does: beta enters by its square alone.
    mean, sd = beta**2, spread + 0.5 * beta * _share(plan) + beta**2
    return PredictedError(mean, sd, NEARLY_GAUSSIAN) if max(mean, sd) <= tolerance else None


def remainder(post: Posterior, plan: Plan) -> float:
    """A bound on beta; infinite where gradients are not anchored to second order."""
    anchored, geometry = plan.anchor, plan.geometry
    if anchored is None or anchored.order < 2:
        return math.inf
    A, dim = geometry.hessian, geometry.dim
    relative = A.relative(anchored.noise_cov.scaled(geometry.num_data))
    rows = float(np.sqrt(np.maximum(np.sum(relative), 0.0)))
    if post.model.gaussian_prior:
        return rows
    with double_precision():
        root = geometry.covariance.sqrt().dense(dim)
        z = np.random.default_rng(0).normal(size=(_POINTS, dim))
        bend = geometry.num_data * geometry.prior_hessian.dense(dim)
        away = z @ root.T
        left = _prior_remainders(post.model, geometry.center, away, bend, post.hyper)
    prior: Vector = np.asarray(left) @ root
    return rows + math.sqrt(float(np.mean((prior**2).sum(axis=1))))


@partial(jax.jit, static_argnums=0)
def _prior_remainders(model: Model, at: Array, away: Array, bend: Array, hyper: PyTree) -> Array:
    """What the prior's gradient is beyond linear."""
    slope = model.prior_gradient(at, hyper)
    return jax.vmap(lambda d: model.prior_gradient(at + d, hyper) - slope - bend @ d)(away)


def _known(plan: Plan) -> bool:
    """Whether the plan holds all of A, of all rows, at the optimum."""
    geometry = plan.geometry
    return (
        plan.target == "posterior"
        and not geometry.frame.approximate
        and (geometry.structure == "dense" or plan.dim == 1)
        and geometry.rows_used == geometry.num_data
        and geometry.distance_to_optimum < 0.01
    )


def _spread_error(plan: Plan) -> float:
    """The largest relative error of a standard deviation, if the posterior is Gaussian."""
    variances = plan.geometry.covariance.variances(plan.dim)
    ratios = np.sqrt(plan.predicted.variances(plan.dim) / variances)
    return float(np.abs(ratios - 1).max())


def _share(plan: Plan) -> float:
    """The share that steps miss of what the remainder changes in a variance, at most."""
    if isinstance(plan.rule, Rotation):
        return 1 / math.cos(plan.rule.angle / 2) - 1
    fast = min(1.0, max(plan.stability_margin, 1e-3))
    return max(1.0, (1 - fast) / fast)
