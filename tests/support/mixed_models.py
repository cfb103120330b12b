"""Small mixed models, and their parts as dense arrays."""

import jax
import jax.numpy as jnp
import numpy as np

import ornstein as orn
from ornstein._base.types import Array, Vector
from ornstein.models import Effects
from ornstein.models.random_effects.posterior import MixedPosterior


def small(family: str = "bernoulli", crossed: bool = True, seed: int = 0) -> MixedPosterior:
    """Slopes of 7 levels, correlated; and intercepts of 3 crossed ones."""
    rng = np.random.default_rng(seed)
    n = 60
    X = rng.normal(size=(n, 2))
    g, h = rng.permutation(np.arange(n) % 7), rng.permutation(np.arange(n) % 3)
    eta = 0.3 + X @ [0.5, -0.5] + 0.8 * rng.normal(size=7)[g]
    if family == "bernoulli":
        y = (rng.uniform(size=n) < 1 / (1 + np.exp(-eta))).astype(float)
    elif family == "poisson":
        y = rng.poisson(np.exp(0.5 * eta)).astype(float)
    else:
        y = eta + 0.7 * rng.normal(size=n)
    groups: dict[str, Effects] = {"g": Effects(g, slopes=(1,))}
    if crossed:
        groups["h"] = Effects(h)
    return orn.models.mixed(X, y, groups, family, sample_weight=rng.uniform(0.5, 1.5, n))


def design(post: MixedPosterior) -> Vector:
    """Of all parameters, (rows, D), in the order head, leaves."""
    spec, rows = post.specification, post.rows.in_memory()
    pieces = [rows.x]
    for number in (*range(1, len(spec.groupings)), 0):
        grouping, index = spec.groupings[number], rows.index[number]
        own = rows.design[number]
        columns = np.ones((rows.size, 1)) if own is None else own
        hot = np.eye(grouping.levels)[index]
        pieces += [hot * column[:, None] for column in columns.T]
    return np.concatenate(pieces, axis=1)


def rows_loss(post: MixedPosterior, theta: Array) -> Array:
    """Sum of the rows' losses of unit noise, by one dense product."""
    rows = post.rows.in_memory()
    eta = jnp.asarray(design(post)) @ theta
    unit = {"noise_scale": jnp.ones(())}
    losses = post.specification.family.loss(eta, jnp.asarray(rows.y), unit)
    return losses.sum() if rows.weight is None else (jnp.asarray(rows.weight) * losses).sum()


def prior_precision(post: MixedPosterior, lam: Vector) -> Vector:
    """Of all parameters, (D, D)."""
    spec = post.specification
    found = np.zeros((spec.dim, spec.dim))
    p = spec.fixed
    found[:p, :p] = np.diag(post.prior_precision)
    places = [slice(spec.head, spec.dim), *spec.places()]
    for grouping, place, part in zip(
        spec.groupings, places, spec.parts(jnp.asarray(lam)), strict=True
    ):
        found[place, place] = np.kron(np.asarray(grouping.precision(part)), np.eye(grouping.levels))
    return found


def autodiff(post: MixedPosterior, theta: Vector) -> tuple[Vector, Vector]:
    """Gradient and Hessian of the rows' losses."""
    at = jnp.asarray(theta)
    gradient = jax.grad(lambda t: rows_loss(post, t))(at)
    return np.asarray(gradient), np.asarray(jax.hessian(lambda t: rows_loss(post, t))(at))
