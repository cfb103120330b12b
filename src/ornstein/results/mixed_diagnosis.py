"""Can a mixed model's draws be trusted? Chains, acceptance, and Stein's identities (X12).

Gradients with all rows judge coefficients and hyperparameters. Effects of the largest group follow
these: parameters are the head and the hyperparameters, given the leaves' place in their own
Gaussian, so that a wrong mean or spread of any shows there.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.precision import double_precision
from ornstein._base.types import Array, Vector
from ornstein.curvature import arrow_sums
from ornstein.curvature.turns_anchor import TurnsAnchor
from ornstein.linalg import small
from ornstein.models.random_effects.specification import Specification
from ornstein.results import mixing
from ornstein.results.accuracy import Accuracy, judged
from ornstein.results.arviz import ess, rhat
from ornstein.results.diagnosis import STATIONARITY, Check, Diagnosis
from ornstein.results.mixed import MixedResult
from ornstein.sampling.mixed import gaussian
from ornstein.sampling.mixed.coordinates import Around, Coordinates
from ornstein.sampling.mixed.passes import Chunks

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
    if isinstance(result.anchor, TurnsAnchor):
        raise InputError(
            f"{checks.names_of(result.plan.turns)} take turns, which have no gradients of all "
            "together; see R-hat and effective draws"
        )
    dim = spec.count + (0 if exact else spec.head)
    if dim > _LARGEST:
        raise InputError(
            f"{dim:,} coefficients, effects of smaller groups and hyperparameters are too many to "
            "be judged together; see R-hat and effective draws"
        )
    lam, phi = (np.concatenate(part).astype(float) for part in (result.lam, result.phi))
    b = result.b.reshape(len(lam), *result.b.shape[2:])
    needed = max(_FEWEST, _PER_PARAMETER * dim)
    each = spec.leaf.levels * spec.head if exact else post.num_data * (spec.fixed + 8)
    count = int(min(len(lam), _MOST, max(needed, _WORK // each)))
    if count < needed:
        raise InputError(f"at least {needed} draws are needed to judge {dim} parameters")
    if count * each > 8 * _WORK:
        raise InputError(
            f"gradients with all {post.num_data:,} rows at {count} draws would take too long; see "
            "R-hat and effective draws"
        )
    at = np.linspace(0, len(lam) - 1, count).astype(int)
    with double_precision():
        around = jax.tree.map(jnp.asarray, Around.of(post, result.anchor, "float64"))
        if exact:
            gradients = np.asarray(_of_marginal(spec, around, jnp.asarray(lam[at])))
        else:
            drawn = [part[at].astype(float) for part in (phi, b, lam)]
            rows: Chunks | None = None
            slopes = arrow_sums.slopes(post, *drawn) if post.on_disk else None
            if slopes is None:
                rows = jax.tree.map(jnp.asarray, Chunks.of(post, "float64"))
            parts = jax.tree.map(jnp.asarray, (tuple(drawn), slopes))
            gradients = np.asarray(_of_joint(spec, around, rows, *parts))
    labels = post.hyper_labels
    if exact:
        return judged(lam, at, gradients, tuple(_real_line(labels, spec)), post.num_data)
    head = [*post.fixed_labels, *_others(result)]
    flat = np.concatenate([phi, lam], axis=1)
    names = (*head, *_real_line(labels, spec))
    return judged(flat, at, gradients, tuple(names), post.num_data)


def _real_line(labels: list[str], spec: Specification) -> list[str]:
    """Names of hyperparameters; an intercept that stands for the first cutpoint is not one."""
    pinned = sum(one.pinned for one in spec.auxiliary)
    scales = labels[: spec.scales]
    return [*scales, *labels[spec.scales + pinned :]]


def _others(result: MixedResult) -> list[str]:
    post = result.posterior
    own = zip(post.specification.others, post.levels[1:], strict=True)
    return [label for grouping, levels in own for label in grouping.effect_labels(levels.tolist())]


@partial(jax.jit, static_argnums=(0,))
def _of_marginal(spec: Specification, around: Around, lams: Array) -> Array:
    def energy(lam: Array) -> Array:
        return -gaussian.marginal(spec, around, lam)[0]

    found: Array = jax.lax.map(jax.grad(energy), lams)
    return found


@partial(jax.jit, static_argnums=(0,))
def _of_joint(
    spec: Specification,
    around: Around,
    rows: Chunks | None,
    draws: tuple[Array, Array, Array],
    slopes: tuple[Array, Array] | None,
) -> Array:
    """Of ``-log p`` by head and hyperparameters, the leaves following them.

    Of rows on disk their losses' slopes at the draws stand for them.
    """

    def one(given: tuple[tuple[Array, Array, Array], tuple[Array, Array] | None]) -> Array:
        (phi, b, lam), slope = given
        here = Coordinates.given(spec, around, lam)
        lower = small.lower_inverse(here.root.blocks)
        z = jnp.einsum("jig,jg->ig", lower, b - here.leaf_mean(phi))

        def losses(phi: Array, b: Array, lam: Array) -> Array:
            if slope is not None:
                return slope[0] @ phi + (slope[1] * b).sum()
            assert rows is not None
            eta = rows.predictor(spec, phi, b)
            return spec.power(lam) * rows.losses(spec, eta, lam).sum()

        def energy(phi: Array, lam: Array) -> Array:
            there = Coordinates.given(spec, around, lam)
            follow = there.leaf_mean(phi) + jnp.einsum("jig,jg->ig", there.root.blocks, z)
            found = losses(phi, follow, lam) - spec.log_hyper(lam)
            found = found + spec.head_energy(lam, phi, around.prior)
            found = found + spec.leaf_energy(lam, follow).sum()
            return found - there.root.log_volumes[1].sum()

        return jnp.concatenate(jax.grad(energy, argnums=(0, 1))(phi, lam))

    found: Array = jax.lax.map(one, (draws, slopes))
    return found
