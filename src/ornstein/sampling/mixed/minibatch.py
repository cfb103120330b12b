"""Rotation steps of mixed models with few rows: they estimate what is beyond second order.

The loss around the anchor is known to second order, the prior exactly: rows estimate what is left
(X10), whose noise falls with the rows a group has. Coordinates follow the hyperparameters, which
are drawn given the effects after every step (X13).
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.types import Array
from ornstein.curvature.arrow_anchor import MixedAnchor
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.models.random_effects.specification import Specification
from ornstein.sampling.mixed.coordinates import Around, Coordinates
from ornstein.sampling.mixed.moves import Reference, Tuning
from ornstein.sampling.mixed.tested import draw_given


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Sampled:
    """Rows to draw from: a row's numbers lie together. And what a step needs beside."""

    numbers: Any  # (N, p + columns + 3): design, predictor at the anchor, target, weight
    index: Any  # (N, groupings)
    noise_phi: Any  # injected into the velocity of the head, (m,): standard deviations
    noise_b: Any  # of the leaves, (q, G)
    keep: Any
    size: int = field(metadata={"static": True})  # S
    steps: int = field(metadata={"static": True})  # a draw

    @classmethod
    def of(
        cls,
        post: MixedPosterior,
        anchor: MixedAnchor,
        size: int,
        steps: int,
        keep: float,
        noise: tuple[Any, Any],
    ) -> "Sampled":
        """Rows of a posterior, in single precision."""
        rows = post.rows
        designs = [own for own in rows.design if own is not None]
        weight = np.ones(rows.size) if rows.weight is None else rows.weight
        parts = [rows.x, *designs, np.stack([anchor.at.predictor, rows.y, weight], axis=1)]
        numbers = np.concatenate([np.asarray(part, np.float32) for part in parts], axis=1)
        phi, b, kept = (np.asarray(part, np.float32) for part in (*noise, keep))
        return cls(numbers, np.stack(rows.index, axis=1), phi, b, kept, size, steps)


class MinibatchState(NamedTuple):
    """Parameters, hyperparameters, and velocities in the coordinates."""

    phi: Array
    b: Array
    lam: Array
    v_phi: Array
    v_b: Array


def begin(spec: Specification, around: Around, lam: Array, key: Array) -> MinibatchState:
    """At a draw of the Gaussian under hyperparameters."""
    here = Coordinates.given(spec, around, lam)
    normals = [
        jax.random.normal(part, like.shape, lam.dtype)
        for part, like in zip(
            jax.random.split(key, 4), (here.phi, here.b, here.phi, here.b), strict=True
        )
    ]
    return MinibatchState(*here.position(*normals[:2]), lam, *normals[2:])


def advance(
    spec: Specification,
    around: Around,
    rows: Sampled,
    reference: Reference,
    tuning: Tuning,
    state: MinibatchState,
    key: Array,
) -> tuple[MinibatchState, Array]:
    """The steps of a draw."""

    def step(state: MinibatchState, number: Array) -> tuple[MinibatchState, None]:
        own = jax.random.fold_in(key, number)
        return _step(spec, around, rows, reference, tuning, state, own), None

    moved, _ = jax.lax.scan(step, state, jnp.arange(rows.steps))
    return moved, jnp.ones(3, state.phi.dtype)


def read(
    spec: Specification, around: Around, state: MinibatchState, key: Array
) -> tuple[Array, Array, Array]:
    """A draw: head, leaves and hyperparameters."""
    del spec, around, key
    return state.phi, state.b, state.lam


def _step(
    spec: Specification,
    around: Around,
    rows: Sampled,
    reference: Reference,
    tuning: Tuning,
    state: MinibatchState,
    key: Array,
) -> MinibatchState:
    one, two, batch, given = jax.random.split(key, 4)
    here = Coordinates.given(spec, around, state.lam)
    z = here.coordinates(state.phi, state.b)
    v_phi = rows.keep * state.v_phi
    v_phi = v_phi + rows.noise_phi * jax.random.normal(one, v_phi.shape, v_phi.dtype)
    v_b = rows.keep * state.v_b
    v_b = v_b + rows.noise_b * jax.random.normal(two, v_b.shape, v_b.dtype)
    half = 0.5 * tuning.leaf
    cos, sin = jnp.cos(half), jnp.sin(half)
    z, v = _rotated(z, (v_phi, v_b), cos, sin)
    slope = here.root.transposed(
        *_gradient(spec, around, rows, *here.position(*z), state.lam, batch)
    )
    v = tuple(own - 2 * sin * (s - at) for own, s, at in zip(v, slope, z, strict=True))
    z, v = _rotated(z, v, cos, sin)
    phi, b = here.position(*z)
    lam = draw_given(spec, state.lam, phi, b, reference, given)
    return MinibatchState(phi, b, lam, *v)


def _rotated(z: Any, v: Any, cos: Array, sin: Array) -> tuple[Any, Any]:
    pairs = list(zip(z, v, strict=True))
    return tuple(cos * a + sin * w for a, w in pairs), tuple(cos * w - sin * a for a, w in pairs)


def _gradient(
    spec: Specification,
    around: Around,
    rows: Sampled,
    phi: Array,
    b: Array,
    lam: Array,
    key: Array,
) -> tuple[Array, Array]:
    """Of the whole loss by head and leaves: exact but for the remainder."""
    d_phi, d_b = phi - around.phi, b - around.b
    by_phi, by_b = around.data.apply(d_phi, d_b)
    by_phi = by_phi + around.slope_phi + spec.head_prior_gradient(lam, phi, around.prior)
    by_b = by_b + around.slope_b + spec.leaf_precision(lam) @ b
    more_phi, more_b = remainder(spec, rows, d_phi, d_b, key)
    return by_phi + more_phi, by_b + more_b


def remainder(
    spec: Specification, rows: Sampled, d_phi: Array, d_b: Array, key: Array
) -> tuple[Array, Array]:
    """What rows drawn with replacement estimate of the gradient beyond second order (X10)."""
    total = rows.numbers.shape[0]
    chosen = jax.random.randint(key, (rows.size,), 0, total)
    numbers, index = rows.numbers[chosen], rows.index[chosen]
    x, at = numbers[:, : spec.fixed], spec.fixed
    columns = []
    for grouping in spec.groupings:
        width = 0 if grouping.plain else grouping.width
        columns.append(
            numbers[:, at : at + width].T if width else jnp.ones((1, rows.size), x.dtype)
        )
        at += width
    eta, y, weight = numbers[:, at], numbers[:, at + 1], numbers[:, at + 2]
    effects = [
        d_b,
        *(d_phi[p].reshape(g.width, -1) for g, p in zip(spec.others, spec.places(), strict=True)),
    ]
    change = x @ d_phi[: spec.fixed]
    for number, (own, column) in enumerate(zip(effects, columns, strict=True)):
        change = change + (own[:, index[:, number]] * column).sum(axis=0)
    family, unit = spec.family, {"noise_scale": jnp.ones((), x.dtype)}
    left = family.residual(eta + change, y, unit) - family.residual(eta, y, unit)
    left = (left - family.curvature(eta, y, unit) * change) * weight * (total / rows.size)
    sums = []
    for number, (own, column) in enumerate(zip(effects, columns, strict=True)):
        sums.append(jnp.zeros_like(own).at[:, index[:, number]].add(left[None] * column))
    head = [left @ x, *(own.reshape(-1) for own in sums[1:])]
    return jnp.concatenate(head), sums[0]
