"""What to say before running: refusals and warnings, with remedies."""

import math

import numpy as np

from ornstein import theory
from ornstein._base.errors import UnstablePlanError
from ornstein._base.types import Vector
from ornstein.curvature.control_variates import Anchor, batch_size
from ornstein.curvature.estimation import FACTORED, Geometry
from ornstein.data.batches import Batches
from ornstein.planning.methods import Method

_ENDLESS = 1e15  # steps
_ILL_CONDITIONED = 1e12
_FACTORED_SHARE = 0.4  # of a step's noise; the default batches make about a quarter


def refuse_unstable(
    method: Method, modes: theory.Modes, limit: float, A: Vector, labels: tuple[str, ...]
) -> None:
    """Raise if T2 says the chain would diverge, naming the directions and the remedy."""
    rates, basis = modes
    if theory.within_limits(rates, limit):
        return
    if rates.ndim == 2:  # a batch of 1 x 1 problems
        rates, basis = rates[:, 0], np.diag(basis[:, 0, 0])
        A = np.diag(A[:, 0, 0])
    refuse_not_convex(A)
    bad = np.flatnonzero(rates >= limit * (1 - 1e-6))
    if not bad.size:
        raise _not_convex()
    shown = ", ".join(
        f"{_direction_name(basis[:, i], A, labels)} (K A = {rates[i]:.3g})" for i in bad[::-1][:5]
    )
    more = f" and {bad.size - 5} more" if bad.size > 5 else ""
    if method.name == "exact":
        remedy = "use structure='dense'"
        if rates.max() < limit * (1 + 1e-6):
            remedy = "use rho=1, which keeps K A at or below 1"
    else:
        remedy = "use method='exact', which gives such directions the prior's variance"
    raise UnstablePlanError(
        f"method={method.name!r} would diverge: K A must stay below {limit:g}, but reaches it "
        f"along {shown}{more}. There the gradient noise is too small for this gain, as where the "
        f"prior knows more than the data. Remedy: {remedy}; a smaller batch_size also helps."
    )


def refuse_beyond(slowest: float, fastest: float) -> None:
    """Raise if a gain in factors would diverge, by A's eigenvalues relative to it."""
    if slowest <= 0:
        raise _not_convex()
    if fastest >= 2:
        raise UnstablePlanError(
            f"The chain would diverge: K A must stay below 2, but reaches {fastest:.3g} along "
            "directions that the gain's structure does not resolve. Leave out rho, or raise it."
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


def refuse_endless(relaxation: float) -> None:
    """Raise if a chain would not forget its start in any time one could wait."""
    if not relaxation < _ENDLESS:
        raise UnstablePlanError(
            f"The slowest direction would need {relaxation:.2g} steps to forget its start: the "
            "gradient noise is far larger than the model says. Standardise X and y, check "
            "noise_scale, raise batch_size, or use method='exact' with structure='dense'."
        )


def _direction_name(direction: Vector, hessian: Vector, labels: tuple[str, ...]) -> str:
    """The parameter that dominates a direction, each measured in its own posterior scale."""
    loading = np.abs(direction) * np.sqrt(np.maximum(np.diag(hessian), 0.0))
    largest = int(np.argmax(loading))
    share = loading[largest] ** 2 / max(float(loading @ loading), np.finfo(float).tiny)
    return labels[largest] if share > 0.9 else f"mostly {labels[largest]}"


def warnings(
    method: Method,
    structure: str,
    batches: Batches,
    known: Geometry,
    anchored: Anchor | None,
    labels: tuple[str, ...],
    kl: float,
    relaxation: float,
) -> list[str]:
    """What a user should know of a plan before running it."""
    found = []
    if known.structure == "diagonal":
        found.append("only diagonals of A and C are known: the prediction ignores correlations")
    if known.in_factors:
        parts = "A and C" if anchored is not None else "A"
        found.append(
            "A and C are known along a basis: predicted variances ignore correlations beyond it; "
            f"the KL accounts for those of {parts}, the trace for those of A"
        )
    distance = _distance_to_optimum(known)
    if distance > 0.1:
        found.append(
            f"the plan's point is {distance:.2g} posterior standard deviations from the optimum; "
            "leave out at= to find the optimum"
        )
    if ill_conditioned(known):
        found.append(
            "columns are so nearly collinear, or so unequal in scale, that double precision can "
            "not tell prior from data in some directions: standardise X, or drop columns"
        )
    prior_only = _prior_dominated(known, labels)
    if prior_only:
        found.append("the prior knows more than the data of " + prior_only)
    if method.target == "posterior" and kl > 0.1:
        better = _better(method, structure, kl, len(labels))
        found.append(f"the draws will be {kl:.2g} nats off the posterior{better}")
    if anchored is not None:
        _, safe = batch_size(known, anchored)
        if batches.batch_size < safe:
            found.append(
                f"a few rows dominate: row {anchored.row} has leverage "
                f"{anchored.strongest / known.num_data:.2g}, and control variates want a "
                f"batch_size of {safe:,} for it; look at such rows, or expect heavy tails"
            )
    if batches.scheme == "epochs":
        found.append("an epoch loader's noise cancels over an epoch (X7): prefer windows")
    if relaxation > 1e5:
        found.append(f"the slowest direction needs {relaxation:.2g} steps to forget its start")
    if known.relative_error > 0.05:
        found.append(f"A and C are known to {known.relative_error:.0%} only; raise geometry_rows")
    return found


def noise_beyond_factors(share: float) -> list[str]:
    """What to say where minibatches make more of a step's noise than the prediction bears."""
    if share <= _FACTORED_SHARE:
        return []
    return [
        f"minibatches make up to {share:.0%} of a step's noise, whose correlations beyond the "
        "basis are not in the predicted KL: raise batch_size, or use control variates"
    ]


def _better(method: Method, structure: str, kl: float, dim: int) -> str:
    """What would come nearer to the posterior."""
    if method.name == "exact" and structure == "dense":
        return ""
    if method.name == "exact" and structure in FACTORED:
        error = math.sqrt(4 * kl / dim)
        return f", a variance by about {error:.0%}; a larger batch_size brings them nearer"
    return "; method='exact' with structure='dense' is exact"


def ill_conditioned(known: Geometry) -> bool:
    """Whether double precision can not tell the Hessian's flattest directions from rounding."""
    return known.structure == "dense" and _condition(known.hessian) > _ILL_CONDITIONED


def _condition(matrix: Vector) -> float:
    """Condition number, each parameter in its own units."""
    scale = 1 / np.sqrt(np.maximum(np.diag(matrix), np.finfo(float).tiny))
    values = np.linalg.eigvalsh(matrix * scale[:, None] * scale)
    return float(values[-1] / max(values[0], np.finfo(float).tiny))


def _distance_to_optimum(known: Geometry) -> float:
    """Newton decrement in posterior standard deviations, over the root of D."""
    A, g = known.hessian, known.gradient
    if known.in_factors and known.factors is not None:
        g = np.asarray(known.factors.basis.adjoint(g))
    step = np.linalg.lstsq(A, g)[0] if A.ndim == 2 else g / A
    return math.sqrt(max(0.0, float(known.num_data * g @ step)) / len(known.center))


def _prior_dominated(known: Geometry, labels: tuple[str, ...]) -> str:
    """Directions in which the prior holds more than half of the curvature, named."""
    A, prior = known.hessian, known.prior_hessian
    if known.in_factors:
        count, dim = int((prior > 0.5 * A).sum()), len(known.center)
        return f"{round(count / len(A) * dim):,} of {dim:,} directions" if count else ""
    if A.ndim == 1:
        names = [labels[i] for i in np.flatnonzero(prior > 0.5 * A)]
    else:
        V, share = theory.joint_diagonalisation(A, prior)
        names = [_direction_name(V[:, i], A, labels) for i in np.flatnonzero(share > 0.5)]
    unique = list(dict.fromkeys(names))
    shown = ", ".join(unique[:5])
    return shown + (f" and {len(unique) - 5} more" if len(unique) > 5 else "")
