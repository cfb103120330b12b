"""What to know of learned hyperparameters: bias by T2, and what the rows hardly hold."""

import jax
import numpy as np

from ornstein._base.types import Vector
from ornstein.hyper.expectation import drawn_cov, expect
from ornstein.models.posterior import Posterior
from ornstein.planning.plans import Plan

_NOT_EXACT = 0.01  # nats
_LOOSE = 5.0  # standard deviations on the unconstrained scale


def inexact(plan: Plan) -> bool:
    """Whether the sampler's moments are not the posterior's, by its plan."""
    return plan.target != "posterior" or plan.predicted_kl > _NOT_EXACT


def notes(
    post: Posterior, plan: Plan, eta: Vector, resting: Vector, deviations: Vector
) -> list[str]:
    """Of values ``eta`` whose posterior's own moments would have come to rest at ``resting``."""
    labels, found = post.learnable.labels, []
    loose = [labels[i] for i in np.flatnonzero(deviations > _LOOSE)]
    if loose:
        more = f" and {len(loose) - 5} more" if len(loose) > 5 else ""
        found.append(
            f"the rows hardly hold {', '.join(loose[:5])}{more}: stopped where it makes no more "
            "difference"
        )
    if inexact(plan):
        values = jax.tree.leaves(post.learnable.host_values(resting))
        flat = np.concatenate([np.reshape(leaf, -1) for leaf in values])
        worst = np.argsort(-np.abs(eta - resting))[:3]
        shown = ", ".join(f"{labels[i]} = {flat[i]:.4g}" for i in worst)
        found.append(
            f"{plan.method} ({plan.structure}) is {plan.predicted_kl:.2g} nats off the posterior"
            f"{_moments_bias(post, plan)}. With the posterior's own moments it would be {shown}; "
            "method='exact' with structure='dense' has no such bias"
        )
    return found


def _moments_bias(post: Posterior, plan: Plan) -> str:
    """By how much the sampler's ``E|theta|^2`` is off, by T2."""
    ties, known = post.learnable.ties, plan.geometry
    if ties is None or ties.precisions == 0:
        return ""
    sizes = np.bincount(ties.groups[ties.groups >= 0], minlength=ties.precisions)
    own, posterior = (
        sizes - 2 * expect(post, known, q)[0].score[-ties.precisions :]
        for q in (drawn_cov(plan), known.calibrated_covariance)
    )
    off = own / posterior - 1
    worst = int(np.argmax(np.abs(off)))
    side = "below" if off[worst] < 0 else "above"
    label = post.learnable.labels[-ties.precisions + worst]
    return f": by T2 its E|theta|^2 under {label} is {abs(off[worst]):.1%} {side} the posterior's"
