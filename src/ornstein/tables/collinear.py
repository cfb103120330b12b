"""Columns that others nearly determine, and the prior that lets their differences speak.

What separates such columns is small, so that coefficients which use it are large: one precision
for all either shrinks them away or lets all others loose. The evidence chooses.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ornstein._base.errors import OrnsteinError
from ornstein._base.types import Vector
from ornstein.hyper.baselines import Evidence, evidence
from ornstein.models.posterior import Posterior

NEARLY = "nearly collinear"
"""The group of their precision; :data:`OTHERS` is that of all other columns."""

OTHERS = "others"

_SHARE = 0.01  # of a column's variance that others leave unexplained, below which it is one
_EXACT = 1e-10  # share that rounding explains: the prior alone tells such columns apart
_BETTER = 3.0  # nats by which a second precision must pay for itself
_ROWS = 2**16  # at once, of a table that may be large
_STEPS = 100
_CLOSE = 1e-3


def nearly_collinear(X: Vector) -> tuple[int, ...]:
    """The columns of a table of which others leave less than 1 % of the variance unexplained.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b, c = rng.normal(size=(3, 500))
    >>> nearly_collinear(np.column_stack([a, b, a + 0.01 * c]))
    (0, 2)
    """
    return tuple(np.flatnonzero(_unexplained(X) < _SHARE).tolist())


def _unexplained(X: Vector) -> Vector:
    """The share of every column's variance that the others leave; 1 where they say nothing of it.

    Columns that are determined but for rounding count as 1, too.
    """
    centre, gram = X.mean(axis=0, dtype=float), np.zeros((X.shape[1], X.shape[1]))
    for start in range(0, len(X), _ROWS):
        some = X[start : start + _ROWS] - centre
        gram += some.T @ some / len(X)
    scale = np.sqrt(np.diag(gram))
    units = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(gram / units[:, None] / units)
    seen = values > _EXACT
    left = 1 / np.maximum(vectors[:, seen] ** 2 @ (1 / values[seen]), 1.0)
    loose = np.sum(vectors[:, ~seen] ** 2, axis=1) > 1e-3
    return np.where(loose | (scale == 0), 1.0, left)


def chosen(
    post: Posterior, grouped: Posterior | None, X: Vector, columns: tuple[int, ...]
) -> Posterior:
    """One precision or two, by the evidence; started where that has its highest peak.

    ``grouped`` is the same posterior with a precision of their own for these ``columns``; None
    where there are no others.
    """
    least = float(np.min(_unexplained(X)[list(columns)]))
    found = list(_peaks(post, ({}, {"prior_precision": np.asarray(least)})))
    best = max(found, key=_height, default=None)
    if grouped is not None:
        pair = [least, 1.0] if 0 in columns else [1.0, least]
        for other in _peaks(grouped, ({"prior_precision": np.asarray(pair)},)):
            if best is None or _height(other) > _height(best) + _BETTER:
                return grouped.with_hyper(other.values)
    return post if best is None else post.with_hyper(best.values)


def groups(features: int, columns: tuple[int, ...]) -> list[str]:
    """A label for every column."""
    return [NEARLY if i in columns else OTHERS for i in range(features)]


def _peaks(post: Posterior, starts: Sequence[Mapping[str, Any]]) -> Iterator[Evidence]:
    """Where the evidence leads from several starts, as far as it leads anywhere."""
    for start in starts:
        with suppress(OrnsteinError, ValueError, np.linalg.LinAlgError):
            found = evidence(post, {**post.hyperparameters, **start}, _CLOSE, _STEPS)
            if np.isfinite(found.log_evidence):
                yield found


def _height(found: Evidence) -> float:
    return found.log_evidence
