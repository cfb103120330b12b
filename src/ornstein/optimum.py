"""The posterior's optimum, to high accuracy, in float64.

Newton's method with exact Hessians, made safe away from convexity by taking eigenvalues'
absolute values; L-BFGS where a dense Hessian does not fit.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize

from ornstein._check import OptimumError
from ornstein._tree import cast, sum_over_blocks
from ornstein._types import Array, PyTree, Vector
from ornstein.geometry import block_rows
from ornstein.model import Model, per_example
from ornstein.posterior import Posterior

MAX_DENSE = 2000
"""Largest number of parameters for which dense matrices are the default."""

_TOLERANCE = 1e-12  # squared distance to the optimum in posterior standard deviations
_STALLED = 1e-4  # the same, where rounding allows no better
_ITERATIONS = 200


class _Local(NamedTuple):
    """Mean loss with its gradient and Hessian."""

    loss: float
    gradient: Vector
    hessian: Vector


def find_optimum(post: Posterior) -> Vector:
    """The flat parameters that maximise the posterior density.

    Raises
    ------
    OptimumError
        If the search does not converge, or ends where the loss has no strict minimum.
    """
    data = cast(post.data, np.float64)
    search = _newton if post.dim <= MAX_DENSE else _lbfgs
    with jax.enable_x64(True):
        return search(post, data)


def _newton(post: Posterior, data: PyTree) -> Vector:
    theta = post.start
    here = _evaluate(post, data, theta, dense=True)
    if not np.isfinite(here.loss) or not np.all(np.isfinite(here.gradient)):
        raise OptimumError(
            "The loss is not finite at init. Choose another init, or check the log-likelihood."
        )
    units = np.sqrt(np.maximum(np.abs(np.diag(here.hessian)), np.finfo(float).tiny))
    last_step = last_decrement = np.inf
    for _ in range(_ITERATIONS):
        direction, smallest = _newton_direction(here)
        decrement = float(-here.gradient @ direction)
        length = float(np.linalg.norm(units * direction))
        # Near an optimum steps shrink quadratically, or stall where rounding ends; those of a loss
        # that falls for ever do neither, small as its decrements get.
        converged = post.num_data * decrement <= _TOLERANCE and length <= 0.1 * last_step
        moved = float(np.linalg.norm(units * theta))
        stalled = post.num_data * decrement <= _STALLED and length <= 1e-6 * moved
        if smallest > 0 and (converged or (stalled and decrement > 0.1 * last_decrement)):
            _refuse_flat(post, here, units, theta - post.start)
            return theta + direction
        last_step, last_decrement = length, decrement
        step = 1.0
        while True:
            trial = theta + step * direction
            there = _evaluate(post, data, trial, dense=True)
            # Below rounding error of the loss, the decrement alone decides.
            slack = 1e-14 * abs(here.loss)
            if there.loss <= here.loss - 1e-4 * step * decrement + slack:
                break
            step /= 2
            if step < 1e-12:
                raise _no_minimum(post, here)
        theta, here = trial, there
    raise OptimumError(
        f"No optimum after {_ITERATIONS} Newton steps. If the loss falls without end the "
        "posterior is improper: give every parameter a proper prior. Else start from another init."
    )


def _refuse_flat(post: Posterior, here: _Local, units: Vector, moved: Vector) -> None:
    """Raise where the search ran out to where the loss has lost its curvature."""
    curvature = np.diag(here.hessian)
    deviation = 1 / np.sqrt(post.num_data * curvature)
    flat = (curvature < 1e-8 * units**2) & (deviation > 1e3 * np.abs(moved))
    if flat.any():
        worst = post.labels[int(np.argmax(deviation * flat))]
        raise OptimumError(
            f"The loss falls without end along {worst}: the posterior is improper there. Give "
            "every parameter a proper prior."
        )


def _newton_direction(here: _Local) -> tuple[Vector, float]:
    """``-|A|^-1 g`` and A's smallest eigenvalue, scaled by A's diagonal."""
    scale = 1 / np.sqrt(np.maximum(np.abs(np.diag(here.hessian)), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(here.hessian * scale[:, None] * scale)
    floor = 1e-14 * np.abs(values).max()
    scaled = scale[:, None] * vectors
    direction = -scaled @ ((scaled.T @ here.gradient) / np.maximum(np.abs(values), floor))
    return direction, float(values.min())


def _no_minimum(post: Posterior, here: _Local) -> OptimumError:
    scale = 1 / np.sqrt(np.maximum(np.abs(np.diag(here.hessian)), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(here.hessian * scale[:, None] * scale)
    worst = post.labels[int(np.argmax(np.abs(vectors[:, 0])))]
    return OptimumError(
        f"The search stopped where the loss has no strict minimum (smallest relative curvature "
        f"{values[0]:.2g}, mostly along {worst}). Check that the log-likelihood is smooth and "
        "the prior proper, or start from another init."
    )


def _lbfgs(post: Posterior, data: PyTree) -> Vector:
    def objective(theta: Vector) -> tuple[float, Vector]:
        here = _evaluate(post, data, theta, dense=False)
        return here.loss, here.gradient

    found = scipy.optimize.minimize(
        objective,
        post.start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 5000, "maxfun": 10_000, "ftol": 0.0, "gtol": 1e-9, "maxcor": 30},
    )
    if not np.all(np.isfinite(found.x)):
        raise OptimumError("The loss is not finite near init. Choose another init.")
    return np.asarray(found.x, float)


def _evaluate(post: Posterior, data: PyTree, theta: Vector, dense: bool) -> _Local:
    flat = jnp.asarray(theta)

    def block(rows: PyTree, weights: Vector) -> PyTree:
        return _block(post.model, dense, flat, rows, post.hyper, weights)

    totals = sum_over_blocks(data, block_rows(post), block)
    prior = [np.asarray(value) for value in _prior(post.model, dense, flat, post.hyper)]
    N = post.num_data
    loss, gradient, hessian = (per_example(t, N, p, N) for t, p in zip(totals, prior, strict=True))
    return _Local(float(loss), gradient, hessian)


@partial(jax.jit, static_argnums=(0, 1))
def _block(
    model: Model, dense: bool, theta: Array, rows: PyTree, hyper: PyTree, weights: Array
) -> tuple[Array, Array, Array]:
    loss = weights @ model.losses(theta, rows, hyper)
    gradient = model.gradient_sum(theta, rows, hyper, weights)
    hessian = model.hessian_sum(theta, rows, hyper, weights) if dense else jnp.zeros(())
    return loss, gradient, hessian


@partial(jax.jit, static_argnums=(0, 1))
def _prior(model: Model, dense: bool, theta: Array, hyper: PyTree) -> tuple[Array, Array, Array]:
    hessian = model.prior_hessian(theta, hyper) if dense else jnp.zeros(())
    return model.prior_loss(theta, hyper), model.prior_gradient(theta, hyper), hessian
