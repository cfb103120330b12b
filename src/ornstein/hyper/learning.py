"""The record of learned hyperparameters: values, errors, message and notes."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import numpy as np

from ornstein._base.checks import aligned, few
from ornstein._base.trees import Layout
from ornstein._base.types import PyTree, Vector
from ornstein.hyper.approach import Trail
from ornstein.hyper.estimates import Estimate, Planned
from ornstein.hyper.expectation import closed_lengths, drawn_cov, expect
from ornstein.models.hyperparameters import Learnable
from ornstein.models.posterior import Posterior
from ornstein.planning.plans import Plan
from ornstein.storage.codec import register

_NOT_EXACT = 0.01  # nats from the posterior above which a sampler's moments are not its own
_LOOSE = 5.0  # posterior standard deviation above which the data say next to nothing
_SLOPE_STEP = 1e-5  # of the difference quotient that maps errors to a hyperparameter's own units
_NAMED = 5  # hyperparameters that a note names


@dataclass(frozen=True, eq=False)
class Learning:
    """Hyperparameters learned by variational EM; ``print`` shows a table.

    Attributes
    ----------
    values
        The hyperparameters, in their own structure.
    errors
        Their Monte-Carlo standard errors; 0 where moments are the plan's own.
    deviations
        Their posterior standard deviations on the unconstrained scale (logarithms for what is
        positive), by the curvature of the evidence.
    bias
        How far, on that scale, the values are from those that the Gaussian posterior's own moments
        would give: the bias of a sampler that is not exact (T2).
    path
        Values step by step, every leaf with a leading axis; ``stages`` says what each step was:
        an ``optimum`` found, a ``plan``, a round of ``draws``, or a step that was ``undone``.
    replans
        How often the sampler was planned again after the first plan.
    converged, message
        Whether the tolerance was met, and how learning ended.
    notes
        Caveats: hyperparameters that the data barely constrain, and the sampler's bias.
    seconds
        Time spent on learning.
    labels, layout
        A name for every hyperparameter, and their order in a flat vector.
    """

    values: PyTree
    errors: PyTree
    deviations: Vector
    bias: Vector
    path: PyTree
    stages: tuple[str, ...]
    replans: int
    converged: bool
    message: str
    notes: tuple[str, ...]
    seconds: float
    labels: tuple[str, ...]
    layout: Layout

    def to_record(self) -> "Learning":
        """For a file: trees as lists of their leaves."""
        values, errors, path = map(jax.tree.leaves, (self.values, self.errors, self.path))
        return replace(self, values=values, errors=errors, path=path)

    def from_record(self, layout: Layout) -> "Learning":
        """What :meth:`to_record` was made of, read from a file."""
        trees = (layout.treedef.unflatten(t) for t in (self.values, self.errors, self.path))
        values, errors, path = trees
        return replace(self, values=values, errors=errors, path=path, layout=layout)

    def __repr__(self) -> str:
        pairs = zip(self.labels[:4], _flat(self.values), strict=False)
        shown = ", ".join(f"{label}={value:.4g}" for label, value in pairs)
        more = ", ..." if len(self.labels) > 4 else ""
        return f"{type(self).__name__}({shown}{more}, converged={self.converged})"

    def __str__(self) -> str:
        values, errors = _flat(self.values), _flat(self.errors)
        head = ("hyperparameter", "value", "MC error", "sd of its log")
        rows = [
            (label, f"{value:.4g}", f"{error:.2g}", f"{deviation:.2g}")
            for label, value, error, deviation in zip(
                self.labels, values, errors, self.deviations, strict=True
            )
        ]
        ending = f"{self.message}; {len(self.stages)} steps, {self.replans} re-plans"
        return "\n".join(
            [*aligned([head, *rows]), ending, *(f"note: {note}" for note in self.notes)]
        )


register(Learning, given=("layout",))


def interval(
    learning: Learning, learnable: Learnable, deviations: float = 2.0
) -> tuple[Vector, Vector, Vector]:
    """The values, flat, minus and plus some posterior standard deviations: low, value, high."""
    eta = learnable.to_real(learning.values)
    width = deviations * learning.deviations
    ends = eta - width, eta, eta + width
    low, value, high = (_flat(learnable.host_values(end)) for end in ends)
    return low, value, high


def _flat(tree: PyTree) -> Vector:
    return np.concatenate([np.reshape(leaf, -1) for leaf in jax.tree.leaves(tree)])


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
    stages = tuple(stage for stage, _ in trail)
    bias = eta - outcome.gaussian_eta if _inexact(plan) else np.zeros_like(eta)
    return Learning(
        values=learnable.host_values(eta),
        errors=_in_own_units(post, eta, estimate.errors),
        deviations=deviations,
        bias=bias,
        path=learnable.host_values(np.stack([eta for _, eta in trail])),
        stages=stages,
        replans=stages.count("plan") - 1,
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
    above, below = (_flat(learnable.host_values(end)) for end in (eta + h, eta - h))
    return learnable.layout.unravel(np.abs(above - below) / (2 * h) * errors)


def _message(outcome: Outcome) -> str:
    estimate = outcome.estimate
    message = (
        f"{'converged' if outcome.converged else 'not converged'}: the last step was "
        f"{estimate.length:.3f} of the hyperparameters' posterior standard deviations (tolerance "
        f"{outcome.tolerance:g}, Monte-Carlo error {estimate.error:.3f})"
    )
    if outcome.scattered:
        message += (
            "; the draws are too scattered to learn from, so the plan's moments are used (check A4 "
            "of the diagnosis)"
        )
    if outcome.slower is not None:
        message += (
            f"; a draw would take {outcome.slower.plan.thin:,} steps at "
            f"{_shown(outcome.slower.post.learnable, outcome.slower.eta, range(3))}, "
            f"{outcome.here.plan.thin} here"
        )
    return message


def _shown(learnable: Learnable, eta: Vector, some: Iterable[int]) -> str:
    values = _flat(learnable.host_values(eta))
    named = [f"{learnable.labels[i]} = {values[i]:.4g}" for i in some if i < len(values)]
    return ", ".join(named)


def _notes(outcome: Outcome, deviations: Vector) -> list[str]:
    """What to know of the values: what the data say little about, and the sampler's bias."""
    (post, plan, eta), gaussian_eta = outcome.here, outcome.gaussian_eta
    learnable, notes = post.learnable, []
    loose = [learnable.labels[i] for i in np.flatnonzero(deviations > _LOOSE)]
    if loose:
        notes.append(
            f"the data barely constrain {few(loose, _NAMED)}: learning stopped where "
            "further changes make no difference"
        )
    if _inexact(plan):
        worst = np.argsort(-np.abs(eta - gaussian_eta))[:3]
        notes.append(
            f"{plan.method} ({plan.structure}) is {plan.predicted_kl:.2g} nats from the posterior"
            f"{_moments_bias(post, plan)}. The posterior's own moments would give "
            f"{_shown(learnable, gaussian_eta, worst)}; "
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
    own, posterior = (
        closed_lengths(ties, expect(post, geometry, q)[0].score)
        for q in (drawn_cov(plan), geometry.calibrated_covariance)
    )
    off = own / posterior - 1
    worst = int(np.argmax(np.abs(off)))
    side = "below" if off[worst] < 0 else "above"
    label = post.learnable.labels[-ties.precisions + worst]
    return f": its E|theta|^2 under {label} is {abs(off[worst]):.1%} {side} the posterior's (T2)"
