"""Steps towards the hyperparameters at which the mean score vanishes.

Newton's step, with Louis's information, where the evidence is concave; where it is not, as far
from the optimum, the longest step allowed. Each hyperparameter has its own bound, which doubles
while the direction stays and shrinks when it reverses.
"""

from typing import NamedTuple

import numpy as np

from ornstein._base.types import Vector
from ornstein.hyper.expectation import Expectation, closed_information, closed_step
from ornstein.linalg.eigen import Eigen, scaled_eigh
from ornstein.models.posterior import Posterior

_FIRST = 4.0  # bound of a first step on the unconstrained scale
_MOST = 8.0  # and of any step
_LEAST = 1e-3  # below which bounds do not shrink
_NOTHING = 1e-30  # information below which a hyperparameter has no scale
_DEFINED = 1e-3  # smallest cosine between step and missing score for a rank-one update
_CONCAVE = 1e-9  # smallest positive curvature, relative to the complete information
_FLAT = 1e-6  # largest score along a direction without curvature


class StepBounds(NamedTuple):
    """The last step, and how far the next may go."""

    last: Vector
    allowed: Vector

    @classmethod
    def first(cls, count: int) -> "StepBounds":
        """Before any step."""
        return cls(np.zeros(count), np.full(count, _FIRST))

    def step(
        self, score: Vector, information: Vector, scale: Vector
    ) -> tuple[Vector, "StepBounds"]:
        """The next step; ``scale`` is the diagonal of the complete information."""
        wanted = _newton(score, information, scale)
        turned = wanted * self.last < 0
        pressed = (wanted * self.last > 0) & (np.abs(wanted) > self.allowed)
        allowed = np.where(pressed, np.minimum(2 * self.allowed, _MOST), self.allowed)
        allowed = np.where(turned, 0.5 * np.abs(self.last), allowed)
        step = np.clip(wanted, -allowed, allowed)
        return step, StepBounds(step, np.maximum(allowed, _LEAST))


def next_step(
    post: Posterior, bounds: StepBounds, expected: Expectation, score: Vector, ascent: str
) -> tuple[Vector, StepBounds]:
    """Newton's step on the evidence, or the M-step of variational EM.

    Where the M-step has a closed form, Newton's method is applied to it instead of the score: it is
    nearly linear in ``eta``, so fewer steps are needed from a distant start.
    """
    ties = post.learnable.ties
    if ascent == "em":
        if ties is not None:
            return closed_step(post, ties, score), bounds
        return bounds.step(score, expected.complete, expected.scale)
    if ties is not None:
        complete = np.maximum(closed_information(post, ties, score), 0.0)
        score = complete * closed_step(post, ties, score)
    return bounds.step(score, expected.information, expected.scale)


def _eigen(information: Vector, scale: Vector) -> Eigen:
    """Scaled by the roots of the complete information, by 1 where there is none."""
    size = np.abs(scale)
    return scaled_eigh(information, 1 / np.sqrt(np.where(size > _NOTHING, size, 1.0)))


def _newton(score: Vector, information: Vector, scale: Vector) -> Vector:
    """Newton's step along eigenvectors of positive information; a long one along the others."""
    eigen = _eigen(information, scale)
    along, concave = eigen.directions.T @ score, eigen.values > _CONCAVE
    safe = np.where(concave, eigen.values, 1.0)
    longest = 2 * _MOST * np.sign(along) / eigen.scale.min()
    return eigen.directions @ np.where(concave, along / safe, longest)


def secant_information(information: Vector, step: Vector, fall: Vector) -> Vector:
    """The information updated to explain by how much the score fell along the last step.

    A symmetric update of rank one, skipped where it is ill-defined. It adds what the information
    leaves out: that q's covariance changes with the hyperparameters.

    Examples
    --------
    >>> secant_information(np.eye(2), np.array([1.0, 0.0]), np.array([2.0, 0.0])).tolist()
    [[2.0, 0.0], [0.0, 1.0]]
    """
    missing = fall - information @ step
    along = float(missing @ step)
    if abs(along) <= _DEFINED * float(np.linalg.norm(missing) * np.linalg.norm(step)):
        return information
    return information + np.outer(missing, missing) / along


def step_length(score: Vector, information: Vector, scale: Vector) -> float:
    """Length of Newton's step in the hyperparameters' own posterior standard deviations.

    ``sqrt(s' I^-1 s)``: half its square is the gain in log evidence the step would bring.
    Infinite where the evidence is not concave and not flat.
    """
    eigen = _eigen(information, scale)
    along, concave = eigen.directions.T @ score, eigen.values > _CONCAVE
    if (np.abs(along[~concave]) > _FLAT * np.maximum(1.0, 1 / eigen.scale.min())).any():
        return float("inf")
    return float(np.sqrt((along[concave] ** 2 / eigen.values[concave]).sum()))


def covariance(information: Vector, scale: Vector) -> Vector:
    """Inverse of the information; flat directions are cut off at the complete information."""
    eigen = _eigen(information, scale)
    return (eigen.directions / np.maximum(eigen.values, _CONCAVE)) @ eigen.directions.T
