"""Cross-validation of the optimum over a grid of hyperparameters."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.types import Key, PyTree, Vector
from ornstein.curvature.row_sums import row_losses
from ornstein.hyper.expectation import at_optimum
from ornstein.models.posterior import Posterior


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
    for fold, held in enumerate(parts):
        rest = post.with_rows(np.sort(np.concatenate(parts[:fold] + parts[fold + 1 :])))
        losses[fold] = _held_out_losses(rest, post.with_rows(held), tried)
    means = losses.mean(axis=0)
    errors = losses.std(axis=0, ddof=1) / math.sqrt(folds)
    return CrossValidation(tried, means, errors, tried[int(np.argmin(means))])


def _held_out_losses(post: Posterior, held_out: Posterior, grid: Sequence[PyTree]) -> Vector:
    """Held-out losses of the optimum; each search starts at the last one's optimum."""
    losses = np.empty(len(grid))
    for place, values in enumerate(grid):
        post = at_optimum(post.with_hyper(values))
        losses[place] = mean_loss(held_out, post)
    return losses


def mean_loss(rows: Posterior, post: Posterior) -> float:
    """Mean ``-log p(y_n | theta)`` over some rows, at the start of another posterior."""
    there = rows.with_hyper(post.hyperparameters)
    return float(row_losses(there, post.start[None])[0]) / there.num_data
