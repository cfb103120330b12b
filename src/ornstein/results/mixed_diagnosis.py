"""Can a mixed model's draws be trusted? Chains, acceptance, and Stein's identities (X12).

Gradients with all rows judge coefficients and hyperparameters. Effects of the largest group, or of
the groups that take turns, follow these, so that a wrong mean or spread of any shows there.
"""

import numpy as np

from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.models.random_effects.specification import Specification
from ornstein.results import mixing
from ornstein.results.accuracy import Accuracy, judged
from ornstein.results.arviz import ess, rhat
from ornstein.results.diagnosis import STATIONARITY, Check, Diagnosis
from ornstein.results.mixed import MixedResult
from ornstein.results.mixed_gradients import (
    MixedDraws,
    gradients,
    judged_draws,
    judged_labels,
    marginal_gradients,
)

_WORK = 1e9  # rows times draws, and times columns
_FEWEST, _MOST = 256, 1024  # draws at which gradients are taken
_PER_PARAMETER = 4
_LARGEST = 150  # parameters that are judged together
_ENOUGH = 400  # effective draws
_ACCEPTED = (0.4, 0.1)  # shares of steps


def diagnose_mixed(result: MixedResult) -> Diagnosis:
    """R-hat and effective draws of all coefficients and hyperparameters, and X12."""
    measured = result.measured
    draws, names = result.flat[..., measured], [result.names[i] for i in measured]
    found = [_stationarity(draws), _effective(draws, names)]
    if result.plan.steps != "minibatch":
        found.append(_acceptance(result))
    if result.plan.steps == "turns":
        found.append(_slowest(result))
    try:
        return Diagnosis(tuple(found), accuracy=_accuracy(result))
    except InputError as error:
        return Diagnosis(tuple(found), unmeasured=str(error).rstrip("."))


def _verdict(number: float, good: float, bad: float) -> str:
    """Of a number that should be small; NaN fails."""
    return "ok" if number <= good else "warn" if number <= bad else "fail"


def _stationarity(draws: Vector) -> Check:
    chains, count, dim = draws.shape
    number = float(np.max(rhat(draws))) if count >= 8 else float("nan")
    limit = mixing.largest_rhat(dim, 2 * chains, max(count // 2, 1))
    return Check(
        STATIONARITY,
        "chains have forgotten their start",
        number,
        "largest R-hat of coefficients, standard deviations and correlations, of which up to "
        f"{limit:.3f} may be chance",
        _verdict(number, limit, limit + 0.04),
        mixing.longer(count, "nuts"),
        limit,
    )


def _effective(draws: Vector, names: list[str]) -> Check:
    found = ess(draws)
    worst = int(np.nanargmin(found)) if np.isfinite(found).any() else 0
    number = float(found[worst])
    return Check(
        "effective",
        "draws are enough",
        number,
        f"effective draws of {names[worst]}, which has the fewest",
        _verdict(-number, -_ENOUGH, -_ENOUGH / 4),
        mixing.longer(draws.shape[1], "nuts"),
    )


def _slowest(result: MixedResult) -> Check:
    plan = result.plan
    number = plan.slowest * result.lam.shape[0] * result.lam.shape[1]
    return Check(
        "coupling",
        "groups that take turns have moved freely",
        number,
        f"effective draws of the effects' slowest direction, at a coupling of {plan.coupling:.3g}",
        _verdict(-number, -_ENOUGH, -_ENOUGH / 4),
        "make more draws (--draws), or leave one of the groups out",
    )


def _acceptance(result: MixedResult) -> Check:
    number = float(np.min(result.rates))
    return Check(
        "acceptance",
        "steps are accepted",
        number,
        "least share of accepted steps, of groups, coefficients and hyperparameters",
        _verdict(-number, -_ACCEPTED[0], -_ACCEPTED[1]),
        "standardise the columns, or use a stronger prior of the standard deviations",
    )


def _accuracy(result: MixedResult) -> Accuracy:
    """Errors of head and hyperparameters; of a Gaussian model of hyperparameters alone.

    Its other parameters are exact draws given these.
    """
    post = result.posterior
    spec, exact = post.specification, result.plan.steps == "gaussian"
    head = () if exact else judged_labels(result)
    dim = spec.count + len(head)
    if dim > _LARGEST:
        raise InputError(
            f"{dim:,} coefficients, effects of smaller groups and hyperparameters are too many to "
            "be judged together; see R-hat and effective draws"
        )
    lam, phi = (np.concatenate(part).astype(float) for part in (result.lam, result.phi))
    b = result.b.reshape(len(lam), *result.b.shape[2:])
    needed = max(_FEWEST, _PER_PARAMETER * dim)
    passes = max(1, 2 * len(result.plan.turns))
    each = spec.leaf.levels * spec.head if exact else passes * post.num_data * (spec.fixed + 8)
    count = int(min(len(lam), _MOST, max(needed, _WORK // each)))
    if count < needed:
        raise InputError(f"at least {needed} draws are needed to judge {dim} parameters")
    if count * each > 8 * _WORK:
        raise InputError(
            f"gradients with all {post.num_data:,} rows at {count} draws would take too long; see "
            "R-hat and effective draws"
        )
    at = np.linspace(0, len(lam) - 1, count).astype(int)
    names = _real_line(post.hyper_labels, spec)
    if exact:
        found = marginal_gradients(result, lam[at])
        return judged(lam, at, found, tuple(names), post.num_data)
    found = gradients(result, MixedDraws(phi[at], b[at].astype(float), lam[at]))
    flat = np.concatenate([judged_draws(result, phi, lam), lam], axis=1)
    return judged(flat, at, found, (*head, *names), post.num_data)


def _real_line(labels: list[str], spec: Specification) -> list[str]:
    """Names of hyperparameters; an intercept that stands for the first cutpoint is not one."""
    pinned = sum(one.pinned for one in spec.auxiliary)
    scales = labels[: spec.scales]
    return [*scales, *labels[spec.scales + pinned :]]
