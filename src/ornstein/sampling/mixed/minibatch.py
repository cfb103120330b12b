"""Rotation steps of mixed models with few rows: they estimate what is beyond second order.

The loss around the anchor is known to second order, the prior exactly: rows estimate what is left
(X10), whose noise falls with the rows a group has. Coordinates follow the hyperparameters, which
are drawn given the effects after every step (X13).
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein._base.types import Array, Vector
from ornstein.curvature import arrow_sums
from ornstein.curvature.arrow_anchor import MixedAnchor
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.models.random_effects.rows import MixedRows
from ornstein.models.random_effects.specification import Specification
from ornstein.planning.mixed import MixedPlan
from ornstein.sampling.mixed.coordinates import Around, Coordinates
from ornstein.sampling.mixed.moves import Reference, Tuning
from ornstein.sampling.mixed.tested import draw_given

_LAST = 3  # numbers of a row behind its columns: predictor, target, weight


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Sampled:
    """Rows to draw from: a row's numbers lie together. And what a step needs beside.

    Of rows on disk those of a draw's steps were drawn and read ahead, (steps, S, ...).
    """

    numbers: Any  # (N, p + columns + 3): design, predictor at the anchor, target, weight
    index: Any  # (N, groupings)
    noise_phi: Any  # injected into the velocity of the head, (m,): standard deviations
    noise_b: Any  # of the leaves, (q, G)
    keep: Any
    share: Any  # N / S
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
        more = (*noise, keep, post.num_data / size)
        phi, b, kept, share = (np.asarray(part, np.float32) for part in more)
        numbers = index = None
        if not post.on_disk:
            rows = post.rows.in_memory()
            found = packed(post.specification, rows, anchor)
            numbers, index = (rows.as_given(part) for part in found)
        return cls(numbers, index, phi, b, kept, share, size, steps)

    def moved(self, post: MixedPosterior, anchor: MixedAnchor) -> "Sampled":
        """The same rows, their predictors at another anchor."""
        if self.numbers is None:
            return self
        rows, numbers = post.rows.in_memory(), self.numbers.copy()
        eta = arrow_sums.predictor(post.specification, rows, anchor.phi, anchor.b)
        numbers[:, -_LAST] = rows.as_given(eta)
        return replace(self, numbers=numbers)

    def read(self, ahead: tuple[Array, Array] | None) -> "Sampled":
        """With the rows of a draw that were read ahead, if they were."""
        return self if ahead is None else replace(self, numbers=ahead[0], index=ahead[1])

    def batch(self, key: Array, number: Array) -> tuple[Array, Array]:
        """Rows of a step: their numbers and indices."""
        if self.numbers.ndim == 3:
            return self.numbers[number], self.index[number]
        chosen = row_numbers(key, self.size, self.numbers.shape[0])
        return self.numbers[chosen], self.index[chosen]


def packed(
    spec: Specification, rows: MixedRows, anchor: MixedAnchor
) -> tuple[Vector, npt.NDArray[np.int32]]:
    """What :class:`Sampled` has of rows: their numbers together, and their indices."""
    eta = arrow_sums.predictor(spec, rows, anchor.phi, anchor.b)
    weight = np.ones(rows.size) if rows.weight is None else rows.weight
    designs = [own for own in rows.design if own is not None]
    parts = [rows.x, *designs, np.stack([eta, rows.y, weight], axis=1)]
    numbers = np.concatenate([np.asarray(part, np.float32) for part in parts], axis=1)
    return numbers, np.stack(rows.index, axis=1).astype(np.int32)


def row_numbers(key: Array, size: int, total: int | Array) -> Array:
    """Of a step's rows, with replacement."""
    return jax.random.randint(key, (size,), 0, total, jnp.int32)


def keys_of_step(key: Array, number: Array) -> Array:
    """For the velocities of head and leaves, the rows, and the hyperparameters."""
    return jax.random.split(jax.random.fold_in(key, number), 4)


class MinibatchState(NamedTuple):
    """Parameters, hyperparameters, and velocities in the coordinates."""

    phi: Array
    b: Array
    lam: Array
    v_phi: Array
    v_b: Array


def prepared(
    post: MixedPosterior,
    plan: MixedPlan,
    anchor: MixedAnchor,
    dtype: str,
    before: Sampled | None = None,
) -> tuple[Around, Sampled]:
    """What chains have in common, and the rows, whose predictors are those at the anchor."""
    if before is not None:
        return Around.of(post, anchor, dtype), before.moved(post, anchor)
    rows = Sampled.of(post, anchor, plan.batch_size, plan.thin, plan.keep, plan.injected)
    return Around.of(post, anchor, dtype), rows


def begin(
    spec: Specification, around: Around, rows: Sampled, lam: Array, key: Array
) -> MinibatchState:
    """At a draw of the Gaussian under hyperparameters."""
    del rows
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
        return _step(spec, around, rows, reference, tuning, state, key, number), None

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
    number: Array,
) -> MinibatchState:
    one, two, chosen, given = keys_of_step(key, number)
    batch = rows.batch(chosen, number)
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
        *_gradient(spec, around, rows.share, batch, *here.position(*z), state.lam)
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
    share: Array,
    batch: tuple[Array, Array],
    phi: Array,
    b: Array,
    lam: Array,
) -> tuple[Array, Array]:
    """Of the whole loss by head and leaves: exact but for the remainder."""
    d_phi, d_b = phi - around.phi, b - around.b
    by_phi, by_b = around.data.apply(d_phi, d_b)
    by_phi = by_phi + around.slope_phi + spec.head_prior_gradient(lam, phi, around.prior)
    by_b = by_b + around.slope_b + spec.leaf_precision(lam) @ b
    more_phi, more_b = remainder(spec, share, batch, d_phi, d_b)
    return by_phi + more_phi, by_b + more_b


def remainder(
    spec: Specification, share: Array, batch: tuple[Array, Array], d_phi: Array, d_b: Array
) -> tuple[Array, Array]:
    """What rows drawn with replacement estimate of the gradient beyond second order (X10)."""
    numbers, index = batch
    x, at = numbers[:, : spec.fixed], spec.fixed
    columns = []
    for grouping in spec.groupings:
        width = 0 if grouping.plain else grouping.width
        columns.append(numbers[:, at : at + width].T if width else jnp.ones((1, len(x)), x.dtype))
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
    left = (left - family.curvature(eta, y, unit) * change) * weight * share
    sums = []
    for number, (own, column) in enumerate(zip(effects, columns, strict=True)):
        sums.append(jnp.zeros_like(own).at[:, index[:, number]].add(left[None] * column))
    head = [left @ x, *(own.reshape(-1) for own in sums[1:])]
    return jnp.concatenate(head), sums[0]
