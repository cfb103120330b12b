"""The optimum and the Hessian there: Laplace's answer, the reference, and where rivals start.

Quicker than Newton's method on all rows from afar: Newton on a hundredth and on a tenth of the
rows leads close to the optimum, where one Hessian of all rows serves several steps.
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import ornstein as orn
from benchmarks.clock import twice
from ornstein._base.types import Array, PyTree, Vector
from ornstein.curvature.optimum import find_optimum
from ornstein.curvature.row_sums import block_rows
from ornstein.data.passes import sum_over_blocks
from ornstein.models.contract import Model

_TOLERANCE = 1e-8  # squared distance to the optimum in posterior standard deviations
_ROWS_PER_PARAMETER = 10  # least rows of a subset that is worth a search
_STEPS = 100


@dataclass(frozen=True)
class Fit:
    """The Gaussian at the optimum, and what it cost."""

    center: Vector
    precision: Vector
    """``N A``."""
    optimum_seconds: float
    hessian_seconds: float
    compile_seconds: float | None
    """None where compilation is part of the other two."""

    @property
    def seconds(self) -> float:
        """Optimum and Hessian together."""
        return self.optimum_seconds + self.hessian_seconds

    @property
    def cov(self) -> Vector:
        """``(N A)^-1``."""
        return np.linalg.inv(self.precision)

    @property
    def factor(self) -> Vector:
        """W with ``W W' = (N A)^-1``."""
        return np.linalg.inv(np.linalg.cholesky(self.precision)).T


def fit(post: orn.Posterior) -> Fit:
    """Find the optimum and the Hessian there."""
    with jax.enable_x64(True):
        optimum = twice(lambda: _chord(post, _near(post)))
        hessian = twice(lambda: _hessian(post, optimum.result))
    apart = (optimum.compile_seconds, hessian.compile_seconds)
    return Fit(
        center=optimum.result,
        precision=hessian.result,
        optimum_seconds=optimum.seconds,
        hessian_seconds=hessian.seconds,
        compile_seconds=None if None in apart else sum(apart),
    )


def _near(post: orn.Posterior) -> Vector:
    """The optimum of growing subsets of the rows."""
    theta = post.start
    order = np.random.default_rng(0).permutation(post.num_data)
    for rows in (post.num_data // 100, post.num_data // 10):
        if rows >= _ROWS_PER_PARAMETER * post.dim:
            some = np.sort(order[:rows])
            data = jax.tree.map(lambda leaf, some=some: leaf[some], post.data)
            part = orn.Posterior.of_model(
                post.model, post.log_likelihood, post.log_prior, data, post.hyper, post.names
            )
            part.init = post.layout.unravel(theta)
            theta = find_optimum(part)
    return theta


def _chord(post: orn.Posterior, theta: Vector) -> Vector:
    """Newton's method on all rows, its Hessian renewed only where steps stop shrinking."""
    H = _hessian(post, theta)
    last = np.inf
    for _ in range(_STEPS):
        gradient = _derivative("gradient", post, theta)
        direction = np.linalg.solve(H, gradient)
        decrement = float(gradient @ direction)
        if decrement < _TOLERANCE:
            return theta
        if decrement > 0.5 * last:
            H = _hessian(post, theta)
            direction = np.linalg.solve(H, gradient)
        last = decrement
        theta = theta - direction
    raise RuntimeError(f"No optimum after {_STEPS} steps; the last decrement was {last:.2g}.")


def _hessian(post: orn.Posterior, theta: Vector) -> Vector:
    H = _derivative("hessian", post, theta)
    return 0.5 * (H + H.T)


def _derivative(name: str, post: orn.Posterior, theta: Vector) -> Vector:
    """Gradient or Hessian of ``-log p(theta | data)``, the rows taken in blocks."""
    flat = jnp.asarray(theta)

    def part(rows: PyTree, weights: Vector) -> Array:
        return _rows_part(name, post.model, flat, rows, post.hyper, weights)

    prior = getattr(post.model, f"prior_{name}")(flat, post.hyper)
    return sum_over_blocks(post.data, block_rows(post), part) + np.asarray(prior)


@partial(jax.jit, static_argnums=(0, 1))
def _rows_part(
    name: str, model: Model, theta: Array, rows: PyTree, hyper: PyTree, weights: Array
) -> Array:
    return getattr(model, f"{name}_sum")(theta, rows, hyper, weights)
