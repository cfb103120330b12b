"""The posterior's optimum, to high accuracy, in float64.

Newton's method, made safe away from convexity by taking eigenvalues' absolute values; L-BFGS
where the Hessian of all rows takes long or does not fit, in units in which a structure's estimate
of it from some rows is the identity. A search that begins far away first goes to the optimum of
those rows.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from ornstein._base.errors import OptimumError
from ornstein._base.precision import double_precision
from ornstein._base.trees import num_rows
from ornstein._base.types import PyTree, Vector
from ornstein.curvature.row_sums import chosen_rows, loss_and_gradient, mean_hessian
from ornstein.curvature.structures import STRUCTURES
from ornstein.curvature.structures.contract import SearchUnits, Structure
from ornstein.linalg.eigen import scaled_eigh
from ornstein.linalg.operators import IDENTITY, Factor
from ornstein.models.posterior import Posterior

_TOLERANCE = 1e-12  # squared distance to the optimum in posterior standard deviations
_STALLED = 1e-4  # the same, where rounding allows no better
_ITERATIONS = 200
_CHEAP = 2e9  # multiplications of a Hessian that may be computed at every step
_LONGEST = 400  # iterations in the same units
_WITHOUT_UNITS = 5000  # the same, of parameters as they are
_RENEWED = 25  # iterations after which units are found again
_SINGLE = 0.1  # tolerance of searches in single precision, and how often they are tried
_SINGLE_TRIES = 3
_COARSEST = 0.5  # of a posterior standard deviation
_OUTSIDE = 4.0  # times the squared distance at which a sample's optimum is expected to lie
_SAMPLE_TRIES = 8
_FLOOR = 1e-14  # of the largest eigenvalue, below which a direction of Newton's step is cut off
_LEAST = np.finfo(float).tiny  # a curvature where there is none


class _Local(NamedTuple):
    """Mean loss with its gradient and Hessian."""

    loss: float
    gradient: Vector
    hessian: Vector


def find_optimum(post: Posterior, slack: float = 1.0) -> Vector:
    """The flat parameters that maximise the posterior density.

    To rounding by Newton's method where the Hessian of all rows is cheap; else to a thousandth of
    a posterior standard deviation, or a hundredth where the Hessian does not fit, times ``slack``;
    at most half of one. From a tenth on, single precision will do.

    Raises
    ------
    OptimumError
        If the search does not converge, or ends where the loss has no strict minimum.
    """
    structure = next((s for s in STRUCTURES.values() if s.search and s.fits(post)), None)
    with double_precision():
        if structure is None or structure.search is None:
            tolerance = 1e-9 * post.num_data
            return _lbfgs(post, IDENTITY, tolerance, _WITHOUT_UNITS, post.start)[0]
        cheap = post.quadratic or post.num_data * post.dim**2 <= _CHEAP
        if cheap and not structure.approximate:
            return _newton(post)
        return _in_units(post, structure, structure.search, slack)


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
    raise _no_end("Newton steps")


def _look(post: Posterior, theta: Vector) -> _Local:
    return _Local(*loss_and_gradient(post, theta), mean_hessian(post, post.data, theta))


def _descend(
    post: Posterior, theta: Vector, here: _Local, direction: Vector, decrement: float
) -> tuple[Vector, _Local]:
    """The longest halved step that lowers the loss, and the view from there."""
    step = 1.0
    # Below rounding error of the loss, the decrement alone decides.
    slack = 1e-14 * abs(here.loss)
    while step >= 1e-12:
        trial = theta + step * direction
        loss, gradient = loss_and_gradient(post, trial)
        if loss <= here.loss - 1e-4 * step * decrement + slack:
            same = here.hessian if post.quadratic else mean_hessian(post, post.data, trial)
            return trial, _Local(loss, gradient, same)
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


def _newton_direction(here: _Local) -> tuple[Vector, float]:
    """``-|A|^-1 g`` and A's smallest eigenvalue, scaled by A's diagonal."""
    found = scaled_eigh(here.hessian)
    directions, sizes = found.directions, np.abs(found.values)
    along = (directions.T @ here.gradient) / np.maximum(sizes, max(_FLOOR * sizes.max(), _LEAST))
    return -directions @ along, float(found.values.min())


def _no_minimum(post: Posterior, here: _Local) -> OptimumError:
    values, vectors, _ = scaled_eigh(here.hessian)
    worst = post.labels[int(np.argmax(np.abs(vectors[:, 0])))]
    return OptimumError(
        f"The search stopped where the loss has no strict minimum (smallest relative curvature "
        f"{values[0]:.2g}, mostly along {worst}). Check that the log-likelihood is smooth and "
        "the prior proper, or start from another init."
    )


def _in_units(post: Posterior, structure: Structure, search: SearchUnits, slack: float) -> Vector:
    """L-BFGS in the posterior's own units, about, which are found again now and then."""
    wanted = max(search.rows, search.rows_per_parameter * post.dim)
    index = np.sort(chosen_rows(post, min(post.num_data, wanted), 0))
    rows = jax.tree.map(lambda leaf: leaf[index], post.data)
    theta, units = post.start, post.units
    tolerance = min(search.tolerance * slack, _COARSEST)
    given = units is not None  # from more rows than are used here
    if not given and search.by_sample:
        theta, units = _by_sample(post, structure, rows, theta)
    for attempt in range(_ITERATIONS):
        units = structure.units(post, rows, theta) if units is None else units
        iterations = _RENEWED * (2 ** (attempt + given) if search.patient else 1)
        single = tolerance >= _SINGLE and attempt < _SINGLE_TRIES and not post.on_disk
        descend = partial(_lbfgs, post, units, tolerance, min(iterations, _LONGEST))
        theta, settled = descend(theta, single=single)
        if settled and single:  # by slopes that are off where columns lie far from zero
            theta, settled = descend(theta)
        if settled:
            return theta
        units = None
    raise _no_end("searches by L-BFGS")


def _by_sample(
    post: Posterior, structure: Structure, rows: PyTree, theta: Vector
) -> tuple[Vector, Factor]:
    """Where to begin: at the optimum of a sample, if that is nearer; and the units there.

    It lies about ``D N / n`` squared posterior standard deviations from that of all rows.
    """
    units, share = structure.units(post, rows, theta), post.num_data / num_rows(rows)
    inside = _OUTSIDE * share * post.dim
    if share == 1 or not (
        _away(post, units, theta, rows) > inside and _away(post, units, theta) > inside
    ):
        return theta, units
    there, renewed = theta, units
    for _ in range(_SAMPLE_TRIES):
        there, settled = _lbfgs(post, renewed, math.sqrt(share), _RENEWED, there, rows)
        renewed = structure.units(post, rows, there)
        if settled:
            return there, renewed
    return theta, units


def _away(post: Posterior, units: Factor, theta: Vector, rows: PyTree = None) -> float:
    """Squared distance to the optimum of all rows or some, in posterior standard deviations."""
    _, gradient = loss_and_gradient(post, theta, rows)
    return float(np.sum(np.square(post.num_data * np.asarray(units.rmatvec(gradient)))))


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
        loss, gradient = loss_and_gradient(post, theta, rows, single)
        return N * loss, N * np.asarray(units.rmatvec(gradient))

    from scipy.optimize import minimize  # takes long to import

    found = minimize(
        objective,
        np.zeros(units.coordinates(post.dim)),
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


def _no_end(kind: str) -> OptimumError:
    return OptimumError(
        f"No optimum was found after {_ITERATIONS} {kind}. If the loss falls without end the "
        "posterior is improper: give every parameter a proper prior. Otherwise start from another "
        "init."
    )


def _not_finite() -> OptimumError:
    return OptimumError(
        "The loss is not finite at init. Choose another init, or check the log-likelihood."
    )
