"""What to say before running: refusals and warnings, with remedies."""

import math
from collections.abc import Iterator

import numpy as np

from ornstein import theory
from ornstein._base.checks import few
from ornstein._base.errors import InputError, UnstablePlanError
from ornstein._base.types import Vector
from ornstein.curvature.control_variates import batch_size
from ornstein.curvature.geometry import Geometry
from ornstein.planning.plans import Plan

_ENDLESS = 1e15  # steps
_ILL_CONDITIONED = 1e12
_UNKNOWN_SHARE = 0.4  # of a step's noise; the default batches make about a quarter


def refuse_unstable(
    method: str, modes: theory.Modes, limit: float, geometry: Geometry, labels: tuple[str, ...]
) -> None:
    """Raise if T2 says the chain would diverge, naming the directions and the remedy."""
    if theory.within_limits(modes.rates, limit):
        return
    A, dim = geometry.hessian, geometry.dim
    rates, basis = modes.rates.reshape(-1), A.from_aligned(modes.basis).dense(dim)
    refuse_not_convex(A.aligned(A, dim))
    bad = np.flatnonzero(rates >= limit * (1 - 1e-6))
    if not bad.size:
        raise _not_convex()
    names = {i: _direction_name(basis[:, i], geometry, labels) for i in bad[::-1]}
    shown = few([f"{name} (K A = {rates[i]:.3g})" for i, name in names.items()])
    if method == "exact":
        remedy = "use structure='dense'"
        if rates.max() < limit * (1 + 1e-6):
            remedy = "use rho=1, which keeps K A at or below 1"
    else:
        remedy = "use method='exact', which gives such directions the prior's variance"
    raise UnstablePlanError(
        f"method={method!r} would diverge: K A must stay below {limit:g}, but reaches it "
        f"along {shown}. There the gradient noise is too small for this gain, as it is where "
        f"the prior dominates the data. Remedy: {remedy}; a smaller batch_size also helps.",
        f"its steps would be too large for {few(list(names.values()))}, of which the prior says "
        "more than the rows, and its chains would diverge; smaller batches (batch_size) may help.",
    )


def refuse_beyond(slowest: float, fastest: float) -> None:
    """Raise if a gain of approximate structure would diverge, by A's eigenvalues relative to it."""
    if slowest <= 0:
        raise _not_convex()
    if fastest >= 2:
        raise UnstablePlanError(
            f"The chain would diverge: K A must stay below 2, but reaches {fastest:.3g} along "
            "directions that the gain's structure does not resolve. Leave out rho, or raise it.",
            "its steps would be too large for how columns are correlated, and its chains would "
            "diverge.",
        )


def refuse_not_convex(hessian: Vector) -> None:
    """Raise if the loss has no minimum where the plan is made."""
    try:
        np.linalg.cholesky(hessian)
    except np.linalg.LinAlgError:
        raise _not_convex() from None


def _not_convex() -> UnstablePlanError:
    return UnstablePlanError(
        "The loss is not convex at the point of the plan, so no gain is stable there. "
        "Plan at the optimum (at=None), with a proper prior on every parameter."
    )


def refuse_endless(relaxation: float) -> float:
    """The relaxation time; raises if a chain would not forget its start in any time to wait."""
    if not relaxation < _ENDLESS:
        raise UnstablePlanError(
            f"The slowest direction would need {relaxation:.2g} steps to forget its start: the "
            "gradient noise is far larger than the model says. Standardise X and y, check "
            "noise_scale, raise batch_size, or use method='exact' with structure='dense'."
        )
    return relaxation


def _direction_name(direction: Vector, geometry: Geometry, labels: tuple[str, ...]) -> str:
    """The parameter that dominates a direction, each measured in its own posterior scale."""
    loading = np.abs(direction) * np.sqrt(np.maximum(geometry.hessian.own, 0.0))
    largest = int(np.argmax(loading))
    share = loading[largest] ** 2 / max(float(loading @ loading), np.finfo(float).tiny)
    return labels[largest] if share > 0.9 else f"{labels[largest]} mostly"


def refuse_other_engines(plan: Plan) -> None:
    """Raise where there is no chain to step in a custom loop."""
    if not isinstance(plan, Plan):
        raise InputError(f"plan must be made by ornstein.plan, found {type(plan).__name__}.")
    if not plan.is_chain:
        raise InputError(f"method={plan.method!r} makes no steps of SGD; use method='exact'.")


def warnings(plan: Plan) -> Iterator[str]:
    """What a user should know of a plan before running it."""
    geometry, anchored, batches = plan.geometry, plan.anchor, plan.batches
    if geometry.structure == "diagonal":
        yield "only diagonals of A and C are known: the prediction ignores correlations"
    if geometry.approximate:
        parts = "A and C" if anchored is not None else "A"
        yield (
            "A and C are known along a basis: predicted variances ignore correlations beyond it; "
            f"the KL accounts for those of {parts}, the trace for those of A"
        )
    distance = geometry.distance_to_optimum
    if distance > 0.1:
        yield (
            f"the plan's point is {distance:.2g} posterior standard deviations from the optimum; "
            "leave out at= to find the optimum"
        )
    if ill_conditioned(geometry):
        yield (
            "columns are so nearly collinear, or so unequal in scale, that double precision "
            "cannot tell prior from data in some directions: standardise X, or drop columns"
        )
    prior_only = _prior_dominated(geometry, plan.labels)
    if prior_only:
        yield "the prior dominates the data for " + prior_only
    if plan.target == "posterior" and plan.predicted_kl > 0.1:
        yield f"the draws will be {plan.predicted_kl:.2g} nats off the posterior{_better(plan)}"
    if anchored is not None:
        _, safe = batch_size(geometry, anchored, plan.rule.kick)
        if batches.batch_size < safe:
            need = f"need a batch_size of {safe:,} for it"
            if safe > geometry.num_data:
                need = "cannot tame it at any batch_size: leave it out, or use method='nuts'"
            yield (
                f"a few rows dominate: row {anchored.row} has leverage "
                f"{anchored.strongest / geometry.num_data:.2g}, and control variates {need}; "
                "inspect such rows, or expect heavy tails"
            )
    if batches.scheme == "epochs":
        yield "an epoch loader's noise cancels over an epoch: prefer windows (X7)"
    if plan.relaxation_steps > 1e5:
        yield f"the slowest direction needs {plan.relaxation_steps:.2g} steps to forget its start"
    if geometry.relative_error > 0.05:
        yield f"A and C are known to {geometry.relative_error:.0%} only; raise geometry_rows"
    if geometry.approximate and anchored is None and plan.noise_share > _UNKNOWN_SHARE:
        yield (
            f"minibatches make up to {plan.noise_share:.0%} of a step's noise, whose correlations "
            "beyond the basis are not in the predicted KL: raise batch_size, or use control "
            "variates"
        )


def _better(plan: Plan) -> str:
    """What would come nearer to the posterior."""
    if plan.method == "exact" and plan.structure == "dense":
        return ""
    if plan.method == "exact" and plan.geometry.frame.approximate:
        error = math.sqrt(4 * plan.predicted_kl / plan.dim)
        return f", a variance by about {error:.0%}; a larger batch_size brings them nearer"
    return "; method='exact' with structure='dense' is exact"


def ill_conditioned(geometry: Geometry) -> bool:
    """Whether double precision cannot tell the Hessian's flattest directions from rounding."""
    return geometry.hessian.condition > _ILL_CONDITIONED


def _prior_dominated(geometry: Geometry, labels: tuple[str, ...]) -> str:
    """Directions in which the prior holds more than half of the curvature, named."""
    shares, directions = geometry.hessian.relative_eigen(geometry.prior_hessian)
    chosen = np.flatnonzero(shares > 0.5)
    if geometry.approximate:
        count, dim = round(len(chosen) / len(shares) * geometry.dim), geometry.dim
        return f"{count:,} of {dim:,} directions" if len(chosen) else ""
    if directions is None:
        names = [labels[i] for i in chosen]
    else:
        names = [_direction_name(directions[:, i], geometry, labels) for i in chosen]
    return few(list(dict.fromkeys(names)))
