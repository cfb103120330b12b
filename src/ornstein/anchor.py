"""Control variates (X9): gradient noise when gradients are anchored at the optimum.

With ``g(anchor) + 1/S sum (grad l_n(theta) - grad l_n(anchor))`` for the minibatch gradient, the
noise vanishes at the anchor and grows away from it. T2 stays exact with its mean over the
posterior, which is of order D/S where that of plain gradients is N/S: mixing takes a few steps,
however many rows there are.
"""

import math
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from ornstein import theory
from ornstein._check import random_key
from ornstein._tree import blocks, cast, num_rows
from ornstein._types import Array, Key, PyTree, Vector
from ornstein.geometry import Geometry, block_rows, chosen_rows, mean_gradient
from ornstein.model import Model, Spread
from ornstein.operators import as_operator
from ornstein.posterior import Posterior

_DIRECTIONS = 32  # of points around the anchor, for models without closed forms
_WORK = 2e10  # multiplications spent on looking at the rows; beyond, they are sampled
_STEP_ROWS = 200  # rows that take as long as a step's fixed cost, on a processor
_KURTOSIS = 0.3  # what the rows' leverages may leave in the draws
_KICK = 2.0  # how far the strongest row may throw the chain, in its distance from the anchor


@dataclass(frozen=True)
class Anchor:
    """What anchored gradients leave of the noise.

    Attributes
    ----------
    slope
        Gradient of ``-log p(theta | data)`` at the anchor.
    noise_cov
        Covariance over rows of ``grad l_n(theta) - grad l_n(anchor)``, averaged over the draws.
    strongest, row
        ``N`` times the leverage of the strongest row, and which it is.
    fourth
        Mean over rows of the fourth power of ``N`` times the leverage.
    """

    slope: Vector
    noise_cov: Vector
    strongest: float
    row: int
    fourth: float


def anchor(
    post: Posterior, known: Geometry, cov: Vector, rows: int | None = None, key: Key = 0
) -> Anchor:
    """Look at anchored gradients over a Gaussian of covariance ``cov`` around the optimum."""
    N, model = post.num_data, post.model
    points = _points(known.center, cov, key)
    closed_form = type(model).deviation_sums is not Model.deviation_sums
    work = post.dim**2 * (1 if closed_form else len(points))
    rows = min(N if rows is None else rows, max(1000, int(_WORK / work)))
    index = None if rows == N else chosen_rows(post, rows, key)
    data = post.data if index is None else jax.tree.map(lambda leaf: leaf[index], post.data)
    outer, kicks = np.zeros_like(cov), []
    with jax.enable_x64(True):
        spread = Spread(*(jnp.asarray(array) for array in (known.center, cov, points)))
        for block, weights in blocks(data, block_rows(post)):
            here = cast(block, np.float64)
            total, kick = _sums(model, spread, here, post.hyper, jnp.asarray(weights))
            outer = outer + np.asarray(total)
            kicks.append(np.asarray(kick)[weights > 0])
    leverage = N * np.sqrt(np.maximum(np.concatenate(kicks), 0.0))
    strongest = int(np.argmax(leverage))
    # The mean over rows of the deviations is the likelihood's share of A, times the distance.
    likelihood = known.hessian - known.prior_hessian
    noise = outer / num_rows(data) - likelihood @ cov @ likelihood
    return Anchor(
        slope=N * (known.gradient if known.rows_used == N else mean_gradient(post, known.center)),
        noise_cov=0.5 * (noise + noise.T),
        strongest=float(leverage[strongest]),
        row=strongest if index is None else int(index[strongest]),
        fourth=float(np.mean(leverage**4)),
    )


def batch_size(known: Geometry, anchored: Anchor) -> tuple[int, int]:
    """Rows for the quickest draws, and the fewest that the strongest row leaves safe.

    A step costs as much as ``S + 200`` rows and mixes in ``1 + n / 2S`` steps, n the largest
    eigenvalue of ``N C`` relative to A. A row of leverage h comes in a batch with probability S/N
    and then moves the chain by about ``N h / S`` of its distance from the anchor; where such rows
    point the same way, they leave an excess kurtosis of ``3 E[(N h)^4] / S^3`` in the draws.
    """
    N = known.num_data
    _, relative = theory.joint_diagonalisation(known.hessian, N * anchored.noise_cov)
    quick = math.sqrt(_STEP_ROWS * max(0.0, float(relative[-1])) / 2)
    safe = max(anchored.strongest / _KICK, (3 * anchored.fourth / _KURTOSIS) ** (1 / 3))
    most = max(1, N // 4)
    rounded = 16 * math.ceil(max(quick, safe, 1) / 16)
    return min(rounded, most), math.ceil(safe)


def _points(center: Vector, cov: Vector, key: Key) -> Vector:
    """Pairs of opposite points around the centre with the covariance's second moments."""
    dim = len(center)
    seed = np.asarray(jax.random.key_data(random_key(key))).tolist()
    normal = np.random.default_rng(seed).normal(size=(dim, min(dim, _DIRECTIONS)))
    directions = np.linalg.qr(normal)[0] * math.sqrt(dim)
    offsets = np.asarray(as_operator(cov).sqrt().matvec(directions.T))
    return np.concatenate([center + offsets, center - offsets])


@partial(jax.jit, static_argnums=(0,))
def _sums(
    model: Model, spread: Spread, rows: PyTree, hyper: PyTree, weights: Array
) -> tuple[Array, Array]:
    return model.deviation_sums(spread, rows, hyper, weights)
