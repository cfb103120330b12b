"""Gradients of a mixed model's log posterior at draws, for Stein's identities (X12).

Parameters are the head and the hyperparameters, given the leaves' place in their own Gaussian, so
that leaves follow them. Effects in the head are counted in units of their standard deviation: few
of them and it would have the shape of a funnel. Where groups take turns, every turn has such
gradients given the effects that it holds. The identities hold for each of these, and so for their
mean where several turns have a parameter.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein._base.precision import double_precision
from ornstein._base.types import Array, Vector
from ornstein.curvature import arrow_sums
from ornstein.curvature.arrow_anchor import MixedAnchor
from ornstein.curvature.turns_anchor import TurnsAnchor
from ornstein.linalg import small
from ornstein.models.random_effects.specification import Specification
from ornstein.models.random_effects.turns import Place, Turn
from ornstein.results.mixed import MixedResult
from ornstein.sampling.mixed import gaussian, turns
from ornstein.sampling.mixed.coordinates import Around, Coordinates
from ornstein.sampling.mixed.passes import Chunks


class MixedDraws(NamedTuple):
    """Head (T, m), leaves (T, q, G) and hyperparameters (T, n)."""

    phi: Vector
    b: Vector
    lam: Vector


def judged_labels(result: MixedResult) -> tuple[str, ...]:
    """Names of coefficients, and of effects in the judged part of the head."""
    post = result.posterior
    own = zip(post.specification.others, post.levels[1:], strict=True)
    effects = [name for grouping, levels in own for name in grouping.effect_labels(levels.tolist())]
    every = [*post.fixed_labels, *effects]
    return tuple(every[place] for place in _judged_head(result))


def judged_draws(result: MixedResult, phi: Vector, lam: Vector) -> Vector:
    """Of these, (T, n): effects as they would be under the anchor's standard deviations."""
    spec, hyper = result.posterior.specification, np.arange(result.posterior.specification.count)
    if isinstance(result.anchor, TurnsAnchor):
        turn = result.anchor.models[0].turn
        spec, hyper = turn.spec, turn.hyper
    with double_precision():
        known = (phi[:, _judged_head(result)], lam[:, hyper], result.anchor.lam[hyper])
        return np.asarray(_in_units(spec, *(jnp.asarray(part) for part in known)))


def _judged_head(result: MixedResult) -> npt.NDArray[np.intp]:
    """Which of the head are judged: of groups that take turns only those that every turn has."""
    spec = result.posterior.specification
    if not isinstance(result.anchor, TurnsAnchor):
        return np.arange(spec.head)
    kept = {number - 1 for number in result.anchor.models[0].turn.kept}
    places = [place for number, place in enumerate(spec.places()) if number in kept]
    every = np.arange(spec.head)
    return np.concatenate([every[: spec.fixed], *(every[place] for place in places)])


def gradients(result: MixedResult, draws: MixedDraws) -> Vector:
    """Of ``-log p`` by the judged part of the head and hyperparameters, (T, n)."""
    if isinstance(result.anchor, TurnsAnchor):
        return _by_turns(result, result.anchor, draws)
    post = result.posterior
    with double_precision():
        around = jax.tree.map(jnp.asarray, Around.of(post, result.anchor, "float64"))
        rows: Chunks | None = None
        slopes = arrow_sums.slopes(post, *draws) if post.on_disk else None
        if slopes is None:
            rows = jax.tree.map(jnp.asarray, Chunks.of(post, "float64"))
        parts = jax.tree.map(jnp.asarray, (tuple(draws), slopes))
        unit = jnp.asarray(result.anchor.lam)
        return np.asarray(_of_joint(post.specification, around, rows, unit, *parts))


def marginal_gradients(result: MixedResult, lam: Vector) -> Vector:
    """Of a Gaussian model's ``-log p`` by hyperparameters alone, (T, n)."""
    post = result.posterior
    assert isinstance(result.anchor, MixedAnchor)
    with double_precision():
        around = jax.tree.map(jnp.asarray, Around.of(post, result.anchor, "float64"))
        return np.asarray(_of_marginal(post.specification, around, jnp.asarray(lam)))


def _by_turns(result: MixedResult, anchor: TurnsAnchor, draws: MixedDraws) -> Vector:
    post, spec = result.posterior, result.posterior.specification
    head = len(_judged_head(result))
    total = np.zeros((len(draws.lam), head + spec.count))
    count = np.zeros(head + spec.count)
    arounds, every = turns.prepared(post, result.plan, anchor, "float64")
    with double_precision():
        for around, rows, turn in zip(arounds, every.rows, every.turns, strict=True):
            unit = anchor.lam[turn.hyper]
            parts = jax.tree.map(jnp.asarray, (around, rows, unit, tuple(draws)))
            own = np.concatenate([np.arange(head), head + turn.hyper])
            total[:, own] += np.asarray(_of_turn(turn, *parts))
            count[own] += 1
    return total / count


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
    unit: Array,
    draws: tuple[Array, Array, Array],
    slopes: tuple[Array, Array] | None,
) -> Array:
    """Of rows on disk their losses' slopes at the draws stand for them."""

    def one(given: tuple[tuple[Array, Array, Array], tuple[Array, Array] | None]) -> Array:
        return _followed(spec, around, rows, unit, *given[0], given[1])

    found: Array = jax.lax.map(one, (draws, slopes))
    return found


@partial(jax.jit, static_argnums=(0,))
def _of_turn(
    turn: Turn,
    around: Around,
    rows: turns.TurnRows,
    unit: Array,
    draws: tuple[Array, Array, Array],
) -> Array:
    """Of a turn's own model, given the held effects of every draw."""

    def one(given: tuple[Array, Array, Array]) -> Array:
        phi, b, lam = given
        place = Place.of(turn.whole, phi, b)
        held = tuple(place.effects[number] for number in turn.held)
        here, chunks = rows.given(turn.spec, around, held)
        return _followed(turn.spec, here, chunks, unit, *turn.taken(place), lam[turn.hyper], None)

    found: Array = jax.lax.map(one, draws)
    return found


def _followed(
    spec: Specification,
    around: Around,
    rows: Chunks | None,
    unit: Array,
    phi: Array,
    b: Array,
    lam: Array,
    slope: tuple[Array, Array] | None,
) -> Array:
    """By head, in units, and hyperparameters, the leaves following them."""
    here = Coordinates.given(spec, around, lam)
    lower = small.lower_inverse(here.root.blocks)
    z = jnp.einsum("jig,jg->ig", lower, b - here.leaf_mean(phi))

    def losses(phi: Array, b: Array, lam: Array) -> Array:
        if slope is not None:
            return slope[0] @ phi + (slope[1] * b).sum()
        assert rows is not None
        found = rows.losses(spec, rows.predictor(spec, phi, b), lam).sum()
        if spec.noise_prior is None:
            return found
        # Those of unit noise, of which the constant has no power.
        constant = 0.5 * around.rows * jnp.log(2 * jnp.pi)
        return spec.power(lam) * (found - constant) + around.rows * lam[-1]

    def energy(standard: Array, lam: Array) -> Array:
        phi = _rescaled(spec, standard, unit, lam)
        there = Coordinates.given(spec, around, lam)
        follow = there.leaf_mean(phi) + jnp.einsum("jig,jg->ig", there.root.blocks, z)
        found = losses(phi, follow, lam) - spec.log_hyper(lam)
        found = found + spec.head_energy(lam, phi, around.prior)
        found = found + spec.leaf_energy(lam, follow).sum()
        return found - there.root.log_volumes[1].sum() - _log_volume(spec, lam)

    standard = _rescaled(spec, phi, lam, unit)
    return jnp.concatenate(jax.grad(energy, argnums=(0, 1))(standard, lam))


@partial(jax.jit, static_argnums=(0,))
def _in_units(spec: Specification, phis: Array, lams: Array, unit: Array) -> Array:
    return jax.vmap(lambda phi, lam: _rescaled(spec, phi, lam, unit))(phis, lams)


def _rescaled(spec: Specification, phi: Array, lam: Array, other: Array) -> Array:
    """A head whose effects keep their size in units of their standard deviation."""
    no_leaves = jnp.zeros((spec.leaf.width, 1), phi.dtype)
    return spec.rescaled(phi, no_leaves, lam, other)[0]


def _log_volume(spec: Specification, lam: Array) -> Array:
    """Of a head by that in units, up to a constant."""
    found = jnp.zeros((), lam.dtype)
    for grouping, part in zip(spec.others, spec.parts(lam)[1:], strict=True):
        found = found - 0.5 * grouping.levels * grouping.log_determinant(part)
    return found
