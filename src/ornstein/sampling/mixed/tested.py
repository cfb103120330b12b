"""Steps of mixed models with all rows, each subject to a Metropolis test: exact for any posterior.

Given the head, groups are independent: every group's step has a test of its own, so that acceptance
does not fall with their number. A cycle has five parts: the leaves turn (X11) given the head; the
head turns, the leaves following it; hyperparameters move while the coordinates stay, which is
nearly a draw of their own posterior; one moves while the effects stay in units of it, which leads
out of standard deviations near zero; and they are drawn given the effects (X13).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from ornstein._base.types import Array
from ornstein.curvature.arrow_anchor import MixedAnchor
from ornstein.linalg import small
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.models.random_effects.specification import Specification
from ornstein.sampling.hyper_steps import slice_sample
from ornstein.sampling.mixed.coordinates import Around, Coordinates
from ornstein.sampling.mixed.moves import Reference, Tuning
from ornstein.sampling.mixed.passes import Chunks

_WELL_KNOWN = 0.05  # width, on the log scale: none is near 0


class TestedState(NamedTuple):
    """Parameters, hyperparameters, and of the rows what is known there."""

    phi: Array
    b: Array
    lam: Array
    losses: Array  # by leaf
    of_head: Array  # what the head adds to the predictor


def prepared(
    post: MixedPosterior,
    plan: object,
    anchor: MixedAnchor,
    dtype: str,
    before: Chunks | None = None,
) -> tuple[Around, Chunks]:
    """What chains have in common, and all rows, which stay where the anchor moves."""
    del plan
    return Around.of(post, anchor, dtype), before or Chunks.of(post, dtype)


def begin(spec: Specification, around: Around, rows: Chunks, lam: Array, key: Array) -> TestedState:
    """At a draw of the Gaussian under hyperparameters."""
    here = Coordinates.given(spec, around, lam)
    one, two = jax.random.split(key)
    z_phi = jax.random.normal(one, here.phi.shape, lam.dtype)
    z_b = jax.random.normal(two, here.b.shape, lam.dtype)
    return at(spec, rows, *here.position(z_phi, z_b), lam)


def advance(
    spec: Specification,
    around: Around,
    rows: Chunks,
    reference: Reference,
    tuning: Tuning,
    state: TestedState,
    key: Array,
) -> tuple[TestedState, Array]:
    """One cycle, and the acceptance rates of its first three tests."""
    leaf, head, hyper, scale, given = jax.random.split(key, 5)
    here = Coordinates.given(spec, around, state.lam)
    state, first = _leaves(spec, rows, here, tuning.leaf, state, leaf)
    state, second = _head(spec, around, rows, here, tuning.head, state, head)
    third = jnp.ones_like(second)
    if spec.count:
        state, third = _hyper(spec, around, rows, here, reference, tuning.hyper, state, hyper)
    if spec.scales:
        # Where all are known this well, as in tables of many groups, it is not worth a pass.
        state = jax.lax.cond(
            reference.widths[: spec.scales].max() < _WELL_KNOWN,
            lambda state: state,
            lambda state: _scaled(spec, rows, reference, state, scale),
            state,
        )
    lam = draw_given(spec, state.lam, state.phi, state.b, reference, given)
    return state._replace(lam=lam), jnp.stack([first, second, third])


def at(spec: Specification, rows: Chunks, phi: Array, b: Array, lam: Array) -> TestedState:
    """The state at parameters, with its rows' losses."""
    of_head = rows.of_head(spec, phi)
    losses = rows.losses(spec, rows.with_leaves(of_head, b), lam)
    return TestedState(phi, b, lam, losses, of_head)


def read(
    spec: Specification, around: Around, state: TestedState, key: Array
) -> tuple[Array, Array, Array]:
    """A draw: head, leaves and hyperparameters."""
    del spec, around, key
    return state.phi, state.b, state.lam


def draw_given(
    spec: Specification,
    lam: Array,
    phi: Array,
    b: Array,
    reference: Reference,
    key: Array,
) -> Array:
    """Those of effects given these, in turn, by slice sampling; the family's stay (X13)."""
    if not spec.scales:
        return lam
    scatters = spec.scatters(phi, b)

    def one(index: Array, lam: Array) -> Array:
        def density(entry: Array) -> Array:
            return spec.log_given(lam.at[index].set(entry[0]), scatters)[None]

        at = jax.lax.dynamic_slice(lam, (index,), (1,))
        width = jax.lax.dynamic_slice(reference.widths, (index,), (1,))
        found = slice_sample(density, at, 2 * width, jax.random.fold_in(key, index))
        return lam.at[index].set(found[0])

    return jax.lax.fori_loop(0, spec.scales, one, lam)


def _leaves(
    spec: Specification,
    rows: Chunks,
    here: Coordinates,
    angle: Array,
    state: TestedState,
    key: Array,
) -> tuple[TestedState, Array]:
    """Every group turns given the head, and is tested by itself."""
    normal, uniform = jax.random.split(key)
    mean, inner = here.leaf_mean(state.phi), here.root.blocks
    lower = small.lower_inverse(inner)
    z = jnp.einsum("jig,jg->ig", lower, state.b - mean)
    v = jax.random.normal(normal, z.shape, z.dtype)
    precision, power = spec.leaf_precision(state.lam), spec.power(state.lam)

    def at(z: Array) -> tuple[Array, Array]:
        b = mean + jnp.einsum("jig,jg->ig", inner, z)
        return b, rows.with_leaves(state.of_head, b)

    def slope(z: Array) -> Array:
        b, eta = at(z)
        residual = rows.residual(spec, eta, state.lam)
        by_b = power * rows.leaf_sums(spec, residual) + precision @ b
        return jnp.einsum("ijg,jg->ig", inner, by_b)

    z_new, v_new = _turned(z, v, angle, slope)
    b_new, eta = at(z_new)
    losses = rows.losses(spec, eta, state.lam)
    change = power * (losses - state.losses)
    change = change + spec.leaf_energy(state.lam, b_new) - spec.leaf_energy(state.lam, state.b)
    change = change + 0.5 * (v_new**2 - v**2).sum(axis=0)
    accepted = -jax.random.exponential(uniform, change.shape, change.dtype) < -change
    b = jnp.where(accepted[None], b_new, state.b)
    losses = jnp.where(accepted, losses, state.losses)
    return state._replace(b=b, losses=losses), _rate(-change).mean()


def _head(
    spec: Specification,
    around: Around,
    rows: Chunks,
    here: Coordinates,
    angle: Array,
    state: TestedState,
    key: Array,
) -> tuple[TestedState, Array]:
    """The head turns while the leaves keep their coordinates, and so follow it."""
    normal, uniform = jax.random.split(key)
    follow, outer = here.root.follow, here.root.head
    z, _ = here.root.solved(state.phi - here.phi, state.b - here.b)
    v = jax.random.normal(normal, z.shape, z.dtype)
    precision, power = spec.leaf_precision(state.lam), spec.power(state.lam)

    def at(z: Array) -> tuple[Array, Array, Array, Array]:
        phi = here.phi + outer @ z
        b = state.b - jnp.einsum("img,m->ig", follow, phi - state.phi)
        of_head = rows.of_head(spec, phi)
        return phi, b, of_head, rows.with_leaves(of_head, b)

    def slope(z: Array) -> Array:
        phi, b, _, eta = at(z)
        by_phi, by_b = rows.gradient(spec, eta, state.lam)
        by_phi = power * by_phi + spec.head_prior_gradient(state.lam, phi, around.prior)
        by_b = power * by_b + precision @ b
        return (by_phi - jnp.einsum("img,ig->m", follow, by_b)) @ outer

    z_new, v_new = _turned(z, v, angle, slope)
    phi, b, of_head, eta = at(z_new)
    losses = rows.losses(spec, eta, state.lam)
    change = power * (losses - state.losses).sum()
    change = change + _prior_change(spec, around, state, phi, b, state.lam)
    change = change + 0.5 * (v_new**2 - v**2).sum()
    return _chosen(state, TestedState(phi, b, state.lam, losses, of_head), -change, uniform)


def _hyper(
    spec: Specification,
    around: Around,
    rows: Chunks,
    here: Coordinates,
    reference: Reference,
    share: Array,
    state: TestedState,
    key: Array,
) -> tuple[TestedState, Array]:
    """Hyperparameters move, the parameters' coordinates stay."""
    move, uniform = jax.random.split(key)
    lam, weight = reference.proposed(state.lam, share, move)
    there = Coordinates.given(spec, around, lam)
    phi, b = there.position(*here.coordinates(state.phi, state.b))
    tried = at(spec, rows, phi, b, lam)
    # The power is 1 here: a Gaussian family needs no rows.
    change = (tried.losses - state.losses).sum()
    change = change + _prior_change(spec, around, state, phi, b, lam)
    ratio = -change + spec.log_hyper(lam) - spec.log_hyper(state.lam)
    ratio = ratio + here.log_volume_change(there)
    ratio = ratio + weight
    return _chosen(state, tried, ratio, uniform)


def _scaled(
    spec: Specification, rows: Chunks, reference: Reference, state: TestedState, key: Array
) -> TestedState:
    """One hyperparameter of effects moves, now and then far, and the effects with it (X13)."""
    which, uniform = jax.random.split(key)
    lam = reference.walked(state.lam, spec.scales, which)
    phi, b = spec.rescaled(state.phi, state.b, state.lam, lam)
    tried = at(spec, rows, phi, b, lam)
    ratio = spec.log_scales(lam) - spec.log_scales(state.lam)
    ratio = ratio - spec.power(lam) * (tried.losses - state.losses).sum()
    return _chosen(state, tried, ratio, uniform)[0]


def _prior_change(
    spec: Specification, around: Around, state: TestedState, phi: Array, b: Array, lam: Array
) -> Array:
    """Of the energies of the prior, group by group."""
    leaf = spec.leaf_energy(lam, b) - spec.leaf_energy(state.lam, state.b)
    head = spec.head_energy(lam, phi, around.prior)
    return leaf.sum() + head - spec.head_energy(state.lam, state.phi, around.prior)


def _turned(z: Array, v: Array, angle: Array, slope: object) -> tuple[Array, Array]:
    """A rotation step, kicked half-way by what is not Gaussian (X11)."""
    half = 0.5 * angle
    cos, sin = jnp.cos(half), jnp.sin(half)
    z, v = cos * z + sin * v, cos * v - sin * z
    v = v - 2 * sin * (slope(z) - z)  # type: ignore[operator]
    return cos * z + sin * v, cos * v - sin * z


def _chosen(
    state: TestedState, tried: TestedState, ratio: Array, key: Array
) -> tuple[TestedState, Array]:
    finite = ratio < jnp.inf  # not so where a correlation rounds to one
    accepted = finite & (-jax.random.exponential(key, (), ratio.dtype) < ratio)
    moved = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), tried, state)
    return moved, _rate(ratio)


def _rate(ratio: Array) -> Array:
    return jnp.where(jnp.isnan(ratio), 0.0, jnp.exp(jnp.minimum(ratio, 0.0)))
