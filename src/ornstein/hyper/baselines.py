"""What learning is compared with: MacKay's evidence, and cross-validation over a grid."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.types import Key, PyTree, Vector
from ornstein.curvature.geometry import Geometry
from ornstein.curvature.row_sums import joint_losses, row_losses
from ornstein.hyper.expectation import at_optimum, closed_score, counted_rows, geometry_at_optimum
from ornstein.models.hyperparameters import Ties
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
        ``gamma`` of every group of parameters: how many of them the data determine.
    iterations, converged
        Steps of the fixed point, and whether they converged.
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
    post: Posterior, start: PyTree | None = None, tolerance: float = 1e-6, max_iterations: int = 500
) -> Evidence:
    """MacKay's fixed point: ``lambda = gamma / |theta*|^2``, ``sigma^2 = RSS / (N - gamma)``.

    Parameters
    ----------
    post
        A ready-made model's posterior.
    start
        Hyperparameters to start from; the posterior's own if not given.
    tolerance
        Relative change of the hyperparameters at which to stop.
    max_iterations
        Largest number of steps.

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
    learnable, ties = post.learnable, post.learnable.ties
    if ties is None:
        raise InputError(
            "evidence supports ready-made models only; use ornstein.learn with moments='plan', "
            "which maximises the same evidence for any model."
        )
    tolerance = checks.positive("tolerance", tolerance)
    if start is not None:
        post = post.with_hyper(start)
    limit = checks.whole("max_iterations", max_iterations)
    eta, converged, iterations = learnable.to_real(post.hyperparameters), False, 0
    while not converged and iterations < limit:
        iterations += 1
        post, geometry = geometry_at_optimum(post.with_hyper(learnable.host_values(eta)))
        gamma, update = _update(post, ties, geometry)
        converged = bool(np.abs(update - eta).max() <= tolerance)
        eta = update
    return Evidence(
        values=post.hyperparameters,
        log_evidence=log_evidence(post, geometry),
        well_determined=gamma,
        iterations=iterations,
        converged=converged,
        posterior=post,
    )


def _update(post: Posterior, ties: Ties, geometry: Geometry) -> tuple[Vector, Vector]:
    """``gamma`` of every group, and the next hyperparameters on the log scale."""
    precision = np.asarray(post.hyper["prior_precision"], float)
    left = precision * geometry.calibrated_covariance.variances(post.dim)
    gamma = ties.members @ (1 - left)
    with np.errstate(divide="ignore", invalid="ignore"):
        update = np.log(gamma / (ties.members @ geometry.center**2))
    if ties.noise:
        rows = counted_rows(post)
        squares = closed_score(post, ties, geometry).value[0] + rows
        scale = float(post.hyper["noise_scale"])
        variance = squares * scale**2 / (rows - float((1 - left).sum()))
        update = np.concatenate([[0.5 * math.log(variance)], update])
    return gamma, update


def log_evidence(post: Posterior, geometry: Geometry) -> float:
    """Laplace's ``log p(y) = log p(y, theta*) + D/2 log 2 pi - 1/2 log|N A|``."""
    joint = -float(joint_losses(post, geometry.center[None])[0])
    return joint + 0.5 * (post.dim * math.log(2 * math.pi) - geometry.logdet)


@dataclass(frozen=True)
class CrossValidation:
    """Held-out losses of the MAP estimate over a grid.

    Attributes
    ----------
    grid
        The hyperparameters tried.
    losses
        Mean held-out ``-log p(y_n | theta*)`` per row, for each.
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
        Number of parts the rows are split into.
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
        raise InputError("grid is empty; give at least one set of hyperparameters.")
    tried = tuple(post.learnable.checked("grid", values) for values in grid)
    seed = np.asarray(jax.random.key_data(checks.random_key(key))).tolist()
    order = np.random.default_rng(seed).permutation(post.num_data)
    parts = [np.sort(part) for part in np.array_split(order, folds)]
    losses = np.empty((folds, len(tried)))
    for fold, held_out in enumerate(parts):
        kept = post.with_rows(np.sort(np.concatenate(parts[:fold] + parts[fold + 1 :])))
        for place, values in enumerate(tried):  # each search starts at the last one's optimum
            kept = at_optimum(kept.with_hyper(values))
            losses[fold, place] = mean_loss(post.with_rows(held_out), kept)
    means = losses.mean(axis=0)
    errors = losses.std(axis=0, ddof=1) / math.sqrt(folds)
    return CrossValidation(tried, means, errors, tried[int(np.argmin(means))])


def mean_loss(rows: Posterior, post: Posterior) -> float:
    """Mean ``-log p(y_n | theta)`` over some rows, at the start of another posterior."""
    there = rows.with_hyper(post.hyperparameters)
    return float(row_losses(there, post.start[None])[0]) / there.num_data
