"""Steps towards the hyperparameters at which the mean score vanishes.

Newton's, with Louis's information, where the evidence is concave; where it is not, as far from
the optimum, a stride as long as is allowed. Each hyperparameter has an allowance of its own, which
doubles while it keeps its direction and shrinks when it turns.
"""

from typing import NamedTuple

import numpy as np

from ornstein._base.types import Vector

_FIRST = 4.0  # allowance on the unconstrained scale
_MOST = 8.0
_NOTHING = 1e-30
_DEFINED = 1e-3
_CONCAVE = 1e-9  # relative to the information of rows and parameters together


class Climb(NamedTuple):
    """Where the last step went, and how far the next may go."""

    last: Vector
    allowed: Vector

    @classmethod
    def start(cls, count: int) -> "Climb":
        """No step made."""
        return cls(np.zeros(count), np.full(count, _FIRST))

    def step(self, score: Vector, information: Vector, scale: Vector) -> tuple[Vector, "Climb"]:
        """The next step; ``scale`` is the diagonal of the complete information."""
        wanted = _newton(score, information, scale)
        turned = wanted * self.last < 0
        pressed = (wanted * self.last > 0) & (np.abs(wanted) > self.allowed)
        allowed = np.where(pressed, np.minimum(2 * self.allowed, _MOST), self.allowed)
        allowed = np.where(turned, 0.5 * np.abs(self.last), allowed)
        step = np.clip(wanted, -allowed, allowed)
        return step, Climb(step, np.maximum(allowed, 1e-3))


def _units(scale: Vector) -> Vector:
    """Roots of the complete information, 1 where there is none."""
    size = np.abs(scale)
    return np.sqrt(np.where(size > _NOTHING, size, 1.0))


def _newton(score: Vector, information: Vector, scale: Vector) -> Vector:
    """Along eigenvectors of the information: Newton's step, or a long one where it is negative."""
    root = _units(scale)
    values, vectors = np.linalg.eigh(information / root[:, None] / root)
    along = vectors.T @ (score / root)
    concave = values > _CONCAVE
    safe = np.where(concave, values, 1.0)
    lengths = np.where(concave, along / safe, 2 * _MOST * np.sign(along) * root.max())
    step: Vector = (vectors @ lengths) / root
    return step


def corrected(information: Vector, step: Vector, fall: Vector) -> Vector:
    """Information that explains by how much the score fell along the last step.

    By a symmetric update of rank one; as it is where that would be ill-defined. What it corrects
    is the part that comes from q's own covariance moving.

    Examples
    --------
    >>> corrected(np.eye(2), np.array([1.0, 0.0]), np.array([2.0, 0.0])).tolist()
    [[2.0, 0.0], [0.0, 1.0]]
    """
    missing = fall - information @ step
    along = float(missing @ step)
    if abs(along) <= _DEFINED * float(np.linalg.norm(missing) * np.linalg.norm(step)):
        return information
    return information + np.outer(missing, missing) / along


def distance(score: Vector, information: Vector, scale: Vector) -> float:
    """Length of Newton's step in the hyperparameters' own posterior standard deviations.

    ``sqrt(s' I^-1 s)``: half its square is the gain in log evidence the step would bring.
    Infinite where the evidence is not concave and not flat.
    """
    root = _units(scale)
    values, vectors = np.linalg.eigh(information / root[:, None] / root)
    along = vectors.T @ (score / root)
    concave = values > _CONCAVE
    if (np.abs(along[~concave]) > 1e-6 * np.maximum(1.0, root.max())).any():
        return float("inf")
    return float(np.sqrt((along[concave] ** 2 / values[concave]).sum()))


def covariance(information: Vector, scale: Vector) -> Vector:
    """Inverse of the information; flat directions are cut off at the complete information."""
    root = _units(scale)
    values, vectors = np.linalg.eigh(information / root[:, None] / root)
    scaled = vectors / root[:, None]
    return (scaled / np.maximum(values, _CONCAVE)) @ scaled.T
