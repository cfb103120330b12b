"""Draws of a Gaussian mixed model: no rows are needed, and the parameters are independent draws.

The effects integrate out: the hyperparameters' own posterior is known up to a constant from the
arrow's determinant. They are proposed from a Gaussian fitted to their earlier draws, subject to a
Metropolis test; the parameters given them are exact draws.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.types import Array, PyTree, Vector
from ornstein.curvature.arrow_anchor import MixedAnchor
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.models.random_effects.specification import Specification
from ornstein.sampling.hyper_steps import slice_sample
from ornstein.sampling.mixed import tested
from ornstein.sampling.mixed.coordinates import Around, Coordinates, whitened_slope
from ornstein.sampling.mixed.moves import Reference, Tuning


def prepared(
    post: MixedPosterior, plan: object, anchor: MixedAnchor, dtype: str, before: None = None
) -> tuple[Around, None]:
    """What chains have in common; no rows."""
    del plan, before
    return Around.of(post, anchor, dtype), None


class GaussianState(NamedTuple):
    """Hyperparameters, their log-density, and the coordinates given them."""

    lam: Array
    log_density: Array
    coordinates: Coordinates


def marginal(spec: Specification, around: Around, lam: Array) -> tuple[Array, Coordinates]:
    """Log-density of the hyperparameters, the parameters integrated out; and the coordinates."""
    white_phi, white_b, root = whitened_slope(spec, around, lam)
    step_phi, step_b = root.apply(white_phi, white_b)
    here = Coordinates(around.phi - step_phi, around.b - step_b, root, lam)
    change = lam[-1] - around.lam[-1]
    # Squares over the variance, less their value at the anchor: exact where N is large.
    squares = 0.5 * around.squares * jnp.exp(-2 * around.lam[-1]) * jnp.expm1(-2 * change)
    energy = squares + around.rows * change
    energy = energy + spec.head_energy(lam, around.phi, around.prior)
    energy = energy + spec.leaf_energy(lam, around.b).sum()
    energy = energy - 0.5 * ((white_phi**2).sum() + (white_b**2).sum())
    volume_phi, volume_b = root.log_volumes
    return spec.log_hyper(lam) - energy + volume_phi.sum() + volume_b.sum(), here


def laplace(spec: Specification, around: Around, widths: Vector) -> tuple[Vector, Vector]:
    """Mode and covariance of the hyperparameters' log-density: where to propose from.

    For models whose factorisations take long; others find it by draws.
    """
    start = np.asarray(around.lam, float)

    def negative(scaled: Vector) -> tuple[float, Vector]:
        lam = jnp.asarray(start + widths * scaled, around.lam.dtype)
        value, slope = _negative(spec, around, lam)
        return float(value), widths * np.asarray(slope, float)

    options = {"maxiter": 20, "ftol": 1e-6}
    zero = np.zeros(len(start))
    from scipy.optimize import minimize  # takes long to import

    found = minimize(negative, zero, jac=True, method="L-BFGS-B", options=options)
    columns = []
    for unit in np.eye(len(start)):
        ahead, behind = (negative(found.x + 0.5 * side * unit)[1] for side in (1, -1))
        columns.append(ahead - behind)
    values, directions = np.linalg.eigh(0.5 * (np.array(columns) + np.array(columns).T))
    cov = (directions / np.clip(values, 0.05, None)) @ directions.T
    return start + widths * found.x, widths[:, None] * cov * widths


@partial(jax.jit, static_argnums=(0,))
def _negative(spec: Specification, around: Around, lam: Array) -> tuple[Array, Array]:
    return jax.value_and_grad(lambda at: -marginal(spec, around, at)[0])(lam)


def begin(
    spec: Specification, around: Around, rows: PyTree, lam: Array, key: Array
) -> GaussianState:
    """At hyperparameters."""
    del rows, key
    return GaussianState(lam, *marginal(spec, around, lam))


def advance(
    spec: Specification,
    around: Around,
    rows: PyTree,
    reference: Reference,
    tuning: Tuning,
    state: GaussianState,
    key: Array,
) -> tuple[GaussianState, Array]:
    """One proposal, and whether it was accepted."""
    del rows
    move, test = jax.random.split(key)
    lam, weight = reference.proposed(state.lam, tuning.hyper, move)
    log_density, there = marginal(spec, around, lam)
    ratio = log_density - state.log_density + weight
    finite = ratio < jnp.inf  # not so where a correlation rounds to one
    accepted = finite & (-jax.random.exponential(test, (), ratio.dtype) < ratio)
    tried = GaussianState(lam, log_density, there)
    moved = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), tried, state)
    rate = jnp.where(jnp.isnan(ratio), 0.0, jnp.exp(jnp.minimum(ratio, 0.0)))
    return moved, jnp.stack([jnp.ones_like(rate), jnp.ones_like(rate), rate])


def read(
    spec: Specification, around: Around, state: GaussianState, key: Array
) -> tuple[Array, Array, Array]:
    """A draw: head, leaves and hyperparameters."""
    del spec, around
    here = state.coordinates
    one, two = jax.random.split(key)
    z_phi = jax.random.normal(one, here.phi.shape, here.phi.dtype)
    z_b = jax.random.normal(two, here.b.shape, here.b.dtype)
    return *here.position(z_phi, z_b), state.lam


def draw_given(
    spec: Specification,
    around: Around,
    lam: Array,
    phi: Array,
    b: Array,
    reference: Reference,
    key: Array,
) -> Array:
    """Hyperparameters given the parameters, in turn, by slice sampling (X13)."""
    effects, noise = jax.random.split(key)
    lam = tested.draw_given(spec, lam, phi, b, reference, effects)
    d_phi, d_b = phi - around.phi, b - around.b
    by_phi, by_b = around.data.apply(d_phi, d_b)
    squares = around.squares + ((2 * around.slope_phi + by_phi) * d_phi).sum()
    squares = squares + ((2 * around.slope_b + by_b) * d_b).sum()

    def density(entry: Array) -> Array:
        energy = around.rows * entry[0] + 0.5 * squares * jnp.exp(-2 * entry[0])
        return (spec.log_hyper(lam.at[-1].set(entry[0])) - energy)[None]

    found = slice_sample(density, lam[-1:], 2 * reference.widths[-1:], noise)
    return lam.at[-1].set(found[0])
