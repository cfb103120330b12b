"""The posterior's optimum, to high accuracy, in float64.

Newton's method, made safe away from convexity by taking eigenvalues' absolute values; L-BFGS
where the Hessian of all rows takes long or does not fit, in units in which a sampled Hessian, or
its approximation by factors, is the identity. A search that begins far away first goes to
the optimum of the sample.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize

from ornstein._base.errors import OptimumError
from ornstein._base.precision import double_precision
from ornstein._base.trees import cast, in_double, num_rows
from ornstein._base.types import Array, PyTree, Vector
from ornstein.curvature import factored
from ornstein.curvature.estimation import block_rows, chosen_rows
from ornstein.data.passes import sum_over_blocks
from ornstein.linalg.operators import BasisRoot, Dense, Diagonal, Factor, dim_of
from ornstein.models.contract import Model, per_example
from ornstein.models.posterior import Posterior

MAX_DENSE = 2000
"""Largest number of parameters for which dense matrices are the default."""

MAX_WIDTH = 4000
"""Largest number of columns whose Gram matrix is made, for Kronecker factors."""

MAX_CLASS_NUMBERS = 2**25
"""Most numbers in the matrices of all classes together: 256 MiB, and some times that to make."""

_TOLERANCE = 1e-12  # squared distance to the optimum in posterior standard deviations
_STALLED = 1e-4  # the same, where rounding allows no better
_ITERATIONS = 200
_CHEAP = 2e9  # multiplications of a Hessian that may be computed at every step
_SOME_ROWS = 50_000  # rows whose Hessian gives the units of a long search
_UNIT_ROWS = 10_000  # rows whose Kronecker factors do
_LONGEST = 400  # iterations in the same units
_UNWHITENED = 5000  # the same, of parameters as they are
_REWHITEN = 25  # iterations after which those units are looked up again
_SINGLE = 0.1  # tolerance of searches in single precision, and how often they are tried
_SINGLE_TRIES = 3
_COARSEST = 0.5  # of a posterior standard deviation
_OUTSIDE = 4.0  # times the squared distance at which a sample's optimum is expected to lie
_SAMPLE_TRIES = 8
_THOUSANDTH = 1e-3  # of a posterior standard deviation
_HUNDREDTH = 1e-2


class _Local(NamedTuple):
    """Mean loss with its gradient and Hessian."""

    loss: float
    gradient: Vector
    hessian: Vector


def fits_factors(model: Model) -> bool:
    """Whether Kronecker factors fit where a matrix of all parameters does not."""
    predictors = model.factored
    return predictors is not None and predictors.outputs > 1 and predictors.width <= MAX_WIDTH


def large_structures(model: Model) -> tuple[str, ...]:
    """Structures that fit where a matrix of all parameters does not, the nearest to it first."""
    predictors = model.factored
    if predictors is None or not fits_factors(model):
        return ("diagonal",)
    numbers = predictors.outputs * predictors.width**2
    if predictors.balanced and numbers <= MAX_CLASS_NUMBERS:
        return ("classes", "kronecker", "diagonal")
    return ("kronecker", "diagonal")


def find_optimum(post: Posterior, slack: float = 1.0) -> Vector:
    """The flat parameters that maximise the posterior density.

    To rounding by Newton's method where the Hessian of all rows is cheap; else to a thousandth of
    a posterior standard deviation, or a hundredth where the Hessian does not fit, times ``slack``;
    at most half of one. From a tenth, single precision will do.

    Raises
    ------
    OptimumError
        If the search does not converge, or ends where the loss has no strict minimum.
    """
    with double_precision():
        if post.dim > MAX_DENSE and fits_factors(post.model):
            return _rewhitened(post, _kronecker_units, _HUNDREDTH * slack)
        if post.dim > MAX_DENSE:
            identity = Diagonal(np.ones(()))
            return _lbfgs(post, identity, 1e-9 * post.num_data, _UNWHITENED, post.start)[0]
        if post.quadratic or post.num_data * post.dim**2 <= _CHEAP:
            return _newton(post)
        return _rewhitened(post, _dense_units, _THOUSANDTH * slack)


def _newton(post: Posterior) -> Vector:
    theta, here = post.start, _look(post, post.start)
    if not np.isfinite(here.loss) or not np.all(np.isfinite(here.gradient)):
        raise _not_finite()
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
        theta, here = _descend(post, theta, here, direction, decrement)
    raise _no_end()


def _look(post: Posterior, theta: Vector) -> _Local:
    return _Local(*_loss_and_gradient(post, theta), _hessian(post, post.data, theta))


def _descend(
    post: Posterior, theta: Vector, here: _Local, direction: Vector, decrement: float
) -> tuple[Vector, _Local]:
    """The longest halved step that lowers the loss, and the view from there."""
    step = 1.0
    # Below rounding error of the loss, the decrement alone decides.
    slack = 1e-14 * abs(here.loss)
    while step >= 1e-12:
        trial = theta + step * direction
        loss, gradient = _loss_and_gradient(post, trial)
        if loss <= here.loss - 1e-4 * step * decrement + slack:
            known = here.hessian if post.quadratic else _hessian(post, post.data, trial)
            return trial, _Local(loss, gradient, known)
        step /= 2
    raise _no_minimum(post, here)


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


def _scaled_eigen(hessian: Vector) -> tuple[Vector, Vector]:
    """Eigenvalues of the Hessian scaled by its diagonal, and its vectors in parameter space."""
    scale = 1 / np.sqrt(np.maximum(np.abs(np.diag(hessian)), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(hessian * scale[:, None] * scale)
    return values, scale[:, None] * vectors


def _newton_direction(here: _Local) -> tuple[Vector, float]:
    """``-|A|^-1 g`` and A's smallest eigenvalue, scaled by A's diagonal."""
    values, scaled = _scaled_eigen(here.hessian)
    floor = 1e-14 * np.abs(values).max()
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


def _rewhitened(
    post: Posterior,
    look: Callable[[Posterior, PyTree, Vector], Dense | BasisRoot],
    tolerance: float,
) -> Vector:
    """L-BFGS in the posterior's own units, about, which are looked up again now and then."""
    wanted = _UNIT_ROWS if look is _kronecker_units else max(_SOME_ROWS, 50 * post.dim)
    index = np.sort(chosen_rows(post, min(post.num_data, wanted), 0))
    rows = jax.tree.map(lambda leaf: leaf[index], post.data)
    theta, units, tolerance = post.start, post.units, min(tolerance, _COARSEST)
    known = units is not None  # from more rows than are looked at here
    if not known and look is _dense_units:
        theta, units = _on_sample(post, rows, theta)
    for attempt in range(_ITERATIONS):
        units = look(post, rows, theta) if units is None else units
        iterations = _REWHITEN * (2 ** (attempt + known) if look is _kronecker_units else 1)
        single = tolerance >= _SINGLE and attempt < _SINGLE_TRIES and not post.on_disk
        search = partial(_lbfgs, post, units, tolerance, min(iterations, _LONGEST))
        theta, settled = search(theta, single=single)
        if settled and single:  # by slopes that are off where columns lie far from zero
            theta, settled = search(theta)
        if settled:
            return theta
        units = None
    raise _no_end()


def _on_sample(post: Posterior, rows: PyTree, theta: Vector) -> tuple[Vector, Dense]:
    """Where to begin: at the optimum of a sample, if that is nearer; and the units there.

    It lies about ``D N / n`` squared posterior standard deviations from that of all rows.
    """
    units, share = _dense_units(post, rows, theta), post.num_data / num_rows(rows)
    inside = _OUTSIDE * share * post.dim
    if share == 1 or not (
        _away(post, units, theta, rows) > inside and _away(post, units, theta) > inside
    ):
        return theta, units
    there, seen = theta, units
    for _ in range(_SAMPLE_TRIES):
        there, settled = _lbfgs(post, seen, math.sqrt(share), _REWHITEN, there, rows)
        seen = _dense_units(post, rows, there)
        if settled:
            return there, seen
    return theta, units


def _away(post: Posterior, units: Dense, theta: Vector, rows: PyTree = None) -> float:
    """Squared distance to the optimum of all rows or some, in posterior standard deviations."""
    _, gradient = _loss_and_gradient(post, theta, rows)
    return float(np.sum(np.square(post.num_data * np.asarray(units.rmatvec(gradient)))))


def _dense_units(post: Posterior, rows: PyTree, theta: Vector) -> Dense:
    values, scaled = _scaled_eigen(_hessian(post, rows, theta))
    sizes = np.maximum(np.abs(values), 1e-8 * np.abs(values).max())
    return Dense(scaled / np.sqrt(post.num_data * sizes))


def _kronecker_units(post: Posterior, rows: PyTree, theta: Vector) -> BasisRoot:
    basis = factored.fit_basis(post, theta, rows)
    sums = factored.diagonals(post, theta, basis, rows)
    precision = np.asarray(post.model.prior_hessian_diagonal(jnp.asarray(theta), post.hyper))
    prior = basis.prior(precision)
    hessian = per_example(sums.hessian, num_rows(rows), prior, post.num_data)
    return BasisRoot(basis, 1 / np.sqrt(post.num_data * hessian))


def _lbfgs(
    post: Posterior,
    units: Factor,
    tolerance: float,
    iterations: int,
    start: Vector,
    rows: PyTree = None,
    single: bool = False,
) -> tuple[Vector, bool]:
    """Minimise N times the mean loss in given units; whether no slope exceeds the tolerance.

    Of all rows, or of some. In ``single`` precision, a search that leaves its range ends where it
    began.
    """
    N = post.num_data

    def objective(z: Vector) -> tuple[float, Vector]:
        theta = start + np.asarray(units.matvec(z))
        loss, gradient = _loss_and_gradient(post, theta, rows, single)
        return N * loss, N * np.asarray(units.rmatvec(gradient))

    found = scipy.optimize.minimize(
        objective,
        np.zeros(dim_of(units) or post.dim),
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": iterations,
            "maxfun": 2 * iterations,
            "ftol": 0.0,
            "gtol": tolerance,
            "maxcor": 30,
        },
    )
    if not np.all(np.isfinite(found.x)):
        if single:
            return start, False
        raise _not_finite()
    return start + np.asarray(units.matvec(found.x)), bool(np.abs(found.jac).max() <= tolerance)


def _no_end() -> OptimumError:
    return OptimumError(
        f"No optimum after {_ITERATIONS} Newton steps. If the loss falls without end the "
        "posterior is improper: give every parameter a proper prior. Else start from another init."
    )


def _not_finite() -> OptimumError:
    return OptimumError(
        "The loss is not finite at init. Choose another init, or check the log-likelihood."
    )


def _loss_and_gradient(
    post: Posterior, theta: Vector, rows: PyTree = None, single: bool = False
) -> tuple[float, Vector]:
    """Of the mean loss of all rows or some; their blocks in ``single`` precision, or in double."""
    N, dtype = post.num_data, np.float32 if single else np.float64
    data = post.data if rows is None else rows
    flat, hyper = jnp.asarray(theta, dtype), cast(post.hyper, dtype) if single else post.hyper

    def block(rows: PyTree, weights: Vector) -> PyTree:
        here = cast(rows, dtype) if single else in_double(rows)
        return _first_order(post.model, flat, here, hyper, jnp.asarray(weights, dtype))

    totals = sum_over_blocks(data, block_rows(post), block)
    prior = [np.asarray(value) for value in _prior(post.model, jnp.asarray(theta), post.hyper)]
    used = num_rows(data)
    loss, gradient = (per_example(t, used, p, N) for t, p in zip(totals, prior, strict=True))
    return float(loss), gradient


def _hessian(post: Posterior, data: PyTree, theta: Vector) -> Vector:
    flat = jnp.asarray(theta)

    def block(rows: PyTree, weights: Vector) -> Array:
        here = in_double(rows)
        return _second_order(post.model, flat, here, post.hyper, weights)

    total = sum_over_blocks(data, block_rows(post), block)
    prior = np.asarray(_prior_hessian(post.model, flat, post.hyper))
    return per_example(total, num_rows(data), prior, post.num_data)


@partial(jax.jit, static_argnums=(0,))
def _first_order(
    model: Model, theta: Array, rows: PyTree, hyper: PyTree, weights: Array
) -> tuple[Array, Array]:
    loss = jnp.sum(weights * model.losses(theta, rows, hyper), dtype=jnp.float64)
    return loss, model.gradient_sum(theta, rows, hyper, weights).astype(jnp.float64)


@partial(jax.jit, static_argnums=(0,))
def _second_order(model: Model, theta: Array, rows: PyTree, hyper: PyTree, weights: Array) -> Array:
    return model.hessian_sum(theta, rows, hyper, weights)


@partial(jax.jit, static_argnums=(0,))
def _prior(model: Model, theta: Array, hyper: PyTree) -> tuple[Array, Array]:
    return model.prior_loss(theta, hyper), model.prior_gradient(theta, hyper)


@partial(jax.jit, static_argnums=(0,))
def _prior_hessian(model: Model, theta: Array, hyper: PyTree) -> Array:
    return model.prior_hessian(theta, hyper)
