"""The gradient noise where the draws are: its covariance and its fourth cumulants."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.trees import cast, num_rows
from ornstein._base.types import Array, PyTree, Vector
from ornstein.curvature.row_sums import anchored_gradients, block_rows
from ornstein.data.batches import weights_of
from ornstein.data.passes import sum_over_blocks
from ornstein.models.contract import Model
from ornstein.models.posterior import Posterior
from ornstein.planning.plans import Plan

_LEAST_DRAWS, _MOST_DRAWS = 32, 256  # at which the noise is measured
_WORK = 5e9  # multiplications spent on that; beyond, fewer rows and draws are used
_SIMULATED_ROWS, _SIMULATED = 5_000, 2_048  # rows and minibatches of a simulation
_SIMULATED_READS = 8_000_000  # rows read in it, at most


def spaced(draws: Vector, count: int) -> Vector:
    """Some draws, evenly spaced."""
    return draws[np.linspace(0, len(draws) - 1, min(count, len(draws))).astype(int)]


def cumulants(post: Posterior, plan: Plan, thetas: Vector, basis: Vector) -> tuple[Vector, Vector]:
    """Variance and fourth cumulant of the rows' gradients along the columns of ``basis``.

    Averaged over ``thetas``; of anchored gradients where the plan has control variates.
    """
    order = plan.anchor.order if plan.anchor else 0
    if _is_noiseless(post, order):
        return np.zeros(plan.dim), np.zeros(plan.dim)
    rows = _some_rows(post, plan, int(20 * _WORK / (len(thetas) * plan.dim**2)))

    def about(theta: Vector, shift: Vector) -> Vector:
        def block(rows: PyTree, present: Vector) -> Array:
            weights = rows["weights"]  # of rows drawn with probability 1 / (N weight)
            gradients = anchored_gradients(
                post.model, order, jnp.asarray(theta), plan.center, rows["rows"], post.hyper
            )
            along = weights[:, None] * (gradients @ basis) - shift[None]
            return jnp.stack([(present / weights) @ along**power for power in (1, 2, 3, 4)])

        return sum_over_blocks(rows, block_rows(post), block) / num_rows(rows)

    moments = [about(theta, about(theta, np.zeros(plan.dim))[0]) for theta in thetas]
    variance = np.mean([m[1] for m in moments], axis=0)
    return variance, np.mean([m[3] - 3 * m[1] ** 2 for m in moments], axis=0)


def _is_noiseless(post: Posterior, order: int) -> bool:
    """Whether control variates leave no noise at all: of a quadratic loss, those of order two."""
    return post.quadratic and order == 2


class Noise(NamedTuple):
    """Covariances of the rows' gradients over the same rows: as planned for, and as drawn.

    ``planned`` is at the optimum, or the plan's own for control variates; ``plain`` is that of
    plain gradients over the draws.
    """

    planned: Vector
    drawn: Vector
    plain: Vector


def noise_at_draws(post: Posterior, plan: Plan, draws: Vector) -> Noise:
    """The noise that was planned for, and what it is where the draws are."""
    budget = int(_WORK / plan.dim**2)
    rows = _some_rows(post, plan, max(1000, min(20_000, budget // _LEAST_DRAWS)))
    thetas = spaced(draws, max(_LEAST_DRAWS, min(_MOST_DRAWS, budget // num_rows(rows))))
    plain = _noise_cov(post, rows, thetas, plan.center, 0)
    if plan.anchor is None:
        return Noise(_noise_cov(post, rows, plan.center[None], plan.center, 0), plain, plain)
    planned = np.asarray(plan.noise_cov.array)
    return Noise(planned, _noise_cov(post, rows, thetas, plan.center, plan.anchor.order), plain)


def simulated(post: Posterior, plan: Plan, draws: Vector, direction: Vector) -> Vector:
    """Noise of minibatch gradients along a direction, at some draws.

    In the standard deviations that the plan expects, so that a histogram of it should be a normal
    one of unit variance. Rows are drawn independently, whatever the plan's batches.
    """
    rows, S = _some_rows(post, plan, _SIMULATED_ROWS), plan.batch_size
    order = plan.anchor.order if plan.anchor else 0
    chances = 1 / rows["weights"]
    chances /= chances.sum()
    thetas, rng = spaced(draws, _LEAST_DRAWS), np.random.default_rng(0)
    batches = max(256, min(_SIMULATED, _SIMULATED_READS // S)) // len(thetas) + 1
    noise = []
    for theta in thetas:
        gradients = anchored_gradients(
            post.model, order, jnp.asarray(theta), plan.center, rows["rows"], post.hyper
        )
        along = rows["weights"] * np.asarray(gradients @ direction)
        picked = rng.choice(len(along), (batches, S), p=chances)
        noise.append(along[picked].mean(axis=1) - chances @ along)
    expected = direction @ plan.noise_cov.dense(plan.dim) @ direction / S
    return np.concatenate(noise) / np.sqrt(max(float(expected), np.finfo(float).tiny))


def _noise_cov(post: Posterior, rows: PyTree, thetas: Vector, anchor: Vector, order: int) -> Vector:
    """Covariance of the rows' gradients, anchored or plain, averaged over several parameters."""
    if _is_noiseless(post, order):
        return np.zeros((len(anchor), len(anchor)))

    def block(rows: PyTree, present: Vector) -> PyTree:
        points = jnp.asarray(thetas)
        return _gradient_sums(post.model, order, anchor, points, rows, post.hyper, present)

    total, outer = sum_over_blocks(rows, max(64, block_rows(post) // 4), block)
    means = total / num_rows(rows)
    return outer / (num_rows(rows) * len(thetas)) - means.T @ means / len(thetas)


@partial(jax.jit, static_argnums=(0, 1))
def _gradient_sums(
    model: Model,
    order: int,
    anchor: Array,
    thetas: Array,
    rows: PyTree,
    hyper: PyTree,
    present: Array,
) -> tuple[Array, Array]:
    """Per parameter: sum of gradients; over all parameters: weighted sum of outer products."""
    weights = present * rows["weights"] if order else present

    def one(outer: Array, theta: Array) -> tuple[Array, Array]:
        gradients = anchored_gradients(model, order, theta, anchor, rows["rows"], hyper)
        return outer + (gradients * weights[:, None]).T @ gradients, present @ gradients

    dim = thetas.shape[1]
    outer, totals = jax.lax.scan(one, jnp.zeros((dim, dim), thetas.dtype), thetas)
    return totals, outer


def _some_rows(post: Posterior, plan: Plan, count: int) -> PyTree:
    """Rows in double precision with their weights; random ones where they exceed the count."""
    index = np.arange(post.num_data)
    if post.num_data > count:
        index = np.sort(np.random.default_rng(0).choice(post.num_data, count, replace=False))
    rows = jax.tree.map(lambda leaf: leaf[index], post.data)
    weights = np.ones(len(index))
    if plan.anchor is not None and plan.anchor.multiplicity is not None:
        weights = weights_of(plan.anchor.multiplicity)[index]
    return cast({"rows": rows, "weights": weights}, np.float64)
