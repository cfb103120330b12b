"""The diagonals of A and C by parameter, or their mean: correlations are ignored."""

from functools import partial
from typing import NoReturn

import jax
import numpy as np

from ornstein._base.errors import InputError
from ornstein._base.types import Array, Key, PyTree, Vector
from ornstein.curvature import row_sums
from ornstein.curvature.deviations import Deviations
from ornstein.curvature.geometry import Geometry
from ornstein.curvature.products import of_model
from ornstein.curvature.structures.contract import RowSums, Structure, find
from ornstein.linalg.bases import Basis, as_flat
from ornstein.linalg.operators import Diagonal, Operator
from ornstein.models.contract import Model
from ornstein.models.posterior import Posterior


class DiagonalStructure(Structure):
    """One number per parameter."""

    name = "diagonal"
    words = "on diagonals"
    anchored = False

    def fits(self, post: Posterior) -> bool:
        del post
        return True

    def suits(self, geometry: Geometry) -> bool:
        return geometry.structure in ("dense", "diagonal")

    def held(self, post: Posterior) -> Structure:
        """Matrices where they fit, so that a diagonal gain's error is predicted."""
        dense = find("dense")
        return dense if dense.fits(post) else find("diagonal")

    def sums(
        self, post: Posterior, theta: Vector, rows: PyTree, basis: Basis | None, with_noise: bool
    ) -> tuple[None, RowSums]:
        del basis, with_noise
        if post.model.factored is None:
            return None, RowSums(*row_sums.second_order(post, theta, rows, dense=False))
        total = row_sums.of_predictors(post, rows, partial(_diagonals, post.model), theta)
        gradient, *along = total
        predictors = post.model.factored
        return None, RowSums(gradient, *(np.asarray(as_flat(predictors, part)) for part in along))

    def prior(self, post: Posterior, theta: Vector, basis: Basis | None) -> tuple[Vector, Vector]:
        del basis
        return row_sums.prior_terms(post, theta, dense=False)

    def operator(self, array: Vector, basis: Basis | None) -> Diagonal:
        del basis
        return Diagonal(array)

    def refuse_anchors(self) -> NoReturn:
        """How far draws are from an anchor depends on correlations."""
        raise InputError(
            "control_variates need the dense curvature, to know how far draws are from the "
            "anchor; use structure='dense' if its matrices fit memory, or leave them out."
        )

    def deviations(
        self, post: Posterior, geometry: Geometry, cov: Operator, key: Key, order: int = 1
    ) -> Deviations:
        del post, geometry, cov, key, order
        self.refuse_anchors()


class ScalarStructure(DiagonalStructure):
    """One number for all parameters, the mean of the diagonal."""

    name = "scalar"
    words = "as one number"

    def operator(self, array: Vector, basis: Basis | None) -> Diagonal:
        del basis
        return Diagonal(np.asarray(np.mean(array)))


class SquareRootStructure(DiagonalStructure):
    """Gains by the roots of the noise's diagonal, as AdaGrad and RMSProp have them."""

    name = "sqrt"
    words = "by square roots"
    estimated = False


@partial(jax.jit, static_argnums=(0,))
def _diagonals(
    model: Model, theta: Array, rows: PyTree, hyper: PyTree, present: Array
) -> tuple[Array, Array, Array]:
    """Of linear predictors, by output and column: no row's gradient is made."""
    predictors = of_model(model)
    squares = predictors.design(rows, theta.dtype) ** 2
    residual = predictors.residuals(theta, rows, hyper) * present[:, None]
    curvature = predictors.curvatures(theta, rows, hyper).diagonal(axis1=1, axis2=2)
    curvature = curvature * present[:, None]
    total = model.gradient_sum(theta, rows, hyper, present)
    return total, (residual**2).T @ squares, curvature.T @ squares
