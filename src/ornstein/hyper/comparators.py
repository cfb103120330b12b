"""What learning is compared with: MacKay's evidence, and cross-validation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.types import Key, PyTree, Vector
from ornstein.curvature.geometry import Geometry
from ornstein.curvature.optimum import find_optimum
from ornstein.curvature.row_sums import joint_losses, row_losses
from ornstein.hyper.expectation import closed_score, counted_rows, look
from ornstein.models.posterior import Posterior


@dataclass(frozen=True)
class Evidence:
    """Hyperparameters of the largest Laplace evidence.

    Attributes
    ----------
    values
        The hyperparameters.
    log_evidence
        ``log p(y | hyper)`` by Laplace's approximation; exact for linear regression.
    well_determined
        ``gamma`` of every group of parameters: how many the data determine.
    iterations, converged
        Steps of the fixed point, and whether they came to rest.
    posterior
        The posterior at these values, starting at its optimum.
    """

    values: PyTree
    log_evidence: float
    well_determined: Vector
    iterations: int
    converged: bool
    posterior: Posterior


def evidence(
    post: Posterior,
    start: PyTree | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 500,
) -> Evidence:
    """MacKay's fixed point: ``lambda = gamma / |theta*|^2``, ``sigma^2 = RSS / (N - gamma)``.

    Parameters
    ----------
    post
        A ready-made model.
    start
        Hyperparameters to start from; the posterior's own if not given.
    tolerance
        Relative change of the hyperparameters at which to stop.
    max_iterations
        Steps, at most.

    Examples
    --------
    >>> import ornstein as orn
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 8))
    >>> y = X @ rng.normal(size=8) + 0.5 * rng.normal(size=500)
    >>> found = orn.evidence(orn.models.linear(X, y))
    >>> round(float(found.values["noise_scale"]), 4), bool(found.converged)
    (0.5056, True)
    """
    known = post.learnable
    if known.ties is None:
        raise InputError(
            "evidence knows the ready-made models only; use ornstein.learn with moments='plan', "
            "which maximises the same for any model."
        )
    tolerance = checks.positive("tolerance", tolerance)
    if start is not None:
        post = post.with_hyper(start)
    eta, converged = known.to_real(post.hyperparameters), False
    iterations = 0
    while not converged and iterations < checks.whole("max_iterations", max_iterations):
        iterations += 1
        post = post.with_hyper(known.host_values(eta))
        post, seen = look(post)
        gamma, update = _mackay(post, seen)
        converged = bool(np.abs(update - eta).max() <= tolerance)
        eta = eta if converged else update
    return Evidence(
        values=post.hyperparameters,
        log_evidence=log_evidence(post, seen),
        well_determined=gamma,
        iterations=iterations,
        converged=converged,
        posterior=post,
    )


def _mackay(post: Posterior, seen: Geometry) -> tuple[Vector, Vector]:
    """``gamma`` of every group, and the next hyperparameters on the log scale."""
    ties = post.learnable.ties
    assert ties is not None
    precision = np.asarray(post.hyper["prior_precision"], float)
    left = precision * seen.calibrated_covariance.variances(post.dim)
    member = np.arange(ties.precisions)[:, None] == ties.groups[None]
    gamma = member @ (1 - left)
    with np.errstate(divide="ignore"):
        update = np.log(gamma / (member @ seen.center**2))
    if ties.noise:
        rows = counted_rows(post)
        squares = closed_score(post, seen).value[0] + rows
        scale = float(post.hyper["noise_scale"])
        variance = squares * scale**2 / (rows - float((1 - left).sum()))
        update = np.concatenate([[0.5 * math.log(variance)], update])
    return gamma, update


def log_evidence(post: Posterior, seen: Geometry) -> float:
    """Laplace's ``log p(y) = log p(y, theta*) + D/2 log 2 pi - 1/2 log|N A|``."""
    joint = -float(joint_losses(post, seen.center[None])[0])
    return joint + 0.5 * (post.dim * math.log(2 * math.pi) - seen.logdet)


@dataclass(frozen=True)
class CrossValidation:
    """Held-out losses of the MAP estimate over a grid.

    Attributes
    ----------
    grid
        Hyperparameters tried.
    losses
        Mean held-out ``-log p(y_n | theta*)`` of each, per row.
    errors
        Their standard errors over the folds.
    best
        The values with the smallest loss.
    """

    grid: tuple[PyTree, ...]
    losses: Vector
    errors: Vector
    best: PyTree


def cross_validate(
    post: Posterior, grid: Sequence[PyTree], folds: int = 5, key: Key = 0
) -> CrossValidation:
    """K-fold cross-validation of the optimum over a grid of hyperparameters.

    Parameters
    ----------
    post
        A posterior with hyperparameters.
    grid
        Hyperparameters to try.
    folds
        Parts the rows are cut into.
    key
        Shuffles the rows.

    Examples
    --------
    >>> import ornstein as orn
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 8))
    >>> post = orn.models.logistic(X, X[:, 0] + rng.normal(size=60) > 0)
    >>> grid = [{"prior_precision": p} for p in (0.01, 10.0, 10000.0)]
    >>> orn.cross_validate(post, grid).best
    {'prior_precision': array(10.)}
    """
    folds = checks.whole("folds", folds, low=2, high=post.num_data, why="the number of rows")
    if not len(grid):
        raise InputError("grid is empty; give some hyperparameters to try.")
    tried = tuple(post.learnable.checked("grid", values) for values in grid)
    seed = np.asarray(jax.random.key_data(checks.random_key(key))).tolist()
    order = np.random.default_rng(seed).permutation(post.num_data)
    parts = [np.sort(part) for part in np.array_split(order, folds)]
    losses = np.empty((folds, len(tried)))
    for fold, held in enumerate(parts):
        rest = post.with_rows(np.sort(np.concatenate(parts[:fold] + parts[fold + 1 :])))
        losses[fold] = _held_out_losses(rest, post.with_rows(held), tried)
    means = losses.mean(axis=0)
    errors = losses.std(axis=0, ddof=1) / math.sqrt(folds)
    return CrossValidation(tried, means, errors, tried[int(np.argmin(means))])


def _held_out_losses(post: Posterior, held_out: Posterior, grid: Sequence[PyTree]) -> Vector:
    """Held-out losses of the optimum; each search starts where the last one ended."""
    losses = np.empty(len(grid))
    for place, values in enumerate(grid):
        post = at_optimum(post.with_hyper(values))
        losses[place] = mean_loss(held_out, post)
    return losses


def at_optimum(post: Posterior) -> Posterior:
    """The posterior, its ``start`` at its optimum."""
    return post.with_hyper(post.hyperparameters, post.layout.unravel(find_optimum(post)))


def mean_loss(rows: Posterior, post: Posterior) -> float:
    """Mean ``-log p(y_n | theta)`` over some rows, theta being where another posterior starts."""
    there = rows.with_hyper(post.hyperparameters)
    return float(row_losses(there, post.start[None])[0]) / there.num_data
