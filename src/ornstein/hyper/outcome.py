"""From where the ascent ended to what a user reads: values, errors, message and notes."""

from typing import NamedTuple

import jax
import numpy as np

from ornstein._base.types import PyTree, Vector
from ornstein.hyper.approach import Trail
from ornstein.hyper.estimates import Estimate, Planned
from ornstein.hyper.expectation import drawn_cov, expect
from ornstein.hyper.learning import Learning
from ornstein.models.posterior import Posterior
from ornstein.planning.plans import Plan

_NOT_EXACT = 0.01  # nats from the posterior above which a sampler's moments are not its own
_LOOSE = 5.0  # posterior standard deviation above which the data say next to nothing
_SLOPE_STEP = 1e-5  # of the difference quotient that maps errors to a hyperparameter's own units
_NAMED = 5  # hyperparameters that a note names


class Outcome(NamedTuple):
    """Where the ascent ended."""

    here: Planned
    estimate: Estimate
    gaussian_eta: Vector  # where the Gaussian posterior's own moments would end
    tolerance: float
    converged: bool
    scattered: bool  # whether the draws were too scattered to learn from
    slower: Planned | None  # an undone step, to where chains would mix much more slowly


def to_learning(outcome: Outcome, trail: Trail, seconds: float) -> Learning:
    """The record of an ascent."""
    (post, plan, eta), estimate = outcome.here, outcome.estimate
    learnable = post.learnable
    deviations = np.sqrt(np.diag(estimate.covariance))
    bias = eta - outcome.gaussian_eta if _inexact(plan) else np.zeros_like(eta)
    return Learning(
        values=learnable.host_values(eta),
        errors=_in_own_units(post, eta, estimate.errors),
        deviations=deviations,
        bias=bias,
        path=learnable.host_values(np.stack(trail.etas)),
        stages=tuple(trail.stages),
        replans=trail.stages.count("plan") - 1,
        converged=outcome.converged,
        message=_message(outcome),
        notes=tuple(_notes(outcome, deviations)),
        seconds=seconds,
        labels=tuple(learnable.labels),
        layout=learnable.layout,
    )


def _in_own_units(post: Posterior, eta: Vector, errors: Vector) -> PyTree:
    """Errors of the values themselves, by the slope of their constraints."""
    learnable, h = post.learnable, _SLOPE_STEP
    above, below = learnable.host_values(eta + h), learnable.host_values(eta - h)
    return jax.tree.map(
        lambda up, down, error: (np.abs(up - down) / (2 * h) * error).reshape(up.shape),
        above,
        below,
        learnable.layout.unravel(errors),
    )


def _message(outcome: Outcome) -> str:
    estimate = outcome.estimate
    message = (
        f"{'converged' if outcome.converged else 'not converged'}: the last step was "
        f"{estimate.length:.3f} of the hyperparameters' posterior standard deviations (tolerance "
        f"{outcome.tolerance:g}, Monte-Carlo error {estimate.error:.3f})"
    )
    if outcome.scattered:
        message += (
            "; the draws are too scattered to learn from, so the plan's moments are used (row A4 "
            "of the diagnosis)"
        )
    if outcome.slower is not None:
        message += (
            f"; a draw would take {outcome.slower.plan.thin:,} steps at {_shown(outcome.slower)}, "
            f"{outcome.here.plan.thin} here"
        )
    return message


def _shown(there: Planned) -> str:
    learnable = there.post.learnable
    values = learnable.layout.ravel(learnable.host_values(there.eta))
    named = zip(learnable.labels, values, strict=True)
    return ", ".join(f"{name} = {value:.3g}" for name, value in list(named)[:3])


def _notes(outcome: Outcome, deviations: Vector) -> list[str]:
    """What to know of the values: what the data say little about, and the sampler's bias."""
    (post, plan, eta), gaussian_eta = outcome.here, outcome.gaussian_eta
    learnable, notes = post.learnable, []
    loose = [learnable.labels[i] for i in np.flatnonzero(deviations > _LOOSE)]
    if loose:
        more = f" and {len(loose) - _NAMED} more" if len(loose) > _NAMED else ""
        notes.append(
            f"the data barely constrain {', '.join(loose[:_NAMED])}{more}: learning stopped where "
            "further changes make no difference"
        )
    if _inexact(plan):
        values = learnable.layout.ravel(learnable.host_values(gaussian_eta))
        worst = np.argsort(-np.abs(eta - gaussian_eta))[:3]
        shown = ", ".join(f"{learnable.labels[i]} = {values[i]:.4g}" for i in worst)
        notes.append(
            f"{plan.method} ({plan.structure}) is {plan.predicted_kl:.2g} nats from the posterior"
            f"{_moments_bias(post, plan)}. The posterior's own moments would give {shown}; "
            "method='exact' with structure='dense' has no such bias"
        )
    return notes


def _inexact(plan: Plan) -> bool:
    """Whether the plan predicts moments that are not the posterior's."""
    return plan.target != "posterior" or plan.predicted_kl > _NOT_EXACT


def _moments_bias(post: Posterior, plan: Plan) -> str:
    """By how much the sampler's ``E|theta|^2`` is off (T2)."""
    ties, geometry = post.learnable.ties, plan.geometry
    if ties is None or ties.precisions == 0:
        return ""
    sizes = np.bincount(ties.groups[ties.groups >= 0], minlength=ties.precisions)
    own, posterior = (
        sizes - 2 * expect(post, geometry, q)[0].score[-ties.precisions :]
        for q in (drawn_cov(plan), geometry.calibrated_covariance)
    )
    off = own / posterior - 1
    worst = int(np.argmax(np.abs(off)))
    side = "below" if off[worst] < 0 else "above"
    label = post.learnable.labels[-ties.precisions + worst]
    return f": its E|theta|^2 under {label} is {abs(off[worst]):.1%} {side} the posterior's (T2)"
